// What a recorder keeps of a running program, and that a recording which runs again is recorded the same.
#include <algorithm>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <weir/dlpack.hpp>
#include <weir/recorder.hpp>
#include <weir/scenario.hpp>
#include <weir/weir.hpp>

#include "cases.hpp"
#include "support/sanitizers.hpp"

namespace {

using recording_test::Case;
using recording_test::cases;
using weir::Recording;
using weir::recorded::Command;
using weir::recorded::none;
using weir::recorded::Op;
using weir::recorded::Target;
using weir::recorded::Use;

/// The commands that order and touch memory, with names for what is made in the order in which it is met: two recordings of
/// one program are equal, whatever made their streams and memory.
class Essence {
 public:
  explicit Essence(const Recording& recording, bool of_run, bool waits = true)
      : recording_(recording), of_run_(of_run) {
    for (std::size_t i = 0; i < recording.size(); ++i) add(recording.command(i), waits);
  }
  std::vector<std::string> lines;

 private:
  void add(const Command& command, bool waits) {
    if (of_run_ && command.file == none) return;  // done before its first call
    std::string line(weir::recorded::to_text(command.op));
    switch (command.op) {
      case Op::launch:
      case Op::external:
      case Op::host_function:
      case Op::copy:
      case Op::fill: break;
      case Op::record:
      case Op::wait:
        if (!waits) return;
        line += " event" + std::to_string(number(events_, command.target));
        break;
      default: return;
    }
    line += " on " + std::to_string(number(streams_, command.stream));
    if (command.op == Op::launch && command.name != none) line += std::string(" ") + recording_.text(command.name);
    for (std::size_t i = 0; i < recording_.use_count(command); ++i) {
      const Use one = recording_.use(command, i);
      if (one.total() != 0) line += use(one, command, i);
    }
    lines.push_back(line);
  }
  std::string use(const Use& use, const Command& command, std::size_t number_of_use) {
    const bool side = command.op == Op::copy || command.op == Op::fill;
    const std::string access =
        side ? (number_of_use == 0 ? "to" : "from") : std::to_string(static_cast<int>(use.access));
    // Whole pieces that follow each other are one.
    std::uint64_t bytes = use.bytes;
    std::size_t d = 0;
    while (d < use.dimensions && (use.repeat[d].stride == bytes || use.repeat[d].count == 1))
      bytes *= use.repeat[d++].count;
    std::string text = " {" + access + " x" + std::to_string(number(buffers_, use.buffer)) + "+" +
                       std::to_string(use.offset) + " " + std::to_string(bytes);
    for (; d < use.dimensions; ++d) {
      text += " " + std::to_string(use.repeat[d].count) + "*" + std::to_string(use.repeat[d].stride);
    }
    return text + "}";
  }
  static std::size_t number(std::map<std::uint32_t, std::size_t>& known, std::uint32_t place) {
    return known.emplace(place, known.size()).first->second;
  }

  const Recording& recording_;
  bool of_run_;
  std::map<std::uint32_t, std::size_t> streams_, events_, buffers_;
};

std::size_t count(const Recording& recording, Op op) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < recording.size(); ++i) found += recording.command(i).op == op ? 1 : 0;
  return found;
}

const Command& only(const Recording& recording, Op op) {
  EXPECT_EQ(count(recording, op), 1u) << weir::recorded::to_text(op);
  for (std::size_t i = 0; i < recording.size(); ++i) {
    if (recording.command(i).op == op) return recording.command(i);
  }
  throw std::logic_error("there is none");
}

/// The recording of its run.
Recording run_again(const Recording& recording) {
  weir::Recorder recorder;
  const weir::RunResult result = weir::run_scenario(recording);
  EXPECT_EQ(result.failures, std::vector<std::string>());
  for (const weir::Misuse& misuse : result.misuse) ADD_FAILURE() << recording.id(misuse.command) << " " << misuse.what;
  return recorder.finish();
}

/// Through a file, which checks all that a scenario must keep.
Recording read_again(const Recording& recording) { return weir::parse_recording(weir::to_json(recording)); }

struct Column {
  void operator()(std::size_t, weir::View<const float, 2>, weir::View<float>) const {}
};
struct Nothing {
  void operator()(std::size_t, weir::View<float>) const {}
};
struct Step {
  void operator()(std::size_t i, weir::View<const float> x, weir::View<float> y) const { y[i] += x[i]; }
};

