// SPDX-License-Identifier: Apache-2.0
// Printing gives canonical text whose parse is the same AST: chosen forms, whole programs and random trees.
#include <attune/program.hpp>
#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "common/node.hpp"
#include "programs.hpp"
#include "support.hpp"
#include "syntax/words.hpp"

using namespace attune;
using namespace attune::test;

namespace {

/// Draws well-formed expressions of every kind.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  ast::Expr expr(int depth) {
    if (depth <= 0 || chance(6)) return leaf();
    using namespace ast;
    switch (below(11)) {
      case 0: return Expr(Subscript{name(), {}, exprs(depth, 0, 4)});
      case 1: return Expr(Call{"f" + name(), {}, exprs(depth, 0, 4)});
      case 2: return Expr(Cast{{chance(2) ? "f16" : "T", {}}, expr(depth - 1)});
      case 3: return Expr(Negate{expr(depth - 1)});
      case 4: return Expr(Not{expr(depth - 1)});
      case 5: return Expr(Power{expr(depth - 1), expr(depth - 1)});
      case 6: return Expr(Conditional{expr(depth - 1), expr(depth - 1), expr(depth - 1)});
      case 7: {
        Comparison node{{}, exprs(depth, 2, 4), {}};
        while (node.relations.size() + 1 < node.operands.size()) node.relations.push_back(Relation(below(6)));
        return Expr(std::move(node));
      }
      case 8: {
        Reduction node{Reducer(below(11)), {}, indices(depth), {}, expr(depth - 1), {}};
        if (chance(2)) node.guard = expr(depth - 1);
        if (chance(3)) node.extra = expr(depth - 1);
        return Expr(std::move(node));
      }
      default: {
        Chain node{{}, exprs(depth, 2, 5), {}};
        static constexpr std::pair<int, int> groups[] = {{0, 2}, {2, 3}, {5, 1}, {6, 1}};
        auto [first, count] = groups[below(4)];
        while (node.links.size() + 1 < node.operands.size()) node.links.push_back(Link(first + below(count)));
        return Expr(std::move(node));
      }
    }
  }

  std::vector<ast::Index> indices(int depth) {
    std::vector<ast::Index> list(static_cast<std::size_t>(1 + below(2)));
    for (ast::Index& index : list) {
      index.name = name();
      if (chance(2)) continue;
      index.lo = expr(depth - 1);
      index.hi = expr(depth - 1);
    }
    return list;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool chance(int one_in) { return below(one_in) == 0; }
  std::string name() { return std::string(1, static_cast<char>('a' + below(26))) + "_"; }

  std::vector<ast::Expr> exprs(int depth, int least, int most) {
    std::vector<ast::Expr> list;
    for (int n = least + below(most - least + 1); n > 0; --n) list.push_back(expr(depth - 1));
    return list;
  }

  ast::Expr leaf() {
    switch (below(6)) {
      case 0: return ast::Expr(ast::Integer{random_() >> (1 + below(63))});
      case 1: {
        double value = std::bit_cast<double>(random_() & 0x7FFF'FFFF'FFFF'FFFFull);
        if (!(value < HUGE_VAL)) value = 1;
        return ast::Expr(ast::Float{chance(2) ? value : std::floor(std::fmod(value, 1e6))});
      }
      case 2: return ast::Expr(ast::Boolean{chance(2)});
      case 3: return ast::Expr(ast::Infinity{});
      default: return ast::Expr(ast::Name{name()});
    }
  }

  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("print: canonical text with minimal parentheses") {
  for (const char* text : {"-x^2",
                           "(-x)^2",
                           "2^-1",
                           "2^3^2",
                           "(2^3)^2",
                           "--x",
                           "-(a + b)",
                           "-a * b",
                           "a * -b",
                           "a - (b - c)",
                           "a - b - c",
                           "(a - b) - c",
                           "a / (b * c)",
                           "(a * b) + (c + d)",
                           "a + b * c",
                           "(a + b) * c",
                           "a <= j < b",
                           "(a < b) < c",
                           "a < (b < c)",
                           "(a if p else b) + 1",
                           "a if p else b if q else c",
                           "(a if p else b) if q else c",
                           "a if (b if c else d) else e",
                           "a or b and not c",
                           "(a or b) and c",
                           "not (a and b)",
                           "not a and b",
                           "not a < b",
                           "(not a) < b",
                           "(not a) + 1",
                           "not not a",
                           "x[]",
                           "f()",
                           "f(a if p else b, c or d)",
                           "x[a or b]",
                           "sum[j](a + b) * 2",
                           "sum[j in 0..N where j <= i](x[j])",
                           "sum[j in a + 1..-N](1)",
                           "sum[j in (a if p else b)..(c < d)](1)",
                           "softmax[j, k where p or q](s, extra = 0)",
                           "argmax[j](a if p else b)",
                           "f16(a + b)^2",
                           "bool(a)",
                           "1.0",
                           "1.5",
                           "1e+300",
                           "1e-07",
                           "inf",
                           "-inf",
                           "true",
                           "max + max(a, b) + max[j](c)",
                           "a % b == (a / b) * b",
                           "(a and b) and c",
                           "a and b and c"}) {
    std::string printed = print(parsed(std::string("fn f(x) = ") + text));
    // One pair of parentheses around a product inside a sum is not minimal: the only text above that changes.
    std::string expected = std::string("fn f(x) = ") + text + "\n";
    if (std::string(text) == "(a * b) + (c + d)") expected = "fn f(x) = a * b + (c + d)\n";
    CHECK(printed == expected);
  }
  CHECK(print(expression("((a))*( b+ 0x10 )")) == "a * (b + 16)");
  CHECK(print(expression("0.1 + 1e22 + 123456789.0")) == "0.1 + 1e+22 + 123456789.0");
}

TEST_CASE("print: modules and kernels") {
  std::string canonical = R"(use std.masks
use std.positions

fn f() = 1
fn g(x, y) = x + y

kernel k<T, U>(Q: T[B, 2 * D, (N + 15) / 16], n: i64, c: const bool = true) -> (O: U[N], L: f32[]) {
  fn h(x) = x

  O[i in 0..N] = 1.5
  L[] = 2
}

kernel l() -> O: f32[] {
}
)";
  CHECK(print(parsed(canonical)) == canonical);
  std::string wide = "kernel wide(";
  for (int i = 0; i < 30; ++i) wide += fmt::format("{}parameter_{}: f32[N]", i ? "," : "", i);
  wide += ") -> O: f32[N] { O[i] = 1 }";
  std::string printed = print(parsed(wide));
  CHECK(parsed(printed) == parsed(wide));
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    CHECK(line.size() <= 102);
    CHECK((line.empty() || line.back() != ' '));
  }
}

