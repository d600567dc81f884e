// The serial machine: host threads and stream items that may go on, and a schedule that picks one of them at each step.
#include "mock.hpp"

#include <memory>
#include <random>
#include <set>

#include "bodies.hpp"
#include "order.hpp"
#include "window.hpp"

namespace weir::stress {

namespace {

constexpr Element garbage = 0xDEADBEEF;

struct Item {
  std::size_t command;
  std::vector<std::size_t> after;
  bool done = false;
  std::vector<Element> taken;  ///< pageable source, read at the call
  std::shared_ptr<const Bodies::Body> body = nullptr;
};

struct HostThread {
  std::vector<std::size_t> commands;
  std::size_t next = 0;
  std::vector<std::size_t> waits;
};

class Machine {
 public:
  Machine(const Program& program, std::uint64_t schedule, std::optional<std::size_t> last)
      : program_(program),
        random_(schedule),
        last_(last),
        threads_(index(program.threads)),
        record_(program.events.size(), none),
        bodies_(program) {
    for (std::size_t i = 0; i < program.commands.size(); ++i) {
      threads_[index(program.commands[i].thread)].commands.push_back(i);
    }
    for (const ArrayDecl& array : program.arrays) values_.emplace_back(array.count(), garbage);
    ended_.resize(program.arrays.size());
    by_rank_ = schedule % 2 == 1;
    for (std::size_t a = 0; a < threads_.size() + program.streams.size(); ++a) rank_.push_back(random_());
  }

  Outcome run() {
    while (step()) {
    }
    for (std::size_t a = 0; a < values_.size(); ++a) {
      if (ended_[a]) values_[a].clear();
    }
    outcome_.arrays = std::move(values_);
    return std::move(outcome_);
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  /// One of the things that may happen now: the next call of a thread, or an item of a stream.
  struct Choice {
    bool call;
    std::size_t which;
    std::size_t actor;
  };

  bool step() {
    std::vector<Choice> choices;
    bool unfinished = false;
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      unfinished = unfinished || threads_[t].next < threads_[t].commands.size();
      if (can_call(threads_[t])) choices.push_back({true, t, t});
    }
    std::erase_if(pending_, [this](std::size_t i) { return items_[i].done; });
    for (const std::size_t i : pending_) {
      if (!all_done(items_[i].after)) continue;
      choices.push_back({false, i, threads_.size() + index(program_.commands[items_[i].command].stream)});
    }
    if (choices.empty()) {
      if (unfinished) outcome_.complaints.push_back("the program hangs");
      return false;
    }
    const auto is_last = [&](const Choice& choice) { return !choice.call && items_[choice.which].command == last_; };
    if (choices.size() > 1) std::erase_if(choices, is_last);
    const Choice choice = pick(choices);
    choice.call ? call(threads_[choice.which]) : run_item(items_[choice.which]);
    return true;
  }

  Choice pick(const std::vector<Choice>& choices) {
    if (!by_rank_) return choices[random_() % choices.size()];
    if (random_() % 8 == 0) rank_[random_() % rank_.size()] = random_();
    Choice best = choices[0];
    for (const Choice& choice : choices) {
      if (rank_[choice.actor] > rank_[best.actor]) best = choice;
    }
    return best;
  }

  bool all_done(const std::vector<std::size_t>& items) const {
    for (const std::size_t i : items) {
      if (!items_[i].done) return false;
    }
    return true;
  }

  bool can_call(const HostThread& thread) const {
    if (thread.next == thread.commands.size() || !all_done(thread.waits)) return false;
    const Command& c = program_.commands[thread.commands[thread.next]];
    return c.kind != Kind::await || c.sabotaged || signalled_.contains(c.number);
  }

  void call(HostThread& thread) {
    const std::size_t number = thread.commands[thread.next++];
    const Command& c = program_.commands[number];
    thread.waits.clear();
    if (c.sabotaged) return;
    bodies_.apply(c);
    if (c.kind == Kind::signal) signalled_.insert(c.number);
    if (c.kind == Kind::drop_array) ended_[index(c.out.array)] = true;
    if (c.kind == Kind::host_work || c.kind == Kind::make_host) effect(number, nullptr);
    for (const std::size_t i : pending_) {
      if (waited(c, program_.commands[items_[i].command].stream)) thread.waits.push_back(i);
    }
    if (c.kind == Kind::sync_event && record_[index(c.event)] != none) thread.waits.push_back(record_[index(c.event)]);
    if (runs_in_stream(c.kind)) enqueue(thread, number, c);
  }

