// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <attune/conventions.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

namespace attune::conventions {

namespace {

Diagnostic refused(const char* code, std::string message, std::string help) {
  Diagnostic diagnostic;
  diagnostic.code = code;
  diagnostic.message = std::move(message);
  diagnostic.help = std::move(help);
  return diagnostic;
}

/// Views are made of extents and strides; without one stride for each extent there is no view.
std::optional<Diagnostic> unsound(const TensorRef& tensor, std::size_t least, std::size_t most, const char* shapes) {
  if (tensor.strides.size() != tensor.shape.size())
    return refused("A0519",
                   fmt::format("a tensor has {} extents but {} strides", tensor.shape.size(), tensor.strides.size()),
                   "give one stride for each extent, or none: TensorRef(data, dtype, shape) is contiguous");
  if (tensor.shape.size() < least || tensor.shape.size() > most)
    return refused("A0506", fmt::format("a tensor of shape [{}] is not {}", fmt::join(tensor.shape, ", "), shapes),
                   "size-1 axes are not added or removed");
  return std::nullopt;
}

TensorRef swapped(TensorRef view, std::size_t a, std::size_t b) {
  std::swap(view.shape[a], view.shape[b]);
  std::swap(view.strides[a], view.strides[b]);
  return view;
}

}  // namespace

Result<TensorRef> permuted(const TensorRef& tensor, std::span<const std::size_t> order) {
  if (auto problem = unsound(tensor, 0, tensor.shape.size(), "")) return *problem;
  std::vector<std::size_t> sorted(order.begin(), order.end());
  std::sort(sorted.begin(), sorted.end());
  bool each_once = sorted.size() == tensor.rank();
  for (std::size_t axis = 0; each_once && axis < sorted.size(); ++axis) each_once = sorted[axis] == axis;
  if (!each_once)
    return refused(
        "A0506",
        fmt::format("the order [{}] does not name each of the {} axes once", fmt::join(order, ", "), tensor.rank()),
        "an order has the numbers 0 to rank - 1, each once");
  TensorRef view = tensor;
  for (std::size_t axis = 0; axis < order.size(); ++axis) {
    view.shape[axis] = tensor.shape[order[axis]];
    view.strides[axis] = tensor.strides[order[axis]];
  }
  return view;
}

Result<TensorRef> heads_first(const TensorRef& tensor) {
  if (auto problem = unsound(tensor, 3, 4, "[batch, tokens, heads, size] or [tokens, heads, size]")) return *problem;
  return swapped(tensor, tensor.rank() - 3, tensor.rank() - 2);
}

Result<TensorRef> ggml_tensor(void* data, DType dtype, const std::array<std::int64_t, 4>& ne,
                              const std::array<std::size_t, 4>& nb) {
  const std::size_t size = size_of(dtype);
  TensorRef view;
  view.data = data;
  view.dtype = dtype;
  for (std::size_t axis = ne.size(); axis-- > 0;) {
    if (nb[axis] % size != 0)
      return refused("A0519",
                     fmt::format("nb[{}] is {} bytes, no multiple of the {} of {}", axis, nb[axis], size, name(dtype)),
                     "quantised blocks of ggml are not tensors of numbers: dequantise them first");
    view.shape.push_back(ne[axis]);
    view.strides.push_back(static_cast<std::int64_t>(nb[axis] / size));
  }
  return view;
}

Result<KeysValues> paged_cache(const TensorRef& cache, PageLayout layout) {
  const char* shapes =
      layout == PageLayout::nhd ? "[pages, 2, places, heads, size]" : "[pages, 2, heads, places, size]";
  if (auto problem = unsound(cache, 5, 5, shapes)) return *problem;
  if (cache.shape[1] != 2)
    return refused("A0507", fmt::format("axis 1 of a cache {} has extent {}", shapes, cache.shape[1]),
                   "the keys stand at 0 of that axis and the values at 1; caches in two tensors need no conversion");
  TensorRef keys = cache;
  keys.shape.erase(keys.shape.begin() + 1);
  keys.strides.erase(keys.strides.begin() + 1);
  if (layout == PageLayout::hnd) keys = swapped(keys, 1, 2);
  TensorRef values = keys;
  if (values.data && cache.element_count() != 0)
    values.data = static_cast<char*>(values.data) + cache.strides[1] * static_cast<std::int64_t>(size_of(cache.dtype));
  return KeysValues{keys, values};
}

Result<TensorRef> rope_columns(const TensorRef& table, RopeColumns columns) {
  if (auto problem = unsound(table, 1, std::numeric_limits<std::size_t>::max(), "[..., size]")) return *problem;
  if (table.shape.back() % 2 != 0)
    return refused("A0507", fmt::format("a table of shape [{}] has no pairs of columns", fmt::join(table.shape, ", ")),
                   "where there is already one column for each pair, pass the table as it is");
  TensorRef view = table;
  view.shape.back() /= 2;
  if (columns == RopeColumns::neighbours) view.strides.back() *= 2;
  return view;
}

TensorRef PageTable::table() const {
  return {static_cast<const void*>(pages.data()), DType::i32, {static_cast<std::int64_t>(lengths.size()), width}};
}
TensorRef PageTable::len() const {
  return {static_cast<const void*>(lengths.data()), DType::i32, {static_cast<std::int64_t>(lengths.size())}};
}

Result<PageTable> page_table(std::span<const std::int32_t> indptr, std::span<const std::int32_t> indices,
                             std::span<const std::int32_t> last_page_len, std::int64_t page_size) {
  const char* const meaning =
      "indptr has an element more than there are entries, starts at 0 or above, never falls, "
      "and ends within indices";
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (page_size < 1 || page_size > most)
    return refused("A0510", fmt::format("a page of {} places", page_size), "a page has between 1 and 2^31 - 1 places");
  if (indptr.size() != last_page_len.size() + 1)
    return refused("A0507",
                   fmt::format("indptr has {} elements and last_page_len has {}", indptr.size(), last_page_len.size()),
                   meaning);
  PageTable out;
  const std::size_t entries = last_page_len.size();
  for (std::size_t b = 0; b < entries; ++b) {
    if (indptr[b] < 0 || indptr[b + 1] < indptr[b] || static_cast<std::size_t>(indptr[b + 1]) > indices.size())
      return refused("A0510",
                     fmt::format("entry {} has the pages {} to {} of {}", b, indptr[b], indptr[b + 1], indices.size()),
                     meaning);
    out.width = std::max<std::int64_t>(out.width, indptr[b + 1] - indptr[b]);
  }
  out.pages.assign(entries * static_cast<std::size_t>(out.width), -1);
  for (std::size_t b = 0; b < entries; ++b) {
    const std::int64_t count = indptr[b + 1] - indptr[b];
    if (count > 0 && (last_page_len[b] < 1 || last_page_len[b] > page_size))
      return refused(
          "A0510", fmt::format("the last page of entry {} holds {} keys, of {} places", b, last_page_len[b], page_size),
          "a last page holds at least one key and at most a page's places");
    const std::int64_t keys = count == 0 ? 0 : (count - 1) * page_size + last_page_len[b];
    if (keys > most)
      return refused("A0510", fmt::format("entry {} has more keys than an i32 counts", b),
                     "split the entry, or write a program with an i64 length");
    std::copy_n(indices.begin() + indptr[b], count,
                out.pages.begin() + static_cast<std::ptrdiff_t>(b) * static_cast<std::ptrdiff_t>(out.width));
    out.lengths.push_back(static_cast<std::int32_t>(keys));
  }
  return out;
}

std::int32_t window_keys(std::int64_t number, WindowCounts counts) {
  constexpr std::int64_t all = std::numeric_limits<std::int32_t>::max();
  if (counts == WindowCounts::visible_keys)
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(number, std::numeric_limits<std::int32_t>::min(), all));
  return static_cast<std::int32_t>(number < 0 || number >= all ? all : number + 1);
}

