// Selftest checks of kernels, failures, priorities and the end of streams.
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weir/algorithm.hpp>
#include <weir/array.hpp>
#include <weir/copy.hpp>
#include <weir/error.hpp>
#include <weir/event.hpp>
#include <weir/memory.hpp>
#include <weir/stream.hpp>

#include "checks.hpp"
#include "work.hpp"

namespace tool {

namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

Verdict blocks_share_memory(weir::Device device) {
  constexpr std::uint32_t threads = 64;
  constexpr std::size_t n = threads * 100;
  const weir::Stream stream(device);
  const auto host = weir::empty<std::uint32_t>(weir::pinned, n);
  for (std::size_t i = 0; i < n; ++i) host[i] = static_cast<std::uint32_t>(i);
  const auto there = weir::empty<std::uint32_t>(stream, n);
  weir::copy(stream, there, host);
  reverse_runs(stream, there.slice(0, n), threads);
  weir::copy(stream, host, there);
  stream.synchronize();
  bool good = true;
  for (std::size_t i = 0; i < n; ++i) good = good && host[i] == i / threads * threads + threads - 1 - i % threads;
  return Judgement().expect(good, "threads of a block did not see what the others had written before the barrier");
}

Verdict reductions_are_exact(weir::Device device) {
  constexpr std::size_t n = 100'003;
  const weir::Stream stream(device);
  const auto values = weir::full<std::uint32_t>(stream, n, 3);
  const auto sums = weir::empty<std::uint32_t>(stream, n);
  const auto total = weir::empty<std::uint32_t>(stream, 1);
  const auto host = weir::empty<std::uint32_t>(weir::pinned, n);
  const auto host_total = weir::zeros<std::uint32_t>(weir::pinned, 1);
  weir::reduce(stream, values, total);
  weir::inclusive_scan(stream, values, sums);
  weir::copy(stream, host, sums);
  weir::copy(stream, host_total, total);
  stream.synchronize();
  bool good = host_total[0] == 3 * n;
  for (std::size_t i = 0; i < n; ++i) good = good && host[i] == 3 * (i + 1);
  return Judgement().expect(good, "a reduction or a scan has a wrong result");
}

std::optional<weir::Error> synchronize_error(weir::StreamRef stream) {
  try {
    stream.synchronize();
    return std::nullopt;
  } catch (const weir::Error& error) {
    return error;
  }
}

Verdict failing_kernel_is_reported(weir::Device device) {
  if (device.backend() == "cuda") return {Outcome::skipped, "kernels of a GPU cannot throw"};
  const weir::Stream stream(device, {.name = "doomed"});
  const auto value = weir::full<std::uint32_t>(weir::pinned, 1, 1);
  fail(stream);
  weir::fill(stream, value, 2u);
  const std::optional<weir::Error> error = synchronize_error(stream);
  Judgement judgement;
  judgement.expect(error && error->errc() == weir::Errc::kernel_failed, "synchronize did not throw kernel_failed");
  judgement.expect(value[0] == 1, "work behind a failed kernel ran");
  if (error) {
    judgement.expect(contains(error->what(), failing_kernel), "the error does not name the kernel");
    judgement.expect(contains(error->what(), "doomed"), "the error does not name the stream");
    judgement.expect(contains(error->what(), "work.cpp:"), "the error does not name the launch's line");
  }
  judgement.expect(!synchronize_error(stream), "the failure was reported twice");
  weir::fill(stream, value, 3u);
  stream.synchronize();
  return judgement.expect(value[0] == 3, "the stream does not run any more");
}

/// Four streams and an urgent one with as many long kernels as each of them, which comes last: how many of all kernels have
/// ended when its last one has. Each is a loop that takes the whole device, so one after the other is as fast as all at once.
std::uint32_t place_of_urgent(weir::Device device, int least, int greatest) {
  constexpr std::size_t others = 4, launches = 10, elements = 64,
                        cells = Board::first_slot + 2 + (others + 1) * launches;
  constexpr std::uint32_t rounds = 50'000;
  const auto tickets = weir::zeros<std::uint32_t>(weir::pinned, cells);
  const Board board{tickets.data()};
  struct Work {
    weir::Stream stream;
    weir::Array<std::uint32_t> batch, state;
  };
  std::vector<Work> all;
  for (std::size_t s = 0; s <= others; ++s) {
    weir::Stream stream(device, {.priority = s == others ? greatest : least, .blocking = false});
    auto batch = weir::full<std::uint32_t>(stream, elements, 1);
    auto state = weir::full<std::uint32_t>(stream, elements, 1);
    stream.synchronize();
    all.push_back({std::move(stream), std::move(batch), std::move(state)});
  }
  // None begins before all are there, however late the host is.
  struct Opening {
    Board board;
    void open() const { std::atomic_ref(board.cells[Board::gate]).store(1); }
    ~Opening() { open(); }
  } const gate{board};
  std::size_t slot = Board::first_slot + 2;
  const weir::Stream held(device, {.blocking = false});
  hold(held, board, Board::first_slot, Board::first_slot + 1);
  const weir::Event opened = held.record();
  for (const Work& work : all) {
    work.stream.wait(opened);
    for (std::size_t launch = 0; launch < launches; ++launch) {
      digest(work.stream, work.batch.slice(0, elements), work.state.slice(0, elements), rounds);
      mark(work.stream, board, slot++);
    }
  }
  gate.open();
  for (const Work& work : all) work.stream.synchronize();
  return tickets[slot - 1] - 2;  // the first two are those of the gate
}

Verdict priorities_are_kept(weir::Device device) {
  const auto [least, greatest] = device.properties().stream_priorities;
  const weir::Stream low(device, {.priority = least}), high(device, {.priority = greatest});
  const weir::Stream above(device, {.priority = greatest - 100}), below(device, {.priority = least + 100});
  Judgement judgement;
  judgement.expect(greatest <= least, "the range of priorities is empty")
      .expect(low.priority() == least && high.priority() == greatest, "a stream has another priority than asked for")
      .expect(above.priority() == greatest && below.priority() == least, "priorities are not clamped to the range");
  if (device.backend() == "cuda" || greatest == least) {
    const Verdict range = judgement;
    if (range.outcome != Outcome::kept) return range;
    return {Outcome::skipped, "the range is as it should be; what comes first is the device's affair (R13)"};
  }
  // Of 50. Without priorities it would be among the last, with them it is at best the 10th, and seldom beyond the 25th.
  const std::uint32_t place = place_of_urgent(device, least, greatest);
  return judgement.expect(
      place <= 40, std::to_string(place - 1) + " of 50 long kernels ended before the last of 10 urgent ones did");
}

Verdict scoped_stream_waits(weir::Device device) {
  const weir::Stream outer(device, {.blocking = false}), inner(device, {.blocking = false});
  Scenario scene(device);
  {
    const weir::ScopedStream current(outer);
    scene.hold({outer}, "K1");
    const weir::ScopedStream next(inner);
    scene.mark({inner}, "K2");
  }
  scene.mark({outer}, "K3");
  scene.expect_after("K2", "K1");
  scene.expect_after("K3", "K1");
  scene.play();
  return Judgement().expect(scene);
}

Verdict destroyed_streams_finish(weir::Device device) {
  Scenario scene(device);
  {
    const weir::Stream stream(device);
    scene.hold({stream}, "K1");
    scene.mark({stream}, "K2");
  }
  const bool returned = scene.unforced();
  scene.expect_after("K2", "K1");
  scene.play();
  return Judgement().expect(scene).expect(returned, "destroying a stream waited for its work");
}

constexpr Check checks[] = {
    {"threads of a block share memory in phases", "N3", blocks_share_memory},
    {"reductions and scans are exact", "N3", reductions_are_exact},
    {"a failing kernel is reported, by name and line", "R7", failing_kernel_is_reported},
    {"urgent streams go first, also among long kernels", "C14 R13 R14", priorities_are_kept},
    {"a scoped stream waits for the one current before it", "W11", scoped_stream_waits},
    {"a destroyed stream finishes its work", "C7", destroyed_streams_finish},
};

}  // namespace

std::span<const Check> work_checks() { return checks; }

}  // namespace tool
