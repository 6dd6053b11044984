// SPDX-License-Identifier: Apache-2.0
// Targets by name, environment variables, strides, memory.
#include "runtime/options.hpp"

#include <stdlib.h>

#include <attune/tensor_ref.hpp>

#include "runtime/hash.hpp"
#include "runtime/memory.hpp"
#include "tests/catch.hpp"

using namespace attune;

namespace {
/// Sets a variable for the life of the object.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old, had_ = true;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};
}  // namespace

TEST_CASE("targets by name") {
  for (const char* text : {"auto", "cpu", "reference", "interpreter"}) {
    REQUIRE(Target::parse(text));
    CHECK(Target::parse(text)->text() == text);
  }
  CHECK_FALSE(Target::parse("gpu"));
  CHECK_FALSE(Target::parse(""));
}

TEST_CASE("environment variables fill in what the options leave open") {
  Variable threads("ATTUNE_THREADS", "3"), directory("ATTUNE_CACHE_DIR", "/nowhere/x"), cache("ATTUNE_CACHE", nullptr),
      limit("ATTUNE_CACHE_LIMIT", "2M");
  EngineOptions options;
  CHECK(resolve(options).threads == 3);
  CHECK(resolve(options).cache_directory == "/nowhere/x");
  CHECK(resolve(options).disk_cache);
  CHECK(resolve(options).cache_limit_bytes == 2 << 20);
  options.threads = 5;
  options.cache_directory = "/mine";
  CHECK(resolve(options).threads == 5);
  CHECK(resolve(options).cache_directory == "/mine");
  {
    Variable off("ATTUNE_CACHE", "off");
    CHECK_FALSE(resolve(options).disk_cache);
  }
  {
    Variable nonsense("ATTUNE_THREADS", "many"), bad("ATTUNE_CACHE_LIMIT", "12Q");
    options.threads = 0;
    CHECK(resolve(options).threads >= 1);
    CHECK(resolve(options).cache_limit_bytes == options.cache_limit_bytes);
  }
  {
    Variable none("ATTUNE_CACHE_DIR", nullptr), xdg("XDG_CACHE_HOME", "/xdg");
    CHECK(resolve(EngineOptions{}).cache_directory == "/xdg/attune");
    Variable relative("XDG_CACHE_HOME", "relative"), home("HOME", "/home/me");
    CHECK(resolve(EngineOptions{}).cache_directory == "/home/me/.cache/attune");
    Variable homeless("HOME", nullptr);
    CHECK_FALSE(resolve(EngineOptions{}).disk_cache);
  }
  for (const EnvironmentVariable& variable : environment_variables()) {
    CHECK(variable.name.substr(0, 7) == "ATTUNE_");
    CHECK_FALSE(variable.help.empty());
  }
}

TEST_CASE("row-major strides") {
  float data[24];
  CHECK(TensorRef(data, DType::f32, {2, 3, 4}).strides == std::vector<std::int64_t>{12, 4, 1});
  CHECK(TensorRef(data, DType::f32, {}).strides.empty());
  CHECK(TensorRef(data, DType::f32, {}).element_count() == 1);
  CHECK(TensorRef(data, DType::f32, {2, 0, 4}).element_count() == 0);
  CHECK(TensorRef(static_cast<const void*>(data), DType::f32, {2, 3}).data == data);
}

TEST_CASE("memory grows, is aligned, and refuses the impossible") {
  Memory memory;
  CHECK(memory.reserve(0));
  for (std::uint64_t bytes : {100u, 5000u, 3u << 20, 9u << 20}) {
    REQUIRE(memory.reserve(bytes));
    CHECK(memory.size() >= bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % 64 == 0);
    memory.data()[bytes - 1] = std::byte{1};
  }
  CHECK_FALSE(memory.reserve(std::uint64_t{1} << 60));
  CHECK(memory.reserve(10));
}

TEST_CASE("hashes") {
  CHECK(hash128("") == hash128(""));
  CHECK_FALSE(hash128("a") == hash128("b"));
  CHECK(hash128("").hex() == "99aa06d3014798d86001c324468d497f");
}
