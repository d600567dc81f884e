// The hazard checker for test programs of GoogleTest's: one line in main().
#pragma once

#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include <weir/check.hpp>

namespace weir {

namespace detail {
class CheckerOfTests final : public testing::EmptyTestEventListener {
 public:
  explicit CheckerOfTests(CheckOptions options) : options_(std::move(options)) { options_.mode = CheckMode::collect; }
  void OnTestStart(const testing::TestInfo&) override { checker_ = std::make_unique<Checker>(options_); }
  void OnTestEnd(const testing::TestInfo&) override {
    const std::unique_ptr<Checker> checker = std::move(checker_);
    checker->finish();
    for (const Finding& finding : checker->findings()) {
      if (finding.severity == Severity::error) ADD_FAILURE() << to_text(finding);
    }
  }

 private:
  CheckOptions options_;
  std::unique_ptr<Checker> checker_;
};
}  // namespace detail

/// Each test has a Checker of its own, and fails if that finds something at error level. To be called between InitGoogleTest()
/// and RUN_ALL_TESTS(); the options' mode is always collect. Work that a test leaves behind counts as done for the next one.
inline void check_every_test(const CheckOptions& options = {}) {
  testing::UnitTest::GetInstance()->listeners().Append(new detail::CheckerOfTests(options));
}

}  // namespace weir
