// SPDX-License-Identifier: Apache-2.0
// Inference: looking names up, did-you-mean, and the list of findings.
#include <algorithm>
#include <cctype>

#include "syntax/words.hpp"
#include "tensor/infer.hpp"

namespace attune::tensor::inference {

std::string_view describe(Entity entity) {
  switch (entity) {
    case Entity::type_variable: return "type variable";
    case Entity::dim: return "dim";
    case Entity::tensor: return "tensor";
    case Entity::scalar: return "scalar";
    case Entity::definition: return "definition";
    case Entity::function: return "function";
  }
  return "name";
}

namespace {

bool same_but_for_case(const std::string& a, const std::string& b) {
  auto lower = [](unsigned char c) { return std::tolower(c); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

/// The module of the library that declares a function, or "".
std::string module_of(const std::string& function, const std::vector<LibraryModule>& library) {
  for (const LibraryModule& module : library)
    if (module.text.find("fn " + function + "(") != std::string::npos) return module.name;
  return {};
}

}  // namespace

// ---- names --------------------------------------------------------------------------------------
const Local* Inference::find_local(const std::string& name) const {
  for (auto local = frame_->locals.rbegin(); local != frame_->locals.rend(); ++local)
    if (local->name == name) return &*local;
  return nullptr;
}

const Named* Inference::find_named(const std::string& name) const {
  if (frame_->function && frame_->function->home != Function::Home::kernel) return nullptr;
  auto found = names_.find(name);
  return found == names_.end() ? nullptr : &found->second;
}

const Function* Inference::find_function(const std::string& name) const {
  auto in = [&](const FunctionTable& table) -> const Function* {
    auto found = table.find(name);
    return found == table.end() ? nullptr : found->second;
  };
  const Function* caller = frame_->function;
  if (caller && caller->home == Function::Home::library) return in(*caller->own);
  if (!caller || caller->home == Function::Home::kernel)
    if (const Function* found = in(kernel_functions_)) return found;
  if (const Function* found = in(module_functions_)) return found;
  return in(imported_);
}

void Inference::unknown(const std::string& name, Span span, Entity wanted) {
  const bool sees_kernel = !frame_->function || frame_->function->home == Function::Home::kernel;
  std::vector<std::string> candidates;
  std::string what = "name";
  auto add_named = [&](std::initializer_list<Entity> entities) {
    if (!sees_kernel) return;
    for (const auto& [text, named] : names_)
      for (Entity entity : entities)
        if (named.entity == entity) candidates.push_back(text);
  };
  auto add_functions = [&](const FunctionTable& table) {
    std::set<std::string> sorted;
    for (const auto& [text, function] : table) sorted.insert(text);
    candidates.insert(candidates.end(), sorted.begin(), sorted.end());
  };
  if (wanted == Entity::function) {
    what = "function";
    if (sees_kernel) add_functions(kernel_functions_);
    if (frame_->function && frame_->function->home == Function::Home::library) {
      add_functions(*frame_->function->own);
    } else {
      add_functions(module_functions_);
      add_functions(imported_);
    }
    for (std::string_view word : ast::function_words) candidates.emplace_back(word);
    for (DType dtype : all_dtypes) candidates.emplace_back(attune::name(dtype));
  } else if (wanted == Entity::tensor) {
    what = "tensor or definition";
    add_named({Entity::tensor, Entity::definition});
  } else {
    for (const Local& local : frame_->locals) candidates.push_back(local.name);
    add_named({Entity::dim, Entity::scalar});
  }

  Diagnostic& d = error("A0201", span, "unknown " + what + " `" + name + "`");
  std::string near = did_you_mean(name, candidates);
  // A lower-case name that only the case tells from a dim is an index that nothing binds.
  if (auto found = names_.find(near); wanted == Entity::dim && found != names_.end() &&
                                      found->second.entity == Entity::dim && same_but_for_case(name, near)) {
    d.help = "no index `" + name + "` is bound here: bind it on the left or in a reduction's brackets, such as `sum[" +
             name + "](...)`; the dim is `" + near + "`";
    return;
  }
  if (!near.empty()) {
    d.help = "did you mean `" + near + "`?";
    suggested_.insert(near);
    if (const Local* local = wanted == Entity::dim ? find_local(near) : nullptr; local && local->index)
      unclear(Value{index(local->index), 1, 0, false});
  } else if (wanted == Entity::function) {
    static const std::pair<const char*, const char*> casts[] = {
        {"float", "f32"}, {"double", "f32"}, {"half", "f16"}, {"int", "i32"}, {"long", "i64"}};
    for (const auto& [foreign, ours] : casts)
      if (name == foreign) {
        d.help = "a cast is written `" + std::string(ours) + "(...)`";
        return;
      }
    const std::string module = module_of(name, library_);
    d.help = module.empty() ? "declare it with `fn " + name + "(...) = ...`" : "write `use std." + module + "` first";
  } else if (wanted == Entity::tensor) {
    d.help = "tensors are parameters of the kernel or definitions in it";
    unknown_tensor_ = true;
  } else {
    d.help = "an index is bound on the left or in a reduction's brackets, a dim by a tensor's extents";
  }
  if (!sees_kernel && names_.contains(name))
    d.notes = {"functions outside a kernel see only their parameters and each other: pass `" + name +
               "` as an argument"};
  for (const Frame* frame = frame_->caller; frame && frame_->function; frame = frame->caller)
    for (const Local& local : frame->locals)
      if (local.name == name) {
        if (local.index) unclear(Value{index(local.index), 1, 0, false});
        d.notes = {"a function does not see its caller's indices: pass `" + name + "` as an argument"};
        return;
      }
}

// ---- findings -----------------------------------------------------------------------------------
Diagnostic& Inference::add(Severity severity, const char* code, Span span, std::string message, std::string span_text,
                           std::string help) {
  constexpr std::size_t most = 200;  // nobody reads more
  span = at(span);
  if (severity == Severity::error) ++errors_;
  const std::string key = std::string(code) + ":" + std::to_string(span.begin) + ":" + std::to_string(span.end) +
                          (span.end == 0 ? message : std::string());
  const bool fresh = said_.size() < most && said_.try_emplace(key, diagnostics_.size()).second;
  Diagnostic& d = fresh ? diagnostics_.emplace_back() : surplus_;
  d = Diagnostic{};
  d.severity = severity;
  d.code = code;
  d.message = std::move(message);
  d.source = module_.source;
  d.span = span;
  d.span_text = std::move(span_text);
  d.help = std::move(help);
  if (frame_ && frame_->function && !(frame_->call == Span{})) {
    if (frame_->pinned)
      d.notes.push_back("in `" + frame_->function->decl->name + "` of " + frame_->function->origin);
    else
      d.labels.push_back({frame_->call, "`" + frame_->function->decl->name + "` is called here"});
  }
  return d;
}

Diagnostic& Inference::error(const char* code, Span span, std::string message, std::string span_text,
                             std::string help) {
  return add(Severity::error, code, span, std::move(message), std::move(span_text), std::move(help));
}

Diagnostic& Inference::warning(const char* code, Span span, std::string message, std::string span_text,
                               std::string help) {
  return add(Severity::warning, code, span, std::move(message), std::move(span_text), std::move(help));
}

}  // namespace attune::tensor::inference
