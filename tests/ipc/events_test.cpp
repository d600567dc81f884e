// Events of other processes: order, failure, and the end of who records them.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ipc/peer.hpp"
#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

using weir::Errc;

constexpr std::size_t n = 100'003;

class IpcEvents : public AnyDevice {};
ON_EVERY_DEVICE(IpcEvents);

struct Handles {
  weir::ArrayHandle array;
  weir::EventHandle event;
};

/// Fills an array behind a gate, and records an event behind that.
WEIR_SCENE(ipc_fills_behind_a_gate) {
  const Talk test = test_process();
  const weir::Pool pool(test_device(), {.shareable = true});
  const weir::Stream s(test_device());
  const weir::Event filled(test_device());
  auto x = weir::empty<int>(s, n, pool);
  weir::fill(s, x, 1);
  s.synchronize();
  Gate gate;
  gate.hold(s);
  weir::fill(s, x, 7);
  s.record(filled);
  test.say(Handles{weir::export_array(x), weir::export_event(filled)});
  test.await_nod();
  gate.open();
  test.await_nod();
  s.synchronize();
}

TEST_P(IpcEvents, order_streams_of_two_processes) {
  Peer peer("ipc_fills_behind_a_gate", device());
  const auto handles = peer->hear<Handles>();
  auto x = weir::import_array<int>(device(), handles.array);
  const weir::Event filled = weir::import_event(device(), handles.event);
  EXPECT_EQ(filled.device(), device());
  const weir::Stream s(device());
  auto seen = weir::zeros<int>(weir::pinned, n);
  s.wait(filled);
  weir::copy(s, seen, x);
  EXPECT_TRUE(stays(device(), [&] { return !s.done() && !filled.done(); }));
  peer->nod();
  s.synchronize();
  EXPECT_EQ(seen[0], 7);
  EXPECT_EQ(seen[n - 1], 7);
  EXPECT_TRUE(filled.done());
  filled.synchronize();
  s.wait(filled);  // of what is over
  s.synchronize();
  peer->nod();
  EXPECT_TRUE(peer.ends_well());
}

TEST_P(IpcEvents, hold_the_host_that_synchronises_them) {
  Peer peer("ipc_fills_behind_a_gate", device());
  const weir::Event filled = weir::import_event(device(), peer->hear<Handles>().event);
  Marker over;
  std::thread host([&] {
    filled.synchronize();
    over.set(1);
  });
  EXPECT_TRUE(stays(device(), [&] { return over.value() == 0; }));
  peer->nod();
  host.join();
  peer->nod();
  EXPECT_TRUE(peer.ends_well());
}

std::chrono::nanoseconds processor_time() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// More waiting streams than there are workers, and others run; and nobody looks again and again: while nothing happens, the
/// process takes less than a tenth of one core.
TEST_P(IpcEvents, hold_no_worker_and_burn_no_core) {
  Peer peer("ipc_fills_behind_a_gate", device());
  const weir::Event filled = weir::import_event(device(), peer->hear<Handles>().event);
  std::deque<weir::Stream> waiting;
  // On GPUs streams share the driver's channels, and those that wait hold up the others there (R182).
  const std::size_t many = on("cpu") ? 64 : 4;
  Marker ran(many);
  for (std::size_t i = 0; i < many; ++i) {
    waiting.emplace_back(device());
    waiting.back().wait(filled);
    mark(waiting.back(), ran, 1, i);
  }
  const weir::Stream other(device(), {.priority = on("cpu") ? 0 : -1});
  Marker done;
  mark(other, done);
  other.synchronize();
  EXPECT_EQ(done.value(), 1);
  if (on("cpu")) {
    // What came before may end late on a busy machine: one half of a second of some has to be quiet.
    EXPECT_TRUE(eventually([] {
      const auto before = processor_time();
      std::this_thread::sleep_for(std::chrono::milliseconds(500));  // of nothing: it is what is measured
      return processor_time() - before < std::chrono::milliseconds(50);
    }));
  }
  for (std::size_t i = 0; i < many; ++i) EXPECT_EQ(ran.value(i), 0);
  peer->nod();
  for (const weir::Stream& s : waiting) s.synchronize();
  for (std::size_t i = 0; i < many; ++i) EXPECT_EQ(ran.value(i), 1);
  peer->nod();
  EXPECT_TRUE(peer.ends_well());
}

