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

}  // namespace
