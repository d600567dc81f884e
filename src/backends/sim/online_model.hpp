// The simulation of a program while it runs, on devices of one profile: what the clock knows by the program's names becomes
// numbers of the model.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <weir/graph_node.hpp>
#include <weir/observer.hpp>

#include "backend.hpp"
#include "backends/sim/costs.hpp"
#include "backends/sim/model/profile.hpp"
#include "backends/sim/model/program.hpp"
#include "backends/sim/model/simulation.hpp"
#include "backends/sim/questions.hpp"

namespace weir::sim {

/// What a command became, until its times are known.
struct Place {
  std::uint32_t first = model::none;  ///< its commands in the model
  std::uint32_t last = model::none;
  std::vector<std::uint32_t> behind = {};  ///< of one that is none there: those that it comes behind
  double at = 0;                           ///< and when it was called
  /// Of a graph's launch: the number of each node of the model's graph, which may be another one by the next launch.
  std::shared_ptr<const std::vector<std::uint32_t>> numbers = {};
};

class OnlineModel {
 public:
  OnlineModel(std::string name, model::Profile profile);

  const std::string& name() const { return name_; }
  const model::Profile& profile() const { return profile_; }
  std::uint32_t add_device() { return program_.devices++; }
  std::uint32_t devices() const { return program_.devices; }

  void open(const StreamInfo& stream, std::uint32_t device);
  void close(StreamId stream);
  bool has(StreamId stream) const { return streams_.count(stream) != 0; }
  bool knows_event(std::uint64_t event) const { return events_.count(event) != 0; }

  /// One call of the host: `thread` is a place in `clocks`, which it moves.
  Place submit(const Command& command, std::uint32_t thread, std::vector<double>& clocks, const Costs& costs);
  /// A launch of one of its graphs in a stream of another profile's device, behind all that ends until `behind`.
  Place visit(const Command& command, double behind, std::uint32_t thread, std::vector<double>& clocks);
  void allocate(std::uint32_t device, std::uint32_t thread, std::vector<double>& clocks);
  void synchronize_all(std::uint32_t thread, std::vector<double>& clocks);
  void synchronize_device(std::uint32_t device, std::uint32_t thread, std::vector<double>& clocks);
  void synchronize_stream(StreamId stream, std::uint32_t thread, std::vector<double>& clocks);
  void synchronize_event(std::uint64_t event, std::uint32_t thread, std::vector<double>& clocks);
  bool query_stream(StreamId stream, std::uint32_t thread, std::vector<double>& clocks);
  bool query_event(std::uint64_t event, std::uint32_t thread, std::vector<double>& clocks);

  void keep_graph(const GraphInfo& graph, std::uint32_t device, const Costs& costs);
  void change_node(std::uint64_t graph, std::uint32_t node, const GraphNodeInfo& info, const Costs& costs);
  void drop_graph(std::uint64_t graph);

  /// The stream waits for an event of another profile's device, which is reached then.
  void hold(StreamId stream, double time);
  /// When all that the stream was given has ended, even if the clocks are not there yet.
  double end_of_stream(StreamId stream);
  /// When the event's record is reached, even if the clocks are not there yet; a NaN without one.
  double end_of_event(std::uint64_t event);
  double now() const { return simulation_.now(); }
  /// What happens until then.
  void advance(double time) { simulation_.advance(time); }
  /// When the event's record was reached; infinity if that is not known yet, a NaN without one.
  double time_of_event(std::uint64_t event) const;
  /// Begin and end; infinity where they are not known yet.
  std::pair<double, double> times_of(const Place& place) const;
  struct NodeTimes {
    std::uint32_t node;
    double begin, end;
  };
  /// Of a graph's launch whose times are known: nodes that did work, by their ends.
  std::vector<NodeTimes> nodes_of(const Place& place) const;
  /// When the command ends, even if the clocks are not there yet.
  double end_of(const Place& place);
  std::uint32_t first_kept() const { return simulation_.spans().first(); }

