// Parsing of the benchmark programs' arguments.
#include "command_line.hpp"

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
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--short") {
      arguments.quick = true;
    } else if (argument == "--strict") {
      arguments.strict = true;
    } else if (argument == "--only" && has_value) {
      arguments.only.emplace_back(argv[++i]);
    } else if (argument == "--json" && has_value) {
      arguments.json = argv[++i];
    } else {
      throw std::invalid_argument("unknown argument '" + std::string(argument) + "'");
    }
  }
  return arguments;
}

}  // namespace bench
