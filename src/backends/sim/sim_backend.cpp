#include "backends/sim/sim_backend.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weir/error.hpp>
#include <weir/sim.hpp>

#include "backend.hpp"
#include "backends/sim/clock.hpp"
#include "backends/sim/profile_file.hpp"

namespace weir::sim {

namespace {

constexpr int most_devices = 64;
/// Of a block on any device since compute capability 2.0; and what a multiprocessor keeps of its shared memory for each.
constexpr std::size_t most_threads = 1024;
constexpr std::size_t most_shared_bytes = 227 * 1024;

struct SimDevice {
  std::string name;  ///< as behind "sim:"
  std::string profile_name;
  model::Profile profile;
  Backend* behind;
};

class SimBackend final : public Backend {
 public:
  explicit SimBackend(const Behind& behind) : make_(behind) {}

  std::string_view name() const override { return "sim"; }
  int device_count() override { return count_.load(std::memory_order_acquire); }

  std::vector<std::string> named_devices() override { return profile_names(); }
  std::pair<int, std::string> open_named(const std::string& name) override;

  DeviceProperties properties(int device) override;

  Queue& open_queue(int device, const QueueOptions& options) override {
    return behind(device).open_queue(device, options);
  }
  detail::EventState& open_event(int device, bool timed) override { return behind(device).open_event(device, timed); }
  detail::PoolState& default_pool(int device) override { return behind(device).default_pool(device); }
  detail::PoolState& open_pool(int device, const PoolOptions& options) override {
    return behind(device).open_pool(device, options);
  }
  detail::GraphExecutable* instantiate(int device, const detail::GraphForm& form, void* driver_graph,
                                       SourceLocation where) override {
    return behind(device).instantiate(device, form, driver_graph, where);
  }
  std::unique_ptr<detail::CollectiveTransport> open_transport(const std::vector<int>& devices) override;
  /// The clock is this process's.
  std::unique_ptr<detail::CollectiveTransport> open_rank_transport(int) override { return nullptr; }
  void synchronize(int device, const char* operation, SourceLocation where) override {
    behind(device).synchronize(device, operation, where);
  }
  void drain(int device) noexcept override { behind(device).drain(device); }
  void set_wait_mode(int device, WaitMode mode, SourceLocation where) override {
    behind(device).set_wait_mode(device, mode, where);
  }
  KernelFacts kernel_facts(int device, const Kernel& kernel, const char* operation, SourceLocation where) override;
  std::size_t resident_blocks(int device, const Kernel&, std::size_t threads, std::size_t shared_bytes, const char*,
                              SourceLocation) override;
  detail::DeviceClock* clock() override { return &sim::clock(); }

  std::optional<PointerInfo> locate(const void* data) override {
    // All that stand behind devices of this backend know the memory of all of them.
    return device_count() == 0 ? std::nullopt : behind(0).locate(data);
  }
  /// Those of one profile are like GPUs of one machine.
  bool can_access_peer(int from, int to) override { return from != to && at(from).profile.name == at(to).profile.name; }
  bool peer_access(int from, int to) override { return peers_[pair(from, to)].load(std::memory_order_relaxed); }
  void set_peer_access(int from, int to, bool enabled) override { peers_[pair(from, to)].store(enabled); }
  LinkRates link_rates(int device) const {
    const SimDevice& one = at(device);
    constexpr double giga = 1e9;
    return {one.profile_name, giga * one.profile.link.h2d_gb_s, giga * one.profile.link.d2h_gb_s};
  }

