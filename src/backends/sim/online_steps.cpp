// Calls of a running program, and bodies of host functions, which say only while they run for real how long they last: the
// simulation stops where it would have to know that, and calls from there on are kept until it does. What has to be known at
// once is taken from a guess, another simulation, in which bodies say no more.
#include <algorithm>
#include <limits>
#include <utility>

#include "backends/sim/online_model.hpp"

namespace weir::sim {

using model::Action;
using model::none;

namespace {

/// A timeline has the last ones at least; each takes some 250 bytes.
constexpr std::uint32_t kept_commands = 100'000;
/// Then bodies that are not over are not waited for: memory must not grow for ever.
constexpr std::size_t most_steps = 20'000;
/// A guess forgets nothing; then there will be another one.
constexpr std::size_t most_guessed = 20'000;

}  // namespace

Place OnlineModel::make(model::Call call, Step step, std::vector<double>& clocks) {
  if (program_.threads < clocks.size()) {
    program_.threads = static_cast<std::uint32_t>(clocks.size());
    grow();
  }
  if (call.action == Action::enqueue || call.action == Action::launch_graph) questions_.forget(step.thread);
  call.thread = step.thread;
  const std::uint32_t number = simulation_.calls().first() + static_cast<std::uint32_t>(program_.calls.size());
  program_.calls.push_back(call);
  commands_.push_back(step.command);
  step.kind = Step::Kind::call;
  step.question = call.action == Action::query_stream || call.action == Action::query_event;
  for (const auto& [node, function] : step.bodies) {
    simulation_.expect(number, node);
    const std::uint32_t known = node != none && step.numbers != nullptr ? (*step.numbers)[node] : none;
    bodies_[function].push_back({number, node, {step.command, known, {}}});
  }
  return take(std::move(step), clocks);
}

/// Takes the step now, or when it can be.
Place OnlineModel::take(Step step, std::vector<double>& clocks) {
  step.at = clocks[step.thread];
  if (guess_ != nullptr) guess(step);
  if (!late() && start(step)) {
    Place place = finish(step, clocks, guess_ == nullptr);
    forget();
    return place;
  }
  steps_.push_back(std::move(step));
  if (steps_.size() > most_steps) settle(clocks);
  return {.known = false};
}

/// False if a body holds it: then it has begun.
bool OnlineModel::start(Step& step) {
  step.first = simulation_.next_command();
  begin(simulation_, step);
  begun_ = step.kind == Step::Kind::call && !simulation_.call();
  return !begun_;
}

void OnlineModel::go_on(std::vector<double>& clocks) {
  while (!steps_.empty()) {
    Step& step = steps_.front();
    if (begun_ ? !simulation_.go_on() : !start(step)) return;
    begun_ = false;
    Place place = finish(step, clocks, guess_ == nullptr && steps_.size() == 1);
    if (step.command != 0) finished_.emplace_back(step.command, std::move(place));
    steps_.pop_front();
  }
  forget();
}

/// What is long over; not what a guess still reads.
void OnlineModel::forget() {
  if (guess_ != nullptr && simulation_.expects_bodies()) return;
  guess_.reset();
  if (!gone_graphs_.empty()) forget_graphs();
  const std::uint32_t first = simulation_.calls().first();
  const auto gone = static_cast<std::ptrdiff_t>(simulation_.forget(kept_commands) - first);
  program_.calls.erase(program_.calls.begin(), program_.calls.begin() + gone);
  commands_.erase(commands_.begin(), commands_.begin() + gone);
}

void OnlineModel::begin(model::Simulation& simulation, const Step& step) {
  switch (step.kind) {
    case Step::Kind::call: return simulation.set_clock(step.thread, step.at);
    case Step::Kind::follow:
      for (const std::uint32_t other : step.others) simulation.follow(step.stream, other);
      return;
    case Step::Kind::hold: return simulation.hold(step.stream, step.time);
    case Step::Kind::follow_graph: return simulation.follow_graph(step.stream, step.others[0]);
  }
}

/// `last`: the program has no later call, and nobody else reads it.
Place OnlineModel::finish(const Step& step, std::vector<double>& clocks, bool last) {
  if (step.kind == Step::Kind::call) {
    clocks[step.thread] = std::max(clocks[step.thread], simulation_.clock(step.thread));
    if (step.question && last && simulation_.drop_question()) {
      program_.calls.pop_back();
      commands_.pop_back();
    }
  }
  Place place;
  switch (step.after) {
    case Step::After::nothing: break;
    case Step::After::record:
      if (const auto event = events_.find(step.event); event != events_.end())
        event->second.at = simulation_.clock(step.thread);
      [[fallthrough]];
    case Step::After::marker:
      place.behind = simulation_.last_of_stream(step.stream);
      place.at = std::max(step.at, simulation_.clock(step.thread));
      break;
    case Step::After::command: place.first = place.last = last_command(simulation_); break;
    case Step::After::graph:
      place.first = step.first;
      place.last = simulation_.last_of_stream(step.stream).back();
      place.numbers = step.numbers;
      break;
  }
  return place;
}

/// With implicit synchronisation there are others before and behind it.
std::uint32_t OnlineModel::last_command(const model::Simulation& simulation) {
  const model::Window<model::Span>& spans = simulation.spans();
  for (std::uint32_t i = spans.end(); i-- > spans.first();) {
    if (spans[i].task != none) return i;
  }
  return none;
}

void OnlineModel::grow() {
  simulation_.grow();
  if (guess_ != nullptr) guess_->grow();
}

void OnlineModel::guess(const Step& step) {
  if (++guessed_ > most_guessed && !late()) return guess_.reset();
  begin(*guess_, step);
  if (step.kind != Step::Kind::call) return;
  guess_->call();
  if (step.after == Step::After::command && !step.bodies.empty())
    guessed_functions_[step.command] = last_command(*guess_);
}

model::Simulation& OnlineModel::guessed() {
  if (guess_ != nullptr) return *guess_;
  guess_ = simulation_.guess();
  guessed_ = 0;
  guessed_functions_.clear();
  if (begun_) guess_->go_on();
  for (std::size_t i = begun_ ? 1 : 0; i < steps_.size(); ++i) guess(steps_[i]);
  return *guess_;
}

model::Simulation& OnlineModel::seen_ahead() {
  return late() || simulation_.expects_bodies() ? guessed() : simulation_;
}

double OnlineModel::time_of(std::uint32_t thread) {
  return late() && thread < program_.threads ? guessed().clock(thread) : 0;
}

void OnlineModel::settle(std::vector<double>& clocks) {
  for (const auto& [function, bodies] : bodies_) {
    for (const Body& one : bodies) keep_work(one);
  }
  bodies_.clear();
  simulation_.assume();
  go_on(clocks);
}

void OnlineModel::keep_work(const Body& body) {
  if (body.worked.time.count() > 0) worked_.push_back(body.worked);
}

bool OnlineModel::worked(const detail::HostFunction& function, std::chrono::nanoseconds time, bool over,
                         std::vector<double>& clocks) {
  const auto found = bodies_.find(&function);
  if (found == bodies_.end()) return false;
  Body& body = found->second.front();
  const double us = std::chrono::duration<double, std::micro>(time).count();
  simulation_.worked(body.call, body.node, us, over);
  body.worked.time += time;
  if (us > 0) guess_.reset();
  if (!over) return true;
  keep_work(body);
  found->second.pop_front();
  if (found->second.empty()) bodies_.erase(found);
  go_on(clocks);
  return true;
}

void OnlineModel::never_called(const detail::HostFunction& function) {
  const auto found = bodies_.find(&function);
  if (found == bodies_.end()) return;
  for (const Body& one : found->second) simulation_.worked(one.call, one.node, 0, true);
  bodies_.erase(found);
}

bool OnlineModel::ask(const model::Call& call, std::uint32_t thread, std::vector<double>& clocks) {
  Step step;
  step.thread = thread;
  if (!late() && !simulation_.expects_bodies()) {
    make(call, std::move(step), clocks);
    return simulation_.answer();
  }
  if (program_.threads < clocks.size()) {
    program_.threads = static_cast<std::uint32_t>(clocks.size());
    grow();
  }
  // Whether it is kept depends on the answer.
  model::Simulation& ahead = guessed();
  program_.calls.push_back(call);
  program_.calls.back().thread = thread;
  commands_.push_back(0);
  ahead.set_clock(thread, clocks[thread]);
  ahead.call();
  const bool answer = ahead.answer();
  if (answer || (profile_.host.query_us <= 0 && profile_.dependency_check == 0)) {
    ahead.drop_question();
    program_.calls.pop_back();
    commands_.pop_back();
    return answer;
  }
  step.kind = Step::Kind::call;
  step.question = true;
  step.at = clocks[thread];
  steps_.push_back(std::move(step));
  if (steps_.size() > most_steps) settle(clocks);
  if (steps_.size() == 1) go_on(clocks);
  return answer;
}

bool OnlineModel::query(const model::Call& call, std::uint32_t thread, std::vector<double>& clocks) {
  bool answer = ask(call, thread, clocks);
  if (answer || profile_.host.query_us > 0) return answer;
  // Who asks again and again for nothing goes on with time: else the answer would never change.
  if (questions_.again(call, thread, clocks[thread])) {
    const double next = seen_ahead().next_time(std::max(clocks[thread], time_of(thread)));
    answer = ask(call, thread, clocks);
    if (!answer && next < std::numeric_limits<double>::infinity()) {
      clocks[thread] = std::max(clocks[thread], next);
      questions_.went_on(thread, clocks[thread]);
    }
  }
  return answer;
}

void OnlineModel::hold(StreamId stream, double time, std::uint32_t thread, std::vector<double>& clocks) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  Step step;
  step.kind = Step::Kind::hold;
  step.thread = thread;
  step.stream = found->second;
  step.time = time;
  take(std::move(step), clocks);
}

void OnlineModel::work(double us, std::uint32_t thread, std::vector<double>& clocks) {
  model::Call call = call_for(Action::work);
  call.us = us;
  make(call, {.thread = thread}, clocks);
}

}  // namespace weir::sim
