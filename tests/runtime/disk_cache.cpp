// SPDX-License-Identifier: Apache-2.0
// The disk cache: damage is a miss, racing processes agree, what cannot be written is tolerated, the size is kept.
#include "runtime/disk_cache.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/catch.hpp"
#include "tests/runtime/scratch_directory.hpp"

using namespace attune;

namespace {

constexpr std::uint64_t roomy = 1 << 20;

CachedObject entry(std::string description, std::size_t bytes = 300, std::uint8_t seed = 1) {
  CachedObject object;
  object.description = std::move(description);
  object.nests = 2;
  for (std::size_t k = 0; k < bytes; ++k) object.object.push_back(static_cast<std::uint8_t>(k * 31 + seed));
  return object;
}

bool same(const std::optional<CachedObject>& found, const CachedObject& expected) {
  return found && found->description == expected.description && found->nests == expected.nests &&
         found->object == expected.object;
}

std::string only_file(const std::string& directory) {
  const auto names = files_of(directory);
  REQUIRE(names.size() == 1);
  return directory + "/" + names[0];
}

}  // namespace

TEST_CASE("disk cache: what was stored is found, by any instance") {
  ScratchDirectory scratch;
  const std::string directory = scratch.path() + "/deep/er";
  DiskCache cache(directory, roomy);
  CHECK_FALSE(cache.find("key"));
  cache.store("key", entry("one"));
  cache.store("other", entry("two", 0));
  CHECK(same(cache.find("key"), entry("one")));
  CHECK(same(DiskCache(directory, roomy).find("other"), entry("two", 0)));
  CHECK_FALSE(cache.find("third"));
  CHECK(cache.refusal().empty());
  CHECK(cache.list().size() == 2);
  CHECK(cache.size() > 300);
  cache.store("key", entry("again", 10));
  CHECK(same(cache.find("key"), entry("again", 10)));
  CHECK(cache.clear() == 2);
  CHECK(cache.list().empty());
  CHECK(files_of(directory).empty());
}

TEST_CASE("disk cache: every truncation is a miss and is removed") {
  ScratchDirectory scratch;
  DiskCache cache(scratch.path(), roomy);
  cache.store("key", entry("one", 64));
  const std::string file = only_file(scratch.path()), whole = read_bytes(file);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_bytes(file, whole.substr(0, size));
    REQUIRE_FALSE(cache.find("key"));
    REQUIRE_FALSE(std::filesystem::exists(file));
  }
  write_bytes(file, whole + "x");
  CHECK_FALSE(cache.find("key"));
  write_bytes(file, whole);
  CHECK(same(cache.find("key"), entry("one", 64)));
}

TEST_CASE("disk cache: every bit flip is a miss") {
  ScratchDirectory scratch;
  DiskCache cache(scratch.path(), roomy);
  cache.store("key", entry("one", 64));
  const std::string file = only_file(scratch.path()), whole = read_bytes(file);
  for (std::size_t byte = 0; byte < whole.size(); ++byte)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
      write_bytes(file, damaged);
      REQUIRE_FALSE(cache.find("key"));
      REQUIRE(DiskCache(scratch.path(), roomy).list().empty());
    }
}

TEST_CASE("disk cache: an entry of another key under this name is left alone") {
  ScratchDirectory scratch;
  DiskCache cache(scratch.path(), roomy);
  cache.store("one", entry("one"));
  const std::string first = only_file(scratch.path());
  const std::string bytes = read_bytes(first);
  std::filesystem::remove(first);
  cache.store("two", entry("two"));
  const std::string second = only_file(scratch.path());
  write_bytes(second, bytes);
  CHECK_FALSE(cache.find("two"));
  CHECK(std::filesystem::exists(second));
}

