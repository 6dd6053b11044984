// SPDX-License-Identifier: Apache-2.0
// Cache keys as text, one fact a line, in a fixed order.
#include "runtime/key.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>

#include <attune/version.hpp>
#include <cstring>

#include "backend/cuda/nvrtc.hpp"
#include "runtime/hash.hpp"
#include "runtime/layout.hpp"
#include "syntax/ast.hpp"

namespace attune {
namespace {

/// The build id of the module that holds this function, in hexadecimal, or "".
std::string linker_build_id() {
  struct Search {
    ElfW(Addr) address;
    std::string id;
  } search{reinterpret_cast<ElfW(Addr)>(&linker_build_id), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        bool ours = false;
        for (int k = 0; k < info->dlpi_phnum; ++k) {
          const ElfW(Phdr)& header = info->dlpi_phdr[k];
          const ElfW(Addr) start = info->dlpi_addr + header.p_vaddr;
          if (header.p_type == PT_LOAD && start <= wanted.address && wanted.address < start + header.p_memsz)
            ours = true;
        }
        if (!ours) return 0;
        for (int k = 0; k < info->dlpi_phnum; ++k) {
          const ElfW(Phdr)& header = info->dlpi_phdr[k];
          if (header.p_type != PT_NOTE) continue;
          const char* note = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
          const char* end = note + header.p_memsz;
          const std::size_t unit = header.p_align == 8 ? 8 : 4;
          const auto padded = [&](std::size_t size) { return (size + unit - 1) / unit * unit; };
          while (note + sizeof(ElfW(Nhdr)) <= end) {
            ElfW(Nhdr) head;
            std::memcpy(&head, note, sizeof head);
            const char* name = note + sizeof head;
            const char* bytes = name + padded(head.n_namesz);
            if (bytes + head.n_descsz > end) break;
            if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
              for (std::size_t byte = 0; byte < head.n_descsz; ++byte)
                wanted.id += fmt::format("{:02x}", static_cast<unsigned char>(bytes[byte]));
            note = bytes + padded(head.n_descsz);
          }
        }
        return 1;
      },
      &search);
  return search.id;
}

std::string file_identity() {
  Dl_info info{};
  struct stat status {};
  if (dladdr(reinterpret_cast<const void*>(&file_identity), &info) == 0 || !info.dli_fname) return "unknown";
  if (stat(info.dli_fname, &status) != 0 && stat("/proc/self/exe", &status) != 0) return "unknown";
  return fmt::format("{}-{}.{:09}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

std::string extents_text(const std::vector<tensor::Expr>& extents) {
  std::string text;
  for (const tensor::Expr& extent : extents) text += (text.empty() ? "" : ", ") + tensor::print(extent);
  return text;
}

/// The loop kernel, its schedule, and what its text leaves out.
std::string kernel_key(const loop::Kernel& kernel) {
  std::string key = fmt::format("bits {} trusted {}\n", kernel.index_bits, kernel.trusted);
  for (const auto& [choice, value] : kernel.schedule.values()) key += fmt::format("schedule {} = {}\n", choice, value);
  // What the kernel's text may leave out of its leaves; the types of all other expressions follow from these.
  for (const Sym& dim : kernel.dims) key += fmt::format("dim {}\n", dim.text());
  for (std::size_t k = 0; k < kernel.scalars.size(); ++k)
    key += fmt::format("scalar {} {}\n", kernel.scalars[k].text(), name(kernel.scalar_types[k].dtype));
  for (const loop::Buffer& buffer : kernel.buffers)
    key += fmt::format("buffer {} {} [{}] role {} unit {} presence {}\n", buffer.sym.text(), name(buffer.dtype),
                       extents_text(buffer.extents), static_cast<int>(buffer.role), buffer.unit_axis,
                       buffer.presence ? buffer.presence.text() : "-");
  return key + loop::print(kernel);
}

}  // namespace

const std::string& build_identity() {
  static const std::string identity = [] {
    std::string id = linker_build_id();
    return fmt::format("{} {}", version, id.empty() ? file_identity() : id);
  }();
  return identity;
}

std::string unit_key(const Program& program, const CompileOptions& options, const Target& target) {
  // The source takes part because diagnostics quote it; programs that differ only there still share their code.
  const Source& source = program.module().source;
  std::string key = fmt::format("program {}\nsource {} {}\nkernel {}\ntarget {}\nfused {}\ntrusted {}\n",
                                program.hash(), source.name(), hash128(source.text()).hex(), options.kernel,
                                target.text(), options.require_fused, options.trusted);
  for (const auto& [variable, dtype] : options.types) key += fmt::format("type {} = {}\n", variable, name(dtype));
  for (const auto& [scalar, value] : options.consts) key += fmt::format("const {} = {:a}\n", scalar, value);
  for (const auto& [choice, value] : options.schedule)
    key += fmt::format("schedule {}:{} = {}:{}\n", choice.size(), choice, value.size(), value);
  return key;
}

std::string variant_key(const std::map<std::string, DType>& types, const std::map<std::string, std::int64_t>& fixed,
                        const loop::LayoutFacts& layout, int index_bits) {
  std::string key = fmt::format("bits {}\ndepth {}\n", index_bits, layout.depth_hint);
  for (const auto& [variable, dtype] : types) key += fmt::format("type {} = {}\n", variable, name(dtype));
  for (const auto& [dim, size] : fixed) key += fmt::format("dim {} = {}\n", dim, size);
  for (const std::string& fact : describe(layout)) key += fact + "\n";
  return key;
}

std::string code_key(const loop::Kernel& kernel, const cpu::CpuTarget& target) {
  return fmt::format("attune {}\nllvm {}\ncpu {} {} {} lanes {} registers {} f16c {} bf16 {} l1 {} l2 {}\n",
                     build_identity(), cpu::llvm_identity(), static_cast<int>(target.isa), target.name, target.features,
                     target.vector_lanes, target.vector_registers, target.f16c, target.avx512_bf16, target.l1_bytes,
                     target.l2_bytes) +
         kernel_key(kernel);
}

std::string code_key(const loop::Kernel& kernel, const cuda::GpuTarget& target) {
  // The limits count too: what emit() makes may follow them.
  return fmt::format("attune {}\nnvrtc {}\ngpu {} shared {} {} registers {} processors {} l2 {}\n", build_identity(),
                     cuda::nvrtc_identity(), target.arch(), target.shared_per_block, target.shared_per_sm,
                     target.registers_per_sm, target.processors, target.l2_bytes) +
         kernel_key(kernel);
}

}  // namespace attune
