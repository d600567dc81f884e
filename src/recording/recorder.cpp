// The observer that keeps a running program: what it is told becomes commands of the recording.
#include <weir/recorder.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <weir/error.hpp>
#include <weir/observer.hpp>
#include <weir/sim.hpp>

#include "recording/lock.hpp"
#include "recording/running.hpp"
#include "recording/sink.hpp"
#include "recording/translator.hpp"

namespace weir {

namespace {

constexpr Watch watch_without_times = Watch::commands | Watch::memory | Watch::host | Watch::graphs;

/// A recording, and those of its commands that something will be known of only later.
class RecordingSink final : public recorded::Sink {
 public:
  explicit RecordingSink(const RecorderOptions& options) : recording(options.limit), times_(options.times) {}

  recorded::Name intern(std::string_view text) override { return recording.intern(text); }
  std::string_view text(recorded::Name name) const override { return recording.text(name); }
  std::uint32_t add_thread(recorded::Name name) override { return recording.add_thread(name); }
  std::uint32_t add(const recorded::Device& device) override {
    simulated_.push_back(std::string_view(recording.text(device.name)).starts_with("sim:"));
    return recording.add(device);
  }
  std::uint32_t add(const recorded::Stream& stream, const StreamInfo&) override { return recording.add(stream); }
  std::uint32_t add(const recorded::Event& event) override { return recording.add(event); }
  std::size_t add(const recorded::Command& command, const recorded::Details& details, CommandId id) override {
    return runs(command, recording.add(command, details), id);
  }
  bool keeps() const override { return true; }
  std::size_t add_like(const recorded::Command& command, std::size_t place, const std::optional<recorded::Cost>& cost,
                       CommandId id) override {
    const std::size_t added = recording.add_like(command, place);
    if (cost) recording.set_cost(added, *cost);
    return runs(command, added, id);
  }
  /// The same for a launch that has no cost before it has run.
  void add_again(const recorded::Command& command, std::size_t place, CommandId id) {
    const std::size_t added = recording.add_like(command, place);
    if (times_ && id != 0) running_.add({id, static_cast<std::uint32_t>(added), true});
  }
  void gave(CommandId host_function, recorded::Name hand_off) override {
    if (const recorded::Running::One* const one = running_.find(host_function))
      recording.add_give(one->place, hand_off);
  }
  void launched(std::size_t place, CommandId launch,
                const std::shared_ptr<const std::vector<recorded::Name>>& paths) override {
    launches_.emplace(launch, Launched{place, paths});
    for_works_ += bytes_for(*paths);
  }
  /// `ns`: 0 if it was skipped behind a failure.
  void ran(CommandId id, double ns) {
    if (!launches_.empty() && ran_launch(id)) return;
    const recorded::Running::One one = running_.take(id);
    if (one.id != 0 && !one.lasts) add_work(one);
    if (one.id == 0 || !one.lasts || ns <= 0) return;
    recorded::Cost cost;
    cost.ns = ns;
    recording.set_cost(one.place, cost);
  }
  /// What bodies of host functions said: of the other ones, as far as there is room.
  void finish() {
    try {
      running_.for_each([this](const recorded::Running::One& one) {
        if (!one.lasts) add_work(one);
      });
      for (const auto& [id, launch] : launches_) add_works(id, launch);
    } catch (const Error&) {  // the commands are worth more
    }
  }
  std::size_t bytes() const { return recording.bytes() + running_.bytes() + for_works_; }

  Recording recording;

 private:
  struct Launched {
    std::size_t place;
    std::shared_ptr<const std::vector<recorded::Name>> paths;
  };
  /// What it takes until its functions have run, and what these may say then.
  static std::size_t bytes_for(const std::vector<recorded::Name>& paths) {
    return 8 * sizeof(void*) + paths.size() * 2 * sizeof(recorded::NodeWork);
  }
  /// False if it is none whose functions may have worked.
  bool ran_launch(CommandId id) {
    const auto launch = launches_.find(id);
    if (launch == launches_.end()) return false;
    for_works_ -= bytes_for(*launch->second.paths);
    add_works(id, launch->second);
    launches_.erase(launch);
    return true;
  }
  void add_works(CommandId id, const Launched& launch) {
    for (const sim::WorkedNode& one : sim::worked_in_nodes(id))
      recording.add_work(launch.place, {(*launch.paths)[one.node], static_cast<double>(one.time.count())});
  }
  /// A simulated device's function lasts at least as long as its body worked.
  void add_work(const recorded::Running::One& one) {
    const auto ns = static_cast<double>(sim::worked_in(one.id).count());
    if (ns <= 0) return;
    recorded::Cost cost = recording.cost(recording.command(one.place)).value_or(recorded::Cost{});
    cost.ns = std::max(cost.ns.value_or(0), ns);
    recording.set_cost(one.place, cost);
  }
  /// Something more may be known of it.
  std::size_t runs(const recorded::Command& command, std::size_t place, CommandId id) {
    if (id == 0 || command.target_kind != recorded::Target::none) return place;
    // Virtual times are no costs: they hold what the command shared its device with.
    const bool lasts =
        times_ && (command.stream == recorded::none || !simulated_[recording.streams()[command.stream].device]);
    if (lasts || command.op == recorded::Op::host_function)
      running_.add({id, static_cast<std::uint32_t>(place), lasts});
    return place;
  }

