// SPDX-License-Identifier: Apache-2.0
// Conditions over tiles: "must" holds nowhere it should not, "may" fails nowhere it should not, and for predicates of
// indices, dims and scalars both are as sharp as they need to be. Each tile is compared with all of its elements.
#include <attune/program.hpp>
#include <random>

#include "backend/constant.hpp"
#include "tensor/masks.hpp"
#include "tensor/passes.hpp"
#include "tests/catch.hpp"

using namespace attune;

namespace {

struct Counted {
  int all = 0, none = 0;              ///< tiles in which every, no element is visible
  int found_all = 0, found_none = 0;  ///< of these, those that the analysis names
};

/// All tiles of 8 x 16 over 40 rows and 96 keys.
Counted classes(const std::string& condition) {
  const std::string text = "kernel k(X: f32[M, N], C: i32, W: i32) -> O: f32[M] {\n  O[i] = sum[j where (" + condition +
                           ") and C + W == C + W](X[i, j])\n}";
  const auto parsed = Program::parse(text, "guard").value();
  const tensor::Program program = tensor::simplify(tensor::bind_types(infer(parsed.module()).value(), {}).value());
  const auto& reduce = std::get<tensor::Reduce>(program.definitions[0].body->kind);
  const Sym i = program.definitions[0].indices[0].index, j = reduce.over[0].index;
  std::unordered_map<Sym, std::int64_t> dims;
  for (const Sym& dim : program.dims) dims[dim] = dim.text() == "M" ? 40 : 96;
  std::unordered_map<Sym, ScalarValue> scalars;
  for (const auto& scalar : program.scalars) scalars[scalar.sym] = std::int64_t{scalar.sym.text() == "C" ? 16 : 20};
  auto holds = [&](const tensor::Expr& e) {
    const auto value = evaluate_integer(
        tensor::Expr(tensor::Select{e, tensor::integer(1), tensor::integer(0)}, tensor::type_i64), {&dims, &scalars});
    REQUIRE(value);
    return *value == 1;
  };
  Counted out;
  for (std::int64_t i0 = 0; i0 < 40; i0 += 8)
    for (std::int64_t j0 = 0; j0 < 96; j0 += 16) {
      const tensor::TileAnalysis analysis({{i, {tensor::integer(i0), tensor::integer(i0 + 7), {}}},
                                           {j, {tensor::integer(j0), tensor::integer(j0 + 15), {}}}},
                                          {});
      const bool must = holds(analysis.must(reduce.guard)), may = holds(analysis.may(reduce.guard));
      int seen = 0;
      for (std::int64_t a = i0; a < i0 + 8; ++a)
        for (std::int64_t b = j0; b < j0 + 16; ++b)
          seen += holds(
              tensor::simplify(tensor::substitute(reduce.guard, {{i, tensor::integer(a)}, {j, tensor::integer(b)}})));
      INFO(condition << " in rows from " << i0 << ", keys from " << j0 << ": " << seen << " of 128");
      if (must) CHECK(seen == 128);
      if (!may) CHECK(seen == 0);
      out.all += seen == 128;
      out.none += seen == 0;
      out.found_all += must && seen == 128;
      out.found_none += !may && seen == 0;
    }
  return out;
}

}  // namespace

TEST_CASE("blocks of index predicates are classified") {
  for (const char* condition : {
           "j <= i + N - M",
           "i + N - M - W < j <= i + N - M",
           "(i + N - M - W < j or j < 3) and j <= i + N - M",
           "i / C == j / C",
           "(i + N - M) / C * C <= j <= i + N - M",
           "abs(i - j) <= W",
           "not (j > i)",
           // Cases by the index: one side of a choice where the condition is the same in the whole block.
           "(j < i if j < 48 else j - 48 < i)",
           "(j - 48 if j >= 48 else j) / C == (i - 24 if i >= 24 else i) / C",
           "((j - 48) / C <= i / C if j >= 48 else i < 24 and j / C == i / C)",
           "(true if i < 16 else false) or j < (i if i >= 16 else 0)",
       }) {
    INFO(condition);
    const Counted tiles = classes(condition);
    CHECK(tiles.found_all == tiles.all);
    CHECK(tiles.found_none == tiles.none);
    CHECK(tiles.none > 0);
  }
}

TEST_CASE("blocks of other predicates are never classified wrongly") {
  // Remainders, products of indices and choices by a remainder: sound, not sharp.
  for (const char* condition :
       {"(i - j) % 3 == 0", "i * j < 200", "(i % C) * (j % C) == 4", "(j < i if i % 2 == 0 else j > i)",
        "clamp(i, 3, W) - 2 <= j / 3", "-W <= 2 * (j / 5 - clamp(i / 5, 2, 4)) <= W",
        "j % C <= i % C and j / C == i / C", "(i if j % 2 == 0 else -i) < j - C"}) {
    INFO(condition);
    classes(condition);
  }
}
