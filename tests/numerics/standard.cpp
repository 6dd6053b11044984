// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/standard.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>

namespace attune::test {
namespace {

using Int = std::int64_t;

/// What fills a tensor: the call's dims, the tensor's own extents.
struct Filler {
  const Call& call;
  std::vector<Int> shape;
  bool hostile;
  std::mt19937& random;

  Int dim(const char* name) const { return call.dims.at(name); }
  Int uniform(Int lo, Int hi) const { return std::uniform_int_distribution<Int>(lo, std::max(lo, hi))(random); }
  /// Now and then something that no program asks for.
  Int spoil(Int value, Int limit) const {
    if (!hostile || uniform(0, 3) != 0) return value;
    const Int list[] = {-1,
                        limit,
                        limit + 5,
                        -limit - 3,
                        std::numeric_limits<std::int32_t>::max(),
                        std::numeric_limits<std::int32_t>::min()};
    return list[uniform(0, 5)];
  }
};

/// Sorted ends of `count` stretches that fill 0..total, from 0 on; some are empty.
std::vector<Int> ends(const Filler& f, Int count, Int total) {
  std::vector<Int> out{0};
  for (Int k = 1; k < count; ++k) out.push_back(f.uniform(0, total));
  out.push_back(total);
  std::sort(out.begin(), out.end());
  return out;
}

/// A tree per batch entry: parents come before their children; a node is its own ancestor.
void fill_ancestors(const Filler& f, Data& data) {
  const Int nodes = f.shape[1];
  std::vector<std::vector<bool>> seen(static_cast<std::size_t>(nodes),
                                      std::vector<bool>(static_cast<std::size_t>(nodes)));
  for (Int b = 0; b < f.shape[0]; ++b) {
    for (Int i = 0; i < nodes; ++i) {
      auto& row = seen[static_cast<std::size_t>(i)];
      if (i > 0 && f.uniform(0, 5) != 0)
        row = seen[static_cast<std::size_t>(f.uniform(0, i - 1))];
      else
        row.assign(row.size(), false);
      row[static_cast<std::size_t>(i)] = true;
    }
    for (Int i = 0; i < nodes; ++i)
      for (Int j = 0; j < nodes; ++j)
        store_integer(data.ref.data, data.ref.dtype, (b * nodes + i) * nodes + j,
                      f.hostile ? f.uniform(0, 1) : seen[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)]);
  }
}

/// Every page at most once; places behind the last page of a batch entry hold -1.
void fill_pages(const Filler& f, Data& data) {
  std::vector<Int> pages(static_cast<std::size_t>(f.dim("P")));
  for (std::size_t k = 0; k < pages.size(); ++k) pages[k] = static_cast<Int>(k);
  std::shuffle(pages.begin(), pages.end(), f.random);
  const TensorRef len = f.call.input("len").ref;
  std::size_t next = 0;
  for (Int b = 0; b < f.shape[0]; ++b)
    for (Int r = 0; r < f.shape[1]; ++r) {
      const bool used = r * f.dim("C") < load_integer(len.data, len.dtype, b) && next < pages.size();
      store_integer(data.ref.data, data.ref.dtype, b * f.shape[1] + r, f.spoil(used ? pages[next++] : -1, f.dim("P")));
    }
}

void fill_each(Data& data, const std::function<Int(Int)>& value) { data.fill_integers(value); }

void fill_integers(const std::string& name, const Filler& f, Data& data) {
  if (name == "len") {
    const Int places = f.call.dims.contains("P") ? f.dim("R") * f.dim("C") : f.dim("N");
    return fill_each(data, [&](Int) { return f.spoil(f.uniform(0, places), places); });
  }
  if (name == "prefix") return fill_each(data, [&](Int) { return f.spoil(f.uniform(0, f.dim("N")), f.dim("N")); });
  if (name == "start" || name == "end") {
    // The keys of row i end near i N / M; some rows see nothing.
    const Int m = std::max<Int>(1, f.dim("M")), n = f.dim("N");
    return fill_each(data, [&](Int i) {
      const Int at =
          name == "start" ? std::max<Int>(0, i * n / m - 4) : std::min<Int>(n, i * n / m + 5 - (i % 11 == 3 ? 20 : 0));
      return f.spoil(at, n);
    });
  }
  if (name == "doc" || name == "region") {
    Int at = 0;
    return fill_each(data, [&](Int) { return f.spoil(at += f.uniform(0, 6) == 0, 3); });
  }
  if (name == "table") return fill_pages(f, data);
  if (name == "ancestor") return fill_ancestors(f, data);
  if (name == "cu_q" || name == "cu_k") {
    const Int total = f.dim(name == "cu_q" ? "M" : "N");
    auto places = ends(f, f.shape[0] - 1, total);
    return fill_each(data, [&](Int k) { return f.spoil(places[static_cast<std::size_t>(k)], total); });
  }
  if (data.ref.dtype == DType::boolean) return fill_each(data, [&](Int) { return f.uniform(0, 1); });
  if (data.ref.dtype == DType::i8) return fill_each(data, [&](Int) { return f.uniform(-128, 127); });
  throw std::logic_error("no values are known for `" + name + "`");
}

void fill_floats(const std::string& name, const Filler& f, Data& data) {
  auto each = [&](auto&& value) {
    for (Int k = 0; k < data.ref.element_count(); ++k) store_element(data.ref.data, data.ref.dtype, k, value(k));
  };
  std::normal_distribution<double> normal;
  if (name == "step_k" || name == "step_v")
    each([&](Int) { return (1 + std::abs(normal(f.random))) / (f.call.input("K").ref.dtype == DType::i8 ? 90 : 1.5); });
  else if (name == "log_forget")
    each([&](Int) { return -0.1 * std::abs(normal(f.random)); });
  else if (name == "cosine" || name == "sine")
    each([&](Int k) {
      const Int pairs = f.shape[1];
      const double angle =
          static_cast<double>(k / pairs) * std::pow(1e4, -static_cast<double>(k % pairs) / static_cast<double>(pairs));
      return name == "cosine" ? std::cos(angle) : std::sin(angle);
    });
  else
    data.fill_normal(f.random);
}

/// Dims beyond those of the case.
void own_dims(const std::string& name, std::map<std::string, Int>& dims, bool hostile) {
  const Int m = dims["M"], n = dims["N"], d = dims["D"];
  auto blocks = [&](Int tokens, Int size) { return std::max<Int>(0, (tokens + size - 1) / size - (hostile ? 1 : 0)); };
  if (name == "block_diffusion") dims["S"] = m;
  if (name == "t5_bias" || name == "t5_bias_causal") dims["R"] = 16;
  if (name == "hstu") dims["R"] = 6;
  if (name == "rope" || name == "rope_interleaved") dims["C"] = d % 3 == 0 ? d / 3 : d / 2;  // a part, or all of it
  if (name == "mla") dims["E"] = std::min(dims["E"], d);
  if (name == "block_mask") dims["R"] = blocks(m, 7), dims["C"] = blocks(n, 7);
  if (name == "ragged") dims["C"] = 5;
  if (name == "swin" || name == "sam") {
    Int columns = 1;
    while (columns * columns < n) ++columns;
    dims["C"] = 2 * columns - 1;
    dims["R"] = 2 * std::max<Int>(1, (n + columns - 1) / columns) - 1;
    dims["W"] = 2;
  }
  if (name == "paged") {
    dims["C"] = 5;
    dims["R"] = (n + 4) / 5;
    dims["P"] = dims["R"] * dims["B"] + 2;
  }
}

Argument scalar_for(const std::string& program, const std::string& name, const std::map<std::string, Int>& dims) {
  if (name == "width") {
    Int columns = 1;
    while (columns * columns < dims.at("N")) ++columns;
    return {name, columns};
  }
  const std::map<std::string, Int> integers = {{"W", 7}, {"R", 3}, {"seed", 0x123456789abcdef}};
  if (auto at = integers.find(name); at != integers.end()) return {name, at->second};
  if (program == "mla" && name == "scale") return {name, 0.3};
  throw std::logic_error("no value is known for `" + name + "`");
}

/// Defaults that are too large for small sizes.
const std::map<std::string, std::pair<const char*, Int>>& smaller() {
  static const std::map<std::string, std::pair<const char*, Int>> list = {
      {"chunked", {"C", 11}}, {"block_diffusion", {"C", 5}}, {"natten2d", {"size", 3}}, {"block_mask", {"size", 7}}};
  return list;
}

}  // namespace

