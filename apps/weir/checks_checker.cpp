// The selftest of the hazard checker: hazards are planted, and each must be found.
#include <algorithm>
#include <string>
#include <vector>

#include <weir/check.hpp>
#include <weir/collectives.hpp>
#include <weir/recording.hpp>
#include <weir/scenario.hpp>

#include "checks.hpp"

namespace tool {

namespace {

using weir::FindingKind;

// Its kernels touch nothing. What orders something comes last.
constexpr const char* planted = R"({"format": "weir.scenario", "version": 1,
  "streams": [{"name": "s", "kind": "non_blocking"}, {"name": "t", "kind": "non_blocking"}],
  "events": [{"name": "never"}],
  "buffers": [{"name": "a", "kind": "device", "bytes": 64}, {"name": "b", "kind": "device", "bytes": 64},
              {"name": "c", "kind": "device", "bytes": 64}, {"name": "d", "kind": "device", "bytes": 64, "home": "s"},
              {"name": "e", "kind": "device", "bytes": 64, "start": "later"},
              {"name": "m", "kind": "device", "bytes": 64, "start": "later", "owner": "pool"},
              {"name": "gone", "kind": "device", "bytes": 64, "home": "s"}],
  "program": [
    {"op": "launch", "stream": "s", "uses": [{"buffer": "a", "access": "out"}]},
    {"op": "launch", "stream": "t", "uses": [{"buffer": "a"}]},
    {"op": "launch", "stream": "s", "uses": [{"buffer": "b", "access": "out"}]},
    {"op": "launch", "stream": "t", "uses": [{"buffer": "b", "access": "out"}]},
    {"op": "launch", "stream": "s", "uses": [{"buffer": "c"}]},
    {"op": "launch", "stream": "t", "uses": [{"buffer": "c", "access": "out"}]},
    {"op": "launch", "stream": "t", "uses": [{"buffer": "d", "raw": true}]},
    {"op": "free", "buffer": "d"},
    {"op": "alloc", "buffer": "e", "stream": "s"},
    {"op": "launch", "stream": "s", "uses": [{"buffer": "e"}]},
    {"op": "launch", "stream": "t", "uses": [{"buffer": "e", "access": "out"}]},
    {"op": "alloc", "buffer": "m", "stream": "s"},
    {"op": "free", "buffer": "m", "stream": "t"},
    {"op": "launch", "stream": "s", "uses": [{"buffer": "a", "bytes": 32, "access": "out"},
                                             {"buffer": "a", "offset": 16, "bytes": 32}]},
    {"op": "free", "buffer": "gone", "stream": "s"},
    {"op": "launch", "stream": "s", "uses": [{"buffer": "gone"}]},
    {"op": "wait", "stream": "t", "event": "never"},
    {"op": "wait", "stream": "t", "for": "s"},
    {"op": "wait", "stream": "t", "for": "s"}]})";

constexpr FindingKind kinds[] = {
    FindingKind::read_after_write, FindingKind::write_after_write,     FindingKind::write_after_read,
    FindingKind::use_after_free,   FindingKind::use_before_alloc,      FindingKind::uninitialised_read,
    FindingKind::redundant_wait,   FindingKind::overlapping_arguments, FindingKind::empty_wait};
/// What a checker in the program is not told of, so that only that of scenarios knows.
constexpr FindingKind kinds_of_scenarios[] = {FindingKind::free_before_alloc, FindingKind::misuse};

/// Memory of a pool that nobody has freed by the end.
std::vector<weir::Finding> of_leaks(weir::Device device) {
  const weir::Stream s(device);
  const weir::PoolRef pool = weir::default_pool(device);
  weir::Checker checker({.mode = weir::CheckMode::collect, .leaks = true});
  void* const kept = pool.allocate(s, 64);
  checker.finish();
  pool.free(s, kept);
  return checker.findings();
}

/// Two ranks call two communicators in opposite orders, which their streams would keep for ever.
std::vector<weir::Finding> of_collectives() {
  const weir::Device device = weir::device("cpu");
  const weir::Stream s(device), t(device);
  const auto a = weir::communicators({device, device}), b = weir::communicators({device, device});
  weir::Checker checker({.mode = weir::CheckMode::collect});
  weir::barrier(s, a[0]);
  weir::barrier(s, b[0]);
  weir::barrier(t, b[1]);
  weir::barrier(t, a[1]);
  for (const weir::Stream* stream : {&s, &t}) {
    try {
      stream->synchronize();
    } catch (const weir::Error&) {  // the library ends the circle
    }
  }
  return checker.findings();
}

bool found(const std::vector<weir::Finding>& findings, FindingKind kind) {
  return std::any_of(findings.begin(), findings.end(), [kind](const weir::Finding& one) {
    return one.kind == kind || std::find(one.also.begin(), one.also.end(), kind) != one.also.end();
  });
}

}  // namespace

Verdict planted_hazards(weir::Device device) {
  // Whoever checks this program would tell of them.
  if (weir::Checker::armed()) return {Outcome::skipped, "the program is checked already"};
  const weir::Recording recording = weir::parse_recording(planted);
  weir::ScenarioChecker of_scenario(recording, {.mode = weir::CheckMode::collect, .hints = true});
  weir::Checker of_program({.mode = weir::CheckMode::collect, .hints = true});
  const bool armed = weir::Checker::armed();
  weir::run_scenario(recording, {.device = device.name()}, &of_scenario);
  of_program.finish();
  Judgement judgement;
  judgement.expect(armed, "a checker is there, and does not say so");
  const std::vector<weir::Finding> by_scenario = of_scenario.report().findings, by_program = of_program.findings();
  const auto expect = [&](const std::vector<weir::Finding>& findings, FindingKind kind, const char* whose) {
    judgement.expect(found(findings, kind), std::string(to_text(kind)) + " was missed by the checker of " + whose);
  };
  for (const FindingKind kind : kinds) {
    expect(by_scenario, kind, "scenarios");
    expect(by_program, kind, "programs");
  }
  for (const FindingKind kind : kinds_of_scenarios) expect(by_scenario, kind, "scenarios");
  expect(of_leaks(device), FindingKind::leak, "programs");
  expect(of_collectives(), FindingKind::deadlock, "programs");
  return judgement;
}

}  // namespace tool
