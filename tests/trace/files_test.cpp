// Timelines in files: what is read is what was written, and damaged files are errors.
#include <filesystem>
#include <random>
#include <sstream>
#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/error.hpp>
#include <weir/trace.hpp>

#include "made.hpp"

namespace {

using trace_test::Lane;
using trace_test::Made;
using trace_test::Tie;
using trace_test::Timeline;

std::string json_of(const Timeline& timeline) {
  std::ostringstream out;
  write_json(timeline, out);
  return out.str();
}

/// What is wrong with a text; empty if it is a timeline.
std::string outcome(const std::string& text) {
  return trace_test::what_is_wrong([&] { return weir::trace::parse_json(text); });
}

Timeline whole() {
  Made made;
  made.timeline.program = "a \"program\" \xff\n";
  made.timeline.note = "3 were dropped";
  made.timeline.dropped = 3;
  made.timeline.streams[1].priority = -2;
  const auto kernel = made.add(0, Lane::kernel, 5, 10, 1234567, {}, 1 << 20);
  made.timeline.commands[kernel].arguments = made.text("in 8");
  const auto record = made.add(0, Lane::order, 6, 1234567, 1234567, {{kernel, Tie::stream_order}});
  made.add(1, Lane::copy_out, 7, 1234570, 1234590, {{record, Tie::event}, {kernel, Tie::default_stream}}, 77);
  made.add(1, Lane::fill, 8, 0, 0);
  made.timeline.commands.back().state = weir::trace::State::pending;
  made.timeline.commands.back().name = weir::trace::none;
  weir::trace::HostWait wait;
  wait.what = made.text("everything");
  wait.command = kernel;
  wait.thread = 1;
  wait.end = 9;
  made.timeline.waits.push_back(wait);
  made.timeline.ranges.push_back({made.text("range"), 1, 0, -1});
  made.timeline.nodes.push_back({kernel, 2, made.text("Step"), made.text("g.cpp"), 12, Lane::kernel, 20, 70});
  made.timeline.nodes.push_back({kernel, 3, weir::trace::none, weir::trace::none, 0, Lane::fill, 60, 90});
  return made.timeline;
}

TEST(TraceFiles, what_is_read_is_what_was_written) {
  const std::string text = json_of(whole());
  const Timeline read = weir::trace::parse_json(text);
  EXPECT_EQ(json_of(read), text);
  EXPECT_EQ(read.program, "a \"program\" \xef\xbf\xbd\n");
  EXPECT_EQ(read.commands[2].dependency_count, 2u);
  ASSERT_EQ(read.nodes.size(), 2u);
  EXPECT_EQ(read.name_of(read.nodes[0]), "Step");
  EXPECT_EQ(read.name_of(read.nodes[1]), "fill");
  for (unsigned seed = 0; seed < 50; ++seed) {
    const std::string one = json_of(trace_test::by_chance(seed));
    ASSERT_EQ(json_of(weir::trace::parse_json(one)), one);
  }
}

TEST(TraceFiles, are_written_whole_and_read) {
  const auto path = std::filesystem::temp_directory_path() / ("weir_files" + std::to_string(getpid()) + ".json");
  save(whole(), path);
  EXPECT_EQ(json_of(weir::trace::load(path)), json_of(whole()));
  std::filesystem::remove(path);
  EXPECT_THROW(weir::trace::load(path), weir::Error);
  EXPECT_THROW(save(whole(), "/nowhere/at/all.json"), weir::Error);
}

// The writer's own buffer is larger than what is left of the disk.
TEST(TraceFiles, on_a_full_disk_are_errors) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  Made made;
  for (std::int64_t i = 0; i < 20000; ++i) made.add(0, Lane::kernel, 7 * i, 7 * i * i, 7 * i * i + i, {}, 13 * i * i);
  for (const char* ending : {".json", ".html", ".pftrace"}) {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("full" + std::to_string(getpid()) + ending);
    std::filesystem::create_symlink("/dev/full", path);
    const std::string wrong = trace_test::what_is_wrong([&] {
      save(made.timeline, path);
      return Timeline();
    });
    std::filesystem::remove(path);
    EXPECT_NE(wrong.find("it cannot be written: No space left on device"), std::string::npos)
        << ending << ": " << wrong;
  }
}

