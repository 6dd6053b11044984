// SPDX-License-Identifier: Apache-2.0
// The table of codes is complete and readable; nearest names.
#include "common/codes.hpp"

#include <algorithm>
#include <attune/diagnostic.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "tests/catch.hpp"

using namespace attune;

TEST_CASE("each code is listed once, with a title and an explanation") {
  std::set<std::string_view> seen;
  for (std::string_view code : diagnostic_codes()) {
    INFO(code);
    CHECK(seen.insert(code).second);
    CHECK(code.size() == 5);
    CHECK(code[0] == 'A');
    CHECK(std::all_of(code.begin() + 1, code.end(), [](char c) { return c >= '0' && c <= '9'; }));
    CHECK_FALSE(title(code).empty());
    CHECK(title(code).find('\n') == std::string_view::npos);
    CHECK(title(code).size() <= 80);
    CHECK(explain(code).size() > 30);
  }
  const auto codes = diagnostic_codes();
  CHECK(std::is_sorted(codes.begin(), codes.end()));
  CHECK(explain("A9999").empty());
  CHECK(title("").empty());
}

TEST_CASE("each code that the sources mention is in the table, and the other way round") {
  std::set<std::string> mentioned;
  for (const char* folder : {"/dsl", "/backend", "/runtime", "/stdlib", "/tools"}) {
    const std::string root = std::string(ATTUNE_SOURCE_DIR) + folder;
    if (!std::filesystem::exists(root)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cpp" && extension != ".hpp") continue;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      static const std::regex code("\"(A0[0-9]{3})\"");
      for (std::sregex_iterator at(text.begin(), text.end(), code), end; at != end; ++at)
        mentioned.insert((*at)[1].str());
    }
  }
  for (const std::string& code : mentioned) {
    INFO(code << " is used and not explained");
    CHECK_FALSE(explain(code).empty());
  }
  for (std::string_view code : diagnostic_codes()) {
    INFO(code << " is explained and not used");
    CHECK(mentioned.contains(std::string(code)));
  }
}

TEST_CASE("did_you_mean finds the nearest name, or none") {
  const std::vector<std::string> names = {"scale", "slope", "softmax", "logsumexp", "kv", "pos", "Q", "K"};
  CHECK(did_you_mean("scal", names) == "scale");
  CHECK(did_you_mean("sclae", names) == "scale");  // neighbours swapped
  CHECK(did_you_mean("softmx", names) == "softmax");
  CHECK(did_you_mean("logsumxep", names) == "logsumexp");
  CHECK(did_you_mean("q", names) == "Q");  // only the case differs
  CHECK(did_you_mean("LOGSUMEXP", names) == "logsumexp");
  CHECK(did_you_mean("k", names) == "K");
  CHECK(did_you_mean("posi", names) == "pos");
  CHECK(did_you_mean("x", {"y", "z"}).empty());     // nothing in common
  CHECK(did_you_mean("scale", {"scale"}).empty());  // the word itself is no help
  CHECK(did_you_mean("bandwidth", names).empty());
  CHECK(did_you_mean("", names).empty());
  CHECK(did_you_mean("scale", {}).empty());
  CHECK(did_you_mean(std::string(1'000'000, 'a'), {std::string(1'000'000, 'b')}).empty());
}
