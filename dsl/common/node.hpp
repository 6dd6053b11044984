// SPDX-License-Identifier: Apache-2.0
// What every IR derives from the field lists of its node kinds: match, child mapping, walking, hashing.
// A kind is a plain aggregate with `static constexpr auto fields = std::tuple(&Kind::a, ...)`.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace attune {

template <class... F>
struct overloaded : F... {
  using F::operator()...;
};

namespace detail {
template <class F, class T>
concept handles = requires(F f, T& t) {
  f(t);
};

template <class Kind>
struct kind_has_a_case {
  template <class F>
  static consteval void check() {
    static_assert(handles<F, Kind>, "match(): this IR kind has no case");
  }
};
}  // namespace detail

/// Calls the case of the kind that `kinds` holds; a forgotten case is a compile error that names it.
template <class... Kinds, class... F>
decltype(auto) match(const std::variant<Kinds...>& kinds, F&&... cases) {
  using All = overloaded<std::decay_t<F>...>;
  (detail::kind_has_a_case<const Kinds>::template check<All>(), ...);
  return std::visit(All{std::forward<F>(cases)...}, kinds);
}

inline void hash_mix(std::size_t& seed, std::size_t value) {
  seed = (seed ^ value) * 0x9ddfea08eb382d69ull;
  seed ^= seed >> 47;
}

/// Applies `visit(const Child&)` to each direct child of type Child in the fields of a kind, in order.
template <class Child, class Kind, class F>
void for_each_child(const Kind& kind, F&& visit) {
  auto one = [&](auto&& self, const auto& field) -> void {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, Child>) {
      if (field) visit(field);
    } else if constexpr (requires { Field::fields; }) {
      std::apply([&](auto... member) { (self(self, field.*member), ...); }, Field::fields);
    } else if constexpr (requires {
                           typename Field::value_type;
                           field.begin();
                         }) {
      if constexpr (!std::is_same_v<typename Field::value_type, char>)
        for (const auto& element : field) self(self, element);
    }
  };
  std::apply([&](auto... member) { (one(one, kind.*member), ...); }, Kind::fields);
}

/// Replaces each direct child by `f(child)`; returns whether any became another node (`!same()`).
template <class Child, class Kind, class F>
bool update_children(Kind& kind, F&& f) {
  bool changed = false;
  auto one = [&](auto&& self, auto& field) -> void {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, Child>) {
      if (!field) return;
      Child next = f(static_cast<const Child&>(field));
      changed |= !next.same(field);
      field = std::move(next);
    } else if constexpr (requires { Field::fields; }) {
      std::apply([&](auto... member) { (self(self, field.*member), ...); }, Field::fields);
    } else if constexpr (requires {
                           typename Field::value_type;
                           field.begin();
                         }) {
      if constexpr (!std::is_same_v<typename Field::value_type, char>)
        for (auto& element : field) self(self, element);
    }
  };
  std::apply([&](auto... member) { (one(one, kind.*member), ...); }, Kind::fields);
  return changed;
}

}  // namespace attune
