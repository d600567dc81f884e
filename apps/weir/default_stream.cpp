// `weir demo default-stream`: the three ordering rules of streams, shown by the order in which commands ran.
#include <vector>

#include <fmt/format.h>

#include "demo.hpp"
#include "scenario.hpp"

namespace tool {

namespace {

/// Four kinds of stream; B is a second blocking one.
struct Streams {
  weir::Stream first, second, free;
  Lane a, b, n, p, d;

  explicit Streams(weir::Device device)
      : first(device, {.name = "A"}),
        second(device, {.name = "B"}),
        free(device, {.blocking = false, .name = "N"}),
        a{first, "A  blocking"},
        b{second, "B  blocking"},
        n{free, "N  non-blocking"},
        p{weir::per_thread_stream(device), "P  per-thread"},
        d{weir::legacy_stream(device), "D  default"} {}
};

struct Rule {
  int number;
  const char* statement;
  const char* issued;
  void (*enqueue)(Scenario&, const Streams&);
};

void in_order(Scenario& scene, const Streams& s) {
  scene.hold(s.a, "K1");
  scene.mark(s.a, "K2");
  scene.hold(s.n, "K3");
  scene.mark(s.n, "K4");
  scene.hold(s.p, "K5");
  scene.mark(s.p, "K6");
  scene.expect_after("K2", "K1");
  scene.expect_after("K4", "K3");
  scene.expect_after("K6", "K5");
}

void unordered(Scenario& scene, const Streams& s) {
  scene.hold(s.a, "K1");
  scene.mark(s.b, "K2");
  scene.mark(s.n, "K3");
  scene.mark(s.p, "K4");
  scene.expect_during("K2", "K1");
  scene.expect_during("K3", "K1");
  scene.expect_during("K4", "K1");
}

void default_waits(Scenario& scene, const Streams& s) {
  scene.hold(s.a, "K1");
  scene.hold(s.p, "K2");
  scene.mark(s.d, "D1");
  scene.mark(s.n, "K3");
  scene.expect_after("D1", "K1");
  scene.expect_after("D1", "K2");
  scene.expect_during("K3", "K1");
}

void others_wait(Scenario& scene, const Streams& s) {
  scene.hold(s.d, "D1");
  scene.mark(s.a, "K1");
  scene.mark(s.p, "K2");
  scene.mark(s.n, "K3");
  scene.expect_after("K1", "D1");
  scene.expect_after("K2", "D1");
  scene.expect_during("K3", "D1");
}

void non_blocking_is_free(Scenario& scene, const Streams& s) {
  scene.hold(s.n, "K1");
  scene.mark(s.d, "D1");
  scene.expect_during("D1", "K1");
}

constexpr Rule rules[] = {
    {1, "A stream runs its commands in order.", "K1, K2 on A; K3, K4 on N; K5, K6 on P; the first of each is held.",
     in_order},
    {2, "Streams other than the default one are not ordered with each other.",
     "K1 on A is held; then K2 on B, K3 on N, K4 on P.", unordered},
    {3, "The default stream waits for all blocking streams; the per-thread stream is one, N is not.",
     "K1 on A and K2 on P are held; then D1 on the default stream, K3 on N.", default_waits},
    {3, "All blocking streams wait for the default stream, non-blocking ones do not.",
     "D1 on the default stream is held; then K1 on A, K2 on P, K3 on N.", others_wait},
    {3, "The default stream does not wait for a non-blocking stream.",
     "K1 on N is held; then D1 on the default stream.", non_blocking_is_free},
};

std::string show(const Rule& rule, const Scenario& scene) {
  std::string text =
      fmt::format("\nRule {}: {}\n  issued: {}\n{}", rule.number, rule.statement, rule.issued, scene.picture());
  for (const Scenario::Finding& finding : scene.findings()) {
    text += fmt::format("  {}  {}\n", finding.kept ? "kept  " : "BROKEN", finding.text);
  }
  return text;
}

Json to_json(const Rule& rule, const Scenario& scene) {
  Json findings = Json::array();
  for (const Scenario::Finding& finding : scene.findings()) {
    findings.push_back({{"finding", finding.text}, {"kept", finding.kept}});
  }
  return {{"rule", rule.number},
          {"statement", rule.statement},
          {"order", scene.order()},
          {"findings", findings},
          {"kept", scene.kept()}};
}

}  // namespace

DemoResult run_default_stream(const Session& session) {
  const weir::Device device = session.device();
  const Streams streams(device);
  session.say(
      fmt::format("default-stream: the order in which commands ran on {}, from left to right\n"
                  "  [K1====] was held until all that may run beside it had run; [K2] ran at once\n",
                  device.name()));
  bool kept = true;
  Json list = Json::array();
  for (const Rule& rule : rules) {
    Scenario scene(device);
    rule.enqueue(scene, streams);
    scene.play();
    kept = kept && scene.kept();
    session.say(show(rule, scene));
    list.push_back(to_json(rule, scene));
  }
  return {.name = "default-stream",
          .what = "3 rules, 4 kinds of stream",
          .good = kept,
          .json = {{"device", device.name()}, {"rules", list}, {"kept", kept}}};
}

void add_default_stream(const Command& demo, Session& session) {
  const Command command = demo.add("default-stream", "Three ordering rules, shown by what ran when");
  command.footer(
      "One stream runs in order; other streams are not ordered with each other; the default stream waits for all\n"
      "blocking streams, and they for it. Kernels that are held until a gate opens show which commands run meanwhile\n"
      "and which wait, on blocking, non-blocking and per-thread streams.\n"
      "\nExample:  weir demo default-stream --device cpu");
  add_demo_options(command, session);
  command.when_given(
      [&session] { session.run = [&session] { return finish_demo(session, run_default_stream(session)); }; });
}

}  // namespace tool
