// What predictions refuse, and that the message names it.
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <weir/error.hpp>
#include <weir/recording.hpp>
#include <weir/sim.hpp>

#include "support/sanitizers.hpp"

namespace {

using weir::sim::Prediction;

std::string scenario(const std::string& program) {
  return R"({"format":"weir.scenario","version":1,"streams":[{"name":"s","kind":"blocking"}],"buffers":[],"program":[)" +
         program + "]}";
}

const std::string one_kernel =
    R"({"op":"launch","id":"k","stream":"s","cost":{"block_ns":1000,"blocks":1,"threads":32}})";

/// What the function throws; empty if it does not.
template <typename Function>
std::string refused(const Function& function) {
  try {
    function();
    return {};
  } catch (const weir::Error& error) {
    EXPECT_EQ(error.errc(), weir::Errc::invalid_value);
    return error.what();
  }
}

std::string refusal(const std::string& program, const weir::sim::PredictOptions& options) {
  return refused([&] { weir::sim::predict(weir::parse_recording(scenario(program)), options); });
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
}

class ProfileFiles : public testing::Test {
 protected:
  ProfileFiles()
      : path_(std::filesystem::temp_directory_path() / ("weir profile " + std::to_string(getpid()) + ".json")) {}
  ~ProfileFiles() override {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  /// The H200's with a part replaced.
  std::string with(const std::string& part, const std::string& instead) {
    std::string text(weir::sim::profile_text("h200"));
    const std::size_t at = text.find(part);
    EXPECT_NE(at, std::string::npos) << part;
    text.replace(at, part.size(), instead);
    std::ofstream(path_) << text;
    return refusal(one_kernel, {path_.string(), {}, false, false});
  }
  std::filesystem::path path_;
};

TEST_F(ProfileFiles, C5_a_file_is_a_device_as_good_as_those_inside) {
  EXPECT_EQ(with("h200", "mine"), "");
  EXPECT_EQ(weir::sim::predict(weir::parse_recording(scenario(one_kernel)), {path_.string(), {}, false, false}).profile,
            "mine");
  EXPECT_NE(refusal(one_kernel, {path_.string() + std::string("\0.json", 6), {}, false, false}), "")
      << "another file's name, though it begins with this one's";
}

TEST_F(ProfileFiles, unknown_missing_and_senseless_members_are_refused_by_name) {
  const struct {
    const char *part, *instead, *message;
  } cases[] = {
      {"weir.sim_profile", "weir.scenario", "format: it is \"weir.sim_profile\""},
      {"\"version\": 1", "\"version\": 2", "version: this version of Weir reads 1"},
      {"\"name\": \"h200\",", "", "name: it is missing"},
      {"\"about\"", "\"abuot\"", "abuot: there is no such member"},
      {"\"version\"", "\"more\": {}, \"version\"", "more: there is no such member"},
      {"\"version\"", "\"more\": [], \"version\"", "more: there is no such member"},
      {"\"name\": \"h200\"", "\"name\": true", "name: it is a name"},
      {"\"name\": \"h200\"", "\"name\": []", "name: it is a name"},
      {"\"sms\": {", "\"smx\": {}, \"sms\": {", "device.smx: there is no such field"},
      {"\"sms\": {\"value\": 132", "\"sms\": {\"spread\": [], \"value\": 132",
       "device.sms.spread: it is the least and the greatest"},
      {"\"sms\": {\"value\": 132", "\"sms\": {\"spread\": 3, \"value\": 132",
       "device.sms.spread: it is the least and the greatest"},
      {"\"sms\": {\"value\": 132", "\"sms\": {\"spread\": {\"a\": 1, \"b\": 2}, \"value\": 132",
       "device.sms.spread: it is the least and the greatest"},
      {"\"sms\": {\"value\": 132", "\"sms\": {\"value\": 0132", "a number is not written as JSON has it"},
      {"\"sms\": {\"value\": 132", "\"sms\": {\"value\": 132.", "a number is not written as JSON has it"},
      {"\"sms\"", "\"smx\"", "device.smx: there is no such field"},
      {"\"launch_us\"", "\"lunch_us\"", "host.lunch_us: there is no such field"},
      {"\"sms\": {\"value\": 132", "\"sms\": {\"value\": 0", "device.sms.value: it is from 1 to"},
      {"\"sms\": {\"value\": 132", "\"sms\": {\"value\": 1.5", "device.sms.value: it is a whole number"},
      {"\"sms\": {\"value\": 132", "\"sms\": {\"value\": \"132\"", "device.sms.value: it is a number"},
      {"\"sms\": {\"value\": 132, ", "\"sms\": {", "device.sms"},
      {"\"source\": \"data sheet\"", "\"source\": \"\"", "device.memory_bytes.source: it is a text, which says"},
      {"\"name\": \"h200\"", "\"name\": \"h\\u0000\"", "a text holds no character 0"},
      {"\"unit\": \"GB/s\"", "\"unit\": \"MB/s\"", "it is \"GB/s\""},
      {"\"spread\": [", "\"spread\": [1e9, ", "it is the least and the greatest value"},
      {"\"hop\": {", "\"hops\": {", "hops: there is no such member"},
      {"\"format\"", "format", "parse error at line 2"},
  };
  for (const auto& one : cases) expect_in(with(one.part, one.instead), one.message);
  std::string text(weir::sim::profile_text("h200"));
  const std::size_t about = text.find("\"about\"");
  std::ofstream(path_) << std::string(text).erase(about, text.find('\n', about) - about);
  expect_in(refusal(one_kernel, {path_.string(), {}, false, false}), "about: it is missing");
  const std::size_t begin = text.find("\"blocks\": {"), end = text.find("},\n \"interval\"");
  ASSERT_NE(begin, std::string::npos);
  text.erase(begin, end + 3 - begin);
  std::ofstream(path_) << text;
  expect_in(refusal(one_kernel, {path_.string(), {}, false, false}), "blocks.turnaround_us: it is missing");
}

TEST(Refusals, profiles_that_are_not_there) {
  expect_in(refusal(one_kernel, {"h100", {}, false, false}), "there are cc30, fermi-1-engine, h200, kepler-2-engines");
  expect_in(refusal(one_kernel, {"/nowhere/card.json", {}, false, false}), "it cannot be read");
  EXPECT_THROW(weir::sim::profile_text("h100"), weir::Error);
}

TEST(Refusals, programs_that_the_device_cannot_run) {
  expect_in(refusal(R"({"op":"launch","id":"k","stream":"s","cost":{"blocks":1,"block_ns":1,"threads":4096}})", {}),
            "blocks of 4096 threads fit on no multiprocessor of h200");
  expect_in(
      refusal(R"({"op":"launch","id":"k","stream":"s","cost":{"blocks":1,"block_ns":1,"shared_bytes":1000000}})", {}),
      "1000000 bytes of shared memory fit on no multiprocessor");
  for (const char* none : {R"("blocks":0)", R"("blocks":1,"threads":0)"}) {
    expect_in(refusal(std::string(R"({"op":"launch","id":"k","stream":"s","cost":{"block_ns":1,)") + none + "}}", {}),
              "k: a kernel has one block and one thread at least");
  }
  expect_in(refusal(R"({"op":"end_capture","id":"e","stream":"s","graph":"g"})", {}), "e: its stream captures nothing");
  expect_in(refusal(R"({"op":"take","id":"mine","name":"never"})", {}), "the wait of command mine never ends");
  expect_in(refusal(R"({"op":"launch","id":"k","stream":"s","cost":{"block_ns":1,"blocks":4294967296}})", {}),
            "k: 4294967296 blocks are more than the model counts");
}

TEST(Refusals, graphs_whose_launches_run_more_nodes_than_fit_in_memory) {
  std::string program = R"({"op":"build_graph","graph":"g","nodes":[)";
  for (int i = 0; i < 3000; ++i)
    program += (i == 0 ? "" : ",") + std::string(R"({"name":"n)") + std::to_string(i) + R"(","op":"empty"})";
  program += "]}";
  for (int i = 0; i < 6700; ++i) program += R"(,{"op":"launch_graph","stream":"s","graph":"g"})";
  expect_in(refusal(program, {}), "more than 20,000,000 nodes");
}

TEST(Refusals, not_kernels_of_very_many_blocks) {
  const std::string kernel =
      R"({"op":"launch","stream":"s","cost":{"blocks":4294967295,"block_ns":1000,"threads":256}})";
  const Prediction prediction = weir::sim::predict(weir::parse_recording(scenario(kernel)), {"cc30", {}, false, false});
  const double waves = 4294967295.0 / 16;
  EXPECT_NEAR(prediction.makespan_us / waves, 1, 0.002);
}

TEST(Predictions, by_bytes_a_recording_of_another_device_lasts_as_its_uses_take) {
  const std::string text =
      R"({"format":"weir.scenario","version":1,"streams":[{"name":"s","kind":"blocking"}],
      "buffers":[{"name":"d","kind":"device","bytes":400000000}],"program":[{"op":"launch","stream":"s",
      "uses":[{"buffer":"d","access":"inout"}],"cost":{"ns":50000000}},{"op":"synchronize","stream":"s"}]})";
  const weir::Recording recording = weir::parse_recording(text);
  EXPECT_NEAR(weir::sim::predict(recording).makespan_us, 50000, 20);
  const Prediction prediction = weir::sim::predict(recording, {"h200", {}, false, true});
  EXPECT_NEAR(prediction.makespan_us, 800000 / 4250.0, 15);
  ASSERT_EQ(prediction.estimated.size(), 1U);
  EXPECT_EQ(prediction.estimated[0], "kernels that last as the bytes of their uses take: #0");
}

TEST(Predictions, of_what_was_estimated_have_an_interval_that_is_wider_by_half) {
  const auto below = [](const char* cost) {
    const Prediction prediction = weir::sim::predict(
        weir::parse_recording(scenario(std::string(R"({"op":"launch","id":"k","stream":"s","uses":[])") + cost + "}")));
    return std::pair(1 - prediction.low_us / prediction.makespan_us, prediction.high_us / prediction.makespan_us - 1);
  };
  const auto [low, high] = below(R"(,"cost":{"ns":1000})");
  const auto [estimated_low, estimated_high] = below("");
  EXPECT_GT(low, 0);
  EXPECT_NEAR(estimated_low, 1.5 * low, 1e-9);
  EXPECT_NEAR(estimated_high, 1.5 * high, 1e-9);
}

TEST(Predictions, of_programs_by_as_many_work_queues_as_are_set) {
  std::string program;
  for (const char* stream : {"s", "s", "t", "t"})
    program += std::string(R"({"op":"launch","stream":")") + stream + R"(","cost":{"ns":1000000}},)";
  const weir::Recording recording = weir::parse_recording(
      R"({"format":"weir.scenario","version":1,"streams":[{"name":"s","kind":"blocking"},{"name":"t","kind":"blocking"}],
      "buffers":[],"program":[)" +
      program + R"({"op":"synchronize","all":true}]})");
  const auto ms = [&](std::vector<weir::sim::Setting> set, bool own) {
    return weir::sim::predict(recording, {"h200", std::move(set), false, false, own}).makespan_us / 1000;
  };
  EXPECT_NEAR(ms({}, true), 2, 0.1);
  EXPECT_NEAR(ms({{"work_queues", 1}}, true), 3, 0.1);
  EXPECT_NEAR(ms({{"own_work_queues", 1}}, true), 3, 0.1) << "as many as Weir asks for";
  EXPECT_NEAR(ms({{"own_work_queues", 1}}, false), 2, 0.1) << "recordings are of CUDA's own number";
}

TEST(Predictions, take_no_memory_for_work_queues_that_no_stream_has) {
  if (weir_test::under_address_sanitizer || weir_test::under_thread_sanitizer)
    GTEST_SKIP() << "sanitizers take memory of their own";
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  ASSERT_TRUE(statm >> pages);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit gibibyte_more = {pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (1UL << 30), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &gibibyte_more), 0);
  EXPECT_NO_THROW(EXPECT_EQ(refusal(one_kernel, {"h200", {{"work_queues", 1e9}}, false, false}), ""));
  setrlimit(RLIMIT_AS, &before);
}

TEST(Refusals, settings) {
  expect_in(refusal(one_kernel, {"h200", {{"smx", 1}}, false, false}), "there is no field smx");
  expect_in(refusal(one_kernel, {"h200", {{"sms", -1}}, false, false}), "sms: it is from 1 to");
  expect_in(refusal(one_kernel, {"h200", {{"copy_engines", 1.5}}, false, false}), "copy_engines: it is a whole number");
  const std::pair<const char*, const char*> texts[] = {
      {"sms", "it is FIELD=NUMBER"},
      {"=3", "it is FIELD=NUMBER"},
      {"sms=", "what follows = is no number"},
      {"sms=many", "what follows = is no number"},
      {"sms=3 4", "what follows = is no number"},
      {"sms=inf", "what follows = is no number"},
  };
  for (const auto& [text, message] : texts) {
    const std::string told = refused([wrong = text] { weir::sim::parse_setting(wrong); });
    expect_in(told, text);
    expect_in(told, message);
  }
  EXPECT_EQ(weir::sim::parse_setting("link.h2d_gb_s=110.5").value, 110.5);
}

TEST(Refusals, expectations_hold_or_say_what_is_instead) {
  Prediction prediction;
  prediction.makespan_us = 6500;
  prediction.busy_us = {400, 100, 0, 200, 0, 0, 0};
  prediction.h2d_kernel_us = 150;
  for (const char* text : {"makespan <= 7 ms", "makespan>6499us", "makespan < 0.0066 s", "busy(h2d) >= 400000 ns",
                           "overlap(h2d, kernel) >= 0.75", "overlap(kernel,h2d) < 0.76", "host <= 1us"})
    EXPECT_EQ(weir::sim::unmet(prediction, text), "") << text;
  EXPECT_EQ(weir::sim::unmet(prediction, "makespan <= 6 ms"), "makespan is 6500.000 us");
  EXPECT_EQ(weir::sim::unmet(prediction, "overlap(h2d, d2h) >= 0.1"), "overlap(h2d, d2h) is 0.000");
  const std::pair<const char*, const char*> texts[] = {
      {"", "it has none of <=, >=, < and >"},
      {"makespan", "it has none of <=, >=, < and >"},
      {"makespan <= 7", "\"7\" has no unit: ns, us, ms or s"},
      {"makespan <= ms", "\"ms\" is no number"},
      {"makespan <= 7 min", "\"7 min\" has no unit: ns, us, ms or s"},
      {"speed > 1 ms", "\"speed\" is none of makespan, host, busy(ENGINE), overlap(ENGINE, ENGINE)"},
      {"overlap(h2d) > 1", "\"overlap(h2d)\" is none of"},
      {"overlap(h2d, gpu) > 1", "there is no engine \"gpu\""},
      {"overlap(h2d, h2d) > 1", "overlaps are of two of h2d, d2h and kernel"},
      {"overlap(h2d, memory) > 1", "overlaps are of two of h2d, d2h and kernel"},
      {"overlap(h2d, kernel) > 1 ms", "overlaps have no unit: \"ms\""},
      {"busy(dma) > 1 ms", "there is no engine \"dma\""},
      {"busy(h2d > 1 ms", "\"busy(h2d\" is none of"},
  };
  for (const auto& [text, message] : texts) {
    const std::string told = refused([&, wrong = text] { (void)weir::sim::unmet(prediction, wrong); });
    expect_in(told, text);
    expect_in(told, message);
  }
}

}  // namespace
