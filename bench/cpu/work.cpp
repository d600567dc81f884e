// Empty kernels on streams: one after another, round robin, by turns, forked and joined.
#include "work.hpp"

#include <ctime>

#include "support/measure.hpp"
#include "support/proof.hpp"

namespace bench {

double thread_seconds() {
  std::timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

namespace {

constexpr auto nothing = [](std::size_t) { tally(); };

std::vector<weir::Event> make_events(weir::Device device, std::size_t count) {
  std::vector<weir::Event> events;
  events.reserve(count);
  for (std::size_t i = 0; i < count; ++i) events.emplace_back(device);
  return events;
}

}  // namespace

std::vector<weir::Stream> make_streams(weir::Device device, std::size_t count) {
  std::vector<weir::Stream> streams;
  streams.reserve(count);
  for (std::size_t i = 0; i < count; ++i) streams.emplace_back(device);
  return streams;
}

LaunchRate::LaunchRate(weir::Device device, std::size_t streams, std::size_t count)
    : streams_(make_streams(device, streams)), count_(count) {}

double LaunchRate::operator()() {
  const double time = counted(count_, [this] {
    return seconds([this] {
      std::size_t stream = 0;
      for (std::size_t i = 0; i < count_; ++i) {
        weir::launch(streams_[stream], 1, nothing);
        if (++stream == streams_.size()) stream = 0;
      }
      for (const weir::Stream& s : streams_) s.synchronize();
    });
  });
  return static_cast<double>(count_) / time * 1e-6;
}

RoundTrip::RoundTrip(weir::Device device, std::size_t count) : stream_(device), count_(count) {}

double RoundTrip::operator()() {
  const double time = counted(count_, [this] {
    return seconds([this] {
      for (std::size_t i = 0; i < count_; ++i) {
        weir::launch(stream_, 1, nothing);
        stream_.synchronize();
      }
    });
  });
  return time / static_cast<double>(count_) * 1e6;
}

Hop::Hop(weir::Device device, std::size_t count)
    : streams_(make_streams(device, 2)), events_(make_events(device, 2)), count_(count) {}

void Hop::turn(std::size_t from) {
  weir::launch(streams_[from], 1, nothing);
  streams_[from].record(events_[from]);
  streams_[1 - from].wait(events_[from]);
}

double Hop::operator()() {
  const double time = counted(count_, [this] {
    return seconds([this] {
      for (std::size_t i = 0; i < count_; ++i) turn(i % 2);
      for (const weir::Stream& s : streams_) s.synchronize();
    });
  });
  return time / static_cast<double>(count_) * 1e6;
}

ForkJoin::ForkJoin(weir::Device device, std::size_t width, std::size_t count)
    : main_(device),
      forked_(device),
      streams_(make_streams(device, width)),
      events_(make_events(device, width)),
      count_(count) {}

void ForkJoin::once() {
  weir::launch(main_, 1, nothing);
  main_.record(forked_);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    streams_[i].wait(forked_);
    weir::launch(streams_[i], 1, nothing);
    streams_[i].record(events_[i]);
  }
  for (const weir::Event& event : events_) main_.wait(event);
  weir::launch(main_, 1, nothing);
  main_.synchronize();
}

double ForkJoin::operator()() {
  const double time = counted(count_ * (streams_.size() + 2), [this] {
    return seconds([this] {
      for (std::size_t i = 0; i < count_; ++i) once();
    });
  });
  return time / static_cast<double>(count_) * 1e6;
}

}  // namespace bench
