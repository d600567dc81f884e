// Checked builds (WEIR_CHECKED): indices of views in kernels, and elements of host arrays.
#include <exception>
#include <functional>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include <weir/check.hpp>
#include <weir/weir.hpp>

namespace {

using weir::Errc;

#if WEIR_CHECKS_INDICES
#define NEEDS_CHECKED_BUILD()
#else
#define NEEDS_CHECKED_BUILD() GTEST_SKIP() << "not a checked build"
#endif

struct Shift {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const int> from, weir::View<int> to) const {
    to[i] = from[i + 1];
  }
};
struct WriteBelow {
  WEIR_KERNEL void operator()(weir::Index<2> at, weir::View<int, 2> x) const { x(at[0], at[1] + 1) = 1; }
};
struct Part {
  WEIR_KERNEL void operator()(std::size_t, weir::View<int> x) const { x.slice(2, x.size() + 1)[0] = 1; }
};
struct Negative {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[static_cast<int>(i) - 1] = 1; }
};
struct Touch {
  WEIR_KERNEL void operator()(std::size_t, weir::View<int>) const {}
};

std::optional<weir::Error> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const weir::Error& error) {
    return error;
  }
  return std::nullopt;
}

/// The stream fails as by any kernel that throws; `part` is in the text, as are the kernel and the launch's line.
void expect_failure(const weir::Stream& stream, const char* kernel, unsigned line, const std::string& part) {
  const auto error = error_of([&] { stream.synchronize(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->errc(), Errc::kernel_failed);
  const std::string text = error->what();
  for (const std::string& one : {std::string(kernel), part, "checked_build_test.cpp:" + std::to_string(line)}) {
    EXPECT_NE(text.find(one), std::string::npos) << one << " is not in " << text;
  }
  ASSERT_TRUE(error->cause());
  const auto cause = error_of([&] { std::rethrow_exception(error->cause()); });
  ASSERT_TRUE(cause);
  EXPECT_EQ(cause->errc(), Errc::out_of_bounds);
}

TEST(CheckedBuild, says_which_index_of_which_argument_a_view_does_not_have) {
  NEEDS_CHECKED_BUILD();
  const weir::Stream s(weir::device("cpu"), {.blocking = false});
  const auto x = weir::zeros<int>(s, 8);
  auto y = weir::zeros<int>(s, 8);
  weir::launch(s, 7, Shift{}, weir::in(x), weir::out(y));
  s.synchronize();
  weir::launch(s, 8, Shift{}, weir::in(x), weir::out(y));
  expect_failure(s, "Shift", __LINE__ - 1, "argument 1: index 8 in dimension 0, whose size is 8");
  auto m = weir::zeros<int>(s, weir::Shape(2, 3));
  weir::launch(s, weir::Shape(2, 3), WriteBelow{}, weir::inout(m));
  expect_failure(s, "WriteBelow", __LINE__ - 1, "argument 1: index 3 in dimension 1, whose size is 3");
  weir::launch(s, 1, Negative{}, weir::inout(y));
  expect_failure(s, "Negative", __LINE__ - 1, "argument 1: index -1 in dimension 0, whose size is 8");
  weir::launch(s, 1, Part{}, weir::inout(y));
  expect_failure(s, "Part", __LINE__ - 1, "argument 1: elements 2 to 9 of dimension 0, whose size is 8");
}

TEST(CheckedBuild, checks_elements_of_host_arrays) {
  NEEDS_CHECKED_BUILD();
  const auto x = weir::zeros<int>(weir::pinned, weir::Shape(2, 3));
  EXPECT_EQ(x[5], 0);
  for (const auto& call : {std::function<void()>([&] { static_cast<void>(x[6]); }),
                           std::function<void()>([&] { static_cast<void>(x.host_view()(1, 3)); }),
                           std::function<void()>([&] { static_cast<void>(weir::host_read(x)[6]); })}) {
    const auto error = error_of(call);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->errc(), Errc::out_of_bounds);
    EXPECT_NE(std::string(error->what()).find("checked_build_test.cpp"), std::string::npos) << error->what();
  }
}

TEST(CheckedBuild, takes_an_element_of_a_host_array_for_a_read) {
  NEEDS_CHECKED_BUILD();
  const weir::Stream s(weir::device("cpu"), {.blocking = false});
  const auto p = weir::zeros<int>(weir::pinned, 8);
  const weir::Checker checker({.mode = weir::CheckMode::collect});
  weir::launch(s, 8, Touch{}, weir::inout(p));
  EXPECT_EQ(p[3], 0);
  const unsigned line = __LINE__ - 1;
  ASSERT_EQ(checker.errors(), 1u);
  const weir::Finding found = checker.findings().at(0);
  EXPECT_EQ(found.kind, weir::FindingKind::read_after_write);
  EXPECT_EQ(found.bytes, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{12, 16}}));
  EXPECT_EQ(found.second->line, line);
  EXPECT_TRUE(found.second->host);
  s.synchronize();
  EXPECT_EQ(p[3], 0);
  EXPECT_EQ(checker.errors(), 1u);
}

}  // namespace
