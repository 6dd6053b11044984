// SPDX-License-Identifier: Apache-2.0
// One interpreted call: memory of the buffers, then the nests one after the other, task by task.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "backend/interpreter/domain.hpp"
#include "backend/interpreter/interpreter.hpp"
#include "loop/print.hpp"

namespace attune::interpreter {
namespace {

/// More elements than this in one tile or temporary are a mistake of sizes, not work for an interpreter.
constexpr std::int64_t element_limit = std::int64_t{1} << 31;

/// The product of extents; a fault where one is negative or the product is beyond the limit.
std::int64_t element_count(const std::vector<std::int64_t>& extents, const std::string& what) {
  std::int64_t count = 1;
  for (const std::int64_t extent : extents) {
    if (extent < 0) throw Fault{fmt::format("{} has extent {}", what, extent)};
    if (__builtin_mul_overflow(count, extent, &count) || count > element_limit)
      throw Fault{fmt::format("{} has more than 2^31 elements", what)};
  }
  return count;
}

void poison(TileMemory& memory) {
  Word word;
  switch (memory.tile->dtype) {
    case DType::f32: word.real = std::numeric_limits<float>::quiet_NaN(); break;
    case DType::i64: word.whole = std::numeric_limits<std::int64_t>::max(); break;
    default: word.truth = true; break;
  }
  std::fill(memory.elements.begin(), memory.elements.end(), word);
  std::fill(memory.written.begin(), memory.written.end(), std::uint8_t{0});
}

class Run {
 public:
  Run(const loop::Kernel& kernel, const Binding& binding, const Options& options)
      : kernel_(kernel), binding_(binding), options_(options), names_(kernel), compiler_(kernel) {
    frame_.trusted = kernel.trusted;
  }

  Outcome all() {
    sizes();
    buffers();
    for (const loop::Nest& nest : kernel_.nests) run(nest);
    for (const BufferMemory& memory : frame_.buffers) complete(memory);
    return {frame_.marks.out_of_range};
  }

 private:
  void set(const Sym& sym, const Value& value) {
    const auto slot = static_cast<std::size_t>(compiler_.slot(sym));
    frame_.slots.resize(std::max(frame_.slots.size(), compiler_.slot_count()));
    frame_.slots[slot] = value;
  }

  void sizes() {
    for (const Sym& dim : kernel_.dims) {
      const auto found = binding_.dims.find(dim);
      if (found == binding_.dims.end()) throw Fault{fmt::format("dim `{}` has no size", names_.of(dim))};
      set(dim, of(found->second));
    }
    for (std::size_t k = 0; k < kernel_.scalars.size(); ++k) {
      const Sym& scalar = kernel_.scalars[k];
      const auto found = binding_.scalars.find(scalar);
      if (found == binding_.scalars.end()) throw Fault{fmt::format("scalar `{}` has no value", names_.of(scalar))};
      const tensor::Type& type = kernel_.scalar_types[k];
      const auto* integer = std::get_if<std::int64_t>(&found->second);
      const auto* real = std::get_if<double>(&found->second);
      const auto* truth = std::get_if<bool>(&found->second);
      if (type.is_float() ? !real : type.is_integer() ? !integer : !truth)
        throw Fault{fmt::format("scalar `{}` has a value of another kind", names_.of(scalar))};
      set(scalar, real ? of(static_cast<float>(*real)) : integer ? of(*integer) : of(*truth));
    }
  }

  /// The value of an expression of dims and scalars.
  std::int64_t size(const loop::Expr& expr, const std::string& what) {
    const Value value = compiler_.compile(expr)(frame_);
    if (!value.present) throw Fault{what + " has no size: a divisor is 0"};
    return value.word.whole;
  }

  void buffers() {
    for (const loop::Buffer& buffer : kernel_.buffers) {
      const std::string what = fmt::format("buffer `{}`", names_.of(buffer.sym));
      BufferMemory memory;
      memory.buffer = &buffer;
      for (const loop::Expr& extent : buffer.extents) memory.extents.push_back(size(extent, what));
      if (buffer.presence) memory.presence = compiler_.buffer(buffer.presence);
      if (buffer.role == loop::Role::temporary) {
        const auto count = static_cast<std::size_t>(element_count(memory.extents, what));
        memory.storage.assign(std::max<std::size_t>(count, 1) * size_of(buffer.dtype), std::byte{0x7f});
        memory.data = memory.storage.data();
        memory.strides.assign(memory.extents.size(), 1);
        for (std::size_t k = memory.extents.size(); k-- > 1;)
          memory.strides[k - 1] = memory.strides[k] * memory.extents[k];
      } else {
        bind(memory, what);
      }
      if (buffer.role != loop::Role::input)
        memory.writers.assign(static_cast<std::size_t>(element_count(memory.extents, what)), 0);
      frame_.buffers.push_back(std::move(memory));
    }
  }

  void bind(BufferMemory& memory, const std::string& what) const {
    const auto found = binding_.tensors.find(memory.buffer->sym);
    if (found == binding_.tensors.end()) throw Fault{what + " has no tensor"};
    const TensorRef& tensor = found->second;
    if (tensor.dtype != memory.buffer->dtype)
      throw Fault{fmt::format("{} is {}, its tensor {}", what, name(memory.buffer->dtype), name(tensor.dtype))};
    if (tensor.shape != memory.extents || tensor.strides.size() != tensor.shape.size())
      throw Fault{what + " and its tensor differ in shape"};
    memory.data = tensor.data;
    memory.strides = tensor.strides;
  }

