// SPDX-License-Identifier: Apache-2.0
// Where a statement's elements go, and the contraction as a closure.
#pragma once
#include "backend/interpreter/domain.hpp"

namespace attune::interpreter {

/// A tile as the destination of a statement whose domain covers its axes.
struct Destination {
  Destination() = default;
  Destination(const Sym& sym, const loop::Nest& nest, Compiler& compiler);

  /// The element that the indices now stand for; a fault where it lies outside the tile.
  std::size_t element(Frame& frame, const Site& site) const;
  /// The old value; marks a misread where nothing wrote it.
  Value read(Frame& frame, std::size_t element) const;
  void write(Frame& frame, std::size_t element, const Value& value) const;

  std::size_t tile = 0;
  std::vector<std::size_t> slots;  ///< of the axes' indices
};

Action compile(const loop::Contract& contract, const Destination& dst, const Site& site, Compiler& compiler);

}  // namespace attune::interpreter
