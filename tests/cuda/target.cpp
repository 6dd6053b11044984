// SPDX-License-Identifier: Apache-2.0
// Targets by name and by device: architectures, limits, what is refused and why.
#include "backend/cuda/target.hpp"

#include <attune/device.hpp>
#include <attune/options.hpp>
#include <set>

#include "backend/cuda/device.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/fake.hpp"

using namespace attune;

TEST_CASE("targets name a GPU by its ordinal") {
  CHECK(Target::parse("cuda") == Target{TargetKind::cuda, 0});
  CHECK(Target::parse("cuda:0") == Target{TargetKind::cuda, 0});
  CHECK(Target::parse("cuda:12") == Target{TargetKind::cuda, 12});
  for (const char* text :
       {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda: 1", "cuda:99999999999", "cuda1", "CUDA", "gpu"})
    CHECK_FALSE(Target::parse(text));
  CHECK(Target{TargetKind::cuda, 0}.text() == "cuda");
  CHECK(Target{TargetKind::cuda, 3}.text() == "cuda:3");
  CHECK(Target{TargetKind::cuda, 1} != Target{TargetKind::cuda});
}

TEST_CASE("architectures by name have the limits of their kind") {
  std::set<std::string> names;
  for (const std::string& name : cuda::target_names()) {
    INFO(name);
    CHECK(names.insert(name).second);
    const auto target = cuda::named_target(name);
    REQUIRE(target);
    CHECK(target->arch() == name);
    CHECK(target->name == name);
    CHECK(cuda::is_supported(*target));
    CHECK(target->shared_per_block > 48 << 10);
    CHECK(target->shared_per_block < target->shared_per_sm);
    CHECK(target->processors > 0);
    const Machine machine = target->machine();
    CHECK(machine.l1_bytes > 0);
    CHECK(machine.l2_bytes > 0);
    CHECK_FALSE(machine.name.empty());
  }
  for (const char* name : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_120"}) CHECK(names.contains(name));
  for (const char* name : {"", "sm_", "sm_35", "sm_80a", "sm_90b", "90", "compute_90"})
    CHECK_FALSE(cuda::named_target(name));
  CHECK(cuda::named_target("sm_90a")->shared_per_block == 232448);
  CHECK(cuda::named_target("sm_80")->shared_per_block == 166912);
  CHECK(cuda::named_target("sm_89")->shared_per_block == 101376);
}

TEST_CASE("devices are what the driver says of them") {
  fake::install();
  fake::driver().devices = {{"Fake H200", 9, 0, 132, 232448, 233472, 65536, 50 << 20, std::uint64_t{140} << 30},
                            {"Fake A100", 8, 0, 108, 166912, 167936, 65536, 40 << 20, std::uint64_t{80} << 30},
                            {"Fake T4", 7, 5, 40, 65536, 65536, 65536, 4 << 20, std::uint64_t{16} << 30}};
  const auto found = gpus();
  REQUIRE(found.size() == 3);
  CHECK(found[0].name == "Fake H200");
  CHECK(found[0].arch == "sm_90a");  // 9.0 gets the instructions of its own
  CHECK(found[0].memory_bytes == std::uint64_t{140} << 30);
  CHECK(found[0].processors == 132);
  CHECK(found[0].shared_per_block == 232448);
  CHECK(found[0].shared_per_processor == 233472);
  CHECK(found[0].registers_per_processor == 65536);
  CHECK(found[0].l2_bytes == 50 << 20);
  CHECK(found[0].problem.empty());
  CHECK(found[1].arch == "sm_80");
  CHECK(found[2].problem.find("7.5") != std::string::npos);
  CHECK(cuda::find_device(1).value()->target.name == "Fake A100");
  for (const auto& [index, part] :
       {std::pair{2, "compute capability 7.5"}, {3, "there is no GPU 3"}, {-1, "no GPU -1"}}) {
    const auto refused = cuda::find_device(index);
    REQUIRE_FALSE(refused);
    CHECK(refused.diagnostics()[0].code == "A0602");
    CHECK(refused.diagnostics()[0].message.find(part) != std::string::npos);
  }
  CHECK(cuda::missing_for(0).empty());
  CHECK_FALSE(cuda::missing_for(2).empty());
}

TEST_CASE("what is missing is named: driver, device, compiler") {
  fake::install_without_driver();
  CHECK(gpus().empty());
  CHECK(cuda::missing_for(0).find("no usable CUDA driver") != std::string::npos);
  const auto refused = cuda::find_device(0);
  REQUIRE_FALSE(refused);
  CHECK(refused.diagnostics()[0].code == "A0602");
  CHECK_FALSE(refused.diagnostics()[0].notes.empty());
  CHECK_FALSE(refused.diagnostics()[0].help.empty());
  CHECK(DeviceBuffer::allocate(64).diagnostics()[0].code == "A0602");

  fake::install_without_compiler();
  CHECK(cuda::missing_for(0).find("NVRTC") != std::string::npos);

  fake::install();
  fake::driver().devices.clear();
  CHECK(cuda::missing_for(0).find("lists no GPU") != std::string::npos);

  fake::install();
  fake::driver().failures["cuDeviceGetCount"] = {0, 100, false};
  CHECK(cuda::missing_for(0).find("CUDA_ERROR_NO_DEVICE") != std::string::npos);
}
