// SPDX-License-Identifier: Apache-2.0
// Text, file and builder give one AST, and printing is the inverse of parsing, for every standard program.
#include <attune/stdlib.hpp>

#include "stdlib_programs.hpp"
#include "syntax/ast.hpp"
#include "tensor/passes.hpp"
#include "tests/catch.hpp"

using namespace attune;

namespace {
Program parsed(std::string_view text, const std::string& name) {
  Result<Program> program = Program::parse(text, name);
  INFO(render(program.diagnostics()));
  REQUIRE(program);
  return *program;
}
}  // namespace

TEST_CASE("the builder knows every standard program") {
  std::vector<std::string> built;
  for (const auto& [name, make] : built_programs()) built.push_back(name);
  CHECK(stdlib::names() == built);
}

TEST_CASE("builder, text, file and printed text of a standard program are one program") {
  for (const std::string& name : stdlib::names()) {
    DYNAMIC_SECTION(name) {
      const Program shipped = parsed(stdlib::text(name), "std:" + name);
      const Program built = built_programs().at(name)();
      INFO(built.text());
      CHECK(built == shipped);
      CHECK(built.text() == shipped.text());
      CHECK(built.hash() == shipped.hash());
      CHECK(parsed(shipped.text(), "printed") == shipped);
      CHECK(parsed(built.text(), "printed") == built);
      const Result<Program> by_name = stdlib::program(name),
                            from_file = Program::load(ATTUNE_SOURCE_DIR "/stdlib/" + name + ".attn");
      REQUIRE(by_name);
      REQUIRE(from_file);
      CHECK(*by_name == built);
      CHECK(*from_file == built);
      CHECK(shipped.kernels() == std::vector<std::string>{name});
    }
  }
}

TEST_CASE("every standard program infers without a word, and opens with its explanation") {
  for (const std::string& name : stdlib::names()) {
    DYNAMIC_SECTION(name) {
      const Program program = parsed(stdlib::text(name), "std:" + name);
      const Result<tensor::Program> inferred = infer(program.module());
      INFO(render(inferred.diagnostics()));
      CHECK(inferred);
      CHECK(inferred.diagnostics().empty());
      const std::string_view text = stdlib::text(name);
      CHECK(text.starts_with("# "));
      CHECK(text.find("# Shapes: ") != text.npos);
      CHECK(text.find("# Parameters:\n") != text.npos);
      // Each parameter that is not Q, K or V is explained.
      for (const auto& scalar : inferred ? inferred->scalars : std::vector<tensor::ScalarParam>())
        CHECK(text.find("#   " + scalar.sym.text() + " ") != text.npos);
    }
  }
}

TEST_CASE("an unknown standard program is an error with the nearest name") {
  const Result<Program> program = stdlib::program("casual");
  REQUIRE_FALSE(program);
  CHECK(program.diagnostics()[0].code == "A0712");
  CHECK(program.diagnostics()[0].help == "did you mean `causal`?");
  CHECK(stdlib::text("casual").empty());
  const Result<Program> prefixed = stdlib::program("std:causal");
  REQUIRE_FALSE(prefixed);
  CHECK(prefixed.diagnostics()[0].help.find("leave `std:` out") != std::string::npos);
  CHECK(stdlib::program("std:casual").diagnostics().at(0).help == "did you mean `causal`?");
  CHECK_FALSE(stdlib::program("").diagnostics().at(0).help.empty());
}