  void run(const loop::Nest& nest) {
    compiler_.enter(nest);
    tiles(nest);
    struct Axis {
      std::size_t slot;
      std::int64_t lo, step, count;
      bool descending;
    };
    std::vector<Axis> axes;
    std::vector<std::int64_t> counts;
    const Site site{&kernel_, &nest, nullptr, "grid"};
    for (const loop::GridAxis& axis : nest.grid) {
      const std::int64_t lo = whole(axis.lo, site), hi = whole(axis.hi, site), step = whole(axis.step, site);
      if (step < 1) fail(site, fmt::format("the step is {}", step));
      const std::int64_t count = hi > lo ? (hi - lo - 1) / step + 1 : 0;
      axes.push_back({static_cast<std::size_t>(compiler_.slot(axis.index)), lo, step, count, axis.descending});
      counts.push_back(count);
    }
    const std::int64_t tasks = element_count(counts, fmt::format("the grid of nest `{}`", nest.name));
    const Code lane_limit = nest.lane_limit ? compiler_.compile(nest.lane_limit) : Code{};
    const std::vector<Action> body = compile(kernel_, nest, nest.body, compiler_);
    frame_.slots.resize(compiler_.slot_count());
    frame_.first_task = frame_.task + 1;
    if (tasks > std::numeric_limits<std::uint32_t>::max() - frame_.first_task) fail(site, "too many tasks");
    const Site limit_site{&kernel_, &nest, nullptr, "lane limit"};
    for (std::int64_t k = 0; k < tasks; ++k) {
      ++frame_.task;
      std::int64_t rest = options_.reverse_tasks ? tasks - 1 - k : k;
      for (std::size_t a = axes.size(); a-- > 0;) {
        const Axis& axis = axes[a];
        const std::int64_t step = rest % axis.count;
        rest /= axis.count;
        frame_.slots[axis.slot] = of(axis.lo + (axis.descending ? axis.count - 1 - step : step) * axis.step);
      }
      for (TileMemory& memory : frame_.tiles) poison(memory);
      frame_.lane_limit =
          lane_limit ? interpreter::whole(frame_, lane_limit, limit_site) : std::numeric_limits<std::int64_t>::max();
      for (const Action& action : body) action(frame_);
    }
  }

  std::int64_t whole(const loop::Expr& expr, const Site& site) {
    const Code code = compiler_.compile(expr);
    frame_.slots.resize(compiler_.slot_count());
    return interpreter::whole(frame_, code, site);
  }

  void tiles(const loop::Nest& nest) {
    frame_.tiles.clear();
    const loop::Names names(kernel_, nest);
    for (const loop::Tile& tile : nest.tiles) {
      const std::string what = fmt::format("nest `{}`: tile `{}`", nest.name, names.of(tile.sym));
      TileMemory memory;
      memory.tile = &tile;
      for (std::size_t k = 0; k < tile.axes.size(); ++k) {
        const loop::TileAxis& axis = tile.axes[k];
        memory.bases.push_back(compiler_.compile(axis.base));
        memory.extents.push_back(size(axis.extent, what));
        if (axis.index == padded_index(nest)) memory.lane_axis = static_cast<int>(k);
        if (axis.index == nest.lane && memory.extents[k] % nest.lanes != 0)
          throw Fault{fmt::format("{}: extent {} of the lane axis is no multiple of {} lanes", what, memory.extents[k],
                                  nest.lanes)};
      }
      const auto count = static_cast<std::size_t>(element_count(memory.extents, what));
      memory.elements.resize(count);
      memory.written.resize(count);
      frame_.tiles.push_back(std::move(memory));
    }
    frame_.slots.resize(compiler_.slot_count());
  }

  /// Every element of a result has been stored.
  void complete(const BufferMemory& memory) const {
    if (memory.buffer->role != loop::Role::result) return;
    const auto hole = std::find(memory.writers.begin(), memory.writers.end(), 0u);
    if (hole == memory.writers.end()) return;
    std::int64_t rest = hole - memory.writers.begin();
    std::string place;
    for (std::size_t k = memory.extents.size(); k-- > 0;) {
      place = fmt::format("{}{}{}", rest % memory.extents[k], place.empty() ? "" : ", ", place);
      rest /= memory.extents[k];
    }
    throw Fault{fmt::format("nothing stores element [{}] of result `{}`", place, names_.of(memory.buffer->sym))};
  }

  const loop::Kernel& kernel_;
  const Binding& binding_;
  const Options options_;
  const loop::Names names_;
  Compiler compiler_;
  Frame frame_;
};

Diagnostic internal_error(const loop::Kernel& kernel, const std::string& problem) {
  Diagnostic diagnostic;
  diagnostic.code = "A0902";
  diagnostic.message = fmt::format("the loop nest of `{}` is wrong: {}", kernel.name, problem);
  return diagnostic;
}

}  // namespace

Result<Outcome> run(const loop::Kernel& kernel, const Binding& binding, const Options& options) {
  if (const std::string problem = loop::verify(kernel); !problem.empty()) return internal_error(kernel, problem);
  try {
    return Run(kernel, binding, options).all();
  } catch (const Fault& fault) {
    return internal_error(kernel, fault.text);
  }
}

}  // namespace attune::interpreter
