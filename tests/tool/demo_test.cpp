// `weir demo`: results, pictures, JSON and sizes.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
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

/// Runs, expects exit code 0 and nothing on stderr, and parses stdout.
json run_json(const Arguments& arguments) {
  const Result result = run(arguments);
  EXPECT_EQ(result.exit_code, 0) << text(arguments, result);
  EXPECT_EQ(result.err, "") << text(arguments, result);
  const json value = json::parse(result.out, nullptr, false);
  EXPECT_FALSE(value.is_discarded()) << text(arguments, result);
  return value;
}

std::set<std::string> keys(const json& value) {
  std::set<std::string> names;
  for (const auto& [name, unused] : value.items()) names.insert(name);
  return names;
}

TEST(Vadd, json_has_what_scripts_expect_and_nothing_else) {
  const json value = run_json({"demo", "vadd", "--n", "100000", "--streams", "5", "--device", "cpu", "--json"});
  EXPECT_EQ(keys(value),
            (std::set<std::string>{"device", "n", "streams", "one_stream_ms", "streams_ms", "speedup", "correct"}));
  EXPECT_EQ(value.at("n"), 100000);
  EXPECT_EQ(value.at("streams"), 5);
  EXPECT_EQ(value.at("correct"), true);
  EXPECT_GT(value.at("one_stream_ms").get<double>(), 0);
  EXPECT_GT(value.at("streams_ms").get<double>(), 0);
  EXPECT_GT(value.at("speedup").get<double>(), 0);
  EXPECT_EQ(value.at("device").get<std::string>().substr(0, 3), "cpu");
}

TEST(Vadd, is_correct_for_sizes_that_do_not_divide) {
  const std::vector<std::pair<std::string, std::string>> sizes = {
      {"1", "1"}, {"2", "2"}, {"7", "3"}, {"7", "7"}, {"1000003", "7"}, {"4099", "4096"}, {"50000", "1"}};
  for (const auto& [n, streams] : sizes) {
    const json value = run_json({"demo", "vadd", "--n", n, "--streams", streams, "--repeat", "2", "--json"});
    EXPECT_EQ(value.at("correct"), true) << n << " elements, " << streams << " streams";
  }
}

TEST(Vadd, says_that_the_result_is_correct) {
  const Arguments arguments = {"demo", "vadd", "--n", "20001", "--streams", "4"};
  const Result result = run(arguments);
  EXPECT_EQ(result.exit_code, 0) << text(arguments, result);
  EXPECT_NE(result.out.find("result correct"), std::string::npos) << text(arguments, result);
  EXPECT_NE(result.out.find("20,001 doubles"), std::string::npos) << text(arguments, result);
  EXPECT_EQ(result.err, "");
}

TEST(Normalize, times_by_events_and_by_the_host) {
  const json value = run_json({"demo", "normalize", "--arrays", "3", "--n", "50001", "--json"});
  EXPECT_EQ(value.at("correct"), true);
  EXPECT_EQ(value.at("arrays"), 3);
  for (const char* variant : {"one_stream", "streams"}) {
    const double events = value.at(variant).at("events_ms");
    const double host = value.at(variant).at("host_ms");
    EXPECT_GT(events, 0) << variant;
    EXPECT_GE(host, 0.5 * events) << variant << ": the host waits for the last event";
  }
}

TEST(Normalize, draws_a_bar_for_each_array) {
  const Arguments arguments = {"demo", "normalize", "--arrays", "4", "--n", "10000"};
  const Result result = run(arguments);
  EXPECT_EQ(result.exit_code, 0) << text(arguments, result);
  EXPECT_NE(result.out.find("array 3"), std::string::npos) << text(arguments, result);
  EXPECT_EQ(result.out.find("array 4 "), std::string::npos) << text(arguments, result);
}

TEST(Prefetch, is_correct_for_few_and_many_batches) {
  for (const char* batches : {"1", "2", "3", "17"}) {
    const json value = run_json({"demo", "prefetch", "--batches", batches, "--n", "30011", "--repeat", "2", "--json"});
    EXPECT_EQ(value.at("correct"), true) << batches << " batches";
    EXPECT_GT(value.at("two_streams_ms").get<double>(), 0);
  }
}

