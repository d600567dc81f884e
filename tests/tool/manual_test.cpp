// The manual page tells every command and every option that the tool has.
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tool.hpp"

namespace {

using Words = std::vector<std::string>;

/// The page as a reader sees it, but for the font: "\\-" is "-".
std::string page() {
  std::ifstream file(std::string(WEIR_TEST_DATA) + "/../../docs/man/weir.1");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string read;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') read += text[i];
  }
  return read;
}

/// What begins the lines between a heading of the help and the next empty line.
Words names_below(const std::string& help, const std::string& heading) {
  Words names;
  std::size_t at = help.find("\n" + heading + ":\n");
  if (at == std::string::npos) return names;
  at += heading.size() + 3;
  while (at < help.size() && help[at] != '\n') {
    const std::size_t end = help.find('\n', at);
    const std::string line = help.substr(at, end - at);
    if (line.compare(0, 2, "  ") == 0 && line[2] != ' ') {
      const std::string name = line.substr(2, line.find_first_of(" =", 2) - 2);
      names.push_back(name.substr(name.rfind(',') + 1));  // "-o,--output"
    }
    at = end + 1;
  }
  return names;
}

void compare(const Words& command, const std::string& page) {
  Words asked = command;
  asked.emplace_back("--help");
  const tool_test::Result result = tool_test::run(asked);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto has = [&](const std::string& name) {
    return std::regex_search(page, std::regex("(^|[^-a-z])" + name + "($|[^-a-z])"));
  };
  for (const std::string& option : names_below(result.out, "Options"))
    EXPECT_TRUE(has(option)) << option << " of " << (command.empty() ? "weir" : command.back());
  for (const std::string& name : names_below(result.out, "Subcommands")) {
    EXPECT_TRUE(has(name)) << name;
    Words below = command;
    below.push_back(name);
    compare(below, page);
  }
}

}  // namespace

TEST(ManualPage, has_every_command_and_every_option) {
  const std::string text = page();
  ASSERT_GT(text.size(), 1000u);
  compare({}, text);
}
