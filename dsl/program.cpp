// SPDX-License-Identifier: Apache-2.0
// Program: the public handle of a parsed module, its text and its identity.
#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <attune/program.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "syntax/syntax.hpp"

namespace attune {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Diagnostic unreadable(const std::string& path, const char* reason) {
  Diagnostic d;
  d.code = "A0601";
  d.message = fmt::format("cannot read `{}`: {}", path, reason);
  d.help = "check the path and the permissions of the file";
  return d;
}

/// One byte more than the limit is enough to know that a file is too long; nothing else of it is read.
Result<std::string> read_file(const std::string& path) {
  std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rb"));
  if (!file) return unreadable(path, std::strerror(errno));
  std::string text(max_text_bytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get())) return unreadable(path, std::strerror(errno));
  return text;
}

std::string hash_of(const std::string& text) {
  XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

Result<Program> Program::parse(std::string_view text, std::string name) {
  Result<ast::Module> module = attune::parse(Source(std::move(name), std::string(text)));
  if (!module) return module.diagnostics();
  return Result<Program>(from_module(std::move(*module)), module.diagnostics());
}

Result<Program> Program::load(const std::string& path) {
  Result<std::string> text = read_file(path);
  if (!text) return text.diagnostics();
  return parse(*text, path);
}

Program Program::from_module(ast::Module module) {
  Program program;
  program.module_ = std::make_shared<const ast::Module>(std::move(module));
  program.hash_ = std::make_shared<const std::string>(hash_of(program.text()));
  return program;
}

const ast::Module& Program::module() const {
  static const ast::Module empty;
  return module_ ? *module_ : empty;
}

const std::string& Program::hash() const {
  static const std::string empty = hash_of(print(ast::Module{}));
  return hash_ ? *hash_ : empty;
}

std::string Program::text() const { return print(module()); }

std::vector<std::string> Program::kernels() const {
  std::vector<std::string> names;
  for (const ast::Declaration& declaration : module().declarations)
    if (const auto* kernel = std::get_if<ast::Kernel>(&declaration)) names.push_back(kernel->name);
  return names;
}

bool operator==(const Program& a, const Program& b) {
  if (a.module_ == b.module_) return true;
  return a.module() == b.module();
}

}  // namespace attune
