// The command line, by CLI11.
#include "command_line.hpp"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "exit.hpp"

namespace tool {

namespace {

std::string describe(const CLI::ParseError& error, const CLI::App& app, int argc, char** argv) {
  if (app.get_subcommands().empty() && argc > 1 && argv[1][0] != '-') {
    std::string names;
    const std::vector<const CLI::App*> commands = app.get_subcommands([](const CLI::App*) { return true; });
    for (const CLI::App* command : commands) {
      names += names.empty() ? "" : command == commands.back() ? " and " : ", ";
      names += command->get_name();
    }
    return fmt::format("no command \"{}\": there is {} (see weir --help)", argv[1], names);
  }
  return fmt::format("{} (see weir --help)", error.what());
}

}  // namespace

Command Command::add(const char* name, const char* what) const { return Command(*app_->add_subcommand(name, what)); }
void Command::footer(const char* text) const { app_->footer(text); }
void Command::needs_command() const { app_->require_subcommand(1); }
void Command::takes_command() const { app_->require_subcommand(0, 1); }
bool Command::command_given() const { return !app_->get_subcommands().empty(); }
bool Command::given(const char* name) const { return app_->count(name) > 0; }

void Command::number(const char* names, std::int64_t& value, const char* what) const {
  app_->add_option(names, value, what)->capture_default_str();
}
void Command::text(const char* names, std::string& value, const char* what) const {
  app_->add_option(names, value, what);
}
void Command::name(const char* names, std::string& value, const char* type, const char* what) const {
  const auto is_name = [](const std::string& given) {
    return given.empty() ? std::string("no name given") : std::string();
  };
  app_->add_option(names, value, what)->type_name(type)->check(is_name);
}
void Command::names(const char* names, std::vector<std::string>& values, const char* type, const char* what) const {
  app_->add_option(names, values, what)->type_name(type)->allow_extra_args(false);
}
void Command::name_number(const char* names, std::int64_t& value, const char* type, const char* what) const {
  app_->add_option(names, value, what)->type_name(type);
}
void Command::operand(const char* name, std::string& value, const char* what) const {
  app_->add_option(name, value, what)->required();
}
void Command::operands(const char* name, std::vector<std::string>& values, const char* what) const {
  app_->add_option(name, values, what);
}
void Command::flag(const char* names, bool& value, const char* what) const {
  app_->add_flag(names, value, what)->disable_flag_override();
}
void Command::when_given(std::function<void()> call) const { app_->callback(std::move(call)); }

CommandLine::CommandLine(const char* description, const char* footer, const char* version)
    : app_(std::make_unique<CLI::App>(description, "weir")) {
  app_->footer(footer);
  app_->set_version_flag("--version", version, "Print the version and exit");
  app_->get_formatter()->column_width(28);
  app_->require_subcommand(1);
}
CommandLine::~CommandLine() = default;

CommandLine::Asked CommandLine::parse(int argc, char** argv, std::string& text) {
  try {
    app_->parse(argc, argv);
    return Asked::run;
  } catch (const CLI::Success& request) {  // --help and --version
    std::ostringstream shown;
    app_->exit(request, shown, shown);
    text = shown.str();
    return dynamic_cast<const CLI::CallForVersion*>(&request) != nullptr ? Asked::version : Asked::help;
  } catch (const CLI::ParseError& error) {
    throw UsageError(describe(error, *app_, argc, argv));
  }
}

}  // namespace tool
