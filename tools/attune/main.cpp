// SPDX-License-Identifier: Apache-2.0
// The command `attune`: options and subcommands; every failure leaves through the one place below.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iostream>

#include "command.hpp"
#include "recorder.hpp"

namespace attune::tool {
namespace {

std::string not_empty(const std::string& text) { return text.empty() ? "the name is empty" : ""; }

/// The library would take the nearest number that fits.
std::string seed(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  return "`" + text + "` is no seed, which is a whole number from 0 to 18446744073709551615";
}

void program_options(CLI::App& app, Options& o) {
  app.add_option("FILE", o.file, "a .attn file, - for standard input, or std:NAME for a standard program");
  app.add_option("-e,--expression", o.text, "the program's text itself instead of FILE");
  app.add_option("--kernel", o.kernel, "which kernel of a text that has several");
  app.add_flag("--json", o.json, "one JSON object on standard output; text for people goes to standard error");
}

void arch_option(CLI::App& app, Options& o) {
  app.add_option("--arch", o.arch, "compile for a machine that is not here: x86-64-v3, znver4, sm_80, sm_90a, ...")
      ->check(not_empty);
}

void running_options(CLI::App& app, Options& o) {
  program_options(app, o);
  arch_option(app, o);
  app.add_option("--target", o.target,
                 "auto (default: the CPU; libLLVM missing: interpreter), cpu, cuda, cuda:1, interpreter or reference")
      ->capture_default_str();
  app.add_option("--inputs", o.inputs, "safetensors files; tensor names are parameter names")->expected(1, -1);
  app.add_option("--shape", o.shape, "sizes of dims that the inputs do not fix: B=1,H=8")->delimiter(',');
  app.add_option("--set", o.set, "a scalar parameter: NAME=VALUE (repeatable)");
  app.add_option("--map", o.map, "a file's tensor under a parameter's name: FILE_NAME=PARAMETER (repeatable)");
  app.add_option("--dtype", o.dtype,
                 "a type variable that the inputs do not fix: T=bf16 (default f32 for random inputs)")
      ->delimiter(',');
  app.add_option("--schedule", o.schedule, "single choices: tile.m=128,tile.n=64,lanes=32,operands=packed")
      ->delimiter(',');
  app.add_option("--threads", o.threads, "CPU threads (default: physical cores the process may use)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--random", o.random, "draw normal(0,1) inputs from this seed; integers within what they index")
      ->check(seed);
  app.add_flag("--require-fused", o.require_fused, "a stored intermediate is an error");
  app.add_flag("--no-cache", o.no_cache, "do not use the disk cache");
  app.add_option("--dump", o.dump, "write every stage's text into this folder (compiles anew, past the cache)")
      ->check(not_empty);
  app.add_option("--trace", o.trace, "write a trace of stages and tasks for Chrome's about:tracing or Perfetto")
      ->check(not_empty);
}

/// What the subcommands that only compile share.
void compiling_options(CLI::App& app, Options& o) {
  program_options(app, o);
  app.add_option("--set", o.set, "a const scalar parameter: NAME=VALUE (repeatable)");
  app.add_option("--dtype", o.dtype, "a type variable: T=bf16 (default f32)")->delimiter(',');
}

/// The first argument that is neither an option nor a known subcommand, where a subcommand should stand.
void check_subcommand(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> known;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(sub->get_name());
  if (argc < 2) usage("no command is given", one_of(known) + "; `attune --help` says what each does");
  const std::string first = argv[1];
  if (first.empty() || first[0] == '-' || std::find(known.begin(), known.end(), first) != known.end()) return;
  const std::string near = did_you_mean(first, known);
  if (near.empty() && (first.ends_with(".attn") || first.starts_with("std:")))
    usage("there is no command `" + first + "`", "a program is run with `attune run " + first + "`");
  usage("there is no command `" + first + "`", near.empty() ? one_of(known) : "did you mean `" + near + "`?");
}

/// What the library says of a call, in the words of the command line.
Diagnostics for_command(Diagnostics diagnostics) {
  for (Diagnostic& d : diagnostics)
    if (d.code == "A0501" && !d.tensor.empty())
      d.help = d.message.starts_with("scalar") ? "give it with --set " + d.tensor + "=VALUE"
                                               : "give it in a file of --inputs, under this name or with --map";
  return diagnostics;
}

int report_failure(const Options& o, const Diagnostics& found, Exit code) {
  const Diagnostics diagnostics = for_command(found);
  if (o.json) std::cout << Json{{"errors", to_json(diagnostics)}}.dump(2) << "\n";
  std::cerr << render(diagnostics) << "\n";
  if (code == internal_error) {
    std::string what = render(diagnostics);
    const std::string path = recorder().reproducer(what);
    std::cerr << "\nThis is a bug in attune. Please report it with ";
    if (path.empty())
      std::cerr << "the command and the program; a reproducer could not be written.\n";
    else
      std::cerr << "`" << path << "`, which holds the program and what was found here (not your data).\n";
  }
  return code;
}

/// An argument as a shell takes it back.
std::string quoted(const std::string& text) {
  const char* plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=:,./@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// What is wrong with a command line, in the words of the command that was meant.
Diagnostic misuse(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  Diagnostic d;
  d.code = "A0620";
  d.message = error.what();
  const CLI::App* command = nullptr;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    if (argc > 1 && sub->get_name() == argv[1]) command = sub;
  d.help = "`attune " + std::string(command ? command->get_name() + " " : "") + "--help` lists the options";
  if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::ExtrasError)) return d;
  std::vector<std::string> options;
  for (const CLI::Option* option : (command ? command : &app)->get_options())
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  for (int k = 1; k < argc; ++k) {
    const std::string word = std::string(argv[k]).substr(0, std::string(argv[k]).find('='));
    if (word.size() < 2 || word[0] != '-' || word == "-e" || word == "-h") continue;
    if (std::find(options.begin(), options.end(), word) != options.end()) continue;
    d.message = "`" + word + "` is no option of `attune" + (command ? " " + command->get_name() : "") + "`";
    if (std::string near = did_you_mean(word, options); !near.empty()) d.help = "did you mean `" + near + "`?";
    return d;
  }
  if (command) d.message = "an argument too many for `attune " + command->get_name() + "`: " + error.what();
  return d;
}

}  // namespace
}  // namespace attune::tool