 private:
  SimDevice& at(int device) const {
    return *devices_[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
  }
  Backend& behind(int device) { return *at(device).behind; }
  static std::size_t pair(int from, int to) { return static_cast<std::size_t>(from * most_devices + to); }

  const Behind make_;
  std::atomic<int> count_{0};
  std::array<std::atomic<SimDevice*>, most_devices> devices_{};
  std::array<std::atomic<bool>, most_devices * most_devices> peers_{};
};

/// "h200:1" without the number, which is not negative; of a name without one it is 0.
int take_number(std::string& name) {
  const std::size_t colon = name.rfind(':');
  if (colon == std::string::npos) return 0;
  int number = -1;
  const char* end = name.data() + name.size();
  const auto [last, error] = std::from_chars(name.data() + colon + 1, end, number);
  if (error != std::errc{} || last != end || number < 0) return 0;
  name.resize(colon);
  return number;
}

std::pair<int, std::string> SimBackend::open_named(const std::string& asked) {
  if (asked.empty()) throw std::string("a simulated device is named after its profile, as sim:h200 is");
  std::string name = asked;
  const int number = take_number(name);
  if (number >= most_devices) throw "there are at most " + std::to_string(most_devices) + " simulated devices";
  const std::string profile_name = name;
  if (number > 0) name.append(":").append(std::to_string(number));
  const int count = device_count();
  for (int i = 0; i < count; ++i) {
    if (at(i).name == name) return {i, name};
  }
  model::Profile profile = load_profile(profile_name);
  if (count == most_devices) throw "there are at most " + std::to_string(most_devices) + " simulated devices";
  auto device = std::make_unique<SimDevice>(SimDevice{name, profile_name, std::move(profile), nullptr});
  add_to_clock(count, profile_name, device->profile);
  device->behind = &make_.device(*this, count, static_cast<std::size_t>(device->profile.memory_bytes));
  devices_[static_cast<std::size_t>(count)].store(device.release(), std::memory_order_release);
  count_.store(count + 1, std::memory_order_release);
  return {count, name};
}

std::unique_ptr<detail::CollectiveTransport> SimBackend::open_transport(const std::vector<int>& devices) {
  std::vector<Backend*> behind;
  for (const int device : devices) {
    const SimDevice &first = at(devices.front()), &one = at(device);
    if (one.profile_name != first.profile_name)
      throw "sim:" + first.name + " and sim:" + one.name +
          " have no link: collectives run among simulated devices of one profile";
    behind.push_back(one.behind);
  }
  return make_.transport(behind);
}

DeviceProperties SimBackend::properties(int device) {
  const model::Profile& profile = at(device).profile;
  const int tenths = static_cast<int>(std::lround(10 * profile.compute_capability));
  DeviceProperties p = behind(device).properties(device);
  p.name = profile.name + ", simulated";
  p.backend = "sim";
  p.compute_capability = {tenths / 10, tenths % 10};
  p.multiprocessors = static_cast<int>(profile.sms);
  p.memory = static_cast<std::size_t>(profile.memory_bytes);
  p.concurrent_kernels = profile.resident_kernels > 1;
  p.async_engine_count = static_cast<int>(profile.copy_engines);
  p.max_resident_kernels = static_cast<int>(profile.resident_kernels);
  p.max_threads_per_block = std::min(most_threads, static_cast<std::size_t>(profile.threads_per_sm));
  p.max_shared_bytes_per_block = std::min(most_shared_bytes, static_cast<std::size_t>(profile.shared_bytes_per_sm));
  p.cache_bytes = 0;
  return p;
}

KernelFacts SimBackend::kernel_facts(int device, const Kernel& kernel, const char* operation, SourceLocation where) {
  KernelFacts facts = Backend::kernel_facts(device, kernel, operation, where);
  facts.threads_per_multiprocessor = static_cast<std::size_t>(at(device).profile.threads_per_sm);
  return facts;
}

/// As the model places them: in whole warps of 32 threads.
std::size_t SimBackend::resident_blocks(int device, const Kernel&, std::size_t threads, std::size_t shared_bytes,
                                        const char*, SourceLocation) {
  const model::Profile& profile = at(device).profile;
  const double warps = std::ceil(static_cast<double>(threads) / 32);
  double most = std::min(profile.blocks_per_sm, std::floor(profile.threads_per_sm / (32 * warps)));
  if (shared_bytes != 0)
    most = std::min(most, std::floor(profile.shared_bytes_per_sm / static_cast<double>(shared_bytes)));
  return static_cast<std::size_t>(std::max(1.0, most));
}

/// Null as long as nobody has asked for simulated devices.
std::atomic<const SimBackend*> the_backend{nullptr};

}  // namespace

Backend& backend(const Behind& behind) {
  static auto& instance = *new SimBackend(behind);  // outlives every static object of the program
  the_backend.store(&instance, std::memory_order_release);
  return instance;
}

LinkRates link_rates(Device device, SourceLocation where) {
  const SimBackend* const backend = the_backend.load(std::memory_order_acquire);
  if (device.backend() != "sim" || backend == nullptr)
    throw Error(Errc::invalid_value, "weir::sim::link_rates", device.name(), "it is no simulated device", where);
  return backend->link_rates(device.index());
}

}  // namespace weir::sim
