// SPDX-License-Identifier: Apache-2.0
// What people read when a program or a call is wrong, word for word: diagnostics/*.attn and calls/*.attn with the text
// beside each. ATTUNE_UPDATE_GOLDENS=1 writes the texts anew; read what changed before it is committed.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "report.hpp"
#include "tests/catch.hpp"

namespace fs = std::filesystem;
using namespace attune;

namespace {

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  return out;
}

/// Lines of both, `-` only wanted, `+` only found.
std::string difference(const std::string& wanted, const std::string& found) {
  const auto a = lines_of(wanted), b = lines_of(found);
  std::vector<std::vector<std::size_t>> common(a.size() + 1, std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;)
    for (std::size_t j = b.size(); j-- > 0;)
      common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  std::string out;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j])
      out += "  " + a[i++] + "\n", ++j;
    else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1]))
      out += "- " + a[i++] + "\n";
    else
      out += "+ " + b[j++] + "\n";
  }
  return out;
}

/// Texts that are too long for a file, by the name of the file that holds what they report.
const std::map<std::string, std::function<std::string()>>& generated() {
  static const std::map<std::string, std::function<std::string()>> made = {
      {"text_too_long", [] { return "# " + std::string(1 << 20, 'x') + "\n"; }},
      {"too_many_nodes",
       [] {
         std::string text = "kernel k(X: f32[N]) -> O: f32[N] {\n  O[i] = X[i]";
         for (int k = 0; k < 100'000; ++k) text += " + X[i]";
         return text + "\n}\n";
       }},
      {"expansion_too_large",
       [] {
         std::string text = "fn g0(x) = x + x\n";
         for (int k = 1; k < 30; ++k)
           text += "fn g" + std::to_string(k) + "(x) = g" + std::to_string(k - 1) + "(x) + g" + std::to_string(k - 1) +
                   "(x)\n";
         return text + "kernel k(X: f32[N]) -> O: f32[N] {\n  O[i] = g29(X[i])\n}\n";
       }},
  };
  return made;
}

struct Case {
  fs::path golden;  ///< the .txt
  std::string name, text;
};

std::vector<Case> cases(const char* folder) {
  std::vector<Case> out;
  const fs::path root = fs::path(ATTUNE_TEST_DIR) / folder;
  for (const auto& entry : fs::directory_iterator(root))
    if (entry.path().extension() == ".attn") {
      fs::path golden = entry.path();
      golden.replace_extension(".txt");
      out.push_back({golden, entry.path().filename().string(), read(entry.path())});
    }
  if (std::string(folder) == "diagnostics")
    for (const auto& [name, make] : generated()) out.push_back({root / (name + ".txt"), name + ".attn", make()});
  std::sort(out.begin(), out.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  return out;
}

void compare(const Case& c) {
  const Diagnostics found = golden::findings(c.text, c.name);
  INFO(c.name);
  CHECK_FALSE(found.empty());
  for (const Diagnostic& d : found) CHECK_FALSE(explain(d.code).empty());
  const std::string text = render(found) + "\n";
  if (std::getenv("ATTUNE_UPDATE_GOLDENS")) std::ofstream(c.golden, std::ios::binary) << text;
  REQUIRE(fs::exists(c.golden));
  if (const std::string wanted = read(c.golden); wanted != text)
    FAIL_CHECK("the report differs (- wanted, + found):\n" << difference(wanted, text));
}

/// Codes that no text and no call can show, and where they are shown instead.
const std::map<std::string, std::string>& uncovered() {
  static const std::map<std::string, std::string> reasons = {
      {"A0220", "of a module from the builder; a text reports A0117"},
      {"A0222", "the standard modules do not clash: tests/infer, with modules of its own"},
      {"A0228", "of a module from the builder; a text reports A0119"},
      {"A0233", "of bind_types() by itself; a call reports A0515 or A0516"},
      {"A0521", "needs a chain of hundreds of definitions too large for memory: tests/reference"},
      {"A0522", "needs more memory than the machine has"},
      {"A0523", "memory of a GPU: tests/cuda"},
      {"A0524", "memory of a GPU: tests/cuda"},
      {"A0601", "a file: tests/cli"},
      {"A0602", "a machine without a GPU: tests/cuda"},
      {"A0603", "a machine without libLLVM: tests/cpu_llvm"},
      {"A0604", "more memory than is allowed, drawn by the command: tests/cli"},
      {"A0605", "the command line: tests/cli"},
      {"A0606", "a driver that fails: tests/cuda"},
      {"A0607", "needs more memory than the machine has"},
      {"A0608", "a GPU: tests/cuda"},
      {"A0609", "memory of a GPU: tests/cuda"},
      {"A0610", "a GPU: tests/cuda"},
      {"A0611", "a file of the command: tests/cli"},
      {"A0612", "a file of the command: tests/cli"},
      {"A0613", "a file of the command: tests/cli"},
      {"A0620", "the command line: tests/cli"},
      {"A0712", "the name of a standard program: tests/cli"},
  };
  return reasons;
}

}  // namespace

TEST_CASE("bad programs report exactly their text") {
  const auto list = cases("diagnostics");
  REQUIRE(list.size() >= 80);
  for (const Case& c : list) compare(c);
}

TEST_CASE("bad calls report exactly their text") {
  const auto list = cases("calls");
  REQUIRE(list.size() >= 25);
  for (const Case& c : list) compare(c);
}

TEST_CASE("every code that a text or a call can report is in a golden text") {
  std::set<std::string> seen;
  for (const char* folder : {"diagnostics", "calls"})
    for (const Case& c : cases(folder))
      for (const Diagnostic& d : golden::findings(c.text, c.name)) seen.insert(d.code);
  for (std::string_view view : diagnostic_codes()) {
    const std::string code(view);
    if (code.starts_with("A07") && code != "A0712") continue;  // the builder, in C++: tests/equivalence
    if (code.starts_with("A09")) continue;                     // bugs
    INFO(code << " " << title(code));
    if (uncovered().contains(code))
      CHECK_FALSE(seen.contains(code));  // no reason is needed any more
    else
      CHECK(seen.contains(code));
  }
}

TEST_CASE("the example of each code's long text reports it, and its correction does not") {
  for (std::string_view view : diagnostic_codes()) {
    const std::string code(view), text(explain(view));
    if (code.starts_with("A07") || code.starts_with("A09") || uncovered().contains(code)) continue;
    INFO(code);
    // Indented lines after each of the two lines.
    auto block = [&](const std::string& lead) {
      std::string out;
      bool inside = false;
      for (const std::string& line : lines_of(text)) {
        if (line == lead) {
          inside = true;
        } else if (inside && line.starts_with("    ")) {
          out += line.substr(4) + "\n";
        } else if (inside && !line.empty()) {
          break;
        } else if (inside && !out.empty()) {
          out += "\n";
        }
      }
      return out;
    };
    const std::string example = block("Reports it:"), corrected = block("Corrected:");
    // Limits are thousands of tokens away from what can be shown.
    static const std::set<std::string> limits = {"A0101", "A0112", "A0113", "A0227"};
    if (limits.contains(code) && example.empty()) continue;
    // Bytes that an explanation cannot hold.
    static const std::set<std::string> bytes = {"A0102", "A0103"};
    if (bytes.contains(code) && example.empty()) continue;
    REQUIRE_FALSE(example.empty());
    REQUIRE_FALSE(corrected.empty());
    auto reports = [&](const std::string& source) {
      const Diagnostics found = golden::findings(source, "example.attn");
      INFO(source << render(found));
      return std::any_of(found.begin(), found.end(), [&](const Diagnostic& d) { return d.code == code; });
    };
    CHECK(reports(example));
    const Diagnostics left = golden::findings(corrected, "corrected.attn");
    INFO(corrected << render(left));
    CHECK(left.empty());
  }
}
