// Collectives in timelines: which parts belong together, what links moved, which rank waited for which; and several processes as one.
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/collectives.hpp>
#include <weir/error.hpp>
#include <weir/weir.hpp>

#include "made.hpp"

namespace {

using trace_test::Lane;
using trace_test::Made;
using trace_test::Tie;
using trace_test::Timeline;
using weir::trace::CollectivePart;
using weir::trace::Reason;

using trace_test::us;

/// The parts as "command name: collective.communicator rank/ranks peer".
std::string parts_of(const Timeline& timeline) {
  std::string text;
  for (const CollectivePart& one : timeline.collectives) {
    text += std::string(timeline.name_of(timeline.commands[one.command])) + ": " + std::to_string(one.collective) +
            "." + std::to_string(one.communicator) + " " + std::to_string(one.rank) + "/" + std::to_string(one.ranks) +
            " " + std::to_string(one.peer) + "\n";
  }
  return text;
}

TEST(TraceCollectives, of_a_session_have_what_their_parts_have_in_common) {
  const weir::Device cpu = weir::device("cpu");
  const std::vector<weir::Communicator> comms = weir::communicators({cpu, cpu}),
                                        others = weir::communicators({cpu, cpu});
  const weir::Stream streams[2] = {weir::Stream(cpu), weir::Stream(cpu)};
  std::vector<weir::Array<float>> x;
  for (const weir::Stream& stream : streams) x.push_back(weir::zeros<float>(stream, 8));
  weir::synchronize();
  weir::trace::Session session;
  for (int r : {0, 1}) weir::all_reduce(streams[r], comms[r], weir::inout(x[r]), weir::Plus{});
  for (int r : {1, 0}) weir::broadcast(streams[r], others[r], weir::inout(x[r]), 1);
  for (int twice = 0; twice < 2; ++twice) {
    weir::send(streams[0], comms[0], weir::in(x[0]), 1);
    weir::receive(streams[1], comms[1], weir::out(x[1]), 0);
  }
  weir::synchronize();
  const Timeline timeline = session.stop();
  EXPECT_EQ(parts_of(timeline),
            "all_reduce: 1.1 0/2 -1\nall_reduce: 1.1 1/2 -1\n"
            "broadcast: 2.2 1/2 1\nbroadcast: 2.2 0/2 1\n"
            "send: 3.1 0/2 1\nreceive: 3.1 1/2 0\nsend: 4.1 0/2 1\nreceive: 4.1 1/2 0\n");
  EXPECT_EQ(timeline.commands[timeline.collectives[0].command].bytes, 32u);
  EXPECT_GE(timeline.origin, 0);
  EXPECT_FALSE(timeline.machine.empty());
}

/// Rank r is stream r. What precedes the collective ends at `before[r]`.
Made all_reduces(std::initializer_list<std::int64_t> before, std::int64_t end, std::uint64_t bytes) {
  Made made(static_cast<int>(before.size()));
  std::int32_t rank = 0;
  for (const std::int64_t moment : before) {
    const auto stream = static_cast<std::uint32_t>(rank);
    const auto kernel = made.add(stream, Lane::kernel, 0, 0, moment);
    const auto part = made.add(stream, Lane::external, 0, moment, end, {{kernel, Tie::stream_order}}, bytes);
    made.timeline.commands[part].name = made.text("all_reduce");
    made.timeline.collectives.push_back({part, 1, 1, rank++, static_cast<std::int32_t>(before.size())});
  }
  return made;
}

TEST(TraceCollectives, have_the_bandwidth_of_links_from_when_the_last_rank_came) {
  const Timeline timeline = all_reduces({10 * us, 40 * us, 20 * us, 15 * us}, 60 * us, 1000000).timeline;
  const weir::trace::Summary summary = summarize(timeline);
  ASSERT_EQ(summary.exchanges.size(), 1u);
  const weir::trace::Exchange& one = summary.exchanges[0];
  EXPECT_EQ(one.name, "all_reduce");
  EXPECT_EQ(one.ranks, 4);
  EXPECT_EQ(one.count, 1u);
  EXPECT_EQ(one.bytes, 1000000u);
  EXPECT_EQ(one.ns, 20 * us);
  EXPECT_DOUBLE_EQ(one.bus_bytes_per_second, 1e6 * 2 * 3 / 4 / 20e-6);
  EXPECT_EQ(one.waited, (30 + 20 + 25) * us);
  EXPECT_EQ(one.latest, 1);
  EXPECT_NE(to_text(summary, timeline).find("all_reduce, 4 ranks"), std::string::npos) << to_text(summary, timeline);
  EXPECT_NE(to_json(summary, timeline).find("\"waited_ns\": 75000, \"latest\": 1"), std::string::npos);
}

TEST(TraceCollectives, that_waited_for_a_rank_say_for_which) {
  const Timeline timeline = all_reduces({10 * us, 40 * us}, 60 * us, 1000).timeline;
  const std::vector<weir::trace::Held> held = explain(timeline);
  ASSERT_FALSE(held.empty());
  EXPECT_EQ(held[0].reason, Reason::rank);
  EXPECT_EQ(held[0].saves, 30 * us);
  EXPECT_EQ(held[0].why, "all_reduce (s0) of rank 0 waited for rank 1, which came last at made.cpp:4");
}

/// As a process of that rank would have written it.
Timeline of_rank(std::int32_t rank, std::int64_t origin, const std::string& machine, std::int64_t end) {
  Made made(1);
  const auto kernel = made.add(0, Lane::kernel, 1 * us, 1 * us, 5 * us);
  const auto part = made.add(0, Lane::external, 2 * us, 5 * us, end, {{kernel, Tie::stream_order}}, 64);
  made.timeline.commands[part].name = made.text("all_reduce");
  made.timeline.collectives.push_back({part, 7, 1, rank, 2});
  weir::trace::HostWait wait;
  wait.what = made.text("s0");
  wait.stream = 0;
  wait.command = part;
  wait.thread = 1;
  wait.begin = 3 * us;
  wait.end = end;
  made.timeline.waits.push_back(wait);
  made.timeline.ranges.push_back({made.text("step"), 1, 1 * us, -1});
  made.timeline.origin = origin;
  made.timeline.machine = machine;
  return made.timeline;
}

TEST(TraceMerge, of_one_machine_goes_by_its_clock) {
  std::vector<Timeline> two = {of_rank(0, 500 * us, "m", 20 * us), of_rank(1, 490 * us, "m", 30 * us)};
  for (Timeline& one : two) one.nodes.push_back({0, 7, one.commands[0].name, 0, 1, Lane::kernel, 2 * us, 3 * us});
  const std::vector<std::string> names = {"rank0", "rank1"};
  const Timeline all = weir::trace::merge(two, names);
  ASSERT_EQ(all.commands.size(), 4u);
  std::string text;
  for (const weir::trace::Command& one : all.commands) {
    text += std::string(all.text(all.devices[all.streams[one.stream].device])) + " " + std::string(all.name_of(one)) +
            " " + std::to_string(one.call / us) + ": " + std::to_string(one.begin / us) + "-" +
            std::to_string(one.end / us) + " thread " + std::to_string(one.thread) + "\n";
  }
  EXPECT_EQ(text,
            "rank1 sim:0 c0 1: 1-5 thread 2\nrank1 sim:0 all_reduce 2: 5-30 thread 2\n"
            "rank0 sim:0 c0 11: 11-15 thread 1\nrank0 sim:0 all_reduce 12: 15-30 thread 1\n");
  EXPECT_EQ(all.dependencies_of(all.commands[3])[0].command, 2u);
  EXPECT_EQ(parts_of(all), "all_reduce: 1.1 1/2 -1\nall_reduce: 1.1 0/2 -1\n") << "one collective";
  ASSERT_EQ(all.waits.size(), 2u);
  EXPECT_EQ(all.waits[1].command, 3u);
  EXPECT_EQ(all.waits[1].begin, 13 * us);
  EXPECT_EQ(all.ranges[1].begin, 11 * us);
  EXPECT_EQ(all.ranges[1].end, -1);
  ASSERT_EQ(all.nodes.size(), 2u);
  EXPECT_EQ(all.nodes[0].command, 0u);
  EXPECT_EQ(all.nodes[1].command, 2u);
  EXPECT_EQ(all.nodes[1].begin, 12 * us);
  EXPECT_EQ(all.nodes[1].end, 13 * us);
  EXPECT_EQ(all.name_of(all.nodes[1]), "c0");
  EXPECT_EQ(all.origin, 490 * us);
  EXPECT_EQ(all.duration, 30 * us);
  const std::vector<weir::trace::Held> held = explain(all);
  EXPECT_TRUE(std::any_of(held.begin(), held.end(), [](const auto& one) { return one.reason == Reason::rank; }));
}

TEST(TraceMerge, of_several_machines_goes_by_the_ends_of_collectives) {
  const std::vector<Timeline> two = {of_rank(0, 500 * us, "m", 20 * us), of_rank(1, 7, "another", 120 * us)};
  const std::vector<std::string> names = {"rank0", "rank1"};
  const Timeline all = weir::trace::merge(two, names);
  EXPECT_EQ(all.commands[0].begin, 1 * us) << "that of rank 1, whose clock is 100 us behind";
  EXPECT_EQ(all.commands[1].end, 120 * us);
  EXPECT_EQ(all.commands[2].begin, 101 * us);
  EXPECT_EQ(all.commands[3].end, 120 * us);
  EXPECT_EQ(all.origin, -1);
}

/// A rank of two that has called all_reduce of these communicators, in this order.
Timeline calls_of(std::int32_t rank, const std::vector<CollectivePart>& calls) {
  Made made(1);
  std::int64_t moment = 0;
  for (CollectivePart part : calls) {
    part.command = made.add(0, Lane::external, moment, moment, moment + 5 * us, {}, 64);
    moment += 10 * us;
    made.timeline.commands[part.command].name = made.text("all_reduce");
    part.rank = rank;
    made.timeline.collectives.push_back(part);
  }
  made.timeline.origin = 0;
  made.timeline.machine = "m";
  return made.timeline;
}

// Each process counts its own from 1 on, in another order where ranks split off.
TEST(TraceMerge, knows_communicators_by_what_their_processes_have_in_common) {
  const CollectivePart half{0, 1, 1, 0, 2, -1, 70, 1}, world{0, 2, 2, 0, 2, -1, 50, 1};
  const CollectivePart other_half{0, 2, 2, 0, 2, -1, 71, 1}, world_first{0, 1, 1, 0, 2, -1, 50, 1};
  const std::vector<Timeline> two = {calls_of(0, {half, world}), calls_of(1, {world_first, other_half})};
  const std::vector<std::string> names = {"rank0", "rank1"};
  EXPECT_EQ(parts_of(weir::trace::merge(two, names)),
            "all_reduce: 1.1 0/2 -1\nall_reduce: 2.2 1/2 -1\n"
            "all_reduce: 2.2 0/2 -1\nall_reduce: 3.3 1/2 -1\n");
}

TEST(TraceMerge, knows_collectives_by_their_numbers_where_a_recording_began_later) {
  std::vector<CollectivePart> all;
  for (std::uint64_t number = 1; number <= 3; ++number) all.push_back({0, 1, 1, 0, 2, -1, 50, number});
  const std::vector<Timeline> two = {calls_of(0, all), calls_of(1, {all[1], all[2]})};
  const std::vector<std::string> names = {"rank0", "rank1"};
  EXPECT_EQ(parts_of(weir::trace::merge(two, names)),
            "all_reduce: 1.1 0/2 -1\nall_reduce: 2.1 1/2 -1\nall_reduce: 2.1 0/2 -1\n"
            "all_reduce: 3.1 1/2 -1\nall_reduce: 3.1 0/2 -1\n");
}

TEST(TraceMerge, keeps_communicators_apart_that_are_of_one_process) {
  const CollectivePart own{0, 1, 1, 0, 1, -1};
  const std::vector<Timeline> two = {calls_of(0, {own}), calls_of(0, {own})};
  const std::vector<std::string> names = {"one", "other"};
  EXPECT_EQ(parts_of(weir::trace::merge(two, names)), "all_reduce: 1.1 0/1 -1\nall_reduce: 2.2 0/1 -1\n");
}

TEST(TraceMerge, without_a_common_clock_is_refused) {
  std::vector<Timeline> two = {of_rank(0, 500 * us, "m", 20 * us), of_rank(1, 7, "another", 120 * us)};
  two[1].collectives.clear();
  const std::vector<std::string> names = {"rank0", "rank1"};
  EXPECT_EQ(trace_test::what_is_wrong([&] { return weir::trace::merge(two, names); }).substr(0, 40),
            "weir::trace::merge: rank1: it is of anot");
  EXPECT_NE(trace_test::what_is_wrong([&] { return weir::trace::merge({}, {}); }), "");
  EXPECT_NE(trace_test::what_is_wrong([&] { return weir::trace::merge(two, std::span(names).first(1)); }), "");
}

TEST(TraceCollectives, are_read_back_from_files_and_pages) {
  Timeline timeline = of_rank(3, 123456789, "a machine", 20 * us);
  timeline.collectives[0].shared = (std::uint64_t{1} << 53) - 1;
  timeline.collectives[0].number = 12;
  for (const char* ending : {".json", ".html"}) {
    const auto path = std::filesystem::temp_directory_path() / ("weir_parts" + std::to_string(getpid()) + ending);
    save(timeline, path);
    const Timeline read = weir::trace::load(path);
    std::filesystem::remove(path);
    EXPECT_EQ(parts_of(read), "all_reduce: 7.1 3/2 -1\n") << ending;
    EXPECT_EQ(read.collectives[0].shared, (std::uint64_t{1} << 53) - 1) << ending;
    EXPECT_EQ(read.collectives[0].number, 12u) << ending;
    EXPECT_EQ(read.origin, 123456789) << ending;
    EXPECT_EQ(read.machine, "a machine") << ending;
  }
}

TEST(TraceCollectives, that_are_damaged_are_errors) {
  std::ostringstream out;
  write_json(of_rank(3, 123456789, "a machine", 20 * us), out);
  const std::string text = out.str();
  const auto damaged = [&](const std::string& numbers) {
    std::string other = text;
    const std::string known = "\"c\": \"7 1 3 2 -1\"";
    EXPECT_NE(other.find(known), std::string::npos);
    other.replace(other.find(known), known.size(), "\"c\": \"" + numbers + "\"");
    return trace_test::what_is_wrong([&] { return weir::trace::parse_json(other); });
  };
  EXPECT_EQ(damaged("7 1 3 2 -1"), "");
  EXPECT_EQ(damaged("7 1 3 2 -1 50 4"), "");
  for (const char* numbers :
       {"", "7 1 3 2", "0 1 3 2 -1", "7 0 3 2 -1", "7 1 -1 2 -1", "7 1 3 0 -1", "7 1 3 2 -2", "7 1 3 2 -1 0",
        "7 1 3 2 -1 50", "7 1 3 2 -1 0 4", "7 1 3 2 -1 50 4 1", "7 1 3 2 -1 9007199254740992 4"}) {
    EXPECT_NE(damaged(numbers).find("args.c"), std::string::npos) << numbers << ": " << damaged(numbers);
  }
}

}  // namespace