int main(int argc, char** argv) {
  using namespace attune;
  using namespace attune::tool;
  Options o;
  CLI::App app{"attune: attention as a tensor expression, compiled for this machine"};
  app.name("attune");
  app.require_subcommand(1);
  app.set_version_flag("--version", "attune " ATTUNE_VERSION);
  app.footer(
      "FILE may be std:NAME; `attune env` lists the standard programs.\n"
      "Exit codes: 0 done, 1 wrong program, 2 usage, 3 data do not fit, 4 target not available, 5 verification "
      "failed, 70 a bug in attune.");

  auto* run = app.add_subcommand("run", "run a program on inputs and write its results");
  running_options(*run, o);
  run->add_option("--outputs", o.outputs, "safetensors file for the results")->check(not_empty);
  run->add_flag("--verify", o.verify, "also run the f64 reference and compare");
  auto* check = app.add_subcommand("check", "parse and infer; print the typed signature; nothing runs");
  program_options(*check, o);
  arch_option(*check, o);
  auto* show = app.add_subcommand("show", "print one stage of the way from text to machine code");
  running_options(*show, o);
  show->add_option("--stage", o.stage,
                   "tokens, ast, tensor, stream, schedule, loop, loop:PASS (lower, tile, partition, place, map), "
                   "source, asm, mask")
      ->capture_default_str();
  auto* bench = app.add_subcommand("bench", "time a program and compare with the machine's peak");
  running_options(*bench, o);
  bench->add_option("--rounds", o.rounds, "timed runs (default: about two seconds' worth)")
      ->check(CLI::Range(1, 1000000));
  bench
      ->add_option("--protocol", o.protocol,
                   "on a GPU: burst (default: single launches after a pause each) or sustained (back to back)")
      ->check(CLI::IsMember({"burst", "sustained"}));
  bench->add_option("--against", o.against,
                    "also time the same with `eigen`: the formula as a sequence of matrix operations");
  auto* env = app.add_subcommand("env", "what was found on this machine: libraries, CPU, caches, standard programs");
  env->add_flag("--json", o.json, "as JSON");
  auto* explain = app.add_subcommand("explain", "the long text of an error code, or what was derived for a program");
  compiling_options(*explain, o);
  auto* emit = app.add_subcommand("emit", "write compiled code and a C header to link ahead of time");
  compiling_options(*emit, o);
  arch_option(*emit, o);
  emit->add_option("--output", o.output,
                   "the folder for NAME.o, NAME.ll, NAME.s, NAME.h and NAME.c; on a GPU NAME.cu, NAME.cubin, NAME.ptx "
                   "and NAME.json")
      ->required()
      ->check(not_empty);
  emit->add_option("--target", o.target, "auto, cpu or cuda")->capture_default_str();
  emit->add_option("--shape", o.shape, "sizes to choose the schedule for; the code works with all others too")
      ->delimiter(',');
  emit->add_option("--schedule", o.schedule, "single choices, as for run")->delimiter(',');
  emit->add_flag("--require-fused", o.require_fused, "a stored intermediate is an error");
  auto* cache = app.add_subcommand("cache", "the compiled kernels on disk");
  cache->add_option("ACTION", o.action, "list (default), clear or path");
  cache->add_flag("--json", o.json, "as JSON");

  for (int k = 1; k < argc; ++k) {
    o.json =
        o.json || std::string_view(argv[k]) == "--json";  // a command line that does not parse is reported as JSON too
    recorder().command += (k > 1 ? " " : "attune ") + quoted(argv[k]);
  }
  try {
    check_subcommand(app, argc, argv);
    app.parse(argc, argv);
    recorder().start(o);
    int code = done;
    if (*run) code = run_command(o);
    if (*check) code = check_command(o);
    if (*show) code = show_command(o);
    if (*bench) code = bench_command(o);
    if (*env) code = env_command(o);
    if (*explain) code = explain_command(o);
    if (*emit) code = emit_command(o);
    if (*cache) code = cache_command(o);
    expect(recorder().finish());
    return code;
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return report_failure(o, {misuse(app, e, argc, argv)}, usage_error);
  } catch (const Failure& failure) {
    return report_failure(o, failure.diagnostics, failure.code);
  } catch (const Error& error) {
    return report_failure(o, error.diagnostics(), exit_of(error.diagnostics()));
  } catch (const std::bad_alloc&) {
    Diagnostic d;
    d.code = "A0607";
    d.message = "out of memory";
    d.help = "use smaller sizes with --shape";
    return report_failure(o, {d}, target_error);
  } catch (const std::exception& error) {
    Diagnostic d;
    d.code = "A0905";
    d.message = std::string("internal error: ") + error.what();
    return report_failure(o, {d}, internal_error);
  }
}