/// Two streams, an event, pageable and pinned memory, a column of a matrix, a host function, and memory that is freed.
Recording pipeline() {
  weir::Recorder recorder;
  {
    weir::Stream upload(weir::device("cpu"), {.name = "up load"});
    weir::Stream compute(weir::device("cpu"), {.blocking = false, .name = "compute"});
    std::vector<float> in(64, 1.0f);
    auto x = weir::zeros<float>(upload, {8, 8});
    auto y = weir::zeros<float>(compute, 8);
    upload.synchronize();
    compute.synchronize();
    weir::copy(upload, x, in);
    weir::Event ready(weir::device("cpu"));
    upload.record(ready);
    compute.wait(ready);
    weir::launch(compute, 8, Column{}, weir::in(x.slice({{0, 8}, {3, 4}})), weir::inout(y));
    weir::host_call(compute, [] {});
    compute.synchronize();
  }
  return recorder.finish();
}

TEST(Recorders, keep_commands_with_exact_uses_and_names) {
  const Recording recording = pipeline();
  const Command& launch = only(recording, Op::launch);
  EXPECT_STREQ(recording.text(recording.streams()[launch.stream].name), "compute");
  EXPECT_EQ(recording.streams()[launch.stream].kind, weir::recorded::StreamKind::non_blocking);
  ASSERT_EQ(recording.use_count(launch), 2u);
  const Use column = recording.use(launch, 0);
  EXPECT_EQ(column.offset, 12u);
  EXPECT_EQ(column.bytes, 4u);
  ASSERT_EQ(column.dimensions, 1u);
  EXPECT_EQ(column.repeat[0], (weir::recorded::Repeat{8, 32}));
  EXPECT_EQ(recording.use(launch, 1).access, weir::recorded::Access::inout);
  const Command& copy = only(recording, Op::copy);
  EXPECT_STREQ(recording.text(recording.streams()[copy.stream].name), "up_load");
  ASSERT_EQ(recording.use_count(copy), 2u);
  const weir::recorded::Buffer& source = recording.buffers()[recording.use(copy, 1).buffer];
  EXPECT_EQ(source.kind, weir::MemoryKind::pageable);
  EXPECT_EQ(source.owner, weir::recorded::Owner::user);
  EXPECT_EQ(source.bytes, 256u);
  EXPECT_EQ(only(recording, Op::record).target, only(recording, Op::wait).target);
  EXPECT_GE(count(recording, Op::synchronize), 3u);
  EXPECT_EQ(count(recording, Op::alloc), count(recording, Op::free));
  EXPECT_TRUE(recording.cost(launch) && recording.cost(launch)->ns && *recording.cost(launch)->ns > 0);
}

TEST(Recorders, keep_the_line_of_each_call) {
  weir::Recorder recorder;
  weir::Stream stream(weir::device("cpu"));
  auto x = weir::zeros<float>(stream, 8);
  weir::launch(stream, 8, Nothing{}, weir::inout(x));
  const std::uint32_t line = __LINE__ - 1;
  stream.synchronize();
  const Recording recording = recorder.finish();
  const Command& launch = only(recording, Op::launch);
  EXPECT_EQ(launch.line, line);
  EXPECT_NE(std::string(recording.text(launch.file)).find("recorder_test.cpp"), std::string::npos);
}

TEST(Recorders, find_the_same_commands_when_the_recording_runs) {
  const Recording first = read_again(pipeline());
  const Recording second = read_again(run_again(first));
  EXPECT_EQ(Essence(first, false).lines, Essence(second, true).lines);
}

