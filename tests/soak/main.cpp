// weir_soak: threads do everything at once, at random, for some time; results are right and memory stays flat.
// usage: weir_soak [--seconds N] [--seed N] [--backend NAME] [--devices N] [--threads N] [--only ACTION]...
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

#include "soak.hpp"

namespace {

using namespace weir_soak;
using Clock = std::chrono::steady_clock;

struct Options {
  double seconds = 600;
  std::uint64_t seed = std::random_device{}();
  std::string backend;
  std::size_t devices = 64;
  std::size_t threads = 8;
  std::vector<std::string> only;
};

bool parse(int count, char** words, Options& options) {
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = words[i];
    const char* value = words[i + 1];
    if (name == "--seconds") {
      options.seconds = std::atof(value);
    } else if (name == "--seed") {
      options.seed = std::strtoull(value, nullptr, 10);
    } else if (name == "--backend") {
      options.backend = value;
    } else if (name == "--devices") {
      options.devices = std::strtoull(value, nullptr, 10);
    } else if (name == "--threads") {
      options.threads = std::strtoull(value, nullptr, 10);
    } else if (name == "--only") {
      options.only.emplace_back(value);
    } else {
      return false;
    }
  }
  return count % 2 == 1;
}

struct Sample {
  std::size_t resident = 0;
  std::size_t reserved = 0;
};

Sample sample_of(const Soak& soak) {
  Sample sample;
  std::ifstream pages("/proc/self/statm");
  std::size_t all = 0;
  pages >> all >> sample.resident;
  sample.resident *= static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const weir::Device& device : soak.devices) sample.reserved += weir::default_pool(device).statistics().reserved;
  return sample;
}

double mib(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// The most of the last third is little more than the most of the second one.
bool is_flat(const std::vector<Sample>& samples, std::size_t Sample::*what, const char* name) {
  const auto most = [&](std::size_t begin, std::size_t end) {
    std::size_t largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, samples[i].*what);
    return largest;
  };
  const std::size_t third = samples.size() / 3;
  const std::size_t before = most(third, 2 * third);
  const std::size_t after = most(2 * third, samples.size());
  std::printf("%s: at most %.0f MiB, then %.0f MiB\n", name, mib(before), mib(after));
  if (after <= before + before / 5 + (std::size_t{64} << 20)) return true;
  std::printf("FAILED: %s grows\n", name);
  return false;
}

std::vector<Action> actions_of(const Options& options) {
  std::vector<Action> all = stream_actions();
  all.insert(all.end(), graph_actions().begin(), graph_actions().end());
  if (options.only.empty()) return all;
  std::erase_if(all, [&](const Action& action) {
    return std::find(options.only.begin(), options.only.end(), action.name) == options.only.end();
  });
  return all;
}

void work(Soak& soak, const std::vector<Action>& actions, std::uint64_t seed, std::atomic<bool>& failed) {
  Worker worker{soak, std::mt19937_64(seed)};
  while (!soak.stop.load()) {
    const Action& action = actions[worker.below(actions.size())];
    try {
      action.run(worker);
    } catch (const std::exception& error) {
      std::printf("FAILED: %s: %s\n", action.name, error.what());
      std::fflush(stdout);
      failed = true;
      soak.stop = true;
    }
    ++soak.actions;
  }
}

int run(const Options& options) {
  Soak soak;
  for (const weir::Device& device : weir::devices()) {
    const bool wanted = options.backend.empty() ? device.backend() == weir::devices().front().backend()
                                                : device.backend() == options.backend;
    if (wanted && soak.devices.size() < options.devices) soak.devices.push_back(device);
  }
  if (soak.devices.empty()) {
    std::printf("skipped: there is no device of backend '%s'\n", options.backend.c_str());
    return 77;
  }
  std::vector<Action> actions = actions_of(options);
  if (actions.empty()) return 2;
  std::vector<std::unique_ptr<SharedGraph>> graphs;
  for (const weir::Device& device : soak.devices) {
    soak.graphs.push_back(graphs.emplace_back(std::make_unique<SharedGraph>(device)).get());
  }
  std::printf("soak: %g seconds on %zu device(s) of '%s', %zu threads, --seed %llu\n", options.seconds,
              soak.devices.size(), std::string(soak.devices.front().backend()).c_str(), options.threads,
              static_cast<unsigned long long>(options.seed));
  std::fflush(stdout);
  std::atomic<bool> failed{false};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < options.threads; ++i) {
    threads.emplace_back([&, i] { work(soak, actions, options.seed + 1000 * i, failed); });
  }
  const auto begin = Clock::now();
  const std::chrono::duration<double> time(options.seconds);
  std::vector<Sample> samples;
  while (Clock::now() - begin < time && !soak.stop) {
    std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(time / 30, std::chrono::seconds(1)));
    samples.push_back(sample_of(soak));
  }
  soak.stop = true;
  for (std::thread& thread : threads) thread.join();
  std::printf("%llu actions; %llu captures were void\n", static_cast<unsigned long long>(soak.actions.load()),
              static_cast<unsigned long long>(soak.voided.load()));
  if (failed) return 1;
  for (const auto& shared : graphs) {
    shared->counts.device().synchronize();
    expect_all(shared->stream, shared->counts, shared->replays.load(), "the replays of a graph that threads share");
  }
  graphs.clear();
  for (const weir::Device& device : soak.devices) {
    device.synchronize();
    require(weir::default_pool(device).statistics().used == 0, "a pool whose memory is in use at the end");
  }
  // Short ones are still filling their caches.
  if (options.seconds < 60) return 0;
  const bool flat = is_flat(samples, &Sample::resident, "memory of the process");
  return is_flat(samples, &Sample::reserved, "memory of the devices") && flat ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  Options options;
  if (!parse(count, words, options)) {
    std::fprintf(
        stderr,
        "usage: weir_soak [--seconds N] [--seed N] [--backend NAME] [--devices N] [--threads N] [--only ACTION]...\n");
    return 2;
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::printf("FAILED: %s\n", error.what());
    return 1;
  }
}
