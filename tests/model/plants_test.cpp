// Defects planted in the strand's protocol, each of which the explorer must find: who finds nothing there is blind.
#include <gtest/gtest.h>

#include <cstring>
#include <exception>

#include "scenarios.hpp"

namespace {

using model::PlainStrand;

template <class Strand>
std::string first_failure(const char* scenario_name) {
  for (const auto& scenario : model::strand_scenarios<Strand>()) {
    if (std::strcmp(scenario.name, scenario_name) == 0) return model::explore(scenario).what;
  }
  ADD_FAILURE() << "there is no scenario " << scenario_name;
  return "";
}

#define EXPECT_FOUND(text, sentence) EXPECT_NE((text).find(sentence), std::string::npos) << (text)

/// As it was: the producers' lock was given back by a destructor, the queue listed by a line behind it.
struct ForgetsToListAfterAnException : PlainStrand {
  bool unlock() {
    if (std::uncaught_exceptions() == 0) return PlainStrand::unlock();
    unlock_unchanged();
    return false;
  }
};
TEST(PlantsTest, published_work_that_an_exception_leaves_unscheduled_is_found) {
  const auto what = first_failure<ForgetsToListAfterAnException>("an_implied_wait_is_run_though_its_command_throws");
  EXPECT_FOUND(what, "all is done at the end");
}

struct LooksForWaitersBeforeItCompletes : PlainStrand {
  Waiter* complete_next() {
    done_ = done_ + 1;
    const bool waited_for = waiters_.load(std::memory_order_seq_cst) != 0;
    completed_.exchange(done_, std::memory_order_seq_cst);
    return waited_for ? take_reached() : nullptr;
  }
};
TEST(PlantsTest, a_look_for_waiters_before_completing_is_found) {
  EXPECT_FOUND(first_failure<LooksForWaitersBeforeItCompletes>("a_queue_waits_for_another"), "nobody waits at the end");
  EXPECT_FOUND(first_failure<LooksForWaitersBeforeItCompletes>("a_host_waits_for_another_ones_command"),
               "nobody will ever write what these wait for: host");
}

struct GivesUpWithoutLookingForWork : PlainStrand {
  Left release() {
    state_.fetch_and(~std::uint32_t{running}, std::memory_order_seq_cst);
    return Left::nothing;
  }
};
TEST(PlantsTest, giving_up_without_looking_for_work_again_is_found) {
  EXPECT_FOUND(first_failure<GivesUpWithoutLookingForWork>("commands_are_run"), "all is done at the end");
}

struct LooksForWorkBeforeItGivesUp : PlainStrand {
  Left release() {
    const bool work = tail_.load(std::memory_order_seq_cst) >> 1 != done_;
    const std::uint32_t before = state_.fetch_and(~std::uint32_t{running}, std::memory_order_seq_cst);
    return work && (before & listed) == 0 && list() ? Left::ready : Left::nothing;
  }
};
TEST(PlantsTest, looking_for_work_before_giving_up_is_found) {
  EXPECT_FOUND(first_failure<LooksForWorkBeforeItGivesUp>("commands_are_run"), "all is done at the end");
}

/// The unlocking store of that producer is not ordered before its look at the state.
struct GivesUpBesideAProducerAtWork : PlainStrand {
  Left release() {
    const std::uint32_t before = state_.fetch_and(~std::uint32_t{running}, std::memory_order_seq_cst);
    const bool work = tail_.load(std::memory_order_seq_cst) >> 1 != done_;
    return work && (before & listed) == 0 && list() ? Left::ready : Left::nothing;
  }
};
TEST(PlantsTest, giving_up_beside_a_producer_at_work_is_found) {
  EXPECT_FOUND(first_failure<GivesUpBesideAProducerAtWork>("commands_are_run"), "all is done at the end");
}

struct ParksWithoutLookingAgain : PlainStrand {
  bool park_on(PlainStrand& other, Number number) {
    auto& source = static_cast<ParksWithoutLookingAgain&>(other);
    if (source.reached(number)) return false;
    parked_until_.store(number, std::memory_order_release);
    parked_on_.store(&source, std::memory_order_release);
    park_waiter_.number = number;
    park_waiter_.strand = this;
    source.lock_waiters();
    park_waiter_.next = source.first_waiter_;
    source.first_waiter_ = &park_waiter_;
    source.unlock_waiters();
    return true;
  }
};
TEST(PlantsTest, parking_without_a_second_look_is_found) {
  EXPECT_FOUND(first_failure<ParksWithoutLookingAgain>("a_queue_waits_for_another"), "at the end");
}

struct StaysListedWhereAHostHasIt : PlainStrand {
  bool take_popped() {
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    for (;;) {
      if ((state & running) != 0) return false;
      if (state_.compare_exchange_weak(state, (state & ~listed) | running, std::memory_order_seq_cst)) return true;
    }
  }
};
TEST(PlantsTest, a_popped_queue_that_stays_listed_is_found) {
  EXPECT_FOUND(first_failure<StaysListedWhereAHostHasIt>("a_producer_waits_for_its_command"), "nobody has the queue");
}

struct TakesWhatAnotherRuns : PlainStrand {
  bool take_popped() {
    state_.fetch_or(running, std::memory_order_seq_cst);
    state_.fetch_and(~std::uint32_t{listed}, std::memory_order_seq_cst);
    return true;
  }
};
TEST(PlantsTest, two_consumers_at_once_are_found) {
  EXPECT_FOUND(first_failure<TakesWhatAnotherRuns>("a_producer_waits_for_its_command"), "data race");
}

struct RetiresWithoutLooking : PlainStrand {
  Left retire() {
    if (!try_acquire()) return Left::nothing;
    retired_.store(tail() + 1, std::memory_order_seq_cst);
    return release();
  }
};
TEST(PlantsTest, a_queue_that_is_never_used_again_is_found) {
  EXPECT_FOUND(first_failure<RetiresWithoutLooking>("a_queue_retires_while_it_runs"), "a retired queue is used again");
}

/// As it was: who gave the queue up long ago ends whatever retirement there is now.
struct EndsALaterRetirement : PlainStrand {
  Left release() {
    const Number mine = done_;
    const std::uint32_t before = state_.fetch_and(~std::uint32_t{running}, std::memory_order_seq_cst);
    if (tail_.load(std::memory_order_seq_cst) >> 1 != mine)
      return (before & listed) == 0 && list() ? Left::ready : Left::nothing;
    if (retired_.load(std::memory_order_seq_cst) == 0 || !reached(tail())) return Left::nothing;
    return retired_.exchange(0, std::memory_order_seq_cst) != 0 ? Left::retired : Left::nothing;
  }
};
TEST(PlantsTest, a_queue_that_is_used_again_while_it_has_work_is_found) {
  EXPECT_FOUND(first_failure<EndsALaterRetirement>("a_queue_is_used_again"), "a queue that is over has nothing left");
}

// ---- weaker orders -----------------------------------------------------------------------------------------------------

struct Weaker {
  const char* function;  ///< of the strand
  const char* operation;
  std::memory_order order;
  const char* scenario;
  const char* sentence;