TEST(TraceFiles, that_are_wrong_are_errors_with_the_path_of_the_member) {
  const std::string text = json_of(whole());
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const auto at = other.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return outcome(other.replace(at, from.size(), to));
  };
  const auto has = [](const std::string& message, const char* part) { return message.find(part) != std::string::npos; };
  EXPECT_TRUE(has(outcome("{}"), "no timeline of Weir's"));
  EXPECT_TRUE(has(outcome("{\"traceEvents\": []}"), "no timeline of Weir's"));
  EXPECT_TRUE(
      has(changed("\"arguments\": \"in 8\"", "\"arguments\": \"in 9\""), "arguments: it is none of weir.texts"));
  EXPECT_TRUE(has(changed("\"version\": 1", "\"version\": 2"), "weir.version"));
  EXPECT_TRUE(has(changed("\"commands\": 4", "\"commands\": 5"), "weir.commands"));
  EXPECT_TRUE(has(changed("\"w\": \"1 ", "\"w\": \"x "), "traceEvents[4].args.w"));
  EXPECT_TRUE(has(changed(" 10 1234567", " 1234568 1234567"), "ends before"));
  EXPECT_TRUE(has(changed("1234567 0 0\"", "1234567 1 0\""), "range")) << "a dependency on itself";
  EXPECT_TRUE(has(changed("1234567 0 0\"", "1234567 0 9\""), "range"));
  EXPECT_TRUE(has(changed("1234567 0 0\"", "1234567 0\""), "missing"));
  EXPECT_TRUE(has(changed(" 10 1234567", " 10 99999999999999999"), "range"));
  EXPECT_TRUE(has(changed("\"w\": \"0 2 ", "\"w\": \"4 2 "), "range")) << "a node of no command";
  EXPECT_TRUE(has(changed("\"w\": \"0 2 ", "\"w\": \"1 2 "), "by their commands"));
  EXPECT_TRUE(has(changed(" 12 20 70", " 12 71 70"), "ends before"));
  EXPECT_TRUE(has(changed(" 12 20 70", " 12 20 70 x"), "missing"));
  for (std::size_t cut = 2; cut < text.size(); cut += 7) EXPECT_NE(outcome(text.substr(0, text.size() - cut)), "");
}

TEST(TraceFiles, by_mutation_are_errors_or_other_timelines) {
  const std::string text = json_of(whole());
  std::mt19937 random(2026);
  const auto below = [&](std::size_t n) { return random() % n; };
  int good = 0, bad = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string other = text;
    for (std::size_t change = 0; change <= below(3); ++change) {
      const std::size_t at = below(other.size());
      switch (below(3)) {
        case 0: other[at] = static_cast<char>(random()); break;
        case 1: other[at] = "0123456789- "[below(12)]; break;
        default: other.erase(at, 1 + below(6)); break;
      }
    }
    ++(outcome(other).empty() ? good : bad);
  }
  EXPECT_GT(good, 20);
  EXPECT_GT(bad, 200);
}

// Perfetto's own reader (perfetto 0.59.1, perfetto_trace_pb2) found in these bytes what the comments say, and no unknown field.
TEST(TraceFiles, for_perfetto_are_its_messages) {
  Made made(1);
  const auto first = made.add(0, Lane::kernel, 0, 1, 2, {}, 300);
  made.add(0, Lane::order, 0, 2, 2, {{first, Tie::event}});
  made.timeline.note = "n";
  std::ostringstream out;
  write_perfetto(made.timeline, out);
  std::string hex;
  for (const char c : out.str()) {
    static constexpr char digits[] = "0123456789abcdef";
    hex += digits[static_cast<unsigned char>(c) >> 4];
    hex += digits[static_cast<unsigned char>(c) & 15];
  }
  EXPECT_EQ(hex,
            // the recording: its track, 4 << 32, and on it at 0 an event with what is known of it
            "0a16e2031108808080804012097265636f7264696e675001"
            "0a3140005a2b4803588080808040b201097265636f7264696e67ba01097265636f7264696e67220952046e6f746532016e5001"
            ""
            // tracks: 1 "sim:0", and 1 << 32 "s0" below it
            "0a0ee203090801120573696d3a305001"
            "0a11e2030c0880808080101202733028015001"
            // "c0" begins at 1: "kernel", "where" made.cpp:1, "bytes" 300, flow 1; and ends
            "0a4740015a414801588080808010b201066b65726e656cba01026330221352057768657265320a6d6164652e6370703a31220a5205"
            "627974657318ac02f90201000000000000005001"
            "0a0e40025a0848025880808080105001"
            // "c1" begins at 2: "order", the flow's end; and ends
            "0a3a40025a344801588080808010b201056f72646572ba01026331221352057768657265320a6d6164652e6370703a328103010000"
            "00000000005001"
            "0a0e40025a0848025880808080105001");
}

/// What viewers draw: two kernels with an arrow between them, and a wait and a range of the host's.
Timeline to_be_viewed() {
  Made made(2);
  const auto first = made.add(0, Lane::kernel, 500, 1234, 4000, {}, 300);
  made.add(1, Lane::kernel, 600, 4001, 5000, {{first, Tie::event}});
  trace_test::add_wait(made, "everything", first, 700, 4100);
  made.timeline.ranges.push_back({made.text("a range"), 1, 100, 4200});
  return made.timeline;
}

