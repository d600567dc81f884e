// Who will look at the ready lists, in every execution of small scenarios: no push is left to nobody. And defects planted in
// that protocol, each of which the explorer must find.
#include <gtest/gtest.h>

#include <cstring>

#include "pool.hpp"

namespace {

using model::LookingVigil;

class VigilTest : public testing::TestWithParam<model::PoolScenario<LookingVigil>> {};

TEST_P(VigilTest, leaves_no_push_to_nobody_in_any_execution) {
  const model::Result result = model::explore(GetParam());
  EXPECT_TRUE(result.complete) << result.what;
  EXPECT_GT(result.executions, 1u);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, VigilTest, testing::ValuesIn(model::pool_scenarios()),
                         [](const auto& scenario) { return std::string(scenario.param.name); });

// ---- plants --------------------------------------------------------------------------------------------------------------

template <class Vigil>
std::string first_failure(const char* scenario_name, const model::Limits& limits = {}) {
  for (const auto& scenario : model::pool_scenarios<Vigil>()) {
    if (std::strcmp(scenario.name, scenario_name) == 0) return model::explore(scenario, limits).what;
  }
  ADD_FAILURE() << "there is no scenario " << scenario_name;
  return "";
}

constexpr const char* left_to_nobody = "every queue that was pushed runs";
#define EXPECT_LEFT_TO_NOBODY(text) EXPECT_NE((text).find(left_to_nobody), std::string::npos) << (text)

/// As it was: a push that a spinner was relied on for lay there while that helped in a loop.
struct JoinsAtOnce : model::PlainVigil {
  static constexpr bool looks_before_joining = false;
};
TEST(VigilPlantsTest, a_spinner_that_joins_a_loop_without_a_look_is_found) {
  EXPECT_LEFT_TO_NOBODY(first_failure<JoinsAtOnce>("a_spinner_joins_a_loop"));
}

/// A waker that finds nobody asleep leaves the others to believe that somebody comes.
struct NeverEndsAWaking : LookingVigil {
  void end_waking() {}
};
TEST(VigilPlantsTest, a_waking_that_never_ends_is_found) {
  EXPECT_LEFT_TO_NOBODY(first_failure<NeverEndsAWaking>("a_worker_is_woken_twice"));
}

/// Who was woken says so before it can look, and a spinner stops without a word.
struct SpinsUncounted : LookingVigil {
  void end_spinning() {}
};
TEST(VigilPlantsTest, a_spinner_that_does_not_say_that_it_stops_is_found) {
  EXPECT_LEFT_TO_NOBODY(first_failure<SpinsUncounted>("a_worker_spins_and_goes_to_sleep"));
}

struct ArmsNoMoreAfterTheFirst : LookingVigil {
  void disarm() {}
};
TEST(VigilPlantsTest, a_monitor_that_sleeps_armed_is_found) {
  EXPECT_LEFT_TO_NOBODY(first_failure<ArmsNoMoreAfterTheFirst>("the_monitor_disarms"));
}

struct Weaker {
  const char* function;  ///< of the vigil or of the sleepers
  const char* operation;
  std::memory_order order;
  const char* scenario;

  friend void PrintTo(const Weaker& plant, std::ostream* out) { *out << plant.function << " " << plant.operation; }
};

class WeakerVigilTest : public testing::TestWithParam<Weaker> {};

TEST_P(WeakerVigilTest, is_found) {
  const Weaker& plant = GetParam();
  bool met = false;
  model::Limits limits;
  limits.weaken = [&](const model::Operation& operation) {
    const bool meant = (std::strstr(operation.where.file, "vigil.hpp") != nullptr ||
                        std::strstr(operation.where.file, "sleepers.hpp") != nullptr) &&
                       std::strcmp(operation.where.function, plant.function) == 0 &&
                       std::strcmp(operation.name, plant.operation) == 0;
    met = met || meant;
    return meant ? plant.order : operation.order;
  };
  EXPECT_LEFT_TO_NOBODY(first_failure<LookingVigil>(plant.scenario, limits));
  EXPECT_TRUE(met) << "there is no such operation";
}

constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto acq_rel = std::memory_order_acq_rel;

INSTANTIATE_TEST_SUITE_P(
    HandOvers, WeakerVigilTest,
    testing::Values(Weaker{"somebody_comes", "load", acquire, "a_worker_spins_and_is_held"},     // A2, B2
                    Weaker{"end_spinning", "fetch_sub", acq_rel, "a_worker_spins_and_is_held"},  // A3
                    Weaker{"end_waking", "store", release, "a_worker_is_woken_and_held"},        // B3
                    Weaker{"arm", "load", acquire, "the_monitor_disarms"},                       // C2
                    Weaker{"disarm", "store", release, "the_monitor_disarms"}));                 // C3

}  // namespace