  friend void PrintTo(const Weaker& plant, std::ostream* out) { *out << plant.function << " " << plant.operation; }
};

class WeakerOrderTest : public testing::TestWithParam<Weaker> {};

TEST_P(WeakerOrderTest, is_found) {
  const Weaker& plant = GetParam();
  bool met = false;
  model::Limits limits;
  limits.weaken = [&](const model::Operation& operation) {
    const bool meant = std::strstr(operation.where.file, "strand.hpp") != nullptr &&
                       std::strcmp(operation.where.function, plant.function) == 0 &&
                       std::strcmp(operation.name, plant.operation) == 0;
    met = met || meant;
    return meant ? plant.order : operation.order;
  };
  for (const auto& scenario : model::strand_scenarios()) {
    if (std::strcmp(scenario.name, plant.scenario) != 0) continue;
    const std::string what = model::explore(scenario, limits).what;
    EXPECT_TRUE(met) << "the strand has no such operation";
    EXPECT_FOUND(what, plant.sentence);
    return;
  }
  ADD_FAILURE() << "there is no scenario " << plant.scenario;
}

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto acq_rel = std::memory_order_acq_rel;
constexpr const char* undone = "all is done at the end";
constexpr const char* left_waiting = "nobody waits at the end";
constexpr const char* race = "data race";
constexpr const char* first = "one comes first";
constexpr const char* not_reused = "a retired queue is used again";

INSTANTIATE_TEST_SUITE_P(
    HandOvers, WeakerOrderTest,
    testing::Values(Weaker{"give_back_after_long", "fetch_and", acq_rel, "a_producer_has_the_lock_for_long",
                           undone},                                                                           // A1
                    Weaker{"try_lock", "fetch_or", acq_rel, "commands_are_run", undone},                      // A1
                    Weaker{"try_lock", "fetch_or", acq_rel, "a_queue_waits_while_it_runs", undone},           // A1
                    Weaker{"idle", "load", acquire, "commands_are_run", undone},                              // A2
                    Weaker{"release", "fetch_and", acq_rel, "commands_are_run", undone},                      // A3
                    Weaker{"release", "load", acquire, "commands_are_run", undone},                           // A4
                    Weaker{"complete_next", "exchange", acq_rel, "a_queue_waits_for_another", left_waiting},  // B1
                    Weaker{"complete_next", "load", acquire, "a_queue_waits_for_another", left_waiting},      // B2
                    Weaker{"lock_waiters", "fetch_or", acq_rel, "a_queue_waits_for_another", left_waiting},   // B3
                    Weaker{"join", "load", acquire, "a_queue_waits_for_another", left_waiting},               // B4
                    Weaker{"retire", "store", release, "a_queue_retires_while_it_runs", not_reused},          // C1
                    Weaker{"try_acquire", "load", acquire, "a_queue_retires_while_it_runs", not_reused},      // C2
                    Weaker{"end_retirement", "load", acquire, "a_queue_retires_while_it_runs", not_reused},   // C4
                    Weaker{"try_lock", "fetch_or", acquire, "two_queues_follow_each_other", first},           // D1
                    Weaker{"tail_awaiting", "load", acquire, "two_queues_follow_each_other", first},          // D2
                    Weaker{"tail_giving_way", "load", acquire, "two_queues_follow_each_other", first}));      // D2

INSTANTIATE_TEST_SUITE_P(
    Visibility, WeakerOrderTest,
    testing::Values(Weaker{"try_lock", "fetch_or", relaxed, "two_producers_append", race},
                    Weaker{"publish", "store", relaxed, "commands_are_run", race},
                    Weaker{"tail", "load", relaxed, "commands_are_run", race},
                    Weaker{"completed", "load", relaxed, "a_queue_waits_and_goes_on", race},
                    Weaker{"publish_and_unlock", "store", relaxed, "two_fast_producers_append", race},
                    Weaker{"give_lock_back", "store", relaxed, "a_producer_finds_no_room", race},
                    Weaker{"take_popped", "compare_exchange", release, "a_producer_waits_for_its_command", race},
                    Weaker{"try_acquire", "compare_exchange", release, "a_host_waits_for_another_ones_command", race},
                    Weaker{"unlock_waiters", "store", relaxed, "two_queues_wait_for_one", race},
                    Weaker{"unpark", "compare_exchange", acquire, "a_host_helps_what_its_queue_waits_for", race}));

}  // namespace