TEST(Heat, is_the_same_on_every_number_of_ranks_bit_for_bit) {
  const std::vector<std::pair<std::string, std::string>> plates = {{"3", "1"},  {"4", "2"},   {"9", "7"},
                                                                   {"34", "3"}, {"130", "2"}, {"513", "4"}};
  for (const auto& [size, ranks] : plates) {
    const Arguments arguments = {"demo",    "heat", "--size",   size, "--ranks", ranks,
                                 "--steps", "7",    "--repeat", "2",  "--json"};
    const Result result = run(arguments, {.environment = {"WEIR_CPU_DEVICES=2"}});
    ASSERT_EQ(result.exit_code, 0) << text(arguments, result);
    const json value = json::parse(result.out);
    EXPECT_EQ(value.at("equal"), true) << text(arguments, result);
    EXPECT_EQ(std::to_string(value.at("ranks").get<int>()), ranks);
    EXPECT_EQ(value.at("devices").get<std::string>().substr(0, 5), "cpu:0");
  }
}

TEST(Heat, runs_on_the_devices_that_are_named) {
  const auto run_on = [](const std::string& demo, const std::string& size, const std::string& devices) {
    return run({"demo", demo, size, "66", "--repeat", "1", "--device", devices, "--json"},
               {.environment = {"WEIR_CPU_DEVICES=2"}});
  };
  for (const std::string names : {"cpu:0,cpu:1", "cpu:1,cpu:0,cpu:1"}) {
    const Result result = run_on("heat", "--size", names);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json value = json::parse(result.out);
    std::string said = value.at("devices");
    std::erase(said, ' ');
    EXPECT_EQ(said, names);
    EXPECT_EQ(value.at("equal"), true);
  }
  const Result absent = run_on("heat", "--size", "cpu:0,cpu:7");
  EXPECT_EQ(absent.exit_code, 2);
  EXPECT_NE(absent.err.find("--device: no device \"cpu:7\""), std::string::npos) << absent.err;
  EXPECT_EQ(run_on("vadd", "--n", "cpu:0,cpu:1").exit_code, 2);
}

TEST(Heat, orders_all_that_it_does) {
  const Arguments arguments = {"demo", "heat", "--size", "66", "--ranks", "3", "--steps", "5", "--repeat", "1"};
  const Result result = run(arguments, {.environment = {"WEIR_CPU_DEVICES=2", "WEIR_CHECK=throw"}});
  EXPECT_EQ(result.exit_code, 0) << text(arguments, result);
  EXPECT_NE(result.out.find("bit for bit equal"), std::string::npos) << text(arguments, result);
}

std::ptrdiff_t place(const json& order, const std::string& what) {
  const auto found = std::find(order.begin(), order.end(), what);
  EXPECT_NE(found, order.end()) << what << " is not in " << order;
  return found - order.begin();
}

TEST(DefaultStream, shows_three_rules_as_orders_of_events) {
  const json value = run_json({"demo", "default-stream", "--json"});
  EXPECT_EQ(value.at("kept"), true);
  const json& rules = value.at("rules");
  ASSERT_EQ(rules.size(), 5u);
  std::set<int> numbers;
  for (const json& rule : rules) {
    numbers.insert(rule.at("rule").get<int>());
    EXPECT_EQ(rule.at("kept"), true) << rule;
  }
  EXPECT_EQ(numbers, (std::set<int>{1, 2, 3}));
  const json& in_order = rules[0].at("order");
  EXPECT_LT(place(in_order, "K1 ends"), place(in_order, "K2"));
  EXPECT_LT(place(in_order, "K3 ends"), place(in_order, "K4"));
  const json& unordered = rules[1].at("order");
  EXPECT_LT(place(unordered, "K4"), place(unordered, "K1 ends"));
  const json& default_waits = rules[2].at("order");
  EXPECT_LT(place(default_waits, "K1 ends"), place(default_waits, "D1"));
  EXPECT_LT(place(default_waits, "K2 ends"), place(default_waits, "D1"));
  EXPECT_LT(place(default_waits, "K3"), place(default_waits, "K1 ends"));
}

