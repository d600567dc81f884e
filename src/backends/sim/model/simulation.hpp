// A simulation while it runs: a list of things that will happen, in the order of their times. A whole program is run at once;
// of a program that is not known yet each call is made when it comes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <tuple>
#include <vector>

#include "backends/sim/model/places.hpp"
#include "backends/sim/model/profile.hpp"
#include "backends/sim/model/program.hpp"
#include "backends/sim/model/shared_rate.hpp"
#include "backends/sim/model/window.hpp"

namespace weir::sim::model {

/// What ended so long before now is never looked at again: no hop and no lag is as long.
constexpr double long_ago_us = 1000;

class Simulation {
 public:
  Simulation(const Program& program, const Profile& profile);
  Simulation& operator=(const Simulation&) = delete;
  /// All of the program.
  Result run();

  // A program that grows (online.cpp): whatever it names is added to it first, then here.

  void grow();
  /// Makes the program's next call, at the time of its thread, or as soon as what came before is through. False if a body holds
  /// it: then go_on().
  bool call();
  bool go_on();
  /// Of the last call, a question: whether all of it has ended.
  bool answer() const { return answer_; }
  /// The last call, if it was a question that cost nothing, is as if it had not been made; and one behind another question of
  /// its thread is part of that: polling loops are long.
  bool drop_question();
  /// What happens until then.
  void advance(double time);
  double now() const { return now_; }
  double clock(std::uint32_t thread) const { return clocks_[thread]; }
  /// The thread did something else until then. Clocks do not go back.
  void set_clock(std::uint32_t thread, double time) { clocks_[thread] = std::max(clocks_[thread], time); }
  /// The commands that the stream's next one will come behind; and what a record in an event stands for.
  std::vector<std::uint32_t> last_of_stream(std::uint32_t stream) const;
  std::vector<std::uint32_t> last_of_event(std::uint32_t event) const;
  /// Goes on until the command has ended, and says when; as long ago as any if it was forgotten.
  double end_of(std::uint32_t command);
  /// When it ended, or else infinity: nothing goes on.
  double known_end(std::uint32_t command) const;
  /// Another graph gets its number.
  void forget_graph(std::uint32_t graph) {
    if (graph < graphs_last_.size()) graphs_last_[graph] = none;
  }
  /// The number that the next command will have.
  std::uint32_t next_command() const { return commands_.end(); }
  /// When something happens next after that; infinity if nothing does.
  double next_time(double after);
  /// The stream was told to wait, at no cost, for what others have so far.
  void follow(std::uint32_t stream, std::uint32_t other);
  /// The stream waits for something else, until then.
  void hold(std::uint32_t stream, double time);
  /// A stream that is gone gives its place to another one.
  bool idle(std::uint32_t stream) const;
  void reopen(std::uint32_t stream);
  /// Commands that ended long ago, but for the last `keep`, and their calls, whose number it returns: the program may
  /// forget these, too.
  std::uint32_t forget(std::uint32_t keep);

  // Host functions whose bodies run for real, and may say meanwhile that they work (functions.cpp). From when such a function
  // would end without that, nothing happens until its body is over.

  /// The host function that the call enqueues, or is that node of the graph which it launches, is one.
  void expect(std::uint32_t call, std::uint32_t node);
  /// Its body says that it works so much more, or is over. False if nobody waits for it any more.
  bool worked(std::uint32_t call, std::uint32_t node, double us, bool over);
  bool expects_bodies() const { return !bodies_.empty(); }
  /// All bodies count as over, with what they said so far.
  void assume();
  /// Another simulation, which goes on as if they were.
  std::unique_ptr<Simulation> guess();
  /// What a stream is given in a graph of that number comes behind what it was given in the other one.
  void follow_graph(std::uint32_t graph, std::uint32_t other);

  const Window<Span>& spans() const { return spans_; }
  const Window<HostSpan>& calls() const { return calls_; }
  double host_time() const { return host_; }

