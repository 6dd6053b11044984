// SPDX-License-Identifier: Apache-2.0
// `attune env`: what was found on this machine and what to install for the rest.
#include <fmt/format.h>

#include <iostream>

#include "command.hpp"

namespace attune::tool {

int env_command(const Options& o) {
  Engine engine;
  auto findings = engine.environment();
  auto programs = stdlib::names();
  if (o.json) {
    Json list = Json::array();
    for (const auto& f : findings) list.push_back({{"what", f.what}, {"found", f.found}, {"detail", f.detail}});
    std::cout << Json{{"version", ATTUNE_VERSION}, {"findings", list}, {"stdlib", programs}}.dump(2) << "\n";
    return done;
  }
  std::cout << "attune " << ATTUNE_VERSION << "\n";
  for (const auto& f : findings) std::cout << fmt::format("{} {:<22} {}\n", f.found ? "✓" : "✗", f.what, f.detail);
  std::cout << "standard programs: " << fmt::format("{}", fmt::join(programs, " ")) << "\n";
  return done;
}

}  // namespace attune::tool
