// `weir predict`: what it prints, its exit codes, and what it refuses.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "data/measured_programs.hpp"
#include "support/sanitizers.hpp"
#include "tool.hpp"

namespace {

using nlohmann::json;
using tool_test::Result;

/// A sanitizer takes each prediction long, and sees the same in all of them: it gets one of so many.
constexpr std::size_t one_of = weir_test::under_address_sanitizer ? 4 : 1;

class PredictVerb : public testing::Test {
 protected:
  PredictVerb() {
    folder_ = std::filesystem::temp_directory_path() / ("weir predict " + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    // Two chunks in two streams: copy in 16 MiB, a kernel of 200 us, copy out.
    std::string program;
    for (const std::string s : {"0", "1"}) {
      program += R"({"op":"copy","id":"in)" + s + R"(","stream":"s)" + s + R"(","from":"host","to":"data"},)";
      program += R"({"op":"launch","id":"k)" + s + R"(","stream":"s)" + s +
                 R"(","name":"Smooth<int>","cost":{"block_ns":200000,"blocks":132,"threads":128}},)";
      program += R"({"op":"copy","id":"out)" + s + R"(","stream":"s)" + s + R"(","from":"data","to":"host"},)";
    }
    file_ = (folder_ / "chunks.json").string();
    std::ofstream(file_)
        << R"({"format":"weir.scenario","version":1,"streams":[{"name":"s0","kind":"non_blocking"},{"name":"s1","kind":"non_blocking"}],
      "buffers":[{"name":"host","kind":"pinned","bytes":16777216},{"name":"data","kind":"device","bytes":16777216}],"program":[)"
        << program << R"({"op":"synchronize","all":true}]})";
  }
  ~PredictVerb() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string content(const std::string& path) const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  std::filesystem::path folder_;
  std::string file_;
};

TEST_F(PredictVerb, C12_tells_the_time_what_is_busy_and_what_held_it_back) {
  const Result result = tool_test::run({"predict", file_});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"on sim:h200 (9 in 10: ", "h2d and d2h", "What held it back", "link", "chunks.json:3 (out0)",
                           "What would gain:", "--set link.h2d_gb_s=111.06"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
}

