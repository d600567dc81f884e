#include "backends/sim/clock.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <unordered_map>
#include <utility>

#include <weir/error.hpp>
#include <weir/host_call.hpp>
#include <weir/sim.hpp>

#include "backends/sim/clock_state.hpp"
#include "backends/sim/costs.hpp"
#include "backends/sim/online_model.hpp"
#include "backends/sim/tasks.hpp"
#include "function_clock.hpp"
#include "thread_safety.hpp"

namespace weir::sim {

namespace {

using detail::LockGuard;
using model::none;

class Clock final : public detail::DeviceClock, public detail::FunctionClock, ClockState {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void add_device(int device, const std::string& profile_name, const model::Profile& profile) {
    const LockGuard guard(mutex_);
    read_environment();
    OnlineModel* found = nullptr;
    for (const auto& one : models_) {
      if (one->name() == profile_name) found = one.get();
    }
    if (found == nullptr) {
      models_.push_back(std::make_unique<OnlineModel>(profile_name, profile));
      found = models_.back().get();
    }
    devices_.resize(std::max<std::size_t>(devices_.size(), static_cast<std::size_t>(device) + 1));
    devices_[static_cast<std::size_t>(device)] = {found, found->add_device()};
    detail::function_clock.store(this, std::memory_order_release);
  }

  void set_cost(std::string_view kernel, const model::KernelCost& cost) {
    const LockGuard guard(mutex_);
    costs_.set(kernel, cost);
  }

  std::optional<recorded::Cost> cost_of(const Op& op, SourceLocation where) {
    const LockGuard guard(mutex_);
    const std::optional<model::KernelCost> known = said_of(op, where, costs_);
    if (!known) return std::nullopt;
    recorded::Cost cost{known->ns, {}, known->blocks, known->threads, known->block_ns, known->shared_bytes};
    if (known->bytes) cost.bytes = static_cast<std::uint64_t>(*known->bytes);
    return cost;
  }

  std::chrono::nanoseconds worked_in(CommandId function) {
    const LockGuard guard(mutex_);
    const auto found = worked_in_.find({function, none});
    return found == worked_in_.end() ? std::chrono::nanoseconds(0) : found->second;
  }

  std::vector<WorkedNode> worked_in_nodes(CommandId launch) {
    const LockGuard guard(mutex_);
    std::vector<WorkedNode> nodes;
    for (auto one = worked_in_.lower_bound({launch, 0}); one != worked_in_.end() && one->first.first == launch; ++one) {
      if (one->first.second != none) nodes.push_back({one->first.second, one->second});
    }
    return nodes;
  }

  Snapshot snapshot(int device) {
    const LockGuard guard(mutex_);
    const OnlineModel& model = *devices_[static_cast<std::size_t>(device)].model;
    Snapshot made;
    made.profile = model.profile();
    model.snapshot(made.program, made.result, made.commands, made.streams);
    if (!model.estimated().empty()) {
      std::string names;
      for (const std::string& name : model.estimated()) names += (names.empty() ? "" : ", ") + name;
      made.estimated.push_back("kernels that last as the bytes of their uses take: " + names);
    }
    if (model.conditional()) made.estimated.push_back("conditional nodes run their first body once");
    return made;
  }

  // Asked by the core.

  Time now(int, std::uint32_t thread) override {
    const LockGuard guard(mutex_);
    const std::uint32_t place = arrive(thread);
    saw(place);
    catch_up(place);
    return time_at(clocks_[place]);
  }

  Answer done(const HostWait& question) override {
    const LockGuard guard(mutex_);
    const bool event = question.kind == HostWait::Kind::event;
    OnlineModel* model = event ? model_of_event(question.event_id) : model_of(question.stream);
    Answer answer{true};
    if (model == nullptr) return answer;
    const std::uint32_t thread = arrive(question.thread);
    PollingLoop& loop = loop_of(thread);
    answer.taken_back = loop.ask(question, clocks_[thread]);
    if (answer.taken_back.count() != 0) {
      loop.kept = 0;
    } else {
      keep_work(thread);
    }
    catch_up(thread, model);
    answer.done = event ? model->query_event(question.event_id, thread, clocks_)
                        : model->query_stream(question.stream, thread, clocks_);
    if (!host_measured_) loop.answered(question, answer.done);
    collect(*model);
    return answer;
  }
  void late(const HostWait& question) override {
    const LockGuard guard(mutex_);
    loop_of(place_of(question.thread)).late(question);
  }
  bool may_take_back(std::uint32_t thread) override {
    const LockGuard guard(mutex_);
    return loop_of(place_of(thread)).may_take_back();
  }

