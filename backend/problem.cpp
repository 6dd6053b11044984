// SPDX-License-Identifier: Apache-2.0
#include "backend/problem.hpp"

#include <string_view>
#include <utility>

namespace attune {
namespace {

struct UsualHelp {
  std::string_view code, help;
};
constexpr UsualHelp usual_help[] = {
    {"A0501", "every result, and every parameter without a default, takes an argument of its name"},
    {"A0502", "names are those of the kernel's header"},
    {"A0503", "leave one of them out"},
    {"A0504", "tensors take a TensorRef; scalars a number of their kind: 2 is an integer, 2.0 a float, true a bool"},
    {"A0505", "inputs and results are never converted"},
    {"A0506", "axes are not added or removed, and nothing is broadcast: leave the index out of the formula"},
    {"A0507", "the kernel's header gives this extent"},
    {"A0508", "axes of one name in the kernel's header have one size; their order may be another one in your tensors"},
    {"A0510", "sizes, and extents that are computed from them, lie between 0 and 2147483647"},
    {"A0511", "the program says that this division leaves no rest: give sizes that do"},
    {"A0513", "the range is within the axis for sizes that the kernel is meant for"},
    {"A0514", "give a value that the scalar's type can hold"},
    {"A0515", "what is declared with one type variable has one dtype, and that is a float"},
    {"A0517", "give a result memory where every element has an address of its own, without strides of 0"},
    {"A0518", "let the result have memory of its own, and copy afterwards"},
    {"A0519", "a view needs a pointer to its first element and a stride for each extent"},
    {"A0520", "give the scalar a value"},
};

}  // namespace

Diagnostic problem(std::string code, std::string message, const Sym& tensor) {
  Diagnostic diagnostic;
  for (const UsualHelp& usual : usual_help)
    if (usual.code == code) diagnostic.help = usual.help;
  diagnostic.code = std::move(code);
  diagnostic.message = std::move(message);
  diagnostic.tensor = tensor.text();
  return diagnostic;
}

}  // namespace attune
