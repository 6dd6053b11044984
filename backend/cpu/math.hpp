// SPDX-License-Identifier: Apache-2.0
// Vector mathematics as LLVM IR text: polynomials and bit tricks, never a call to libm. Every function appends to the
// writer and returns the SSA name of its result; x is "float" (width 1) or "<width x float>".
#pragma once
#include <attune/dtype.hpp>
#include <string>
#include <vector>

#include "backend/cpu/cpu.hpp"
#include "backend/cpu/writer.hpp"
#include "tensor/ir.hpp"

namespace attune::cpu {

/// A splat constant of any width, e.g. "<float 0x3FF0000000000000, ...>" or splat form that LLVM 17 to 21 all accept.
std::string constant(float value, int width);
std::string constant(std::int64_t value, int bits, int width);

/// 2^x, at most 3 ulp, exactly 0 for x <= -127 and -inf, +inf above 128, NaN stays NaN (see the design note in
/// math.cpp).
std::string emit_exp2(Writer& w, const std::string& x, int width, const CpuTarget& target);
/// Every float UnaryOp (also exp, log, tanh, sigmoid, silu, gelu, erf, softplus, sin, cos, ...), relative error about
/// 1e-6 or absolute 1e-7 near zeros, IEEE special values. negate/abs/relu/floor/ceil/round included; relu keeps NaN.
std::string emit_unary(Writer& w, tensor::UnaryOp op, const std::string& x, int width, const CpuTarget& target);
std::string emit_pow(Writer& w, const std::string& x, const std::string& y, int width, const CpuTarget& target);
/// max/min that propagate NaN (`propagate`) or may drop one.
std::string emit_max(Writer& w, const std::string& a, const std::string& b, int width, bool propagate);
std::string emit_min(Writer& w, const std::string& a, const std::string& b, int width, bool propagate);
/// Storage bits to f32: `bits` is "half"/"bfloat" handled as i16, i8 for f8 (vector of width elements) and back,
/// rounding to nearest even; f8e4m3 saturates. f16 uses fpext/fptrunc of half only where the target has F16C.
std::string emit_to_f32(Writer& w, DType storage, const std::string& bits, int width, const CpuTarget& target);
std::string emit_from_f32(Writer& w, DType storage, const std::string& x, int width, const CpuTarget& target);
/// Philox4x32-10 of language.md rule 10: seed i64 scalar name; coordinates are i64 names, each scalar or vector as
/// `vector[k]` says; result f32 of `width`.
std::string emit_random(Writer& w, const std::string& seed, const std::vector<std::string>& coordinates,
                        const std::vector<bool>& vector, int width);
/// Declarations of the intrinsics that the functions above use (append once per module).
std::string math_declarations(int width, const CpuTarget& target);

}  // namespace attune::cpu
