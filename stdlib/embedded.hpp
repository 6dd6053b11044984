// SPDX-License-Identifier: Apache-2.0
// The texts of stdlib/*.attn, embedded at build time; ends with {nullptr, nullptr}.
#pragma once
namespace attune::stdlib_detail {
struct Embedded {
  const char* name;
  const char* text;
};
extern const Embedded embedded_programs[];
}  // namespace attune::stdlib_detail
