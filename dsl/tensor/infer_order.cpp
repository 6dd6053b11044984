// SPDX-License-Identifier: Apache-2.0
// Inference: the order of definitions by dependence, cycles and recursion, and what the results reach.
#include <algorithm>
#include <functional>

#include "tensor/infer.hpp"

namespace attune::tensor::inference {

void Inference::references(const ast::Expr& expr, References& out, int level) {
  if (!expr) return;
  if (level > max_levels) {
    out.too_deep = true;
    return;
  }
  if (const auto* name = std::get_if<ast::Name>(&expr->kind)) out.names.push_back(name->name);
  if (const auto* access = std::get_if<ast::Subscript>(&expr->kind))
    out.subscripts.emplace_back(access->name, access->name_span == Span{} ? expr->span : access->name_span);
  if (const auto* call = std::get_if<ast::Call>(&expr->kind))
    out.calls.emplace_back(call->name, call->name_span == Span{} ? expr->span : call->name_span);
  std::visit(
      [&](const auto& kind) {
        for_each_child<ast::Expr>(kind, [&](const ast::Expr& child) { references(child, out, level + 1); });
      },
      expr->kind);
}

namespace {

/// A definition or function as a node of the graph of names.
struct Vertex {
  std::string name;
  Span span;
  Item* item = nullptr;
  Function* function = nullptr;
  std::vector<std::pair<std::size_t, Span>> edges;
  enum class State : std::uint8_t { fresh, open, done } state = State::fresh;
};

}  // namespace

void Inference::order() {
  std::vector<Vertex> graph;
  std::unordered_map<std::string, std::size_t> definitions;
  std::unordered_map<const Function*, std::size_t> functions;
  for (Item& item : items_) {
    definitions.try_emplace(item.decl->name, graph.size());
    graph.push_back({item.decl->name, item.decl->name_span, &item, nullptr, {}, {}});
  }
  for (Function& function : functions_) {
    if (function.home == Function::Home::library) continue;
    functions[&function] = graph.size();
    graph.push_back({function.decl->name, function.decl->name_span, nullptr, &function, {}, {}});
  }
  for (Vertex& vertex : graph) {
    References found;
    Frame frame;
    frame.function = vertex.function;
    frame_ = &frame;
    if (vertex.item) {
      references(vertex.item->decl->body, found);
      for (const ast::Index& index : vertex.item->decl->indices) {
        references(index.lo, found);
        references(index.hi, found);
      }
    } else {
      references(vertex.function->decl->body, found);
    }
    if (found.too_deep) {
      error("A0227", vertex.span, "`" + vertex.name + "` nests too deeply", "", "make a definition of an inner part");
      (vertex.item ? vertex.item->cyclic : vertex.function->cyclic) = true;
    }
    if (!vertex.function || vertex.function->home == Function::Home::kernel)
      for (const auto& [name, span] : found.subscripts)
        if (auto at = definitions.find(name); at != definitions.end()) vertex.edges.emplace_back(at->second, span);
    for (const auto& [name, span] : found.calls)
      if (const Function* function = find_function(name))
        if (auto at = functions.find(function); at != functions.end()) vertex.edges.emplace_back(at->second, span);
    frame_ = nullptr;
  }

  struct Step {
    std::size_t vertex;
    std::size_t edge = 0;
  };
  auto cycle = [&](const std::vector<Step>& path, std::size_t start) {
    std::size_t from = 0;
    while (path[from].vertex != start) ++from;
    std::string text;
    bool all_functions = true, reported = false;
    for (std::size_t k = from; k < path.size(); ++k) {
      Vertex& vertex = graph[path[k].vertex];
      bool& cyclic = vertex.item ? vertex.item->cyclic : vertex.function->cyclic;
      reported = reported || cyclic;
      cyclic = true;
      all_functions = all_functions && vertex.function;
      text += vertex.name + " -> ";
    }
    if (reported) return;
    const Vertex& first = graph[start];
    text += first.name;
    const bool alone = path.size() - from == 1;
    Diagnostic& d =
        error("A0209", first.span,
              alone ? "`" + first.name + "` " + (first.function ? "calls" : "reads") + " itself"
                    : std::string(all_functions ? "functions call each other" : "names depend on each other") +
                          " in a circle: " + text,
              "", all_functions ? "recursion is not possible; write the steps out" : "break the circle");
    for (std::size_t k = from; k < path.size(); ++k) {
      const auto& [to, span] = graph[path[k].vertex].edges[path[k].edge];
      if (!(span == Span{})) d.labels.push_back({span, "`" + graph[to].name + "` is used here"});
    }
  };
  for (std::size_t root = 0; root < graph.size(); ++root) {
    if (graph[root].state != Vertex::State::fresh) continue;
    std::vector<Step> path{{root}};
    graph[root].state = Vertex::State::open;
    while (!path.empty()) {
      Step& step = path.back();
      Vertex& vertex = graph[step.vertex];
      if (step.edge == vertex.edges.size()) {
        vertex.state = Vertex::State::done;
        if (vertex.item) ordered_.push_back(vertex.item);
        path.pop_back();
        if (!path.empty()) ++path.back().edge;
        continue;
      }
      const std::size_t next = vertex.edges[step.edge].first;
      if (graph[next].state == Vertex::State::open) cycle(path, next);
      if (graph[next].state == Vertex::State::fresh) {
        graph[next].state = Vertex::State::open;
        path.push_back({next});
      } else {
        ++step.edge;
      }
    }
  }
}

// ---- what results reach -----------------------------------------------------------------------------
namespace {

void reach(const Expr& expr, std::unordered_set<Sym>& found) {
  walk(expr, [&](const Expr& at) {
    if (const auto* kind = get_if<Access>(at)) found.insert(kind->target);
    if (const auto* kind = get_if<Scalar>(at)) found.insert(kind->scalar);
    return true;
  });
}

}  // namespace

void Inference::prune() {
  std::unordered_set<Sym> reached;
  for (const Tensor& result : program_.results) reached.insert(result.sym);
  std::set<const Function*> called = collected_->called;  // by default values
  // Definitions stand in dependence order, so one pass backwards sees every reader before what it reads.
  std::vector<Item*> kept;
  for (auto at = ordered_.rbegin(); at != ordered_.rend(); ++at) {
    Item& item = **at;
    if (!reached.contains(item.made.sym)) {
      warning("A0224", item.decl->name_span, "definition `" + item.decl->name + "` reaches no result", "it is left out",
              "remove it, or use it in a result");
      continue;
    }
    kept.push_back(&item);
    called.insert(item.called.begin(), item.called.end());
    reach(item.made.body, reached);
    for (const IndexRange& range : item.made.indices) reach(range.hi, reached);
  }
  std::reverse(kept.begin(), kept.end());
  ordered_ = std::move(kept);
  for (auto scalar = program_.scalars.rbegin(); scalar != program_.scalars.rend(); ++scalar)
    if (reached.contains(scalar->sym)) reach(scalar->default_value, reached);

  for (const ast::Param& param : kernel_->params) {
    const auto [name, span] = std::visit([](const auto& decl) { return std::pair(decl.name, decl.name_span); }, param);
    if (reached.contains(names_.at(name).sym)) continue;
    error("A0223", span, "parameter `" + name + "` reaches no result", "nothing that is computed uses it",
          "remove it, or use it");
  }
  // A module's functions may serve its other kernels.
  std::set<std::string> elsewhere;
  for (const ast::Declaration& declaration : module_.declarations)
    if (const auto* kernel = std::get_if<ast::Kernel>(&declaration); kernel && kernel != kernel_) {
      References found;
      for (const ast::Item& item : kernel->items)
        references(std::visit([](const auto& decl) { return decl.body; }, item), found);
      for (const auto& param : kernel->params)
        if (const auto* scalar = std::get_if<ast::ScalarDecl>(&param)) references(scalar->default_value, found);
      for (const auto& [name, unused] : found.calls) elsewhere.insert(name);
    }
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& [name, function] : module_functions_) {
      if (!elsewhere.contains(name)) continue;
      References found;
      references(function->decl->body, found);
      for (const auto& [callee, unused] : found.calls) grew = elsewhere.insert(callee).second || grew;
    }
  }
  for (const Function& function : functions_) {
    if (function.home == Function::Home::library || called.contains(&function)) continue;
    if (function.home == Function::Home::module && elsewhere.contains(function.decl->name)) continue;
    warning("A0225", function.decl->name_span, "function `" + function.decl->name + "` reaches no result",
            "nothing that is computed calls it", "remove it, or call it");
  }
}

