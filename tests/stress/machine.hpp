// The library as a machine for random programs: the objects of one program, and one call for each command.
#pragma once

#include <atomic>
#include <barrier>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
#include <weir/weir.hpp>

#include "execute.hpp"
#include "program.hpp"

namespace weir::stress {

class Machine {
 public:
  Machine(const Program& program, const std::optional<Hold>& hold);
  Outcome run();

 private:
  using Scopes = std::vector<std::unique_ptr<ScopedStream>>;

  // execute.cpp: host threads and order
  void run_thread(int thread);
  void run_command(std::size_t number, Scopes& scopes, Outcome& outcome);
  void dispatch(std::size_t number, const Command& c, Scopes& scopes, Outcome& outcome);
  void call(std::size_t number, const Command& c, Scopes& scopes, Outcome& outcome);
  void order(const Command& c, Scopes& scopes);
  void synchronize(const Command& c);
  void objects(const Command& c);
  void capture_graph(std::size_t number, const Command& c, Scopes& scopes, Outcome& outcome);
  void update_graph(const Command& c);
  void capture_controlled(const Command& c, const Array<std::int32_t>& condition, Outcome& outcome);
  void ask(std::size_t number, const Command& c, Outcome& outcome);
  void ask_behind_a_probe(const Command& c);
  void finish(Outcome& outcome);
  void complain(const std::string& text);
  /// Calls f; a planned failure that it throws is noted, every other error is a complaint.
  template <class F>
  void guarded(std::size_t number, Outcome& outcome, F&& f);

  // machine_work.cpp: work
  bool work(std::size_t number, const Command& c, Outcome& outcome);
  void kernel(const Command& c);
  template <template <std::size_t> class Kernel, class... A>
  void launch_ranked(const Command& c, A&&... arguments);
  void update_kernel(Graph& graph, Node node, const Command& c);
  template <template <std::size_t> class Kernel, class... A>
  void update_ranked(Graph& graph, Node node, const Command& c, A&&... arguments);
  void blocks(const Command& c);
  void algorithm(const Command& c);
  void move(std::size_t number, const Command& c, Outcome& outcome);
  void host_function(const Command& c);
  void host_work(const Command& c);
  void fail(const Command& c);
  void make_array(const Command& c);
  void end_array(const Command& c);

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  StreamRef stream(const Command& c) const { return refs_[index(c.stream)]; }
  const char* name_of(const Command& c) const {
    const auto node = names_of_nodes_.find(&c);
    return node != names_of_nodes_.end() ? node->second.c_str() : c.salt % 3 == 0 ? "named" : nullptr;
  }
  Device device_of(const Command& c) const { return devices_[index(program_.streams[index(c.stream)].device)]; }
  /// The stream, or for an implicit one its device.
  StreamArg stream_arg(const Command& c) const;
  EventRef event(int e) const;
  Array<Element>& array(const Operand& operand) { return arrays_[index(operand.array)]; }
  Slice<Element> slice(const Operand& operand);
  Argument<const Element> input(const Operand& operand);
  Argument<Element> output(const Operand& operand, bool reads);
  /// Calls f with the array, or with the part of it that the operand means.
  template <class F>
  void with_part(const Operand& operand, F&& f);

  const Program& program_;
  std::optional<Hold> hold_;
  std::atomic<bool> held_command_may_go_{false};
  std::vector<Device> devices_;
  std::vector<StreamRef> refs_;
  std::vector<std::unique_ptr<Stream>> made_;
  std::vector<std::variant<std::monostate, Event, TimedEvent>> events_;
  std::vector<std::unique_ptr<Pool>> pools_;
  std::vector<Array<Element>> arrays_;
  std::vector<Graph> graphs_;
  std::vector<std::atomic<bool>> signals_;
  std::barrier<> started_, ended_;
  std::unordered_map<const Command*, std::string> names_of_nodes_;  ///< of those in graphs that updates name
  const std::size_t probed_;
  std::vector<Outcome> parts_;                             ///< one for each host thread
  std::shared_ptr<int> token_ = std::make_shared<int>(0);  ///< held by every host function not yet destroyed
  std::mutex mutex_;
  std::vector<std::string> complaints_;  ///< guarded by mutex_
};

}  // namespace weir::stress
