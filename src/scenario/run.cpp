// Runs of scenarios: host threads that make the calls in the order of the list, and what came of it.
#include <weir/scenario.hpp>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_map>
#include <utility>

#include <weir/observer.hpp>

#include "scenario/run_state.hpp"

namespace weir {

namespace {

using Clock = std::chrono::steady_clock;

/// The command whose call this host thread makes now.
thread_local std::size_t calling = 0;
thread_local const void* calling_for = nullptr;

/// When work ran, by the command that enqueued it.
class Spans final : public Observer {
 public:
  Spans() { attach(*this, Watch::commands | Watch::memory | Watch::times); }
  ~Spans() override { end(); }

  void end() {
    if (std::exchange(attached_, false)) detach(*this);
  }
  void submitted(const Command& command) override {
    if (calling_for != this) return;
    const std::lock_guard lock(mutex_);
    commands_[command.id] = calling;
  }
  void ran(CommandId id, StreamId, Span span) override {
    const std::lock_guard lock(mutex_);
    spans_.emplace_back(id, span);
  }
  template <class Each>
  void each(const Each& call) const {
    for (const auto& [id, span] : spans_) {
      if (const auto found = commands_.find(id); found != commands_.end()) call(found->second, span);
    }
  }

 private:
  std::mutex mutex_;
  std::unordered_map<CommandId, std::size_t> commands_;
  std::vector<std::pair<CommandId, Span>> spans_;
  bool attached_ = true;
};

/// What is thrown for work that was accepted before.
bool is_failure(Errc code) {
  return code == Errc::kernel_failed || code == Errc::host_function_failed || code == Errc::device_failed;
}

class Run {
 public:
  Run(const Recording& recording, const RunOptions& options, RunHooks* hooks)
      : recording_(recording), options_(options), hooks_(hooks), state_(recording, options) {
    state_.start();
    if (options.times) {
      result_.times.resize(recording.size());
      spans_ = std::make_unique<Spans>();
    }
  }

  RunResult all() {
    begin_ = state_.now();
    const std::size_t threads = std::max<std::size_t>(1, recording_.threads().size());
    if (threads == 1) {
      as_thread(0);
    } else {
      std::vector<std::thread> running;
      for (std::uint32_t i = 0; i < threads; ++i) running.emplace_back([this, i] { as_thread(i); });
      for (std::thread& thread : running) thread.join();
    }
    if (error_) std::rethrow_exception(error_);
    for (std::string& failure : state_.finish()) result_.failures.push_back(std::move(failure));
    result_.ns = since_begin(state_.now());
    if (spans_) {
      spans_->end();
      spans_->each([this](std::size_t command, const Span& span) { add_span(command, span); });
    }
    return std::move(result_);
  }

 private:
  double since_begin(Clock::time_point time) const {
    return std::chrono::duration<double, std::nano>(time - begin_).count();
  }
  void add_span(std::size_t command, const Span& span) {
    CommandTimes& times = result_.times[command];
    const double begin = since_begin(span.begin), end = since_begin(span.end);
    times.run_begin = times.run_begin ? std::min(*times.run_begin, begin) : begin;
    times.run_end = times.run_end ? std::max(*times.run_end, end) : end;
  }

  /// Makes the calls of one thread, each when those before it in the list were made.
  void as_thread(std::uint32_t thread) {
    bool begun = false;
    for (std::size_t i = 0; i < recording_.size(); ++i) {
      if (recording_.command(i).thread != thread) continue;
      std::unique_lock lock(mutex_);
      turn_.wait(lock, [&] { return next_ == i || error_; });
      if (error_) return;
      lock.unlock();
      try {
        if (!std::exchange(begun, true)) state_.thread_begins(thread);
        one(i);
      } catch (...) {  // no memory for what is kept, or a hook that throws
        lock.lock();
        error_ = std::current_exception();
        lock.unlock();
      }
      lock.lock();
      next_ = i + 1;
      turn_.notify_all();
    }
  }

  void one(std::size_t place) {
    if (hooks_ != nullptr) hooks_->before(place, recording_.where(place, options_.file.c_str()));
    calling = place;
    calling_for = spans_.get();
    const auto begin = state_.now();
    std::optional<Misuse> misuse;
    try {
      state_.call(place);
    } catch (const Error& error) {
      if (is_failure(error.errc())) {
        result_.failures.push_back(error.what());
      } else {
        misuse = Misuse{place, error.errc(), error.what()};
      }
    } catch (const std::bad_alloc&) {
      misuse = Misuse{place, Errc::out_of_memory, "no memory"};
    }
    if (options_.times) {
      result_.times[place].call_begin = since_begin(begin);
      result_.times[place].call_end = since_begin(state_.now());
    }
    calling_for = nullptr;
    if (misuse) result_.misuse.push_back(*misuse);
    if (hooks_ != nullptr) hooks_->after(place, misuse ? &*misuse : nullptr);
  }

  const Recording& recording_;
  const RunOptions& options_;
  RunHooks* hooks_;
  scenario::RunState state_;
  std::unique_ptr<Spans> spans_;
  RunResult result_;
  Clock::time_point begin_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::size_t next_ = 0;
  std::exception_ptr error_;
};

}  // namespace

std::size_t devices_of(const Recording& recording) {
  return recording.devices().empty() ? 1 : recording.devices().size();
}

RunResult run_scenario(const Recording& recording, const RunOptions& options, RunHooks* hooks) {
  return Run(recording, options, hooks).all();
}

}  // namespace weir