TEST_F(PredictVerb, json_has_all_numbers_and_is_the_same_each_time) {
  const Result result = tool_test::run({"predict", file_, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, tool_test::run({"predict", file_, "--json"}).out);
  const json value = json::parse(result.out);
  for (const char* member : {"device", "profile", "makespan_us", "low_us", "high_us", "host_us", "busy_us",
                             "overlap_us", "critical_path", "estimated", "commands"})
    EXPECT_TRUE(value.contains(member)) << member;
  for (const char* engine : {"h2d", "d2h", "kernel"}) EXPECT_GT(value["busy_us"].at(engine), 0) << engine;
  for (const char* member : {"id", "stream", "engine", "issued_us", "ready_us", "begin_us", "end_us", "held_by"})
    EXPECT_TRUE(value["commands"][1].contains(member)) << member;
  EXPECT_EQ(value["device"], "sim:h200");
  EXPECT_EQ(value["profile"], "h200");
  EXPECT_EQ(value["commands"].size(), 6U);
  EXPECT_EQ(value["commands"][1]["id"], "k0");
  EXPECT_EQ(value["commands"][1]["engine"], "kernel");
  EXPECT_NEAR(value["commands"][1]["end_us"].get<double>() - value["commands"][1]["begin_us"].get<double>(), 200, 0.2);
  // Two copies in at 55.5 GB/s one after the other, a kernel, a copy out; copies of both ways slow each other down for a while.
  EXPECT_NEAR(value["makespan_us"].get<double>(), 2 * 302.1 + 200 + 302.8 + 25, 15);
  EXPECT_LT(value["low_us"], value["makespan_us"]);
  EXPECT_GT(value["high_us"], value["makespan_us"]);
  double sum = 0, last = 0;
  for (const json& part : value["critical_path"]) {
    EXPECT_NEAR(part["begin_us"].get<double>(), last, 0.002);
    last = part["end_us"];
    sum += last - part["begin_us"].get<double>();
  }
  EXPECT_NEAR(sum, value["makespan_us"].get<double>(), 0.05);
}

TEST_F(PredictVerb, what_if_shows_it_beside_the_profile_as_it_is) {
  const Result result = tool_test::run({"predict", file_, "--set", "link.h2d_gb_s=5.553", "--set", "sms=66"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("without --set: 1.1"), std::string::npos) << result.out;
}

TEST_F(PredictVerb, what_a_setting_would_gain_is_what_it_gains) {
  const std::vector<weir_test::MeasuredProgram> programs = weir_test::measured_mixtures(WEIR_TEST_DATA);
  std::size_t seen = 0;
  for (std::size_t i = 40; i < programs.size(); i += 7 * one_of) {
    std::ofstream(file_) << programs[i].scenario;
    const json value = json::parse(tool_test::run({"predict", file_, "--json"}).out);
    for (const json& gain : value["gains"]) {
      const std::string change = gain["change"];
      if (!change.starts_with("--set ")) continue;
      const json with = json::parse(tool_test::run({"predict", file_, "--json", "--set", change.substr(6)}).out);
      EXPECT_NEAR(with["makespan_us"].get<double>(), gain["makespan_us"].get<double>(), 0.002) << i << " " << change;
      ++seen;
    }
  }
  EXPECT_GT(seen, 20u / one_of);
}

TEST_F(PredictVerb, what_makes_a_program_a_little_longer_is_said_too) {
  const std::vector<weir_test::MeasuredProgram> programs = weir_test::measured_mixtures(WEIR_TEST_DATA);
  std::size_t longer = 0;
  for (std::size_t i = 0; i < programs.size(); i += 3 * one_of) {
    std::ofstream(file_) << programs[i].scenario;
    const json value = json::parse(tool_test::run({"predict", file_, "--json", "--set", "sms=140"}).out);
    if (value["makespan_us"].get<double>() <= value["without_set"]["makespan_us"].get<double>() + 0.002) continue;
    EXPECT_FALSE(value["without_set"]["grown"].empty()) << i;
    ++longer;
  }
  EXPECT_GT(longer, 0u);
}

TEST_F(PredictVerb, a_file_may_say_what_its_devices_are) {
  const auto of = [&](const std::string& devices, const std::vector<std::string>& more) {
    std::ofstream(file_) << R"({"format":"weir.scenario","version":1,"devices":[)" << devices
                         << R"(],"streams":[],"buffers":[],"program":[]})";
    std::vector<std::string> arguments = {"predict", file_, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return tool_test::run(arguments);
  };
  const std::string cc30 = R"({"name":"a","profile":"cc30"})";
  EXPECT_EQ(json::parse(of(cc30, {}).out)["profile"], "cc30");
  EXPECT_EQ(json::parse(of(cc30, {"--device", "sim:h200:1"}).out)["profile"], "h200");
  const Result two = of(cc30 + R"(,{"name":"b"})", {});
  EXPECT_EQ(two.exit_code, 2);
  EXPECT_NE(two.err.find("devices of cc30 and of h200"), std::string::npos) << two.err;
  EXPECT_EQ(of(cc30, {"--device", "sim:h200:"}).exit_code, 2);
}

// More bandwidth can make a program longer: copies end in another order, and so the kernels behind them begin in another one.
TEST_F(PredictVerb, what_makes_a_program_longer_though_the_device_has_more_is_said) {
  const std::vector<weir_test::MeasuredProgram> programs = weir_test::measured_mixtures(WEIR_TEST_DATA);
  std::ofstream(file_) << programs[186].scenario;
  const std::vector<std::string> longer = {"predict", file_, "--set", "sms=264"};
  const Result text = tool_test::run(longer);
  EXPECT_NE(text.out.find("It takes longer, along the critical path by:\n  link "), std::string::npos) << text.out;
  std::vector<std::string> json_too = longer;
  json_too.emplace_back("--json");
  const json value = json::parse(tool_test::run(json_too).out);
  const double before = value["without_set"]["makespan_us"].get<double>();
  EXPECT_GT(value["makespan_us"].get<double>(), 1.1 * before);
  ASSERT_GE(value["without_set"]["grown"].size(), 1u);
  EXPECT_EQ(value["without_set"]["grown"][0]["cause"], "link");
  EXPECT_GT(value["without_set"]["grown"][0]["more_us"].get<double>(), 0.05 * before);
  const Result shorter = tool_test::run({"predict", file_, "--set", "link.d2h_gb_s=111"});
  EXPECT_EQ(shorter.out.find("It takes longer"), std::string::npos) << shorter.out;
}

TEST_F(PredictVerb, C10_on_one_copy_engine_depth_first_overlaps_nothing) {
  const Result result = tool_test::run({"predict", file_, "--device", "sim:fermi-1-engine", "--expect",
                                        "overlap(h2d, kernel) >= 0.1", "--expect", "makespan <= 1 s"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "weir: --expect 'overlap(h2d, kernel) >= 0.1' is not met: overlap(h2d, kernel) is 0.000\n");
}

TEST_F(PredictVerb, timelines_are_trace_events_and_pictures) {
  const std::string trace = (folder_ / "t.json").string(), picture = (folder_ / "t.svg").string();
  ASSERT_EQ(tool_test::run({"predict", file_, "--timeline", trace}).exit_code, 0);
  ASSERT_EQ(tool_test::run({"predict", file_, "--timeline", picture}).exit_code, 0);
  const json events = json::parse(content(trace))["traceEvents"];
  int complete = 0;
  for (const json& event : events) complete += event["ph"] == "X";
  EXPECT_EQ(complete, 6);
  const std::string svg = content(picture);
  EXPECT_NE(svg.find("<svg"), std::string::npos);
  EXPECT_NE(svg.find("Smooth&lt;int&gt;"), std::string::npos);
  EXPECT_EQ(tool_test::run({"predict", file_, "--timeline", "/nowhere/t.svg"}).exit_code, 3);
}

TEST_F(PredictVerb, runs_a_program_and_predicts_what_it_asked_for) {
  const Result result = tool_test::run({"predict", "--json", "--", tool_test::tool_path(), "run", file_});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json value = json::parse(result.out.substr(result.out.find("{\"format\"")));
  EXPECT_EQ(value["program"], tool_test::tool_path());
  // Kernels last as their uses' bytes take, and here they use none.
  EXPECT_GT(value["busy_us"]["h2d"].get<double>(), 2 * 300.0);
  EXPECT_LT(value["busy_us"]["kernel"].get<double>(), 50.0);
  EXPECT_NE(value["estimated"].size(), 0u);
  EXPECT_EQ(tool_test::run({"predict", "--", "sh", "-c", "exit 5"}).exit_code, 3);
  EXPECT_EQ(
      tool_test::run({"predict", "--expect", "makespan <= 1 us", "--", tool_test::tool_path(), "run", file_}).exit_code,
      1);
}

// What runs on the simulated device is asked of the model, and predicted again from its recording: both are the file's.
TEST_F(PredictVerb, a_program_on_the_simulated_device_takes_what_its_file_takes) {
  const Result of_file = tool_test::run({"predict", "--json", file_});
  const Result of_run =
      tool_test::run({"predict", "--json", "--", tool_test::tool_path(), "run", "--device", "sim:h200", file_});
  ASSERT_EQ(of_run.exit_code, 0) << of_run.err;
  const json file = json::parse(of_file.out), run = json::parse(of_run.out.substr(of_run.out.find("{\"format\"")));
  EXPECT_EQ(run["estimated"], json::array()) << "kernels have the file's costs";
  EXPECT_EQ(run["host"], "said");
  EXPECT_NEAR(run["busy_us"]["kernel"].get<double>(), file["busy_us"]["kernel"].get<double>(), 0.01);
  EXPECT_NEAR(run["overlap_us"]["h2d_d2h"].get<double>(), file["overlap_us"]["h2d_d2h"].get<double>(), 0.01);
  const auto last = [](const json& all, const char* engine) {
    json found;
    for (const json& one : all["commands"]) found = one["engine"] == engine ? one : found;
    return found;
  };
  EXPECT_NEAR(last(run, "d2h")["end_us"].get<double>() - last(run, "kernel")["issued_us"].get<double>(),
              last(file, "d2h")["end_us"].get<double>() - last(file, "kernel")["issued_us"].get<double>(), 0.01);
}

TEST_F(PredictVerb, the_default_device_is_simulated_and_what_is_called_cuda_if_asked_for) {
  const auto predicted = [&](const std::vector<std::string>& options, const std::vector<std::string>& program) {
    std::vector<std::string> all = {"predict", "--json"};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", tool_test::tool_path()});
    all.insert(all.end(), program.begin(), program.end());
    return tool_test::run(all);
  };
  const auto makespan = [](const Result& result) {
    return json::parse(result.out.substr(result.out.find("{\"format\":\"weir.prediction")))["makespan_us"]
        .get<double>();
  };
  const std::vector<std::string> demo = {"demo", "vadd", "--n", "100000", "--json"};
  const Result by_default = predicted({}, demo);
  ASSERT_EQ(by_default.exit_code, 0) << by_default.err;
  EXPECT_NE(by_default.out.find("\"device\":\"sim:h200\""), std::string::npos) << by_default.out;
  std::vector<std::string> named = demo;
  named.insert(named.end(), {"--device", "cuda"});
  const Result stands_in = predicted({"--as-cuda"}, named);
  ASSERT_EQ(stands_in.exit_code, 0) << stands_in.err;
  EXPECT_DOUBLE_EQ(makespan(stands_in), makespan(by_default));
  named.back() = "cuda:0";
  EXPECT_DOUBLE_EQ(makespan(predicted({"--as-cuda"}, named)), makespan(by_default));
  named.back() = "cuda:1";
  EXPECT_NE(predicted({"--as-cuda"}, named).out.find("sim:h200:1"), std::string::npos);
  EXPECT_GT(makespan(predicted({"--device", "sim:kepler-2-engines", "--as-cuda"}, named)), 0);
}

TEST_F(PredictVerb, host_work_is_what_was_said_or_real_time) {
  std::ofstream(file_) << R"({"format":"weir.scenario","version":1,"streams":[{"name":"s","kind":"non_blocking"}],
    "buffers":[],"program":[{"op":"launch","stream":"s","name":"K","cost":{"ns":1000}},{"op":"work","ns":5000000},
    {"op":"launch","stream":"s","name":"K","cost":{"ns":1000}},{"op":"synchronize","all":true}]})";
  const auto predict = [&](const std::string& how) {
    const Result result = tool_test::run(
        {"predict", "--json", "--host", how, "--", tool_test::tool_path(), "run", "--device", "sim:h200", file_});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out.substr(result.out.find("{\"format\":\"weir.prediction")));
  };
  const json said = predict("said"), measured = predict("measured");
  EXPECT_EQ(said["host"], "said");
  EXPECT_GT(said["makespan_us"].get<double>(), 5000);
  EXPECT_LT(said["makespan_us"].get<double>(), 5100);
  EXPECT_EQ(said, predict("said")) << "the same each time";
  // The calls of the work take hardly any real time, but some.
  EXPECT_EQ(measured["host"], "measured");
  EXPECT_NE(measured["makespan_us"], said["makespan_us"]);
  EXPECT_GT(measured["host_us"].get<double>(), 0);
  const Result text = tool_test::run(
      {"predict", "--host", "measured", "--", tool_test::tool_path(), "run", "--device", "sim:h200", file_});
  EXPECT_NE(text.out.find("another run has other times"), std::string::npos) << text.out;
}

TEST_F(PredictVerb, what_is_wrong_about_the_command_line_is_told_before_a_program_runs) {
  const std::string ran = (folder_ / "ran").string();
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--set", "smx=3"}, "there is no field smx"},
      {{"--set", "sms=0"}, "sms: it is from 1"},
      {{"--device", "sim:h100"}, "there is no profile \"h100\""},
      {{"--expect", "makespan <= 7"}, "has no unit"},
  };
  for (const auto& [options, message] : cases) {
    std::vector<std::string> all = {"predict"};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", "touch", ran});
    const Result result = tool_test::run(all);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_FALSE(std::filesystem::exists(ran)) << message;
  }
  const std::string costs = (folder_ / "costs.json").string();
  std::ofstream(costs) << R"({"kernels": [{"name": "K", "blocks": 0}]})";
  const Result wrong_costs =
      tool_test::run({"predict", "--", "touch", ran}, {.environment = {"WEIR_SIM_COSTS=" + costs}});
  EXPECT_EQ(wrong_costs.exit_code, 2);
  EXPECT_NE(wrong_costs.err.find("costs.json: kernels.0.blocks: a kernel has one at least"), std::string::npos)
      << wrong_costs.err;
  const Result no_place = tool_test::run({"predict", "--timeline", "/nowhere/t.svg", "--", "touch", ran});
  EXPECT_EQ(no_place.exit_code, 3);
  EXPECT_NE(no_place.err.find("--timeline /nowhere/t.svg: it cannot be written"), std::string::npos) << no_place.err;
  EXPECT_FALSE(std::filesystem::exists(ran));
}

