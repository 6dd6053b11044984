// SPDX-License-Identifier: Apache-2.0
// program(): collects what the results need, checks it and makes the AST in the order of making.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>

#include "builder/node.hpp"
#include "syntax/syntax.hpp"

namespace attune {
namespace build {
namespace {

std::string what(const Declaration& declaration) {
  switch (declaration.kind) {
    case DeclarationKind::tensor: return "tensor";
    case DeclarationKind::scalar: return "scalar";
    case DeclarationKind::definition: return "definition";
    case DeclarationKind::function: return "function";
    case DeclarationKind::module: return "module";
  }
  return "declaration";
}

/// Pre-order over a graph from left to right, each node once, without recursion; visit(node) may say false to stop.
template <class Visit>
void walk(const NodeRef& root, std::unordered_set<const Node*>& seen, Visit&& visit) {
  std::vector<const Node*> stack{root.get()};
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (!node || !seen.insert(node).second) continue;
    if (!visit(*node)) return;
    for (auto child = node->children.rbegin(); child != node->children.rend(); ++child) stack.push_back(child->get());
    for (auto index = node->indices.rbegin(); index != node->indices.rend(); ++index) {
      stack.push_back(index->hi.get());
      stack.push_back(index->lo.get());
    }
  }
}

/// The expressions that a declaration holds, in the order of the text.
std::vector<NodeRef> expressions_of(const Declaration& declaration) {
  std::vector<NodeRef> result = declaration.extents;
  for (const IndexNode& index : declaration.indices) {
    result.push_back(index.lo);
    result.push_back(index.hi);
  }
  result.push_back(declaration.body);
  return result;
}

template <class Visit>
void walk_declaration(const Declaration& declaration, Visit&& visit) {
  std::unordered_set<const Node*> seen;
  for (const NodeRef& expression : expressions_of(declaration))
    walk(expression, seen, [&](const Node& node) {
      visit(node);
      return true;
    });
}

class Assembly {
 public:
  Assembly(const std::string& name, const std::vector<Parameter>& parameters, const std::vector<Tensor>& results)
      : name_(name), parameters_(parameters), results_(results) {}

  Result<Program> run() {
    check_lists();
    collect();
    check_declarations();
    name_parameters();
    ast::Module module = assemble();
    if (!errors_.empty()) return std::move(errors_);
    return read_back(module);
  }

 private:
  /// Each finding once, however many declarations share it.
  void report(const Finding& finding, const Declaration* context = nullptr) {
    if (!reported_.insert(finding.message).second) return;
    Diagnostic diagnostic;
    diagnostic.code = finding.code;
    diagnostic.message = finding.message;
    diagnostic.help = finding.help;
    if (context && !context->name.empty())
      diagnostic.notes.push_back("in " + what(*context) + " `" + context->name + "`");
    errors_.push_back(std::move(diagnostic));
  }

  // ---- what there is ----------------------------------------------------------------------------
  void check_lists() {
    if (auto finding = check_name("kernel", name_)) report(std::move(*finding));
    for (const Parameter& parameter : parameters_) {
      const DeclarationRef& declaration = parameter.declaration();
      if (!declaration) {
        report({"A0703", "an empty tensor stands in the list of parameters", ""});
      } else if (declaration->kind == DeclarationKind::definition) {
        report({"A0704", "definition `" + declaration->name + "` stands in the list of parameters",
                "parameters are made by Tensor{...} and Scalar{...}, definitions are found by themselves"});
      } else {
        reach(declaration);
        if (!listed_.insert(declaration.get()).second)
          report({"A0705", what(*declaration) + " `" + declaration->name + "` stands twice in the list of parameters",
                  ""});
      }
    }
    if (results_.empty()) report({"A0706", "program `" + name_ + "` has no result", "list at least one definition"});
    std::set<const Declaration*> listed;
    for (const Tensor& result : results_) {
      const DeclarationRef& declaration = result.declaration();
      if (!declaration) {
        report({"A0703", "an empty tensor stands in the list of results", ""});
        continue;
      }
      reach(declaration);
      if (!listed.insert(declaration.get()).second)
        report({"A0705", "`" + declaration->name + "` stands twice in the list of results", ""});
      if (declaration->kind != DeclarationKind::definition)
        report({"A0706", "result `" + declaration->name + "` is a parameter, not a definition",
                "define(\"O\", ...) makes results"});
      else if (!declaration->type)
        report({"A0706", "result `" + declaration->name + "` has no type",
                "give it as the last argument: define(\"" + declaration->name + "\", ..., f32)"});
    }
  }