TEST(Recorders, keep_all_of_what_is_pinned_where_a_part_is_used) {
  std::vector<float> v(100);
  weir::pin(v.data(), v.size() * sizeof(float));
  weir::Recorder recorder;
  {
    weir::Stream stream(weir::device("cpu"));
    const auto touch = [&] { weir::launch(stream, 10, Nothing{}, weir::inout(weir::View<float>(v.data() + 50, 10))); };
    touch();
    weir::unpin(v.data());
    weir::host_call(
        stream, [] {}, weir::inout(weir::View<float>(v.data() + 50, 10)));
    stream.synchronize();
  }
  const Recording recording = read_again(recorder.finish());
  const Use use = recording.use(only(recording, Op::launch), 0);
  EXPECT_EQ(use.offset, 200u);
  EXPECT_EQ(use.bytes, 40u);
  const weir::recorded::Buffer& pinned = recording.buffers()[use.buffer];
  EXPECT_EQ(pinned.kind, weir::MemoryKind::pinned);
  EXPECT_EQ(pinned.owner, weir::recorded::Owner::user);
  EXPECT_EQ(pinned.bytes, 400u);
  EXPECT_EQ(recording.use(only(recording, Op::host_function), 0).buffer, use.buffer) << "and stays one buffer";
}

TEST(Recorders, make_one_buffer_of_memory_that_overlaps) {
  weir::Recorder recorder;
  std::vector<float> host(64, 1.0f);
  {
    weir::Stream stream(weir::device("cpu"));
    auto x = weir::zeros<float>(stream, 64);
    const auto part = [&](std::size_t first, std::size_t count) {
      weir::copy(stream, x.slice(first, first + count), std::span(host).subspan(first, count));
    };
    part(32, 8);
    part(16, 8);
    part(20, 16);
    stream.synchronize();
  }
  const Recording recording = read_again(recorder.finish());
  std::vector<Use> sources;
  for (std::size_t i = 0; i < recording.size(); ++i) {
    if (recording.command(i).op == Op::copy) sources.push_back(recording.use(recording.command(i), 1));
  }
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_EQ(sources[0].buffer, sources[1].buffer);
  EXPECT_EQ(sources[0].buffer, sources[2].buffer);
  EXPECT_EQ(sources[0].offset, 64u);
  EXPECT_EQ(sources[1].offset, 0u);
  EXPECT_EQ(sources[2].offset, 16u);
  EXPECT_EQ(recording.buffers()[sources[0].buffer].bytes, 96u);
}

TEST(Recorders, keep_graphs_with_their_nodes_updates_and_launches) {
  weir::Recorder recorder;
  {
    weir::Stream stream(weir::device("cpu"));
    auto x = weir::zeros<float>(stream, 8);
    auto y = weir::zeros<float>(stream, 8);
    weir::GraphBuilder builder(weir::device("cpu"));
    const weir::Node a = builder.fill(x, 1.0f);
    const weir::Node b = builder.launch(8, Step{}, weir::in(x), weir::inout(y));
    builder.depends(b, a);
    weir::Graph graph = builder.build();
    graph.launch(stream);
    graph.update(b, Step{}, weir::in(y), weir::inout(x));
    graph.disable(a);
    graph.launch(stream);
    stream.synchronize();
  }
  const Recording recording = read_again(recorder.finish());
  const Command& built = only(recording, Op::build_graph);
  const auto nodes = recording.nodes(built);
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].op, Op::fill);
  EXPECT_EQ(nodes[1].op, Op::launch);
  EXPECT_EQ(nodes[1].after, std::vector<std::uint32_t>{0});
  EXPECT_EQ(nodes[1].uses.size(), 2u);
  EXPECT_EQ(count(recording, Op::launch_graph), 2u);
  EXPECT_EQ(recording.use(only(recording, Op::update_node), 0).buffer, nodes[1].uses[1].buffer);
  EXPECT_FALSE(only(recording, Op::enable_node).flag);
  run_again(recording);
}

