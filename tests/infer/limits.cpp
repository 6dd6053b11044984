// SPDX-License-Identifier: Apache-2.0
// What untrusted text may not do: blow up by expansion, nest without end, or recurse; each gives a finding.
#include "syntax/syntax.hpp"
#include "tensor/infer.hpp"
#include "tensor/passes.hpp"
#include "tests/catch.hpp"

using namespace attune;

namespace {

Result<tensor::Program> inference(const std::string& text) {
  auto module = parse(Source("t", text));
  if (!module) return module.diagnostics();
  return infer(*module);
}

std::string code(const Result<tensor::Program>& result) { return result.ok() ? "" : result.diagnostics()[0].code; }

std::string repeated(const std::string& text, int count) {
  std::string result;
  for (int k = 0; k < count; ++k) result += text;
  return result;
}

const std::string kernel_of_f = "kernel k(Q: f32[M]) -> O: f32[M] {\n  O[i] = g40(Q[i])\n}\n";

}  // namespace

TEST_CASE("doubling functions end with a finding, used or dropped") {
  for (const char* step : {"(x) + g", "(x) * 0 + drop(g"}) {
    std::string text = "fn drop(x) = 1\nfn g0(x) = x\n";
    for (int k = 1; k <= 40; ++k) {
      const std::string before = std::to_string(k - 1);
      text += "fn g" + std::to_string(k) + "(x) = g" + before + step + before + "(x)" +
              (std::string(step).find("drop") != std::string::npos ? ")\n" : "\n");
    }
    const auto result = inference(text + kernel_of_f);
    CHECK(code(result) == "A0227");
    CHECK(result.diagnostics().size() == 1);
  }
}

TEST_CASE("an argument used often counts each time") {
  std::string text = "fn g0(x) = x\n";
  for (int k = 1; k <= 40; ++k) text += "fn g" + std::to_string(k) + "(x) = g" + std::to_string(k - 1) + "(x + x)\n";
  CHECK(code(inference(text + kernel_of_f)) == "A0227");
}

TEST_CASE("nesting of 200 works, expanded nesting beyond 256 does not") {
  for (const auto& [open, close] : std::vector<std::pair<std::string, std::string>>{{"(1 + 2 * ", ")"},
                                                                                    {"-", ""},
                                                                                    {"exp(", ")"},
                                                                                    {"1 if true else ", ""},
                                                                                    {"2 ^ ", ""},
                                                                                    {"sum[j in 0..3](", ")"}}) {
    // Siblings may reuse a name, nested reductions may not.
    const int depth = open[0] == 's' ? 1 : 200;
    const std::string body = repeated(open, depth) + "Q[i]" + repeated(close, depth);
    const auto result = inference("kernel k(Q: f32[M]) -> O: f32[M] {\n  O[i] = " + body + "\n}\n");
    INFO(body);
    REQUIRE(result.ok());
    CHECK(tensor::verify(*result).empty());
    CHECK(!tensor::print(*result).empty());
  }
  const std::string calls = repeated("exp(", 150) + "x" + repeated(")", 150);
  CHECK(code(inference("fn f(x) = " + calls + "\nkernel k(Q: f32[M]) -> O: f32[M] {\n  O[i] = f(f(Q[i]))\n}\n")) ==
        "A0227");
  CHECK(code(inference("fn f(x) = " + calls + "\nkernel k(Q: f32[M]) -> O: f32[M] {\n  O[i] = f(Q[i])\n}\n")).empty());
}

TEST_CASE("a long line of wrappers neither recurses without end nor is refused early") {
  auto wrappers = [](int count) {
    std::string text = "fn g0(x) = x\n";
    for (int k = 1; k <= count; ++k) text += "fn g" + std::to_string(k) + "(x) = g" + std::to_string(k - 1) + "(x)\n";
    return text + "kernel k(Q: f32[M]) -> O: f32[M] {\n  O[i] = g" + std::to_string(count) + "(Q[i])\n}\n";
  };
  CHECK(inference(wrappers(500)).ok());
  CHECK(code(inference(wrappers(5000))) == "A0227");
}

