// SPDX-License-Identifier: Apache-2.0
// programs/*.attn and errors/*.attn against the exact text beside each: the inferred program, or every finding.
// A missing file fails; ATTUNE_UPDATE_GOLDENS=1 writes them.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "syntax/syntax.hpp"
#include "tensor/passes.hpp"
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

std::vector<fs::path> sources(const char* folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(fs::path(ATTUNE_TEST_DIR) / folder))
    if (entry.path().extension() == ".attn") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

void compare(fs::path path, const std::string& found) {
  path.replace_extension(".txt");
  if (std::getenv("ATTUNE_UPDATE_GOLDENS")) std::ofstream(path, std::ios::binary) << found;
  INFO(path.filename().string());
  REQUIRE(fs::exists(path));
  CHECK(read(path) == found);
}

}  // namespace

TEST_CASE("programs infer to their golden text") {
  const auto paths = sources("programs");
  REQUIRE(paths.size() >= 10);
  for (const fs::path& path : paths) {
    const auto module = parse(Source(path.filename().string(), read(path)));
    REQUIRE(module.ok());
    const auto program = infer(*module);
    INFO(path.filename().string() << "\n" << render(program.diagnostics()));
    REQUIRE(program.ok());
    CHECK(tensor::verify(*program).empty());
    std::string text = tensor::print(*program);
    if (!program.diagnostics().empty()) text += "\n" + render(program.diagnostics()) + "\n";
    compare(path, text);
  }
}

TEST_CASE("bad programs give exactly their findings") {
  const auto paths = sources("errors");
  REQUIRE(paths.size() >= 40);
  for (const fs::path& path : paths) {
    const auto module = parse(Source(path.filename().string(), read(path)));
    INFO(path.filename().string());
    REQUIRE(module.ok());
    const auto program = infer(*module);
    REQUIRE(!program.ok());
    for (const Diagnostic& d : program.diagnostics()) {
      CHECK(d.severity == Severity::error);
      CHECK(!explain(d.code).empty());
      CHECK(d.span.end <= module->source.text().size());
    }
    compare(path, render(program.diagnostics()) + "\n");
  }
}
