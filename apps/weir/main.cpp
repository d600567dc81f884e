// The command-line tool `weir`: chooses a command, runs it, and turns what went wrong into one line and an exit code.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <weir/error.hpp>

#include "session.hpp"

#ifndef WEIR_VERSION
#define WEIR_VERSION "0.1.0"
#endif

namespace {

using tool::Exit;

constexpr const char* description =
    "Weir: asynchronous streams, events, graphs and memory with CUDA's ordering rules, on NVIDIA GPUs and on CPUs.\n"
    "This tool lists and measures devices, tests whether they keep the rules, and shows what streams are for. Of "
    "programs\n"
    "that use the library it finds missing waits, records calls and timelines, predicts times on GPUs that are not "
    "here,\n"
    "and starts the ranks of a job.";

constexpr const char* footer =
    "Start here:\n"
    "  weir devices               what there is to run on\n"
    "  weir demo                  the demos, with a table at the end\n"
    "  weir demo vadd --help      what one demo shows, and its options\n"
    "  weir graph show FILE       draws a graph that a program saved\n"
    "  weir run FILE.json         makes the calls of a scenario file\n"
    "  weir record -o FILE.json -- PROGRAM ARGS   keeps what it does, to be run again\n"
    "  weir run -- PROGRAM ARGS   runs a program; --device says on what\n"
    "  weir check FILE.json       finds what nothing orders in it, and the line that mends it\n"
    "  weir trace -o FILE.html -- PROGRAM ARGS    when each command ran, what overlapped, and why the rest did not\n"
    "  weir predict -- PROGRAM    how long it takes on a GPU that is not here, and what holds it back\n"
    "  weir calibrate -o card.json   measures the GPU that is here: sim:card.json is a device like it\n"
    "  weir ranks -n 4 -- PROGRAM ARGS   starts the ranks of a job on this machine\n"
    "  weir selftest              does this device keep the ordering rules?\n"
    "\n"
    "Every command takes --json; then stdout holds one JSON value and nothing else, with --help, too;\n"
    "of run and check, one for each FILE.\n"
    "\n"
    "Exit codes:\n"
    "  0  all is well\n"
    "  1  a result is wrong, or a rule was not kept\n"
    "  2  the command line makes no sense, or names a device that does not exist\n"
    "  3  something failed while running (no memory, a device error, stdout cannot be written)";

Exit complain(Exit code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  fmt::print(stderr, "weir: {}\n", tool::for_terminal(message));
  return code;
}

/// What --help or --version prints, as text or, beside --json, as JSON: parsing ended before it saw all options.
void inform(tool::CommandLine::Asked asked, const std::string& text, const tool::Session& session, int argc,
            char** argv) {
  const bool json =
      std::any_of(argv + 1, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  if (!json) {
    std::cout << text;
  } else if (asked == tool::CommandLine::Asked::version) {
    session.print({{"version", WEIR_VERSION}});
  } else {
    session.print({{"help", text}});
  }
}

/// Takes what stands behind "--" off the command line; returns how many words are left.
int take_program(tool::Session& session, int argc, char** argv) {
  const auto dashes = std::find(argv + 1, argv + argc, std::string_view("--"));
  if (dashes == argv + argc) return argc;
  session.program.assign(dashes + 1, argv + argc);
  if (session.program.empty()) throw tool::UsageError("there is no program behind \"--\" (see weir --help)");
  return static_cast<int>(dashes - argv);
}

Exit run(tool::CommandLine& line, tool::Session& session, int argc, char** argv) {
  try {
    argc = take_program(session, argc, argv);
    std::string text;
    const auto asked = line.parse(argc, argv, text);
    if (asked == tool::CommandLine::Asked::run) {
      if (!session.program.empty() && !session.takes_program) {
        throw tool::UsageError(fmt::format("\"{}\" starts no program: \"-- {}\" has no place there (see weir --help)",
                                           argv[1], session.program.front()));
      }
      return session.run();
    }
    inform(asked, text, session, argc, argv);
    return Exit::ok;
  } catch (const tool::UsageError& error) {
    return complain(Exit::usage, error.what());
  } catch (const tool::Stuck& error) {
    complain(Exit::wrong, error.what());
    std::fflush(stdout);
    std::_Exit(static_cast<int>(Exit::wrong));
  } catch (const std::bad_alloc&) {
    return complain(Exit::failed, "out of memory");
  } catch (const std::exception& error) {
    return complain(Exit::failed, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  tool::Session session;
  tool::CommandLine line(description, footer, "weir " WEIR_VERSION);
  const tool::Command root = line.root();
  tool::add_calibrate(root, session);
  tool::add_check(root, session);
  tool::add_devices(root, session);
  tool::add_demo(root, session);
  tool::add_graph(root, session);
  tool::add_predict(root, session);
  tool::add_ranks(root, session);
  tool::add_record(root, session);
  tool::add_run(root, session);
  tool::add_selftest(root, session);
  tool::add_trace(root, session);

  Exit code = run(line, session, argc, argv);
  std::cout.flush();
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) || !std::cout) && code == Exit::ok) {
    code = complain(Exit::failed, "stdout cannot be written");
  }
  return static_cast<int>(code);
}