  void reach(const DeclarationRef& declaration) {
    if (declaration && reached_.emplace(declaration->sequence, declaration).second) pending_.push_back(declaration);
  }

  /// Everything that the parameters and results refer to, and what is wrong within.
  void collect() {
    while (!pending_.empty()) {
      const DeclarationRef declaration = std::move(pending_.back());
      pending_.pop_back();
      for (const Finding& finding : declaration->findings) report(finding);
      std::unordered_set<std::uint64_t> own;
      for (const NodeRef& parameter : declaration->parameters) own.insert(parameter->integer);
      walk_declaration(*declaration, [&](const Node& node) {
        if (node.kind == NodeKind::error) report(node.finding, declaration.get());
        if (node.kind == NodeKind::parameter && !own.contains(node.integer))
          report({"A0709", "a parameter of one function is used outside of it",
                  "pass it as an argument; functions see parameters, dims and definitions of the kernel only"},
                 declaration.get());
        if (node.declaration) reach(node.declaration);
      });
    }
  }

  void check_declarations() {
    std::map<std::string, const Declaration*> by_name;
    for (const auto& [sequence, declaration] : reached_) {
      const Declaration& it = *declaration;
      if (it.kind == DeclarationKind::module) continue;
      const bool is_parameter = it.kind == DeclarationKind::tensor || it.kind == DeclarationKind::scalar;
      auto [at, is_new] = by_name.emplace(it.name, &it);
      if (!is_new && !same_parameter(*at->second, it)) {
        report({"A0705", what(*at->second) + " and " + what(it) + " are both called `" + it.name + "`",
                "give each its own name"});
      } else if (is_parameter && is_new && std::none_of(listed_.begin(), listed_.end(), [&](const Declaration* listed) {
                   return listed == &it || same_parameter(*listed, it);
                 })) {
        report({"A0704", what(it) + " `" + it.name + "` is used but is not in the list of parameters",
                "add it: program(\"" + name_ + "\", {..., " + it.name + "}, ...)"});
      }
    }
  }

  /// Two handles that declare one parameter alike are one parameter.
  static bool same_parameter(const Declaration& a, const Declaration& b) {
    if (a.kind != b.kind || (a.kind != DeclarationKind::tensor && a.kind != DeclarationKind::scalar)) return false;
    AstMaker maker;
    return a.name == b.name && a.type->name() == b.type->name() && a.is_const == b.is_const &&
           a.extents.size() == b.extents.size() &&
           std::equal(a.extents.begin(), a.extents.end(), b.extents.begin(),
                      [&](const NodeRef& x, const NodeRef& y) { return maker.expr(x) == maker.expr(y); }) &&
           maker.expr(a.body) == maker.expr(b.body);
  }

