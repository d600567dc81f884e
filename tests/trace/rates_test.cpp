// What copies reached beside what their device can do at best, as far as somebody tells it.
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/error.hpp>
#include <weir/sim.hpp>
#include <weir/trace.hpp>
#include <weir/weir.hpp>

#include "made.hpp"

namespace {

using trace_test::Made;
using weir::trace::Lane;
using weir::trace::Session;
using weir::trace::Summary;
using weir::trace::Timeline;

using trace_test::us;

/// A copy of 4 GB/s to the first device of two, of whose link somebody tells that it is this fast.
Made copy_beside(std::uint64_t copy_in) {
  Made made(2, 2);
  made.add(0, Lane::copy_in, 0, 10 * us, 20 * us, {}, 40000);
  made.timeline.best_rates = {{copy_in, 7, made.text("the link")}, {}};
  return made;
}

std::string json_of(const Timeline& timeline) {
  std::ostringstream out;
  write_json(timeline, out);
  return out.str();
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(TraceRates, of_the_device_are_beside_what_its_copies_reached) {
  Made made = copy_beside(5'000'000'000);
  made.add(0, Lane::copy_out, 0, 20 * us, 21 * us, {}, 0);
  made.add(0, Lane::copy_device, 0, 30 * us, 40 * us, {}, 8);
  made.add(1, Lane::copy_in, 0, 10 * us, 20 * us, {}, 1000);
  const Summary summary = summarize(made.timeline);
  ASSERT_EQ(summary.engines.size(), 4u);
  EXPECT_DOUBLE_EQ(summary.engines[0].device_bytes_per_second, 5e9);
  EXPECT_EQ(made.timeline.text(summary.engines[0].source), "the link");
  EXPECT_DOUBLE_EQ(summary.engines[1].device_bytes_per_second, 7);
  EXPECT_EQ(summary.engines[2].device_bytes_per_second, 0) << "the link says nothing of copies on the device";
  EXPECT_EQ(summary.engines[3].device_bytes_per_second, 0) << "of another device nothing is known";
  const std::string text = to_text(summary, made.timeline);
  EXPECT_TRUE(has(text, "4.00 (4.00)    5.00, the link\n")) << text;
  EXPECT_TRUE(has(text, "0.10 (0.10)    not known\n")) << text;
  const std::string json = to_json(summary, made.timeline);
  EXPECT_TRUE(has(json, R"("device_bytes_per_second": 5e+09, "device_source": "the link")")) << json;
  EXPECT_TRUE(has(json, R"("device_bytes_per_second": null, "device_source": "")")) << json;
}

// As of a GPU whose memory is the host's, too, or of a port that a virtual machine makes up.
TEST(TraceRates, that_a_copy_has_disproved_are_none) {
  const Made slower = copy_beside(3'900'000'000);
  EXPECT_EQ(summarize(slower.timeline).engines[0].device_bytes_per_second, 0);
  EXPECT_EQ(summarize(slower.timeline).engines[0].source, weir::trace::none);
  const Made by_the_clock = copy_beside(3'950'000'000);
  EXPECT_GT(summarize(by_the_clock.timeline).engines[0].device_bytes_per_second, 0) << "clocks differ a little";
}

TEST(TraceRates, are_read_back_and_kept_where_processes_become_one) {
  const Made made = copy_beside(5'000'000'000);
  const Timeline read = weir::trace::parse_json(json_of(made.timeline));
  EXPECT_EQ(json_of(read), json_of(made.timeline));
  ASSERT_EQ(read.best_rates.size(), 2u);
  EXPECT_EQ(read.best_rates[0].copy_out, 7u);
  EXPECT_EQ(read.best_rates[1].source, weir::trace::none);
  Timeline with = made.timeline, without = Made().timeline;
  with.origin = without.origin = 0;
  with.machine = without.machine = "one";
  const std::vector<Timeline> timelines = {without, with, without};
  const std::vector<std::string> names = {"a", "b", "c"};
  const Timeline all = weir::trace::merge(timelines, names);
  ASSERT_EQ(all.best_rates.size(), 4u);
  EXPECT_EQ(all.best_rates[1].copy_in, 5'000'000'000u);
  EXPECT_EQ(all.text(all.best_rates[1].source), "the link");
  EXPECT_EQ(all.best_rates[3].copy_in, 0u);
}

TEST(TraceRates, that_are_damaged_are_errors) {
  const std::string text = json_of(copy_beside(5'000'000'000).timeline);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    EXPECT_TRUE(has(text, from)) << text;
    other.replace(other.find(from), from.size(), to);
    return trace_test::what_is_wrong([&] { return weir::trace::parse_json(other); });
  };
  EXPECT_TRUE(has(changed(", [0, 0, -1]]", "]"), "weir.best_rates: there must be one for each device"));
  EXPECT_TRUE(has(changed("[0, 0, -1]", "[0, 0]"), "weir.best_rates[1]: it must have three elements"));
  EXPECT_TRUE(has(changed("[0, 0, -1]", "[0, 0, 99]"), "weir.best_rates[1][2]: there are only"));
  EXPECT_TRUE(has(changed("[0, 0, -1]", "[-3, 0, -1]"), "weir.best_rates[1][0]"));
  EXPECT_TRUE(has(changed("[0, 0, -1]", "[9007199254740992, 0, -1]"), "weir.best_rates[1][0]: it is too large"));
  EXPECT_TRUE(has(changed("[0, 0, -1]", "7"), "weir.best_rates[1]"));
}

TEST(TraceRates, of_a_simulated_device_are_those_of_its_profile) {
  const weir::Device device = weir::device("sim:h200");
  weir::Stream s(device);
  const auto from = weir::empty<float>(weir::pinned, 1 << 20);
  auto to = weir::empty<float>(s, 1 << 20);
  Session session;
  copy(s, to, from);
  s.synchronize();
  const Timeline timeline = session.stop();
  const weir::sim::LinkRates link = weir::sim::link_rates(device);
  EXPECT_GT(link.to_device, 5e10);
  EXPECT_GT(link.from_device, 5e10);
  EXPECT_EQ(link.profile, "h200");
  const Summary summary = summarize(timeline);
  ASSERT_EQ(summary.engines.size(), 1u);
  EXPECT_NEAR(summary.engines[0].device_bytes_per_second, link.to_device, 1);
  EXPECT_GT(summary.engines[0].best_bytes_per_second, 0.5 * link.to_device);
  EXPECT_EQ(timeline.text(summary.engines[0].source), "the profile h200");
  EXPECT_THROW(static_cast<void>(weir::sim::link_rates(weir::device("cpu"))), weir::Error);
}

TEST(TraceRates, of_the_CPU_are_not_known) {
  const weir::Stream s(weir::device("cpu"));
  const auto from = weir::full(s, 1 << 16, 1.0F);
  auto to = weir::empty<float>(s, 1 << 16);
  s.synchronize();
  Session session;
  copy(s, to, from);
  s.synchronize();
  const Timeline timeline = session.stop();
  EXPECT_TRUE(timeline.best_rates.empty());
  EXPECT_TRUE(has(to_text(summarize(timeline), timeline), "not known\n")) << to_text(summarize(timeline), timeline);
}

}  // namespace