TEST_CASE("a tree that no text could have is refused") {
  ast::Expr deep(ast::Integer{1});
  for (int k = 0; k < 3000; ++k) deep = ast::Expr(ast::Negate{deep});
  ast::Kernel kernel;
  kernel.name = "k";
  kernel.results = {{"O", {"f32", {}}, {}, {}, {}}};
  kernel.items.push_back(ast::Definition{"O", {}, deep, {}, {}});
  ast::Module module;
  module.declarations.push_back(kernel);
  CHECK(code(infer(module)) == "A0227");
  std::get<ast::Definition>(std::get<ast::Kernel>(module.declarations[0]).items[0]).body = ast::Expr();
  CHECK(code(infer(module)) == "A0210");
}

TEST_CASE("long chains do not nest") {
  const auto result =
      inference("kernel k(Q: f32[M]) -> O: f32[M] {\n  O[i] = Q[i]" + repeated(" + Q[i]", 20000) + "\n}\n");
  REQUIRE(result.ok());
  CHECK(std::get<tensor::Chain>(result->definitions[0].body->kind).args.size() == 20001);
}

TEST_CASE("many definitions in a row and a large sum of extents stay fast") {
  std::string text = "kernel k(Q: f32[M]) -> O: f32[M] {\n  O[i] = A2000[i]\n";
  for (int k = 2000; k > 0; --k) text += "  A" + std::to_string(k) + "[i] = A" + std::to_string(k - 1) + "[i] + 1\n";
  const auto result = inference(text + "  A0[i] = Q[i]\n}\n");
  REQUIRE(result.ok());
  CHECK(result->definitions.size() == 2002);
  CHECK(result->definitions.front().sym.text() == "A0");
  CHECK(inference("kernel k(Q: f32[(A + B + C + D + E) ^ 12]) -> O: f32[(A + B + C + D + E) ^ 12] {\n O[i] = Q[i]\n}\n")
            .ok());
}

TEST_CASE("two used modules may not declare one function; the text's own comes first") {
  const std::vector<tensor::inference::LibraryModule> library = {{"one", "fn f(x) = x\nfn g(x) = 1"},
                                                                 {"two", "fn f(x) = 2 * x"}};
  auto run = [&](const std::string& text) {
    auto module = parse(Source("t", text + "kernel k(Q: f32[M]) -> O: f32[M] {\n  O[i] = f(Q[i])\n}\n"));
    REQUIRE(module.ok());
    return tensor::inference::infer(*module, "", library);
  };
  const auto clash = run("use std.one\nuse std.two\n");
  REQUIRE(code(clash) == "A0222");
  CHECK(clash.diagnostics()[0].message == "`std.two` clashes with a module used before");
  CHECK(clash.diagnostics()[0].notes == std::vector<std::string>{"`f` is also in std.one"});
  CHECK(tensor::print(run("use std.one\n")->definitions[0].body) == "Q[i]");
  CHECK(tensor::print(run("use std.two\n")->definitions[0].body) == "2.0 * Q[i]");
  CHECK(tensor::print(run("use std.two\nfn f(x) = 3 * x\n")->definitions[0].body) == "3.0 * Q[i]");
  CHECK(run("use std.one\nuse std.one\n").ok());
}

TEST_CASE("the choice of a kernel") {
  const std::string two =
      "kernel first(Q: f32[M]) -> O: f32[M] {\n O[i] = f(Q[i])\n}\nfn f(x) = x\n"
      "kernel second(Q: f32[M]) -> O: f32[M] {\n O[i] = 2 * Q[i]\n}\n";
  auto module = parse(Source("t", two));
  REQUIRE(module.ok());
  CHECK(infer(*module, "second")->name == "second");
  CHECK(infer(*module, "second").diagnostics().empty());  // `f` serves the other kernel
  CHECK(infer(*module).diagnostics()[0].help == "choose one of `first`, `second`");
  CHECK(infer(*module, "secnd").diagnostics()[0].help == "did you mean `second`?");
  auto none = parse(Source("t", "fn f(x) = x\n"));
  REQUIRE(none.ok());
  CHECK(infer(*none).diagnostics()[0].message == "the text has no kernel");
}
