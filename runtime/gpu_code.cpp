// SPDX-License-Identifier: Apache-2.0
// emit -> memory or disk cache -> compile -> load, for the target `cuda`.
#include "runtime/gpu_code.hpp"

#include <fmt/format.h>

#include <attune/version.hpp>
#include <cstring>

#include "runtime/compile.hpp"
#include "runtime/key.hpp"

namespace attune {
namespace {

/// A binary as one entry of the disk cache: the length of the log, the log, the machine code.
std::vector<std::uint8_t> packed(const cuda::Binary& binary) {
  const std::uint64_t length = binary.log.size();
  std::vector<std::uint8_t> bytes(sizeof length);
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes.insert(bytes.end(), binary.log.begin(), binary.log.end());
  bytes.insert(bytes.end(), binary.cubin.begin(), binary.cubin.end());
  return bytes;
}

std::optional<cuda::Binary> unpacked(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > bytes.size() - sizeof length) return std::nullopt;
  const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>(sizeof length + length);
  return cuda::Binary{{middle, bytes.end()}, {bytes.begin() + sizeof length, middle}};
}

using Code = std::shared_ptr<const cuda::Loaded>;

Result<Code> make_code(Engine::State& engine, const loop::Kernel& kernel, const cuda::GpuDevice& device,
                       const std::string& key, GpuCodeFound& found) {
  const Stopwatch watch;
  // The text is made in any case: it is quick, and says how to launch what the disk may have.
  Result<cuda::Source> source = cuda::emit(kernel, device.target);
  if (!source) return source.diagnostics();
  const double emitted = watch.milliseconds();
  if (engine.observed()) engine.observe("emit", emitted, [text = source->text] { return text; });
  const auto nests = static_cast<std::uint32_t>(kernel.nests.size());
  if (engine.disk)
    if (std::optional<CachedObject> entry = engine.disk->find(key); entry && entry->nests == nests)
      if (std::optional<cuda::Binary> binary = unpacked(entry->object))
        // Code that does not load is a miss like any other; compiling replaces it.
        if (Result<Code> loaded = cuda::load(*binary, *source, device.index, kernel.name)) {
          found.cache = "disk";
          found.load_ms = watch.milliseconds();
          if (engine.observed()) engine.observe("load", found.load_ms - emitted);
          return loaded;
        }
  found.cache = "miss";
  Result<cuda::Binary> binary = cuda::compile(*source, device.target);
  if (!binary) return binary.diagnostics();
  found.compile_ms = watch.milliseconds();
  if (engine.observed()) engine.observe("compile", found.compile_ms - emitted, [log = binary->log] { return log; });
  const Stopwatch loading;
  Result<Code> loaded = cuda::load(*binary, *source, device.index, kernel.name);
  if (!loaded) return loaded.diagnostics();
  found.load_ms = loading.milliseconds();
  if (engine.observed()) engine.observe("load", found.load_ms);
  if (engine.disk)
    engine.disk->store(key, {fmt::format("{}  cuda {}  NVRTC {}  attune {}", kernel.name, device.target.arch(),
                                         cuda::nvrtc_identity(), version),
                             nests, packed(*binary)});
  return loaded;
}

}  // namespace

Result<GpuCodeFound> find_gpu_code(Engine::State& engine, const loop::Kernel& kernel, const cuda::GpuDevice& device) {
  GpuCodeFound found;
  const std::string key = code_key(kernel, device.target);
  // Machine code is the same for all devices of an architecture, what is loaded is not.
  auto code = engine.gpu_codes.get(fmt::format("device {}\n{}", device.index, key),
                                   [&] { return make_code(engine, kernel, device, key, found); });
  if (!code) return code.diagnostics();
  found.code = code->value;
  return found;
}

}  // namespace attune
