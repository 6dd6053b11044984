// SPDX-License-Identifier: Apache-2.0
// The tensors of a session where the kernel's target reaches them.
#pragma once
#include <attune/device.hpp>

#include "command.hpp"

namespace attune::tool {

/// A call's arguments: the session's own for targets of the host, copies on the GPU else.
class OnDevice {
 public:
  /// Fails where the GPU has not enough memory.
  OnDevice(const Session& session, const Target& target);
  const Arguments& arguments() const { return arguments_; }
  /// Copies the results into the session's memory.
  void fetch(const Session& session);

 private:
  struct Copy {
    std::string name;
    DeviceBuffer buffer;
  };
  Arguments arguments_;
  std::vector<Copy> copies_;
};

}  // namespace attune::tool
