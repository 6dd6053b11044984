// SPDX-License-Identifier: Apache-2.0
// Statements of one nest as closures over the frame.
#pragma once
#include <functional>
#include <vector>

#include "backend/interpreter/expression.hpp"

namespace attune::interpreter {

using Action = std::function<void(Frame&)>;

/// Where an execution is, for messages.
struct Site {
  const loop::Kernel* kernel = nullptr;
  const loop::Nest* nest = nullptr;
  const loop::Stmt* stmt = nullptr;  ///< null: the nest's own bounds
  const char* what = "";             ///< said of such a bound
};

[[noreturn]] void fail(const Site& site, const std::string& problem);
/// Fails if what was evaluated read something that it must not.
void check(Frame& frame, const Site& site);
/// An integer that must be present.
std::int64_t whole(Frame& frame, const Code& code, const Site& site);

/// Compiles a block; runs its statements one after the other.
std::vector<Action> compile(const loop::Kernel& kernel, const loop::Nest& nest, const loop::Block& block,
                            Compiler& compiler);

}  // namespace attune::interpreter
