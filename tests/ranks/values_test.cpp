// Every collective among processes, for every type and operation, against plain loops.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>

#include <gtest/gtest.h>

#include <weir/check.hpp>
#include <weir/trace.hpp>

#include "ranks/world.hpp"

namespace {

using ranks_test::is_rank;
using ranks_test::shared;

template <class T>
T value(std::size_t rank, std::size_t i) {
  return static_cast<T>((i * 7 + rank * 3) % 4);
}

template <class T>
struct Fold {
  T operator()(weir::Plus, T a, T b) const { return static_cast<T>(a + b); }
  T operator()(weir::Average, T a, T b) const { return static_cast<T>(a + b); }
  T operator()(weir::Multiplies, T a, T b) const { return static_cast<T>(a * b); }
  T operator()(weir::Minimum, T a, T b) const { return std::min(a, b); }
  T operator()(weir::Maximum, T a, T b) const { return std::max(a, b); }
};

class OnRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_rank()) GTEST_SKIP() << "needs several processes: weir ranks, or mpirun";
    rank_ = static_cast<std::size_t>(shared().rank());
    size_ = static_cast<std::size_t>(shared().size());
  }
  template <class T, class F>
  weir::Array<T> array(std::size_t count, F&& element) {
    std::vector<T> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = element(i);
    weir::Array<T> made = weir::empty<T>(s_, count);
    weir::copy(s_, made, values);
    return made;
  }
  template <class T>
  weir::Array<T> mine(std::size_t count) {
    return array<T>(count, [&](std::size_t i) { return value<T>(rank_, i); });
  }
  template <class T>
  weir::Array<T> nothing(std::size_t count) {
    return array<T>(count, [](std::size_t) { return T(99); });
  }
  template <class T, class F>
  void expect(const char* what, const weir::Array<T>& got, F&& element) {
    s_.synchronize();
    const std::vector<T> host = got.to_host();
    for (std::size_t i = 0; i < host.size(); ++i) {
      const T wanted = element(i);
      if (rounds_ && is_near(host[i], wanted)) continue;
      ASSERT_EQ(host[i], wanted) << what << " on rank " << rank_ << " of " << size_ << ", element " << i << " of "
                                 << host.size();
    }
  }
  /// NCCL multiplies by the inverse of their number.
  template <class T>
  static bool is_near(T got, T wanted) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::abs(got - wanted) <= 4 * std::numeric_limits<T>::epsilon() * std::abs(wanted);
    }
    return false;
  }
  template <class T, class Op>
  T folded(Op op, std::size_t i) const {
    T all = value<T>(0, i);
    for (std::size_t r = 1; r < size_; ++r) all = Fold<T>{}(op, all, value<T>(r, i));
    return std::is_same_v<Op, weir::Average> ? static_cast<T>(all / static_cast<T>(size_)) : all;
  }

  template <class T, class Op>
  void reductions(std::size_t n, Op op) {
    const weir::Communicator& c = shared();
    rounds_ = std::is_same_v<Op, weir::Average> && c.transport() == "NCCL";
    const int root = static_cast<int>(n % size_);
    const bool is_root = static_cast<int>(rank_) == root;
    const auto all = [&](std::size_t i) { return folded<T>(op, i); };
    const auto untouched = [](std::size_t) { return T(99); };
    const auto x = mine<T>(n);
    const auto y = nothing<T>(n);
    weir::all_reduce(s_, c, weir::in(x), weir::out(y), op);
    expect("all_reduce", y, all);
    const auto z = mine<T>(n);
    weir::all_reduce(s_, c, weir::inout(z), op);
    expect("all_reduce in place", z, all);
    const auto w = nothing<T>(n);
    weir::reduce(s_, c, weir::in(x), weir::out(w), op, root);
    if (is_root) expect("reduce", w, all);
    if (!is_root) expect("reduce elsewhere", w, untouched);
    const auto v = mine<T>(n);
    weir::reduce(s_, c, weir::inout(v), op, root);
    if (is_root) expect("reduce in place", v, all);
    const auto longer = mine<T>(n * size_);
    const auto part = nothing<T>(n);
    weir::reduce_scatter(s_, c, weir::in(longer), weir::out(part), op);
    expect("reduce_scatter", part, [&](std::size_t i) { return folded<T>(op, rank_ * n + i); });
    weir::reduce_scatter(s_, c, weir::in(longer), weir::out(longer.slice(rank_ * n, (rank_ + 1) * n)), op);
    s_.synchronize();
    const std::vector<T> in_place = longer.to_host();
    for (std::size_t i = 0; i < n; ++i) {
      const T got = in_place[rank_ * n + i], wanted = folded<T>(op, rank_ * n + i);
      if (rounds_ && is_near(got, wanted)) continue;
      ASSERT_EQ(got, wanted);
    }
    rounds_ = false;
  }

  template <class T>
  void moves(std::size_t n) {
    const weir::Communicator& c = shared();
    const int root = static_cast<int>((n + 1) % size_);
    const bool is_root = static_cast<int>(rank_) == root;
    const auto of_all = [&](std::size_t i) {
      return value<T>(i / std::max<std::size_t>(n, 1), i % std::max<std::size_t>(n, 1));
    };
    const auto x = mine<T>(n);
    const auto everything = nothing<T>(n * size_);
    weir::all_gather(s_, c, weir::in(x), weir::out(everything));
    expect("all_gather", everything, of_all);
    const auto own =
        array<T>(n * size_, [&](std::size_t i) { return n != 0 && i / n == rank_ ? value<T>(rank_, i % n) : T(99); });
    weir::all_gather(s_, c, weir::in(own.slice(rank_ * n, (rank_ + 1) * n)), weir::out(own));
    expect("all_gather in place", own, of_all);
    const auto gathered = nothing<T>(n * size_);
    weir::gather(s_, c, weir::in(x), weir::out(gathered), root);
    if (is_root) expect("gather", gathered, of_all);
    const auto b = mine<T>(n);
    weir::broadcast(s_, c, weir::inout(b), root);
    expect("broadcast", b, [&](std::size_t i) { return value<T>(static_cast<std::size_t>(root), i); });
    const auto source = mine<T>(n * size_);
    const auto part = nothing<T>(n);
    if (is_root) weir::scatter(s_, c, weir::in(source), weir::out(part), root);
    if (!is_root) weir::scatter(s_, c, weir::out(part), root);
    expect("scatter", part, [&](std::size_t i) { return value<T>(static_cast<std::size_t>(root), rank_ * n + i); });
    const auto to_all = nothing<T>(n * size_);
    weir::all_to_all(s_, c, weir::in(source), weir::out(to_all));
    expect("all_to_all", to_all, [&](std::size_t i) { return value<T>(i / n, rank_ * n + i % n); });
    weir::barrier(s_, c);
    s_.synchronize();
  }

  weir::Stream s_{ranks_test::device()};
  std::size_t rank_ = 0, size_ = 1;
  bool rounds_ = false;
};