  Milliseconds elapsed(std::uint64_t start, std::uint64_t end, std::uint32_t thread, SourceLocation where) override {
    const LockGuard guard(mutex_);
    OnlineModel *from = model_of_event(start), *to = model_of_event(end);
    // A thread that comes later than others have waited is there now.
    saw(place_of(thread));
    catch_up(place_of(thread));
    double now = clocks_[place_of(thread)];
    for (const OnlineModel* model : {from, to}) now = std::max(now, model != nullptr ? model->now() : 0);
    for (const bool starts : {true, false}) {
      OnlineModel* model = starts ? from : to;
      if (model == nullptr) throw refused(starts, Errc::invalid_handle, "it was never recorded", where);
      model->advance(now);
      if (!(model->time_of_event(starts ? start : end) <= now))
        throw refused(starts, Errc::not_ready, "its stream has not reached it yet: synchronise first", where);
    }
    return Milliseconds(static_cast<float>((to->time_of_event(end) - from->time_of_event(start)) / 1000));
  }

  bool keep(const Ran& ran) override {
    const LockGuard guard(mutex_);
    if (places_.count(ran.command) == 0) return model_of(ran.stream) != nullptr;
    ran_.push_back({ran, ran.span.begin == ran.span.end});
    return true;
  }

  bool keeps(CommandId command, StreamId stream) override {
    const LockGuard guard(mutex_);
    // Streams may be closed before their work is done.
    return model_of(stream) != nullptr || places_.count(command) != 0;
  }

  std::vector<Ran> take_ran() override {
    const LockGuard guard(mutex_);
    std::vector<Ran> known;
    std::vector<WithoutTime> left;
    for (WithoutTime& one : ran_) {
      const auto found = places_.find(one.ran.command);
      if (found == places_.end()) continue;
      if (set_times(found->second, one.ran, one.skipped)) {
        places_.erase(found);
        known.push_back(std::move(one.ran));
      } else {
        left.push_back(std::move(one));
      }
    }
    ran_ = std::move(left);
    return known;
  }

  void watch_times(bool on) override {
    const LockGuard guard(mutex_);
    times_watched_ = on;
    if (on) return;
    places_.clear();
    ran_.clear();
  }

  // Told as an observer.

  void opened(const StreamInfo& info) override {
    if (info.device.backend() != "sim") return;
    const LockGuard guard(mutex_);
    const Device& device = devices_[static_cast<std::size_t>(info.device.index())];
    device.model->open(info, device.place);
    streams_[info.id] = device.model;
  }

  void closed(StreamId stream) override {
    const LockGuard guard(mutex_);
    OnlineModel* model = model_of(stream);
    if (model == nullptr) return;
    model->close(stream);
    streams_.erase(stream);
  }

  void submitted(const Command& command) override {
    if (command.graph != 0) return;  // it is recorded, and does not run
    const LockGuard guard(mutex_);
    if (command.thread != 0) end_loop(place_of(command.thread));
    if (const auto* alloc = std::get_if<Alloc>(&command.op)) return allocated(*alloc, command.thread);
    if (std::holds_alternative<Free>(command.op)) return;
    OnlineModel* model = model_of(command.stream);
    if (model == nullptr) return;
    const std::uint32_t thread = arrive(command.thread);
    catch_up(thread, model);
    if (const auto* wait = std::get_if<Wait>(&command.op); wait != nullptr && wait->event != nullptr) {
      OnlineModel* other = model_of_event(wait->event_id);
      if (other != nullptr && other != model)
        model->hold(command.stream, other->end_of_event(wait->event_id), thread, clocks_);
    }
    const double called = times_watched_ ? time_of(thread) : clocks_[thread];
    Known known{model, {}, called};
    if (OnlineModel* owner = model_of_graph(command); owner != nullptr && owner != model) {
      // As with events of the other device: each knows when the other's part ends.
      known.model = owner;
      known.place = owner->visit(command, model->end_of_stream(command.stream), thread, clocks_);
      model->hold(command.stream, owner->end_of_visit(command), thread, clocks_);
    } else {
      known.place = model->submit(command, thread, clocks_, costs_);
    }
    if (host_measured_) left_[thread] = std::chrono::steady_clock::now();
    if (std::holds_alternative<HostCall>(command.op)) keep_function(command.id, *model, known.place);
    if (times_watched_) places_.insert_or_assign(command.id, std::move(known));
    for (const auto& one : models_) collect(*one);
  }

  void refused(const Refusal& refusal) override {
    const LockGuard guard(mutex_);
    places_.erase(refusal.command.id);
  }

