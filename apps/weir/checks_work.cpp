// Selftest checks of kernels, failures, priorities and the end of streams.
#include <cstdint>
#include <optional>
#include <string_view>

#include <weir/algorithm.hpp>
#include <weir/array.hpp>
#include <weir/copy.hpp>
#include <weir/error.hpp>
#include <weir/memory.hpp>

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

Verdict priorities_are_kept(weir::Device device) {
  const auto [least, greatest] = device.properties().stream_priorities;
  const weir::Stream low(device, {.priority = least}), high(device, {.priority = greatest});
  const weir::Stream above(device, {.priority = greatest - 100}), below(device, {.priority = least + 100});
  return Judgement()
      .expect(greatest <= least, "the range of priorities is empty")
      .expect(low.priority() == least && high.priority() == greatest, "a stream has another priority than asked for")
      .expect(above.priority() == greatest && below.priority() == least, "priorities are not clamped to the range");
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
    {"streams have the priorities asked for", "C14 R13 R14", priorities_are_kept},
    {"a destroyed stream finishes its work", "C7", destroyed_streams_finish},
};

}  // namespace

std::span<const Check> work_checks() { return checks; }

}  // namespace tool
