// SPDX-License-Identifier: Apache-2.0
// From options to a program with inputs and room for results.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <set>

#include "backend/binding.hpp"
#include "command.hpp"
#include "loop/passes.hpp"
#include "recorder.hpp"
#include "syntax/syntax.hpp"
#include "tensor/algebra.hpp"
#include "tensor/fix_dims.hpp"
#include "tensor/passes.hpp"

namespace attune::tool {
namespace {

/// Standard input, but no more than it takes to see that it is too long.
std::string read_input() {
  std::string text(max_text_bytes + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::cin.gcount()));
  return text;
}

/// The greatest value an integer tensor may take, as the program uses it: it subscripts an axis (extent - 1), or it is
/// compared with an index (its range's end); else a small number.
std::int64_t integer_limit(const tensor::Program& program, const Sym& target,
                           const std::map<std::string, std::int64_t>& dims) {
  using namespace tensor;
  using tensor::Dim;
  using tensor::Expr;
  using tensor::Index;
  using tensor::Scalar;
  using tensor::Tensor;
  Binding sizes;
  for (const Sym& dim : program.dims)
    if (auto at = dims.find(dim.text()); at != dims.end()) sizes.dims[dim] = at->second;
  std::int64_t limit = -1;
  auto extent_of = [&](const Expr& e) -> std::int64_t {
    bool known = true;
    walk(e, [&](const Expr& part) {
      if (const auto* d = get_if<Dim>(part)) known = known && sizes.dims.contains(d->dim);
      if (get_if<Scalar>(part)) known = false;
      return true;
    });
    return known ? evaluate_extent(e, sizes) : -1;
  };
  auto narrow = [&](std::int64_t value) {
    if (value >= 0) limit = limit < 0 ? value : std::min(limit, value);
  };
  std::map<Sym, Expr> ends;
  auto reads = [&](const Expr& e) {
    bool found = false;
    walk(e, [&](const Expr& part) {
      if (const auto* access = get_if<Access>(part)) found = found || access->target == target;
      return !found;
    });
    return found;
  };
  auto visit = [&](const Expr& body) {
    walk(body, [&](const Expr& e) {
      if (const auto* reduce = get_if<Reduce>(e))
        for (const auto& r : reduce->over) ends[r.index] = r.hi;
      if (const auto* access = get_if<Access>(e)) {
        const Tensor* into = program.find_tensor(access->target);
        for (std::size_t k = 0; into && k < access->subscripts.size(); ++k)
          if (reads(access->subscripts[k])) narrow(std::max<std::int64_t>(0, extent_of(into->extents[k]) - 1));
      }
      if (const auto* cmp = get_if<Compare>(e)) {
        bool here = false;
        for (const Expr& arg : cmp->args) here = here || reads(arg);
        if (here)
          for (const Expr& arg : cmp->args)
            if (const auto* idx = get_if<Index>(arg); idx && ends.contains(idx->index))
              narrow(extent_of(ends[idx->index]));
      }
      return true;
    });
  };
  for (const Definition& definition : program.definitions) {
    for (const auto& r : definition.indices) ends[r.index] = r.hi;
    visit(definition.body);
  }
  return limit < 0 ? 3 : limit;
}

void draw(Owned& tensor, std::mt19937_64& random, std::int64_t limit) {
  const std::int64_t count = tensor.ref.element_count();
  if (is_float(tensor.ref.dtype)) {
    std::normal_distribution<double> normal;
    for (std::int64_t k = 0; k < count; ++k) store_element(tensor.ref.data, tensor.ref.dtype, k, normal(random));
  } else {
    std::uniform_int_distribution<std::int64_t> uniform(0, tensor.ref.dtype == DType::boolean ? 1 : limit);
    for (std::int64_t k = 0; k < count; ++k) store_integer(tensor.ref.data, tensor.ref.dtype, k, uniform(random));
  }
}

}  // namespace

Owned allocate(DType dtype, const std::vector<std::int64_t>& shape, bool poison) {
  static const double most = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  std::int64_t count = 1;
  double bytes = static_cast<double>(size_of(dtype));
  for (std::int64_t extent : shape) bytes *= static_cast<double>(extent);
  if (bytes > most)
    fail(target_error, problem("A0604",
                               fmt::format("a tensor of {:.1f} GB does not fit into this machine's {:.1f} GB of memory",
                                           bytes * 1e-9, most * 1e-9),
                               "use smaller sizes with --shape"));
  for (std::int64_t extent : shape) count *= extent;
  Owned out;
  out.memory = std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(count) * size_of(dtype) + 64,
                                                           std::uint8_t(poison ? 0xff : 0));
  auto address = reinterpret_cast<std::uintptr_t>(out.memory->data());
  out.ref = TensorRef(reinterpret_cast<void*>((address + 63) & ~std::uintptr_t{63}), dtype, shape);
  return out;
}