constexpr std::size_t sizes[] = {0, 1, 2, 3, 7, 255, 256, 257, 1000, 8191, 8193, 40'000};

template <class T>
struct OfType : OnRanks {
  template <class Op>
  void every_size(Op op) {
    for (const std::size_t n : sizes) reductions<T>(n, op);
  }
};

}  // namespace

template <class T>
class OnRanksOf : public OfType<T> {};
using Types = ::testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
                               std::int64_t, std::uint64_t, float, double>;
TYPED_TEST_SUITE(OnRanksOf, Types);

TYPED_TEST(OnRanksOf, every_reduction_is_a_plain_loop_over_the_ranks) {
  this->every_size(weir::Plus{});
  this->every_size(weir::Multiplies{});
  this->every_size(weir::Minimum{});
  this->every_size(weir::Maximum{});
  this->every_size(weir::Average{});
}
TYPED_TEST(OnRanksOf, every_move_brings_each_part_to_its_place) {
  for (const std::size_t n : sizes) this->template moves<TypeParam>(n);
}

TEST_F(OnRanks, a_million_elements_and_three) {
  reductions<float>(1'000'003, weir::Plus{});
  reductions<std::uint8_t>(1'000'003, weir::Maximum{});
  moves<double>(1'000'003);
}

TEST_F(OnRanks, sums_of_floats_are_folded_in_the_order_of_ranks_on_each_of_them) {
  for (const std::size_t n : {std::size_t{5}, std::size_t{100'001}}) {
    const auto element = [](std::size_t r, std::size_t i) { return 1.0f / static_cast<float>(1 + r * 31 + i % 1013); };
    const auto x = array<float>(n, [&](std::size_t i) { return element(rank_, i); });
    weir::all_reduce(s_, shared(), weir::inout(x));
    rounds_ = n > 5 && shared().transport() == "NCCL";  // in an order of its own
    expect("bitwise", x, [&](std::size_t i) {
      float sum = element(0, i);
      for (std::size_t r = 1; r < size_; ++r) sum += element(r, i);
      return sum;
    });
  }
}

TEST_F(OnRanks, slices_with_strides_are_read_and_written) {
  for (const std::size_t rows : {std::size_t{3}, std::size_t{900}}) {
    const auto table = weir::empty<int>(s_, {rows, 5});
    std::vector<int> values(rows * 5);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i + 1000 * rank_);
    weir::copy(s_, table, values);
    const auto column = table.transposed().slice(2, 3);  // every fifth element
    weir::all_reduce(s_, shared(), weir::inout(column));
    const auto gathered = weir::empty<int>(s_, {2 * rows * size_});
    weir::all_gather(s_, shared(), weir::in(table.transposed().slice(3, 5)), weir::out(gathered));
    weir::broadcast(s_, shared(), weir::inout(table.transposed().slice(0, 1)), 0);
    s_.synchronize();
    const std::vector<int> host = table.to_host();
    for (std::size_t row = 0; row < rows; ++row) {
      const auto expected = size_ * (row * 5 + 2) + 1000 * size_ * (size_ - 1) / 2;
      ASSERT_EQ(host[row * 5 + 2], static_cast<int>(expected)) << row;
      ASSERT_EQ(host[row * 5 + 1], static_cast<int>(row * 5 + 1 + 1000 * rank_)) << row;
      ASSERT_EQ(host[row * 5], static_cast<int>(row * 5)) << row;
    }
    const std::vector<int> all = gathered.to_host();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t rank = i / (2 * rows), at = i % (2 * rows);
      ASSERT_EQ(all[i], static_cast<int>(at % rows * 5 + 3 + at / rows + 1000 * rank)) << i;
    }
  }
}

