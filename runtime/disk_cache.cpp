// SPDX-License-Identifier: Apache-2.0
// The file format of cached kernels, and the care taken with other processes, full disks and damage.
//
// A file: magic (8), format (u32), nests (u32), sizes of key, description and object (u64 each), XXH3-128 of all that
// follows the checksum and of the fields before it (u64 low, u64 high), key, description, object. Little endian.
#include "runtime/disk_cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <random>

#include "runtime/hash.hpp"

namespace attune {
namespace {

constexpr char magic[8] = {'a', 't', 't', 'u', 'n', 'e', 'K', '\n'};
constexpr std::uint32_t format_version = 1;
constexpr std::size_t fields_size = 8 + 4 + 4 + 3 * 8;  ///< what precedes the checksum
constexpr std::size_t header_size = fields_size + 16;
constexpr std::uint64_t largest_file = std::uint64_t{1} << 30;
constexpr std::string_view suffix = ".kernel";
constexpr std::string_view temporary_prefix = ".writing-";
constexpr std::time_t abandoned_after = 3600;  ///< seconds until a temporary file counts as left behind

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int k = 0; k < bytes; ++k) out.push_back(static_cast<char>((value >> (8 * k)) & 0xff));
}

std::uint64_t take(std::string_view text, std::size_t offset, int bytes) {
  std::uint64_t value = 0;
  for (int k = 0; k < bytes; ++k)
    value |= std::uint64_t{static_cast<unsigned char>(text[offset + static_cast<std::size_t>(k)])} << (8 * k);
  return value;
}

/// Two hashes in one: over the fields and over the body.
Hash128 checksum(std::string_view fields, std::string_view body) {
  const Hash128 head = hash128(fields), rest = hash128(body);
  std::string both;
  for (std::uint64_t part : {head.low, head.high, rest.low, rest.high}) put(both, part, 8);
  return hash128(both);
}

std::string encode(const std::string& key, const CachedObject& entry) {
  std::string text(magic, sizeof magic);
  put(text, format_version, 4);
  put(text, entry.nests, 4);
  put(text, key.size(), 8);
  put(text, entry.description.size(), 8);
  put(text, entry.object.size(), 8);
  std::string body = key + entry.description;
  body.append(reinterpret_cast<const char*>(entry.object.data()), entry.object.size());
  const Hash128 sum = checksum(text, body);
  put(text, sum.low, 8);
  put(text, sum.high, 8);
  return text + body;
}

struct Decoded {
  std::string_view key;
  CachedObject entry;
};

/// Nothing where the bytes are no entry of this format.
std::optional<Decoded> decode(std::string_view text) {
  if (text.size() < header_size || std::memcmp(text.data(), magic, sizeof magic) != 0) return std::nullopt;
  if (take(text, 8, 4) != format_version) return std::nullopt;
  const std::uint64_t key = take(text, 16, 8), description = take(text, 24, 8), object = take(text, 32, 8);
  const std::uint64_t body_size = text.size() - header_size;
  if (key > body_size || description > body_size || object > body_size || key + description + object != body_size)
    return std::nullopt;
  const std::string_view body = text.substr(header_size);
  const Hash128 sum = checksum(text.substr(0, fields_size), body);
  if (sum != Hash128{take(text, fields_size, 8), take(text, fields_size + 8, 8)}) return std::nullopt;
  Decoded decoded;
  decoded.key = body.substr(0, key);
  decoded.entry.description = std::string(body.substr(key, description));
  decoded.entry.nests = static_cast<std::uint32_t>(take(text, 12, 4));
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(body.data() + key + description);
  decoded.entry.object.assign(bytes, bytes + object);
  return decoded;
}