  void waited(const HostWait& wait) override {
    const LockGuard guard(mutex_);
    const std::uint32_t thread = place_of(wait.thread);
    // Of a graph that has failed, host functions are never called.
    if (wait.failure != nullptr) {
      for (const auto& model : models_) {
        model->settle(clocks_);
        collect(*model);
      }
    }
    if (host_measured_) {
      if (wait.began != Time()) count_until(thread, wait.began);
      left_.resize(clocks_.size());
      left_[thread] = std::chrono::steady_clock::now();
    }
    // Who asked has paid for it already; copies that wait are such calls in the model, too.
    if (wait.source == HostWait::Source::query || wait.source == HostWait::Source::pageable_copy) return;
    end_loop(thread);
    wait_in_models(wait, thread);
    for (const auto& one : models_) collect(*one);
  }

  void worked(const HostWork& work) override {
    const LockGuard guard(mutex_);
    if (host_measured_) return;         // it is in the real time
    if (work.time.count() < 0) return;  // done() took it back
    const std::uint32_t thread = place_of(work.thread);
    PollingLoop& loop = loop_of(thread);
    loop.work(work.time, clocks_[thread]);
    const double us = std::chrono::duration<double, std::micro>(work.time).count();
    if (loop.may_take_back()) {
      clocks_[thread] += us;
      loop.kept += us;
    } else {
      work_in_models(thread, us);
    }
  }

  void function_worked(const detail::HostFunction& function, std::chrono::nanoseconds time) override {
    if (!measures()) tell_body(function, time, false);
  }
  void function_over(const detail::HostFunction& function, std::chrono::nanoseconds time) override {
    tell_body(function, measures() ? time : std::chrono::nanoseconds(0), true);
  }

  void handed(const HandOffCall& call) override {
    const LockGuard guard(mutex_);
    if (call.thread != 0) end_loop(place_of(call.thread));
    if (call.gives) {
      Given& given = given_[call.hand_off];
      given = {};
      if (call.thread != 0) {
        const std::uint32_t place = arrive(call.thread);
        catch_up(place);
        given.time = clocks_[place];
      } else if (const auto function = functions_.find(call.command); function != functions_.end()) {
        given.by = call.command;
      }
      return;
    }
    const auto found = given_.find(call.hand_off);
    if (found == given_.end() || call.thread == 0) return;
    const Given& given = found->second;
    double& time = clocks_[arrive(call.thread)];
    time = std::max(time, given.time);
    if (const auto function = functions_.find(given.by); function != functions_.end())
      time = std::max(time, function->second.model->end_of(function->second.place, given.by));
    given_.erase(found);
  }

  void graph_made(const GraphInfo& graph) override {
    if (graph.device.backend() != "sim") return;
    const LockGuard guard(mutex_);
    const Device& device = devices_[static_cast<std::size_t>(graph.device.index())];
    device.model->keep_graph(graph, device.place, costs_);
    graphs_[graph.id] = device.model;
  }
  void graph_changed(std::uint64_t graph, std::uint32_t node, const GraphNodeInfo& info) override {
    const LockGuard guard(mutex_);
    if (const auto found = graphs_.find(graph); found != graphs_.end())
      found->second->change_node(graph, node, info, costs_);
  }
  void graph_gone(std::uint64_t graph) override {
    const LockGuard guard(mutex_);
    const auto found = graphs_.find(graph);
    if (found == graphs_.end()) return;
    found->second->drop_graph(graph);
    graphs_.erase(found);
  }

 private:
  void wait_in_models(const HostWait& wait, std::uint32_t thread) WEIR_NEEDS(mutex_) {
    switch (wait.kind) {
      case HostWait::Kind::all: return wait_in_all(thread);
      case HostWait::Kind::device: {
        if (wait.backend != "sim") return;
        if (wait.device < 0) return wait_in_all(thread);
        const Device& device = devices_[static_cast<std::size_t>(wait.device)];
        catch_up(thread, device.model);
        return device.model->synchronize_device(device.place, thread, clocks_);
      }
      case HostWait::Kind::event:
        if (OnlineModel* model = model_of_event(wait.event_id)) {
          catch_up(thread, model);
          model->synchronize_event(wait.event_id, thread, clocks_);
        }
        return;
      case HostWait::Kind::stream:
      case HostWait::Kind::command:
        if (OnlineModel* model = model_of(wait.stream)) {
          catch_up(thread, model);
          model->synchronize_stream(wait.stream, thread, clocks_);
        }
        return;
    }
  }
  void wait_in_all(std::uint32_t thread) WEIR_NEEDS(mutex_) {
    for (const auto& model : models_) {
      catch_up(thread, model.get());
      model->synchronize_all(thread, clocks_);
    }
  }

  bool measures() {
    const LockGuard guard(mutex_);
    return host_measured_;
  }

