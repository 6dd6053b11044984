// SPDX-License-Identifier: Apache-2.0
// Streams as text: for `attune show --stage stream`, dumps and golden tests.
#include "tensor/stream.hpp"

namespace attune::tensor {
namespace {

const char* word(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::max: return "max";
    case ReduceOp::min: return "min";
    case ReduceOp::mean: return "mean";
    case ReduceOp::prod: return "prod";
    case ReduceOp::any: return "any";
    case ReduceOp::all: return "all";
    case ReduceOp::logsumexp: return "logsumexp";
    case ReduceOp::argmax: return "argmax";
    case ReduceOp::bound: return "bound";
  }
  return "?";
}

std::string ranges(const std::vector<IndexRange>& list) {
  std::string out;
  for (const auto& r : list) {
    if (!out.empty()) out += ", ";
    out += r.index.text() + " in " + print(r.lo) + ".." + print(r.hi);
  }
  return out;
}

std::string coefficient(double value, const std::string& name) {
  std::string difference = "(" + name + ".new - " + name + ".old)";
  if (value == 1) return difference;
  if (value == -1) return "-" + difference;
  return std::to_string(value) + " * " + difference;
}

}  // namespace

std::string print(const Streams& streams) {
  std::string out;
  for (const Temporary& t : streams.temporaries) {
    out += "store " + t.sym.text() + "[";
    for (std::size_t k = 0; k < t.extents.size(); ++k) out += (k ? ", " : "") + print(t.extents[k]);
    out += "]  # " + t.reason + "\n";
  }
  for (const Nest& nest : streams.nests) {
    out += "rows " + ranges(nest.rows);
    if (nest.row) out += "  # lanes: " + nest.row.text();
    out += "\n";
    for (const Phase& phase : nest.phases) {
      out += "  " + std::string(nest.scan ? "scan " : "stream ") + ranges(phase.over);
      if (!phase.reason.empty()) out += "  # another sweep: " + phase.reason;
      out += "\n";
      for (const State& state : phase.states) {
        out += "    " + state.sym.text();
        if (!state.extras.empty()) {
          out += "[";
          for (std::size_t k = 0; k < state.extras.size(); ++k) out += (k ? ", " : "") + state.extras[k].text();
          out += "]";
        }
        out += " = " + std::string(word(state.op)) + " of " + print(state.body);
        if (state.guard) out += " where " + print(state.guard);
        out += "\n";
        if (!state.repair.empty()) {
          out += "      repair: exp(";
          for (std::size_t k = 0; k < state.repair.size(); ++k)
            out += (k ? " + " : "") + coefficient(state.repair[k].second, state.repair[k].first.text());
          out += ")\n";
        }
        if (!state.hoisted.empty())
          out += "      after the sweep: * " + print(product_of(state.hoisted, type_f32)) + "\n";
        if (state.condition) out += "      only where: " + print(state.condition) + "\n";
      }
    }
    for (const Output& output : nest.outputs) {
      out += "  " + output.target.text() + "[";
      for (std::size_t k = 0; k < output.indices.size(); ++k) out += (k ? ", " : "") + output.indices[k].text();
      out += "] = " + print(output.value) + "\n";
    }
  }
  return out;
}

}  // namespace attune::tensor
