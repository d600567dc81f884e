// The oracle of happens-before: sets of moments for each command, from the rules of streams, events and the host.
#include "order.hpp"

#include <algorithm>
#include <set>

namespace weir::stress {

namespace {

bool blocking(const StreamDecl& stream) {
  return stream.kind == StreamKind::blocking || stream.kind == StreamKind::per_thread;
}

}  // namespace

bool streams_ordered(const Program& program, int a, int b) {
  if (a == b) return true;
  const StreamDecl& x = program.streams[static_cast<std::size_t>(a)];
  const StreamDecl& y = program.streams[static_cast<std::size_t>(b)];
  return x.device == y.device &&
         ((x.kind == StreamKind::legacy && blocking(y)) || (y.kind == StreamKind::legacy && blocking(x)));
}

Order::Order(const Program& program, bool captured)
    : program_(program),
      captured_(captured),
      host_(index(program.threads)),
      current_(index(program.threads)),
      scopes_(index(program.threads)) {
  for (std::vector<int>& devices : current_) {
    for (int d = 0; d < program.devices; ++d) {
      const auto own = std::find_if(program.streams.begin(), program.streams.end(),
                                    [&](const StreamDecl& s) { return s.kind == StreamKind::own && s.device == d; });
      devices.push_back(static_cast<int>(own - program.streams.begin()));
    }
  }
}

std::optional<std::size_t> Order::last_record(int event, int thread) const {
  for (std::size_t i = call_.size(); i-- > 0;) {
    const Command& c = program_.commands[i];
    if (c.kind == Kind::record && c.event == event && host_[index(thread)].has(2 * i)) return i;
  }
  return std::nullopt;
}

bool Order::idle(int stream, int thread) const {
  if (program_.threads > 1) return false;  // others may be at work there unseen
  // The legacy stream stands for all blocking ones, and the device's own may be one of them.
  const bool stands_for_all = program_.streams[index(stream)].kind == StreamKind::legacy;
  std::set<int> used;
  for (std::size_t i = 0; i < call_.size(); ++i) {
    const Command& c = program_.commands[i];
    const bool here =
        runs_in_stream(c.kind) && (stands_for_all || streams_ordered(program_, c.stream, stream) || c.other == stream);
    if (here && !host_[index(thread)].has(2 * i + 1)) return false;
    for (const Access& access : accesses_[i]) {
      if (here) used.insert(access.operand.array);
    }
    // The end of an array may wait in the streams that used it, out of sight.
    const bool ends = c.kind == Kind::drop_array || c.kind == Kind::free_array;
    if (ends && used.contains(c.out.array)) return false;
    if (c.kind == Kind::drop_graph) return false;
  }
  return true;
}

bool Order::ordered(std::size_t earlier, std::size_t later) const { return run_[later].has(2 * earlier + 1); }

bool Order::is_current(int stream) const {
  for (std::size_t t = 0; t < current_.size(); ++t) {
    if (std::count(current_[t].begin(), current_[t].end(), stream) > 0) return true;
    for (const Scope& scope : scopes_[t]) {
      if (scope.previous == stream) return true;
    }
  }
  return false;
}

/// Adds what is over when a new command of `stream` starts: for a barrier, what the legacy stream's rules say too.
void Order::add_stream(Moments& set, int stream, bool as_barrier, const Moments& called) const {
  for (std::size_t i = 0; i < call_.size(); ++i) {
    const Command& c = program_.commands[i];
    if (!runs_in_stream(c.kind) || !called.has(2 * i)) continue;
    if (as_barrier ? streams_ordered(program_, c.stream, stream) : c.stream == stream) {
      set.add(run_[i]);
      set.add(2 * i + 1);
    }
  }
}

Moments Order::before_call(const Command& c) const {
  Moments call = host_[index(c.thread)];
  if (c.kind != Kind::await) return call;
  for (std::size_t i = 0; i < call_.size(); ++i) {
    const Command& other = program_.commands[i];
    if (other.kind == Kind::signal && other.number == c.number) {
      call.add(call_[i]);
      call.add(2 * i);
    }
  }
  return call;
}

Moments Order::before_run(const Command& c, std::size_t self, const Moments& call) const {
  Moments run = call;
  run.add(2 * self);
  if (!runs_in_stream(c.kind)) return run;
  add_stream(run, c.stream, is_barrier(c), call);
  if (c.kind == Kind::wait_event) {
    if (const auto record = last_record(c.event, c.thread)) {
      run.add(run_[*record]);
      run.add(2 * *record + 1);
    }
  }
  if (c.kind == Kind::wait_stream || c.kind == Kind::enter) add_stream(run, c.other, true, call);
  for (std::size_t i = 0; c.kind == Kind::replay && !captured_ && i < call_.size(); ++i) {
    const Command& other = program_.commands[i];
    if (other.kind != Kind::replay || other.graph != c.graph || !call.has(2 * i)) continue;
    run.add(run_[i]);  // replays of one graph follow each other
    run.add(2 * i + 1);
  }
  return run;
}

/// What the host has waited for when the call is over.
Moments Order::waited(const Command& c, const Moments& call) const {
  Moments over;
  if (c.kind == Kind::sync_stream) {
    // The legacy stream stands for all blocking ones; another stream for its own commands.
    add_stream(over, c.stream, program_.streams[index(c.stream)].kind == StreamKind::legacy, call);
  }
  if (c.kind == Kind::sync_event) {
    if (const auto record = last_record(c.event, c.thread)) {
      over.add(run_[*record]);
      over.add(2 * *record + 1);
    }
  }
  if (c.kind == Kind::sync_device || c.kind == Kind::sync_all) {
    for (std::size_t i = 0; i < call_.size(); ++i) {
      const Command& other = program_.commands[i];
      if (!runs_in_stream(other.kind) || !call.has(2 * i)) continue;
      if (c.kind == Kind::sync_all || program_.streams[index(other.stream)].device == c.device) {
        over.add(run_[i]);
        over.add(2 * i + 1);
      }
    }
  }
  return over;
}

void Order::change_current(const Command& c) {
  std::vector<int>& current = current_[index(c.thread)];
  std::vector<Scope>& scopes = scopes_[index(c.thread)];
  if (c.kind == Kind::leave) {
    current[index(scopes.back().device)] = scopes.back().previous;
    scopes.pop_back();
  }
  if (c.kind != Kind::enter && c.kind != Kind::set_current) return;
  const int device = program_.streams[index(c.stream)].device;
  if (c.kind == Kind::enter) scopes.push_back({device, current[index(device)]});
  current[index(device)] = c.stream;
}

/// The stream that stops being current is used until then. Where failures matter, who asks an event asks the stream that it
/// was recorded on.
std::vector<Use> Order::uses_now(const Command& c) const {
  std::vector<Use> all = uses(program_, c);
  const std::vector<Scope>& scopes = scopes_[index(c.thread)];
  if (c.kind == Kind::leave && !scopes.empty()) {
    all.push_back({Object::stream, current(c.thread, scopes.back().device), false});
  }
  if (c.kind == Kind::set_current) {
    all.push_back({Object::stream, current(c.thread, program_.streams[index(c.stream)].device), false});
  }
  if (!program_.streams_in_turn || (c.kind != Kind::wait_event && c.kind != Kind::sync_event)) return all;
  if (const auto record = last_record(c.event, c.thread)) {
    const std::vector<Use> more = uses_of_stream(program_, program_.commands[*record].stream, true);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::optional<Gap> Order::gap(const Command& c) const {
  const Moments call = before_call(c);
  const Moments run = before_run(c, call_.size(), call);
  const std::vector<Use> my_uses = uses_now(c);
  const std::vector<Access> my_accesses = accesses(program_, c);
  if (c.kind == Kind::elapsed) {
    for (const int event : {c.event, c.event2}) {
      const auto record = last_record(event, c.thread);
      if (record && !call.has(2 * *record + 1)) return Gap{*record, true, true};
    }
  }
  for (std::size_t i = 0; i < call_.size(); ++i) {
    for (const Use& theirs : uses_[i]) {
      for (const Use& mine : my_uses) {
        const bool same = theirs.object == mine.object && theirs.id == mine.id;
        if (same && (theirs.exclusive || mine.exclusive) && !call.has(2 * i)) return Gap{i, false, true};
      }
    }
    for (const Access& theirs : accesses_[i]) {
      for (const Access& mine : my_accesses) {
        if ((!theirs.write && !mine.write) || !overlap(theirs.operand, mine.operand)) continue;
        const std::size_t moment = 2 * i + (theirs.at_call ? 0 : 1);
        if (!(mine.at_call ? call : run).has(moment)) return Gap{i, !theirs.at_call, mine.at_call};
      }
    }
  }
  return std::nullopt;
}

void Order::append() {
  const std::size_t self = call_.size();
  const Command& c = program_.commands[self];
  Moments call = before_call(c);
  Moments run = before_run(c, self, call);
  Moments& host = host_[index(c.thread)];
  host.add(call);
  host.add(2 * self);
  host.add(waited(c, call));
  if (runs_in_stream(c.kind) && blocks_host(program_, c)) {
    host.add(run);
    host.add(2 * self + 1);
  }
  uses_.push_back(uses_now(c));
  change_current(c);
  call_.push_back(std::move(call));
  run_.push_back(std::move(run));
  accesses_.push_back(accesses(program_, c));
}

}  // namespace weir::stress