 private:
  Simulation(const Simulation&) = default;  // for guess()

  enum class What : std::uint8_t {
    call,        ///< the next call may be made
    ready,       ///< a command
    move,        ///< a copy's first byte
    moved,       ///< a copy's last byte, if nothing changed since
    memory_add,  ///< a cohort begins to use the memory
    memory,      ///< the next job of a memory is through, if nothing changed since
    cohort_end,  ///< the first of a cohort's blocks ends
    places,      ///< a cohort's places may be taken again
    body,        ///< a host function ends, unless its body lasts longer
    end,         ///< a command
  };
  struct Happening {
    double time;
    std::uint64_t order;
    What what;
    std::uint32_t subject;
    std::uint32_t version;
    bool operator>(const Happening& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  /// When in a command's life another one is let go.
  enum class Phase : std::uint8_t { issued, taken, started, ended };
  struct Edge {
    std::uint32_t to;
    std::uint32_t next;
    double hop;
    Phase phase;
    Cause cause;
  };
  struct Command {
    std::uint32_t device = 0;
    std::uint32_t pending = 1;  ///< edges to it, and its own issue
    std::uint32_t edges = none;
    std::uint32_t launch = none;  ///< of a kernel that has begun
    Phase phase = Phase::issued;
    bool crowds = false;           ///< its hop grows with those that wait for the same engine
    bool awaited = false;          ///< by the host
    std::uint32_t meeting = none;  ///< of a collective's part
    double taken = 0, started = 0;
    double served = 0;       ///< of a copy that is ready: when its stream was served last
    std::uint64_t turn = 0;  ///< and its turn among those that are equal in that
  };
  /// What the next command of a stream comes behind.
  struct Behind {
    std::uint32_t command;
    Cause cause;
    std::uint8_t events;  ///< that lie between; 0: it is the stream's own
    bool same_stream() const { return events == 0; }
  };
  /// Later commands come behind it, but it is no work of the stream: who waits for the stream does not wait for it.
  static bool only_barrier(const Behind& behind) { return behind.cause == Cause::barrier && !behind.same_stream(); }
  struct StreamState {
    std::vector<Behind> tail;
    std::uint32_t legacy_seen = none;  ///< the legacy stream's command that its next ones come behind already
    std::uint32_t queue = 0;
    std::uint32_t unfinished = 0;
    std::uint32_t ready_copy[3] = {none, none, none};
    double served[3] = {-1, -1, -1};  ///< when its last copy of the engine began
    std::uint32_t run = none;         ///< the first of its last commands that are copies by one engine
    std::uint32_t run_engine = none;  ///< that engine
    std::uint64_t unit = 0;           ///< of its last commands, if they are parts of collectives
    std::vector<Behind> before_unit;  ///< what these come behind
  };
  struct Engine {
    std::set<std::tuple<double, std::uint64_t, std::uint32_t>> ready;  ///< in the order in which it turns to them
    std::deque<std::uint32_t> issued;                                  ///< only where copies begin in that order
    std::uint32_t running = none;
    std::uint32_t served = none;  ///< the stream of the last copy
    std::uint32_t last = none;    ///< that copy
    std::uint32_t before = none;  ///< the one before it
    bool moving = false;
    double left = 0, since = 0, rate = 0;
    std::uint32_t version = 0;
  };
  /// A collective: it begins when all its parts may, and all end with it.
  struct Meeting {
    std::uint32_t expected = 0;
    std::vector<std::uint32_t> parts;  ///< that are there
    double us = 0;
  };
  /// A rank's parts of collectives of one communicator, in the order of its calls.
  struct Chain {
    std::uint64_t unit = 0;
    std::vector<std::uint32_t> last;    ///< those of that unit
    std::vector<std::uint32_t> before;  ///< and of the one before it
  };
  struct Launch {
    std::uint32_t command;
    double left;
    double resident = 0;
    std::uint32_t cohorts = 0;
    double end = 0;
  };
  struct Cohort {
    std::uint32_t launch;
    double blocks;
    double begin;
    double lag;  ///< from the first block's begin to the last one's
  };
  struct Device {
    Device(const Profile& profile);
    Engine engines[3];  ///< copies in, copies out, to another device
    Places places;
    SharedRate memory;
    std::uint32_t memory_version = 0;
    std::set<std::tuple<std::int32_t, std::uint64_t, std::uint32_t>> kernels;  ///< that have blocks to begin
    std::uint32_t resident = 0;                                                ///< kernels that hold places
    std::uint32_t running = 0;                                                 ///< kernels that have not ended
    std::uint32_t freed_by = none;
    double freed = 0, lag_until = 0;
    bool changed = false;
    std::vector<std::uint32_t> streams;
    std::uint32_t all_started = none;  ///< stands for all blocks of all kernels so far having begun
    std::uint32_t all_checked = none;  ///< for the ends of the launches that were checked
    std::uint32_t last_checked = none;
    std::uint32_t legacy = none;            ///< the legacy stream's last command
    std::vector<std::uint32_t> queue_last;  ///< of each work queue that streams have, the last command
  };

  // simulation.cpp
  void at(double time, What what, std::uint32_t subject, std::uint32_t version = 0);
  void happen(const Happening& happening);
  void take(std::uint32_t command);
  void end(std::uint32_t command);
  void let_go(std::uint32_t command, Phase phase, double time);
  double time_of(std::uint32_t command, Phase phase) const;
  void come_behind(std::uint32_t from, std::uint32_t to, Phase phase, double hop, Cause cause);
  void one_less(std::uint32_t to, double time, Cause cause, std::uint32_t from);
  void make_ready(std::uint32_t command);

  // host.cpp
  void make_calls();
  bool make(const Call& call, std::uint32_t number);
  void wait_for(std::uint32_t number, const std::vector<Behind>& targets);
  void synchronize(std::uint32_t number, const std::vector<Behind>& targets);
  void poll(std::uint32_t number, const std::vector<Behind>& targets);
  double asked_until(double time);
  bool query(const std::vector<Behind>& targets, double& clock);
  void wake(std::uint32_t command);

  // issue.cpp
  double cost_of(const Task& task) const;
  double way_of(const Task& task) const;
  double hop(const Task& from, const Task& to, std::uint32_t events, Cause cause, bool in_graph) const;
  std::uint32_t add_command(std::uint32_t call, std::uint32_t task, std::uint32_t stream, std::uint32_t device,
                            double issued, double ready);
  void enqueue(const Call& call, std::uint32_t number, double issued);
  void launch_graph(const Call& call, std::uint32_t number, double issued);
  void enter_stream(std::uint32_t command, std::uint32_t stream);
  void enter_collective(std::uint32_t command, const Call& call);
  std::uint32_t join(std::uint32_t before, std::uint32_t kernel, Phase phase);
  void check_dependencies(std::uint32_t command, std::uint32_t behind);
  void check_launch(Device& device, std::uint32_t kernel);
  void legacy_rules(std::uint32_t command, std::uint32_t stream);
  void share_queue(std::uint32_t command, std::uint32_t stream);
  std::vector<Behind> recorded(std::uint32_t stream, std::uint32_t call);
  std::vector<Behind> all_of(std::uint32_t stream) const;
  void enter_legacy(std::uint32_t stream, std::uint32_t call);
  void wait_in_legacy(std::uint32_t stream, std::uint32_t call);
  void separate(std::uint32_t device, std::uint32_t call, double time);
  bool comes_before(const Behind& earlier, const Behind& later) const;
  void add_to_tail(std::uint32_t stream, const std::vector<Behind>& events);

  // engines.cpp
  std::uint32_t engine_of(Work work) const;
  void forget_served();
  void start_commands(Device& device);
  void waited_in_order(Span& span, const Engine& engine) const;
  void start_copy(Device& device, std::uint32_t engine);
  std::uint32_t choose_copy(Device& device, std::uint32_t engine) const;
  void move(std::uint32_t command);
  void moved(std::uint32_t command);
  void set_rates(Device& device);
  bool copies_running(const Device& device) const;
  void continue_run(std::uint32_t command, std::uint32_t stream);
  void wait_for_engine(std::uint32_t command, std::uint32_t engine);
  void meet(std::uint32_t command);
  void begin(Meeting& meeting);
  bool give_up_meetings();
  bool go_on_without_others();
  void add_to_memory(std::uint32_t cohort);
  void memory_changed(std::uint32_t device);

  // functions.cpp
  double way_to_driver(std::uint32_t command) const;
  void start_host_function(std::uint32_t command);
  void next_host_function();
  bool waits_for_body(std::uint32_t command) const;
  void body(std::uint32_t command);
  void leave_driver();

  // kernels.cpp
  void start_kernels(Device& device);
  std::uint32_t new_launch(std::uint32_t command, double blocks);
  void start_cohort(Device& device, std::uint32_t launch, double blocks);
  void cohort_end(std::uint32_t cohort);
  void free_places(std::uint32_t cohort);

  const Task& task_of(std::uint32_t command) const;
  std::uint32_t crowd(std::uint32_t command) const;

  /// One that was forgotten ended long ago.
  bool forgotten(std::uint32_t command) const { return command < commands_.first(); }
  bool ended(std::uint32_t command) const { return forgotten(command) || commands_[command].phase == Phase::ended; }
  bool step();
  std::uint32_t ended_long_ago(std::uint32_t keep) const;
  void add_stream();
  const Call& call_of(std::uint32_t number) const { return program_.calls[number - calls_.first()]; }

  const Program& program_;
  const Profile& profile_;
  Window<Span> spans_;
  Window<HostSpan> calls_;
  double host_ = 0;
  double now_ = 0;
  double last_work_ = 0;        ///< when something happened last that is no call
  std::size_t work_ahead_ = 0;  ///< what is listed and is no call
  std::uint64_t happenings_ = 0;
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> list_;

  Window<Command> commands_;
  std::vector<Edge> edges_;
  std::uint32_t free_edges_ = none;
  std::vector<StreamState> streams_;
  std::vector<std::vector<Behind>> events_;
  std::vector<std::uint32_t> graphs_last_;  ///< the end of each graph's last launch
  std::vector<Device> devices_;
  std::vector<Launch> launches_;
  std::vector<std::uint32_t> free_launches_;
  std::vector<Cohort> cohorts_;
  std::vector<std::uint32_t> free_cohorts_;
  std::uint32_t driver_last_ = none;
  double driver_free_ = 0;               ///< when its last function ended
  bool driver_runs_ = false;             ///< a function, or will
  std::deque<std::uint32_t> functions_;  ///< that are ready behind that one
  struct Body {
    double us = 0;
    bool over = false;
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, Body> bodies_;  ///< by call and node
  bool held_ = false;                                               ///< by a body that is not over
  std::map<std::uint32_t, Meeting> meetings_;                       ///< that have not begun
  std::vector<Chain> chains_;

  // The host: calls are made in the order of the list, each when its thread is free and the one before has begun.
  std::uint32_t next_call_ = 0;
  double last_begin_ = 0;
  std::vector<double> clocks_;
  std::vector<double> given_;
  struct Waiting {
    bool on = false;
    bool polls = false;
    std::vector<std::uint32_t> commands;
    std::size_t left = 0;
    double earliest = 0;
    std::uint32_t stream = none;  ///< whose room it waits for
    bool without_room = false;    ///< the next call does not
    std::uint32_t hand_off = none;
  } waiting_;
  std::uint32_t try_to_forget_ = 0;  ///< with so many commands: to look and to move them costs
  bool answer_ = false;              ///< of the last question
};

}  // namespace weir::sim::model
