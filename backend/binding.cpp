// SPDX-License-Identifier: Apache-2.0
// A call against a program: names, dtypes, extents, dims, scalars, aliasing. Every independent error is reported.
#include "backend/binding.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <set>

#include "backend/constant.hpp"
#include "backend/overlap.hpp"
#include "backend/problem.hpp"

namespace attune {
namespace {

using namespace tensor;
using GivenValue = decltype(Argument::value);

constexpr std::int64_t extent_limit = std::int64_t{1} << 31;

std::string_view kind_of(const GivenValue& value) {
  if (std::holds_alternative<TensorRef>(value)) return "a tensor";
  if (std::holds_alternative<double>(value)) return "a float";
  return std::holds_alternative<bool>(value) ? "a bool" : "an integer";
}

std::string counted(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// An extent as the header writes it, for messages.
std::string text_of(const Expr& expr) {
  if (const auto* node = get_if<Dim>(expr)) return node->dim.text();
  if (const auto* node = get_if<tensor::Scalar>(expr)) return node->scalar.text();
  return print(expr);
}

/// `dim * scale + offset` with literals, the forms that fix a dim.
struct Linear {
  Sym dim;
  std::int64_t scale = 1, offset = 0;
};
std::optional<Linear> linear_of(const Expr& expr) {
  if (const auto* node = get_if<Dim>(expr)) return Linear{node->dim};
  const auto* chain = get_if<Chain>(expr);
  if (!chain || chain->args.size() != 2) return std::nullopt;
  const auto literal = [](const Expr& arg) -> std::optional<std::int64_t> {
    const auto* node = get_if<Literal>(arg);
    if (!node || !std::holds_alternative<std::int64_t>(node->value)) return std::nullopt;
    const auto value = std::get<std::int64_t>(node->value);
    if (value <= -extent_limit || value >= extent_limit) return std::nullopt;  // keeps the arithmetic below exact
    return value;
  };
  const LinkOp op = chain->links[0];
  const auto* first = get_if<Dim>(chain->args[0]);
  const auto* second = get_if<Dim>(chain->args[1]);
  if (first) {
    const auto value = literal(chain->args[1]);
    if (!value) return std::nullopt;
    if (op == LinkOp::mul && *value != 0) return Linear{first->dim, *value, 0};
    if (op == LinkOp::add) return Linear{first->dim, 1, *value};
    if (op == LinkOp::sub) return Linear{first->dim, 1, -*value};
  } else if (second) {
    const auto value = literal(chain->args[0]);
    if (!value) return std::nullopt;
    if (op == LinkOp::mul && *value != 0) return Linear{second->dim, *value, 0};
    if (op == LinkOp::add) return Linear{second->dim, 1, *value};
  }
  return std::nullopt;
}

class Binder {
 public:
  Binder(const Program& program, const Arguments& arguments, bool need_results)
      : program_(program), arguments_(arguments), need_results_(need_results) {}

  Result<Binding> operator()() {
    read_names();
    for (const Tensor& tensor : program_.tensors) check_tensor(tensor, true);
    for (const Tensor& tensor : program_.results) check_tensor(tensor, need_results_);
    solve_dims();
    for (const ScalarParam& scalar : program_.scalars) bind_scalar(scalar);
    check_extents();
    check_divisors();
    check_quotients();
    check_ranges();
    check_aliasing();
    if (!errors_.empty()) return errors_;
    return std::move(binding_);
  }

 private:
  Constants constants() const { return {&binding_.dims, &binding_.scalars}; }
  void report(Diagnostic diagnostic) { errors_.push_back(std::move(diagnostic)); }
  void report_at(Diagnostic diagnostic, Span span) {
    if (span.end != 0) {
      diagnostic.source = program_.source;
      diagnostic.span = span;
    }
    report(std::move(diagnostic));
  }

  void read_names() {
    std::vector<std::string> known;
    for (const Tensor& tensor : program_.tensors) known.push_back(tensor.sym.text());
    for (const ScalarParam& scalar : program_.scalars) known.push_back(scalar.sym.text());
    for (const Tensor& result : program_.results) known.push_back(result.sym.text());
    for (const Sym& dim : program_.dims) known.push_back(dim.text());
    const std::set<std::string> names(known.begin(), known.end());
    std::set<std::string> repeated;
    for (const Argument& argument : arguments_) {
      if (!names.count(argument.name)) {
        Diagnostic diagnostic =
            problem("A0502", fmt::format("`{}` has no parameter, result or dim `{}`", program_.name, argument.name));
        diagnostic.tensor = argument.name;
        // A name that is missing too is the likelier one.
        std::vector<std::string> missing;
        for (const std::string& name : known)
          if (!is_given(name)) missing.push_back(name);
        std::string nearest = did_you_mean(argument.name, missing);
        if (nearest.empty()) nearest = did_you_mean(argument.name, known);
        diagnostic.help = nearest.empty() ? fmt::format("it has {}", fmt::join(known, ", "))
                                          : fmt::format("did you mean `{}`?", nearest);
        if (!nearest.empty()) suggested_.insert(nearest);
        report(std::move(diagnostic));
      } else if (!given_.emplace(argument.name, &argument.value).second && repeated.insert(argument.name).second) {
        Diagnostic diagnostic = problem("A0503", fmt::format("`{}` is given more than once", argument.name));
        diagnostic.tensor = argument.name;
        report(std::move(diagnostic));
      }
    }
  }

  bool is_given(const std::string& name) const {
    for (const Argument& argument : arguments_)
      if (argument.name == name) return true;
    return false;
  }
  const GivenValue* given(const Sym& sym) const {
    const auto found = given_.find(sym.text());
    return found == given_.end() ? nullptr : found->second;
  }

  std::string shape_text(const Tensor& tensor) const {
    std::vector<std::string> extents;
    for (const Expr& extent : tensor.extents) extents.push_back(text_of(extent));
    return fmt::format("[{}]", fmt::join(extents, ", "));
  }

  /// Kind, view, dtype and rank. What passes is in binding_.tensors.
  void check_tensor(const Tensor& tensor, bool needed) {
    const std::string& name = tensor.sym.text();
    const std::string declared = fmt::format("{}{}", attune::name(tensor.type.dtype), shape_text(tensor));
    const GivenValue* value = given(tensor.sym);
    if (!value) {
      if (!needed) return;
      Diagnostic diagnostic = problem("A0501", fmt::format("`{}` is missing", name), tensor.sym);
      diagnostic.expected = declared;
      diagnostic.found = "nothing";
      return report(std::move(diagnostic));
    }
    const auto* view = std::get_if<TensorRef>(value);
    if (!view) {
      Diagnostic diagnostic =
          problem("A0504", fmt::format("`{}` is a tensor, {} was given", name, kind_of(*value)), tensor.sym);
      diagnostic.expected = declared;
      diagnostic.found = kind_of(*value);
      return report(std::move(diagnostic));
    }
    bool sound = true;
    if (view->strides.size() != view->shape.size()) {
      Diagnostic diagnostic = problem("A0519",
                                      fmt::format("`{}` has {} but {}", name, counted(view->shape.size(), "extent"),
                                                  counted(view->strides.size(), "stride")),
                                      tensor.sym);
      diagnostic.expected = counted(view->shape.size(), "stride");
      diagnostic.found = counted(view->strides.size(), "stride");
      report(std::move(diagnostic));
      sound = false;
    }
    bool empty = false;
    for (std::size_t axis = 0; axis < view->shape.size(); ++axis) {
      empty = empty || view->shape[axis] == 0;
      if (view->shape[axis] >= 0 && view->shape[axis] < extent_limit) continue;
      Diagnostic diagnostic =
          problem("A0510", fmt::format("axis {} of `{}` has extent {}", axis, name, view->shape[axis]), tensor.sym);
      diagnostic.axis = std::to_string(axis);
      diagnostic.expected = "an extent in 0 .. 2^31 - 1";
      diagnostic.found = std::to_string(view->shape[axis]);
      report(std::move(diagnostic));
      sound = false;
    }
    if (sound && !view->data && !empty) {
      Diagnostic diagnostic = problem("A0519", fmt::format("`{}` has elements but a null pointer", name), tensor.sym);
      diagnostic.expected = "a pointer to the elements";
      diagnostic.found = "null";
      report(std::move(diagnostic));
      sound = false;
    }
    if (sound && !addressable(*view)) {
      Diagnostic diagnostic =
          problem("A0519", fmt::format("elements of `{}` lie outside of all memory", name), tensor.sym);
      diagnostic.expected = "addresses of at most 56 bits";
      diagnostic.found =
          fmt::format("strides [{}] for extents [{}]", fmt::join(view->strides, ", "), fmt::join(view->shape, ", "));
      diagnostic.help = "strides count elements, not bytes";
      report(std::move(diagnostic));
      sound = false;
    }
    if (view->dtype != tensor.type.dtype) {
      Diagnostic diagnostic = problem("A0505",
                                      fmt::format("`{}` is declared {}, the tensor is {}", name,
                                                  attune::name(tensor.type.dtype), attune::name(view->dtype)),
                                      tensor.sym);
      diagnostic.expected = attune::name(tensor.type.dtype);
      diagnostic.found = attune::name(view->dtype);
      report(std::move(diagnostic));
    }
    if (view->shape.size() != tensor.extents.size()) {
      auto axes = [](std::size_t count) { return fmt::format("{} {}", count, count == 1 ? "axis" : "axes"); };
      Diagnostic diagnostic =
          problem("A0506",
                  fmt::format("`{}` is declared with {} {}, the tensor has {}: [{}]", name, axes(tensor.extents.size()),
                              shape_text(tensor), view->shape.size(), fmt::join(view->shape, ", ")),
                  tensor.sym);
      diagnostic.expected = axes(tensor.extents.size());
      diagnostic.found = axes(view->shape.size());
      report(std::move(diagnostic));
      sound = false;
    }
    if (sound) binding_.tensors.emplace(tensor.sym, *view);
  }

  template <class F>
  void for_each_axis(F&& visit) const {
    for (const auto* list : {&program_.tensors, &program_.results})
      for (const Tensor& tensor : *list) {
        const auto found = binding_.tensors.find(tensor.sym);
        if (found == binding_.tensors.end()) continue;
        for (std::size_t axis = 0; axis < tensor.extents.size(); ++axis) visit(tensor, axis, found->second.shape[axis]);
      }
  }

  void solve_dims() {
    for (const Sym& dim : program_.dims) {
      const GivenValue* value = given(dim);
      if (!value) continue;
      const auto* size = std::get_if<std::int64_t>(value);
      if (!size) {
        Diagnostic diagnostic =
            problem("A0504", fmt::format("dim `{}` takes an integer, {} was given", dim.text(), kind_of(*value)));
        diagnostic.axis = dim.text();
        diagnostic.expected = "an integer";
        diagnostic.found = kind_of(*value);
        report(std::move(diagnostic));
        unsolvable_.insert(dim);
      } else if (*size < 0 || *size >= extent_limit) {
        Diagnostic diagnostic = problem("A0510", fmt::format("dim `{}` is {}", dim.text(), *size));
        diagnostic.axis = dim.text();
        diagnostic.expected = "a size in 0 .. 2^31 - 1";
        diagnostic.found = std::to_string(*size);
        report(std::move(diagnostic));
        unsolvable_.insert(dim);
      } else {
        binding_.dims[dim] = *size;
        origin_[dim] = fmt::format("the argument `{}`", dim.text());
      }
    }
    // Axes where a dim stands alone first, then scaled or shifted ones; inputs come before results in both rounds.
    for (const bool bare : {true, false})
      for_each_axis([&](const Tensor& tensor, std::size_t axis, std::int64_t found) {
        const auto linear = linear_of(tensor.extents[axis]);
        if (!linear || bare != (linear->scale == 1 && linear->offset == 0 && get_if<Dim>(tensor.extents[axis]))) return;
        if (bare || (!binding_.dims.count(linear->dim) && !unsolvable_.count(linear->dim)))
          solve(tensor, axis, found, *linear);
      });
    for (const Sym& dim : program_.dims) {
      if (binding_.dims.count(dim) || unsolvable_.count(dim) || waits_for_missing(dim)) continue;
      Diagnostic diagnostic = problem("A0509", fmt::format("nothing fixes the dim `{}`", dim.text()));
      diagnostic.axis = dim.text();
      diagnostic.expected = "a size";
      diagnostic.found = "nothing";
      diagnostic.help = fmt::format("give it by name: `{}` = an integer", dim.text());
      report(std::move(diagnostic));
    }
  }

  void solve(const Tensor& tensor, std::size_t axis, std::int64_t found, const Linear& linear) {
    const std::string where = fmt::format("axis {} of `{}`", axis, tensor.sym.text());
    const std::int64_t rest = found - linear.offset;
    Diagnostic diagnostic;
    if (const auto known = binding_.dims.find(linear.dim); known != binding_.dims.end()) {
      if (known->second == found) return;
      diagnostic = problem("A0508",
                           fmt::format("`{}` is {} in {} and {} in {}", linear.dim.text(), known->second,
                                       origin_.at(linear.dim), found, where),
                           tensor.sym);
      diagnostic.expected = fmt::format("{} = {}", linear.dim.text(), known->second);
    } else if (rest % linear.scale == 0 && rest / linear.scale >= 0) {
      binding_.dims[linear.dim] = rest / linear.scale;
      origin_[linear.dim] = where;
      return;
    } else {
      diagnostic =
          problem("A0507",
                  fmt::format("{} has extent {}, which is no value of {}", where, found, text_of(tensor.extents[axis])),
                  tensor.sym);
      diagnostic.expected = text_of(tensor.extents[axis]);
      unsolvable_.insert(linear.dim);
    }
    diagnostic.axis = std::to_string(axis);
    diagnostic.found = std::to_string(found);
    report(std::move(diagnostic));
  }

  /// Whether a tensor that would fix the dim is missing or malformed, so that the dim needs no report of its own.
  bool waits_for_missing(const Sym& dim) const {
    for (const auto* list : {&program_.tensors, &program_.results})
      for (const Tensor& tensor : *list) {
        if (binding_.tensors.count(tensor.sym) || (list == &program_.results && !given(tensor.sym) && !need_results_))
          continue;
        for (const Expr& extent : tensor.extents)
          if (const auto linear = linear_of(extent); linear && linear->dim == dim) return true;
      }
    return false;
  }

  void check_extents() {
    for_each_axis([&](const Tensor& tensor, std::size_t axis, std::int64_t found) {
      const Expr& extent = tensor.extents[axis];
      if (get_if<Dim>(extent)) return;  // compared while solving
      const auto expected = evaluate_integer(extent, constants());
      if (!expected || *expected == found) return;
      std::string wanted = std::to_string(*expected);
      if (text_of(extent) != wanted) wanted = text_of(extent) + " = " + wanted;
      Diagnostic diagnostic = problem(
          "A0507", fmt::format("axis {} of `{}` has extent {}, expected {}", axis, tensor.sym.text(), found, wanted),
          tensor.sym);
      diagnostic.axis = std::to_string(axis);
      diagnostic.expected = wanted;
      diagnostic.found = std::to_string(found);
      report(std::move(diagnostic));
    });
    // Results that are left out still have extents, and so have definitions.
    const auto check = [&](const Sym& sym, std::size_t axis, const Expr& extent) {
      if (get_if<Dim>(extent)) return;
      const auto value = evaluate_integer(extent, constants());
      if (!value || (*value >= 0 && *value < extent_limit)) return;
      Diagnostic diagnostic = problem(
          "A0510",
          fmt::format("axis {} of `{}` would have {} = {} elements", axis, sym.text(), text_of(extent), *value), sym);
      diagnostic.axis = std::to_string(axis);
      diagnostic.expected = "an extent in 0 .. 2^31 - 1";
      diagnostic.found = std::to_string(*value);
      report(std::move(diagnostic));
    };
    for (const Definition& definition : program_.definitions)
      for (std::size_t axis = 0; axis < definition.indices.size(); ++axis)
        check(definition.sym, axis, definition.indices[axis].hi);
  }

  // ---- scalars ----------------------------------------------------------------------------------
  void bind_scalar(const ScalarParam& scalar) {
    const DType dtype = scalar.type.dtype;
    const GivenValue* value = given(scalar.sym);
    const std::string& name = scalar.sym.text();
    const auto mismatch = [&](std::string code, std::string message, std::string found) {
      Diagnostic diagnostic = problem(std::move(code), std::move(message), scalar.sym);
      diagnostic.expected = attune::name(dtype);
      diagnostic.found = std::move(found);
      report(std::move(diagnostic));
    };
    if (!value && !scalar.default_value) {
      if (suggested_.contains(name)) return;  // given under a misspelt name
      return mismatch("A0501", fmt::format("scalar `{}` is missing and has no default", name), "nothing");
    }
    std::optional<ScalarValue> read;
    if (!value) {
      bool waits = false;  // for a dim or scalar whose own error is reported
      walk(scalar.default_value, [&](const Expr& node) {
        if (const auto* dim = get_if<Dim>(node)) waits = waits || !binding_.dims.count(dim->dim);
        if (const auto* other = get_if<tensor::Scalar>(node)) waits = waits || !binding_.scalars.count(other->scalar);
        return true;
      });
      if (waits) return;
      read = evaluate_constant(scalar.default_value, constants());
      if (!read) {
        if (reports_divisor(scalar.default_value)) return;
        Diagnostic diagnostic =
            problem("A0520", fmt::format("the default of `{}` has no value in this call", name), scalar.sym);
        diagnostic.expected = attune::name(dtype);
        return report_at(std::move(diagnostic), scalar.default_value->span);
      }
      // A default's kind may differ from the parameter's only as the notation converts: to float.
      if (is_float(dtype) && !std::holds_alternative<double>(*read))
        read = std::visit([](auto x) { return static_cast<double>(x); }, *read);
    } else if (const auto* view = std::get_if<TensorRef>(value)) {
      if (view->strides.size() != view->shape.size() || view->element_count() != 1 || !view->data)
        return mismatch("A0504",
                        fmt::format("scalar `{}` takes one value, a tensor of shape [{}] was given", name,
                                    fmt::join(view->shape, ", ")),
                        fmt::format("[{}]", fmt::join(view->shape, ", ")));
      if (view->dtype != dtype)
        return mismatch("A0505",
                        fmt::format("scalar `{}` is declared {}, the tensor is {}", name, attune::name(dtype),
                                    attune::name(view->dtype)),
                        std::string(attune::name(view->dtype)));
      if (is_float(dtype))
        read = load_element(view->data, dtype, 0);
      else if (is_bool(dtype))
        read = load_integer(view->data, dtype, 0) != 0;
      else
        read = load_integer(view->data, dtype, 0);
    } else if (const auto* real = std::get_if<double>(value)) {
      read = *real;
    } else if (const auto* truth = std::get_if<bool>(value)) {
      read = *truth;
    } else {
      read = std::get<std::int64_t>(*value);
      if (is_float(dtype)) read = static_cast<double>(std::get<std::int64_t>(*value));
    }
    const bool fits_kind = is_float(dtype)     ? std::holds_alternative<double>(*read)
                           : is_integer(dtype) ? std::holds_alternative<std::int64_t>(*read)
                                               : std::holds_alternative<bool>(*read);
    if (!fits_kind) {
      const std::string found = value ? std::string(kind_of(*value)) : "a default of another kind";
      return mismatch("A0504", fmt::format("scalar `{}` is {}, {} was given", name, attune::name(dtype), found), found);
    }
    const auto unfit = [&](const std::string& text) {
      mismatch("A0514", fmt::format("scalar `{}` = {} is beyond the range of {}", name, text, attune::name(dtype)),
               text);
    };
    if (const auto* real = std::get_if<double>(&*read)) {
      const double rounded = round_to(dtype, *real);
      // f8e4m3 saturates when it stores, so its range is tested by itself.
      const bool beyond = std::isfinite(*real) ? !std::isfinite(rounded) ||
                                                     (dtype == DType::f8e4m3 && *real != 0 && std::fabs(*real) >= 464)
                                               : std::isinf(*real) && !std::isinf(rounded);
      if (beyond) return unfit(fmt::format("{}", *real));
      read = rounded;
    } else if (const auto* whole = std::get_if<std::int64_t>(&*read)) {
      const bool beyond = (dtype == DType::i32 && *whole != static_cast<std::int32_t>(*whole)) ||
                          (dtype == DType::i8 && (*whole < -128 || *whole > 127)) ||
                          (dtype == DType::u8 && (*whole < 0 || *whole > 255));
      if (beyond) return unfit(fmt::format("{}", *whole));
    }
    binding_.scalars.emplace(scalar.sym, *read);
  }

  // ---- what the formula asks of the sizes -----------------------------------------------------------
  /// Reports divisors in the expression that are 0 for the whole launch; whether any is.
  bool reports_divisor(const Expr& root) {
    bool zero = false;
    walk(root, [&](const Expr& node) {
      const auto* chain = get_if<Chain>(node);
      if (!chain) return true;
      for (std::size_t k = 0; k < chain->links.size(); ++k) {
        if (chain->links[k] != LinkOp::floordiv && chain->links[k] != LinkOp::mod) continue;
        const Expr& divisor = chain->args[k + 1];
        if (!is_launch_uniform(divisor)) continue;
        const auto value = evaluate_integer(divisor, constants());
        if (!value || *value != 0) continue;
        zero = true;
        report_divisor(divisor);
      }
      return true;
    });
    return zero;
  }

  void report_divisor(const Expr& divisor) {
    const std::string text = text_of(divisor);
    if (!zero_divisors_.insert(text).second) return;
    Diagnostic diagnostic = problem("A0512", fmt::format("the divisor `{}` is 0 in this call", text));
    diagnostic.expected = "a divisor other than 0";
    diagnostic.found = fmt::format("{} = 0", text);
    diagnostic.help = fmt::format("write `max({}, 1)` where 0 is meant to be legal", text);
    report_at(std::move(diagnostic), divisor->span);
  }

  void check_divisors() {
    for (const auto* list : {&program_.tensors, &program_.results})
      for (const Tensor& tensor : *list)
        for (const Expr& extent : tensor.extents) reports_divisor(extent);
    for (const ScalarParam& scalar : program_.scalars)
      if (scalar.default_value && !given(scalar.sym)) reports_divisor(scalar.default_value);
    for (const Definition& definition : program_.definitions) {
      for (const IndexRange& range : definition.indices) reports_divisor(range.hi);
      reports_divisor(definition.body);
    }
    for (const RangeCheck& check : program_.range_checks) {
      reports_divisor(check.lo);
      reports_divisor(check.hi);
      reports_divisor(check.extent);
    }
  }

  void check_quotients() {
    std::set<std::pair<std::string, std::string>> reported;
    for (const ExactQuotient& quotient : program_.exact_quotients) {
      const auto dividend = binding_.dims.find(quotient.dividend), divisor = binding_.dims.find(quotient.divisor);
      if (dividend == binding_.dims.end() || divisor == binding_.dims.end()) continue;
      if (divisor->second == 0) {
        report_divisor(Expr(Dim{quotient.divisor}, type_i64, quotient.span));
        continue;
      }
      const std::string &a = quotient.dividend.text(), &b = quotient.divisor.text();
      if (dividend->second % divisor->second == 0 || !reported.emplace(a, b).second) continue;
      Diagnostic diagnostic = problem(
          "A0511", fmt::format("{} = {} is not a multiple of {} = {}", a, dividend->second, b, divisor->second));
      diagnostic.axis = a;
      diagnostic.expected = fmt::format("a multiple of {}", divisor->second);
      diagnostic.found = std::to_string(dividend->second);
      diagnostic.notes.push_back(fmt::format("`{} / {}` states that {} divides {}", a, b, b, a));
      report_at(std::move(diagnostic), quotient.span);
    }
  }

  void check_ranges() {
    for (const RangeCheck& check : program_.range_checks) {
      const auto lo = evaluate_integer(check.lo, constants()), hi = evaluate_integer(check.hi, constants()),
                 extent = evaluate_integer(check.extent, constants());
      if (!lo || !hi || !extent || *lo >= *hi || (*lo >= 0 && *hi <= *extent)) continue;
      Diagnostic diagnostic = problem("A0513",
                                      fmt::format("the range {}..{} leaves axis {} of `{}`, whose extent is {}", *lo,
                                                  *hi, check.axis, check.target.text(), *extent),
                                      check.target);
      diagnostic.axis = std::to_string(check.axis);
      diagnostic.expected = fmt::format("a range within 0..{}", *extent);
      diagnostic.found = fmt::format("{}..{}", *lo, *hi);
      report_at(std::move(diagnostic), check.span);
    }
  }

  void check_aliasing() {
    for (std::size_t k = 0; k < program_.results.size(); ++k) {
      const Sym& result = program_.results[k].sym;
      const auto found = binding_.tensors.find(result);
      if (found == binding_.tensors.end()) continue;
      if (overlaps_itself(found->second)) {
        Diagnostic diagnostic =
            problem("A0517",
                    fmt::format("elements of the result `{}` overlap: strides [{}] for extents [{}]", result.text(),
                                fmt::join(found->second.strides, ", "), fmt::join(found->second.shape, ", ")),
                    result);
        for (std::size_t axis = 0; axis < found->second.rank(); ++axis)
          if (found->second.shape[axis] > 1 && found->second.strides[axis] == 0) diagnostic.axis = std::to_string(axis);
        diagnostic.expected = "one address per element";
        diagnostic.found = fmt::format("strides [{}]", fmt::join(found->second.strides, ", "));
        report(std::move(diagnostic));
      }
      const auto against = [&](const Tensor& other) {
        const auto view = binding_.tensors.find(other.sym);
        if (view == binding_.tensors.end() || !overlap(found->second, view->second)) return;
        Diagnostic diagnostic = problem(
            "A0518", fmt::format("the result `{}` shares memory with `{}`", result.text(), other.sym.text()), result);
        diagnostic.expected = "memory of its own";
        diagnostic.found = fmt::format("memory of `{}`", other.sym.text());
        report(std::move(diagnostic));
      };
      for (const Tensor& input : program_.tensors) against(input);
      for (std::size_t other = 0; other < k; ++other) against(program_.results[other]);
    }
  }

  const Program& program_;
  const Arguments& arguments_;
  const bool need_results_;
  Binding binding_;
  Diagnostics errors_;
  std::unordered_map<std::string, const GivenValue*> given_;
  std::unordered_map<Sym, std::string> origin_;  ///< where a dim's value comes from
  std::set<Sym> unsolvable_;                     ///< dims with an error of their own
  std::set<std::string> zero_divisors_;
  std::set<std::string> suggested_;  ///< names that a misspelt one is taken for
};

}  // namespace

Result<Binding> bind(const Program& program, const Arguments& arguments, bool need_results) {
  return Binder(program, arguments, need_results)();
}

std::int64_t evaluate_extent(const Expr& expr, const Binding& binding) {
  const auto value = evaluate_integer(expr, {&binding.dims, &binding.scalars});
  if (!value) {
    Diagnostic diagnostic = problem("A0509", fmt::format("`{}` has no value in this call", print(expr)));
    throw Error(Diagnostics{std::move(diagnostic)});
  }
  return *value;
}

}  // namespace attune
