// What the threads of the soak share: who may use what, which failures are still to be told, and the first thing that was
// wrong.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <weir/weir.hpp>

namespace weir_soak {

/// Failures of host functions, each told exactly once: by its stream's synchronisation, or by somebody's of its device.
class Ledger {
 public:
  std::uint64_t open() { return next_.fetch_add(1); }
  /// Notes what an Error tells; throws it again where it is no failure that the soak made.
  void told(const weir::Error& error);
  std::size_t times_told(std::uint64_t failure) const;

 private:
  std::atomic<std::uint64_t> next_{1};
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::size_t> told_;
};

/// Many threads replay it, and one of them changes it now and then; each element counts the replays.
struct SharedGraph {
  explicit SharedGraph(weir::Device device);

  weir::Stream stream;
  weir::Array<int> counts;
  weir::Array<int> spare;
  weir::Graph graph;
  weir::Node spare_node;
  std::mutex change;
  std::atomic<int> replays{0};
};

struct Soak {
  std::vector<weir::Device> devices;
  std::vector<SharedGraph*> graphs;  ///< one for each device
  Ledger ledger;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> actions{0};
  std::atomic<std::uint64_t> voided{0};  ///< captures that a synchronisation of the device made void, as it must
};

/// One thread of the soak.
struct Worker {
  Soak& soak;
  std::mt19937_64 random;

  std::uint64_t below(std::uint64_t n) { return random() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  std::size_t device_number() { return below(soak.devices.size()); }
  weir::Device device() { return soak.devices[device_number()]; }
};

void require(bool holds, const std::string& what);

struct Action {
  const char* name;
  void (*run)(Worker&);
};
const std::vector<Action>& stream_actions();
const std::vector<Action>& graph_actions();

/// All elements, read back in the stream's order, are this number.
void expect_all(const weir::Stream& stream, const weir::Array<int>& x, int value, const char* what);

struct Add {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int value) const { x[i] += value; }
};

}  // namespace weir_soak
