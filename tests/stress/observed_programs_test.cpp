// The same random programs with observers attached: they give what their commands give one by one, as they do without, and
// what observers are told of a stream comes in its order.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <weir/weir.hpp>

#include "campaign.hpp"
#include "execute.hpp"
#include "random.hpp"

namespace weir::stress {
namespace {

/// Holds what is told against what is promised.
class Tool final : public Observer {
 public:
  Tool() { attach(*this); }
  ~Tool() override { detach(*this); }

  void submitted(const weir::Command& command) override {
    const std::lock_guard lock(mutex_);
    if (command.graph != 0) complain("a command that is captured was submitted");
    if (const auto* record = std::get_if<Record>(&command.op)) {
      if (record->number == 0) complain("a record has no number");
      records_[record->event_id] = std::max(records_[record->event_id], record->number);
    }
    if (const auto* launch = std::get_if<GraphLaunch>(&command.op)) {
      if (!graphs_.contains(launch->id)) complain("a graph was launched that nobody was told of");
    }
    if (const auto* alloc = std::get_if<Alloc>(&command.op)) {
      if (alloc->data != nullptr && !live_.emplace(alloc->data, alloc->buffer).second) {
        complain("memory was given out twice");
      }
      return;
    }
    if (const auto* free = std::get_if<Free>(&command.op)) {
      live_.erase(free->data);
      return;
    }
    if (!leaves_order(command)) places_[command.id] = ++next_;
  }
  void refused(const Refusal& refusal) override {
    const std::lock_guard lock(mutex_);
    places_.erase(refusal.command.id);
  }
  void ran(CommandId id, StreamId stream, Span) override {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(id);
    if (found == places_.end()) return;
    std::size_t& last = ran_[stream];
    if (found->second <= last) complain("a stream's commands were told in another order than they ran in");
    last = found->second;
    places_.erase(found);
  }
  void graph_made(const GraphInfo& info) override {
    const std::lock_guard lock(mutex_);
    graphs_[info.id] = info.nodes.size();
    for (const GraphNodeInfo& node : info.nodes) {
      for (const std::uint32_t before : node.depends) {
        if (before >= info.nodes.size()) complain("a node depends on none");
      }
    }
  }
  void graph_gone(std::uint64_t graph) override {
    const std::lock_guard lock(mutex_);
    graphs_.erase(graph);
  }

  std::optional<std::string> complaint() {
    const std::lock_guard lock(mutex_);
    return complaint_;
  }

 private:
  /// Another thread's command of the stream may enter before these do.
  static bool leaves_order(const weir::Command& command) {
    if (std::holds_alternative<External>(command.op)) return true;
    const auto* copy = std::get_if<Copy>(&command.op);
    const auto* fill = std::get_if<Fill>(&command.op);
    return (copy != nullptr && (copy->to_kind == MemoryKind::pageable || copy->from_kind == MemoryKind::pageable)) ||
           (fill != nullptr && fill->kind == MemoryKind::pageable);
  }
  void complain(const char* text) {
    if (!complaint_) complaint_ = text;
  }

  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> records_;
  std::map<std::uint64_t, std::size_t> graphs_;
  std::map<const void*, BufferId> live_;
  std::map<CommandId, std::size_t> places_;
  std::map<StreamId, std::size_t> ran_;
  std::size_t next_ = 0;
  std::optional<std::string> complaint_;
};

/// A policy that lets everything pass.
class Consent final : public OrderPolicy {
 public:
  Consent() { attach(*this); }
  ~Consent() override { detach(*this); }
};

/// Refuses one command of three; at random, for a call may be several commands, and is to be taken some time.
class Refuser final : public OrderPolicy {
 public:
  Refuser() { attach(*this); }
  ~Refuser() override { detach(*this); }

  void before(const weir::Command& command, Waits&) override {
    if (!repeats_refused_calls()) return;
    const std::lock_guard lock(mutex_);
    if (random_.percent(67)) return;
    ++refused_;
    throw Error(Errc::hazard, "Refuser", "a command", "not yet", command.where);
  }

  std::size_t refused() {
    const std::lock_guard lock(mutex_);
    return refused_;
  }

 private:
  std::mutex mutex_;
  Random random_{1};
  std::size_t refused_ = 0;
};

void expect_the_same(const Theme& theme, std::size_t count) {
  if (devices(tested_backend()).empty()) {
    GTEST_SKIP() << "no device of backend '" << tested_backend() << "': " << why_absent(tested_backend());
  }
  std::optional<std::string> complaint;
  std::size_t programs = 0;
  const auto failure = run_campaign(theme, program_count(count), [&](const Program& program) {
    std::optional<Consent> consent;  // launches that no policy is asked about take a way of their own
    if (++programs % 2 == 0) consent.emplace();
    Tool tool;
    Outcome outcome = execute(program);
    if (!complaint) complaint = tool.complaint();
    return outcome;
  });
  EXPECT_FALSE(failure.has_value()) << *failure;
  EXPECT_FALSE(complaint.has_value()) << *complaint;
}

TEST(ObservedPrograms, of_one_host_thread) { expect_the_same({.max_commands = 60, .allocations = 14}, 7000); }

TEST(ObservedPrograms, of_three_host_threads) { expect_the_same({.threads = 3}, 5000); }

TEST(ObservedPrograms, that_fail_at_random_places) { expect_the_same({.failures = true, .defaults = false}, 4000); }

/// What a policy refuses has changed nothing: who makes the call again, until it is taken, has the same.
void expect_the_same_of_refused(const Theme& theme, std::size_t count) {
  if (devices(tested_backend()).empty()) {
    GTEST_SKIP() << "no device of backend '" << tested_backend() << "': " << why_absent(tested_backend());
  }
  std::size_t refused = 0;
  const auto failure = run_campaign(theme, program_count(count), [&](const Program& program) {
    Refuser refuser;
    Outcome outcome = execute(program);
    refused += refuser.refused();
    return outcome;
  });
  EXPECT_FALSE(failure.has_value()) << *failure;
  EXPECT_GT(refused, program_count(count));
}

TEST(ObservedPrograms, that_are_refused_and_tried_again) { expect_the_same_of_refused({}, 1500); }

TEST(ObservedPrograms, of_three_host_threads_that_are_refused_and_tried_again) {
  expect_the_same_of_refused({.threads = 3}, 500);
}

TEST(ObservedPrograms, with_graphs_that_are_refused_and_tried_again) {
  expect_the_same_of_refused({.max_commands = 50, .graphs = true}, 1000);
}

TEST(ObservedPrograms, that_fail_and_are_refused_and_tried_again) {
  expect_the_same_of_refused({.failures = true, .defaults = false}, 500);
}

TEST(ObservedPrograms, with_graphs) { expect_the_same({.max_commands = 50, .graphs = true}, 4000); }

}  // namespace
}  // namespace weir::stress
