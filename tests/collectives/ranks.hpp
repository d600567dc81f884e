// Ranks on CPU devices: communicators and a stream for each, served by the test's one thread.
#pragma once

#include <cstddef>
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

/// Rank i is device i, as far as there are that many.
struct Ranks {
  explicit Ranks(std::size_t count, const weir::CommunicatorOptions& options = {}) {
    std::vector<weir::Device> devices;
    for (std::size_t i = 0; i < count; ++i) {
      devices.push_back(weir::device("cpu:" + std::to_string(i % cpu_devices)));
      streams.emplace_back(devices.back());
    }
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

}  // namespace weir_test
