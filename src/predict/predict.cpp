// Predictions of recordings: the model's answer in the user's words.
#include <algorithm>
#include <utility>

#include <weir/error.hpp>
#include <weir/sim.hpp>

#include "backends/sim/clock.hpp"
#include "backends/sim/model/kernel_task.hpp"
#include "backends/sim/model/simulate.hpp"
#include "backends/sim/profile_file.hpp"
#include "predict/critical_path.hpp"
#include "predict/gains.hpp"
#include "predict/program.hpp"

namespace weir::sim {

namespace {

constexpr const char* operation = "weir::sim::predict";

using Intervals = std::vector<std::pair<double, double>>;

Engine engine_of(const model::Program& program, const model::Span& span) {
  if (span.task == model::none) return Engine::none;
  switch (program.tasks[span.task].work) {
    case model::Work::h2d: return Engine::h2d;
    case model::Work::d2h: return Engine::d2h;
    case model::Work::copy_peer:
    case model::Work::collective: return Engine::peer;
    case model::Work::kernel: return Engine::kernel;
    case model::Work::fill:
    case model::Work::copy_within: return Engine::memory;
    case model::Work::host_function: return Engine::host_function;
    default: return Engine::none;
  }
}

/// What at least one of them covers, in order and apart.
Intervals united(Intervals intervals) {
  std::sort(intervals.begin(), intervals.end());
  Intervals made;
  for (const auto& one : intervals) {
    if (!made.empty() && one.first <= made.back().second) {
      made.back().second = std::max(made.back().second, one.second);
    } else {
      made.push_back(one);
    }
  }
  return made;
}

double length(const Intervals& intervals) {
  double sum = 0;
  for (const auto& one : intervals) sum += one.second - one.first;
  return sum;
}

double both(const Intervals& a, const Intervals& b) {
  double sum = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max(0.0, std::min(a[i].second, b[j].second) - std::max(a[i].first, b[j].first));
    ++(a[i].second < b[j].second ? i : j);
  }
  return sum;
}

void add_interval(Prediction& prediction, const model::Profile::Interval& interval, const model::Program& program) {
  const double us = prediction.makespan_us;
  // What is guessed makes it half as wide again.
  const double wider = prediction.estimated.empty() ? 1 : 1.5;
  const double low = us < 100    ? interval.short_low_percent
                     : us < 1000 ? interval.middle_low_percent
                                 : interval.long_low_percent;
  const double high = us < 100    ? interval.short_high_percent
                      : us < 1000 ? interval.middle_high_percent
                                  : interval.long_high_percent;
  const bool functions = std::any_of(program.tasks.begin(), program.tasks.end(),
                                     [](const model::Task& task) { return task.work == model::Work::host_function; });
  prediction.low_us = us * std::max(0.0, 1 - wider * low / 100);
  prediction.high_us = us * (1 + wider * (high + (functions ? interval.host_functions_percent : 0)) / 100);
}

/// `commands`: of each call of the program, as users know it.
void add_commands(Prediction& prediction, const model::Program& program, const model::Result& result,
                  const std::vector<std::size_t>& commands) {
  std::array<Intervals, engine_count> busy;
  const auto place = [&](std::uint32_t call) { return call == model::none ? no_command : commands[call]; };
  prediction.commands.reserve(result.spans.size());
  for (const model::Span& span : result.spans) {
    if (span.task == model::none) continue;
    PredictedCommand command;
    command.command = place(span.call);
    command.stream = span.stream;
    command.engine = engine_of(program, span);
    command.held_by = predict::wait_cause(span);
    const std::uint32_t holder = span.begin > span.ready ? span.holder : span.behind;
    if (holder != model::none) command.holder = place(result.spans[holder].call);
    command.issued_us = span.issued;
    command.ready_us = span.ready;
    command.begin_us = span.begin;
    command.end_us = span.end;
    command.last_block_us = span.last_block;
    busy[static_cast<std::size_t>(command.engine)].emplace_back(span.begin, span.end);
    prediction.commands.push_back(command);
  }
  for (std::size_t i = 0; i < engine_count; ++i) {
    busy[i] = united(std::move(busy[i]));
    prediction.busy_us[i] = length(busy[i]);
  }
  const auto of = [&](Engine engine) -> const Intervals& { return busy[static_cast<std::size_t>(engine)]; };
  prediction.h2d_d2h_us = both(of(Engine::h2d), of(Engine::d2h));
  prediction.h2d_kernel_us = both(of(Engine::h2d), of(Engine::kernel));
  prediction.d2h_kernel_us = both(of(Engine::d2h), of(Engine::kernel));
}

/// What the model answered, in the user's words.
Prediction answer(const model::Program& program, const model::Profile& profile, const model::Result& result,
                  const std::vector<std::size_t>& commands, std::vector<std::string> estimated) {
  Prediction prediction;
  prediction.profile = profile.name;
  prediction.makespan_us = result.makespan;
  prediction.host_us = result.host;
  prediction.estimated = std::move(estimated);
  add_interval(prediction, profile.interval, program);
  add_commands(prediction, program, result, commands);
  prediction.critical_path = predict::critical_path(program, result);
  for (PathPart& part : prediction.critical_path) {
    if (part.command != no_command) part.command = commands[part.command];
    prediction.cause_us[static_cast<std::size_t>(part.cause)] += part.end_us - part.begin_us;
  }
  return prediction;
}

model::Profile profile_of(const PredictOptions& options) {
  model::Profile profile = load_profile(options.profile);
  for (const Setting& setting : options.set) {
    const model::Field* field = model::find_field(setting.field);
    if (!field) throw "there is no field " + setting.field + " in profiles";
    const std::string refused = model::refusal(*field, setting.value);
    if (!refused.empty()) throw setting.field + ": " + refused;
    field->of(profile) = setting.value;
  }
  const bool queues_set = std::any_of(options.set.begin(), options.set.end(),
                                      [](const Setting& setting) { return setting.field == "work_queues"; });
  return options.own_copies && !queues_set ? model::as_own(std::move(profile)) : profile;
}

}  // namespace

