// SPDX-License-Identifier: Apache-2.0
// rand(): Philox4x32-10 as LLVM IR (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backend/cpu/math_ops.hpp"

namespace attune::cpu {
namespace {

std::string splat(Writer& w, const std::string& scalar, std::string_view element, int width) {
  if (width == 1) return scalar;
  std::string type = vector_type(element, width);
  std::string first = w.def(fmt::format("insertelement {} poison, {} {}, i64 0", type, element, scalar));
  return w.def(fmt::format("shufflevector {0} {1}, {0} poison, <{2} x i32> zeroinitializer", type, first, width));
}

/// High and low word of the 64-bit product with a constant.
std::pair<std::string, std::string> product(Ops& o, const std::string& word, std::int64_t constant_word) {
  std::string wide = o.whole("mul", o.cast("zext", "i32", word, "i64"), o.i(constant_word, 64), "i64");
  std::string high = o.cast("trunc", "i64", o.whole("lshr", wide, o.i(32, 64), "i64"), "i32");
  return {high, o.cast("trunc", "i64", wide, "i32")};
}

}  // namespace

std::string emit_random(Writer& w, const std::string& seed, const std::vector<std::string>& coordinates,
                        const std::vector<bool>& vector, int width) {
  // Coordinates that are all the same for every lane need one generator, not one for each lane.
  const bool varies = std::find(vector.begin(), vector.end(), true) != vector.end();
  const int lanes = varies ? width : 1;
  Ops o(w, lanes, {});

  // Low 32 bits of each coordinate, the last one first.
  std::array<std::string, 4> counter;
  std::string last;
  for (std::size_t k = 0; k < counter.size(); ++k) {
    if (k >= coordinates.size()) {
      counter[k] = o.i(0);
      continue;
    }
    std::size_t from = coordinates.size() - 1 - k;
    if (vector[from])
      counter[k] = o.cast("trunc", "i64", coordinates[from], "i32");
    else
      counter[k] = splat(w, w.def(fmt::format("trunc i64 {} to i32", coordinates[from])), "i32", lanes);
  }
  last = counter[0];
  counter[0] = o.whole("lshr", last, o.i(2));

  std::string low = w.def(fmt::format("trunc i64 {} to i32", seed));
  std::string high = w.def(fmt::format("trunc i64 {} to i32", w.def(fmt::format("lshr i64 {}, 32", seed))));
  for (int round = 0; round < 10; ++round) {
    if (round > 0) {  // Weyl sequences of the key, scalar
      low = w.def(fmt::format("add i32 {}, {}", low, constant(0x9E3779B9, 32, 1)));
      high = w.def(fmt::format("add i32 {}, {}", high, constant(0xBB67AE85, 32, 1)));
    }
    auto [high0, low0] = product(o, counter[0], 0xD2511F53);
    auto [high1, low1] = product(o, counter[2], 0xCD9E8D57);
    std::string first = o.whole("xor", o.whole("xor", high1, counter[1]), splat(w, low, "i32", lanes));
    std::string third = o.whole("xor", o.whole("xor", high0, counter[3]), splat(w, high, "i32", lanes));
    counter = {first, low1, third, low0};
  }

  // Output word j % 4, then its upper 24 bits, which an f32 holds exactly.
  std::string odd = o.icmp("ne", o.whole("and", last, o.i(1)), o.i(0));
  std::string upper = o.icmp("ne", o.whole("and", last, o.i(2)), o.i(0));
  std::string word = o.select(upper, o.select(odd, counter[3], counter[2], "i32"),
                              o.select(odd, counter[1], counter[0], "i32"), "i32");
  std::string value = o.cast("sitofp", "i32", o.whole("lshr", word, o.i(8)), "float");
  value = o.mul(value, o.f(0x1p-24));
  return lanes == width ? value : splat(w, value, "float", width);
}

}  // namespace attune::cpu
