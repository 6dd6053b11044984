// SPDX-License-Identifier: Apache-2.0
// Runs the command as a script does, with files in a folder that goes away.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/catch.hpp"

namespace cli {

namespace fs = std::filesystem;

struct Outcome {
  int code;          ///< -1: ended by a signal
  std::string text;  ///< standard output and error together
};

/// Any command line of the shell.
inline Outcome shell(const std::string& line, bool with_errors = true) {
  std::FILE* pipe = popen((line + (with_errors ? " 2>&1" : " 2>/dev/null")).c_str(), "r");
  REQUIRE(pipe);
  std::string text;
  char buffer[4096];
  while (std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, got);
  int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}

/// The command, without the disk cache; `variables` go in front of it.
inline Outcome run(const std::string& arguments, const std::string& variables = "") {
  return shell("env ATTUNE_CACHE=off " + variables + " " ATTUNE_COMMAND " " + arguments);
}
/// What it writes to standard output alone: JSON.
inline std::string output(const std::string& arguments, const std::string& variables = "") {
  return shell("env ATTUNE_CACHE=off " + variables + " " ATTUNE_COMMAND " " + arguments, false).text;
}

/// A folder of this process, removed at its end.
inline const fs::path& scratch() {
  struct Folder {
    fs::path path = fs::temp_directory_path() / ("attune-cli-" + std::to_string(getpid()));
    Folder() { fs::create_directories(path); }
    ~Folder() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

inline std::string file(const std::string& name, const std::string& content) {
  fs::path path = scratch() / name;
  std::ofstream(path, std::ios::binary) << content;
  return path.string();
}

inline std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::string data(const std::string& name) { return ATTUNE_SOURCE_DIR "/examples/data/" + name; }

inline std::string safetensors(const std::string& header, std::size_t bytes) {
  std::string out;
  for (int k = 0; k < 8; ++k) out.push_back(static_cast<char>(header.size() >> (8 * k)));
  return out + header + std::string(bytes, '\0');
}

/// Whether libLLVM is here: what needs it is left out elsewhere.
inline bool has_cpu_target() {
  static const bool found = run("run -e 'kernel k(X: f32[N]) -> O: f32[N] { O[i] = X[i] }' --target cpu --random 1 "
                                "--shape N=3")
                                .code == 0;
  return found;
}

inline const std::string small = " --shape B=1,H=2,G=1,M=5,N=7,D=4,E=3 --random 1 ";

}  // namespace cli