  // ---- names of function parameters -------------------------------------------------------------
  void name_parameters() {
    std::set<std::string> taken;
    auto take = [&](const Node& node, std::set<std::string>& names) {
      if (!node.text.empty()) names.insert(node.text);
      if (node.declaration) names.insert(node.declaration->name);
      if (node.type) names.insert(node.type->name());
      for (const IndexNode& index : node.indices) names.insert(index.name);
    };
    for (const auto& [sequence, declaration] : reached_) {
      taken.insert(declaration->name);
      for (const IndexNode& index : declaration->indices) taken.insert(index.name);
      for (const std::string& given : declaration->parameter_names) taken.insert(given);
      walk_declaration(*declaration, [&](const Node& node) { take(node, taken); });
    }
    // The index that the first call passes gives the name where the body does not use it otherwise.
    std::map<const Declaration*, std::set<std::string>> inside;
    auto suggest = [&](const Declaration& function, std::size_t position, const std::string& name) {
      const std::uint64_t parameter = function.parameters[position]->integer;
      if (name.empty() || parameter_names_.contains(parameter)) return;
      auto [names, is_new] = inside.try_emplace(&function);
      if (is_new) walk_declaration(function, [&, &names = names](const Node& node) { take(node, names->second); });
      if (names->second.insert(name).second) parameter_names_.emplace(parameter, name);
    };
    for (const auto& [sequence, declaration] : reached_)
      for (std::size_t k = 0; k < declaration->parameter_names.size() && k < declaration->parameters.size(); ++k)
        parameter_names_.emplace(declaration->parameters[k]->integer, declaration->parameter_names[k]);
    for (const auto& [sequence, declaration] : reached_)
      walk_declaration(*declaration, [&](const Node& node) {
        if (node.kind != NodeKind::call_function) return;
        for (std::size_t k = 0; k < node.children.size(); ++k)
          if (node.children[k]->kind == NodeKind::index) suggest(*node.declaration, k, node.children[k]->text);
      });
    for (const auto& [sequence, declaration] : reached_) {
      std::size_t next = 0;
      for (const NodeRef& parameter : declaration->parameters) {
        if (parameter_names_.contains(parameter->integer)) continue;
        std::string name;
        do {
          name = std::string(1, "xyzuvw"[next % 6]) + (next < 6 ? "" : std::to_string(next / 6));
          ++next;
        } while (taken.contains(name));
        parameter_names_.emplace(parameter->integer, name);
      }
    }
  }

  // ---- extents of results -----------------------------------------------------------------------
  /// The extent of one axis: of a tensor as declared, of a definition from its index. Null where nothing gives it.
  static NodeRef extent(const Declaration* declaration, std::size_t axis) {
    std::set<std::pair<const Declaration*, std::size_t>> visited;
    while (declaration && visited.emplace(declaration, axis).second) {
      if (declaration->kind == DeclarationKind::tensor || declaration->extents_given)
        return axis < declaration->extents.size() ? declaration->extents[axis] : nullptr;
      const IndexNode& index = declaration->indices[axis];
      if (index.hi) return index.hi;
      std::tie(declaration, axis) = first_subscript(declaration->body, index.name);
    }
    return nullptr;
  }

  /// The first axis that the index subscripts alone, also as an argument within a function.
  static std::pair<const Declaration*, std::size_t> first_subscript(const NodeRef& body, const std::string& index) {
    struct Target {
      NodeRef body;
      const Node* parameter;  ///< null: the index itself
    };
    std::vector<Target> targets{{body, nullptr}};
    std::set<const Node*> entered;
    std::pair<const Declaration*, std::size_t> found{nullptr, 0};
    while (!targets.empty() && !found.first) {
      const Target target = targets.front();
      targets.erase(targets.begin());
      auto is_target = [&](const Node& node) {
        return target.parameter ? &node == target.parameter : node.kind == NodeKind::index && node.text == index;
      };
      std::unordered_set<const Node*> seen;
      walk(target.body, seen, [&](const Node& node) {
        for (std::size_t k = 0; k < node.children.size(); ++k) {
          if (!node.children[k] || !is_target(*node.children[k])) continue;
          if (node.kind == NodeKind::access) {
            found = {node.declaration.get(), k};
            return false;
          }
          if (node.kind == NodeKind::call_function) {
            const NodeRef& parameter = node.declaration->parameters[k];
            if (entered.insert(parameter.get()).second) targets.push_back({node.declaration->body, parameter.get()});
          }
        }
        return true;
      });
    }
    return found;
  }

