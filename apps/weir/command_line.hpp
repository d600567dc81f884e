// Commands and their options. command_line.cpp alone knows the library that parses them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tool {

/// A command of the tool. What options are written to must outlive parsing.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  Command add(const char* name, const char* what) const;
  /// Below the options in --help.
  void footer(const char* text) const;
  /// One of its commands must be, or may be, given.
  void needs_command() const;
  void takes_command() const;
  bool command_given() const;
  /// Whether the option is in the command line.
  bool given(const char* name) const;

  /// A number whose value now is the default.
  void number(const char* names, std::int64_t& value, const char* what) const;
  void text(const char* names, std::string& value, const char* what) const;
  /// The same, but it may not be empty; `type` stands for it in --help.
  void name(const char* names, std::string& value, const char* type, const char* what) const;
  /// The same, any number of times.
  void names(const char* names, std::vector<std::string>& values, const char* type, const char* what) const;
  /// A number that has no default to show.
  void name_number(const char* names, std::int64_t& value, const char* type, const char* what) const;
  /// Without a dash, and demanded.
  void operand(const char* name, std::string& value, const char* what) const;
  /// Any number of them.
  void operands(const char* name, std::vector<std::string>& values, const char* what) const;
  void flag(const char* names, bool& value, const char* what) const;
  /// Called if the command was given, once all is parsed.
  void when_given(std::function<void()> call) const;

 private:
  CLI::App* app_;
};

class CommandLine {
 public:
  CommandLine(const char* description, const char* footer, const char* version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command root() { return Command(*app_); }

  enum class Asked { run, help, version };
  /// What was asked for; `text` gets what --help and --version print. Throws UsageError.
  Asked parse(int argc, char** argv, std::string& text);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace tool