struct File {
  int descriptor;
  explicit File(int opened) : descriptor(opened) {}
  ~File() {
    if (descriptor >= 0) close(descriptor);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
};

enum class Read { absent, unreadable, done };

/// The bytes of a file that this user or root owns and nobody else can write: cached code is run, so a file that
/// another user could have made is not read.
Read read_file(const std::string& path, std::string& text, bool touch) {
  File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.descriptor < 0) return errno == ENOENT ? Read::absent : Read::unreadable;
  struct stat status {};
  if (fstat(file.descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return Read::unreadable;
  if ((status.st_uid != geteuid() && status.st_uid != 0) || (status.st_mode & S_IWOTH)) return Read::unreadable;
  if (static_cast<std::uint64_t>(status.st_size) > largest_file) return Read::unreadable;
  text.resize(static_cast<std::size_t>(status.st_size));
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = read(file.descriptor, text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Read::unreadable;
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  if (touch) futimens(file.descriptor, nullptr);  // a read-only directory keeps its order; nothing depends on it
  return Read::done;
}

bool write_all(int descriptor, const std::string& text) {
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t put_now = write(descriptor, text.data() + written, text.size() - written);
    if (put_now < 0 && errno == EINTR) continue;
    if (put_now <= 0) return false;
    written += static_cast<std::size_t>(put_now);
  }
  return true;
}

/// mkdir -p; directories made here belong to the user alone.
bool make_directories(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
    if (mkdir(path.substr(0, slash).c_str(), 0700) != 0 && errno != EEXIST && errno != EISDIR && errno != EROFS &&
        errno != EACCES)
      return false;
  return mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

struct Seen {
  std::string name;
  std::uint64_t bytes;
  std::int64_t used_ns;
};

/// Regular files of the directory for which `wanted(name)` holds.
template <class F>
std::vector<Seen> scan(const std::string& directory, F&& wanted) {
  std::vector<Seen> files;
  DIR* open_directory = opendir(directory.c_str());
  if (!open_directory) return files;
  while (const dirent* item = readdir(open_directory)) {
    if (!wanted(std::string_view(item->d_name))) continue;
    struct stat status {};
    if (fstatat(dirfd(open_directory), item->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
      continue;
    files.push_back({item->d_name, static_cast<std::uint64_t>(status.st_size),
                     std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec});
  }
  closedir(open_directory);
  return files;
}

bool is_entry(std::string_view name) { return name.size() == 32 + suffix.size() && ends_with(name, suffix); }
bool is_temporary(std::string_view name) { return name.substr(0, temporary_prefix.size()) == temporary_prefix; }

}  // namespace

DiskCache::DiskCache(std::string directory, std::uint64_t limit_bytes)
    : directory_(std::move(directory)), limit_(limit_bytes) {}

std::optional<CachedObject> DiskCache::find(const std::string& key) {
  const std::string path = directory_ + "/" + hash128(key).hex() + std::string(suffix);
  std::string text;
  if (read_file(path, text, true) != Read::done) return std::nullopt;
  std::optional<Decoded> decoded = decode(text);
  if (!decoded) {
    unlink(path.c_str());
    return std::nullopt;
  }
  // Another key with the same hash is a healthy entry that is not ours.
  if (decoded->key != key) return std::nullopt;
  return std::move(decoded->entry);
}

void DiskCache::store(const std::string& key, const CachedObject& entry) {
  if (refused_.load(std::memory_order_relaxed)) return;
  const std::string text = encode(key, entry);
  if (text.size() > limit_ || text.size() > largest_file) return;
  if (!make_directories(directory_)) return refuse(std::strerror(errno));

  static std::atomic<std::uint64_t> counter{0};
  std::random_device random;
  const std::string temporary = directory_ + "/" + std::string(temporary_prefix) + std::to_string(getpid()) + "-" +
                                std::to_string(counter.fetch_add(1)) + "-" + std::to_string(random());
  const std::string path = directory_ + "/" + hash128(key).hex() + std::string(suffix);
  int failure = 0;
  {
    File file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (file.descriptor < 0) return refuse(std::strerror(errno));
    if (!write_all(file.descriptor, text)) failure = errno ? errno : EIO;
  }
  if (!failure && rename(temporary.c_str(), path.c_str()) != 0) failure = errno;
  if (failure) {
    unlink(temporary.c_str());
    return refuse(std::strerror(failure));
  }
  bool full = false;
  {
    const std::lock_guard lock(mutex_);
    estimate_ = measured_ ? estimate_ + text.size() : size();
    measured_ = true;
    full = estimate_ > limit_;
  }
  if (full) sweep();
}

void DiskCache::sweep() {
  const std::time_t now = std::time(nullptr);
  for (const Seen& left : scan(directory_, is_temporary))
    if (left.used_ns / 1'000'000'000 + abandoned_after < now) unlink((directory_ + "/" + left.name).c_str());

  std::vector<Seen> entries = scan(directory_, is_entry);
  std::sort(entries.begin(), entries.end(), [](const Seen& a, const Seen& b) { return a.used_ns < b.used_ns; });
  std::uint64_t total = 0;
  for (const Seen& entry : entries) total += entry.bytes;
  // A little below the limit, so that not every store sweeps; never the newest entry.
  const std::uint64_t goal = limit_ - limit_ / 10;
  for (std::size_t k = 0; k + 1 < entries.size() && total > goal; ++k) {
    if (unlink((directory_ + "/" + entries[k].name).c_str()) != 0 && errno != ENOENT) continue;
    total -= entries[k].bytes;
  }
  const std::lock_guard lock(mutex_);
  estimate_ = total;
}

std::vector<DiskCache::Listed> DiskCache::list() const {
  std::vector<Seen> entries = scan(directory_, is_entry);
  std::sort(entries.begin(), entries.end(), [](const Seen& a, const Seen& b) { return a.used_ns > b.used_ns; });
  std::vector<Listed> listed;
  for (const Seen& entry : entries) {
    std::string text;
    if (read_file(directory_ + "/" + entry.name, text, false) != Read::done) continue;
    if (std::optional<Decoded> decoded = decode(text))
      listed.push_back({entry.name, decoded->entry.description, entry.bytes, entry.used_ns / 1'000'000'000});
  }
  return listed;
}

std::size_t DiskCache::clear() {
  for (const Seen& left : scan(directory_, is_temporary)) unlink((directory_ + "/" + left.name).c_str());
  std::size_t removed = 0;
  for (const Seen& entry : scan(directory_, is_entry))
    removed += unlink((directory_ + "/" + entry.name).c_str()) == 0 ? 1 : 0;
  const std::lock_guard lock(mutex_);
  measured_ = false;
  return removed;
}

std::uint64_t DiskCache::size() const {
  std::uint64_t total = 0;
  for (const Seen& entry : scan(directory_, is_entry)) total += entry.bytes;
  return total;
}

std::string DiskCache::refusal() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void DiskCache::refuse(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!refused_.exchange(true)) reason_ = reason;
}

}  // namespace attune
