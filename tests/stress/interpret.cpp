// The sequential interpreter, with the rules of failure: what a failed command's stream skips, and where the error shows.
#include "interpret.hpp"

#include <algorithm>

#include "bodies.hpp"
#include "captured.hpp"
#include "order.hpp"
#include "window.hpp"

namespace weir::stress {

namespace {

class Interpreter {
 public:
  explicit Interpreter(const Program& program)
      : program_(program),
        values_(program.arrays.size()),
        murky_(program.arrays.size(), true),
        ended_(program.arrays.size(), false),
        stream_failure_(program.streams.size()),
        recorded_(program.events.size()),
        moves_(program.streams.size()),
        seen_(program.streams.size(), std::vector<Moves>(program.streams.size())),
        bodies_(program) {}

  Outcome run() {
    for (std::size_t i = 0; i < program_.commands.size(); ++i) step(i, program_.commands[i]);
    for (std::size_t a = 0; a < values_.size(); ++a) {
      if (murky_[a] || ended_[a]) values_[a].clear();
    }
    outcome_.arrays = std::move(values_);
    for (std::size_t s = 0; s < stream_failure_.size(); ++s) {
      const auto& failure = stream_failure_[s];
      if (failure && failure->certain) outcome_.left.push_back(failure->salt);
      // Waiting for the device is waiting for its legacy stream, too, which may inherit then.
      if (failure && (!failure->certain || blocking(s))) outcome_.may_be_left.push_back(failure->salt);
    }
    std::sort(outcome_.left.begin(), outcome_.left.end());
    return std::move(outcome_);
  }

 private:
  /// What a stream has failed with and not yet thrown.
  struct Failure {
    Element salt;
    int number;
    bool certain = true;
  };
  /// The failure that an event's record saw, while it is with its stream.
  struct Record {
    int stream = -1;
    int number = -1;
    bool certain = true;
  };
  /// How many commands a stream has had that others come behind; and of those that may be none, as waits for what is over.
  struct Moves {
    int certain = 0;
    int perhaps = 0;
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  bool legacy(std::size_t s) const { return program_.streams[s].kind == StreamKind::legacy; }
  bool own(std::size_t s) const { return program_.streams[s].kind == StreamKind::own; }
  /// Nobody says whether a device's own stream is a blocking one.
  bool blocking(std::size_t s) const {
    return program_.streams[s].kind == StreamKind::blocking || program_.streams[s].kind == StreamKind::per_thread ||
           own(s);
  }

  /// The rules of the legacy stream: who comes behind a failed stream fails.
  void come_behind(int stream) {
    const std::size_t s = index(stream);
    for (std::size_t t = 0; t < moves_.size(); ++t) {
      if (program_.streams[t].device != program_.streams[s].device) continue;
      if (!(legacy(s) && blocking(t)) && !(blocking(s) && legacy(t))) continue;
      Moves& seen = seen_[s][t];
      const bool news = seen.certain != moves_[t].certain, perhaps = seen.perhaps != moves_[t].perhaps;
      seen = moves_[t];
      if (news || perhaps) inherit(stream_failure_[s], stream_failure_[t], news && !own(s) && !own(t));
    }
  }

  void note_move(const Command& c) {
    if (c.kind == Kind::free_array || (c.kind == Kind::make_array && c.how == How::empty)) return;
    if (c.kind == Kind::record || is_wait(c.kind) || c.kind == Kind::enter) return note_formality(index(c.stream));
    ++moves_[index(c.stream)].certain;
  }

  /// Others may find nothing to wait for in it, but for the legacy stream's.
  void note_formality(std::size_t s) { ++(legacy(s) ? moves_[s].certain : moves_[s].perhaps); }

  void step(std::size_t i, const Command& c) {
    bodies_.apply(c);
    if (c.kind == Kind::make_graph) {
      for (const int array : Captured(graph_of(program_, c)).left) make(array);
    }
    if (c.kind == Kind::make_host || c.kind == Kind::make_array || c.kind == Kind::clone_array) make(c.out.array);
    // Graphs keep the arrays that they use.
    if (c.kind == Kind::drop_array || c.kind == Kind::free_array) ended_[index(c.out.array)] = true;
    if (runs_in_stream(c.kind)) {
      in_stream(i, c);
    } else {
      on_host(i, c);
    }
  }