TEST_CASE("round trip: programs") {
  for (const char* text : programs) {
    ast::Module module = parsed(text);
    std::string printed = print(module);
    INFO(printed);
    CHECK(parsed(printed) == module);
    CHECK(print(parsed(printed)) == printed);
    CHECK_FALSE(print_tree(module).empty());
  }
}

TEST_CASE("round trip: random expressions") {
  for (unsigned seed = 0; seed < 1500; ++seed) {
    Draw draw(seed);
    ast::Kernel kernel;
    kernel.name = "k";
    kernel.type_variables = {"T"};
    kernel.results = {{"O", {"T", {}}, {}, {}, {}}};
    kernel.items.push_back(ast::Definition{"O", draw.indices(2), draw.expr(static_cast<int>(seed % 7)), {}, {}});
    ast::Module module;
    module.declarations.push_back(kernel);
    std::string text = print(module);
    Result<ast::Module> again = parse(Source("t", text));
    INFO(seed << ": " << text);
    REQUIRE(again);
    REQUIRE(*again == module);
    REQUIRE(print(*again) == text);
  }
}

TEST_CASE("round trip: parentheses are minimal") {
  // Taking away any one pair changes the tree or makes the text invalid.
  for (unsigned seed = 0; seed < 150; ++seed) {
    Draw draw(seed);
    ast::Expr expr = draw.expr(4);
    std::string text = print(expr);
    ast::Expr plain = expression(text);
    std::vector<std::size_t> open;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] == '(') open.push_back(at);
      if (text[at] != ')') continue;
      std::size_t from = open.back();
      open.pop_back();
      bool of_a_call = from > 0 && (std::isalnum(static_cast<unsigned char>(text[from - 1])) || text[from - 1] == '_' ||
                                    text[from - 1] == ']');
      if (of_a_call) continue;
      std::string bare = text;
      bare[from] = bare[at] = ' ';
      Result<ast::Module> other = parse(Source("t", "fn f(x) = (" + bare + ")"));
      INFO(text << "\n" << bare);
      CHECK((!other || !(std::get<ast::FunctionDecl>(other->declarations[0]).body == plain)));
    }
  }
}

TEST_CASE("program: parse, text, kernels, identity") {
  Result<Program> a = Program::parse("kernel k(x: f32[N])->O: f32[N]{O[i]=x[i]} fn f()=1;kernel l()->O: f32[]{O[]=1}");
  REQUIRE(a);
  CHECK(a->kernels() == std::vector<std::string>{"k", "l"});
  Result<Program> b = Program::parse(a->text(), "other");
  REQUIRE(b);
  CHECK(*a == *b);
  CHECK(a->hash() == b->hash());
  CHECK(a->hash().size() == 32);
  Result<Program> c = Program::parse("kernel k(x: f32[N]) -> O: f32[N] { O[i] = x[i] + 0 }");
  CHECK_FALSE(*a == *c);
  CHECK(a->hash() != c->hash());
  CHECK(Program::from_module(a->module()) == *a);
  Result<Program> bad = Program::parse("kernel", "name.attn");
  REQUIRE_FALSE(bad);
  CHECK(bad.diagnostics()[0].source.name() == "name.attn");
}

TEST_CASE("program: load") {
  Result<Program> none = Program::load("no/such/file.attn");
  REQUIRE_FALSE(none);
  CHECK(none.diagnostics()[0].code == "A0601");
  Result<Program> folder = Program::load(ATTUNE_TEST_DIR);
  REQUIRE_FALSE(folder);
  CHECK(folder.diagnostics()[0].code == "A0601");
  std::string path = "syntax_load_test.attn";
  std::ofstream(path) << "fn f(x) = x\n";
  Result<Program> loaded = Program::load(path);
  CHECK((loaded && loaded->text() == "fn f(x) = x\n"));
  std::ofstream(path) << std::string((1 << 20) + 1, ' ');
  Result<Program> large = Program::load(path);
  REQUIRE_FALSE(large);
  CHECK(large.diagnostics()[0].code == "A0101");
  std::remove(path.c_str());
}
