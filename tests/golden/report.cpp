// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <algorithm>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "backend/binding.hpp"
#include "syntax/syntax.hpp"
#include "tensor/passes.hpp"

namespace attune::golden {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
  return first == std::string::npos ? std::string() : text.substr(first, last + 1 - first);
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, at);)
    if (!trimmed(part).empty()) out.push_back(trimmed(part));
  return out;
}

std::vector<std::int64_t> integers(const std::string& text) {
  std::vector<std::int64_t> out;
  for (const std::string& part : split(text, ',')) out.push_back(std::stoll(part));
  return out;
}

struct Call {
  Arguments arguments;
  CompileOptions options;
  std::vector<std::shared_ptr<std::vector<double>>> memory;

  /// A part of a `# call:` line.
  void add(const std::string& part) {
    const auto blank = part.find(' ');
    const std::string name = part.substr(0, blank),
                      rest = blank == std::string::npos ? "" : trimmed(part.substr(blank));
    const auto words = split(rest, ' ');
    if (name == "require_fused" && rest.empty()) {
      options.require_fused = true;
    } else if (name == "type") {
      options.types[words.at(0)] = parse_dtype(words.at(1)).value();
    } else if (name == "const") {
      options.consts[words.at(0)] = std::stod(words.at(1));
    } else if (name == "schedule") {
      options.schedule[words.at(0)] = words.at(1);
      options.target = Target{TargetKind::interpreter};
    } else if (const auto bracket = rest.find('['); bracket != std::string::npos) {
      tensor(name, rest, bracket);
    } else if (rest == "true" || rest == "false") {
      arguments.emplace_back(name, rest == "true");
    } else if (rest.find('.') != std::string::npos || rest.find('e') != std::string::npos) {
      arguments.emplace_back(name, std::stod(rest));
    } else {
      arguments.emplace_back(name, static_cast<std::int64_t>(std::stoll(rest)));
    }
  }

 private:
  void tensor(const std::string& name, const std::string& rest, std::size_t bracket) {
    const DType dtype = parse_dtype(trimmed(rest.substr(0, bracket))).value();
    const auto close = rest.find(']');
    const auto shape = integers(rest.substr(bracket + 1, close - bracket - 1));
    auto option = [&](const std::string& word) {
      const auto at = rest.find(word, close);
      if (at == std::string::npos) return std::string();
      std::string value = rest.substr(at + word.size());
      for (const char* next : {"strides", "memory", "values"}) value = value.substr(0, value.find(next));
      return trimmed(value);
    };
    TensorRef made(static_cast<void*>(nullptr), dtype, shape);
    if (const std::string text = option("strides"); !text.empty()) made.strides = integers(text);
    const std::string from = option("memory");
    if (from.starts_with("of ")) {
      const auto other =
          std::find_if(arguments.begin(), arguments.end(), [&](const Argument& a) { return a.name == from.substr(3); });
      made.data = std::get<TensorRef>(other->value).data;
    } else if (from != "null") {
      // Enough for small shapes and strides; what is refused is not touched.
      memory.push_back(std::make_shared<std::vector<double>>(4096, 0.0));
      made.data = memory.back()->data();
      std::int64_t k = 0;
      for (const std::string& value : split(option("values"), ',')) {
        if (is_float(dtype))
          store_element(made.data, dtype, k++, std::stod(value));
        else
          store_integer(made.data, dtype, k++, std::stoll(value));
      }
    }
    arguments.emplace_back(name, made);
  }
};

}  // namespace

Diagnostics findings(const std::string& text, const std::string& name) {
  auto program = Program::parse(text, name);
  if (!program) return program.diagnostics();
  Diagnostics out;
  auto kernels = program->kernels();
  if (kernels.empty()) kernels = {""};  // inference says what is missing
  bool failed = false;
  for (const std::string& kernel : kernels) {
    auto inferred = infer(program->module(), kernel);
    failed = failed || !inferred;
    out.insert(out.end(), inferred.diagnostics().begin(), inferred.diagnostics().end());
  }
  const std::string mark = "# call:";
  std::stringstream lines(text);
  Call call;
  call.options.target = Target{TargetKind::reference};
  bool called = false;
  for (std::string line; std::getline(lines, line);)
    if (const auto at = line.find(mark); at != std::string::npos) {
      called = true;
      for (const std::string& part : split(line.substr(at + mark.size()), ';')) call.add(part);
    }
  if (failed || !called) return out;
  EngineOptions options;
  options.threads = 1;
  options.disk_cache = false;
  Engine engine(options);
  auto report = engine.run(*program, call.arguments, call.options);
  if (!report) out.insert(out.end(), report.diagnostics().begin(), report.diagnostics().end());
  return out;
}

}  // namespace attune::golden
