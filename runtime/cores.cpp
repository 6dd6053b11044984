// SPDX-License-Identifier: Apache-2.0
// Physical cores within the affinity mask and the control group's CPU quota (version 1 and 2).
#include "runtime/cores.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace attune {
namespace {

std::vector<int> allowed_processors() {
  std::vector<int> processors;
  // The kernel refuses a mask smaller than its own with EINVAL: grow until it fits.
  for (int capacity = 1024; capacity <= 1 << 18; capacity *= 4) {
    cpu_set_t* mask = CPU_ALLOC(static_cast<std::size_t>(capacity));
    if (!mask) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(capacity));
    const int failed = sched_getaffinity(0, bytes, mask);
    if (failed == 0)
      for (int cpu = 0; cpu < capacity; ++cpu)
        if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, mask)) processors.push_back(cpu);
    CPU_FREE(mask);
    if (failed == 0 || errno != EINVAL) break;
  }
  return processors;
}

int read_int(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int value = otherwise;
  return file >> value ? value : otherwise;
}

/// Cores that "cpu.max" ("max 100000" or "150000 100000") allows; 0: unlimited or unreadable.
double quota_of(const std::string& directory) {
  std::ifstream file(directory + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::max(0.0, std::atof(quota.c_str())) / period;
}

double quota_v1(const std::string& directory) {
  const int quota = read_int(directory + "/cpu.cfs_quota_us", -1),
            period = read_int(directory + "/cpu.cfs_period_us", 0);
  return quota > 0 && period > 0 ? static_cast<double>(quota) / period : 0;
}

/// The tightest quota of the process' control group and the groups above it; 0: unlimited.
double control_group_quota() {
  double tightest = 0;
  const auto take = [&](double quota) {
    if (quota > 0 && (tightest == 0 || quota < tightest)) tightest = quota;
  };
  const auto walk_up = [&](const std::string& root, std::string path, auto&& read) {
    for (;;) {
      take(read(root + path));
      const std::size_t slash = path.rfind('/');
      if (slash == std::string::npos || path.empty()) break;
      path.resize(slash);
    }
    take(read(root));
  };
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) walk_up("/sys/fs/cgroup", path, quota_of);
    if (controllers.find("cpu") != std::string::npos) {
      walk_up("/sys/fs/cgroup/cpu", path, quota_v1);
      walk_up("/sys/fs/cgroup/cpu,cpuacct", path, quota_v1);
    }
  }
  return tightest;
}

}  // namespace

UsableCores usable_cores() {
  UsableCores cores;
  const std::vector<int> processors = allowed_processors();
  std::set<std::pair<int, int>> physical;
  for (int cpu : processors) {
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    // Without a readable topology every hardware thread counts as a core of its own.
    physical.insert({read_int(topology + "physical_package_id", -1), read_int(topology + "core_id", -2 - cpu)});
  }
  cores.logical_cores = std::max<int>(1, static_cast<int>(processors.size()));
  cores.physical_cores = std::max<int>(1, static_cast<int>(physical.size()));
  cores.quota = control_group_quota();
  cores.threads = cores.physical_cores;
  if (cores.quota > 0) cores.threads = std::min(cores.threads, static_cast<int>(std::ceil(cores.quota - 1e-9)));
  cores.threads = std::max(cores.threads, 1);
  return cores;
}

}  // namespace attune
