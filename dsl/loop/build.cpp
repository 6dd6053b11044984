// SPDX-License-Identifier: Apache-2.0
// build(): the whole way from a typed program to a scheduled kernel, one step under another.
#include <algorithm>
#include <cstdlib>

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

/// A running value that has to be complete before a range can be swept once more.
struct Again {
  Sym state;
  std::string reason;
  Span span;
};

/// A sweep along a range of its own computes what others read of it, row by row; one along a range that an earlier one
/// ran along passes over the same data again.
std::vector<Again> repeated_sweeps(const tensor::Nest& nest) {
  std::vector<Again> out;
  for (std::size_t k = 1; k < nest.phases.size(); ++k) {
    const tensor::Phase& phase = nest.phases[k];
    auto same_range = [&](const tensor::Phase& other) {
      return std::equal(phase.over.begin(), phase.over.end(), other.over.begin(), other.over.end(),
                        [](const auto& a, const auto& b) { return a.lo == b.lo && a.hi == b.hi; });
    };
    for (std::size_t l = 0; l < k; ++l) {
      if (!same_range(nest.phases[l])) continue;
      for (const tensor::State& state : nest.phases[l].states) {
        auto reads = [&](const tensor::Expr& expr) {
          bool found = false;
          if (expr)
            tensor::walk(expr, [&](const tensor::Expr& e) {
              if (const auto* access = tensor::get_if<tensor::Access>(e)) found = found || access->target == state.sym;
              return !found;
            });
          return found;
        };
        const bool read = std::any_of(phase.states.begin(), phase.states.end(), [&](const tensor::State& later) {
          return reads(later.direct_body) || reads(later.direct_guard);
        });
        const bool known = std::any_of(out.begin(), out.end(), [&](const Again& a) { return a.state == state.sym; });
        if (read && !known)
          out.push_back(
              {state.sym, "a second sweep over `" + phase.over.back().index.text() + "`: " + phase.reason, state.span});
      }
    }
  }
  return out;
}

}  // namespace

Result<Lowered> build(const tensor::Program& program, const LowerOptions& options) {
  tensor::Program plain = tensor::simplify(tensor::desugar(program));
  tensor::Streams streams = tensor::stream(plain);
  Lowered out;
  out.streams = tensor::print(streams);
  Diagnostics unfused;
  auto materialised = [&](const std::string& name, const std::string& reason, const Span& span) {
    out.materialised.emplace_back(name, reason);
    Diagnostic d;
    d.code = "A0301";
    d.message = "`" + name + "` cannot be fused: " + reason;
    d.source = program.source;
    d.span = span;
    d.help = "leave out require_fused, or change the formula so that every reduction streams";
    unfused.push_back(std::move(d));
  };
  for (const tensor::Temporary& t : streams.temporaries) {
    const tensor::Definition* of = program.find_definition(t.definition);
    materialised(t.sym.text(), t.reason, of ? of->span : Span{});
  }
  for (const tensor::Nest& nest : streams.nests)
    for (const Again& again : repeated_sweeps(nest)) materialised(again.state.text(), again.reason, again.span);
  if (options.require_fused && !unfused.empty()) return unfused;
  auto schedule =
      apply_overrides(choose(options.machine, facts(streams, options.layout)), options.overrides, options.machine);
  if (!schedule) return schedule.diagnostics();

  Kernel kernel = lower(streams);
  kernel.trusted = options.trusted;
  kernel.index_bits = has_integer_extremes(streams) ? 64 : options.index_bits;
  for (Buffer& buffer : kernel.buffers) {
    auto unit = options.layout.unit_axes.find(buffer.sym.text());
    if (unit != options.layout.unit_axes.end() && buffer.role != Role::temporary) buffer.unit_axis = unit->second;
    if (buffer.role == Role::temporary) buffer.unit_axis = static_cast<std::int64_t>(buffer.extents.size()) - 1;
  }
  if (options.record) out.stages.emplace_back("lower", print(kernel));
  struct Pass {
    const char* name;
    Kernel (*run)(Kernel, const Schedule&);
  };
  for (const Pass& pass : {Pass{"tile", tile}, Pass{"partition", partition}, Pass{"place", place}, Pass{"map", map}}) {
    kernel = pass.run(std::move(kernel), *schedule);
    if (options.record) out.stages.emplace_back(pass.name, print(kernel));
#ifndef NDEBUG
    if (std::string wrong = verify(kernel); !wrong.empty()) return internal(pass.name, wrong);
#endif
  }
  if (std::string wrong = verify(kernel); !wrong.empty()) return internal("map", wrong);
  out.kernel = std::move(kernel);
  return out;
}

}  // namespace attune::loop