TEST_F(OnRanks, all_to_all_with_counts) {
  for (const std::size_t unit : {std::size_t{1}, std::size_t{3000}}) {
    // Rank r sends (r + 2 * to) * unit elements to rank `to`.
    const auto count = [&](std::size_t from, std::size_t to) { return (from + 2 * to) * unit; };
    std::vector<std::size_t> sent, received;
    std::size_t all_sent = 0, all_received = 0;
    for (std::size_t r = 0; r < size_; ++r) {
      all_sent += sent.emplace_back(count(rank_, r));
      all_received += received.emplace_back(count(r, rank_));
    }
    const auto x =
        array<std::int64_t>(all_sent, [&](std::size_t i) { return static_cast<std::int64_t>(rank_ * 1'000'000 + i); });
    const auto y = nothing<std::int64_t>(all_received);
    weir::all_to_all(s_, shared(), weir::in(x), sent, weir::out(y), received);
    s_.synchronize();
    const std::vector<std::int64_t> host = y.to_host();
    std::size_t at = 0;
    for (std::size_t from = 0; from < size_; ++from) {
      std::size_t first = 0;
      for (std::size_t r = 0; r < rank_; ++r) first += count(from, r);
      for (std::size_t i = 0; i < count(from, rank_); ++i, ++at) {
        ASSERT_EQ(host[at], static_cast<std::int64_t>(from * 1'000'000 + first + i));
      }
    }
  }
}