  void make(int array) {
    values_[index(array)].assign(program_.arrays[index(array)].count(), 0);
    murky_[index(array)] = true;
  }

  void in_stream(std::size_t i, const Command& c) {
    if (c.kind == Kind::enter && c.other == c.stream) return;  // it is current already
    std::optional<Failure>& failure = stream_failure_[index(c.stream)];
    if (c.other >= 0) come_behind(c.other);
    if (c.other >= 0) note_formality(index(c.other));
    if (c.kind != Kind::free_array && !(c.kind == Kind::make_array && c.how == How::empty)) come_behind(c.stream);
    note_move(c);
    if (c.kind == Kind::wait_event) inherit(failure, seen_by(c.event));
    if (c.kind == Kind::wait_stream || c.kind == Kind::enter) inherit(failure, stream_failure_[index(c.other)]);
    if (c.kind == Kind::record) {
      recorded_[index(c.event)] = {c.stream, failure ? failure->number : -1, failure && failure->certain};
    }
    if (!failure && (c.kind == Kind::fail_kernel || c.kind == Kind::fail_host)) failure = Failure{c.salt, failures_++};
    unsure_ = failure.has_value();
    if ((!failure || !failure->certain) && c.kind == Kind::replay) replay(i, c);
    if ((!failure || !failure->certain) && c.kind != Kind::replay) work(i, c);
    unsure_ = false;
    if (blocks_host(program_, c)) report(i, failure, true);
  }

  void replay(std::size_t i, const Command& c) {
    for (const auto& [inner, enabled] : *bodies_.now(c.graph)) {
      if (inner.kind == Kind::drop_array || inner.kind == Kind::free_array) ended_[index(inner.out.array)] = true;
      if (inner.kind == Kind::make_array || inner.kind == Kind::clone_array) make(inner.out.array);
      if (enabled && runs_in_stream(inner.kind) && inner.out.array >= 0) work(i, inner);
    }
  }

  void inherit(std::optional<Failure>& to, const std::optional<Failure>& from, bool surely = true) {
    if (!from || (to && to->certain)) return;
    const bool certain = from->certain && surely;
    if (!to) {
      to = Failure{from->salt, failures_++, certain};
    } else if (certain) {
      to->certain = true;
    }
  }

  std::optional<Failure> seen_by(int event) const {
    const Record& record = recorded_[index(event)];
    if (record.number < 0) return std::nullopt;
    const std::optional<Failure>& failure = stream_failure_[index(record.stream)];
    if (!failure || failure->number != record.number) return std::nullopt;
    return Failure{failure->salt, failure->number, record.certain};
  }

  void on_host(std::size_t i, const Command& c) {
    if (c.kind == Kind::host_work || c.kind == Kind::make_host) work(i, c);
    if (c.kind == Kind::sync_stream) {
      // The legacy stream stands for all blocking ones; others are waited for as far as they have come.
      if (legacy(index(c.stream))) come_behind(c.stream);
      if (legacy(index(c.stream))) note_move(c);
      report(i, stream_failure_[index(c.stream)], true);
    }
    if (c.kind != Kind::sync_event) return;
    std::optional<Failure> seen = seen_by(c.event);
    report(i, seen, false);
  }

  void report(std::size_t i, std::optional<Failure>& failure, bool forget) {
    if (!failure) return;
    (failure->certain ? outcome_.thrown : outcome_.may_throw)[i] = failure->salt;
    if (forget) failure.reset();
  }

  void work(std::size_t i, const Command& c) {
    bool clear_input = !unsure_;
    std::vector<Window> in;
    for (const Operand& operand : c.in) {
      in.push_back(window(program_, operand, values_[index(operand.array)].data()));
      clear_input = clear_input && !murky_[index(operand.array)];
    }
    if (c.kind == Kind::download || c.kind == Kind::to_host) {
      if (!clear_input) return;
      std::vector<Element>& read = outcome_.read[i];
      for (std::size_t e = 0; e < in[0].count(); ++e) read.push_back(in[0][e]);
      return;
    }
    if (c.out.array < 0 || c.kind == Kind::free_array) return;
    apply_work(c, in, window(program_, c.out, values_[index(c.out.array)].data()));
    const bool all = writes_all(program_, c);
    const bool makes = c.kind == Kind::make_array || c.kind == Kind::make_host;
    const bool writes = !(makes && c.how == How::empty);
    if (!clear_input) murky_[index(c.out.array)] = true;
    if (clear_input && all && writes) murky_[index(c.out.array)] = false;
  }

