// The tool's help, devices, selftest, exit codes, and what it says to bad input.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tool.hpp"

namespace {

using nlohmann::json;
using tool_test::Result;
using tool_test::run;
using tool_test::text;

using Arguments = std::vector<std::string>;

TEST(Help, teaches_commands_and_exit_codes) {
  const Result result = run({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  for (const char* part : {"on NVIDIA GPUs and on CPUs", "devices", "demo", "selftest", "check", "predict", "trace",
                           "calibrate", "ranks", "weir demo vadd", "Exit codes", "--json"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << " is missing in\n" << result.out;
  }
}

TEST(Help, of_every_command_has_an_example) {
  const std::vector<Arguments> commands = {
      {"devices"},      {"calibrate"},         {"selftest"},         {"demo"},
      {"demo", "vadd"}, {"demo", "normalize"}, {"demo", "prefetch"}, {"demo", "default-stream"}};
  for (Arguments arguments : commands) {
    arguments.push_back("--help");
    const Result result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << text(arguments, result);
    EXPECT_NE(result.out.find("Example"), std::string::npos) << text(arguments, result);
    EXPECT_NE(result.out.find("--device"), std::string::npos) << text(arguments, result);
    EXPECT_NE(result.out.find("--json"), std::string::npos) << text(arguments, result);
    EXPECT_EQ(result.err, "") << text(arguments, result);
  }
}

TEST(Version, is_one_line) {
  const Result result = run({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out.substr(0, 5), "weir ");
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1);
}

TEST(Devices, are_listed_with_their_properties) {
  const Result result = run({"devices"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* part : {"cpu", "worker threads", "memory", "stream priorities", "copy engines"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << " is missing in\n" << result.out;
  }
}

TEST(Devices, as_json_can_be_read_by_a_program) {
  const Result result = run({"devices", "--json"}, {.environment = {"WEIR_CPU_DEVICES=2"}});
  ASSERT_EQ(result.exit_code, 0);
  const json devices = json::parse(result.out);
  std::vector<std::string> names;
  for (const json& device : devices) {
    names.push_back(device.at("device"));
    EXPECT_GT(device.at("memory").get<std::uint64_t>(), 0u) << device;
    EXPECT_GE(device.at("multiprocessors").get<int>(), 1) << device;
    EXPECT_TRUE(device.at("stream_priorities").contains("greatest")) << device;
  }
  EXPECT_NE(std::find(names.begin(), names.end(), "cpu:0"), names.end()) << devices;
  EXPECT_NE(std::find(names.begin(), names.end(), "cpu:1"), names.end()) << devices;
  EXPECT_NE(std::find(names.begin(), names.end(), "sim:h200"), names.end()) << devices;
}

TEST(Devices, that_are_simulated_are_the_default_ones_for_who_names_them) {
  for (const std::string name : {"sim:cc30", "sim:h200:1"}) {
    const Result result = run({"devices", "--json"}, {.environment = {"WEIR_DEVICE=" + name}});
    ASSERT_EQ(result.exit_code, 0);
    std::vector<std::string> defaults;
    for (const json& device : json::parse(result.out)) {
      if (device.at("default").get<bool>()) defaults.push_back(device.at("device"));
    }
    EXPECT_EQ(defaults, std::vector{name});
  }
}

TEST(Devices, can_be_asked_for_by_name) {
  const Result result = run({"devices", "--device", "cpu", "--json"});
  ASSERT_EQ(result.exit_code, 0);
  EXPECT_EQ(json::parse(result.out).size(), 1u);
}

TEST(Selftest, finds_every_rule_kept_on_one_screen) {
  const Result result = run({"selftest", "--device", "cpu"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(result.out.find("BROKEN"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("keeps the rules"), std::string::npos) << result.out;
  EXPECT_LE(std::count(result.out.begin(), result.out.end(), '\n'), 24) << "more than a screen";
}

TEST(Selftest, tries_two_devices_where_there_are_two) {
  const Result result = run({"selftest", "--json"}, {.environment = {"WEIR_CPU_DEVICES=2"}});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const json value = json::parse(result.out);
  EXPECT_EQ(value.at("kept"), true);
  EXPECT_EQ(value.at("broken"), 0);
  EXPECT_GE(value.at("checks").size(), 18u);
  for (const json& check : value.at("checks")) EXPECT_EQ(check.at("result"), "kept") << check;
}

TEST(Selftest, plants_hazards_that_a_checker_of_the_program_does_not_tell) {
  EXPECT_NE(run({"selftest"}).out.find("by the checker too"), std::string::npos);
  const Result result = run({"selftest"}, {.environment = {"WEIR_CHECK=1"}});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(result.err.find("hazard:"), std::string::npos) << result.err;
}

TEST(Selftest, exits_with_1_when_a_rule_is_broken) {
  const Result people = run({"selftest", "--show-failure"});
  EXPECT_EQ(people.exit_code, 1) << people.out << people.err;
  EXPECT_NE(people.out.find("BROKEN"), std::string::npos) << people.out;
  EXPECT_NE(people.out.find("K2 ran before K1 had ended"), std::string::npos) << people.out;
  const Result program = run({"selftest", "--show-failure", "--json"});
  EXPECT_EQ(program.exit_code, 1);
  const json value = json::parse(program.out);
  EXPECT_EQ(value.at("kept"), false);
  EXPECT_EQ(value.at("broken"), 1);
}

struct BadInput {
  Arguments arguments;
  std::string says;  ///< what the message must name
};

const std::vector<BadInput> bad_inputs = {
    {{}, "help"},
    {{"nonsense"}, "nonsense"},
    {{"nonsense"}, "calibrate, check, devices, demo, graph, predict, ranks, record, run, selftest and trace"},
    {{"record", "-o", "/no/such/folder/a.json", "--", "true"}, "-o /no/such/folder/a.json"},
    {{"demo", "nonsense"}, "nonsense"},
    {{"demo", "vadd", "--nonsense"}, "--nonsense"},
    {{"demo", "vadd", "extra"}, "extra"},
    {{"demo", "vadd", "--n", "0"}, "--n 0"},
    {{"demo", "vadd", "--n", "-5"}, "--n"},
    {{"demo", "vadd", "--n=-5"}, "--n -5"},
    {{"demo", "vadd", "--n", "many"}, "--n"},
    {{"demo", "vadd", "--n", "1.5"}, "--n"},
    {{"demo", "vadd", "--n", ""}, "--n"},
    {{"demo", "vadd", "--n"}, "--n"},
    {{"demo", "vadd", "--n", "1000000000000"}, "GiB"},
    {{"demo", "vadd", "--n", "99999999999999999"}, "--n"},
    {{"demo", "vadd", "--n", "99999999999999999999999"}, "--n"},
    {{"demo", "vadd", "--streams", "0"}, "--streams 0"},
    {{"demo", "vadd", "--streams", "1000000000"}, "--streams 1000000000"},
    {{"demo", "vadd", "--n", "4", "--streams", "5"}, "more streams than elements"},
    {{"demo", "vadd", "--repeat", "0"}, "--repeat 0"},
    {{"demo", "vadd", "--device", "toaster"}, "cpu"},
    {{"demo", "vadd", "--device", "cpu:99"}, "cpu:99"},
    {{"demo", "vadd", "--device", ""}, "--device"},
    {{"demo", "vadd", "--device", "a\nb"}, "a"},
    {{"demo", "normalize", "--arrays", "0"}, "--arrays 0"},
    {{"demo", "normalize", "--n", "0"}, "--n 0"},
    {{"demo", "normalize", "--arrays", "4000", "--n", "1000000000"}, "GiB"},
    {{"demo", "normalize", "--arrays", "99999"}, "--arrays 99999"},
    {{"demo", "prefetch", "--batches", "0"}, "--batches 0"},
    {{"demo", "prefetch", "--n", "0"}, "--n 0"},
    {{"demo", "prefetch", "--n", "1000000000000"}, "GiB"},
    {{"demo", "default-stream", "--device", "cuda:77"}, "cuda:77"},
    {{"demo", "--device", "toaster"}, "toaster"},
    {{"devices", "--device", "toaster"}, "toaster"},
    {{"selftest", "--device", "toaster"}, "toaster"},
    {{"selftest", "--json=maybe"}, "json"},
};

/// Exit code 2, nothing on stdout, and one line on stderr that names what is wrong.
void expect_refused(const Arguments& arguments, const std::string& says) {
  const Result result = run(arguments);
  EXPECT_EQ(result.exit_code, 2) << text(arguments, result);
  EXPECT_EQ(result.out, "") << text(arguments, result);
  EXPECT_EQ(result.err.substr(0, 6), "weir: ") << text(arguments, result);
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << text(arguments, result);
  EXPECT_NE(result.err.find(says), std::string::npos) << "does not say " << says << "\n" << text(arguments, result);
}

TEST(BadInput, gets_one_line_and_exit_code_2) {
  for (const BadInput& bad : bad_inputs) expect_refused(bad.arguments, bad.says);
}

TEST(BadInput, does_nothing_to_the_terminal_that_it_is_told_on) {
  const std::string hostile =
      "\x1b[2J\x07\xc2\x9b"
      "x";
  const std::vector<Arguments> all = {{hostile},
                                      {"devices", "--device", hostile},
                                      {"trace", "summary", hostile},
                                      {"trace", "diff", hostile, hostile, "--fail-if", hostile},
                                      {"check", hostile},
                                      {"predict", hostile}};
  for (const Arguments& arguments : all) {
    const Result result = run(arguments);
    EXPECT_EQ(result.exit_code, 2) << text(arguments, result);
    EXPECT_NE(result.err.find(R"(\x1b[2J\x07\x9bx)"), std::string::npos) << text(arguments, result);
    EXPECT_EQ(result.err.find_first_of("\x1b\x07\x9b"), std::string::npos) << text(arguments, result);
  }
}

TEST(BadInput, writes_no_garbage_where_json_is_wanted) {
  for (const BadInput& bad : bad_inputs) {
    if (bad.arguments.empty()) continue;
    Arguments arguments = bad.arguments;
    if (arguments.back() == "--n") continue;  // would take the flag for its value
    arguments.push_back("--json");
    expect_refused(arguments, bad.says);
  }
}

TEST(BadInput, a_default_device_that_does_not_exist_is_refused_too) {
  const Result result = run({"selftest", "--json"}, {.environment = {"WEIR_DEVICE=toaster"}});
  EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("toaster"), std::string::npos) << result.err;
}

TEST(BadInput, an_environment_that_makes_no_sense_is_refused) {
  for (const char* setting : {"WEIR_LAUNCH_BLOCKING=true", "WEIR_LAUNCH_BLOCKING=2", "WEIR_CPU_DEVICES=many"}) {
    const Result result = run({"devices", "--json"}, {.environment = {setting}});
    EXPECT_NE(result.exit_code, 0) << setting << result.out;
    EXPECT_EQ(result.out, "") << setting;
    const std::string name(setting, std::string(setting).find('='));
    EXPECT_NE(result.err.find(name), std::string::npos) << result.err;
  }
  EXPECT_EQ(run({"devices"}, {.environment = {"WEIR_LAUNCH_BLOCKING=1"}}).exit_code, 0);
}

TEST(Help, as_json_is_json) {
  for (const Arguments& arguments :
       {Arguments{"--help", "--json"}, Arguments{"--json", "--help"}, Arguments{"demo", "vadd", "--help", "--json"},
        Arguments{"devices", "--json", "-h"}}) {
    const Result result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << text(arguments, result);
    EXPECT_EQ(result.err, "") << text(arguments, result);
    const json value = json::parse(result.out, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << text(arguments, result);
    EXPECT_NE(value.at("help").get<std::string>().find("--json"), std::string::npos) << value;
  }
  const Result version = run({"--version", "--json"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(json::parse(version.out).at("version").get<std::string>().find("weir"), std::string::npos) << version.out;
}

TEST(Failure, of_writing_exits_with_3) {
  for (const Arguments& arguments :
       {Arguments{"devices"}, Arguments{"devices", "--json"}, Arguments{"--help"}, Arguments{"selftest"}}) {
    const Result result = run(arguments, {.out_path = "/dev/full"});
    EXPECT_EQ(result.exit_code, 3) << text(arguments, result);
    EXPECT_NE(result.err.find("cannot be written"), std::string::npos) << text(arguments, result);
  }
}

}  // namespace
