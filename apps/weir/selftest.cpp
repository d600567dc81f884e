// `weir selftest`: whether a device keeps the ordering rules, on one screen.
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "checks.hpp"
#include "progress.hpp"
#include "session.hpp"

namespace tool {

namespace {

struct Row {
  const char* name;
  const char* rules;
  Verdict verdict;
};

Verdict try_check(Verdict (*run)(weir::Device), weir::Device device) {
  try {
    return run(device);
  } catch (const Stuck&) {
    throw;
  } catch (const std::exception& error) {
    return {Outcome::broken, error.what()};
  }
}

/// Broken is right here: the control has a forgotten wait, and a selftest that does not see it is worth nothing.
Verdict control(weir::Device device) {
  if (forgotten_wait(device).outcome != Outcome::broken) {
    return {Outcome::broken, "this device hides a forgotten wait, so that nothing below is proved"};
  }
  const Verdict checker = planted_hazards(device);
  return checker.outcome == Outcome::broken ? checker : Verdict{};
}

const char* word(Outcome outcome) {
  switch (outcome) {
    case Outcome::kept: return "kept";
    case Outcome::skipped: return "skipped";
    case Outcome::broken: break;
  }
  return "BROKEN";
}

std::string line(const Row& row) {
  std::string text = fmt::format("  {:<8} {}", word(row.verdict.outcome), row.name);
  if (!row.verdict.detail.empty()) text += ": " + row.verdict.detail;
  return text + "\n";
}

std::vector<Check> all_checks(bool show_failure) {
  std::vector<Check> checks = {{"forgotten waits are noticed, by the checker too", "M2", control}};
  for (const auto part : {stream_checks(), memory_checks(), work_checks()}) {
    checks.insert(checks.end(), part.begin(), part.end());
  }
  if (show_failure) checks.push_back({"two streams run in order without a wait", "none", forgotten_wait});
  return checks;
}

Json to_json(weir::Device device, const std::vector<Row>& rows, std::size_t broken) {
  Json list = Json::array();
  for (const Row& row : rows) {
    const char* result = row.verdict.outcome == Outcome::broken ? "broken" : word(row.verdict.outcome);
    list.push_back({{"name", row.name}, {"rules", row.rules}, {"result", result}, {"detail", row.verdict.detail}});
  }
  return {{"device", device.name()}, {"checks", list}, {"broken", broken}, {"kept", broken == 0}};
}

Exit run(const Session& session, bool show_failure) {
  const weir::Device device = session.device();
  const std::vector<Check> checks = all_checks(show_failure);
  session.say(fmt::format("selftest of {} ({})\n", device.name(), device.properties().name));
  std::vector<Row> rows;
  std::size_t kept = 0, broken = 0;
  Progress progress("selftest", checks.size());
  for (const Check& check : checks) {
    rows.push_back({check.name, check.rules, try_check(check.run, device)});
    progress.step();
    session.say(line(rows.back()));
    std::fflush(stdout);  // a check that does not come back is the one after the last line
    if (rows.back().verdict.outcome == Outcome::kept) ++kept;
    if (rows.back().verdict.outcome == Outcome::broken) ++broken;
  }
  session.say(broken == 0 ? fmt::format("{} keeps the rules: all {} that could be tried.\n", device.name(), kept)
                          : fmt::format("{} does NOT keep the rules: {} of {} are broken.\n", device.name(), broken,
                                        kept + broken));
  if (session.json) session.print(to_json(device, rows, broken));
  return broken == 0 ? Exit::ok : Exit::wrong;
}

}  // namespace

Judgement& Judgement::expect(bool good, const std::string& what) {
  if (!good && verdict_.outcome == Outcome::kept) verdict_ = {Outcome::broken, what};
  return *this;
}

Judgement& Judgement::expect(const Scenario& scene) {
  for (const Scenario::Finding& finding : scene.findings()) expect(finding.kept, finding.text);
  return *this;
}

void add_selftest(const Command& app, Session& session) {
  const Command command = app.add("selftest", "Tests whether a device keeps the ordering rules");
  command.footer(
      "Each line is one rule, tried on the device. No check depends on timing: commands are held until all that must "
      "run\n"
      "beside them has run, and the order of the others is read from tickets that they draw. The first line is a "
      "control\n"
      "with a forgotten wait, which must be noticed; the hazard checker must find a planted hazard of each kind.\n"
      "The exit code is 1 if a rule is broken.\n"
      "\nExample:  weir selftest --device cpu");
  const auto show_failure = std::make_shared<bool>(false);
  command.flag("--show-failure", *show_failure,
               "Add a rule that no device keeps, to see what a failure looks like to a script");
  add_common_options(command, session);
  command.when_given(
      [&session, show_failure] { session.run = [&session, show_failure] { return run(session, *show_failure); }; });
}

}  // namespace tool
