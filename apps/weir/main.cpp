// The command-line tool `weir`: chooses a command, runs it, and turns what went wrong into one line and an exit code.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <sstream>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <weir/error.hpp>

#include "session.hpp"

#ifndef WEIR_VERSION
#define WEIR_VERSION "0.1.0"
#endif

namespace {

using tool::Exit;

constexpr const char* description =
    "Weir: asynchronous streams, events and memory with CUDA's ordering rules, on any CPU.\n"
    "This tool lists devices, shows what streams are for, and tests whether a device keeps the rules.";

constexpr const char* footer =
    "Start here:\n"
    "  weir devices               what there is to run on\n"
    "  weir demo                  all demos, with a table at the end\n"
    "  weir demo vadd --help      what one demo shows, and its options\n"
    "  weir graph show FILE       draws a graph that a program saved\n"
    "  weir selftest              does this device keep the ordering rules?\n"
    "\n"
    "Every command takes --json; then stdout holds one JSON value and nothing else, with --help, too.\n"
    "\n"
    "Exit codes:\n"
    "  0  all is well\n"
    "  1  a result is wrong, or a rule was not kept\n"
    "  2  the command line makes no sense, or names a device that does not exist\n"
    "  3  something failed while running (no memory, a device error, stdout cannot be written)";

Exit complain(Exit code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  fmt::print(stderr, "weir: {}\n", message);
  return code;
}

std::string describe(const CLI::ParseError& error, const CLI::App& app, int argc, char** argv) {
  if (app.get_subcommands().empty() && argc > 1 && argv[1][0] != '-') {
    return fmt::format("no command \"{}\": there is devices, demo, graph and selftest (see weir --help)", argv[1]);
  }
  return fmt::format("{} (see weir --help)", error.what());
}

/// What CLI11 prints for --help or --version, as text or, beside --json, as JSON: parsing ended before it saw all options.
void inform(const CLI::Success& request, const CLI::App& app, const tool::Session& session, int argc, char** argv) {
  const bool json =
      std::any_of(argv + 1, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  std::ostringstream text;
  app.exit(request, text, text);
  if (!json) {
    std::cout << text.str();
  } else if (dynamic_cast<const CLI::CallForVersion*>(&request) != nullptr) {
    session.print({{"version", WEIR_VERSION}});
  } else {
    session.print({{"help", text.str()}});
  }
}

Exit run(CLI::App& app, tool::Session& session, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return session.run();
  } catch (const CLI::Success& request) {  // --help and --version
    inform(request, app, session, argc, argv);
    return Exit::ok;
  } catch (const CLI::ParseError& error) {
    return complain(Exit::usage, describe(error, app, argc, argv));
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
  CLI::App app(description, "weir");
  app.footer(footer);
  app.set_version_flag("--version", "weir " WEIR_VERSION, "Print the version and exit");
  app.get_formatter()->column_width(28);
  app.require_subcommand(1);
  tool::add_devices(app, session);
  tool::add_demo(app, session);
  tool::add_graph(app, session);
  tool::add_selftest(app, session);

  Exit code = run(app, session, argc, argv);
  std::cout.flush();
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) || !std::cout) && code == Exit::ok) {
    code = complain(Exit::failed, "stdout cannot be written");
  }
  return static_cast<int>(code);
}
