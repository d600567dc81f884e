// The simulation of a program while it runs, on devices of one profile: what the clock knows by the program's names becomes
// numbers of the model.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
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
  bool known = true;                       ///< otherwise take_finished() will say what it became
  /// Of a graph's launch: the number of each node of the model's graph, which may be another one by the next launch.
  std::shared_ptr<const std::vector<std::uint32_t>> numbers = {};
};

model::Call call_for(model::Action action, std::uint32_t target = model::none, std::uint32_t stream = model::none);

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

  /// When that launch in a stream of another profile's device ends, even if the clocks are not there yet.
  double end_of_visit(const Command& command);
  /// The stream waits for an event of another profile's device, which is reached then.
  void hold(StreamId stream, double time, std::uint32_t thread, std::vector<double>& clocks);

  // Host functions (online_steps.cpp).

  /// The body of one that was submitted, or is in a graph that was launched, says that it works so much more, or is over.
  /// False if it is of no device of this profile.
  bool worked(const detail::HostFunction& function, std::chrono::nanoseconds time, bool over,
              std::vector<double>& clocks);
  /// Calls are kept until a body is over: the clocks of threads are not what they will be.
  bool late() const { return !steps_.empty(); }
  /// Then the thread's time, as if bodies said no more, and else 0.
  double time_of(std::uint32_t thread);
  /// Bodies that are not over have said all.
  void settle(std::vector<double>& clocks);
  /// The thread computes, while calls are kept.
  void work(double us, std::uint32_t thread, std::vector<double>& clocks);
  /// What commands became whose place was not known.
  std::vector<std::pair<CommandId, Place>> take_finished() { return std::exchange(finished_, {}); }
  /// A host function that is over, or in which nothing more counts: how long it worked.
  struct Worked {
    CommandId command;
    std::uint32_t node;  ///< its number in the graph that the command launches, or none
    std::chrono::nanoseconds time;
  };
  /// Those that worked.
  std::vector<Worked> take_worked() { return std::exchange(worked_, {}); }

  /// When all that the stream was given has ended, even if the clocks are not there yet.
  double end_of_stream(StreamId stream);
  /// When the event's record is reached, even if the clocks are not there yet; a NaN without one.
  double end_of_event(std::uint64_t event);
  double now() const { return guess_ != nullptr ? guess_->now() : simulation_.now(); }
  /// What happens until then.
  void advance(double time) { seen_ahead().advance(time); }
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
  double end_of(const Place& place, CommandId function);
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
    const detail::HostFunction* function = nullptr;
  };
  /// A node of the model's graph, or none; and its host function.
  using Bodies = std::vector<std::pair<std::uint32_t, const detail::HostFunction*>>;
  struct Graph {
    std::vector<GraphNode> nodes;
    std::uint32_t device;
    std::uint32_t place;
    std::uint32_t visitor = model::none;  ///< stands for streams of other profiles' devices
    bool changed = true;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> events = {};  ///< node, place in the model's graph
    std::shared_ptr<std::vector<std::uint32_t>> numbers = {};          ///< of the nodes of the model's graph
    Bodies bodies = {};
  };
  /// A call of the program, or what else changes the simulation.
  struct Step {
    enum class Kind : std::uint8_t { call, follow, hold, follow_graph } kind = Kind::call;
    enum class After : std::uint8_t { nothing, record, marker, command, graph } after = After::nothing;
    bool question = false;
    std::uint32_t thread = 0;
    double at = 0;  ///< the thread's time, at least
    CommandId command = 0;
    std::uint32_t stream = model::none;  ///< or the graph
    std::vector<std::uint32_t> others = {};
    double time = 0;
    std::uint64_t event = 0;
    std::uint32_t first = model::none;  ///< the next command when it began
    std::shared_ptr<const std::vector<std::uint32_t>> numbers = {};
    Bodies bodies = {};
  };

  /// A host function that is not over.
  struct Body {
    std::uint32_t call;
    std::uint32_t node;  ///< of the model's graph, or none
    Worked worked;       ///< so far
  };

  Place make(model::Call call, Step step, std::vector<double>& clocks);
  Place take(Step step, std::vector<double>& clocks);
  void go_on(std::vector<double>& clocks);
  static void begin(model::Simulation& simulation, const Step& step);
  bool start(Step& step);
  Place finish(const Step& step, std::vector<double>& clocks, bool last);
  void forget();
  void keep_work(const Body& body);
  void never_called(const detail::HostFunction& function);
  static std::uint32_t last_command(const model::Simulation& simulation);
  void grow();
  void guess(const Step& step);
  model::Simulation& guessed();
  model::Simulation& seen_ahead();
  bool ask(const model::Call& call, std::uint32_t thread, std::vector<double>& clocks);
  std::uint32_t known_task(const model::Task& task);
  void meet(const Collective& part, model::Call& call);
  bool query(const model::Call& call, std::uint32_t thread, std::vector<double>& clocks);
  std::uint32_t event_place(std::uint64_t event, const detail::EventState* state, double at);
  std::uint32_t never_recorded();
  void forget_events();
  GraphNode node_of(const GraphNodeInfo& info, const Costs& costs);
  Place launch(Graph& graph, Step step, std::vector<double>& clocks);
  void prepare(Graph& graph, std::uint32_t thread, std::vector<double>& clocks);
  void forget_graphs();
  std::uint32_t add_stream(const model::Stream& stream, StreamId id);
  void translate(Graph& graph);
  void find_events(const Graph& graph, double at);
  std::vector<std::uint32_t> add_nodes(Graph& graph, model::Graph& made, std::int32_t parent,
                                       std::vector<std::uint32_t> behind, bool once);

  const std::string name_;
  const model::Profile profile_;
  model::Program program_;
  model::Simulation simulation_;
  std::deque<Step> steps_;  ///< that are not taken yet; the first one may have begun
  bool begun_ = false;
  std::vector<std::pair<CommandId, Place>> finished_;
  /// In the order of their launches.
  std::unordered_map<const detail::HostFunction*, std::deque<Body>> bodies_;
  std::vector<Worked> worked_;
  std::unique_ptr<model::Simulation> guess_;
  std::size_t guessed_ = 0;  ///< steps that it took
  std::unordered_map<CommandId, std::uint32_t> guessed_functions_;
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
  std::vector<std::uint32_t> gone_graphs_;  ///< will be free
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
