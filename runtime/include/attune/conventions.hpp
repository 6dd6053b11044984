// SPDX-License-Identifier: Apache-2.0
// What other libraries mean, said in attune's terms: views, numbers and small tables for the conventions that collide.
// docs/conventions.md goes through them one by one. Nothing here copies a tensor. Not part of <attune/attune.hpp>.
#pragma once
#include <array>
#include <attune/diagnostic.hpp>
#include <attune/tensor_ref.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace attune::conventions {

// ---- layouts: views ----------------------------------------------------------------------------------------------

/// The view with its axes in another order: axis k of the result is axis order[k] of the tensor.
Result<TensorRef> permuted(const TensorRef& tensor, std::span<const std::size_t> order);
/// Tokens before heads, [B, S, H, D] or [S, H, D] (FlashAttention, xformers, FlashInfer's NHD), as [B, H, S, D] or
/// [H, S, D]: what the standard programs take. The same call leads back.
Result<TensorRef> heads_first(const TensorRef& tensor);

/// A ggml tensor: extents `ne` from the innermost axis outwards, steps `nb` in bytes. Q, K and V of [d, n, h, b] become
/// [b, h, n, d]; the result of ggml's attention, [d, h, n, b], becomes [b, n, h, d], and heads_first makes [b, h, n, d]
/// of that.
Result<TensorRef> ggml_tensor(void* data, DType dtype, const std::array<std::int64_t, 4>& ne,
                              const std::array<std::size_t, 4>& nb);

struct KeysValues {
  TensorRef k, v;
};
enum class PageLayout : std::uint8_t {
  nhd,  ///< [pages, 2, places, heads, size]
  hnd,  ///< [pages, 2, heads, places, size]
};
/// FlashInfer's one tensor of keys and values as the K and V of std:paged, each [pages, places, heads, size].
Result<KeysValues> paged_cache(const TensorRef& cache, PageLayout layout);

/// Tables of cosines or sines as wide as a head, as the one column per pair that std:rope and std:rope_interleaved
/// take.
enum class RopeColumns : std::uint8_t {
  halves,      ///< column c and column c + D/2 are equal (GPT-NeoX, Hugging Face)
  neighbours,  ///< column 2c and column 2c + 1 are equal (GPT-J)
};
Result<TensorRef> rope_columns(const TensorRef& table, RopeColumns columns);

// ---- page tables ---------------------------------------------------------------------------------------------------

/// `table` and `len` of std:paged: pages.table() is i32 [B, R], pages.len() is i32 [B]. What lies behind the last page
/// of an entry is -1. The views are of this object's memory.
struct PageTable {
  std::vector<std::int32_t> pages;    ///< B rows of `width`
  std::vector<std::int32_t> lengths;  ///< keys of each entry
  std::int64_t width = 0;             ///< R
  TensorRef table() const;
  TensorRef len() const;
};
/// FlashInfer's form: entry b has the pages indices[indptr[b]] to indices[indptr[b + 1] - 1], all full but the last,
/// which holds last_page_len[b] keys (of an entry without pages this number is not read).
Result<PageTable> page_table(std::span<const std::int32_t> indptr, std::span<const std::int32_t> indices,
                             std::span<const std::int32_t> last_page_len, std::int64_t page_size);

// ---- numbers -------------------------------------------------------------------------------------------------------

/// What the number of a causal window counts.
enum class WindowCounts : std::uint8_t {
  visible_keys,  ///< the row's own key among them: Mistral, xformers, cuDNN's left bound
  keys_before,   ///< the row's own key comes on top: FlashAttention's window_size[0], FlashInfer's window_left
};
/// `W` of std:window. A negative number of keys before means no bound, as it does there.
std::int32_t window_keys(std::int64_t number, WindowCounts counts);

/// 1 / sqrt(sum of sizes): {D} is the default of most; {128, 64} is DeepSeek's for absorbed latent attention, by the
/// heads before absorption; {D, Dv} is what FlashAttention 4 takes by default where it is given `qv`.
double inverse_sqrt_scale(std::initializer_list<std::int64_t> sizes);

/// What a bias of slope * j (BLOOM) adds to every score of a row beyond std:alibi's slope * (j - pos(row)). The output
/// does not change by it. The log-sum-exp grows by it; a sink that was learned beside slope * j shrinks by it.
double alibi_row_constant(double slope, std::int64_t row, std::int64_t rows, std::int64_t keys);

// ---- log-sum-exp and masks: elements
// ---------------------------------------------------------------------------------

/// How a library stores the log-sum-exp of a row. The defaults are attune's.
struct LseConvention {
  bool base_two = false;           ///< log2 of the sum instead of ln
  bool empty_is_plus_inf = false;  ///< +inf instead of -inf for a row that sees nothing
};
/// Rewrites values in place. Where empty rows are +inf, a row whose sum really is infinite cannot be told from them.
void convert_lse(std::span<float> lse, LseConvention from, LseConvention to);

/// A mask that was meant to be added to the scores (0 visible; -inf, finfo.min, -1e9, -1e4, -100, ... hidden) as the
/// bool data of a mask: false where the value is at most `hidden`, or NaN. Returns how many are visible. `visible` is
/// as long as `additive`, else nothing is written and it is an error.
Result<std::size_t> visible_from_additive(std::span<const float> additive, float hidden, std::span<bool> visible);

}  // namespace attune::conventions
