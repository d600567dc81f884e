// Ranks on CPU devices, or on GPUs where WEIR_TEST_BACKEND is cuda: communicators and a stream for each, served by the test's
// one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include <weir/collectives.hpp>
#include <weir/copy.hpp>
#include <weir/graph.hpp>

#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {

/// The program has this many CPU devices.
inline constexpr std::size_t cpu_devices = 7;

inline std::string backend() {
  const char* const said = std::getenv("WEIR_TEST_BACKEND");
  return said != nullptr ? said : "cpu";
}
inline bool on_cpu() { return backend() == "cpu"; }
/// A communicator takes about a second to make, and tests are to make few.
inline bool on_real_gpus() {
  const char* const library = std::getenv("WEIR_NCCL");
  return !on_cpu() && (library == nullptr || *library != '\0');
}
/// Several ranks may be on one CPU device.
inline std::size_t most_ranks() { return on_cpu() ? 1000 : weir::devices(backend()).size(); }
/// Of a rank's device.
inline std::string name_of(std::size_t rank) {
  return backend() + ":" + std::to_string(on_cpu() ? rank % cpu_devices : rank);
}
inline weir::Device device_of(std::size_t rank) { return weir::device(name_of(rank)); }
inline std::vector<weir::Device> devices_of(std::size_t ranks) {
  std::vector<weir::Device> devices;
  for (std::size_t r = 0; r < ranks; ++r) devices.push_back(device_of(r));
  return devices;
}
#define WEIR_NEEDS_RANKS(count)                                                             \
  if (most_ranks() < (count)) {                                                             \
    GTEST_SKIP() << "needs " << (count) << " devices, and " << most_ranks() << " are here"; \
  }

#define WEIR_NEEDS_GPUS                                 \
  if (on_cpu()) GTEST_SKIP() << "this is said of GPUs"; \
  WEIR_NEEDS_RANKS(2u)

/// So many ints NCCL reduces; far fewer are reduced by kernels of Weir's where GPUs reach each other.
inline constexpr std::size_t many = 70'000;

inline std::vector<int> ints(std::size_t count, int value) { return std::vector<int>(count, value); }

/// Rank i is device i, as far as there are that many.
struct Ranks {
  explicit Ranks(std::size_t count, const weir::CommunicatorOptions& options = {})
      : Ranks(devices_of(count), options) {}
  explicit Ranks(const std::vector<weir::Device>& devices, const weir::CommunicatorOptions& options = {}) {
    for (const weir::Device device : devices) streams.emplace_back(device);
    comms = weir::communicators(devices, options);
  }
  std::size_t size() const { return comms.size(); }
  void synchronize() const {
    for (const weir::Stream& stream : streams) stream.synchronize();
  }
  /// An array of each rank, made in its stream.
  template <class T, class F>
  std::vector<weir::Array<T>> arrays(std::size_t count, F&& element) const {
    std::vector<weir::Array<T>> made;
    std::vector<T> values(count);
    for (std::size_t r = 0; r < size(); ++r) {
      for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(element(r, i));
      made.push_back(weir::empty<T>(streams[r], count));
      weir::copy(streams[r], made.back(), values);
    }
    return made;
  }
  template <class T>
  std::vector<weir::Array<T>> zeros(std::size_t count) const {
    return arrays<T>(count, [](std::size_t, std::size_t) { return 0; });
  }

  std::vector<weir::Stream> streams;
  std::vector<weir::Communicator> comms;
};

/// What the ranks call, in their streams: all of these are captured by the first one.
template <class F>
weir::Graph captured(const Ranks& ranks, F&& calls) {
  ranks.synchronize();
  weir::capture_begin(ranks.streams[0]);
  for (std::size_t r = 1; r < ranks.size(); ++r) ranks.streams[r].wait(ranks.streams[0]);
  calls();
  for (std::size_t r = 1; r < ranks.size(); ++r) ranks.streams[0].wait(ranks.streams[r]);
  return weir::capture_end(ranks.streams[0]);
}

}  // namespace weir_test