TEST_P(IpcEvents, of_an_exporter_that_dies_fail_the_streams_that_wait) {
  Peer peer("ipc_fills_behind_a_gate", device());
  const auto handles = peer->hear<Handles>();
  const std::string process = "event of process " + std::to_string(peer.pid());
  const weir::Event filled = weir::import_event(device(), handles.event);
  const weir::Stream s(device());
  Marker ran;
  s.wait(filled);
  mark(s, ran);
  std::thread host([&] {
    EXPECT_TRUE(fails_with(Errc::exporter_gone, [&] { filled.synchronize(); },
                           {"weir::Event::synchronize", process, "ended", "events_test.cpp"}));
  });
  EXPECT_TRUE(stays(device(), [&] { return !s.done(); }));
  peer.kill();
  host.join();
  EXPECT_TRUE(
      fails_with(Errc::exporter_gone, [&] { s.synchronize(); }, {process, "ended before the work", "events_test.cpp"}));
  EXPECT_EQ(ran.value(), 0) << "nothing behind it runs on data that nobody wrote";
  EXPECT_TRUE(fails_with(Errc::exporter_gone, [&] { s.wait(filled); }, {process, "has ended"}));
  EXPECT_TRUE(fails_with(Errc::exporter_gone, [&] { static_cast<void>(filled.done()); },
                         {"weir::Event::done", process, "events_test.cpp"}));
  EXPECT_TRUE(fails_with(Errc::exporter_gone, [&] { static_cast<void>(weir::import_event(device(), handles.event)); },
                         {process, "has ended"}));
  mark(s, ran, 2);  // the stream was told, and goes on
  s.synchronize();
  EXPECT_EQ(ran.value(), 2);
}

/// A child that it forked holds none of its sockets: they end with the exporter.
WEIR_SCENE(ipc_forks_a_child_that_stays) {
  const Talk test = test_process();
  const weir::Stream s(test_device());
  const weir::Event recorded(test_device());
  Gate gate;
  gate.hold(s);
  s.record(recorded);
  test.say(weir::export_event(recorded));
  test.await_nod();
  const pid_t child = fork();
  if (child == 0) {
    close(3);
    pause();
    _exit(0);
  }
  test.say(child);
  test.await_nod();
}

TEST_P(IpcEvents, of_an_exporter_whose_child_lives_on_fail_all_the_same) {
  Peer peer("ipc_forks_a_child_that_stays", device());
  const weir::Event recorded = weir::import_event(device(), peer->hear<weir::EventHandle>());
  const weir::Stream s(device());
  s.wait(recorded);
  peer->nod();
  const auto child = peer->hear<pid_t>();
  peer.kill();
  EXPECT_TRUE(fails_with(Errc::exporter_gone, [&] { s.synchronize(); }));
  EXPECT_EQ(kill(child, SIGKILL), 0) << "it was there";
}

/// Ends while its stream waits for an event of a process that goes on.
WEIR_SCENE(ipc_ends_while_a_stream_waits) {
  const Talk test = test_process();
  const weir::Event filled = weir::import_event(test_device(), test.hear<weir::EventHandle>());
  const weir::Stream s(test_device());
  s.wait(filled);
  weir::host_call(s, [] {});
}

TEST_P(IpcEvents, hold_no_process_that_ends) {
  Peer exporter("ipc_fills_behind_a_gate", device());
  const auto handles = exporter->hear<Handles>();
  Peer peer("ipc_ends_while_a_stream_waits", device());
  peer->say(handles.event);
  EXPECT_TRUE(peer.ends_well());
  exporter->nod();
  exporter->nod();
  EXPECT_TRUE(exporter.ends_well()) << "who waited for it is gone, and it goes on";
}

/// Holds its end where its exit handlers run.
WEIR_SCENE(ipc_stays_in_its_exit_handlers) {
  std::atexit([] {  // before the library's own, so that it is called behind them
    test_process().nod();
    test_process().await_nod();
  });
  const Talk test = test_process();
  const weir::Stream s(test_device());
  const weir::Event recorded(test_device());
  s.record(recorded);
  s.synchronize();
  test.say(weir::export_event(recorded));
  test.await_nod();
  std::exit(0);  // its objects live on
}

// The driver comes down beside the process's exit handlers: nobody calls it from another thread then.
TEST_P(IpcEvents, of_a_process_in_its_exit_handlers_are_those_of_one_that_has_ended) {
  Peer peer("ipc_stays_in_its_exit_handlers", device());
  const weir::Event recorded = weir::import_event(device(), peer->hear<weir::EventHandle>());
  const weir::Stream s(device());
  s.wait(recorded);
  s.synchronize();
  peer->nod();
  peer->await_nod();
  EXPECT_TRUE(fails_with(Errc::exporter_gone, [&] { s.wait(recorded); }, {"has ended", "events_test.cpp"}));
  peer->nod();
  EXPECT_TRUE(peer.ends_well());
}