TEST(Recorders, keep_what_several_threads_do_and_by_whom) {
  weir::Recorder recorder;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([] {
      weir::Stream stream(weir::device("cpu"));
      auto x = weir::zeros<float>(stream, 64);
      for (int i = 0; i < 200; ++i) weir::launch(stream, 64, Nothing{}, weir::inout(x));
      stream.synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Recording recording = read_again(recorder.finish());
  EXPECT_EQ(count(recording, Op::launch), 600u);
  std::map<std::uint32_t, std::size_t> launches;
  for (std::size_t i = 0; i < recording.size(); ++i) {
    if (recording.command(i).op == Op::launch) ++launches[recording.command(i).thread];
  }
  ASSERT_EQ(launches.size(), 3u);
  for (const auto& [thread, made] : launches) EXPECT_EQ(made, 200u);
}

TEST(Recorders, keep_an_order_of_streams_that_no_event_makes) {
  weir::Recorder recorder;
  {
    weir::Stream own(weir::device("cpu"), {.name = "own"}), other(weir::device("cpu"), {.name = "other"});
    auto x = weir::zeros<float>(own, 8);
    auto* tensor = weir::to_dlpack(x, weir::StreamRef(other));
    tensor->deleter(tensor);
    other.synchronize();
  }
  const Recording recording = read_again(recorder.finish());
  const Command& wait = only(recording, Op::wait);
  ASSERT_EQ(wait.target_kind, Target::stream);
  EXPECT_STREQ(recording.text(recording.streams()[wait.stream].name), "other");
  EXPECT_STREQ(recording.text(recording.streams()[wait.target].name), "own");
}

TEST(Recorders, know_the_cost_of_each_command_in_whatever_order_they_end) {
  weir::Recorder recorder;
  std::vector<weir::Stream> streams;
  std::vector<weir::Array<float>> x;
  for (int i = 0; i < 5; ++i) {
    streams.emplace_back(weir::device("cpu"), weir::StreamOptions{.blocking = false});
    x.push_back(weir::zeros<float>(streams.back(), 8));
  }
  std::promise<void> opened;
  weir::host_call(streams[0], [open = opened.get_future().share()] { open.wait(); });
  for (int i = 0; i < 300; ++i) {
    for (std::size_t s = 0; s < streams.size(); ++s) weir::launch(streams[s], 8, Nothing{}, weir::inout(x[s]));
  }
  for (std::size_t s = 1; s < streams.size(); ++s) streams[s].synchronize();  // these end before the first one's
  opened.set_value();
  weir::synchronize();
  const Recording recording = recorder.finish();
  std::size_t known = 0;
  for (std::size_t i = 0; i < recording.size(); ++i) {
    const Command& command = recording.command(i);
    if (command.op != Op::launch) continue;
    const auto cost = recording.cost(command);
    if (cost && cost->ns && *cost->ns > 0) ++known;
  }
  EXPECT_EQ(count(recording, Op::launch), 1500u);
  EXPECT_EQ(known, 1500u);
}

TEST(Recorders, end_before_the_first_command_that_does_not_fit) {
  weir::Recorder recorder({.limit = 256 << 10});
  weir::Stream stream(weir::device("cpu"));
  auto x = weir::zeros<float>(stream, 8);
  for (int i = 0; i < 20000; ++i) weir::launch(stream, 8, Nothing{}, weir::inout(x));
  stream.synchronize();
  const std::size_t dropped = recorder.dropped();
  const Recording recording = recorder.finish();
  EXPECT_GT(dropped, 0u);
  EXPECT_LE(recording.bytes(), std::size_t{256} << 10);
  EXPECT_GE(count(recording, Op::launch), 500u);
  EXPECT_NE(std::string(recording.text(recording.about)).find("not kept"), std::string::npos);
  read_again(recording);
}

TEST(Recorders, of_the_shared_cases_find_what_they_say) {
  std::size_t compared = 0, with_waits = 0;
  for (const Case& one : cases()) {
    if (weir_test::under_thread_sanitizer && !one.clean) continue;
    const Recording recording = weir::parse_recording(one.text);
    if (weir::devices_of(recording) > weir::devices("cpu").size()) continue;
    const bool graphs = count(recording, Op::begin_capture) + count(recording, Op::build_graph) > 0;
    weir::Recorder recorder;
    const weir::RunResult result = weir::run_scenario(recording);
    const Recording again = read_again(recorder.finish());
    if (graphs || !result.misuse.empty()) continue;  // what was captured is in graphs, what was refused is nowhere
    ++compared;
    // A wait for a stream is a record and a wait.
    bool waits = true;
    for (std::size_t i = 0; i < recording.size(); ++i) {
      const Command& command = recording.command(i);
      waits = waits && !(command.op == Op::wait && command.target_kind == Target::stream);
    }
    with_waits += waits && count(recording, Op::wait) > 0 ? 1 : 0;
    EXPECT_EQ(Essence(recording, false, waits).lines, Essence(again, true, waits).lines) << one.id;
  }
  EXPECT_GE(compared, 20u);
  EXPECT_GE(with_waits, 10u);
}

}  // namespace
