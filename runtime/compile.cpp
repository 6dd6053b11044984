// SPDX-License-Identifier: Apache-2.0
// program -> infer -> bind types -> build -> key -> memory or disk cache -> emit -> compile -> load.
#include "runtime/compile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <attune/version.hpp>

#include "runtime/gpu_code.hpp"
#include "runtime/key.hpp"
#include "runtime/layout.hpp"
#include "runtime/narrow.hpp"
#include "tensor/fix_dims.hpp"
#include "tensor/passes.hpp"

namespace attune {
namespace {

Diagnostic malformed(std::string_view stage, const std::string& violation) {
  Diagnostic diagnostic;
  diagnostic.code = "A0903";
  diagnostic.message = fmt::format("internal error: what `{}` made is not well formed: {}", stage, violation);
  diagnostic.help = "please report this together with the program";
  return diagnostic;
}

/// The typed program of `open`, verified and observed.
Result<std::shared_ptr<const tensor::Program>> bind_types(Engine::State& engine, const Unit& unit, const Types& types) {
  const Stopwatch watch;
  Result<tensor::Program> bound = tensor::bind_types(unit.open, types, unit.options.consts);
  if (!bound) return bound.diagnostics();
  auto program = std::make_shared<const tensor::Program>(*std::move(bound));
  if (engine.observed()) engine.observe("tensor", watch.milliseconds(), [program] { return tensor::print(*program); });
  if (engine.settings.verify)
    if (std::string wrong = tensor::verify(*program); !wrong.empty()) return malformed("bind_types", wrong);
  return std::shared_ptr<const tensor::Program>(std::move(program));
}

Machine machine_of(const Target& target) {
  if (target.kind == TargetKind::cpu) return cpu::host().machine();
  if (target.kind == TargetKind::cuda)
    if (const auto device = cuda::find_device(target.device)) return (*device)->target.machine();
  // The interpreter runs any schedule: a fixed machine makes its results the same everywhere.
  Machine machine;
  machine.name = "interpreter";
  return machine;
}

loop::LowerOptions lower_options(const Unit& unit, const loop::LayoutFacts& layout, int index_bits) {
  loop::LowerOptions options;
  options.machine = machine_of(unit.target);
  options.layout = layout;
  options.overrides = unit.options.schedule;
  options.require_fused = unit.options.require_fused;
  options.trusted = unit.options.trusted;
  options.index_bits = index_bits;
  return options;
}

/// The loop kernel, verified and observed: fix sizes, desugar, stream, choose, lower and the passes.
Result<loop::Lowered> lower(Engine::State& engine, const Unit& unit, const tensor::Program& program, const Sizes& fixed,
                            const loop::LayoutFacts& layout, int index_bits) {
  loop::LowerOptions options = lower_options(unit, layout, index_bits);
  if (engine.observed())
    options.observer = [&](std::string_view step, double milliseconds, std::function<std::string()> text) {
      engine.observe(step, milliseconds, std::move(text));
    };
  Result<loop::Lowered> lowered = loop::build(fixed.empty() ? program : tensor::fix_dims(program, fixed), options);
  if (!lowered) return lowered.diagnostics();
  if (engine.settings.verify)
    if (std::string wrong = loop::verify(lowered->kernel); !wrong.empty()) return malformed("lower", wrong);
  return lowered;
}

/// Keeps the first account; the unit is shared by now.
void note_account(Unit& unit, const loop::Lowered& lowered) {
  auto account = std::make_unique<Account>();
  for (const auto& [name, reason] : lowered.materialised) account->materialised.push_back({name, reason});
  account->schedule = describe(lowered.kernel.schedule);
  const std::lock_guard lock(unit.mutex);
  if (!unit.account) unit.account = std::move(account);
}

struct CodeFound {
  std::shared_ptr<cpu::Loaded> code;
  std::string_view cache = "memory";
  double compile_ms = 0, load_ms = 0;
};

/// Object code of a loop kernel: from disk where it is there and loads, else compiled.
Result<std::shared_ptr<cpu::Loaded>> make_code(Engine::State& engine, const loop::Kernel& kernel,
                                               const std::string& key, CodeFound& found) {
  const std::size_t nests = kernel.nests.size();
  if (engine.disk) {
    const Stopwatch watch;
    if (std::optional<CachedObject> entry = engine.disk->find(key); entry && entry->nests == nests) {
      // An object that does not load is a miss like any other; compiling replaces it.
      if (Result<std::shared_ptr<cpu::Loaded>> loaded = cpu::load(entry->object, nests)) {
        found.cache = "disk";
        found.load_ms = watch.milliseconds();
        if (engine.observed()) engine.observe("load", found.load_ms);
        return loaded;
      }
    }
  }
  found.cache = "miss";
  const Stopwatch watch;
  Result<std::vector<std::string>> modules = cpu::emit_modules(kernel, cpu::host());
  if (!modules) return modules.diagnostics();
  const double emitted = watch.milliseconds();
  if (engine.observed())
    engine.observe("emit", emitted, [texts = *modules] {
      std::string text;
      for (const std::string& module : texts) text += module + "\n";
      return text;
    });
  Result<std::vector<std::uint8_t>> object =
      cpu::compile(*modules, cpu::host(), [&](std::int64_t count, void (*job)(void*, std::int64_t), void* context) {
        engine.executor->parallel_for(count, job, context);
      });
  if (!object) return object.diagnostics();
  found.compile_ms = watch.milliseconds();
  if (engine.observed()) engine.observe("compile", found.compile_ms - emitted);
  const Stopwatch loading;
  Result<std::shared_ptr<cpu::Loaded>> loaded = cpu::load(*object, nests);
  if (!loaded) return loaded.diagnostics();
  found.load_ms = loading.milliseconds();
  if (engine.observed()) engine.observe("load", found.load_ms);
  if (engine.disk) {
    std::string description =
        fmt::format("{}  cpu {} {}  LLVM {}  attune {}", kernel.name, machine_of({TargetKind::cpu}).name,
                    cpu::host().name, cpu::llvm_identity(), version);
    engine.disk->store(key, {std::move(description), static_cast<std::uint32_t>(nests), *std::move(object)});
  }
  return loaded;
}

Result<CodeFound> find_code(Engine::State& engine, const loop::Kernel& kernel) {
  CodeFound found;
  const std::string key = code_key(kernel, cpu::host());
  auto code = engine.codes.get(key, [&] { return make_code(engine, kernel, key, found); });
  if (!code) return code.diagnostics();
  found.code = code->value;
  return found;
}

Result<std::shared_ptr<const Variant>> make_variant(Engine::State& engine, Unit& unit, const Types& types,
                                                    const std::shared_ptr<const tensor::Program>& program,
                                                    const Sizes& fixed, const loop::LayoutFacts& layout, int index_bits,
                                                    VariantFound& found) {
  const Stopwatch watch;
  auto variant = std::make_shared<Variant>();
  variant->types = types;
  variant->fixed = fixed;
  variant->layout = layout;
  variant->index_bits = index_bits;
  variant->program = program;
  Result<loop::Lowered> lowered = lower(engine, unit, *program, fixed, layout, index_bits);
  if (!lowered) return lowered.diagnostics();
  variant->lowered = *std::move(lowered);
  note_account(unit, variant->lowered);
  const double lowering = watch.milliseconds();
  const auto note = [&](const auto& code) {
    found.cache = code.cache;
    found.compile_ms = code.cache == "miss" ? lowering + code.compile_ms : 0;
    found.load_ms = code.load_ms + (code.cache == "disk" ? lowering : 0);
  };
  if (unit.target.kind == TargetKind::cpu) {
    Result<CodeFound> code = find_code(engine, variant->lowered.kernel);
    if (!code) return code.diagnostics();
    variant->code = code->code;
    note(*code);
  } else if (unit.target.kind == TargetKind::cuda) {
    const auto device = cuda::find_device(unit.target.device);
    if (!device) return device.diagnostics();
    Result<GpuCodeFound> code = find_gpu_code(engine, variant->lowered.kernel, **device);
    if (!code) return code.diagnostics();
    variant->gpu = code->code;
    note(*code);
  } else {
    found.cache = "miss";
    found.compile_ms = lowering;
  }
  return std::shared_ptr<const Variant>(std::move(variant));
}

/// Errors of the options that need no call: unknown type variables and those that are no floats.
Diagnostics check_types(const tensor::Program& program, const Types& types) {
  Diagnostics errors;
  if (const auto inferred = infer_types(program, {}, types); !inferred)
    for (const Diagnostic& diagnostic : inferred.diagnostics())
      // What is missing may come with the call's tensors.
      if (diagnostic.code != "A0501" && diagnostic.code != "A0516") errors.push_back(diagnostic);
  return errors;
}

/// The types of the options; f32 for variables that the call will bind. Whether a program fuses and whether its
/// schedule is possible does not depend on which float it is.
Types some_types(const Unit& unit) {
  Types types = unit.options.types;
  for (const Sym& variable : unit.open.type_variables) types.emplace(variable.text(), DType::f32);
  return types;
}

/// The dims whose sizes a variant is made for, with what `size_of` says of each.
template <class F>
Result<Sizes> fixed_sizes(Unit& unit, const Types& types, const tensor::Program& program, F&& size_of) {
  Sizes sizes;
  if (unit.target.kind != TargetKind::cuda) return sizes;
  std::optional<std::vector<Sym>> dims;
  {
    const std::lock_guard lock(unit.mutex);
    if (const auto found = unit.fixed.find(types); found != unit.fixed.end()) dims = found->second;
  }
  if (!dims) {
    // Which dims these are depends on the program and the schedule, not on a call's layouts.
    Result<std::vector<Sym>> found = cuda::dims_to_fix(program, lower_options(unit, contiguous_facts(program), 32));
    if (!found) return found.diagnostics();
    const std::lock_guard lock(unit.mutex);
    dims = unit.fixed.emplace(types, *std::move(found)).first->second;
  }
  for (const Sym& dim : *dims) sizes[dim.text()] = size_of(dim);
  return sizes;
}

Result<loop::Lowered> lower_contiguous(Engine::State& engine, Unit& unit) {
  const Types types = some_types(unit);
  Result<std::shared_ptr<const tensor::Program>> typed = bind_types(engine, unit, types);
  if (!typed) return typed.diagnostics();
  const loop::LayoutFacts layout = contiguous_facts(**typed);
  // No call says the sizes yet: the depth that schedules assume, too.
  const Result<Sizes> fixed = fixed_sizes(unit, types, **typed, [&](const Sym&) { return layout.depth_hint; });
  if (!fixed) return fixed.diagnostics();
  return lower(engine, unit, **typed, *fixed, layout, 32);
}

Result<std::shared_ptr<Unit>> make_unit(Engine::State& engine, const Program& program, const CompileOptions& options,
                                        const Target& target) {
  auto unit = std::make_shared<Unit>(options, target, engine.settings.memory_cache_entries);
  unit->program = program;
  if (engine.observed()) engine.observe("parse", 0, [program] { return program.text(); });
  const Stopwatch watch;
  Result<tensor::Program> inferred = infer(program.module(), options.kernel);
  if (!inferred) return inferred.diagnostics();
  unit->warnings = inferred.diagnostics();
  unit->open = *std::move(inferred);
  if (engine.observed())
    engine.observe("infer", watch.milliseconds(), [open = unit->open] { return tensor::print(open); });
  if (engine.settings.verify)
    if (std::string wrong = tensor::verify(unit->open); !wrong.empty()) return malformed("infer", wrong);
  if (Diagnostics errors = check_types(unit->open, options.types); !errors.empty()) return errors;

  const bool may_fail = options.require_fused || !options.schedule.empty();
  if (target.kind == TargetKind::reference || !(may_fail || engine.observed())) {
    // The consts and, where all are known, the types are checked all the same.
    const Types types = some_types(*unit);
    Result<std::shared_ptr<const tensor::Program>> typed = bind_types(engine, *unit, types);
    if (!typed) return typed.diagnostics();
    if (types == options.types) unit->typed.emplace(types, *typed);
    return unit;
  }
  Result<loop::Lowered> lowered = lower_contiguous(engine, *unit);
  if (!lowered) return lowered.diagnostics();
  note_account(*unit, *lowered);
  return unit;
}

/// What a target needs and does not have: libLLVM, or a GPU with its driver and compiler.
std::optional<Diagnostic> missing(const Target& target) {
  if (target.kind == TargetKind::cuda) {
    if (const auto device = cuda::find_device(target.device); !device) return device.diagnostics()[0];
    if (cuda::nvrtc::api() == nullptr) return cuda::nvrtc::missing();
    return std::nullopt;
  }
  if (target.kind != TargetKind::cpu || cpu::llvm_report().found()) return std::nullopt;
  Diagnostic diagnostic;
  diagnostic.code = "A0603";
  diagnostic.message = "the target `cpu` needs libLLVM, which was not found";
  for (const std::string& tried : cpu::llvm_report().tried) diagnostic.notes.push_back("tried " + tried);
  diagnostic.help =
      "install libLLVM 17 or later (Debian, Ubuntu: `apt install libllvm19`) or name one in ATTUNE_LLVM_PATH; the "
      "targets `interpreter` and `reference` work without it";
  return diagnostic;
}

}  // namespace

std::map<std::string, std::string> describe(const Schedule& schedule) {
  std::map<std::string, std::string> choices;
  for (const auto& [key, value] : schedule.values()) {
    const auto why = schedule.why.find(key);
    choices[key] = why == schedule.why.end() ? value : fmt::format("{}  ({})", value, why->second);
  }
  return choices;
}

const Account& account_of(Engine::State& engine, Unit& unit) {
  {
    const std::lock_guard lock(unit.mutex);
    if (unit.account) return *unit.account;
  }
  loop::Lowered lowered;
  // A bug that shows here (and only bugs do) is reported by the first call.
  if (unit.target.kind != TargetKind::reference)
    if (Result<loop::Lowered> built = lower_contiguous(engine, unit)) lowered = *std::move(built);
  note_account(unit, lowered);
  const std::lock_guard lock(unit.mutex);
  return *unit.account;
}

Target resolve(const Target& target) {
  if (target.kind != TargetKind::automatic) return target;
  return {cpu::llvm_report().found() ? TargetKind::cpu : TargetKind::interpreter};
}

Result<std::shared_ptr<Unit>> prepare(Engine::State& engine, const Program& program, const CompileOptions& options) {
  const Target target = resolve(options.target);
  if (std::optional<Diagnostic> diagnostic = missing(target)) return *std::move(diagnostic);
  auto found =
      engine.units.get(unit_key(program, options, target), [&] { return make_unit(engine, program, options, target); });
  if (!found) return found.diagnostics();
  return found->value;
}

Result<std::shared_ptr<const tensor::Program>> typed_program(Engine::State& engine, Unit& unit, const Types& types) {
  {
    const std::lock_guard lock(unit.mutex);
    if (const auto found = unit.typed.find(types); found != unit.typed.end()) return found->second;
  }
  Result<std::shared_ptr<const tensor::Program>> bound = bind_types(engine, unit, types);
  if (!bound) return bound.diagnostics();
  // Two threads may both have come here: all use the program that was first.
  const std::lock_guard lock(unit.mutex);
  return unit.typed.emplace(types, *bound).first->second;
}

Result<VariantFound> variant_for(Engine::State& engine, Unit& unit, const Types& types,
                                 const std::shared_ptr<const tensor::Program>& program, const Binding& binding,
                                 bool may_make) {
  const int index_bits = fits_in_32_bits(*program, binding) ? 32 : 64;
  const Result<Sizes> sizes = fixed_sizes(unit, types, *program, [&](const Sym& dim) { return binding.dims.at(dim); });
  if (!sizes) return sizes.diagnostics();
  const Sizes& fixed = *sizes;
  {
    const std::lock_guard lock(unit.mutex);
    for (const auto& variant : unit.variants)
      if (variant->index_bits == index_bits && variant->types == types && variant->fixed == fixed &&
          layout_fits(variant->layout, *program, binding))
        return VariantFound{variant};
  }
  if (!may_make) {
    Diagnostic diagnostic;
    diagnostic.code = "A0610";
    diagnostic.message = fmt::format("`{}` would have to be compiled while its stream is captured", unit.open.name);
    diagnostic.help = "make the same call once before the capture";
    return diagnostic;
  }
  VariantFound found;
  const loop::LayoutFacts layout = layout_facts(*program, binding);
  auto made = unit.flights.get(variant_key(types, fixed, layout, index_bits), [&] {
    return make_variant(engine, unit, types, program, fixed, layout, index_bits, found);
  });
  if (!made) return made.diagnostics();
  found.variant = made->value;
  if (made->made) {
    const std::lock_guard lock(unit.mutex);
    unit.variants.push_back(found.variant);
    if (unit.variants.size() > unit.limit) unit.variants.erase(unit.variants.begin());
  }
  return found;
}

}  // namespace attune
