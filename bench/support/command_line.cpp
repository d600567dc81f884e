// Parsing of the benchmark programs' arguments.
#include "command_line.hpp"

#include <CLI/CLI.hpp>

namespace bench {

Options Arguments::options() const {
  Options options;
  if (quick) {
    options.repetitions = 3;
    options.divide = 10;
  }
  return options;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  CLI::App app;
  app.set_help_flag();  // what there is, the program says with the names of its benchmarks
  app.add_flag("--short", arguments.quick);
  app.add_flag("--strict", arguments.strict);
  app.add_option("--only", arguments.only)->allow_extra_args(false);
  app.add_option("--json", arguments.json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& mistake) {
    throw std::invalid_argument(mistake.what());
  }
  return arguments;
}

}  // namespace bench