  // ---- the AST ----------------------------------------------------------------------------------
  ast::Module assemble() {
    if (!errors_.empty()) return {};
    AstMaker maker(parameter_names_);
    std::vector<std::string> type_variables;
    auto use_type = [&](const std::optional<ElementType>& type) {
      if (type && type->is_variable() &&
          std::find(type_variables.begin(), type_variables.end(), type->name()) == type_variables.end())
        type_variables.push_back(type->name());
    };
    ast::Kernel kernel;
    kernel.name = name_;
    for (const Parameter& parameter : parameters_) {
      const Declaration& it = *parameter.declaration();
      use_type(it.type);
      if (it.kind == DeclarationKind::scalar) {
        ast::ScalarDecl scalar;
        scalar.name = it.name;
        scalar.type.text = it.type->name();
        scalar.is_const = it.is_const;
        scalar.default_value = maker.expr(it.body);
        kernel.params.emplace_back(std::move(scalar));
      } else {
        kernel.params.emplace_back(tensor(it, it.extents, maker));
      }
    }
    for (const Tensor& result : results_) {
      const Declaration& it = *result.declaration();
      use_type(it.type);
      std::vector<NodeRef> extents;
      for (std::size_t axis = 0; axis < it.indices.size(); ++axis) {
        extents.push_back(extent(&it, axis));
        if (!extents.back())
          report({"A0706", "the extent of result `" + it.name + "` along `" + it.indices[axis].name + "` is not known",
                  "no subscript is `" + it.indices[axis].name + "` alone; give a range, `" + it.indices[axis].name +
                      ".in(0, N)`, or all extents as the last argument of define()"});
      }
      if (errors_.empty()) kernel.results.push_back(tensor(it, extents, maker));
    }
    ast::Module module;
    std::set<std::string> used;
    for (const auto& [sequence, declaration] : reached_) {
      const Declaration& it = *declaration;
      if (it.kind == DeclarationKind::module && used.insert(it.name).second) {
        ast::Use use;
        for (std::size_t begin = 0; begin <= it.name.size();) {
          const std::size_t end = std::min(it.name.find('.', begin), it.name.size());
          use.path.push_back(it.name.substr(begin, end - begin));
          begin = end + 1;
        }
        module.declarations.emplace_back(std::move(use));
      } else if (it.kind == DeclarationKind::function) {
        ast::FunctionDecl function;
        function.name = it.name;
        for (const NodeRef& parameter : it.parameters) function.parameters.push_back(maker.parameter_name(*parameter));
        function.body = maker.expr(it.body);
        kernel.items.emplace_back(std::move(function));
      } else if (it.kind == DeclarationKind::definition) {
        ast::Definition definition;
        definition.name = it.name;
        for (const IndexNode& index : it.indices) definition.indices.push_back(maker.index(index));
        definition.body = maker.expr(it.body);
        kernel.items.emplace_back(std::move(definition));
      }
      walk_declaration(it, [&](const Node& node) { use_type(node.type); });
    }
    kernel.type_variables = std::move(type_variables);
    module.declarations.emplace_back(std::move(kernel));
    return module;
  }

  static ast::TensorDecl tensor(const Declaration& declaration, const std::vector<NodeRef>& extents, AstMaker& maker) {
    ast::TensorDecl tensor;
    tensor.name = declaration.name;
    tensor.type.text = declaration.type->name();
    for (const NodeRef& extent : extents) tensor.extents.push_back(maker.expr(extent));
    return tensor;
  }

  /// The program is read from its own text, so that it keeps the limits of texts and later stages can point at places.
  Result<Program> read_back(const ast::Module& module) {
    Result<Program> program = Program::parse(print(module), "<" + name_ + ">");
    if (program && !(program->module() == module)) {
      Diagnostic diagnostic;
      diagnostic.code = "A0711";
      diagnostic.message = "program `" + name_ + "` reads differently from how it was built";
      diagnostic.notes.push_back("its text is\n" + program->text());
      diagnostic.help = "a name in it also means something else there; rename it";
      return diagnostic;
    }
    return program;
  }

  const std::string& name_;
  const std::vector<Parameter>& parameters_;
  const std::vector<Tensor>& results_;
  Diagnostics errors_;
  std::set<std::string> reported_;
  std::set<const Declaration*> listed_;
  std::map<std::uint64_t, DeclarationRef> reached_;  ///< in the order of making
  std::vector<DeclarationRef> pending_;
  std::unordered_map<std::uint64_t, std::string> parameter_names_;
};

}  // namespace
}  // namespace build

Result<Program> try_program(const std::string& name, const std::vector<Parameter>& parameters,
                            const std::vector<Tensor>& results) {
  return build::Assembly(name, parameters, results).run();
}

Program program(const std::string& name, const std::vector<Parameter>& parameters, const std::vector<Tensor>& results) {
  return std::move(try_program(name, parameters, results)).value();
}

}  // namespace attune