void Inference::prune_by_name() {
  // Beside other errors only what no name mentions is certainly unused.
  std::set<std::string> mentioned;
  auto add = [&](const ast::Expr& e) {
    References found;
    references(e, found);
    mentioned.insert(found.names.begin(), found.names.end());
    for (const auto& [name, span] : found.subscripts) mentioned.insert(name);
    for (const auto& [name, span] : found.calls) mentioned.insert(name);
  };
  for (const ast::Item& item : kernel_->items) {
    add(std::visit([](const auto& decl) { return decl.body; }, item));
    if (const auto* definition = std::get_if<ast::Definition>(&item))
      for (const ast::Index& index : definition->indices) {
        add(index.lo);
        add(index.hi);
      }
  }
  for (const ast::Param& param : kernel_->params)
    if (const auto* scalar = std::get_if<ast::ScalarDecl>(&param)) add(scalar->default_value);
  for (const ast::Param& param : kernel_->params) {
    const auto [name, span] = std::visit([](const auto& decl) { return std::pair(decl.name, decl.name_span); }, param);
    // An unknown tensor may be meant to be any that nothing else uses.
    const bool is_tensor = std::holds_alternative<ast::TensorDecl>(param);
    if (!mentioned.contains(name) && !suggested_.contains(name) && !(is_tensor && unknown_tensor_))
      error("A0223", span, "parameter `" + name + "` reaches no result", "nothing that is computed uses it",
            "remove it, or use it");
  }
}

}  // namespace attune::tensor::inference
