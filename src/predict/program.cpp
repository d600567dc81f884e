#include "predict/program.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <weir/error.hpp>

#include "predict/graphs.hpp"
#include "predict/tasks.hpp"

namespace weir::predict {

using recorded::Op;
using recorded::Target;
using sim::model::Action;
using sim::model::Call;
using sim::model::none;

namespace {

/// Each takes some 200 bytes of the model's memory.
constexpr std::size_t most_nodes = 20'000'000;

class Translator {
 public:
  Translator(const Recording& recording, const sim::model::Profile& profile, const Rules& rules)
      : recording_(recording),
        tasks_(recording, profile, rules),
        by_bytes_(rules.by_bytes),
        graphs_(recording, tasks_, made_.program) {}

  Translated translate() {
    declare();
    for (std::size_t i = 0; i < recording_.size(); ++i) {
      try {
        add(recording_.command(i), i);
      } catch (const std::string& wrong) {
        throw Error(Errc::invalid_value, "weir::sim::predict", recording_.id(i), wrong, SourceLocation());
      }
    }
    made_.program.hand_offs = static_cast<std::uint32_t>(hand_offs_.size());
    if (!guessed_.empty()) {
      std::string names;
      for (const std::string& name : guessed_) names += (names.empty() ? "" : ", ") + name;
      made_.estimated.push_back("kernels that last as the bytes of their uses take: " + names);
    }
    if (graphs_.conditional()) made_.estimated.push_back("conditional nodes run their first body once");
    return std::move(made_);
  }

 private:
  void declare() {
    sim::model::Program& program = made_.program;
    program.devices = static_cast<std::uint32_t>(std::max<std::size_t>(1, recording_.devices().size()));
    program.threads = static_cast<std::uint32_t>(std::max<std::size_t>(1, recording_.threads().size()));
    program.events = static_cast<std::uint32_t>(recording_.events().size());
    for (const recorded::Stream& stream : recording_.streams()) {
      using Kind = sim::model::Stream::Kind;
      program.streams.push_back({stream.device, stream.priority,
                                 stream.kind == recorded::StreamKind::legacy         ? Kind::legacy
                                 : stream.kind == recorded::StreamKind::non_blocking ? Kind::non_blocking
                                                                                     : Kind::blocking});
    }
    program.calls.reserve(recording_.size());
    made_.command.reserve(recording_.size());
  }

  void put(Action action, const recorded::Command& command, std::size_t place, std::uint32_t target = none,
           std::uint32_t task = none, double us = 0) {
    made_.program.calls.push_back({action, command.thread, command.stream, target, task, us});
    made_.command.push_back(static_cast<std::uint32_t>(place));
  }

  std::uint32_t hand_off(std::uint32_t name) {
    return hand_offs_.emplace(name, static_cast<std::uint32_t>(hand_offs_.size())).first->second;
  }

  void enqueue(const recorded::Command& command, std::size_t place) {
    uses_.clear();
    for (std::size_t i = 0; i < command.use_count; ++i) uses_.push_back(recording_.use(command, i));
    const std::optional<recorded::Cost> cost = recording_.cost(command);
    sim::model::Task task = tasks_.make(command.op, uses_, cost);
    if ((!cost || by_bytes_) && task.work == sim::model::Work::kernel) {
      guessed_.insert(command.name != recorded::none ? std::string(recording_.text(command.name))
                                                     : recording_.id(place));
    }
    const auto number = static_cast<std::uint32_t>(made_.program.tasks.size());
    made_.program.tasks.push_back(task);
    std::vector<std::uint32_t> given;
    for (const recorded::Name name : recording_.gives(command)) given.push_back(hand_off(name));
    std::sort(given.begin(), given.end());
    for (const std::uint32_t one : given) made_.program.gives.emplace_back(number, one);
    put(Action::enqueue, command, place, none, number);
  }

  void add(const recorded::Command& command, std::size_t place) {
    if (graphs_.captured(command, place)) return;
    switch (command.op) {
      case Op::launch:
      case Op::external:
      case Op::host_function:
      case Op::copy:
      case Op::fill: return enqueue(command, place);
      case Op::record: return put(Action::record, command, place, command.target);
      case Op::wait:
        return put(command.target_kind == Target::stream ? Action::wait_stream : Action::wait_event, command, place,
                   command.target);
      case Op::synchronize: return synchronize(command, place);
      case Op::query: return query(command, place);
      case Op::host_read:
      case Op::host_write:
      case Op::work: {
        const std::optional<recorded::Cost> cost = recording_.cost(command);
        return put(Action::work, command, place, none, none, cost ? cost->ns.value_or(0) / 1000 : 0);
      }
      case Op::alloc: {
        const recorded::Buffer& buffer = recording_.buffers()[command.target];
        // Of pageable memory no device hears.
        if (buffer.owner == recorded::Owner::user || buffer.kind == MemoryKind::pageable) return;
        return put(Action::allocate, command, place, buffer.kind == MemoryKind::device ? buffer.device : none);
      }
      case Op::give: return put(Action::give, command, place, hand_off(command.target));
      case Op::take: return put(Action::take, command, place, hand_off(command.target));
      case Op::begin_capture: return graphs_.begin_capture(command.stream);
      case Op::end_capture: return graphs_.end_capture(command);
      case Op::build_graph: return graphs_.build(command);
      case Op::update_node: return graphs_.update(command);
      case Op::enable_node: return graphs_.enable(command);
      case Op::launch_graph: {
        const std::uint32_t graph = graphs_.current(command.target);
        if (graph != none) nodes_ += made_.program.graphs[graph].size();
        if (nodes_ > most_nodes) throw std::string("the launches of graphs run more than 20,000,000 nodes");
        if (graph != none) launch(graph, command, place);
        return;
      }
      default: return;  // no device hears of it
    }
  }

  void launch(std::uint32_t graph, const recorded::Command& command, std::size_t place) {
    for (const recorded::NodeWork& work : recording_.works(command)) {
      const std::uint32_t node = graphs_.node(command.target, work.node);
      if (node == none) continue;
      made_.program.works.push_back({static_cast<std::uint32_t>(made_.program.calls.size()), node, work.ns / 1000});
    }
    put(Action::launch_graph, command, place, graph);
  }

  void query(const recorded::Command& command, std::size_t place) {
    const bool event = command.target_kind == Target::event;
    // The answer was yes: it was asked for until then.
    const Action action = command.flag ? (event ? Action::poll_event : Action::poll_stream)
                                       : (event ? Action::query_event : Action::query_stream);
    put(action, command, place, command.target);
    if (!event) made_.program.calls.back().stream = command.stream;
  }

  void synchronize(const recorded::Command& command, std::size_t place) {
    switch (command.target_kind) {
      case Target::event: return put(Action::sync_event, command, place, command.target);
      case Target::device: return put(Action::sync_device, command, place, command.target);
      case Target::all: return put(Action::sync_all, command, place);
      default: put(Action::sync_stream, command, place); made_.program.calls.back().stream = command.stream;
    }
  }

  const Recording& recording_;
  Translated made_;
  Tasks tasks_;
  bool by_bytes_;
  Graphs graphs_;
  std::map<std::uint32_t, std::uint32_t> hand_offs_;
  std::vector<recorded::Use> uses_;
  std::set<std::string> guessed_;  ///< names of kernels
  std::size_t nodes_ = 0;          ///< that launches of graphs run
};

}  // namespace

Translated translate(const Recording& recording, const sim::model::Profile& profile, const Rules& rules) {
  return Translator(recording, profile, rules).translate();
}

}  // namespace weir::predict