TEST_F(PredictVerb, a_timeline_that_is_there_stays_until_there_is_another_one) {
  const std::string picture = (folder_ / "t.svg").string();
  std::ofstream(picture) << "as it was";
  const std::vector<std::string> fails = {"predict", "--timeline", picture, "--set", "sms=0", file_};
  EXPECT_EQ(tool_test::run(fails).exit_code, 2);
  EXPECT_EQ(content(picture), "as it was");
  std::filesystem::remove(picture);
  EXPECT_EQ(tool_test::run(fails).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(picture));
}

// A loop asks as often as it turns, which is no reason for its kernels to have other numbers.
TEST_F(PredictVerb, ids_of_a_programs_commands_do_not_count_its_questions) {
  const auto of = [&](const std::string& question) {
    std::ofstream(file_) << R"({"format":"weir.scenario","version":1,"streams":[{"name":"s","kind":"non_blocking"}],
      "buffers":[],"program":[{"op":"launch","stream":"s","name":"K","cost":{"ns":1000}},)" +
                                question + R"({"op":"launch","stream":"s","name":"K","cost":{"ns":1000}}]})";
    const Result result =
        tool_test::run({"predict", "--json", "--", tool_test::tool_path(), "run", "--device", "sim:h200", file_});
    return json::parse(result.out.substr(result.out.find("{\"format\":\"weir.prediction")))["commands"];
  };
  const json plain = of(""), asks = of(R"({"op":"query","stream":"s","answer":true},)");
  ASSERT_EQ(plain.size(), 2u);
  ASSERT_EQ(asks.size(), 2u);
  for (const int i : {0, 1}) EXPECT_EQ(asks[i]["id"], plain[i]["id"]);
}

