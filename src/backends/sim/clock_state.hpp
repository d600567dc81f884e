// What the clock of simulated devices knows: their models, and the times of host threads.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend.hpp"
#include "backends/sim/costs.hpp"
#include "backends/sim/online_model.hpp"
#include "backends/sim/polling_loop.hpp"
#include "thread_safety.hpp"

namespace weir::sim {

class ClockState {
 protected:
  using Time = std::chrono::steady_clock::time_point;

  struct Device {
    OnlineModel* model = nullptr;
    std::uint32_t place = 0;
  };
  struct Known {
    OnlineModel* model = nullptr;
    Place place = {};
    double called = 0;
  };
  struct Given {
    double time = 0;
    CommandId by = 0;  ///< the host function
  };
  struct WithoutTime {
    detail::DeviceClock::Ran ran;
    bool skipped;
  };

  ClockState() : epoch_(std::chrono::steady_clock::now()) {}

  Time time_at(double us) const {
    return epoch_ + std::chrono::duration_cast<Time::duration>(
                        std::chrono::duration<double, std::micro>(std::min(us, longest_us)));
  }

  std::uint32_t place_of(std::uint32_t thread) WEIR_NEEDS(mutex_) {
    const auto [found, fresh] = threads_.emplace(thread, static_cast<std::uint32_t>(clocks_.size()));
    // A thread that is new was started by one of the others.
    if (fresh) {
      double latest = 0;
      for (std::uint32_t other = 0; other < clocks_.size(); ++other) latest = std::max(latest, time_of(other));
      clocks_.push_back(latest);
    }
    return found->second;
  }

  /// A thread makes a call: what it did since the last one counts, if it is measured.
  std::uint32_t arrive(std::uint32_t thread) WEIR_NEEDS(mutex_) {
    const std::uint32_t place = place_of(thread);
    if (host_measured_) count_until(place, std::chrono::steady_clock::now());
    return place;
  }
  void count_until(std::uint32_t place, Time now) WEIR_NEEDS(mutex_) {
    left_.resize(clocks_.size());
    Time& left = left_[place];
    if (left != Time() && now > left)
      work_in_models(place, std::chrono::duration<double, std::micro>(now - left).count());
    left = std::max(left, now);
  }

  PollingLoop& loop_of(std::uint32_t place) WEIR_NEEDS(mutex_) {
    if (loops_.size() <= place) loops_.resize(place + 1);
    return loops_[place];
  }

  OnlineModel* model_of(StreamId stream) WEIR_NEEDS(mutex_) {
    const auto found = streams_.find(stream);
    return found == streams_.end() ? nullptr : found->second;
  }

  /// Of a launch: a graph of one device may run in streams of others.
  OnlineModel* model_of_graph(const Command& command) WEIR_NEEDS(mutex_) {
    const auto* launch = std::get_if<GraphLaunch>(&command.op);
    const auto found = launch != nullptr ? graphs_.find(launch->id) : graphs_.end();
    return found == graphs_.end() ? nullptr : found->second;
  }

  OnlineModel* model_of_event(std::uint64_t event) WEIR_NEEDS(mutex_) {
    for (const auto& model : models_) {
      if (model->knows_event(event)) return model.get();
    }
    return nullptr;
  }

  /// A thread's time, as far as it is known: of models that keep calls, or all but one.
  double time_of(std::uint32_t place, const OnlineModel* but = nullptr) WEIR_NEEDS(mutex_) {
    double time = clocks_[place];
    for (const auto& model : models_) {
      if (model.get() != but) time = std::max(time, model->time_of(place));
    }
    return time;
  }
  /// The program, or another model, sees it.
  void catch_up(std::uint32_t place, const OnlineModel* but = nullptr) WEIR_NEEDS(mutex_) {
    clocks_[place] = time_of(place, but);
  }
  void work_in_models(std::uint32_t thread, double us) WEIR_NEEDS(mutex_) {
    const double after = clocks_[thread] + us;
    for (const auto& model : models_) {
      if (model->late()) model->work(us, thread, clocks_);
    }
    clocks_[thread] = std::max(clocks_[thread], after);
  }
  /// The thread does something else than to ask and work.
  void end_loop(std::uint32_t place) WEIR_NEEDS(mutex_) {
    keep_work(place);
    loop_of(place).end();
  }
  void saw(std::uint32_t place) WEIR_NEEDS(mutex_) {
    if (loop_of(place).seen()) keep_work(place);
  }
  /// What the thread worked is not taken back.
  void keep_work(std::uint32_t place) WEIR_NEEDS(mutex_) {
    const double us = std::exchange(loop_of(place).kept, 0.0);
    clocks_[place] -= us;  // that has it already
    if (us > 0) work_in_models(place, us);
  }
  void collect(OnlineModel& model) WEIR_NEEDS(mutex_) {
    for (const OnlineModel::Worked& one : model.take_worked()) {
      if (worked_in_.size() >= most_functions) worked_in_.erase(worked_in_.begin());
      worked_in_[{one.command, one.node}] = one.time;
    }
    for (auto& [command, place] : model.take_finished()) {
      if (const auto found = functions_.find(command); found != functions_.end()) found->second.place = place;
      if (const auto found = places_.find(command); found != places_.end()) found->second.place = std::move(place);
    }
  }

  /// Commands that give hand-offs are known by their ends; only the last ones, which have not been forgotten, matter. So with
  /// bodies that are over.
  static constexpr std::size_t most_functions = 100'000;
  /// Thirty years: what steady_clock can tell, whatever lasts longer in the model.
  static constexpr double longest_us = 1e15;

  const Time epoch_;
  detail::Mutex mutex_;
  std::vector<std::unique_ptr<OnlineModel>> models_ WEIR_GUARDED_BY(mutex_);
  std::vector<Device> devices_ WEIR_GUARDED_BY(mutex_);
  std::unordered_map<StreamId, OnlineModel*> streams_ WEIR_GUARDED_BY(mutex_);
  std::unordered_map<std::uint64_t, OnlineModel*> graphs_ WEIR_GUARDED_BY(mutex_);
  std::unordered_map<std::uint32_t, std::uint32_t> threads_ WEIR_GUARDED_BY(mutex_);
  std::vector<double> clocks_ WEIR_GUARDED_BY(mutex_);      ///< of the threads, in microseconds since the epoch
  std::vector<PollingLoop> loops_ WEIR_GUARDED_BY(mutex_);  ///< of the threads
  std::unordered_map<std::uint64_t, Given> given_ WEIR_GUARDED_BY(mutex_);
  std::unordered_map<CommandId, Known> functions_ WEIR_GUARDED_BY(mutex_);
  /// What bodies of host functions worked, by command and, of graphs, node, or none: the last ones.
  std::map<std::pair<CommandId, std::uint32_t>, std::chrono::nanoseconds> worked_in_ WEIR_GUARDED_BY(mutex_);
  bool times_watched_ WEIR_GUARDED_BY(mutex_) = false;
  std::unordered_map<CommandId, Known> places_ WEIR_GUARDED_BY(mutex_);  ///< whose times somebody will ask for
  std::vector<WithoutTime> ran_ WEIR_GUARDED_BY(mutex_);                 ///< for real, but not yet by this clock
  Costs costs_ WEIR_GUARDED_BY(mutex_);
  bool environment_read_ WEIR_GUARDED_BY(mutex_) = false;
  bool host_measured_ WEIR_GUARDED_BY(mutex_) = false;
  std::vector<Time> left_ WEIR_GUARDED_BY(mutex_);  ///< when a thread's last call ended, in real time
};

}  // namespace weir::sim
