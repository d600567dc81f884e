// Random programs on simulated devices: right results, times that hold every rule of order and capacity, the same in each
// run, and the same as the model alone has them. WEIR_PROGRAMS says how many; 1,000 if it says nothing, fewer with a sanitizer.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include <weir/recorder.hpp>
#include <weir/sim.hpp>
#include <weir/weir.hpp>

#include "support/sanitizers.hpp"
#include "support/watchdog.hpp"

namespace {

using weir::sim::Engine;
using weir::sim::PredictedCommand;

struct Work {
  void operator()(std::size_t i, weir::View<float> data) const { data[i] += 1; }
};

constexpr double block_us = 7;
constexpr double blocks = 400;
constexpr double threads = 256;

unsigned programs() {
  const char* const wanted = std::getenv("WEIR_PROGRAMS");
  if (wanted != nullptr) return static_cast<unsigned>(std::stoul(wanted));
  return weir_test::under_address_sanitizer || weir_test::under_thread_sanitizer ? 12 : 1000;
}

/// A program of one thread that only the seed decides.
class RandomProgram {
 public:
  RandomProgram(weir::Device device, unsigned seed) : device_(device), works_(seed % 2 == 0), random_(seed) {
    const unsigned streams = 1 + random_() % 6;
    for (unsigned i = 0; i < streams; ++i) {
      const bool blocking = random_() % 2 == 0;
      owned_.emplace_back(device,
                          weir::StreamOptions{.priority = -static_cast<int>(random_() % 3), .blocking = blocking});
      streams_.push_back({owned_.back(), blocking});
    }
    streams_.push_back({weir::legacy_stream(device), true});
    for (const Used& used : streams_) {
      arrays_.push_back(weir::zeros<float>(used.stream, elements));
      pinned_.push_back(weir::zeros<float>(weir::pinned, elements));
    }
    for (int i = 0; i < 4; ++i) events_.emplace_back(device);
    recorded_.resize(events_.size());
    graph_ = weir::capture(owned_[0], [&] {
      for (int i = 0; i < 3; ++i) {
        if (i == 1) weir::host_call(owned_[0], [this] { work_in_graph(); });
        weir::launch(weir::Extent{.size = elements, .name = "random"}, Work{}, weir::inout(arrays_[0]));
      }
    });
    device.synchronize();
  }

