// SPDX-License-Identifier: Apache-2.0
// Calls of the standard programs: dims, inputs and scalars that mean something to each of them.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/numerics/harness.hpp"

namespace attune::test {

/// Sizes of a case, from which a program's own dims follow.
Case shape(std::int64_t b, std::int64_t h, std::int64_t g, std::int64_t m, std::int64_t n, std::int64_t d,
           std::int64_t e);

/// Whether integers or booleans of the program say what is read or seen, so that hostile ones mean something.
bool depends_on_data(const tensor::Program& bound);

/// Inputs, scalars and dims of one call.
struct Call {
  std::vector<std::unique_ptr<Data>> inputs;
  Arguments arguments;
  Binding sizes;
  std::map<std::string, std::int64_t> dims;

  Data& input(const std::string& name) const;
  /// Poisoned room for a result.
  Data result(const tensor::Tensor& declared) const;
};

/// Random inputs, valid for the program of this name; hostile: with entries that point anywhere.
Call standard_call(const std::string& name, const tensor::Program& bound, const Case& c, bool hostile,
                   std::mt19937& random);

/// The standard program of this name in one type, on all cases, also with hostile data: checks the results and the
/// out-of-range flag of the other targets against those of the first. Targets that are not here are left out. Gives how
/// many results were compared.
int agree(Engine& engine, const std::string& name, DType dtype, const std::vector<Case>& cases,
          std::span<const char* const> targets);

}  // namespace attune::test
