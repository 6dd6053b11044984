// SPDX-License-Identifier: Apache-2.0
// Inference: a module's functions and one kernel's declarations and definitions. Entry point of the step.
#include <algorithm>
#include <limits>

#include "syntax/syntax.hpp"
#include "syntax/words.hpp"
#include "tensor/infer.hpp"
#include "tensor/passes.hpp"

namespace attune::tensor::inference {

// ---- the module -------------------------------------------------------------------------------------
const ast::Kernel* Inference::choose(const std::string& name) {
  std::vector<const ast::Kernel*> kernels;
  std::vector<std::string> names;
  for (const ast::Declaration& declaration : module_.declarations)
    if (const auto* kernel = std::get_if<ast::Kernel>(&declaration)) {
      kernels.push_back(kernel);
      names.push_back(kernel->name);
    }
  if (kernels.empty()) {
    error("A0229", {}, "the text has no kernel", "", "declare one: `kernel name(...) -> O: f32[...] { ... }`");
    return nullptr;
  }
  std::string list;
  for (const std::string& each : names) list += (list.empty() ? "`" : ", `") + each + "`";
  if (name.empty()) {
    if (kernels.size() == 1) return kernels[0];
    error("A0229", kernels[1]->name_span, "the text has several kernels and none is chosen", "",
          "choose one of " + list);
    return nullptr;
  }
  for (const ast::Kernel* kernel : kernels)
    if (kernel->name == name) return kernel;
  const std::string near = did_you_mean(name, names);
  error("A0229", kernels[0]->name_span, "there is no kernel `" + name + "`", "",
        near.empty() ? "the text has " + list : "did you mean `" + near + "`?");
  return nullptr;
}

void Inference::declare_function(const ast::FunctionDecl& decl, Function::Home home, FunctionTable& table) {
  functions_.push_back({&decl, home, {}, nullptr, false});
  if (ast::is_function_word(decl.name) || ast::parse_reducer(decl.name))
    error("A0220", decl.name_span, "`" + decl.name + "` is built in and cannot be redefined", "",
          "choose another name");
  const auto [at, fresh] = table.try_emplace(decl.name, &functions_.back());
  if (!fresh && home == Function::Home::module) {
    Diagnostic& d = error("A0202", decl.name_span, "function `" + decl.name + "` is declared twice", "the second time",
                          "rename one of them");
    d.labels.push_back({at->second->decl->name_span, "first declared here"});
  }
  std::map<std::string, Span> seen;
  for (std::size_t k = 0; k < decl.parameters.size(); ++k) {
    const Span span = k < decl.parameter_spans.size() ? decl.parameter_spans[k] : decl.name_span;
    const auto [first, new_name] = seen.try_emplace(decl.parameters[k], span);
    if (new_name) continue;
    Diagnostic& d = error("A0202", span, "parameter `" + decl.parameters[k] + "` is declared twice", "the second time",
                          "rename one of them");
    d.labels.push_back({first->second, "first declared here"});
  }
}

void Inference::import(const ast::Use& use) {
  std::string path;
  for (const std::string& part : use.path) path += (path.empty() ? "" : ".") + part;
  const LibraryModule* wanted = nullptr;
  std::vector<std::string> known;
  for (const LibraryModule& each : library_) {
    known.push_back("std." + each.name);
    if (known.back() == path) wanted = &each;
  }
  if (!wanted) {
    const std::string near = did_you_mean(path, known);
    std::string list;
    for (const std::string& each : known) list += (list.empty() ? "`" : ", `") + each + "`";
    error("A0221", use.span, "there is no module `" + path + "`", "",
          near.empty() ? "the modules are " + list : "did you mean `" + near + "`?");
    return;
  }
  for (const auto& [name, function] : imported_)
    if (function->origin == path) return;  // again the same one
  Result<ast::Module> parsed = parse(Source(path, wanted->text));
  if (!parsed) {
    Diagnostic& d = error("A0221", use.span, "the module `" + path + "` does not parse");
    d.notes.push_back(parsed.diagnostics()[0].message);
    return;
  }
  library_modules_.push_back(*std::move(parsed));
  FunctionTable& table = library_tables_.emplace_back();
  std::vector<std::string> clashes;
  for (const ast::Declaration& declaration : library_modules_.back().declarations) {
    const auto* decl = std::get_if<ast::FunctionDecl>(&declaration);
    if (!decl) continue;
    functions_.push_back({decl, Function::Home::library, path, &table, false});
    table[decl->name] = &functions_.back();
    const auto [at, fresh] = imported_.try_emplace(decl->name, &functions_.back());
    if (!fresh) clashes.push_back("`" + decl->name + "` is also in " + at->second->origin);
  }
  if (clashes.empty()) return;
  Diagnostic& d = error("A0222", use.span, "`" + path + "` clashes with a module used before", "",
                        "use one of them, and write the other's function out");
  d.notes = std::move(clashes);
}

void Inference::declare_functions() {
  std::map<std::string, Span> kernels;
  for (const ast::Declaration& declaration : module_.declarations) {
    if (const auto* use = std::get_if<ast::Use>(&declaration)) import(*use);
    if (const auto* function = std::get_if<ast::FunctionDecl>(&declaration))
      declare_function(*function, Function::Home::module, module_functions_);
    if (const auto* kernel = std::get_if<ast::Kernel>(&declaration)) {
      const auto [first, fresh] = kernels.try_emplace(kernel->name, kernel->name_span);
      if (fresh) continue;
      Diagnostic& d = error("A0202", kernel->name_span, "kernel `" + kernel->name + "` is declared twice",
                            "the second time", "rename one of them");
      d.labels.push_back({first->second, "first declared here"});
    }
  }
  for (const auto& [name, span] : kernels)
    if (auto function = module_functions_.find(name); function != module_functions_.end()) {
      Diagnostic& d = error("A0202", span, "`" + name + "` is a kernel and a function", "", "rename one of them");
      d.labels.push_back({function->second->decl->name_span, "the function is declared here"});
    }
}

// ---- the kernel's names -------------------------------------------------------------------------------
void Inference::declare(const std::string& name, Entity entity, Span span, Sym sym) {
  const bool axes = entity == Entity::tensor || entity == Entity::definition;
  if (axes && ast::parse_reducer(name))
    error("A0220", span, "`" + name + "` is a reducer and cannot be a " + std::string(describe(entity)), "",
          "choose another name");
  const auto [first, fresh] = names_.try_emplace(name, Named{entity, span, sym});
  if (fresh) return;
  const Entity before = first->second.entity;
  Diagnostic& d = error("A0202", span,
                        before == entity ? std::string(describe(entity)) + " `" + name + "` is declared twice"
                                         : "`" + name + "` is a " + std::string(describe(before)) +
                                               " already and cannot be a " + std::string(describe(entity)) + " too",
                        "the second time", "rename one of them");
  if (!(first->second.span == Span{})) d.labels.push_back({first->second.span, "first declared here"});
}

void Inference::declare_dims(const ast::Expr& extent, int level) {
  if (!extent || level > max_levels) return;
  if (const auto* name = std::get_if<ast::Name>(&extent->kind)) {
    auto known = names_.find(name->name);
    if (known != names_.end() && known->second.entity == Entity::dim) return;
    const bool fresh = known == names_.end();
    if (!fresh && !broken_.insert(name->name).second) return;  // said already
    const Sym sym = Sym::fresh(name->name);
    declare(name->name, Entity::dim, extent->span, sym);
    if (fresh) program_.dims.push_back(sym);
    return;
  }
  if (const auto* chain = std::get_if<ast::Chain>(&extent->kind))
    for (const ast::Expr& operand : chain->operands) declare_dims(operand, level + 1);
  if (const auto* power = std::get_if<ast::Power>(&extent->kind)) {
    declare_dims(power->base, level + 1);
    declare_dims(power->exponent, level + 1);
  }
  if (const auto* minus = std::get_if<ast::Negate>(&extent->kind)) declare_dims(minus->operand, level + 1);
}

void Inference::declare_kernel() {
  for (std::size_t k = 0; k < kernel_->type_variables.size(); ++k) {
    const std::string& name = kernel_->type_variables[k];
    const Sym sym = Sym::fresh(name);
    program_.type_variables.push_back(sym);
    declare(name, Entity::type_variable,
            k < kernel_->type_variable_spans.size() ? kernel_->type_variable_spans[k] : kernel_->name_span, sym);
  }
  for (const ast::Param& param : kernel_->params)
    std::visit(
        [&](const auto& decl) {
          const bool is_tensor = std::is_same_v<std::decay_t<decltype(decl)>, ast::TensorDecl>;
          declare(decl.name, is_tensor ? Entity::tensor : Entity::scalar, decl.name_span, Sym::fresh(decl.name));
        },
        param);
  for (const ast::Item& item : kernel_->items) {
    if (const auto* function = std::get_if<ast::FunctionDecl>(&item)) {
      declare(function->name, Entity::function, function->name_span, Sym::fresh(function->name));
      declare_function(*function, Function::Home::kernel, kernel_functions_);
    } else {
      const auto& decl = std::get<ast::Definition>(item);
      const Sym sym = Sym::fresh(decl.name);
      const bool fresh = !names_.contains(decl.name);
      declare(decl.name, Entity::definition, decl.name_span, sym);
      Item& made = items_.emplace_back();
      made.decl = &decl;
      made.made.sym = sym;
      made.made.span = decl.span;
      made.cyclic = !fresh;  // the first of two counts
    }
  }
  // Dims come last, so that a parameter that an extent uses as a size is named as the parameter.
  for (const ast::Param& param : kernel_->params)
    if (const auto* decl = std::get_if<ast::TensorDecl>(&param))
      for (const ast::Expr& extent : decl->extents) declare_dims(extent, 0);
  for (const ast::TensorDecl& decl : kernel_->results)
    for (const ast::Expr& extent : decl.extents) declare_dims(extent, 0);
}

std::optional<Type> Inference::type(const ast::TypeName& name) {
  if (const auto dtype = parse_dtype(name.text)) return Type{*dtype, {}};
  std::vector<std::string> candidates;
  for (const Sym& var : program_.type_variables) {
    if (var.text() == name.text) return Type{DType::f32, var};
    candidates.push_back(var.text());
  }
  for (DType dtype : all_dtypes) candidates.emplace_back(attune::name(dtype));
  const std::string near = did_you_mean(name.text, candidates);
  error("A0228", name.span, "unknown type `" + name.text + "`", "",
        !near.empty() ? "did you mean `" + near + "`?"
                      : "declare a type variable: `kernel " + kernel_->name + "<" + name.text + ">(...)`");
  return std::nullopt;
}

Tensor Inference::tensor(const ast::TensorDecl& decl) {
  Tensor tensor;
  tensor.span = decl.span;
  if (const auto known = type(decl.type)) tensor.type = *known;
  begin("an extent of `" + decl.name + "`");
  for (const ast::Expr& e : decl.extents) {
    const std::size_t before = errors_;
    const Value value = expr(e);
    bool plain = static_cast<bool>(value) && value.expr->type.is_integer();
    if (value)
      walk(value.expr, [&](const Expr& part) {
        plain = plain && part->type.is_integer() &&
                (get_if<Literal>(part) || get_if<Dim>(part) || get_if<Chain>(part) || get_if<Power>(part) ||
                 get_if<Unary>(part));
        return plain;
      });
    const Span span = e ? e->span : decl.span;
    if (value && !plain && errors_ == before)
      error("A0232", span, "an extent uses more than dims and integers", "",
            "write sums, products, quotients and powers of dims");
    Expr extent = plain ? value.expr : Expr();
    if (extent)
      if (const Polynomial size(extent); const std::int64_t* constant = size.constant_value())
        if (*constant < 0 || *constant > std::numeric_limits<std::int32_t>::max()) {
          error("A0232", span, "an extent of `" + decl.name + "` is " + std::to_string(*constant),
                "extents lie between 0 and 2^31 - 1", "");
          extent = Expr();
        }
    tensor.extents.push_back(extent);
  }
  return tensor;
}

void Inference::scalar(const ast::ScalarDecl& decl) {
  ScalarParam made;
  made.sym = names_.at(decl.name).sym;
  made.is_const = decl.is_const;
  made.span = decl.span;
  const auto known = type(decl.type);
  if (!known) {
    broken_.insert(decl.name);
    return;
  }
  made.type = *known;
  if (decl.default_value) {
    begin("the default of `" + decl.name + "`");
    in_default_ = true;
    Value value = expr(decl.default_value);
    in_default_ = false;
    const Span span = decl.default_value->span;
    if (value) {
      const Type& type = value.expr->type;
      const std::string wanted(known->var ? known->var.text() : attune::name(known->dtype));
      if (known->is_bool() && !type.is_bool()) {
        error("A0215", span, "`" + decl.name + "` is bool, but its default is a number", "", "write a comparison");
        value = {};
      } else if (known->is_integer() && type.is_float()) {
        error("A0215", span, "`" + decl.name + "` is " + wanted + ", but its default is a float", "",
              "truncate it with `" + wanted + "(...)`");
        value = {};
      } else if (known->is_float() && !type.is_float()) {
        value = convert(std::move(value), type_f32);
      } else if (known->is_integer() && type.is_bool()) {
        value = convert(std::move(value), type_i64);
      }
    }
    if (value && decl.is_const)
      walk(value.expr, [&](const Expr& part) {
        const auto* dim = get_if<Dim>(part);
        const auto* other = get_if<Scalar>(part);
        const bool varies = dim || (other && !program_.find_scalar(other->scalar)->is_const);
        if (varies)
          error("A0231", span, "the default of the const `" + decl.name + "` is known at the call only",
                "`" + (dim ? dim->dim.text() : other->scalar.text()) + "` is not baked into the kernel",
                "leave `const` away, or give a literal");
        return !varies;
      });
    made.default_value = value.expr;
  }
  program_.scalars.push_back(std::move(made));
}

// ---- definitions ----------------------------------------------------------------------------------------
std::optional<Expr> Inference::fit_result(const Value& body, const Tensor& result, const ast::Definition& decl) {
  const Type& type = body.expr->type;
  const std::string wanted(result.type.var ? result.type.var.text() : attune::name(result.type.dtype));
  const Span span = decl.body->span;
  auto mismatch = [&](const std::string& found, const std::string& help) {
    Diagnostic& d =
        error("A0215", span, "`" + decl.name + "` is declared as " + wanted + ", but this is " + found, "", help);
    d.labels.push_back({result.span, "declared here"});
    return std::nullopt;
  };
  if (result.type.is_bool())
    return type.is_bool() ? std::optional(body.expr) : mismatch("a number", "write a comparison, e.g. `x != 0`");
  if (result.type.is_integer()) {
    if (type.is_float()) return mismatch("a float", "truncate it with `" + wanted + "(...)`");
    if (type.is_bool()) return convert(body, type_i64).expr;
    // The empty set's value is that of the result's type where the reduction is the whole right-hand side.
    const auto* reduce = get_if<Reduce>(body.expr);
    if (reduce && (reduce->op == ReduceOp::max || reduce->op == ReduceOp::min))
      return Expr(*reduce, result.type, body.expr->span);
    return body.expr;
  }
  return type.is_float() ? body.expr : convert(body, type_f32).expr;
}

void Inference::definition(Item& item) {
  const ast::Definition& decl = *item.decl;
  const Tensor* result = nullptr;
  if (auto found = results_.find(decl.name); found != results_.end()) result = &found->second;
  Target target;
  target.sym = item.made.sym;
  target.poisoned = true;
  if (item.cyclic) {
    targets_.try_emplace(target.sym, target);
    return;
  }
  begin("definition `" + decl.name + "`");
  indices_.clear();
  use_log_.clear();
  Frame frame;
  frame_ = &frame;
  Collected collected;
  collected_ = &collected;

  bool ok = true;
  if (result && result->extents.size() != decl.indices.size()) {
    const std::size_t rank = result->extents.size(), given = decl.indices.size();
    Diagnostic& d =
        error("A0230", decl.name_span,
              "result `" + decl.name + "` has " + std::to_string(rank) + (rank == 1 ? " axis" : " axes") + ", but " +
                  std::to_string(given) + (given == 1 ? " index is" : " indices are") + " on the left");
    d.labels.push_back({result->span, "declared here"});
    result = nullptr;
    ok = false;
  }
  std::vector<Sym> syms;
  for (std::size_t axis = 0; axis < decl.indices.size(); ++axis) {
    const ast::Index& index = decl.indices[axis];
    Sym sym;
    ok = bind_index(index, 0, sym) && ok;
    IndexInfo& info = indices_.at(sym);
    if (info.written && info.lo && !(Polynomial(info.lo) == Polynomial::constant(0))) {
      error("A0207", index.lo->span, "the range of a left-hand index starts at 0", "this is " + print(info.lo),
            "shift the index where it is used: `" + index.name + " + " + print(info.lo) + "`");
      info.lo = Expr();
      info.poisoned = true;
    }
    if (info.written && info.hi && result && result->extents[axis] &&
        !(Polynomial(info.hi) == Polynomial(result->extents[axis]))) {
      Diagnostic& d =
          error("A0207", index.span,
                "index `" + index.name + "` ranges over " + print(info.hi) + ", but axis " + std::to_string(axis) +
                    " of the result `" + decl.name + "` has extent " + print(result->extents[axis]),
                "", "leave the range away");
      d.labels.push_back({result->span, "declared here"});
      ok = false;
    }
    if (result && !info.written) {
      info.of_result = true;
      info.hi = result->extents[axis];
    }
    syms.push_back(sym);
    frame.locals.push_back({index.name, sym, nullptr, index.span});
  }
  Value body = expr(decl.body);
  frame_ = &frame;
  std::vector<IndexRange> ranges;
  for (const Sym& sym : syms) {
    const std::size_t before = errors_;
    ranges.push_back(close(sym));
    ok = ok && errors_ == before;
  }
  for (const IndexRange& range : ranges) {
    target.extents.push_back(range.hi);
    target.sizes.push_back(range.hi ? Polynomial(range.hi) : Polynomial::constant(0));
    ok = ok && range.hi;
  }
  if (body && any_along(ranges)) body.expr = fill_along(body.expr, ranges);
  if (body && result) {
    if (const auto fitted = fit_result(body, *result, decl))
      body.expr = *fitted;
    else
      body = {};
  }
  frame_ = nullptr;
  collected_ = nullptr;
  if (body) target.type = body.expr->type;
  target.poisoned = !body || !ok;
  targets_.try_emplace(target.sym, target);
  item.called = std::move(collected.called);
  item.ok = !target.poisoned;
  if (!item.ok) return;
  item.made.indices = std::move(ranges);
  item.made.body = body.expr;
  item.quotients = std::move(collected.quotients);
  item.checks = std::move(collected.checks);
  size_ += body.size;
  if (size_ > max_nodes && !too_large_) {
    too_large_ = true;
    error("A0227", decl.name_span,
          "kernel `" + kernel_->name + "` has more than " + std::to_string(max_nodes) + " nodes after expansion",
          "the definitions up to this one exceed it", "split the kernel");
  }
}

void Inference::check_uncalled() {
  // Each function that nothing calls is expanded once with arguments of which nothing is known.
  std::set<const Function*> called = collected_->called;
  for (const Item& item : items_) called.insert(item.called.begin(), item.called.end());
  for (const Function& function : functions_) {
    if (function.home == Function::Home::library || function.cyclic || called.contains(&function)) continue;
    begin("function `" + function.decl->name + "`");
    indices_.clear();
    use_log_.clear();
    std::vector<Argument> arguments(function.decl->parameters.size());
    Frame frame;
    frame.function = &function;
    for (std::size_t k = 0; k < arguments.size(); ++k)
      frame.locals.push_back({function.decl->parameters[k], {}, &arguments[k], {}});
    Frame* const outer = frame_;
    Collected* const kept = collected_;
    Collected unused;
    frame_ = &frame;
    collected_ = &unused;
    expr(function.decl->body);
    frame_ = outer;
    collected_ = kept;
  }
}

// ---- the whole ------------------------------------------------------------------------------------------
void Inference::assemble() {
  for (Item* item : ordered_) {
    program_.definitions.push_back(std::move(item->made));
    for (ExactQuotient& quotient : item->quotients) collected_->quotients.push_back(std::move(quotient));
    for (RangeCheck& check : item->checks) collected_->checks.push_back(std::move(check));
  }
  for (ExactQuotient& quotient : collected_->quotients) {
    auto same = [&](const ExactQuotient& known) {
      return known.dividend == quotient.dividend && known.divisor == quotient.divisor;
    };
    auto& list = program_.exact_quotients;
    if (std::none_of(list.begin(), list.end(), same)) list.push_back(std::move(quotient));
  }
  for (RangeCheck& check : collected_->checks) {
    auto same = [&](const RangeCheck& known) {
      return known.lo == check.lo && known.hi == check.hi && known.target == check.target && known.axis == check.axis;
    };
    auto& list = program_.range_checks;
    if (std::none_of(list.begin(), list.end(), same)) list.push_back(std::move(check));
  }
}

Result<Program> Inference::run(const std::string& kernel_name) {
  kernel_ = choose(kernel_name);
  if (kernel_) {
    declare_functions();
    program_.name = kernel_->name;
    program_.source = module_.source;
    declare_kernel();
    order();

    Frame frame;
    Collected collected;
    frame_ = &frame;
    collected_ = &collected;
    for (const ast::Param& param : kernel_->params) {
      if (const auto* decl = std::get_if<ast::TensorDecl>(&param)) {
        Tensor made = tensor(*decl);
        made.sym = names_.at(decl->name).sym;
        Target target;
        target.sym = made.sym;
        target.type = made.type;
        target.extents = made.extents;
        for (const Expr& extent : made.extents)
          target.sizes.push_back(extent ? Polynomial(extent) : Polynomial::constant(0));
        targets_.try_emplace(made.sym, std::move(target));
        program_.tensors.push_back(std::move(made));
      } else {
        scalar(std::get<ast::ScalarDecl>(param));
      }
    }
    for (const ast::TensorDecl& decl : kernel_->results) {
      Tensor made = tensor(decl);
      auto named = names_.find(decl.name);
      const bool defined = named != names_.end() && named->second.entity == Entity::definition;
      if (defined) made.sym = named->second.sym;
      if (!defined) {
        Diagnostic& d = error("A0230", decl.name_span, "result `" + decl.name + "` has no definition", "",
                              "write `" + decl.name + "[...] = ...`");
        if (named != names_.end())
          d.help = "`" + decl.name + "` is a " + std::string(describe(named->second.entity)) +
                   "; results are definitions of the kernel";
      }
      if (!results_.try_emplace(decl.name, made).second)
        error("A0202", decl.name_span, "result `" + decl.name + "` is declared twice", "the second time",
              "rename one of them");
      program_.results.push_back(std::move(made));
    }
    if (kernel_->results.empty()) error("A0230", kernel_->name_span, "kernel `" + kernel_->name + "` has no result");
    for (Item* item : ordered_) {
      definition(*item);
      frame_ = &frame;
      collected_ = &collected;
    }
    check_uncalled();
    if (errors_ == 0)
      prune();
    else
      prune_by_name();
    if (errors_ == 0) assemble();
    frame_ = nullptr;
    collected_ = nullptr;
  }

  // In the order of the text; equal places keep the order in which they were found.
  std::multimap<std::uint32_t, Diagnostic> placed;
  for (Diagnostic& d : diagnostics_)
    if (errors_ == 0 || d.severity == Severity::error) placed.emplace(d.span.begin, std::move(d));
  Diagnostics found;
  for (auto& [place, d] : placed) found.push_back(std::move(d));
  if (errors_ > 0) return found;
  return {std::move(program_), std::move(found)};
}

Result<Program> infer(const ast::Module& module, const std::string& kernel_name,
                      const std::vector<LibraryModule>& library) {
  return Inference(module, library).run(kernel_name);
}

}  // namespace attune::tensor::inference

namespace attune {

Result<tensor::Program> infer(const ast::Module& module, const std::string& kernel_name) {
  return tensor::inference::infer(module, kernel_name, tensor::inference::standard_library());
}

}  // namespace attune
