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

Result<RunReport> run_checked(Kernel::State& kernel, const Checked& checked, const Arguments& arguments) {
  RunReport report;
  if (kernel.unit->target.kind == TargetKind::reference) {
    const Stopwatch watch;
    const auto outcome = reference::run(*checked.program, checked.binding);
    if (!outcome) return outcome.diagnostics();
    report.out_of_range = outcome->out_of_range;
    report.run_ms = watch.milliseconds();
    return report;
  }
  Result<VariantFound> found =
      variant_for(*kernel.engine, *kernel.unit, checked.types, checked.program, checked.binding);
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
    const Result<bool> outcome = execute(*kernel.engine, **plan, arguments);
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
  Result<Checked> checked = check(*state_, arguments, false);
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

Result<RunReport> Kernel::run(const Arguments& arguments) const {
  try {
    if (const std::shared_ptr<const Plan> plan = find_plan(*state_, arguments)) {
      const Stopwatch watch;
      const Result<bool> outcome = execute(*state_->engine, *plan, arguments);
      if (!outcome) return outcome.diagnostics();
      RunReport report;
      report.out_of_range = *outcome;
      report.run_ms = watch.milliseconds();
      return report;
    }
    Result<Checked> checked = check(*state_, arguments, true);
    if (!checked) return checked.diagnostics();
    return run_checked(*state_, *checked, arguments);
  } catch (const std::bad_alloc&) {
    Diagnostic diagnostic;
    diagnostic.code = "A0607";
    diagnostic.message = fmt::format("out of memory while running `{}`", name());
    return diagnostic;
  }
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
  for (std::string& fact : describe(variant->layout)) lines.push_back(std::move(fact));
  lines.push_back(fmt::format("schedule for rows of {} elements", variant->layout.depth_hint));
  lines.push_back(fmt::format("indices of {} bits", variant->index_bits));
  return lines;
}

int Kernel::compile_count() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<int>(state_->used.size());
}

}  // namespace attune