Case shape(Int b, Int h, Int g, Int m, Int n, Int d, Int e) {
  return {{{"B", b}, {"H", h}, {"G", g}, {"M", m}, {"N", n}, {"D", d}, {"E", e}}};
}

bool depends_on_data(const tensor::Program& bound) {
  return std::any_of(bound.tensors.begin(), bound.tensors.end(), [](const tensor::Tensor& t) {
    return t.type.dtype == DType::i32 || t.type.dtype == DType::i64 || t.type.is_bool();
  });
}

Data& Call::input(const std::string& name) const {
  for (std::size_t k = 0; k < inputs.size(); ++k)
    if (arguments[k].name == name) return *inputs[k];
  throw std::logic_error("no input is called `" + name + "`");
}

Data Call::result(const tensor::Tensor& declared) const {
  std::vector<Int> extents;
  for (const auto& extent : declared.extents) extents.push_back(evaluate_extent(extent, sizes));
  return Data(declared.type.dtype, extents);
}

Call standard_call(const std::string& name, const tensor::Program& bound, const Case& c, bool hostile,
                   std::mt19937& random) {
  Call call;
  call.dims = c.dims;
  own_dims(name, call.dims, hostile);
  for (const Sym& dim : bound.dims) call.sizes.dims[dim] = call.dims.at(dim.text());
  for (const auto& t : bound.tensors) {
    call.inputs.push_back(std::make_unique<Data>(call.result(t)));
    call.arguments.emplace_back(t.sym.text(), call.inputs.back()->ref);
  }
  // Those that others are made from come first: `table` looks at `len`.
  for (const bool late : {false, true})
    for (std::size_t k = 0; k < call.inputs.size(); ++k) {
      const std::string& input = call.arguments[k].name;
      if ((input == "table" && call.dims.contains("P")) != late) continue;
      Data& data = *call.inputs[k];
      const Filler filler{call, data.ref.shape, hostile, random};
      if (is_float(data.ref.dtype))
        fill_floats(input, filler, data);
      else
        fill_integers(input, filler, data);
    }
  for (const auto& scalar : bound.scalars) {
    const auto small = smaller().find(name);
    if (small != smaller().end() && scalar.sym.text() == small->second.first)
      call.arguments.emplace_back(scalar.sym.text(), small->second.second);
    else if (!scalar.default_value)
      call.arguments.push_back(scalar_for(name, scalar.sym.text(), call.dims));
  }
  // A dim that no tensor's own axis fixes is given; one that they fix must agree.
  for (const Sym& dim : bound.dims) call.arguments.emplace_back(dim.text(), call.dims.at(dim.text()));
  return call;
}

}  // namespace attune::test
