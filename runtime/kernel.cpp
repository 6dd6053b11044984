// SPDX-License-Identifier: Apache-2.0
// Kernel: checks a call, finds its variant and runs it; and says what was derived.
#include <fmt/format.h>

#include <algorithm>
#include <attune/kernel.hpp>
#include <new>

#include "backend/interpreter/interpreter.hpp"
#include "backend/reference/reference.hpp"
#include "runtime/compile.hpp"
#include "runtime/layout.hpp"
#include "runtime/place.hpp"

namespace attune {
namespace {

constexpr std::size_t kept_plans = 4;  ///< a caller that alternates between a few kinds of calls keeps them warm

struct Checked {
  Types types;
  std::shared_ptr<const tensor::Program> program;
  Binding binding;
};

Result<Checked> check(const Kernel::State& kernel, const Arguments& arguments, bool need_results) {
  // A const is gone from the bound program, which would call it unknown.
  for (const Argument& argument : arguments)
    for (const tensor::ScalarParam& scalar : kernel.unit->open.scalars)
      if (scalar.is_const && scalar.sym.text() == argument.name) {
        Diagnostic diagnostic;
        diagnostic.code = "A0502";
        diagnostic.message =
            fmt::format("`{}` is a const of `{}` and no argument of a call", argument.name, kernel.unit->open.name);
        diagnostic.tensor = argument.name;
        diagnostic.help = "choose its value when the kernel is compiled: `CompileOptions::consts`";
        return diagnostic;
      }
  if (Diagnostics errors = check_places(kernel.unit->open, arguments, kernel.unit->target); !errors.empty())
    return errors;
  Checked checked;
  Result<Types> types = infer_types(kernel.unit->open, arguments, kernel.unit->options.types);
  if (!types) return types.diagnostics();
  checked.types = *std::move(types);
  auto program = typed_program(*kernel.engine, *kernel.unit, checked.types);
  if (!program) return program.diagnostics();
  checked.program = *std::move(program);
  Result<Binding> binding = bind(*checked.program, arguments, need_results);
  if (!binding) return binding.diagnostics();
  checked.binding = *std::move(binding);
  return checked;
}

std::shared_ptr<const Plan> find_plan(const Kernel::State& kernel, const Arguments& arguments) {
  const std::lock_guard lock(kernel.mutex);
  for (const auto& plan : kernel.plans)
    if (same_call(*plan, arguments)) return plan;
  return nullptr;
}

void keep_plan(Kernel::State& kernel, const std::shared_ptr<const Plan>& plan) {
  if (!plan->reusable) return;
  const std::lock_guard lock(kernel.mutex);
  kernel.plans.insert(kernel.plans.begin(), plan);
  if (kernel.plans.size() > kept_plans) kernel.plans.pop_back();
}

void note_use(Kernel::State& kernel, const std::shared_ptr<const Variant>& variant) {
  const std::lock_guard lock(kernel.mutex);
  if (std::find(kernel.used.begin(), kernel.used.end(), variant) == kernel.used.end()) kernel.used.push_back(variant);
}

std::shared_ptr<const Variant> last_used(const Kernel::State& kernel) {
  const std::lock_guard lock(kernel.mutex);
  return kernel.used.empty() ? nullptr : kernel.used.back();
}

/// An automatic kernel's counterpart on a GPU, made where there is none.
Result<std::shared_ptr<Kernel::State>> on_gpu(Kernel::State& kernel, int device) {
  {
    const std::lock_guard lock(kernel.mutex);
    if (const auto found = kernel.on_gpus.find(device); found != kernel.on_gpus.end()) return found->second;
  }
  CompileOptions options = kernel.unit->options;
  options.target = {TargetKind::cuda, device};
  Result<std::shared_ptr<Unit>> unit = prepare(*kernel.engine, *kernel.unit->program, options);
  if (!unit) return unit.diagnostics();
  const std::lock_guard lock(kernel.mutex);
  auto& made = kernel.on_gpus[device];
  if (!made) made = std::make_shared<Kernel::State>(kernel.engine, *std::move(unit), false);
  return made;
}

/// The kernel that a call runs on: an automatic one follows the tensors.
Result<std::shared_ptr<Kernel::State>> kernel_for(const std::shared_ptr<Kernel::State>& kernel,
                                                  const Arguments& arguments) {
  if (kernel->follows_tensors)
    if (const std::optional<int> device = gpu_of(arguments)) return on_gpu(*kernel, *device);
  return kernel;
}

/// Whether code may be compiled and loaded during a call.
bool may_make(const Kernel::State& kernel, const RunOptions& options) {
  return kernel.unit->target.kind != TargetKind::cuda || !is_capturing(kernel.unit->target.device, options.stream);
}

/// Runs a plan on the processor or the GPU of its variant.
Result<bool> execute(const Kernel::State& kernel, const Plan& plan, const Arguments& arguments,
                     const RunOptions& options) {
  return plan.variant->gpu ? launch(*kernel.engine, plan, arguments, options)
                           : execute(*kernel.engine, plan, arguments);
}

Result<RunReport> run_checked(Kernel::State& kernel, const Checked& checked, const Arguments& arguments,
                              const RunOptions& options) {
  RunReport report;
  if (kernel.unit->target.kind == TargetKind::reference) {
    const Stopwatch watch;
    const auto outcome = reference::run(*checked.program, checked.binding);
    if (!outcome) return outcome.diagnostics();
    report.out_of_range = outcome->out_of_range;
    report.run_ms = watch.milliseconds();
    return report;
  }
  Result<VariantFound> found = variant_for(*kernel.engine, *kernel.unit, checked.types, checked.program,
                                           checked.binding, may_make(kernel, options));
  if (!found) return found.diagnostics();
  report.cache = found->cache;
  report.compile_ms = found->compile_ms;
  report.load_ms = found->load_ms;
  note_use(kernel, found->variant);

  const Stopwatch watch;
  if (kernel.unit->target.kind == TargetKind::interpreter) {
    const auto outcome = interpreter::run(found->variant->lowered.kernel, checked.binding);
    if (!outcome) return outcome.diagnostics();
    report.out_of_range = outcome->out_of_range;
  } else {
    auto plan = make_plan(found->variant, checked.binding, arguments);
    if (!plan) return plan.diagnostics();
    const Result<bool> outcome = execute(kernel, **plan, arguments, options);
    if (!outcome) return outcome.diagnostics();
    report.out_of_range = *outcome;
    keep_plan(kernel, *plan);
  }
  report.run_ms = watch.milliseconds();
  return report;
}

}  // namespace

const std::string& Kernel::name() const { return state_->unit->open.name; }

Target Kernel::target() const { return state_->unit->target; }

Result<CallShapes> Kernel::shapes(const Arguments& arguments) const {
  const auto chosen = kernel_for(state_, arguments);
  if (!chosen) return chosen.diagnostics();
  Result<Checked> checked = check(**chosen, arguments, false);
  if (!checked) return checked.diagnostics();
  CallShapes shapes;
  for (const Sym& dim : checked->program->dims)
    if (const auto found = checked->binding.dims.find(dim); found != checked->binding.dims.end())
      shapes.dims[dim.text()] = found->second;
  for (const tensor::Tensor& result : checked->program->results) {
    CallShapes::ResultShape shape{result.sym.text(), result.type.dtype, {}};
    for (const tensor::Expr& extent : result.extents) shape.shape.push_back(evaluate_extent(extent, checked->binding));
    shapes.results.push_back(std::move(shape));
  }
  return shapes;
}

Result<RunReport> Kernel::run(const Arguments& arguments, const RunOptions& options) const {
  try {
    const auto chosen = kernel_for(state_, arguments);
    if (!chosen) return chosen.diagnostics();
    State& kernel = **chosen;
    if (const std::shared_ptr<const Plan> plan = find_plan(kernel, arguments)) {
      const Stopwatch watch;
      const Result<bool> outcome = execute(kernel, *plan, arguments, options);
      if (!outcome) return outcome.diagnostics();
      RunReport report;
      report.out_of_range = *outcome;
      report.run_ms = watch.milliseconds();
      return report;
    }
    Result<Checked> checked = check(kernel, arguments, true);
    if (!checked) return checked.diagnostics();
    return run_checked(kernel, *checked, arguments, options);
  } catch (const std::bad_alloc&) {
    Diagnostic diagnostic;
    diagnostic.code = "A0607";
    diagnostic.message = fmt::format("out of memory while running `{}`", name());
    return diagnostic;
  }
}

Result<std::uint64_t> Kernel::workspace_bytes(const Arguments& arguments) const {
  const auto chosen = kernel_for(state_, arguments);
  if (!chosen) return chosen.diagnostics();
  State& kernel = **chosen;
  if (kernel.unit->target.kind != TargetKind::cuda) return std::uint64_t{0};
  if (const std::shared_ptr<const Plan> plan = find_plan(kernel, arguments)) return attune::workspace_bytes(*plan);
  Result<Checked> checked = check(kernel, arguments, true);
  if (!checked) return checked.diagnostics();
  Result<VariantFound> found =
      variant_for(*kernel.engine, *kernel.unit, checked->types, checked->program, checked->binding);
  if (!found) return found.diagnostics();
  note_use(kernel, found->variant);
  auto plan = make_plan(found->variant, checked->binding, arguments);
  if (!plan) return plan.diagnostics();
  keep_plan(kernel, *plan);
  return attune::workspace_bytes(**plan);
}

bool Kernel::fused() const { return materialised().empty(); }

const std::vector<Materialised>& Kernel::materialised() const {
  return account_of(*state_->engine, *state_->unit).materialised;
}

std::map<std::string, std::string> Kernel::schedule() const {
  const std::shared_ptr<const Variant> variant = last_used(*state_);
  return variant ? describe(variant->lowered.kernel.schedule) : account_of(*state_->engine, *state_->unit).schedule;
}

std::vector<std::string> Kernel::specialisations() const {
  std::vector<std::string> lines;
  const Unit& unit = *state_->unit;
  const auto types = [&](const Types& bound) {
    for (const auto& [variable, dtype] : bound)
      lines.push_back(fmt::format("type {} = {}", variable, attune::name(dtype)));
  };
  const std::shared_ptr<const Variant> variant = last_used(*state_);
  types(variant ? variant->types : unit.options.types);
  for (const auto& [scalar, value] : unit.options.consts) lines.push_back(fmt::format("const {} = {}", scalar, value));
  if (unit.options.trusted) lines.push_back("gathers are not checked (trusted)");
  if (!variant) return lines;
  for (const auto& [dim, size] : variant->fixed) lines.push_back(fmt::format("dim {} = {}", dim, size));
  for (std::string& fact : describe(variant->layout)) lines.push_back(std::move(fact));
  lines.push_back(fmt::format("schedule for rows of {} elements", variant->layout.depth_hint));
  lines.push_back(fmt::format("indices of {} bits", variant->index_bits));
  return lines;
}

std::vector<LaunchUsage> Kernel::usage() const {
  std::vector<LaunchUsage> out;
  const std::shared_ptr<const Variant> variant = last_used(*state_);
  if (!variant || !variant->gpu) return out;
  for (std::size_t k = 0; k < variant->gpu->launches.size(); ++k) {
    const cuda::Launch& launch = variant->gpu->launches[k];
    const cuda::FunctionUsage& usage = variant->gpu->functions[k].usage;
    out.push_back({launch.function, launch.threads, usage.registers, usage.spill_stores + usage.spill_loads,
                   usage.stack_bytes, usage.shared_bytes + launch.shared_bytes, usage.losses});
  }
  return out;
}

int Kernel::compile_count() const {
  const std::lock_guard lock(state_->mutex);
  auto count = state_->used.size();
  for (const auto& [device, kernel] : state_->on_gpus) {
    const std::lock_guard its_lock(kernel->mutex);
    count += kernel->used.size();
  }
  return static_cast<int>(count);
}

}  // namespace attune
