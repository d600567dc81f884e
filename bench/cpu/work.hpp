// The work of B1 to B5 on streams: objects that keep their streams and events, called for one figure each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <weir/weir.hpp>

namespace bench {

/// Of the calling thread's own time.
double thread_seconds();

/// Seconds of its own that `act(i)` takes the thread for all i below `count`: it waits after `at_once` of them, so that no queue
/// is ever full and the thread runs no kernels.
template <class Act, class Synchronize>
double caller_seconds(std::size_t count, std::size_t at_once, const Act& act, const Synchronize& synchronize) {
  double time = 0;
  for (std::size_t done = 0; done < count;) {
    const std::size_t end = std::min(done + at_once, count);
    const double begin = thread_seconds();
    for (; done < end; ++done) act(done);
    time += thread_seconds() - begin;
    synchronize();
  }
  return time;
}

std::vector<weir::Stream> make_streams(weir::Device device, std::size_t count);

/// Empty launches, round robin, then a wait for each stream. Million launches a second.
class LaunchRate {
 public:
  LaunchRate(weir::Device device, std::size_t streams, std::size_t count);
  double operator()();

 private:
  std::vector<weir::Stream> streams_;
  std::size_t count_;
};

/// One empty launch and a wait for it. Microseconds.
class RoundTrip {
 public:
  RoundTrip(weir::Device device, std::size_t count);
  double operator()();

 private:
  weir::Stream stream_;
  std::size_t count_;
};

/// Two streams that run an empty kernel by turns, ordered by events; all is submitted, then waited for. Microseconds a turn.
class Hop {
 public:
  Hop(weir::Device device, std::size_t count);
  double operator()();

 private:
  void turn(std::size_t from);

  std::vector<weir::Stream> streams_;
  std::vector<weir::Event> events_;
  std::size_t count_;
};

/// A kernel on a main stream, then one on each of `width` streams, then one on the main stream, and a wait. Microseconds.
class ForkJoin {
 public:
  ForkJoin(weir::Device device, std::size_t width, std::size_t count);
  double operator()();

 private:
  void once();

  weir::Stream main_;
  weir::Event forked_;
  std::vector<weir::Stream> streams_;
  std::vector<weir::Event> events_;
  std::size_t count_;
};

}  // namespace bench