double inverse_sqrt_scale(std::initializer_list<std::int64_t> sizes) {
  double sum = 0;
  for (const std::int64_t size : sizes) sum += static_cast<double>(size);
  return 1 / std::sqrt(sum);
}

double alibi_row_constant(double slope, std::int64_t row, std::int64_t rows, std::int64_t keys) {
  return slope * (static_cast<double>(row) + static_cast<double>(keys) - static_cast<double>(rows));
}

void convert_lse(std::span<float> lse, LseConvention from, LseConvention to) {
  constexpr double ln2 = 0.693147180559945309417;
  constexpr float inf = std::numeric_limits<float>::infinity();
  const float empty_before = from.empty_is_plus_inf ? inf : -inf, empty_after = to.empty_is_plus_inf ? inf : -inf;
  const double factor = from.base_two == to.base_two ? 1 : from.base_two ? ln2 : 1 / ln2;
  for (float& value : lse)
    value = value == empty_before ? empty_after : static_cast<float>(static_cast<double>(value) * factor);
}

Result<std::size_t> visible_from_additive(std::span<const float> additive, float hidden, std::span<bool> visible) {
  if (additive.size() != visible.size())
    return refused("A0507", fmt::format("{} values of a mask, and room for {}", additive.size(), visible.size()),
                   "give a bool for each value");
  std::size_t count = 0;
  for (std::size_t k = 0; k < additive.size(); ++k) {
    visible[k] = additive[k] > hidden;
    count += visible[k];
  }
  return count;
}

}  // namespace attune::conventions
