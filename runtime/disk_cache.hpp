// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk, shared by processes. Never fails a compile: what cannot be read is a miss.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace attune {

/// What an entry holds beside its key.
struct CachedObject {
  std::string description;  ///< one line for people: kernel, target, compiler
  std::uint32_t nests = 0;
  std::vector<std::uint8_t> object;
};

/// A directory of files named after the hash of their key. Files are made under a temporary name and renamed, carry
/// sizes and a checksum, and hold the whole key, so that truncation, bit flips, collisions and other versions are
/// misses. A directory that cannot be written is tolerated: after the first refusal nothing more is tried.
class DiskCache {
 public:
  DiskCache(std::string directory, std::uint64_t limit_bytes);

  /// The entry of a key; touches it, so that the sweep takes it last. A corrupt one is removed.
  std::optional<CachedObject> find(const std::string& key);
  /// Stores an entry, then sweeps the least recently used ones where the limit is exceeded.
  void store(const std::string& key, const CachedObject& entry);

  struct Listed {
    std::string file;
    std::string description;
    std::uint64_t bytes = 0;
    std::int64_t last_used = 0;
  };
  /// Valid entries, most recently used first.
  std::vector<Listed> list() const;
  /// Removes all entries and what writers left behind; the number of entries removed.
  std::size_t clear();
  /// Bytes of all entries.
  std::uint64_t size() const;

  const std::string& directory() const { return directory_; }
  std::uint64_t limit() const { return limit_; }
  /// Why nothing is stored, or "".
  std::string refusal() const;

 private:
  void refuse(const std::string& reason);
  void sweep();

  const std::string directory_;
  const std::uint64_t limit_;
  std::atomic<bool> refused_{false};
  mutable std::mutex mutex_;  // guards reason_ and the estimate
  std::string reason_;
  bool measured_ = false;       // whether the estimate has been started
  std::uint64_t estimate_ = 0;  // bytes here at the last look plus what this process stored since
};

}  // namespace attune
