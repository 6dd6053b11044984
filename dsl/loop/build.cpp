// SPDX-License-Identifier: Apache-2.0
// build(): the whole way from a typed program to a scheduled kernel, one step under another.
#include <fmt/format.h>

#include <chrono>

#include "loop/passes.hpp"
#include "loop/rewrite.hpp"
#include "tensor/passes.hpp"

namespace attune::loop {
namespace {

Diagnostic internal(const std::string& pass, const std::string& what) {
  Diagnostic d;
  d.code = "A0901";
  d.message = "internal error: the loop nest is not well formed after `" + pass + "`: " + what;
  d.help = "please report this together with the program";
  return d;
}

ScheduleInputs facts(const tensor::Streams& streams, const LayoutFacts& layout) {
  ScheduleInputs out;
  out.depth = layout.depth_hint;
  out.streams = false;
  for (const tensor::Nest& nest : streams.nests)
    for (const tensor::Phase& phase : nest.phases)
      for (const tensor::State& state : phase.states) {
        if (state.extras.empty()) continue;
        out.streams = true;
        auto operand = [&](const tensor::Expr& e) {
          tensor::walk(e, [&](const tensor::Expr& part) {
            const auto* access = tensor::get_if<tensor::Access>(part);
            if (!access) return true;
            const tensor::Tensor* input = streams.program.find_tensor(access->target);
            bool along_stream = false;
            for (const auto& range : phase.over) along_stream = along_stream || tensor::mentions(part, range.index);
            if (!input || !along_stream || input->extents.size() < 2) return true;
            if (input->type.dtype != DType::f32) out.converts = true;
            auto far = layout.strided.find(access->target.text());
            if (far != layout.strided.end() && far->second) out.strided = true;
            return true;
          });
        };
        operand(state.direct_body);
      }
  return out;
}

/// Whether some integer extreme is reduced: it starts at the 64-bit extreme, which narrower lanes do not hold.
bool has_integer_extremes(const tensor::Streams& streams) {
  bool found = false;
  auto look = [&](tensor::ReduceOp op, const tensor::Expr& body) {
    bool extreme = op == tensor::ReduceOp::max || op == tensor::ReduceOp::min || op == tensor::ReduceOp::argmax;
    found = found || (extreme && body->type.is_integer());
  };
  auto inside = [&](const tensor::Expr& expr) {
    tensor::walk(expr, [&](const tensor::Expr& e) {
      if (const auto* reduce = tensor::get_if<tensor::Reduce>(e)) look(reduce->op, reduce->body);
      return true;
    });
  };
  for (const tensor::Nest& nest : streams.nests) {
    for (const tensor::Phase& phase : nest.phases)
      for (const tensor::State& state : phase.states) {
        look(state.op, state.direct_body);
        inside(state.direct_body);
        inside(state.direct_guard);
      }
    for (const tensor::Output& output : nest.outputs) inside(output.value);
  }
  return found;
}

}  // namespace

tensor::Streams derive(const tensor::Program& program) {
  return tensor::stream(tensor::simplify(tensor::desugar(program)));
}

Result<Lowered> build(const tensor::Program& program, const LowerOptions& options) {
  auto since = std::chrono::steady_clock::now();
  auto observe = [&](std::string_view step, auto text) {
    if (!options.observer) return;
    const auto now = std::chrono::steady_clock::now();
    options.observer(step, std::chrono::duration<double, std::milli>(now - since).count(), text);
    since = std::chrono::steady_clock::now();  // what the observer does is not the next step's time
  };
  tensor::Streams streams = derive(program);
  observe("stream", [streams] { return tensor::print(streams); });
  Lowered out;
  // A later sweep reads running values of an earlier one in the task's scratch: only temporaries are in memory.
  for (const tensor::Temporary& t : streams.temporaries) out.materialised.emplace_back(t.sym.text(), t.reason);
  if (options.require_fused && !out.materialised.empty()) {
    Diagnostics errors;
    for (const tensor::Temporary& t : streams.temporaries) {
      Diagnostic d;
      d.code = "A0301";
      d.message = (t.definition ? "`" + t.sym.text() + "` cannot be fused: " : "this cannot be fused: ") + t.reason;
      d.source = program.source;
      d.span = t.span;
      d.span_text = "it would be stored";
      d.help = "leave out require_fused, or change the formula so that every reduction streams";
      errors.push_back(std::move(d));
    }
    return errors;
  }
  auto schedule =
      apply_overrides(choose(options.machine, facts(streams, options.layout)), options.overrides, options.machine);
  if (!schedule) return schedule.diagnostics();
  observe("schedule", [chosen = *schedule] {
    std::string text;
    for (const auto& [key, value] : chosen.values()) {
      const auto why = chosen.why.find(key);
      text += fmt::format("{:<10} {:<10} {}\n", key, value, why == chosen.why.end() ? "" : why->second);
    }
    return text;
  });

  Kernel kernel = lower(streams);
  kernel.trusted = options.trusted;
  kernel.index_bits = has_integer_extremes(streams) ? 64 : options.index_bits;
  for (Buffer& buffer : kernel.buffers) {
    auto unit = options.layout.unit_axes.find(buffer.sym.text());
    if (unit != options.layout.unit_axes.end() && buffer.role != Role::temporary) buffer.unit_axis = unit->second;
    if (buffer.role == Role::temporary) buffer.unit_axis = static_cast<std::int64_t>(buffer.extents.size()) - 1;
  }
  observe("lower", [kernel] { return print(kernel); });
  struct Pass {
    const char* name;
    Kernel (*run)(Kernel, const Schedule&);
  };
  for (const Pass& pass : {Pass{"tile", tile}, Pass{"partition", partition}, Pass{"place", place}, Pass{"map", map}}) {
    kernel = pass.run(std::move(kernel), *schedule);
    observe(pass.name, [kernel] { return print(kernel); });
#ifndef NDEBUG
    if (std::string wrong = verify(kernel); !wrong.empty()) return internal(pass.name, wrong);
#endif
  }
  if (std::string wrong = verify(kernel); !wrong.empty()) return internal("map", wrong);
  observe("loop", [kernel] { return print(kernel); });
  out.kernel = std::move(kernel);
  return out;
}

}  // namespace attune::loop