namespace {

Program read_program(const Options& options) {
  if (!options.text.empty()) {
    if (!options.file.empty()) usage("both FILE and -e are given", "leave one out");
    return expect(Program::parse(options.text, "<expression>"));
  }
  if (options.file.empty()) usage("no program is given", "name a .attn file, std:NAME, - or use -e 'kernel …'");
  if (options.file == "-") return expect(Program::parse(read_input(), "<stdin>"));
  if (options.file.rfind("std:", 0) == 0) {
    auto found = stdlib::program(options.file.substr(4));
    if (!found && stdlib::text(options.file.substr(4)).empty()) fail(usage_error, found.diagnostics());
    return expect(std::move(found));
  }
  auto program = Program::load(options.file);
  if (!program && program.diagnostics()[0].code == "A0601") {
    Diagnostics errors = program.diagnostics();
    std::vector<std::string> standard = stdlib::names();
    if (std::find(standard.begin(), standard.end(), options.file) != standard.end())
      errors[0].help = "the standard program is written `std:" + options.file + "`";
    fail(usage_error, errors);
  }
  return expect(std::move(program));
}

}  // namespace

Program load_program(const Options& options) {
  Program program = read_program(options);
  recorder().program = program.text();
  return program;
}

std::string choose_kernel(const Program& program, const Options& options) {
  auto kernels = program.kernels();
  if (kernels.empty()) return {};  // inference says so
  if (options.kernel.empty()) {
    if (kernels.size() == 1) return kernels[0];
    std::string list;
    for (const auto& k : kernels) list += (list.empty() ? "" : ", ") + k;
    usage("the text has several kernels: " + list, "choose one with --kernel NAME");
  }
  if (std::find(kernels.begin(), kernels.end(), options.kernel) == kernels.end()) {
    std::string near = did_you_mean(options.kernel, kernels);
    usage("there is no kernel `" + options.kernel + "`",
          near.empty() ? one_of(kernels) : "did you mean `" + near + "`?");
  }
  return options.kernel;
}

Session open_program(const Options& options) {
  Session s{options, load_program(options)};
  s.kernel_name = choose_kernel(s.program, options);
  auto inferred = infer(s.program.module(), s.kernel_name);
  warn(options, inferred.diagnostics());
  s.inferred = expect(std::move(inferred));
  recorder().kernel = s.kernel_name;
  return s;
}

