// SPDX-License-Identifier: Apache-2.0
// Look-ups of the loop IR.
#include "loop/ir.hpp"

namespace attune::loop {

const Buffer* Kernel::find_buffer(const Sym& sym) const {
  for (const Buffer& buffer : buffers)
    if (buffer.sym == sym) return &buffer;
  return nullptr;
}

}  // namespace attune::loop