  const Program& program_;
  std::vector<std::vector<Element>> values_;
  std::vector<bool> murky_;
  std::vector<bool> ended_;
  std::vector<std::optional<Failure>> stream_failure_;
  std::vector<Record> recorded_;
  std::vector<Moves> moves_;
  std::vector<std::vector<Moves>> seen_;  ///< by stream: of the others, when it came behind them
  bool unsure_ = false;                   ///< whether the work at hand is done, or skipped
  Bodies bodies_;
  int failures_ = 0;
  Outcome outcome_;
};

std::optional<std::string> differ(const std::vector<Element>& expected, const std::vector<Element>& actual) {
  if (expected.size() != actual.size()) {
    return std::to_string(actual.size()) + " elements instead of " + std::to_string(expected.size());
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] != actual[i]) {
      return "element " + std::to_string(i) + " is " + std::to_string(actual[i]) + " instead of " +
             std::to_string(expected[i]);
    }
  }
  return std::nullopt;
}

bool asks(const Command& c) { return c.kind == Kind::query_stream || c.kind == Kind::query_event; }

/// What must be answered with yes, because the thread that asks has waited for all of it.
std::map<std::size_t, bool> certain_answers(const Program& program) {
  std::map<std::size_t, bool> answers;
  if (std::none_of(program.commands.begin(), program.commands.end(), asks)) return answers;
  Program grown = program;
  grown.commands.clear();
  Order order(grown);
  for (const Command& c : program.commands) {
    const std::size_t i = grown.commands.size();
    if (c.kind == Kind::query_stream && order.idle(c.stream, c.thread)) answers[i] = true;
    if (c.kind == Kind::query_event) {
      const auto record = order.last_record(c.event, c.thread);
      if (!record || order.run_before(*record, c.thread)) answers[i] = true;
    }
    grown.commands.push_back(c);
    order.append();
  }
  return answers;
}

}  // namespace

Outcome interpret(const Program& program) {
  Outcome outcome = Interpreter(program).run();
  outcome.answers = certain_answers(program);
  return outcome;
}

std::optional<std::string> difference(const Program& program, const Outcome& expected, const Outcome& actual) {
  if (!actual.complaints.empty()) return actual.complaints.front();
  const auto line = [&](std::size_t i) {
    return "command " + std::to_string(i) + ", " + to_text(program, program.commands[i]);
  };
  for (const auto& [i, salt] : expected.thrown) {
    if (!actual.thrown.contains(i)) return line(i) + ": threw nothing instead of failure " + std::to_string(salt);
  }
  for (const auto& [i, salt] : actual.thrown) {
    const auto may = expected.may_throw.find(i);
    if (may != expected.may_throw.end() && may->second == salt) continue;
    const auto wanted = expected.thrown.find(i);
    if (wanted == expected.thrown.end()) return line(i) + ": threw failure " + std::to_string(salt);
    if (wanted->second != salt)
      return line(i) + ": threw failure " + std::to_string(salt) + " instead of " + std::to_string(wanted->second);
  }
  std::vector<Element> most = expected.left;
  most.insert(most.end(), expected.may_be_left.begin(), expected.may_be_left.end());
  std::sort(most.begin(), most.end());
  if (!std::includes(actual.left.begin(), actual.left.end(), expected.left.begin(), expected.left.end()) ||
      !std::includes(most.begin(), most.end(), actual.left.begin(), actual.left.end())) {
    return std::to_string(actual.left.size()) + " failures left at the end instead of " +
           std::to_string(expected.left.size());
  }
  for (const auto& [i, yes] : expected.answers) {
    const auto found = actual.answers.find(i);
    if (found != actual.answers.end() && !found->second) return line(i) + ": not done, but all of it was waited for";
  }
  for (const auto& [i, values] : expected.read) {
    const auto found = actual.read.find(i);
    if (found == actual.read.end()) return line(i) + ": read nothing";
    if (const auto text = differ(values, found->second)) return line(i) + ": " + *text;
  }
  for (std::size_t a = 0; a < expected.arrays.size(); ++a) {
    if (expected.arrays[a].empty()) continue;
    if (const auto text = differ(expected.arrays[a], actual.arrays[a]))
      return "a" + std::to_string(a) + " at the end: " + *text;
  }
  return std::nullopt;
}

}  // namespace weir::stress