TEST(DefaultStream, draws_streams_as_rows) {
  const Arguments arguments = {"demo", "default-stream"};
  const Result result = run(arguments);
  EXPECT_EQ(result.exit_code, 0) << text(arguments, result);
  for (const char* part :
       {"Rule 1", "Rule 2", "Rule 3", "A  blocking", "N  non-blocking", "P  per-thread", "D  default", "[K1", "kept"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << " is missing in\n" << text(arguments, result);
  }
  EXPECT_EQ(result.out.find("BROKEN"), std::string::npos) << text(arguments, result);
}

TEST(Demo, without_a_name_runs_all_and_ends_with_a_table) {
  const Arguments arguments = {"demo", "--small"};
  const Result result = run(arguments);
  EXPECT_EQ(result.exit_code, 0) << text(arguments, result);
  const std::size_t table = result.out.find("\ndemo  ");
  ASSERT_NE(table, std::string::npos) << text(arguments, result);
  for (const char* name : {"\nvadd ", "\nnormalize ", "\nprefetch ", "\nheat ", "\ndefault-stream "}) {
    EXPECT_NE(result.out.find(name, table), std::string::npos) << name << " is not in the table\n" << result.out;
  }
}

// A size that is said stays, wherever --small stands.
TEST(Demo, takes_its_options_before_its_name_and_behind_it) {
  const std::vector<std::pair<std::string, std::int64_t>> sizes = {
      {"vadd", 1'000'003}, {"normalize", 100'000}, {"prefetch", 100'000}, {"heat", 258}};
  for (const auto& [demo, size] : sizes) {
    const std::string option = demo == "heat" ? "size" : "n";
    const Arguments fewer = {"--repeat", "1", "--json"};
    const auto with = [&](Arguments arguments) {
      arguments.insert(arguments.end(), fewer.begin(), fewer.end());
      return run_json(arguments).at(option).get<std::int64_t>();
    };
    EXPECT_EQ(with({"demo", "--small", demo}), size) << demo;
    EXPECT_EQ(with({"demo", demo, "--small"}), size) << demo;
    EXPECT_EQ(with({"demo", "--small", demo, "--" + option, "1000"}), 1000) << demo;
    EXPECT_EQ(with({"demo", demo, "--" + option, "1000", "--small"}), 1000) << demo;
  }
  for (const char* demo : {"default-stream", "overlap"}) {
    EXPECT_EQ(run({"demo", demo, "--small"}).exit_code, 0) << demo;
    EXPECT_EQ(run({"demo", "--small", demo}).exit_code, 0) << demo;
  }
}

TEST(Demo, json_holds_every_demo) {
  const json value = run_json({"demo", "--small", "--json"});
  EXPECT_EQ(keys(value.at("demos")),
            (std::set<std::string>{"vadd", "normalize", "prefetch", "heat", "default-stream"}));
  EXPECT_EQ(value.at("correct"), true);
}

TEST(Demo, runs_on_the_device_asked_for) {
  const Arguments arguments = {"demo", "vadd", "--n", "1000", "--device", "cpu:1", "--json"};
  const Result result = run(arguments, {.environment = {"WEIR_CPU_DEVICES=2"}});
  ASSERT_EQ(result.exit_code, 0) << text(arguments, result);
  EXPECT_EQ(json::parse(result.out).at("device"), "cpu:1");
}

// The times are the profile's: the same bytes each time, whoever runs the commands, and those of the device, within 10 percent.
TEST(Demo, on_a_simulated_device_prints_the_devices_times) {
  for (const char* demo : {"vadd", "prefetch", "normalize"}) {
    const Arguments arguments = {"demo", demo, "--n", "50000", "--device", "sim:h200", "--json"};
    const Result one = run(arguments, {.environment = {"WEIR_CPU_WORKERS=1"}});
    ASSERT_EQ(one.exit_code, 0) << text(arguments, one);
    EXPECT_EQ(json::parse(one.out).at("correct"), true);
    EXPECT_EQ(run(arguments, {.environment = {"WEIR_CPU_WORKERS=8"}}).out, one.out);
  }
  // Measured on an H200 by the same demos: 2.79 and 2.57 ms; 6.42 and 3.7.
  const json prefetch = run_json({"demo", "prefetch", "--repeat", "1", "--device", "sim:h200", "--json"});
  EXPECT_NEAR(prefetch.at("one_stream_ms").get<double>(), 2.79, 0.279);
  EXPECT_NEAR(prefetch.at("two_streams_ms").get<double>(), 2.57, 0.257);
  const json normalize = run_json({"demo", "normalize", "--repeat", "1", "--device", "sim:h200", "--json"});
  EXPECT_NEAR(normalize.at("one_stream").at("events_ms").get<double>(), 6.42, 0.642);
  EXPECT_NEAR(normalize.at("streams").at("events_ms").get<double>(), 3.7, 0.37);
}

TEST(Demo, on_a_simulated_device_takes_the_costs_of_a_file) {
  const auto path = std::filesystem::temp_directory_path() / ("weir_costs_" + std::to_string(getpid()) + ".json");
  const Arguments arguments = {"demo", "prefetch", "--batches", "4", "--n", "1000", "--device", "sim:h200", "--json"};
  const auto with = [&](const std::string& costs) {
    std::ofstream(path) << costs;
    return run(arguments, {.environment = {"WEIR_SIM_COSTS=" + path.string()}});
  };
  const Result five = with(R"({"kernels": [{"name": "Digest", "ns": 5000000}]})");
  ASSERT_EQ(five.exit_code, 0) << text(arguments, five);
  EXPECT_NEAR(json::parse(five.out).at("two_streams_ms").get<double>(), 20, 0.2);
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"kernels": [{"name": "Digest", "nanoseconds": 5}]})", "kernels.0.nanoseconds: costs have ns, block_ns"},
      {R"({"kernels": [{"ns": 5}]})", "kernels.0: it has no name"},
      {R"({"kernels": [{"name": "Digest"}]})", "kernels.0: it says nothing of how long Digest lasts"},
      {R"({"kernels": [{"name": "Digest", "ns": 5}, {"name": "Digest", "ns": 6}]})",
       "kernels.1.name: Digest is there twice"},
      {R"({"kernels": [{"name": "Digest", "ns": -5}]})", "kernels.0.ns: it is below 0"},
      {R"({"kernel": 5})", "kernel: a file of costs has the list"},
      {R"({"kernels": [], "more": {}})", "more: a file of costs has the list"},
      {R"({"kernels": [{"name": "Digest", "ns": 5}, {}]})", "kernels.1: it is empty"},
      {R"({"kernels": [{"name": "Digest", "cost": {"ns": 5}}]})", "kernels.0.cost: costs have ns, block_ns"},
      {"", "it cannot be read, or is empty"},
      {R"({"kernels": [{"name": "Digest", "blocks": 1.5}]})", "kernels.0.blocks: it is no whole number"},
      {R"({"kernels": [{"name": "Digest", "blocks": 0}]})", "kernels.0.blocks: a kernel has one at least"},
      {R"({"kernels": [{"name": "Digest", "threads": 0}]})", "kernels.0.threads: a kernel has one at least"},
      {"kernels", "parse error"}};
  for (const auto& [costs, message] : wrong) {
    const Result refused = with(costs);
    EXPECT_NE(refused.exit_code, 0) << costs;
    EXPECT_NE(refused.err.find("WEIR_SIM_COSTS: " + path.string() + ": "), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find(message), std::string::npos) << refused.err;
  }
  std::filesystem::remove(path);
  for (const std::string no_file : {"/nowhere.json", "/tmp"})
    EXPECT_NE(run(arguments, {.environment = {"WEIR_SIM_COSTS=" + no_file}})
                  .err.find("WEIR_SIM_COSTS: " + no_file + ": it cannot be read"),
              std::string::npos);
}