TEST_CASE("disk cache: racing processes see whole entries only") {
  ScratchDirectory scratch;
  constexpr int processes = 6, rounds = 60;
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      DiskCache cache(scratch.path(), roomy);
      bool good = true;
      for (int round = 0; round < rounds && good; ++round) {
        const auto seed = static_cast<std::uint8_t>(round % 3);
        const std::string key = "key " + std::to_string(round % 3);
        cache.store(key, entry(key, 5000, seed));
        // Nobody removes entries here, so it must be there, and whole, whoever wrote it last.
        good = same(cache.find(key), entry(key, 5000, seed));
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  CHECK(files_of(scratch.path()).size() == 3);  // no temporary file is left
}

TEST_CASE("disk cache: directories that cannot be written are tolerated") {
  ScratchDirectory scratch;
  SECTION("a file stands in the way") {
    write_bytes(scratch.path() + "/file", "");
    DiskCache cache(scratch.path() + "/file/cache", roomy);
    cache.store("key", entry("one"));
    CHECK_FALSE(cache.find("key"));
    CHECK_FALSE(cache.refusal().empty());
    CHECK(cache.list().empty());
    CHECK(cache.clear() == 0);
  }
  SECTION("the directory is a file") {
    write_bytes(scratch.path() + "/file", "");
    DiskCache cache(scratch.path() + "/file", roomy);
    cache.store("key", entry("one"));
    CHECK_FALSE(cache.find("key"));
    CHECK_FALSE(cache.refusal().empty());
  }
  SECTION("read-only, with entries: they are still found") {
    DiskCache(scratch.path(), roomy).store("key", entry("one"));
    chmod(scratch.path().c_str(), 0555);
    if (geteuid() != 0) {  // root writes everywhere
      DiskCache cache(scratch.path(), roomy);
      CHECK(same(cache.find("key"), entry("one")));
      cache.store("other", entry("two"));
      CHECK_FALSE(cache.find("other"));
      CHECK_FALSE(cache.refusal().empty());
      chmod(scratch.path().c_str(), 0755);
      cache.store("other", entry("two"));  // latched: it is not tried again
      CHECK_FALSE(cache.find("other"));
    }
  }
  SECTION("a system directory that nobody may write") {
    DiskCache cache("/proc/attune", roomy);
    cache.store("key", entry("one"));
    CHECK_FALSE(cache.find("key"));
    CHECK_FALSE(cache.refusal().empty());
  }
}

TEST_CASE("disk cache: a write that fails half-way leaves nothing") {
  ScratchDirectory scratch;
  const pid_t child = fork();
  if (child == 0) {
    // A file size limit refuses in the middle of a file, as a full disk does.
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    DiskCache cache(scratch.path(), roomy);
    cache.store("key", entry("one", 5000));
    _exit(!cache.refusal().empty() && !cache.find("key") && files_of(scratch.path()).empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("disk cache: files that others could have written are not read") {
  ScratchDirectory scratch;
  DiskCache cache(scratch.path(), roomy);
  cache.store("key", entry("one"));
  const std::string file = only_file(scratch.path());
  chmod(file.c_str(), 0666);
  CHECK_FALSE(cache.find("key"));
  chmod(file.c_str(), 0644);
  CHECK(same(cache.find("key"), entry("one")));
}

TEST_CASE("disk cache: the least recently used entries leave first") {
  ScratchDirectory scratch;
  DiskCache cache(scratch.path(), 10'000);
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(15)); };
  for (int k = 0; k < 4; ++k) {
    cache.store("key " + std::to_string(k), entry("e", 2000));
    pause();
  }
  CHECK(cache.find("key 0"));  // now the most recent
  pause();
  cache.store("key 4", entry("e", 2000));
  CHECK(cache.size() <= 10'000);
  CHECK(cache.find("key 0"));
  CHECK(cache.find("key 4"));
  CHECK_FALSE(cache.find("key 1"));
  cache.store("large", entry("e", 20'000));
  CHECK_FALSE(cache.find("large"));
  CHECK(cache.find("key 4"));
}

TEST_CASE("disk cache: what dead writers left is swept after a while") {
  ScratchDirectory scratch;
  const std::string old = scratch.path() + "/.writing-1-1-1", fresh = scratch.path() + "/.writing-2-2-2";
  write_bytes(old, "x");
  write_bytes(fresh, "x");
  std::filesystem::last_write_time(old, std::filesystem::file_time_type::clock::now() - std::chrono::hours(5));
  DiskCache cache(scratch.path(), 3'000);
  cache.store("a", entry("e", 2000));
  cache.store("b", entry("e", 2000));
  CHECK_FALSE(std::filesystem::exists(old));
  CHECK(std::filesystem::exists(fresh));
}