TEST_F(OnRanks, neighbours_exchange_in_a_group_and_a_rank_sends_to_itself) {
  const int self = shared().rank(), size = shared().size();
  for (const std::size_t n : {std::size_t{1}, std::size_t{100'000}}) {
    const auto x = mine<float>(n);
    const auto from_left = nothing<float>(n), from_right = nothing<float>(n), own = nothing<float>(n);
    const int left = (self + size - 1) % size, right = (self + 1) % size;
    {
      weir::CollectiveGroup group;
      weir::send(s_, shared(), weir::in(x), right);
      weir::send(s_, shared(), weir::in(x), left);
      weir::receive(s_, shared(), weir::out(from_left), left);
      weir::receive(s_, shared(), weir::out(from_right), right);
    }
    {
      weir::CollectiveGroup group;
      weir::send(s_, shared(), weir::in(x), self);
      weir::receive(s_, shared(), weir::out(own), self);
    }
    expect("from the left", from_left, [&](std::size_t i) { return value<float>(static_cast<std::size_t>(left), i); });
    expect("from the right", from_right,
           [&](std::size_t i) { return value<float>(static_cast<std::size_t>(right), i); });
    expect("own", own, [&](std::size_t i) { return value<float>(rank_, i); });
  }
}

TEST_F(OnRanks, collectives_follow_each_other_across_streams) {
  const weir::Stream other(ranks_test::device());
  const auto x = mine<double>(1000);
  const auto y = nothing<double>(1000);
  s_.synchronize();
  weir::all_reduce(s_, shared(), weir::in(x), weir::out(y));
  other.wait(s_);
  weir::all_reduce(other, shared(), weir::inout(y));
  s_.wait(other);
  expect("twice", y, [&](std::size_t i) { return static_cast<double>(size_) * folded<double>(weir::Plus{}, i); });
}

// Nothing but the order of the communicator, which a checker of each process knows. On GPUs each call's own stream copies what is
// sent and received: there a wait is needed.
TEST_F(OnRanks, calls_in_any_streams_follow_each_other_where_the_host_reaches_their_memory) {
  const bool reaches = ranks_test::device().backend() == "cpu";
  const weir::Stream other(ranks_test::device(), {.blocking = false});
  const auto x = mine<double>(1000);
  s_.synchronize();
  std::size_t errors = 0;
  {
    weir::Checker checker({.mode = weir::CheckMode::collect});
    weir::all_reduce(s_, shared(), weir::inout(x));
    if (!reaches) other.wait(s_);
    weir::all_reduce(other, shared(), weir::inout(x));
    s_.wait(other);
    checker.finish();
    errors = checker.errors();
  }
  EXPECT_EQ(errors, 0u);
  expect("twice", x, [&](std::size_t i) { return static_cast<double>(size_) * folded<double>(weir::Plus{}, i); });
}

TEST_F(OnRanks, split_gives_communicators_of_those_with_one_color) {
  const int self = shared().rank(), size = shared().size();
  const weir::Communicator half = shared().split(self % 2, -self);  // the last one first
  const int theirs = (size + 1 - self % 2) / 2;
  EXPECT_EQ(half.size(), theirs);
  EXPECT_EQ(half.rank(), theirs - 1 - self / 2);
  const auto x = array<int>(5000, [&](std::size_t) { return 1 << self; });
  weir::all_reduce(s_, half, weir::inout(x));
  weir::all_reduce(s_, shared(), weir::inout(x), weir::Maximum{});
  int sums[2] = {0, 0};
  for (int r = 0; r < size; ++r) sums[r % 2] += 1 << r;
  expect("of the halves", x, [&](std::size_t) { return std::max(sums[0], sums[1]); });
}

TEST_F(OnRanks, split_is_known_to_timelines_by_a_number_that_all_of_its_processes_have) {
  const weir::Communicator half = shared().split(shared().rank() % 2, 0);
  const auto x = mine<float>(100);
  s_.synchronize();
  weir::trace::Session session;
  weir::all_reduce(s_, half, weir::inout(x));
  weir::all_reduce(s_, shared(), weir::inout(x));
  s_.synchronize();
  const std::vector<weir::trace::CollectivePart> parts = session.stop().collectives;
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_NE(parts[0].shared, parts[1].shared);
  const weir::Communicator* const comms[] = {&half, &shared()};
  for (std::size_t i = 0; i < 2; ++i) {
    const weir::Communicator* const comm = comms[i];
    const weir::trace::CollectivePart& part = parts[i];
    const auto number = [&](std::size_t) { return static_cast<std::int64_t>(part.shared); };
    const auto least = array<std::int64_t>(1, number), most = array<std::int64_t>(1, number);
    weir::all_reduce(s_, *comm, weir::inout(least), weir::Minimum{});
    weir::all_reduce(s_, *comm, weir::inout(most), weir::Maximum{});
    expect("the least", least, number);
    expect("the most", most, number);
    EXPECT_NE(part.shared, 0u);
    EXPECT_NE(part.number, 0u);
  }
}

/// What the fake NCCL counts: kernels among processes, and communicators that were made. Nothing on a real one.
static std::optional<int> fake_count(const char* of) {
  auto* const count = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, of));
  return count == nullptr ? std::nullopt : std::optional<int>(count());
}

