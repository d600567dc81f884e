// What a queue remembers of failures when its stream goes at the moment in which the host is told.
#include "backends/cpu/streams/queue_failures.hpp"

#include <gtest/gtest.h>

namespace weir::cpu {
namespace {

std::shared_ptr<const Error> some_error() {
  return std::make_shared<const Error>(Errc::kernel_failed, "weir::launch", "a stream", "kernel threw",
                                       SourceLocation{});
}

TEST(QueueFailures, WhatTheHostWasToldOfIsNotLost) {
  QueueFailures failures;
  failures.prepare();
  failures.fail(1, some_error());
  const std::uint32_t seen = failures.reports();
  ASSERT_NE(failures.report(1, 1), nullptr);  // between the last command's end and the end of the stream

  EXPECT_FALSE(failures.lose(1, 1, true));
  EXPECT_EQ(failures.oldest_lost(), QueueFailures::none);
  EXPECT_NE(failures.inherited_at(1, seen), nullptr) << "a wait from before the report";
}

TEST(QueueFailures, WhatNobodyWasToldOfIsLost) {
  QueueFailures failures;
  failures.prepare();
  failures.fail(1, some_error());

  EXPECT_TRUE(failures.lose(1, 7, true));
  EXPECT_EQ(failures.oldest_lost(), 7u);
  EXPECT_FALSE(failures.failed());
  EXPECT_NE(failures.inherited_at(1, 0), nullptr);
  std::shared_ptr<const Error> forgotten;
  EXPECT_NE(failures.report_lost(forgotten), nullptr);
  EXPECT_EQ(failures.oldest_lost(), QueueFailures::none);
}

}  // namespace
}  // namespace weir::cpu