  void run() {
    for (int i = 0; i < 60; ++i) step();
    device_.synchronize();
  }
  std::vector<float> results() const {
    std::vector<float> all;
    for (const weir::Array<float>& array : arrays_) {
      const std::vector<float> one = array.to_host();
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  /// Of each command, in the order of the calls: those that it comes behind.
  const std::vector<std::set<std::size_t>>& behind() const { return behind_; }

 private:
  static constexpr std::size_t elements = 4000;
  struct Used {
    weir::StreamRef stream;
    bool blocking;
    std::set<std::size_t> tail = {};  ///< what its next command comes behind
  };
  bool is_legacy(const Used& used) const { return &used == &streams_.back(); }

  /// What a command or record of the stream comes behind.
  std::set<std::size_t> order_of(const Used& used) const {
    std::set<std::size_t> behind = used.tail;
    for (const Used& other : streams_) {
      if (&other != &used && used.blocking && other.blocking && (is_legacy(used) || is_legacy(other)))
        behind.insert(other.tail.begin(), other.tail.end());
    }
    return behind;
  }
  void came(Used& used, std::size_t commands = 1) {
    for (std::size_t i = 0; i < commands; ++i) {
      behind_.push_back(order_of(used));
      used.tail = {behind_.size() - 1};
    }
  }

  /// For another time in each launch: those of one graph come one behind the other.
  void work_in_graph() {
    if (works_) weir::sim::host_work(std::chrono::microseconds(7 * ++graph_runs_ % 40));
  }

  void step() {
    const std::size_t i = random_() % streams_.size();
    Used& used = streams_[i];
    const weir::StreamRef stream = used.stream;
    const std::size_t n = 1 + random_() % elements;
    switch (random_() % 10) {
      case 0:
      case 1:
        weir::launch(stream, weir::Extent{.size = n, .name = "random"}, Work{}, weir::inout(arrays_[i]));
        return came(used);
      case 2: weir::copy(stream, arrays_[i].slice(0, n), pinned_[i].slice(0, n)); return came(used);
      case 3: weir::copy(stream, pinned_[i].slice(0, n), arrays_[i].slice(0, n)); return came(used);
      case 4: weir::fill(stream, arrays_[i], static_cast<float>(random_() % 100)); return came(used);
      case 5: {
        const std::size_t event = random_() % events_.size();
        stream.record(events_[event]);
        recorded_[event] = order_of(used);
        if (is_legacy(used)) used.tail = recorded_[event];
        return;
      }
      case 6: {
        const std::size_t event = random_() % events_.size();
        stream.wait(events_[event]);
        if (is_legacy(used)) used.tail = order_of(used);  // R27
        used.tail.insert(recorded_[event].begin(), recorded_[event].end());
        return;
      }
      case 7:
        if (random_() % 4 == 0) return stream.synchronize();
        weir::host_call(stream,
                        [us = works_ ? random_() % 30 : 0] { weir::sim::host_work(std::chrono::microseconds(us)); });
        return came(used);
      case 8:
        if (i != 0) return weir::sim::host_work(std::chrono::microseconds(random_() % 20));
        graph_.launch(stream);
        return came(used, 4);
      default:
        if (random_() % 8 != 0) return;
        if (works_) return stream.synchronize();
        while (!stream.done()) {
        }
    }
  }

  weir::Device device_;
  /// Host functions work; then the host asks of nothing that may depend on one which has not run.
  bool works_;
  std::mt19937 random_;
  std::vector<weir::Stream> owned_;
  std::vector<Used> streams_;
  std::vector<weir::Array<float>> arrays_, pinned_;
  std::vector<weir::TimedEvent> events_;
  std::vector<std::set<std::size_t>> recorded_;
  std::vector<std::set<std::size_t>> behind_;
  weir::Graph graph_;
  std::atomic<unsigned> graph_runs_{0};
};

struct Timed {
  std::vector<float> results;
  std::vector<PredictedCommand> commands;  ///< in the order of the calls
  std::size_t preparing = 0;               ///< as many of them made the arrays
  std::vector<std::set<std::size_t>> behind;
  double us = 0;                ///< by the host's virtual clock
  weir::sim::Prediction model;  ///< what the model says of the recording
};

Timed run_random(weir::Device device, unsigned seed) {
  Timed made;
  if (device.backend() == "sim") {
    // What the program before it did is so long ago that nothing of it matters.
    weir::sim::host_work(std::chrono::milliseconds(1));
    const auto began = weir::host_now(device);
    weir::Recorder recorder;
    RandomProgram program(device, seed);
    program.run();
    made.us = std::chrono::duration<double, std::micro>(weir::host_now(device) - began).count();
    made.model = weir::sim::predict(recorder.finish(), {.gains = false, .own_copies = true});
    const weir::sim::Prediction all = weir::sim::timeline(device);
    made.commands.assign(all.commands.end() - static_cast<std::ptrdiff_t>(made.model.commands.size()),
                         all.commands.end());
    made.results = program.results();
    made.behind = program.behind();
    made.preparing = made.commands.size() - made.behind.size();
  } else {
    RandomProgram program(device, seed);
    program.run();
    made.results = program.results();
  }
  return made;
}

/// By when they begin, those of one engine.
std::vector<PredictedCommand> of_engine(const std::vector<PredictedCommand>& commands, Engine engine) {
  std::vector<PredictedCommand> some;
  std::copy_if(commands.begin(), commands.end(), std::back_inserter(some),
               [&](const PredictedCommand& one) { return one.engine == engine; });
  std::sort(some.begin(), some.end(), [](const auto& a, const auto& b) { return a.begin_us < b.begin_us; });
  return some;
}

void expect_order_and_capacity(const Timed& run, const weir::DeviceProperties& device) {
  const std::span its = std::span(run.commands).subspan(run.preparing);
  for (std::size_t i = 0; i < its.size(); ++i) {
    const PredictedCommand& one = its[i];
    EXPECT_LE(one.issued_us, one.begin_us);
    EXPECT_LE(one.begin_us, one.end_us);
    for (const std::size_t before : run.behind[i])
      EXPECT_GE(one.begin_us, its[before].end_us - 1e-6) << i << " comes behind " << before;
  }
  for (const Engine engine : {Engine::h2d, Engine::d2h, Engine::host_function}) {
    double end = 0;
    for (const PredictedCommand& one : of_engine(run.commands, engine)) {
      EXPECT_GE(one.begin_us, end - 1e-6) << weir::sim::name_of(engine) << " does one at a time";
      end = one.end_us;
    }
  }
  const std::vector<PredictedCommand> kernels = of_engine(run.commands, Engine::kernel);
  if (kernels.empty()) return;
  double end = 0;
  for (const PredictedCommand& one : kernels) end = std::max(end, one.end_us);
  const double places = device.multiprocessors * (2048 / threads);
  EXPECT_LE(static_cast<double>(kernels.size()) * blocks * block_us, places * (end - kernels[0].begin_us) + 1e-6);
}

weir::Device simulated() {
  weir::sim::set_cost("random", {.blocks = static_cast<std::uint64_t>(blocks),
                                 .threads = static_cast<std::uint64_t>(threads),
                                 .block_ns = block_us * 1000});
  return weir::device("sim:h200");
}

/// A quarter of the programs each: a test must not take long.
class SimulatedClockPrograms : public testing::TestWithParam<unsigned> {
 protected:
  static unsigned first() { return GetParam() * programs() / 4 + 1; }
  static unsigned last() { return (GetParam() + 1) * programs() / 4; }
};

}  // namespace

TEST_P(SimulatedClockPrograms, are_right_and_their_times_hold_all_order_and_capacity) {
  const weir::Device device = simulated();
  // Another process compares what this one writes.
  const char* const output = std::getenv("WEIR_TEST_OUTPUT");
  std::FILE* const file = output != nullptr ? std::fopen(output, "w") : nullptr;
  for (unsigned seed = first(); seed <= last(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    weir_test::watch_anew();
    const Timed run = run_random(device, seed);
    if (file != nullptr) {
      for (const PredictedCommand& one : run.commands)
        std::fprintf(file, "%u %.17g %.17g\n", seed, one.begin_us, one.end_us);
      const std::string_view bytes(reinterpret_cast<const char*>(run.results.data()),
                                   run.results.size() * sizeof(float));
      std::fprintf(file, "%zx\n", std::hash<std::string_view>()(bytes));
      continue;
    }
    EXPECT_EQ(run.results, run_random(weir::device("cpu"), seed).results);
    expect_order_and_capacity(run, device.properties());
  }
  if (file != nullptr) std::fclose(file);
}

// What runs and what is predicted from its recording are one model.
TEST_P(SimulatedClockPrograms, take_the_time_that_is_predicted_from_their_recording) {
  const weir::Device device = simulated();
  for (unsigned seed = first(); seed <= last(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    weir_test::watch_anew();
    const Timed run = run_random(device, seed);
    EXPECT_NEAR(run.us, run.model.makespan_us, 0.005);
    ASSERT_EQ(run.commands.size(), run.model.commands.size());
    const double shift = run.commands[0].issued_us - run.model.commands[0].issued_us;
    for (std::size_t i = 0; i < run.commands.size(); ++i) {
      EXPECT_EQ(run.commands[i].engine, run.model.commands[i].engine);
      EXPECT_NEAR(run.commands[i].begin_us - shift, run.model.commands[i].begin_us, 0.005);
      EXPECT_NEAR(run.commands[i].end_us - shift, run.model.commands[i].end_us, 0.005);
    }
  }
}

// Three processes at a time, beside threads that compute: the machine is busy, and each run has other workers.
TEST_P(SimulatedClockPrograms, take_the_same_time_with_1_and_8_workers_under_load) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("weir sim programs " + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::atomic<bool> over{false};
  std::vector<std::thread> load;
  for (int i = 0; i < 2; ++i) {
    load.emplace_back([&over] {
      while (!over.load(std::memory_order_relaxed)) {
      }
    });
  }
  std::vector<std::thread> runs;
  std::array<int, 3> codes{};
  for (std::size_t run = 0; run < codes.size(); ++run) {
    runs.emplace_back([&, run] {
      const std::string command = "WEIR_CPU_WORKERS=" + std::string(run == 0 ? "1" : "8") + " WEIR_TEST_OUTPUT='" +
                                  (folder / std::to_string(run)).string() + "' '" + self +
                                  "' --gtest_filter=*SimulatedClockPrograms.are_right*/" + std::to_string(GetParam()) +
                                  " > /dev/null";
      codes[run] = std::system(command.c_str());
    });
  }
  for (std::thread& run : runs) {
    weir_test::watch_anew();
    run.join();
  }
  over = true;
  for (std::thread& thread : load) thread.join();
  std::array<std::string, 3> texts;
  for (std::size_t run = 0; run < codes.size(); ++run) {
    EXPECT_EQ(codes[run], 0);
    std::ifstream file(folder / std::to_string(run));
    texts[run].assign(std::istreambuf_iterator<char>(file), {});
  }
  EXPECT_GT(texts[0].size(), 1000u);
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0], texts[2]);
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Quarters, SimulatedClockPrograms, testing::Range(0U, 4U));
