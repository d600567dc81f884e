// `weir calibrate`: by its own clock, a simulated device gives back its profile, whatever that is; and predictions by the file
// that is written are as good as by the profile.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <weir/recording.hpp>
#include <weir/sim.hpp>

#include "support/sanitizers.hpp"
#include "tool.hpp"

namespace {

using nlohmann::json;
using tool_test::Result;

/// What no program can see, or what is a rule of the driver's or of Weir's.
const std::set<std::string> not_measured = {"device.shared_bytes_per_sm",
                                            "device.work_queues",
                                            "device.own_work_queues",
                                            "device.copies_in_order",
                                            "device.dependency_check",
                                            "device.implicit_synchronization",
                                            "pageable.small_bytes",
                                            "pageable.staged_bytes",
                                            "hop.function_awake_us",
                                            "hop.function_wait_share",
                                            "hop.crowd_us",
                                            "hop.crowd_streams",
                                            "interval.short_low_percent",
                                            "interval.short_high_percent",
                                            "interval.middle_low_percent",
                                            "interval.middle_high_percent",
                                            "interval.long_low_percent",
                                            "interval.long_high_percent",
                                            "interval.host_functions_percent"};

class Calibrate : public testing::Test {
 protected:
  Calibrate() {
    folder_ = std::filesystem::temp_directory_path() / ("weir calibrate " + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~Calibrate() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  json calibrated(const std::string& device, const std::string& file) const {
    const Result result = tool_test::run({"calibrate", device, "-o", file});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::ifstream stream(file);
    return json::parse(stream);
  }

  std::filesystem::path folder_;
};

json shipped() { return json::parse(weir::sim::profile_text("h200")); }

/// All fields that are measured, within 2 %, or where they are small within 20 ns; those of all blocks' starts are smaller still.
void expect_equal(const json& card, const json& profile) {
  for (const auto& [group, fields] : profile.items()) {
    if (!fields.is_object()) continue;
    for (const auto& [field, said] : fields.items()) {
      const std::string name = group + "." + field;
      const json& found = card[group][field];
      const std::string source = found["source"];
      EXPECT_EQ(found["unit"], said["unit"]) << name;
      if (not_measured.count(name) != 0) {
        EXPECT_EQ(found["value"], shipped()[group][field]["value"]) << name;
        EXPECT_TRUE(source.starts_with("not measured, as in h200: ")) << name << ": " << source;
        continue;
      }
      EXPECT_TRUE(source.starts_with("weir calibrate sim:") || source.starts_with("property of sim:")) << source;
      const double value = said["value"], least = name == "blocks.start_us" ? 0 : 0.02;
      EXPECT_NEAR(found["value"].get<double>(), value, std::max(0.02 * value, least)) << name;
    }
  }
}

/// As tests/predict makes them: chunks of a copy in, a kernel and a copy out.
std::string pipeline(const std::vector<std::string>& row) {
  const int streams = std::stoi(row[2]), chunks = std::stoi(row[3]);
  std::string names, commands, waits;
  for (int i = 0; i < streams; ++i) {
    const std::string name = "s" + std::to_string(i) + "\"}", comma = i == 0 ? "" : ",";
    names += comma + R"({"kind":"non_blocking","name":")" + name;
    waits += comma + R"({"op":"synchronize","stream":")" + name;
  }
  for (int i = 0; i < 3 * chunks; ++i) {
    const bool depth = row[1] == "depth";
    const int chunk = depth ? i / 3 : i % chunks, what = depth ? i % 3 : i / chunks;
    const std::string& amount = row[what == 0 ? 4 : what == 1 ? 5 : 7];
    if (amount == "0") continue;
    commands += R"({"stream":"s)" + std::to_string(chunk % streams);
    if (what == 1) {
      commands +=
          R"(","op":"launch","cost":{"block_ns":)" + amount + R"(000,"blocks":)" + row[6] + R"(,"threads":128}},)";
      continue;
    }
    const char *from = what == 0 ? "host" : "data", *to = what == 0 ? "data" : "host";
    const std::string bytes = R"(,"bytes":)" + amount + "}";
    commands += R"(","op":"copy","from":{"buffer":")" + std::string(from) + '"' + bytes + R"(,"to":{"buffer":")" + to +
                '"' + bytes + "},";
  }
  return R"({"format":"weir.scenario","version":1,"streams":[)" + names +
         R"(],"buffers":[{"bytes":1610612736,"name":"host","kind":"pinned"},{"bytes":1610612736,"name":"data","kind":"device"}],"program":[)" +
         commands + waits + "]}";
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