std::string_view name_of(Engine engine) {
  constexpr std::string_view names[engine_count] = {"h2d", "d2h", "peer", "kernel", "memory", "host_function", "none"};
  return names[static_cast<std::size_t>(engine)];
}

std::string_view name_of(Cause cause) {
  constexpr std::string_view names[cause_count] = {
      "link",       "kernels",     "memory",           "host functions", "host issuing", "order",     "hops",
      "copy order", "full device", "dependency check", "legacy barrier", "pageable",     "work queue"};
  return names[static_cast<std::size_t>(cause)];
}

double Prediction::overlap(Engine a, Engine b) const {
  if (a > b) std::swap(a, b);
  const double shorter = std::min(busy_us[static_cast<std::size_t>(a)], busy_us[static_cast<std::size_t>(b)]);
  double time = 0;
  if (a == Engine::h2d && b == Engine::d2h) time = h2d_d2h_us;
  if (a == Engine::h2d && b == Engine::kernel) time = h2d_kernel_us;
  if (a == Engine::d2h && b == Engine::kernel) time = d2h_kernel_us;
  return shorter > 0 ? time / shorter : 0;
}

Prediction predict(const Recording& recording, const PredictOptions& options, SourceLocation where) {
  try {
    const model::Profile profile = profile_of(options);
    const predict::Rules rules{options.by_bytes, options.own_copies};
    const predict::Translated translated = predict::translate(recording, profile, rules);
    const model::Result result = model::simulate(translated.program, profile);
    if (result.stuck) {
      const std::string call = recording.id(translated.command[result.stuck_call]);
      throw "the wait of command " + call + " never ends: nothing that comes before it gives what it waits for";
    }
    Prediction prediction = answer(translated.program, profile, result,
                                   {translated.command.begin(), translated.command.end()}, translated.estimated);
    if (options.gains)
      prediction.gains = predict::gains(
          translated.program, profile, result.makespan, prediction.cause_us,
          [&](const model::Profile& changed) { return predict::translate(recording, changed, rules).program; });
    return prediction;
  } catch (const std::string& wrong) {
    throw Error(Errc::invalid_value, operation, options.profile, wrong, where);
  }
}

Prediction timeline(Device device, SourceLocation where) {
  if (device.backend() != "sim")
    throw Error(Errc::invalid_value, "weir::sim::timeline", device.name(), "it is no simulated device", where);
  Snapshot now = snapshot(device.index());
  Prediction prediction = answer(now.program, now.profile, now.result, {now.commands.begin(), now.commands.end()},
                                 std::move(now.estimated));
  for (PredictedCommand& command : prediction.commands)
    command.stream = static_cast<std::uint32_t>(now.streams[command.stream]);
  return prediction;
}

}  // namespace weir::sim