TEST_F(OnRanks, what_is_large_is_moved_past_the_host_where_all_ranks_can) {
  const char* const transport = std::getenv("WEIR_TEST_TRANSPORT");
  if (transport == nullptr) GTEST_SKIP() << "WEIR_TEST_TRANSPORT says what is expected of GPUs";
  EXPECT_EQ(shared().transport(), transport);
  const weir::Communicator turned = shared().split(0, -static_cast<int>(rank_));
  EXPECT_EQ(turned.transport(), transport);
  EXPECT_EQ(turned.rank(), static_cast<int>(size_ - 1 - rank_));
  for (const weir::Communicator* comm : {&std::as_const(shared()), &turned}) {
    for (const std::size_t n : {100u, 100'000u}) {
      const auto before = fake_count("fake_nccl_kernels");
      const auto launched = fake_count("fake_box_reduces");
      const auto x = mine<int>(n);
      weir::all_reduce(s_, *comm, weir::inout(x));
      expect("a sum", x, [&](std::size_t i) { return folded<int>(weir::Plus{}, i); });
      if (before) {
        EXPECT_EQ(*fake_count("fake_nccl_kernels") - *before, n > 1000 ? 1 : 0) << n;
        EXPECT_EQ(*fake_count("fake_box_reduces") - *launched, n > 1000 ? 0 : 1) << n;
      }
    }
  }
}

/// They run in the order of a rank's calls, and calls that the host moves between them, too.
TEST_F(OnRanks, small_sums_in_two_streams_follow_each_other) {
  const weir::Stream t(s_.device());
  const auto x = mine<int>(8), y = mine<int>(8), z = mine<int>(70'000);
  s_.synchronize();
  const auto sum = [&](const weir::Stream& stream, const weir::Array<int>& array) {
    weir::all_reduce(stream, shared(), weir::inout(array), weir::Maximum{});
  };
  for (int i = 0; i < 100; ++i) {
    sum(s_, x);
    sum(t, y);
    if (i % 25 == 0) sum(s_, z);
    if (i % 10 == static_cast<int>(rank_)) s_.synchronize();
  }
  t.synchronize();
  const auto most = [&](std::size_t i) { return folded<int>(weir::Maximum{}, i); };
  expect("of one stream", x, most);
  expect("of the other one", y, most);
  expect("that the host or NCCL moves", z, most);
}

TEST_F(OnRanks, communicators_of_the_same_ranks_have_what_was_made_for_one_that_is_gone) {
  if (!fake_count("fake_nccl_made")) GTEST_SKIP() << "only the fake NCCL counts";
  const auto use = [&] {
    const weir::Communicator one = ranks_test::make({.name = "one of many"});
    const auto x = mine<int>(20'000);
    weir::all_reduce(s_, one, weir::inout(x));
    expect("a sum", x, [&](std::size_t i) { return folded<int>(weir::Plus{}, i); });
    weir::barrier(s_, one);
    s_.synchronize();
  };
  use();
  weir::barrier(s_, shared());
  s_.synchronize();
  const int made = *fake_count("fake_nccl_made");
  for (int i = 0; i < 3; ++i) {
    use();
    weir::barrier(s_, shared());
    s_.synchronize();
  }
  EXPECT_LE(*fake_count("fake_nccl_made") - made, 1) << "the library's thread may have had it a moment longer";
}

TEST_F(OnRanks, two_communicators_of_all_do_not_hear_each_other) {
  const weir::Communicator second = ranks_test::make({.name = "second"});
  const weir::Stream other(ranks_test::device());
  const auto x = mine<int>(3000), y = nothing<int>(3000);
  s_.synchronize();
  weir::all_reduce(s_, shared(), weir::inout(x));
  weir::broadcast(other, second, weir::inout(y), 0);
  other.synchronize();
  expect("of the first", x, [&](std::size_t i) { return folded<int>(weir::Plus{}, i); });
}

/// Short messages go at once, long ones when the receiver is there.
TEST_F(OnRanks, what_a_rank_called_before_it_left_is_done) {
  if (size_ < 2) GTEST_SKIP() << "needs two ranks";
  for (const std::size_t count : {10u, 1'000u, 100'000u}) {
    const auto element = [](std::size_t i) { return static_cast<int>(i); };
    const auto x = array<int>(count, element), y = nothing<int>(count);
    const weir::Stream other(ranks_test::device()), third(ranks_test::device());
    s_.synchronize();
    weir::Communicator leaving = ranks_test::make({.name = "leaving"});
    if (rank_ == 1) {
      weir::send(s_, leaving, weir::in(x), 0);
      weir::receive(other, leaving, weir::out(y), 0);
      leaving = {};
    }
    weir::barrier(third, shared());
    third.synchronize();
    if (rank_ == 0) {
      weir::receive(s_, leaving, weir::out(y), 1);
      weir::send(other, leaving, weir::in(x), 1);
    }
    other.synchronize();
    if (rank_ < 2) expect("from one that left, or to it", y, element);
  }
}

TEST_F(OnRanks, nothing_goes_on_without_those_that_did_not_fail) {
  try {
    static_cast<void>(shared().without_failed());
    ADD_FAILURE() << "went on without nobody";
  } catch (const weir::Error& error) {
    EXPECT_EQ(error.code(), weir::Errc::not_ready) << error.what();
  }
  weir::barrier(s_, shared());  // nobody leaves before all have asked
  s_.synchronize();
}
