// The checker of a running program finds what the recording of the same run shows.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/check.hpp>
#include <weir/collectives.hpp>
#include <weir/device.hpp>
#include <weir/recorder.hpp>
#include <weir/recording.hpp>
#include <weir/scenario.hpp>

#include "judge.hpp"

namespace {

/// What both know alike: memory, commands, nodes of graphs and lines have names of their own in a recording.
std::vector<std::string> essence(const std::vector<weir::Finding>& findings) {
  const auto side = [](const std::optional<weir::Side>& one) {
    if (!one) return std::string("-");
    const std::string name = one->node.empty() ? one->name : "of a graph";
    return one->op + " " + name + " " + one->access + " " + std::to_string(one->use);
  };
  std::vector<std::string> lines;
  for (const weir::Finding& one : findings) {
    std::string line = std::string(to_text(one.kind)) + " " + side(one.second) + " " + side(one.first) + " of";
    for (const auto& [begin, end] : one.bytes) line += " [" + std::to_string(begin) + "," + std::to_string(end) + ")";
    for (std::uint64_t i = 0; i < one.count; ++i) lines.push_back(line);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(LiveChecker, finds_what_the_recording_of_the_same_run_shows) {
  std::size_t with_findings = 0, ran = 0;
  for (const check_test::Case& one : check_test::cases()) {
    const std::size_t devices = one.scenario.contains("devices") ? one.scenario["devices"].size() : 1;
    if (devices > weir::devices("cpu").size()) continue;
    const weir::Recording scenario = weir::parse_recording(one.scenario.dump());
    weir::Recorder recorder({.times = false});
    weir::Checker checker({.mode = weir::CheckMode::collect, .max_findings = 0});
    weir::run_scenario(scenario, {.file = "case.json"});
    checker.finish();
    const weir::Recording recording = recorder.finish();
    weir::ScenarioChecker afterwards(recording, {.host_order = weir::HostOrder::observed, .max_findings = 0});
    afterwards.all();
    const std::vector<std::string> live = essence(checker.findings());
    EXPECT_EQ(live, essence(afterwards.report().findings)) << one.id;
    if (!live.empty()) ++with_findings;
    ++ran;
  }
  EXPECT_GE(ran, 38u);
  EXPECT_GE(with_findings, 10u);
}

// A program whose ranks wait for each other in a circle, and one whose ranks do not: the recording knows it, too.
TEST(LiveChecker, finds_a_circle_of_collectives_and_so_does_the_check_of_the_recording) {
  for (const bool circle : {false, true}) {
    weir::Checker live({.mode = weir::CheckMode::collect});
    weir::Recorder recorder;
    const auto device = weir::device("cpu");
    const auto c = weir::communicators({device, device}, {.name = "c", .timeout = std::chrono::seconds(60)});
    const auto d = weir::communicators({device, device}, {.name = "d", .timeout = std::chrono::seconds(60)});
    const weir::Stream streams[] = {weir::Stream(device), weir::Stream(device)};
    weir::barrier(streams[0], c[0]);
    weir::barrier(streams[0], d[0]);
    weir::barrier(streams[1], (circle ? d : c)[1]);
    weir::barrier(streams[1], (circle ? c : d)[1]);
    for (const weir::Stream& stream : streams) {
      try {
        stream.synchronize();
        EXPECT_FALSE(circle);
      } catch (const weir::Error& error) {
        EXPECT_EQ(error.code(), weir::Errc::collective_mismatch) << error.what();
      }
    }
    const weir::Recording recording = weir::parse_recording(to_json(recorder.finish()));
    weir::ScenarioChecker checker(recording);
    checker.all();
    live.finish();
    const weir::CheckReport reports[] = {checker.report(), live.report()};
    for (const weir::CheckReport& report : reports) {
      ASSERT_EQ(report.findings.size(), circle ? 1u : 0u) << to_text(report) << to_json(recording);
      if (!circle) continue;
      EXPECT_EQ(report.findings[0].kind, weir::FindingKind::deadlock);
      EXPECT_NE(report.findings[0].why.find("rank 1 has barrier of 'c' at "), std::string::npos);
      EXPECT_NE(report.findings[0].why.find("live_test.cpp:"), std::string::npos) << report.findings[0].why;
    }
  }
}

}  // namespace