/// A host function that fails, and an event behind it.
WEIR_SCENE(ipc_fails) {
  const Talk test = test_process();
  const weir::Stream s(test_device());
  const weir::Event failed(test_device());
  weir::host_call(s, [] { throw std::runtime_error("the pipe burst"); });
  s.record(failed);
  test.say(weir::export_event(failed));
  test.await_nod();
  try {
    s.synchronize();
  } catch (const weir::Error&) {
    test.nod();
  }
}

TEST_P(IpcEvents, hand_on_what_the_exporters_work_failed_by) {
  Peer peer("ipc_fails", device());
  const weir::Event failed = weir::import_event(device(), peer->hear<weir::EventHandle>());
  const weir::Stream s(device());
  Marker ran;
  s.wait(failed);
  mark(s, ran);
  EXPECT_TRUE(fails_with(Errc::host_function_failed, [&] { s.synchronize(); },
                         {"event of process " + std::to_string(peer.pid()), "its work failed", "the pipe burst"}));
  EXPECT_EQ(ran.value(), 0);
  EXPECT_TRUE(fails_with(Errc::host_function_failed, [&] { failed.synchronize(); }, {"the pipe burst"}));
  peer->nod();
  peer->await_nod();
  EXPECT_TRUE(peer.ends_well());
}

constexpr int rounds = 200;

/// Copies x to y, as often as it is told to, with streams alone waiting for each other.
WEIR_SCENE(ipc_answers_rounds) {
  const Talk test = test_process();
  const weir::Pool pool(test_device(), {.shareable = true});
  const weir::Stream s(test_device());
  const weir::Event copied(test_device());
  auto y = weir::empty<int>(s, n, pool);
  weir::fill(s, y, -1);
  s.record(copied);
  test.say(Handles{weir::export_array(y), weir::export_event(copied)});
  const auto handles = test.hear<Handles>();
  auto x = weir::import_array<int>(test_device(), handles.array);
  const weir::Event filled = weir::import_event(test_device(), handles.event);
  for (int round = 0; round < rounds; ++round) {
    test.await_nod();
    s.wait(filled);
    weir::copy(s, y, x);
    s.record(copied);
    test.nod();
  }
  test.await_nod();
  s.synchronize();
}

/// Each wait takes the record of its moment, across processes as within one: else a later one, which waits for this, would hold
/// both for ever; or an earlier one nobody.
TEST_P(IpcEvents, stand_for_the_record_that_was_last_when_a_stream_began_to_wait) {
  Peer peer("ipc_answers_rounds", device());
  const weir::Pool pool(device(), {.shareable = true});
  const weir::Stream s(device());
  const weir::Event filled(device());
  auto x = weir::empty<int>(s, n, pool);
  const auto theirs = peer->hear<Handles>();
  auto y = weir::import_array<int>(device(), theirs.array);
  const weir::Event copied = weir::import_event(device(), theirs.event);
  peer->say(Handles{weir::export_array(x), weir::export_event(filled)});
  auto seen = weir::zeros<int>(weir::pinned, {rounds, 2});
  for (int round = 0; round < rounds; ++round) {
    weir::fill(s, x, round);
    s.record(filled);
    peer->nod();
    peer->await_nod();
    s.wait(copied);
    weir::copy(s, seen.slice({{round, round + 1}, {0, 1}}), y.slice(0, 1).reshape({1, 1}));
    weir::copy(s, seen.slice({{round, round + 1}, {1, 2}}), y.slice(n - 1, n).reshape({1, 1}));
  }
  s.synchronize();
  for (int round = 0; round < rounds; ++round) {
    ASSERT_EQ(seen.host_view()(round, 0), round);
    ASSERT_EQ(seen.host_view()(round, 1), round);
  }
  peer->nod();
  EXPECT_TRUE(peer.ends_well());
}

/// An event that was never recorded, one that was captured last, and one that is destroyed.
WEIR_SCENE(ipc_exports_events_without_records) {
  const Talk test = test_process();
  const weir::Stream s(test_device());
  const weir::Event never(test_device());
  const weir::Event captured(test_device());
  weir::Event gone(test_device());
  test.say(weir::export_event(never));
  insist(weir::export_event(never) == weir::export_event(never), "an event has one handle");
  test.say(weir::export_event(captured));
  test.say(weir::export_event(gone));
  gone = weir::Event(test_device());
  const auto graph = weir::capture(s, [&] { s.record(captured); });
  test.nod();
  test.await_nod();
}

