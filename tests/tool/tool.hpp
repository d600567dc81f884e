// Runs the program `weir` as a user would, and gives back what it wrote and its exit code.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tool_test {

struct Result {
  int exit_code = -1;  ///< -1: killed by a signal, or by the watchdog
  std::string out;
  std::string err;
  bool timed_out = false;
};

struct Setting {
  std::vector<std::string> environment = {};  ///< "NAME=value", added
  bool terminal = false;                      ///< stderr is a terminal
  std::string out_path = {};                  ///< stdout goes to this file instead
  std::size_t memory = 0;                     ///< bytes of address space it may write to; 0: all there is
};

/// The program that WEIR_TOOL names, else `weir` beside this test.
std::string tool_path();

/// Whether this machine gives pseudo-terminals, which a minimal container may not.
bool has_terminals();

/// Runs it with a watchdog, which ends it when it hangs.
Result run(const std::vector<std::string>& arguments, const Setting& setting = {});

/// For failure messages: the command line and all that came back.
std::string text(const std::vector<std::string>& arguments, const Result& result);

}  // namespace tool_test