TEST(Demo, says_what_is_wrong_with_the_file_of_a_simulated_device) {
  const auto path = std::filesystem::temp_directory_path() / ("weir_card_" + std::to_string(getpid()) + ".json");
  std::ofstream(path) << "{}";
  const std::string device = "sim:" + path.string();
  const Result named = run({"demo", "vadd", "--device", device}),
               wanted = run({"demo", "vadd"}, {.environment = {"WEIR_DEVICE=" + device}});
  for (const Result* refused : {&named, &wanted}) {
    EXPECT_EQ(refused->exit_code, 2);
    EXPECT_NE(refused->err.find("no device \"" + device + "\" (format: it is missing); there is: cpu"),
              std::string::npos)
        << refused->err;
  }
  std::filesystem::remove(path);
  EXPECT_NE(run({"demo", "vadd", "--device", device}).err.find("(it cannot be read: No such file or directory)"),
            std::string::npos);
}

// Order and device on one page: the same times as the rules give, row by row.
TEST(Demo, overlap_shows_both_orders_on_four_generations) {
  const json value = run_json({"demo", "overlap", "--json"});
  EXPECT_EQ(value.at("correct"), true);
  ASSERT_EQ(value.at("rows").size(), 12u);
  const auto row = [&](const char* name, const char* device) {
    for (const json& one : value.at("rows")) {
      if (one.at("case") == name && one.at("device") == device) return one;
    }
    return json();
  };
  const json waves = row("three waves", "sim:cc30");
  EXPECT_EQ(waves.at("depth").at("commands").at("K1"), (json{8.0, 14.0}));
  EXPECT_EQ(waves.at("breadth").at("commands").at("K1"), (json{6.0, 12.0}));
  EXPECT_EQ(waves.at("breadth").at("commands").at("D0"), (json{10.0, 12.0}));
  EXPECT_EQ(row("long copies", "sim:fermi-1-engine").at("depth").at("ms"), 20.0);
  EXPECT_EQ(row("long copies", "sim:cc30").at("breadth").at("ms"), 16.0) << "what overlaps is not all";
  EXPECT_LT(row("long copies", "sim:h200").at("depth").at("ms").get<double>(), 1.6);
  const Arguments arguments = {"demo", "overlap"};
  const Result result = run(arguments);
  EXPECT_EQ(result.exit_code, 0) << text(arguments, result);
  EXPECT_NE(result.out.find("    HHHHKKKKKKKKKKKKDDDD"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("nothing overlaps"), std::string::npos);
}

// How long a run takes depends on the machine, so runs grow until one takes long.
TEST(Progress, is_drawn_on_a_terminal_when_a_run_takes_long) {
  if (!tool_test::has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  for (int repeat = 5; repeat <= 10'000; repeat *= 4) {
    const Arguments arguments = {"demo", "vadd", "--n", "500000", "--repeat", std::to_string(repeat), "--json"};
    const Result result = run(arguments, {.terminal = true});
    ASSERT_EQ(result.exit_code, 0) << text(arguments, result);
    EXPECT_EQ(json::parse(result.out).at("correct"), true);
    if (result.err.empty()) continue;
    EXPECT_NE(result.err.find("vadd ["), std::string::npos) << text(arguments, result);
    EXPECT_NE(result.err.find("\r\033[K"), std::string::npos) << "the bar was not erased at the end";
    return;
  }
  FAIL() << "no run drew anything";
}

// Short is what lasts less than a second: on a busy machine one run of some has to do.
TEST(Progress, is_not_drawn_for_a_short_run) {
  if (!tool_test::has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  const Arguments arguments = {"demo", "vadd", "--n", "10", "--json"};
  std::string drawn = "?";
  for (int tries = 0; tries < 10 && !drawn.empty(); ++tries) {
    const Result result = run(arguments, {.terminal = true});
    ASSERT_EQ(result.exit_code, 0) << text(arguments, result);
    drawn = result.err;
  }
  EXPECT_EQ(drawn, "");
}

}  // namespace