void open_inputs(Session& s, std::optional<std::uint64_t> random_default) {
  const Options& o = s.options;
  const tensor::Program& program = s.inferred;
  read_given(s);
  const auto& [renamed, dims, settings] = s.given;
  // Files.
  Diagnostics errors;
  std::map<std::string, std::string> origin;
  std::set<std::string> used_names;
  for (const auto& path : o.inputs) {
    s.files.push_back(expect(read_safetensors(path)));
    for (const StoredTensor& t : s.files.back().tensors) {
      used_names.insert(t.name);
      std::string name = renamed.contains(t.name) ? renamed.at(t.name) : t.name;
      auto known = parameter_names(program);
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        std::cerr << "warning: `" << path << "` has a tensor `" << printable(t.name)
                  << "` that the program does not use\n";
        continue;
      }
      if (origin.contains(name)) {
        errors.push_back(problem("A0503", "`" + name + "` is in two files: `" + origin[name] + "` and `" + path + "`",
                                 "use --map, or one file"));
        continue;
      }
      origin[name] = path;
      if (settings.contains(name)) {
        errors.push_back(problem("A0503", "`" + name + "` has two values: --set and a tensor of `" + path + "`",
                                 "leave one of them out"));
        continue;
      }
      if (!t.dtype) {
        Diagnostic d = problem("A0505", "`" + name + "` has dtype " + t.dtype_word + ", which attune does not read");
        d.tensor = name;
        d.found = t.dtype_word;
        d.help = "attune reads F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, I8, U8 and BOOL: convert it beforehand";
        errors.push_back(d);
        continue;
      }
      // Data in the file need not be aligned for their type.
      Owned copy = allocate(*t.dtype, t.shape, false);
      if (copy.ref.element_count())
        std::memcpy(copy.ref.data, t.data, static_cast<std::size_t>(copy.ref.element_count()) * size_of(*t.dtype));
      s.inputs.emplace_back(name, copy.ref);
      s.memory.push_back(std::move(copy));
    }
  }
  for (const auto& [from, to] : renamed)
    if (!used_names.contains(from)) {
      const std::vector<std::string> stored(used_names.begin(), used_names.end());
      usage("--map " + from + "=" + to + ": no input file has a tensor `" + from + "`",
            stored.empty() ? "give the file with --inputs" : one_of(stored));
    }
  if (!errors.empty()) fail(data_error, errors);
  auto random = o.random ? o.random : (o.inputs.empty() ? random_default : std::nullopt);
  if (random) {
    for (const Sym& var : program.type_variables)
      if (!s.types.contains(var.text()) && o.inputs.empty()) s.types[var.text()] = DType::f32;
    auto types = expect(infer_types(program, s.inputs, s.types));
    tensor::Program bound = expect(tensor::bind_types(program, types, s.consts));
    // Dims: those of --shape and of tensors given in files.
    std::map<std::string, std::int64_t> known = dims;
    for (const auto& t : bound.tensors)
      for (const Argument& a : s.inputs)
        if (const auto* ref = std::get_if<TensorRef>(&a.value); ref && a.name == t.sym.text())
          for (std::size_t k = 0; k < std::min(ref->shape.size(), t.extents.size()); ++k)
            if (const auto* d = tensor::get_if<tensor::Dim>(t.extents[k]))
              known.try_emplace(d->dim.text(), ref->shape[k]);
    Binding sizes;
    Diagnostics missing;
    for (const Sym& dim : bound.dims) {
      if (auto at = known.find(dim.text()); at != known.end()) {
        sizes.dims[dim] = at->second;
      } else {
        missing.push_back(
            problem("A0509", "dim `" + dim.text() + "` has no size", "give it with --shape " + dim.text() + "=…"));
      }
    }
    for (const auto& scalar : bound.scalars)
      for (const Argument& a : s.inputs)
        if (a.name == scalar.sym.text())
          if (const auto* v = std::get_if<std::int64_t>(&a.value)) sizes.scalars[scalar.sym] = *v;
    if (!missing.empty()) fail(data_error, missing);
    std::mt19937_64 engine(*random);
    for (const auto& t : bound.tensors) {
      bool given =
          std::any_of(s.inputs.begin(), s.inputs.end(), [&](const Argument& a) { return a.name == t.sym.text(); });
      if (given) continue;
      std::vector<std::int64_t> shape;
      for (const auto& e : t.extents) shape.push_back(std::max<std::int64_t>(0, evaluate_extent(e, sizes)));
      Owned made = allocate(t.type.dtype, shape, false);
      draw(made, engine, integer_limit(bound, t.sym, known));
      s.inputs.emplace_back(t.sym.text(), made.ref);
      s.memory.push_back(std::move(made));
    }
  }
  // A dim by name only where the tensors leave it open or agree: bind() checks both.
  for (const auto& [name, size] : dims) s.inputs.emplace_back(name, size);
  s.types = expect(infer_types(program, s.inputs, s.types));
  s.bound = expect(tensor::bind_types(program, s.types, s.consts));
  Binding binding = expect(attune::bind(s.bound, s.inputs, false));
  for (const Sym& dim : s.bound.dims) s.shapes.dims[dim.text()] = binding.dims.at(dim);
  s.arguments = s.inputs;
  for (const auto& result : s.bound.results) {
    std::vector<std::int64_t> shape;
    for (const auto& e : result.extents) shape.push_back(evaluate_extent(e, binding));
    Owned made = allocate(result.type.dtype, shape, true);
    s.shapes.results.push_back({result.sym.text(), result.type.dtype, shape});
    s.results.emplace_back(result.sym.text(), made.ref);
    s.arguments.emplace_back(result.sym.text(), made.ref);
    s.memory.push_back(std::move(made));
  }
  s.compile = compile_options(o, s);
  recorder().note(s);
}

tensor::Program program_for(const Session& s, const Target& target, const loop::LowerOptions& options) {
  if (target.kind != TargetKind::cuda) return s.bound;
  std::map<std::string, std::int64_t> sizes;
  for (const Sym& dim : expect(cuda::dims_to_fix(s.bound, options))) {
    const auto shape = s.shapes.dims.find(dim.text());
    const auto given = s.given.dims.find(dim.text());
    sizes[dim.text()] = shape != s.shapes.dims.end()  ? shape->second
                        : given != s.given.dims.end() ? given->second
                                                      : loop::LayoutFacts{}.depth_hint;
  }
  return tensor::fix_dims(s.bound, sizes);
}

CompileOptions compile_options(const Options& o, const Session& s) {
  CompileOptions out;
  out.target = running_target(o);
  out.kernel = s.kernel_name;
  out.types = s.types;
  out.consts = s.consts;
  out.require_fused = o.require_fused;
  for (const auto& text : o.schedule) {
    auto [key, value] = split_setting(text, "--schedule");
    out.schedule[key] = value;
  }
  return out;
}

}  // namespace attune::tool