  /// The calls that are kept, with numbers from 0 on, and the command of each.
  void snapshot(model::Program& program, model::Result& result, std::vector<CommandId>& commands,
                std::vector<StreamId>& streams) const;
  const std::set<std::string, std::less<>>& estimated() const { return estimated_; }
  /// Whether a graph had nodes whose runs depend on values.
  bool conditional() const { return conditional_; }

 private:
  /// A collective that some ranks have called.
  struct Meeting {
    std::uint32_t number;
    std::uint32_t called;
  };
  /// Communicator, number there, and of a send and receive the ranks.
  using MeetingKey = std::tuple<std::uint64_t, std::uint64_t, int, int>;
  struct Event {
    std::uint32_t place;
    double at;
    const detail::EventState* state;
  };
  struct GraphNode {
    NodeKind kind;
    std::int32_t parent;
    std::uint32_t branch;
    bool enabled;
    std::uint32_t task;
    std::vector<std::uint32_t> depends;
    std::uint64_t event = 0;                    ///< of a record or wait
    const detail::EventState* state = nullptr;  ///< of a record
  };
  struct Graph {
    std::vector<GraphNode> nodes;
    std::uint32_t device;
    std::uint32_t place;
    std::uint32_t visitor = model::none;  ///< stands for streams of other profiles' devices
    bool changed = true;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> events = {};  ///< node, place in the model's graph
    std::shared_ptr<std::vector<std::uint32_t>> numbers = {};          ///< of the nodes of the model's graph
  };

  bool make(model::Call call, std::uint32_t thread, std::vector<double>& clocks, CommandId command = 0);
  std::uint32_t known_task(const model::Task& task);
  void meet(const Collective& part, model::Call& call);
  bool query(const model::Call& call, std::uint32_t thread, std::vector<double>& clocks);
  std::uint32_t event_place(std::uint64_t event, const detail::EventState* state, double at);
  std::uint32_t never_recorded();
  void forget_events();
  GraphNode node_of(const GraphNodeInfo& info, const Costs& costs);
  Place launch(Graph& graph, std::uint32_t stream, CommandId command, std::uint32_t thread,
               std::vector<double>& clocks);
  std::uint32_t add_stream(const model::Stream& stream, StreamId id);
  void translate(Graph& graph);
  void find_events(const Graph& graph, double at);
  std::vector<std::uint32_t> add_nodes(Graph& graph, model::Graph& made, std::int32_t parent,
                                       std::vector<std::uint32_t> behind);

  const std::string name_;
  const model::Profile profile_;
  model::Program program_;
  model::Simulation simulation_;
  std::vector<CommandId> commands_;  ///< of each call that the program has
  std::unordered_map<StreamId, std::uint32_t> streams_;
  std::vector<StreamId> stream_ids_;  ///< by places
  std::vector<std::uint32_t> closed_;
  std::unordered_map<std::uint64_t, Event> events_;
  std::vector<std::uint32_t> free_events_;
  std::uint32_t never_recorded_ = model::none;  ///< the place of an event that stands for all such
  std::size_t events_at_once_ = 1024;
  std::unordered_map<std::uint64_t, Graph> graphs_;
  std::vector<std::uint32_t> free_graphs_;
  std::map<MeetingKey, Meeting> meetings_;
  std::uint32_t next_meeting_ = 0;
  std::map<std::tuple<std::uint64_t, int, int, bool>, std::uint64_t> pairs_;  ///< sends and receives so far
  std::map<std::pair<std::uint64_t, int>, std::uint32_t> chains_;             ///< of each communicator's ranks
  std::unordered_map<std::string, std::uint32_t> tasks_;                      ///< by their bytes
  std::uint32_t last_task_ = 0;
  std::set<std::string, std::less<>> estimated_;
  bool conditional_ = false;
  Questions questions_;
};

}  // namespace weir::sim
