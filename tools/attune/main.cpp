// SPDX-License-Identifier: Apache-2.0
// The command `attune`: options and subcommands; every failure leaves through the one place below.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "command.hpp"

namespace attune::tool {
namespace {

void program_options(CLI::App& app, Options& o) {
  app.add_option("FILE", o.file, "a .attn file, - for standard input, or std:NAME for a standard program");
  app.add_option("-e,--expression", o.text, "the program's text itself instead of FILE");
  app.add_option("--kernel", o.kernel, "which kernel of a text that has several");
  app.add_flag("--json", o.json, "one JSON object on standard output; text for people goes to standard error");
}

void running_options(CLI::App& app, Options& o) {
  program_options(app, o);
  app.add_option("--target", o.target, "auto (default), cpu, interpreter or reference")->capture_default_str();
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
  app.add_option("--random", o.random, "draw normal(0,1) inputs from this seed; integers within what they index");
  app.add_flag("--require-fused", o.require_fused, "a stored intermediate is an error");
  app.add_flag("--no-cache", o.no_cache, "do not use the disk cache");
  app.add_option("--dump", o.dump, "write every stage's text into this folder");
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
      "failed.");

  auto* run = app.add_subcommand("run", "run a program on inputs and write its results");
  running_options(*run, o);
  run->add_option("--outputs", o.outputs, "safetensors file for the results");
  run->add_flag("--verify", o.verify, "also run the f64 reference and compare");
  auto* check = app.add_subcommand("check", "parse and infer; print the typed signature; nothing runs");
  program_options(*check, o);
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
  bench->add_option("--against", o.against,
                    "also time the same with `eigen`: the formula as a sequence of matrix operations");
  auto* env = app.add_subcommand("env", "what was found on this machine: libraries, CPU, caches, standard programs");
  env->add_flag("--json", o.json, "as JSON");
  auto* explain = app.add_subcommand("explain", "the long text of an error code, or what was derived for a program");
  program_options(*explain, o);

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForAllHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    bool json = false;
    for (int k = 1; k < argc; ++k) json = json || std::string_view(argv[k]) == "--json";
    Diagnostic d;
    d.code = "A0620";
    d.message = e.what();
    d.help = "see `attune --help` or `attune COMMAND --help`";
    if (json) std::cout << Json{{"errors", to_json({d})}}.dump(2) << "\n";
    std::cerr << render(d) << "\n";
    return usage_error;
  }
  try {
    if (*run) return run_command(o);
    if (*check) return check_command(o);
    if (*show) return show_command(o);
    if (*bench) return bench_command(o);
    if (*env) return env_command(o);
    if (*explain) return explain_command(o);
  } catch (const Failure& failure) {
    if (o.json) std::cout << Json{{"errors", to_json(failure.diagnostics)}}.dump(2) << "\n";
    std::cerr << render(failure.diagnostics) << "\n";
    return failure.code;
  } catch (const Error& error) {
    if (o.json) std::cout << Json{{"errors", to_json(error.diagnostics())}}.dump(2) << "\n";
    std::cerr << error.what() << "\n";
    return exit_of(error.diagnostics());
  } catch (const std::bad_alloc&) {
    std::cerr << "error: out of memory\n";
    return target_error;
  } catch (const std::exception& error) {
    std::cerr << "internal error: " << error.what() << "\nPlease report it together with the command and its inputs.\n";
    return internal_error;
  }
  return done;
}