TEST_F(PredictVerb, host_work_is_what_the_environment_says_unless_told_otherwise) {
  const std::vector<std::string> demo = {tool_test::tool_path(), "demo", "vadd", "--n", "1000", "--repeat", "1"};
  const auto predict = [&](std::vector<std::string> options, const std::string& environment) {
    options.insert(options.begin(), {"predict", "--json"});
    options.push_back("--");
    options.insert(options.end(), demo.begin(), demo.end());
    return tool_test::run(options, {.environment = {"WEIR_SIM_HOST=" + environment}});
  };
  EXPECT_NE(predict({}, "measured").out.find(R"("host":"measured")"), std::string::npos);
  EXPECT_NE(predict({}, "").out.find(R"("host":"said")"), std::string::npos);
  EXPECT_NE(predict({"--host", "said"}, "measured").out.find(R"("host":"said")"), std::string::npos);
  const Result refused = predict({}, "guessed");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("WEIR_SIM_HOST guessed: it is said, or measured"), std::string::npos) << refused.err;
  // Without predictions, and on a device that is not simulated.
  const Result on_cpu = tool_test::run({"demo", "vadd", "--n", "1000", "--repeat", "1", "--device", "cpu"},
                                       {.environment = {"WEIR_SIM_HOST=guessed"}});
  EXPECT_NE(on_cpu.exit_code, 0);
  EXPECT_NE(on_cpu.err.find("WEIR_SIM_HOST: 'guessed': it is said, or measured"), std::string::npos) << on_cpu.err;
}

TEST_F(PredictVerb, nonsense_is_refused) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "FILE is required"},
      {{"/nowhere.json"}, "cannot be read"},
      {{file_, file_}, "one file at a time"},
      {{file_, "--device", "cpu"}, "it is sim:PROFILE"},
      {{file_, "--device", "sim:h100"}, "there is no profile \"h100\""},
      {{file_, "--set", "sms"}, "it is FIELD=NUMBER"},
      {{file_, "--set", "smx=3"}, "there is no field smx"},
      {{file_, "--expect", "makespan <= 7"}, "has no unit"},
      {{file_, "--timeline", "t.png"}, "its name ends in .json or .svg"},
      {{file_, "--as-cuda"}, "--as-cuda is for programs"},
      {{file_, "--host", "measured"}, "--host is for programs"},
      {{"--host", "guessed", "--", "true"}, "it is said, or measured"},
  };
  for (const auto& [arguments, message] : cases) {
    std::vector<std::string> all = {"predict"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Result result = tool_test::run(all);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