// As Perfetto's and Chrome's viewers read them, beside what Weir reads back: times in microseconds, rows, lines, arrows.
TEST(TraceFiles, for_viewers_are_trace_events) {
  const std::string text = json_of(to_be_viewed());
  for (const char* part : {
           R"({"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "host"}})",
           R"({"ph": "M", "name": "process_name", "pid": 2, "tid": 0, "args": {"name": "sim:0"}})",
           R"({"ph": "M", "name": "thread_name", "pid": 2, "tid": 1, "args": {"name": "s0"}})",
           R"({"ph": "M", "name": "thread_name", "pid": 2, "tid": 2, "args": {"name": "s1"}})",
           R"({"ph": "X", "name": "c0", "cat": "command", "pid": 2, "tid": 1, "ts": 1.234, "dur": 2.766, )"
           R"("args": {"where": "made.cpp:1", "bytes": 300, )",
           R"({"ph": "X", "name": "c1", "cat": "command", "pid": 2, "tid": 2, "ts": 4.001, "dur": 0.999, )",
           R"({"ph": "s", "name": "event", "cat": "dependency", "id": 0, "pid": 2, "tid": 1, "ts": 1.234})",
           R"({"ph": "f", "bp": "e", "name": "event", "cat": "dependency", "id": 0, "pid": 2, "tid": 2, "ts": 4.001})",
           R"({"ph": "X", "name": "everything", "cat": "host wait", "pid": 1, "tid": 1, "ts": 0.700, "dur": 3.400, )"
           R"("args": {"where": "made.cpp:77", )",
           R"({"ph": "X", "name": "a range", "cat": "range", "pid": 1, "tid": 1, "ts": 0.100, "dur": 4.100, )",
       }) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in " << text;
  }
}

TEST(TraceFiles, for_perfetto_have_the_hosts_waits_and_ranges) {
  std::ostringstream out;
  write_perfetto(to_be_viewed(), out);
  for (const char* part : {"host thread 1", "host wait", "everything", "made.cpp:77", "a range"}) {
    EXPECT_NE(out.str().find(part), std::string::npos) << part;
  }
}

// Whoever reads a timeline of another one's in a terminal is told its names, and nothing is done to the terminal.
TEST(TraceFiles, with_names_that_a_terminal_would_obey_are_told_in_plain_lines) {
  const std::string hostile =
      "\x1b[2Ja\nFailed: b\r\x07\x7f\xc2\x9b"
      "c\xe2\x80\xae"
      "d\xff";
  const auto make = [&](std::int64_t lasts) {
    Made made;
    made.timeline.texts[made.timeline.devices[0]] = made.timeline.texts[made.timeline.streams[0].name] = hostile;
    made.timeline.texts[made.timeline.streams[1].name] = hostile;
    const auto kernel = made.add(0, Lane::kernel, 5, 10, lasts, {}, 1 << 20);
    const auto copy = made.add(1, Lane::copy_out, 7, lasts + 50000, lasts + 90000, {{kernel, Tie::event}}, 77);
    for (const auto one : {kernel, copy}) {
      made.timeline.commands[one].name = made.timeline.commands[one].file = made.text(hostile);
    }
    made.timeline.clock = made.timeline.note = hostile;
    return made.timeline;
  };
  const Timeline timeline = make(100000), later = make(900000);
  for (const std::string& text : {to_text(summarize(timeline), timeline), to_text(explain(timeline), timeline),
                                  to_text(compare(timeline, later))}) {
    EXPECT_NE(text.find(R"(\x1b[2Ja\nFailed: b\x0d\x07\x7f\x9bc\u202ed\xff)"), std::string::npos) << text;
    EXPECT_EQ(text.find("\nFailed"), std::string::npos) << text;
    for (const char* obeyed : {"\x1b", "\r", "\x07", "\x7f", "\xc2\x9b", "\xe2\x80\xae", "\xff"}) {
      EXPECT_EQ(text.find(obeyed), std::string::npos) << text;
    }
  }
}

TEST(TraceFiles, for_perfetto_have_rows_in_which_no_node_of_a_graph_overlaps_another) {
  Made made(1);
  const auto graph = made.add(0, Lane::graph, 0, 10, 90);
  for (const std::int64_t begin : {20, 40, 50}) {
    made.timeline.nodes.push_back({graph, 0, made.text("Step"), weir::trace::none, 0, Lane::kernel, begin, begin + 30});
  }
  std::ostringstream out;
  write_perfetto(made.timeline, out);
  const auto count = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count(out.str(), "s0, nodes"), 2) << "the second begins while the first runs, the third where it ends";
  EXPECT_EQ(count(out.str(), "Step"), 3);
  const std::string json = json_of(made.timeline);
  EXPECT_EQ(count(json, "s0, nodes"), 2);
  EXPECT_EQ(count(json, R"("cat": "node", "pid": 2, "tid": 2)"), 2);
  EXPECT_EQ(count(json, R"("cat": "node", "pid": 2, "tid": 3)"), 1);
}

TEST(TraceFiles, beyond_the_limit_of_memory_are_errors) {
  EXPECT_THROW(weir::trace::parse_json(json_of(whole()), "one", {.limit = 100}), weir::Error);
}

}  // namespace