  bool waited(const Command& c, int stream) const {
    const StreamKind kind = c.stream >= 0 ? program_.streams[index(c.stream)].kind : StreamKind::own;
    return c.kind == Kind::sync_all ||
           (c.kind == Kind::sync_device && program_.streams[index(stream)].device == c.device) ||
           (c.kind == Kind::sync_stream &&
            (kind == StreamKind::legacy ? streams_ordered(program_, c.stream, stream) : c.stream == stream));
  }

  void enqueue(HostThread& thread, std::size_t number, const Command& c) {
    Item item{number, {}, false, {}};
    for (const std::size_t i : pending_) {
      const int other = program_.commands[items_[i].command].stream;
      const bool waits = c.other >= 0 && streams_ordered(program_, c.other, other);
      const bool same = is_barrier(c) ? streams_ordered(program_, c.stream, other) : c.stream == other;
      const bool replays = c.kind == Kind::replay && program_.commands[items_[i].command].graph == c.graph;
      if (same || waits || replays) item.after.push_back(i);
    }
    if (c.kind == Kind::wait_event && record_[index(c.event)] != none) item.after.push_back(record_[index(c.event)]);
    if (c.kind == Kind::record) record_[index(c.event)] = items_.size();
    if (!c.in.empty() && program_.arrays[index(c.in[0].array)].memory == Memory::pageable) {
      const Window w = window(program_, c.in[0], values_[index(c.in[0].array)].data());
      for (std::size_t i = 0; i < w.count(); ++i) item.taken.push_back(w[i]);
    }
    if (c.kind == Kind::replay) item.body = bodies_.now(c.graph);
    pending_.push_back(items_.size());
    items_.push_back(std::move(item));
    if (blocks_host(program_, c)) thread.waits.push_back(items_.size() - 1);
  }

  void run_item(Item& item) {
    item.done = true;
    const Command& c = program_.commands[item.command];
    const bool copies = c.kind == Kind::copy || c.kind == Kind::clone_array || c.kind == Kind::download;
    if (c.kind == Kind::free_array) {
      values_[index(c.out.array)].assign(values_[index(c.out.array)].size(), garbage);
      ended_[index(c.out.array)] = true;
    } else if (c.kind == Kind::make_array && c.how == How::empty) {
      values_[index(c.out.array)].assign(values_[index(c.out.array)].size(), garbage);
    } else if (item.body) {
      replay(*item.body);
    } else {
      effect(item.command, copies && !item.taken.empty() ? &item.taken : nullptr);
    }
  }

  /// All at once: the order inside is looked at in programs of the bodies.
  void replay(const Bodies::Body& body) {
    for (const auto& [c, enabled] : body) {
      if (c.kind == Kind::drop_array || c.kind == Kind::free_array) ended_[index(c.out.array)] = true;
      if (!enabled || c.out.array < 0 || c.kind == Kind::drop_array || c.kind == Kind::free_array) continue;
      std::vector<Window> in;
      for (const Operand& operand : c.in) {
        in.push_back(window(program_, operand, values_[index(operand.array)].data()));
      }
      apply_work(c, in, window(program_, c.out, values_[index(c.out.array)].data()));
    }
  }

  void effect(std::size_t number, std::vector<Element>* taken) {
    const Command& c = program_.commands[number];
    std::vector<Window> in;
    for (const Operand& operand : c.in) {
      in.push_back(window(program_, operand, values_[index(operand.array)].data()));
    }
    if (taken != nullptr) in[0] = Window{taken->data(), 1, {taken->size(), 1, 1, 1}, {1, 1, 1, 1}};
    if (c.kind == Kind::download || c.kind == Kind::to_host) {
      for (std::size_t i = 0; i < in[0].count(); ++i) outcome_.read[number].push_back(in[0][i]);
    } else if (c.out.array >= 0) {
      apply_work(c, in, window(program_, c.out, values_[index(c.out.array)].data()));
    }
  }

  const Program& program_;
  std::mt19937_64 random_;
  std::optional<std::size_t> last_;
  std::vector<HostThread> threads_;
  std::vector<Item> items_;
  std::vector<std::size_t> pending_;
  std::vector<std::size_t> record_;
  Bodies bodies_;
  std::vector<std::vector<Element>> values_;
  std::vector<bool> ended_;
  std::set<int> signalled_;
  bool by_rank_ = false;
  std::vector<std::uint64_t> rank_;
  Outcome outcome_;
};

}  // namespace

Outcome mock_run(const Program& program, std::uint64_t schedule, std::optional<std::size_t> last) {
  return Machine(program, schedule, last).run();
}

}  // namespace weir::stress