TEST_F(Calibrate, a_simulated_device_gives_back_its_profile) {
  const json card = calibrated("sim:h200", path("card.json"));
  EXPECT_EQ(card["name"], "h200");
  expect_equal(card, shipped());
  // What is left there is the file alone.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(Calibrate, finds_what_is_different_about_another_device) {
  json changed = shipped();
  changed["name"] = "another";
  const std::map<std::string, double> fields = {{"/link/h2d_gb_s", 27.8},
                                                {"/link/d2h_gb_s", 20},
                                                {"/link/both_factor", 0.8},
                                                {"/link/setup_d2h_us", 5},
                                                {"/link/setup_both_us", 1},
                                                {"/link/peer_gb_s", 50},
                                                {"/host/launch_us", 5},
                                                {"/host/launch_memory_us", 6},
                                                {"/host/copy_us", 3},
                                                {"/host/wake_us", 4},
                                                {"/host/query_us", 0.8},
                                                {"/host/function_us", 4},
                                                {"/host/graph_us", 3},
                                                {"/host/graph_branch_us", 2},
                                                {"/start/kernel_us", 2},
                                                {"/start/copy_us", 1.5},
                                                {"/start/host_function_us", 5},
                                                {"/start/graph_branch_us", 1},
                                                {"/pageable/h2d_gb_s", 4},
                                                {"/pageable/staged_h2d_gb_s", 25},
                                                {"/pageable/setup_d2h_us", 20},
                                                {"/pageable/staged_d2h_gb_s", 10},
                                                {"/memory/gb_s", 1500},
                                                {"/memory/saturating_share", 0.3},
                                                {"/memory/kernel_us", 2},
                                                {"/memory/host_gb_s", 20},
                                                {"/hop/copy_kernel_us", 4},
                                                {"/hop/kernel_copy_us", 6},
                                                {"/hop/copy_copy_us", 1},
                                                {"/hop/kernel_kernel_us", 3},
                                                {"/hop/to_host_function_us", 10},
                                                {"/hop/from_host_function_us", 7},
                                                {"/hop/to_awake_function_us", 20},
                                                {"/hop/event_us", 2},
                                                {"/hop/passed_event_us", 3},
                                                {"/hop/legacy_us", 1.5},
                                                {"/hop/graph_us", 1.2},
                                                {"/blocks/turnaround_us", 1},
                                                {"/blocks/start_us", 0.001},
                                                {"/device/sms", 80},
                                                {"/device/threads_per_sm", 1536},
                                                {"/device/blocks_per_sm", 24},
                                                {"/device/pending_commands", 500},
                                                {"/device/copy_engines", 2},
                                                {"/device/memory_bytes", 16e9}};
  for (const auto& [field, value] : fields) changed[json::json_pointer(field + "/value")] = value;
  std::ofstream(path("another.json")) << changed;
  const json card = calibrated("sim:" + path("another.json"), path("card.json"));
  EXPECT_EQ(card["name"], "another");
  expect_equal(card, changed);
}

TEST_F(Calibrate, what_costs_nothing_is_found_to_cost_nothing) {
  json free = shipped();
  const json all = shipped();
  for (const auto& [group, fields] : all.items()) {
    if (!fields.is_object()) continue;
    for (const auto& [field, said] : fields.items()) {
      if (said["unit"] == "us" && not_measured.count(group + "." + field) == 0) free[group][field]["value"] = 0;
    }
  }
  // Asking for nothing would be no way to wait: the second question goes on to what happens next.
  free["host"]["query_us"]["value"] = 0.5;
  std::ofstream(path("free.json")) << free;
  const json card = calibrated("sim:" + path("free.json"), path("card.json"));
  expect_equal(card, free);
  EXPECT_EQ(tool_test::run({"devices", "--device", "sim:" + path("card.json")}).exit_code, 0);
}

TEST_F(Calibrate, C12_predictions_by_the_card_alone_are_as_good_as_by_the_profile) {
  const std::string card = path("card.json");
  calibrated("sim:h200", card);
  std::ifstream measured(std::string(WEIR_TEST_DATA) + "/pipelines.csv");
  std::vector<double> errors;
  std::string line;
  std::getline(measured, line);
  // A sanitizer takes each prediction long, and sees the same in all of them.
  const std::size_t every = weir_test::under_address_sanitizer ? 16 : 1;
  for (std::size_t i = 0; std::getline(measured, line); ++i) {
    if (i % every != 0) continue;
    const std::vector<std::string> row = split(line);
    const weir::Recording program = weir::parse_recording(pipeline(row));
    const double us = weir::sim::predict(program, {card, {}, false, false}).makespan_us;
    errors.push_back(100 * std::abs(us / std::stod(row[8]) - 1));
  }
  ASSERT_GT(errors.size(), 700u / every);
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 1);
  EXPECT_LT(errors[errors.size() * 95 / 100], 6);
}

