// SPDX-License-Identifier: Apache-2.0
// The only runtime file that sees xxHash; inlined, so that a host's own copy cannot clash.
#define XXH_INLINE_ALL
#include "runtime/hash.hpp"

#include <xxhash.h>

namespace attune {

std::string Hash128::hex() const {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int k = 0; k < 16; ++k) {
    text[static_cast<std::size_t>(15 - k)] = digits[(high >> (4 * k)) & 15];
    text[static_cast<std::size_t>(31 - k)] = digits[(low >> (4 * k)) & 15];
  }
  return text;
}

Hash128 hash128(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

}  // namespace attune