  recorded::Running running_;
  std::unordered_map<CommandId, Launched> launches_;  ///< of graphs with host functions, which have not ended
  std::size_t for_works_ = 0;
  std::vector<bool> simulated_;  ///< by devices
  bool times_;
};

/// Made before the translator that tells it.
struct HasSink {
  explicit HasSink(const RecorderOptions& options) : sink(options) {}
  RecordingSink sink;
};

}  // namespace

class Recorder::State final : private HasSink, public recorded::Translator {
 public:
  explicit State(const RecorderOptions& options)
      : HasSink(options), Translator(sink, {.costs = true, .host_times = options.host_times}), times_(options.times) {}

  void begin(SourceLocation where) {
    start(times_ ? watch_without_times | Watch::times : watch_without_times, where);
    attached_ = true;
  }
  /// Whether it is not told anything any more. Inside a host function or kernel, where the process may end, nobody can detach.
  bool end() {
    if (!attached_) return true;
    try {
      detach(*this);
    } catch (const Error& error) {
      if (error.errc() != Errc::not_permitted) throw;
      return false;
    }
    attached_ = false;
    return true;
  }
  Recording take() {
    end();
    stop();
    {
      const std::lock_guard lock(ended_mutex_);
      keep_ended();
    }
    const std::lock_guard lock(mutex_);
    taken_ = true;
    Recording& recording = sink.recording;
    sink.finish();
    objects().finish(recording, [&](const auto& place) { recording.resolve(place); });
    if (dropped_ > 0) {
      recording.about =
          names().text(std::to_string(dropped_) + " commands more were not kept: the memory limit was reached");
    }
    return std::move(recording);
  }
  std::size_t dropped() const {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }

  void submitted(const weir::Command& command) override {
    if (!submitted_again(command)) Translator::submitted(command);
  }
  void ran(CommandId id, StreamId, Span span) override {
    const std::lock_guard lock(ended_mutex_);
    const std::chrono::duration<double, std::nano> time = span.end - span.begin;
    ended_[ended_count_++] = {id, time.count()};
    if (ended_count_ == ended_.size()) keep_ended();
  }

 private:
  /// A launch as there was before, as those of a loop, is kept without the words of all others. False if it is none.
  bool submitted_again(const weir::Command& command) noexcept {
    const std::lock_guard lock(mutex_);
    if (taken_ || dropped_ > 0) return false;
    const recorded::Repeats::Launched* const launched = again(command);
    if (launched == nullptr) return false;
    if (other_bytes_ == 0) other_bytes_ = bytes();
    if (sink.bytes() + other_bytes_ > sink.recording.limit()) return false;
    try {
      sink.add_again(launched->made, launched->place, command.id);
    } catch (...) {
      dropped_ = 1;
    }
    return true;
  }
  struct Ended {
    CommandId id;
    double ns;
  };
  void keep_ended() {
    keep_late([&] {
      for (std::size_t i = 0; i < ended_count_; ++i) sink.ran(ended_[i].id, ended_[i].ns);
    });
    ended_count_ = 0;
  }
  /// Runs `add` if all fits; from the first command that does not on, nothing more is kept.
  void keep(const Work& add) noexcept override {
    const std::lock_guard lock(mutex_);
    if (taken_) return;
    if (dropped_ > 0) {
      ++dropped_;
      return;
    }
    other_bytes_ = 0;
    try {
      if (sink.bytes() + bytes() > sink.recording.limit()) throw std::bad_alloc();
      add();
    } catch (...) {  // nothing of it is in the list: commands are added last
      dropped_ = 1;
    }
  }
  void keep_late(const Work& late) noexcept override {
    const std::lock_guard lock(mutex_);
    if (taken_) return;
    other_bytes_ = 0;
    try {
      late();
    } catch (...) {
    }
  }

  mutable recorded::Lock mutex_;
  /// Commands that have ended, and which the list does not know of: workers do not meet, one by one, the threads that submit.
  std::array<Ended, 256> ended_;
  std::size_t ended_count_ = 0;
  std::mutex ended_mutex_;  ///< of both; before mutex_
  std::size_t dropped_ = 0;
  std::size_t other_bytes_ = 0;  ///< bytes(), unless that may have changed: 0
  bool times_;
  bool attached_ = false;
  bool taken_ = false;
};

Recorder::Recorder(const RecorderOptions& options, SourceLocation where) : state_(std::make_unique<State>(options)) {
  state_->begin(where);
}
Recorder::~Recorder() {
  if (!state_->end()) static_cast<void>(state_.release());  // it is told until the process ends
}
Recording Recorder::finish() { return state_->take(); }
std::size_t Recorder::dropped() const { return state_->dropped(); }

}  // namespace weir
