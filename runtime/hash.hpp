// SPDX-License-Identifier: Apache-2.0
// XXH3-128 of bytes: identities of cache keys and checksums of cache entries.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace attune {

struct Hash128 {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  /// 32 hexadecimal digits, high half first.
  std::string hex() const;
};

Hash128 hash128(std::string_view bytes);

}  // namespace attune
