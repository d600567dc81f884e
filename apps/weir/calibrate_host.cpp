// What calls cost the host, and the ways between it and the device.
#include <algorithm>
#include <memory>

#include <weir/event.hpp>
#include <weir/graph.hpp>
#include <weir/host_call.hpp>

#include "calibrate.hpp"

namespace tool {

namespace {

void measure_calls(const Bench& bench, Fields& fields) {
  const weir::StreamRef a = bench.a, b = bench.b;
  constexpr std::size_t small = 4 * Bench::KiB;
  constexpr int count = 200;  // fewer than a stream holds pending
  fields["host.synchronize_us"] = bench.each(count, [&] { a.synchronize(); });
  fields["host.launch_us"] = bench.each(count, [&] { bench.spin(a, 0); });
  fields["host.launch_memory_us"] = bench.each(count, [&] { bench.move(a, small, 1, 256); });
  fields["host.copy_us"] = bench.each(count, [&] { bench.copy_in(a, small); });
  fields["host.copy_within_us"] = bench.each(count, [&] { bench.copy_within(a, small); });
  fields["host.fill_us"] = bench.each(count, [&] { bench.fill(a, small); });
  fields["host.host_function_us"] = bench.each(count, [&] { weir::host_call(a, [] {}); });
  fields["host.allocate_us"] = bench.each(count, [&] { weir::empty<std::uint8_t>(a, small); });

  // Behind a kernel that lasts: what is over already may cost less.
  const weir::Event event(bench.device), held(bench.device);
  constexpr double long_us = 3000;
  const double launch = bench.us([&] { bench.spin(a, long_us); });
  const auto behind_kernel = [&](const std::function<void()>& call) {
    return (bench.us([&] {
             bench.spin(a, long_us);
             for (int i = 0; i < count; ++i) call();
           }) -
            launch) /
           count;
  };
  fields["host.record_us"] = behind_kernel([&] { a.record(event); });
  const double record = fields["host.record_us"];
  fields["host.wait_us"] = (bench.us([&] {
                             bench.spin(a, long_us);
                             a.record(held);
                             for (int i = 0; i < count; ++i) b.wait(held);
                           }) -
                            launch - record) /
                           count;
  fields["host.query_us"] = behind_kernel([&] { (void)a.done(); });
}

/// Waiting ends when the host has woken up, asking when the work is over: within half a question, on average.
void measure_waking(const Bench& bench, Fields& fields) {
  const weir::StreamRef a = bench.a;
  constexpr int steps = 16;
  const double query = fields["host.query_us"];
  double waited = 0, asked = 0;
  for (int i = 0; i < steps; ++i) {
    const double spin = 20 + i * query / steps;
    waited += bench.us_to_end([&] { bench.spin(a, spin); });
    asked += bench.us([&] {
      bench.spin(a, spin);
      while (!a.done()) {
      }
    });
  }
  fields["host.wake_us"] = std::max(0.0, (waited - asked) / steps + query / 2);
  fields["start.kernel_us"] =
      std::max(0.0, bench.us_to_end([&] { bench.spin(a, 0); }) - fields["host.launch_us"] - fields["host.wake_us"]);
}

void measure_functions(const Bench& bench, Fields& fields) {
  const weir::StreamRef a = bench.a;
  // As long that the driver's thread sleeps.
  constexpr double spin = 1000, short_spin = 40;
  const auto function = [&] { weir::host_call(a, [] {}); };
  fields["host.function_us"] = bench.slope(50, 150, [&](int count) {
    bench.spin(a, 2000);
    for (int i = 0; i < count; ++i) function();
    a.synchronize();
  });
  const double itself = fields["host.function_us"];
  fields["start.host_function_us"] =
      std::max(0.0, bench.us_to_end(function) - fields["host.host_function_us"] - itself - fields["host.wake_us"]);
  const double kernel = bench.us_to_end([&] { bench.spin(a, spin); });
  const double to = bench.us_to_end([&] {
    bench.spin(a, spin);
    function();
  });
  const double there_and_back = bench.us_to_end([&] {
    bench.spin(a, spin);
    function();
    bench.spin(a, spin);
  });
  fields["hop.to_host_function_us"] = std::max(0.0, to - kernel - itself);
  fields["hop.from_host_function_us"] = std::max(0.0, there_and_back - to - spin);
  const auto again = [&](bool twice) {
    return bench.us_to_end([&] {
      bench.spin(a, spin);
      function();
      bench.spin(a, short_spin);
      if (twice) function();
    });
  };
  fields["hop.to_awake_function_us"] = std::max(0.0, again(true) - again(false) - itself);
}

weir::Graph chain(const Bench& bench, int nodes, double us) {
  return weir::capture(bench.a, [&] {
    for (int i = 0; i < nodes; ++i) bench.spin(bench.a, us);
  });
}

/// Kernels that can all begin at once.
weir::Graph branches(const Bench& bench, const std::vector<weir::Stream>& streams, double us) {
  return weir::capture(bench.a, [&] {
    for (const weir::Stream& stream : streams) stream.wait(bench.a);
    bench.spin(bench.a, us);
    for (const weir::Stream& stream : streams) bench.spin(stream, us);
    for (const weir::Stream& stream : streams) bench.a.wait(stream);
  });
}

void measure_graphs(const Bench& bench, Fields& fields) {
  constexpr int more = 9, launches = 5;
  constexpr double spin = 3, branch_spin = 50;
  std::vector<weir::Stream> streams;
  for (int i = 0; i < more; ++i) streams.emplace_back(bench.device);
  const weir::Graph short_chain = chain(bench, 20, spin), long_chain = chain(bench, 100, spin);
  const weir::Graph wide = branches(bench, streams, branch_spin), single = chain(bench, 1, branch_spin);
  const auto call = [&](const weir::Graph& graph) { return bench.each(launches, [&] { graph.launch(bench.a); }); };
  const auto through = [&](const weir::Graph& graph) { return bench.us_to_end([&] { graph.launch(bench.a); }); };
  fields["host.graph_us"] = call(long_chain);
  fields["host.graph_branch_us"] = std::max(0.0, (call(wide) - call(single)) / more);
  fields["start.graph_branch_us"] =
      std::max(0.0, (through(wide) - through(single)) / more - fields["host.graph_branch_us"]);
  fields["hop.graph_us"] = std::max(0.0, (through(long_chain) - through(short_chain)) / 80 - spin);
}

}  // namespace

void measure_host(const Bench& bench, Fields& fields) {
  measure_calls(bench, fields);
  measure_waking(bench, fields);
  measure_functions(bench, fields);
  measure_graphs(bench, fields);
}

}  // namespace tool
