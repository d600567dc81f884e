// The strand's protocol in every execution of small scenarios: nothing is lost, done twice, or seen too early.
#include <gtest/gtest.h>

#include "scenarios.hpp"

namespace {

class StrandTest : public testing::TestWithParam<model::StrandScenario<model::PlainStrand>> {};

TEST_P(StrandTest, is_right_in_every_execution) {
  const model::Result result = model::explore(GetParam());
  EXPECT_TRUE(result.complete) << result.what;
  EXPECT_GT(result.executions, 1u);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, StrandTest, testing::ValuesIn(model::strand_scenarios()),
                         [](const auto& scenario) { return std::string(scenario.param.name); });

/// A worker must not be a producer's for as long as that is at work.
TEST(StrandTest, a_queue_that_is_given_up_beside_a_producer_at_work_is_listed_again_in_every_execution) {
  using All = model::Queues<model::PlainStrand>;
  struct Impatience {
    Impatience() { model::Parts::awaits_producers = false; }
    ~Impatience() { model::Parts::awaits_producers = true; }
  } const impatience;
  const model::StrandScenario<model::PlainStrand> scenario{"two_turns",
                                                           {{"producer", [](All& q) { q.a.append_fast(); }},
                                                            {"producer", [](All& q) { q.a.append(); }},
                                                            {"worker of two turns",
                                                             [](All& q) {
                                                               for (int turn = 0; turn < 2; ++turn) {
                                                                 q.ready.pop();
                                                                 q.a.run_popped();
                                                               }
                                                             }}},
                                                           [](All& q) { q.a.check_done_or_listed(2); }};
  const model::Result result = model::explore(scenario);
  EXPECT_TRUE(result.complete) << result.what;
  EXPECT_GT(result.executions, 1u);
}

}  // namespace
