// SPDX-License-Identifier: Apache-2.0
// How many threads this process may use to advantage.
#pragma once

namespace attune {

struct UsableCores {
  int threads = 1;         ///< the smaller of the two below, at least 1
  int physical_cores = 1;  ///< cores with at least one hardware thread in the affinity mask
  int logical_cores = 1;   ///< hardware threads in the affinity mask
  double quota = 0;        ///< cores that the control group allows, 0 where unlimited
};

/// Reads the affinity mask, the topology and the control group; not cached.
UsableCores usable_cores();

}  // namespace attune