  void tell_body(const detail::HostFunction& function, std::chrono::nanoseconds time, bool over) {
    const LockGuard guard(mutex_);
    for (const auto& model : models_) {
      if (model->worked(function, time, over, clocks_)) return collect(*model);
    }
  }

  void allocated(const Alloc& alloc, std::uint32_t thread) WEIR_NEEDS(mutex_) {
    if (alloc.pinned) {
      for (const auto& model : models_) {
        catch_up(place_of(thread), model.get());
        model->allocate(none, place_of(thread), clocks_);
      }
    } else if (alloc.pool != nullptr && alloc.pool->backend->name() == "sim") {
      const Device& device = devices_[static_cast<std::size_t>(alloc.pool->device)];
      catch_up(place_of(thread), device.model);
      device.model->allocate(device.place, place_of(thread), clocks_);
    }
  }

  void keep_function(CommandId command, OnlineModel& model, const Place& place) WEIR_NEEDS(mutex_) {
    if (functions_.size() >= most_functions) {
      std::erase_if(functions_, [](const auto& one) {
        const Place& old = one.second.place;
        return old.last != none && old.last < one.second.model->first_kept();
      });
    }
    functions_.insert_or_assign(command, Known{&model, place});
  }

  /// False if they are not known yet.
  bool set_times(const Known& known, Ran& ran, bool skipped) WEIR_NEEDS(mutex_) {
    const auto [begin, end] = known.model->times_of(known.place);
    if (std::isinf(end)) return false;
    ran.span = span_of(known, skipped ? end : begin, end);
    if (skipped) return true;
    for (const OnlineModel::NodeTimes& one : known.model->nodes_of(known.place))
      ran.nodes.push_back({one.node, span_of(known, one.begin, one.end)});
    return true;
  }
  Span span_of(const Known& known, double begin, double end) const {
    return {.begin = time_at(begin),
            .end = time_at(end),
            .source = Span::Source::simulated,
            .called = time_at(known.called)};
  }

  /// What WEIR_SIM_COSTS and WEIR_SIM_HOST say, once. Throws std::string.
  void read_environment() WEIR_NEEDS(mutex_) {
    if (environment_read_) return;
    const char* host = std::getenv("WEIR_SIM_HOST");
    const std::string_view how = host != nullptr ? host : "";
    if (!how.empty() && how != "said" && how != "measured")
      throw "WEIR_SIM_HOST: '" + std::string(how) + "': it is said, or measured";
    host_measured_ = how == "measured";
    costs_.read_environment();
    environment_read_ = true;
  }

  static Error refused(bool starts, Errc code, const char* why, SourceLocation where) {
    return Error(code, "weir::elapsed", starts ? "the start event" : "the end event", why, where);
  }
};

Clock& the_clock() {
  static auto& instance = *new Clock;  // observers may be called until the process ends
  return instance;
}

}  // namespace

detail::DeviceClock& clock() { return the_clock(); }

void add_to_clock(int device, const std::string& profile_name, const model::Profile& profile) {
  the_clock().add_device(device, profile_name, profile);
}

Snapshot snapshot(int device) { return the_clock().snapshot(device); }

std::optional<recorded::Cost> cost_of(const Launch& launch) { return the_clock().cost_of(launch, {}); }
std::optional<recorded::Cost> cost_of(const Op& op, SourceLocation where) { return the_clock().cost_of(op, where); }

std::chrono::nanoseconds worked_in(CommandId host_function) { return the_clock().worked_in(host_function); }
std::vector<WorkedNode> worked_in_nodes(CommandId launch) { return the_clock().worked_in_nodes(launch); }

void set_cost(std::string_view kernel, const recorded::Cost& cost, SourceLocation where) {
  const auto refuse = [&](const char* why) {
    return Error(Errc::invalid_value, "weir::sim::set_cost", "'" + std::string(kernel) + "'", why, where);
  };
  if (kernel.empty()) throw refuse("a kernel has a name");
  for (const double ns : {cost.ns.value_or(0), cost.block_ns.value_or(0)}) {
    if (ns < 0) throw refuse("a duration is below 0");
    if (!std::isfinite(ns)) throw refuse("a duration is no finite number");
  }
  for (const auto& count : {cost.blocks, cost.threads}) {
    if (count == 0) throw refuse("a kernel has one block and one thread at least");
  }
  model::KernelCost known{cost.ns, cost.block_ns, {}, cost.blocks, cost.threads, cost.shared_bytes};
  if (cost.bytes) known.bytes = static_cast<double>(*cost.bytes);
  the_clock().set_cost(kernel, known);
}

}  // namespace weir::sim
