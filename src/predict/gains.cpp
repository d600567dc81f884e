#include "predict/gains.hpp"

#include <algorithm>
#include <functional>
#include <sstream>
#include <string>

#include "backends/sim/model/simulate.hpp"

namespace weir::predict {

using sim::Cause;
using sim::model::Action;
using sim::model::Profile;
using sim::model::Program;

namespace {

struct Change {
  Cause cause;
  const char* field;
  double factor;
};
constexpr Change settings[] = {
    {Cause::link, "link.h2d_gb_s", 2},
    {Cause::link, "link.d2h_gb_s", 2},
    {Cause::kernels, "sms", 2},
    {Cause::kernels, "memory.gb_s", 2},
    {Cause::full_device, "sms", 2},
    {Cause::memory, "memory.gb_s", 2},
    {Cause::host, "host.launch_us", 0.5},
    {Cause::host, "host.copy_us", 0.5},
    {Cause::hops, "hop.copy_kernel_us", 0.5},
    {Cause::link, "copy_engines", 2},
    {Cause::copy_order, "copy_engines", 2},
};

std::string shown(double value) {
  std::ostringstream text;
  text.precision(6);
  text << value;
  return text.str();
}

/// Runs of commands that only streams order are issued in turns: the first of each stream, the second of each, and so on.
bool issue_in_turns(Program& program) {
  const auto enqueues = [](const sim::model::Call& call) { return call.action == Action::enqueue; };
  bool changed = false;
  std::vector<std::uint32_t> depth(program.streams.size());
  for (auto first = program.calls.begin(); first != program.calls.end();) {
    first = std::find_if(first, program.calls.end(), enqueues);
    const auto last = std::find_if_not(first, program.calls.end(), enqueues);
    std::fill(depth.begin(), depth.end(), 0);
    std::vector<std::pair<std::uint32_t, sim::model::Call>> order;
    for (auto call = first; call != last; ++call) order.emplace_back(depth[call->stream]++, *call);
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < order.size(); ++i) {
      changed = changed || first[static_cast<std::ptrdiff_t>(i)].task != order[i].second.task;
      first[static_cast<std::ptrdiff_t>(i)] = order[i].second;
    }
    first = last;
  }
  return changed;
}

bool pin(Program& program) {
  bool changed = false;
  for (sim::model::Task& task : program.tasks) changed = std::exchange(task.pageable, false) || changed;
  return changed;
}

bool unblock(Program& program) {
  bool changed = false;
  for (sim::model::Stream& stream : program.streams) {
    if (stream.kind != sim::model::Stream::Kind::blocking) continue;
    stream.kind = sim::model::Stream::Kind::non_blocking;
    changed = true;
  }
  return changed;
}

}  // namespace

std::vector<sim::Gain> gains(const Program& program, const Profile& profile, double makespan,
                             const std::array<double, sim::cause_count>& cause_us,
                             const std::function<Program(const Profile&)>& translate) {
  std::vector<sim::Gain> found;
  const auto matters = [&](Cause cause) { return cause_us[static_cast<std::size_t>(cause)] > 0.02 * makespan; };
  const auto consider = [&](std::string change, const Program& changed, const Profile& by) {
    const double with = sim::model::simulate(changed, by).makespan;
    const bool known =
        std::any_of(found.begin(), found.end(), [&](const sim::Gain& one) { return one.change == change; });
    if (with < 0.99 * makespan && !known) found.push_back({std::move(change), with});
  };
  for (const Change& change : settings) {
    if (!matters(change.cause)) continue;
    Profile changed = profile;
    double& value = sim::model::find_field(change.field)->of(changed);
    if (change.field == std::string("copy_engines")) {
      if (value >= 2) continue;
      value = 2;
    } else {
      value *= change.factor;
    }
    const bool other_blocks = change.field == std::string("sms");
    consider("--set " + std::string(change.field) + "=" + shown(value), other_blocks ? translate(changed) : program,
             changed);
  }
  const auto rewrite = [&](const char* what, bool (*how)(Program&)) {
    Program changed = program;
    if (how(changed)) consider(what, changed, profile);
  };
  if (program.streams.size() > 1)
    rewrite("issue the streams' commands in turns, the first of each first", issue_in_turns);
  if (matters(Cause::pageable)) rewrite("pin the host memory of copies", pin);
  if (matters(Cause::legacy_barrier)) rewrite("make the streams non-blocking", unblock);
  std::stable_sort(found.begin(), found.end(),
                   [](const sim::Gain& a, const sim::Gain& b) { return a.makespan_us < b.makespan_us; });
  return found;
}

}  // namespace weir::predict
