// SPDX-License-Identifier: Apache-2.0
// What the subcommands share: options as given, exit codes, the loaded program with its inputs, and reporting.
#pragma once
#include <attune/attune.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu.hpp"
#include "backend/cuda/cuda.hpp"
#include "safetensors.hpp"
#include "tensor/ir.hpp"

namespace attune::tool {

using Json = nlohmann::ordered_json;

/// Exit codes of the command; a promise to scripts.
enum Exit : int {
  done = 0,
  program_error = 1,
  usage_error = 2,
  data_error = 3,
  target_error = 4,
  verify_error = 5,
  internal_error = 70
};

/// Options as given on the command line; the same struct for every subcommand.
struct Options {
  std::string file;  ///< FILE, "-", "std:NAME"; "" with -e
  std::string text;  ///< -e
  std::string kernel;
  std::vector<std::string> inputs;
  std::string outputs;
  std::vector<std::string> shape, set, map, dtype, schedule;
  std::string target = "auto", arch;
  int threads = 0;
  std::optional<std::uint64_t> random;
  bool verify = false, json = false, require_fused = false, no_cache = false, verbose = false;
  std::string dump, trace;
  std::string stage = "loop";  ///< show
  std::string output;          ///< emit
  std::string action;          ///< cache
  std::string against;         ///< bench
  int rounds = 0;              ///< bench; 0: as many as fit
  std::string protocol;        ///< bench on a GPU: "burst" (also ""), "sustained"
};

/// A failure with its exit code: thrown inside the tool, reported once in main().
struct Failure {
  Exit code;
  Diagnostics diagnostics;
};
Diagnostic problem(const char* code, std::string message, std::string help = {});
[[noreturn]] void fail(Exit code, Diagnostic diagnostic);
[[noreturn]] void fail(Exit code, Diagnostics diagnostics);
[[noreturn]] void usage(std::string message, std::string help = {});
/// The exit code that a diagnostic's code stands for.
Exit exit_of(const Diagnostics& diagnostics);
/// The value, or fail() with the code that the diagnostics stand for.
template <class T>
T expect(Result<T> result);
/// Prints warnings to standard error.
void warn(const Options& options, const Diagnostics& warnings);

Json to_json(const Diagnostics& diagnostics);

/// The processor to compile for: that of --arch, else this one. Usage error for an unknown name and for a GPU's.
cpu::CpuTarget machine_of(const Options& options);
/// The GPU that --arch names, if it names one. Usage error for an unknown name.
std::optional<cuda::GpuTarget> named_gpu(const Options& options);
/// The GPU to compile for: that of --arch, else the target's. Fails where it is not here.
cuda::GpuTarget gpu_of(const Options& options, const Target& target);
/// The name of the target's processor or GPU as its maker gives it, for people.
std::string device_name(const Target& target);
/// What code of the target is compiled for, as --arch names it.
std::string arch_name(const Target& target);

/// Memory of one tensor that the tool owns.
struct Owned {
  TensorRef ref;
  std::shared_ptr<std::vector<std::uint8_t>> memory;
};
Owned allocate(DType dtype, const std::vector<std::int64_t>& shape, bool poison);

/// What the options say of names, dims and scalars.
struct Given {
  std::map<std::string, std::string> renamed;  ///< --map
  std::map<std::string, std::int64_t> dims;
  std::map<std::string, std::string> settings;
};

/// A program ready to run: inferred, inputs loaded or drawn, outputs allocated and poisoned.
struct Session {
  Options options;
  Program program;
  std::string kernel_name;
  tensor::Program inferred;  ///< types open
  tensor::Program bound;     ///< types bound
  std::map<std::string, DType> types;
  std::map<std::string, double> consts;
  Given given;
  CompileOptions compile;
  Arguments inputs;     ///< tensors, scalars and dims
  Arguments arguments;  ///< inputs and results
  CallShapes shapes;
  std::vector<std::pair<std::string, TensorRef>> results;
  std::vector<Owned> memory;
  std::vector<SafetensorsFile> files;
};

/// Reads FILE, standard input, std:NAME or -e.
Program load_program(const Options& options);
/// The kernel to use: --kernel, or the only one.
std::string choose_kernel(const Program& program, const Options& options);
/// Parses and infers only.
Session open_program(const Options& options);
/// Checks --shape, --dtype, --set and --map; types, consts and scalars go into the session too.
void read_given(Session& session);
/// Binds the types where no inputs fix them: those of --dtype, else f32; values of consts by --set.
void bind_default_types(Session& session);
/// NAME=VALUE as two; usage error otherwise.
std::pair<std::string, std::string> split_setting(const std::string& text, const char* option);
/// "one of `a`, `b`" for a help.
std::string one_of(const std::vector<std::string>& names);
/// Tensors and scalars of a program.
std::vector<std::string> parameter_names(const tensor::Program& program);
/// The target of --target; usage error for an unknown one.
Target chosen_target(const Options& options);
/// The same, `auto` resolved: the CPU, else the interpreter.
Target running_target(const Options& options);
/// Loads inputs (files, --set, --shape, --dtype) or draws them (--random, or `random_default` where no file is given),
/// binds types and shapes, allocates results.
void open_inputs(Session& session, std::optional<std::uint64_t> random_default);
/// An engine as the options ask for; the recorder observes it.
Engine make_engine(const Options& options);
/// The texts that no stage of an engine makes (tokens, ast, mask), where there is a dump.
void dump_texts(const Session& session);
CompileOptions compile_options(const Options& options, const Session& session);
/// The session's program as code for the target is made of it: on a GPU with the sizes that the code is for, taken from
/// the inputs, --shape, or else assumed.
tensor::Program program_for(const Session& session, const Target& target, const loop::LowerOptions& options);

/// Sizes, FLOPs of visible elements, bytes of inputs and outputs.
struct Work {
  std::int64_t visible = 0;  ///< elements of all streams that count
  double flop = 0;
  double byte = 0;
};
Work count_work(const Session& session);

/// A guard as a picture: one character a block of rows and streamed elements.
std::string mask_picture(const Session& session, int width, int height);

int run_command(const Options& options);
int check_command(const Options& options);
int show_command(const Options& options);
int bench_command(const Options& options);
int env_command(const Options& options);
int explain_command(const Options& options);
int emit_command(const Options& options);
int cache_command(const Options& options);

/// What was derived for a program, as prose.
std::string explain_program(const Session& session);

template <class T>
T expect(Result<T> result) {
  if (!result) fail(exit_of(result.diagnostics()), result.diagnostics());
  return std::move(*result);
}

}  // namespace attune::tool