TEST_F(Calibrate, C12_demos_take_as_long_by_the_card) {
  const std::string card = path("card.json");
  calibrated("sim:h200", card);
  for (const std::vector<std::string>& demo : {std::vector<std::string>{"vadd", "--n", "1000000"},
                                               {"prefetch", "--n", "200000"},
                                               {"normalize", "--n", "200000"}}) {
    const auto times = [&](const std::string& device) {
      std::vector<std::string> arguments = {"demo"};
      arguments.insert(arguments.end(), demo.begin(), demo.end());
      arguments.insert(arguments.end(), {"--repeat", "1", "--json", "--device", device});
      const Result result = tool_test::run(arguments);
      EXPECT_EQ(result.exit_code, 0) << result.err;
      return json::parse(result.out).flatten();
    };
    const json by_profile = times("sim:h200"), by_card = times("sim:" + card);
    int compared = 0;
    for (const auto& [name, value] : by_profile.items()) {
      if (!name.ends_with("_ms")) continue;
      ++compared;
      EXPECT_NEAR(by_card[name].get<double>(), value.get<double>(), 0.01 * value.get<double>()) << name;
    }
    EXPECT_GT(compared, 0) << by_profile;
  }
}

TEST_F(Calibrate, as_json_tells_each_field_beside_the_H200s) {
  const Result result = tool_test::run({"calibrate", "--device", "sim:h200", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json value = json::parse(result.out);
  EXPECT_EQ(value["device"], "sim:h200");
  EXPECT_GT(value["fields"].size(), 60u);
  for (const json& field : value["fields"]) {
    if (field["field"] != "link.h2d_gb_s") continue;
    EXPECT_NEAR(field["value"].get<double>(), 55.53, 0.5);
    EXPECT_EQ(field["h200"], 55.53);
    EXPECT_EQ(field["measured"], true);
  }
}

TEST_F(Calibrate, kernels_of_a_program_last_as_long_as_they_did) {
  const std::string costs = path("costs.json"), given = path("given.json");
  // Told apart from what the model would guess by their bytes.
  std::ofstream(given) << R"({"kernels":[{"name":"Digest","ns":123456}]})";
  const std::vector<std::string> demo = {"demo", "prefetch", "--n", "100000", "--repeat", "1", "--json"};
  std::vector<std::string> measure = {"calibrate", "sim:h200", "--kernels", "--json",
                                      "-o",        costs,      "--",        tool_test::tool_path()};
  measure.insert(measure.end(), demo.begin(), demo.end());
  const Result result = tool_test::run(measure, {.environment = {"WEIR_SIM_COSTS=" + given}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::ifstream stream(costs);
  const json kernels = json::parse(stream)["kernels"];
  ASSERT_EQ(kernels.size(), 1u) << kernels;
  EXPECT_NE(kernels[0]["name"].get<std::string>().find("Digest"), std::string::npos);
  EXPECT_NEAR(kernels[0]["ns"].get<double>(), 123456, 2);

  std::vector<std::string> again = demo;
  again.insert(again.end(), {"--device", "sim:h200"});
  const auto by = [&](const std::string& file) {
    return json::parse(tool_test::run(again, {.environment = {"WEIR_SIM_COSTS=" + file}}).out);
  };
  EXPECT_EQ(by(costs), by(given));
}

TEST_F(Calibrate, kernels_that_are_not_measured_leave_no_file) {
  const std::string tool = tool_test::tool_path();
  const std::vector<std::tuple<std::vector<std::string>, int, std::string>> cases = {
      {{"--kernels"}, 2, "--kernels takes a program"},
      {{"sim:h200", "--", tool}, 2, "-- PROGRAM goes with --kernels"},
      {{"cpu", "--kernels", "--", tool}, 2, "cpu is a CPU"},
      {{"sim:h200", "--kernels", "--", "/nowhere/program"}, 2, "cannot start '/nowhere/program'"},
      {{"sim:h200", "--kernels", "--", "true"}, 3, "nothing was measured"},
      {{"sim:h200", "--kernels", "--", tool, "demo", "vadd", "--n", "0"}, 3, "nothing was measured"},
  };
  for (const auto& [arguments, code, message] : cases) {
    std::vector<std::string> all = {"calibrate", "-o", path("costs.json")};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Result result = tool_test::run(all);
    EXPECT_EQ(result.exit_code, code) << message;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_TRUE(std::filesystem::is_empty(folder_)) << message;
  }
}

TEST_F(Calibrate, what_is_no_GPU_and_files_that_cannot_be_written_are_refused) {
  const std::vector<std::tuple<std::vector<std::string>, int, std::string>> cases = {
      {{"cpu"}, 2, "cpu is a CPU: profiles are those of GPUs"},
      {{"sim:h100"}, 2, "no device \"sim:h100\" ("},
      {{"sim:cc30"}, 2, "sim:cc30 has compute capability 3.0"},
      {{"sim:h200", "cuda:0"}, 2, "cuda:0: one device at a time"},
      {{"sim:h200", "--device", "sim:h200"}, 2, "--device names sim:h200 already"},
      {{"sim:h200", "-o", "/nowhere/card.json"}, 3, "/nowhere/card.json: it cannot be written"},
      {{"sim:h200", "-o", folder_.string()}, 3, "it cannot be written"},
  };
  for (const auto& [arguments, code, message] : cases) {
    std::vector<std::string> all = {"calibrate"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Result result = tool_test::run(all);
    EXPECT_EQ(result.exit_code, code) << message;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
