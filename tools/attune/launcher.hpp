// SPDX-License-Identifier: Apache-2.0
// C sources that call a kernel compiled ahead of time: a header and a launcher that need nothing but a C compiler.
#pragma once
#include <string>

#include "loop/ir.hpp"
#include "tensor/ir.hpp"

namespace attune::tool {

struct Launcher {
  std::string header, source;
};

/// For a program with its types bound and the kernel made of it. `prefix` starts the names of the object's functions,
/// `note` is a line about the machine that it was compiled for.
Launcher launcher(const tensor::Program& program, const loop::Kernel& kernel, const std::string& prefix,
                  const std::string& note);

}  // namespace attune::tool
