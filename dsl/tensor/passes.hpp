// SPDX-License-Identifier: Apache-2.0
// The steps from AST to streams, in order: infer -> bind_types -> desugar -> simplify -> stream -> masks.
#pragma once
#include <attune/diagnostic.hpp>
#include <map>
#include <string>

#include "syntax/ast.hpp"
#include "tensor/ir.hpp"

namespace attune {

/// AST to typed tensor IR: every rule of the notation that does not need sizes. `kernel_name` chooses among several
/// (may be empty where there is one). Several independent errors are reported together; warnings accompany a value.
Result<tensor::Program> infer(const ast::Module& module, const std::string& kernel_name = {});

namespace tensor {
/// Binds type variables (by name) to float dtypes and const scalars to values; both then vanish from the program.
Result<Program> bind_types(const Program& program, const std::map<std::string, DType>& types,
                           const std::map<std::string, double>& consts = {});
/// Softmax, mean, logsumexp and extra terms in terms of max, exp, sum and Where. Afterwards no Softmax is left and
/// Reduce::op is never mean or logsumexp.
Program desugar(const Program& program);
/// Constant folding, neutral elements, flattening of chains. Idempotent; no new node where nothing changed.
Program simplify(const Program& program);
Expr simplify(const Expr& expr);
}  // namespace tensor
}  // namespace attune
