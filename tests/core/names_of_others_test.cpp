// A program's own functions of Weir's names: the overloads that say what is wrong with a call never take theirs.
#include <cstddef>

#include <gtest/gtest.h>

#include <weir/weir.hpp>

namespace {

struct Nothing {
  void operator()(std::size_t) const {}
};

enum class Called { theirs };

template <class F>
Called launch(F, weir::Stream&, std::size_t) {
  return Called::theirs;
}
template <class F>
Called launch(const F&, weir::StreamRef) {
  return Called::theirs;
}
Called launch(weir::StreamRef, std::size_t) { return Called::theirs; }
Called launch_blocks(weir::StreamRef, const weir::BlockExtent&) { return Called::theirs; }
template <class T>
Called for_each(weir::StreamRef, const weir::Array<T>&) {
  return Called::theirs;
}

TEST(NamesOfOthers, AreCalled) {
  weir::Stream s;
  const auto x = weir::zeros<int>(s, 8);
  EXPECT_EQ(launch(Nothing{}, s, 8), Called::theirs);
  EXPECT_EQ(launch(Nothing{}, s), Called::theirs);
  EXPECT_EQ(launch(s, 8), Called::theirs);
  EXPECT_EQ(launch_blocks(s, {.blocks = 8, .threads = 8}), Called::theirs);
  EXPECT_EQ(for_each(s, x), Called::theirs);
}

}  // namespace