TEST_P(IpcEvents, without_a_record_order_nothing_and_those_that_are_gone_are_errors) {
  Peer peer("ipc_exports_events_without_records", device());
  const weir::Event never = weir::import_event(device(), peer->hear<weir::EventHandle>());
  const weir::Event captured = weir::import_event(device(), peer->hear<weir::EventHandle>());
  const weir::Event gone = weir::import_event(device(), peer->hear<weir::EventHandle>());
  peer->await_nod();
  const weir::Stream s(device());
  s.wait(never);
  s.synchronize();
  never.synchronize();
  EXPECT_TRUE(never.done()) << "as R68 and R69 say";
  EXPECT_TRUE(fails_with(Errc::captured_event, [&] { s.wait(captured); }, {"captured"}));
  EXPECT_TRUE(fails_with(Errc::invalid_handle, [&] { s.wait(gone); }, {"destroyed", "events_test.cpp"}));
  s.synchronize();  // refused waits left nothing behind
  peer->nod();
  EXPECT_TRUE(peer.ends_well());
}

TEST_P(IpcEvents, R81_are_refused_where_they_make_no_sense) {
  Peer peer("ipc_exports_events_without_records", device());
  const weir::Event imported = weir::import_event(device(), peer->hear<weir::EventHandle>());
  const weir::Stream s(device());
  EXPECT_TRUE(fails_with(Errc::wrong_device, [&] { s.record(imported); }, {"of another process", "events_test.cpp"}));
  EXPECT_TRUE(fails_with(Errc::not_supported, [&] { static_cast<void>(weir::export_event(imported)); }, {"imported"}));
  const weir::TimedEvent timed(device());
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { static_cast<void>(weir::export_event(timed)); }, {"R81"}));
  const weir::Device simulated = weir::device("sim:h200");
  const weir::Event of_simulated(simulated);
  EXPECT_TRUE(fails_with(Errc::not_supported, [&] { static_cast<void>(weir::export_event(of_simulated)); }));
  const weir::Event own(device());
  const weir::EventHandle handle = weir::export_event(own);
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { static_cast<void>(weir::import_event(device(), handle)); },
                         {"this process"}));
  weir::capture_begin(s);
  EXPECT_TRUE(fails_with(Errc::capture_isolation, [&] { s.wait(imported); }, {"another process", "before it begins"}));
  EXPECT_TRUE(fails_with(Errc::capture_invalidated, [&] { static_cast<void>(weir::capture_end(s)); }));
}

/// Streams of other devices and backends wait, too.
TEST_P(IpcEvents, are_waited_for_by_streams_of_every_device) {
  Peer peer("ipc_fills_behind_a_gate", device());
  const weir::Event filled = weir::import_event(device(), peer->hear<Handles>().event);
  std::deque<weir::Stream> waiting;
  for (const weir::Device& other : weir::devices()) {
    waiting.emplace_back(other);
    waiting.back().wait(filled);
    waiting.emplace_back(other, weir::StreamOptions{.blocking = false});
    waiting.back().wait(filled);
    EXPECT_FALSE(waiting.back().done());
  }
  peer->nod();
  for (const weir::Stream& s : waiting) s.synchronize();
  peer->nod();
  EXPECT_TRUE(peer.ends_well());
}

TEST_P(IpcEvents, of_an_exporter_that_is_stopped_are_an_error_after_a_while) {
  if (!on("cpu") || device() != weir::device("cpu"))
    GTEST_SKIP() << "takes ten seconds, and is the same on all devices";
  Peer peer("ipc_fills_behind_a_gate", device());
  const auto handles = peer->hear<Handles>();
  const weir::Event filled = weir::import_event(device(), handles.event);
  const weir::Stream s(device());
  peer.stop();
  EXPECT_TRUE(fails_with(Errc::exporter_gone, [&] { s.wait(filled); }, {"did not answer", "stopped"}));
  s.synchronize();  // nothing was enqueued
  peer.resume();
  auto x = weir::import_array<int>(device(), handles.array);  // it is there again
  s.wait(filled);
  peer->nod();
  s.synchronize();
  EXPECT_EQ(x.to_host(), std::vector<int>(n, 7));
  peer->nod();
  EXPECT_TRUE(peer.ends_well());
}

}  // namespace
}  // namespace weir_test
