// Large arrays of ranks whose GPUs the host does not reach: they go through little pinned memory, or through none. Started with
// WEIR_STAGED_PIECE=5000 or WEIR_MPI_CUDA=1, by CMakeLists.txt.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <weir/observer.hpp>

#include "backends/fake_cuda/fake_cuda.hpp"
#include "ranks/world.hpp"

namespace {

using ranks_test::shared;

constexpr std::size_t piece = 5000;

/// Bytes of pinned memory that are asked for while this lives.
class PinnedBytes final : public weir::Observer {
 public:
  PinnedBytes() { weir::attach(*this, weir::Watch::memory); }
  ~PinnedBytes() override { weir::detach(*this); }
  void submitted(const weir::Command& command) override {
    const auto* const alloc = std::get_if<weir::Alloc>(&command.op);
    if (alloc != nullptr && alloc->pinned) bytes_ += alloc->bytes;
  }
  std::size_t get() const { return bytes_; }

 private:
  std::atomic<std::size_t> bytes_{0};
};

class OnRanksPieces : public ::testing::Test {
 protected:
  static bool is(const char* variable, std::string_view value) {
    const char* const set = std::getenv(variable);
    return set != nullptr && set == value;
  }
  void SetUp() override {
    if (!ranks_test::is_rank()) GTEST_SKIP() << "needs several processes: weir ranks, or mpirun";
    in_pieces_ = is("WEIR_STAGED_PIECE", std::to_string(piece));
    direct_ = is("WEIR_MPI_CUDA", "1");
    rank_ = shared().rank();
    size_ = shared().size();
    on_gpu_ = ranks_test::device().backend() == "cuda";
  }
  weir::Array<int> numbers(std::size_t count, int first) const {
    std::vector<int> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<int>(i % 1000);
    weir::Array<int> made = weir::empty<int>(s_, count);
    weir::copy(s_, made, values);
    s_.synchronize();
    return made;
  }
  void expect_numbers(const weir::Array<int>& got, int factor, int first) const {
    s_.synchronize();
    const std::vector<int> host = got.to_host();
    for (std::size_t i = 0; i < host.size(); ++i) {
      ASSERT_EQ(host[i], factor * static_cast<int>(i % 1000) + first) << i << " of " << host.size();
    }
  }
  /// Sum of the ranks' first numbers, which are 10 for each rank.
  int sum_of_ranks() const { return 10 * size_ * (size_ - 1) / 2; }

  weir::Stream s_{ranks_test::device()};
  bool in_pieces_ = false, direct_ = false, on_gpu_ = false;
  int rank_ = 0, size_ = 1;
};

constexpr std::size_t large = 250'003;  // a megabyte

}  // namespace

TEST_F(OnRanksPieces, what_folds_takes_four_pieces_of_pinned_memory_however_large_it_is) {
  if (!in_pieces_) GTEST_SKIP() << "needs WEIR_STAGED_PIECE=5000";
  const weir::Communicator own = shared().split(0, rank_);
  const auto x = numbers(large, 10 * rank_);
  const PinnedBytes pinned;
  weir::all_reduce(s_, own, weir::inout(x));
  weir::all_reduce(s_, own, weir::inout(x), weir::Maximum{});
  s_.synchronize();
  EXPECT_LE(pinned.get(), 4 * (piece + 256));
  EXPECT_GE(pinned.get(), on_gpu_ ? piece : 0);
  expect_numbers(x, size_, sum_of_ranks());
}

TEST_F(OnRanksPieces, what_is_moved_takes_as_little_and_none_where_messages_may_be_of_the_gpus_memory) {
  if (!in_pieces_ && !direct_) GTEST_SKIP() << "needs WEIR_STAGED_PIECE=5000 or WEIR_MPI_CUDA=1";
  const weir::Communicator own = shared().split(0, rank_);
  const auto x = numbers(large, 10 * rank_);
  const auto all = weir::empty<int>(s_, large * static_cast<std::size_t>(size_));
  s_.synchronize();
  const PinnedBytes pinned;
  weir::broadcast(s_, own, weir::inout(x), 1);
  weir::all_gather(s_, own, weir::in(x), weir::out(all));
  s_.synchronize();
  if (direct_) {
    EXPECT_EQ(pinned.get(), 0u);
  } else {
    EXPECT_LE(pinned.get(), 4 * (piece + 256));
  }
  expect_numbers(x, 1, 10);
  for (int r = 0; r < size_; ++r) {
    const auto at = static_cast<std::size_t>(r) * large;
    const auto part = weir::empty<int>(s_, large);
    weir::copy(s_, part, all.slice(at, at + large));
    expect_numbers(part, 1, 10);
  }
}

TEST_F(OnRanksPieces, exchanges_of_a_group_do_not_wait_for_each_others_pieces) {
  const auto x = numbers(large, 10 * rank_);
  const auto y = numbers(large, 0), z = numbers(large, 0);
  const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
  {
    weir::CollectiveGroup group;
    weir::send(s_, shared(), weir::in(x), next);
    weir::send(s_, shared(), weir::in(x), before);
    weir::receive(s_, shared(), weir::out(y), before);
    weir::receive(s_, shared(), weir::out(z), next);
  }
  expect_numbers(y, 1, 10 * before);
  expect_numbers(z, 1, 10 * next);
}

TEST_F(OnRanksPieces, slices_with_strides_are_cut_as_dense_ones_are) {
  constexpr std::size_t rows = 5003;
  const auto table = weir::empty<int>(s_, {rows, 4});
  std::vector<int> values(rows * 4);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i) + 10 * rank_;
  weir::copy(s_, table, values);
  const auto others = weir::empty<int>(s_, {static_cast<std::size_t>(size_), rows});
  weir::all_gather(s_, shared(), weir::in(table.transposed().slice(3, 4)), weir::out(others));
  weir::all_reduce(s_, shared(), weir::inout(table.transposed().slice(1, 2)));
  weir::broadcast(s_, shared(), weir::inout(table.transposed().slice(2, 3)), 0);
  s_.synchronize();
  const std::vector<int> host = table.to_host(), all = others.to_host();
  for (std::size_t row = 0; row < rows; ++row) {
    const int first = static_cast<int>(4 * row);
    ASSERT_EQ(host[4 * row], first + 10 * rank_) << row;
    ASSERT_EQ(host[4 * row + 1], size_ * (first + 1) + sum_of_ranks()) << row;
    ASSERT_EQ(host[4 * row + 2], first + 2) << row;
    for (int r = 0; r < size_; ++r) {
      ASSERT_EQ(all[static_cast<std::size_t>(r) * rows + row], first + 3 + 10 * r) << row;
    }
  }
}

TEST_F(OnRanksPieces, ranks_of_an_all_to_all_have_pieces_of_their_own) {
  // Only the last rank sends much, and only to the first.
  std::vector<std::size_t> sent(static_cast<std::size_t>(size_), 3), received(static_cast<std::size_t>(size_), 3);
  constexpr std::size_t much = 10'007;
  if (rank_ == size_ - 1) sent.front() = much;
  if (rank_ == 0) received.back() = much;
  std::size_t all_sent = 0, all_received = 0;
  for (const std::size_t one : sent) all_sent += one;
  for (const std::size_t one : received) all_received += one;
  const auto x = numbers(all_sent, 10 * rank_);
  const auto y = weir::zeros<int>(s_, all_received);
  weir::all_to_all(s_, shared(), weir::in(x), sent, weir::out(y), received);
  s_.synchronize();
  const std::vector<int> host = y.to_host();
  std::size_t at = 0;
  for (int from = 0; from < size_; ++from) {
    const std::size_t begin = from == size_ - 1 && rank_ != 0 ? much + 3 * static_cast<std::size_t>(rank_ - 1)
                                                              : 3 * static_cast<std::size_t>(rank_);
    for (std::size_t i = 0; i < received[static_cast<std::size_t>(from)]; ++i, ++at) {
      ASSERT_EQ(host[at], 10 * from + static_cast<int>((begin + i) % 1000)) << "from rank " << from << ", " << i;
    }
  }
}

TEST_F(OnRanksPieces, a_piece_that_cannot_be_copied_fails_the_communicator_on_all_ranks) {
  if (!in_pieces_) GTEST_SKIP() << "needs WEIR_STAGED_PIECE=5000";
  const weir::Communicator own = shared().split(0, rank_);
  weir::Stream s(ranks_test::device());
  const auto x = weir::zeros<int>(s, large);
  s.synchronize();
  if (rank_ == size_ - 1 && on_gpu_) fake_cuda::fail_call("cudaMemcpyAsync", 7, 1);
  try {
    weir::all_reduce(s, own, weir::inout(x));
    s.synchronize();
    ADD_FAILURE() << "did not fail";
  } catch (const weir::Error& error) {
    EXPECT_EQ(error.errc(), weir::Errc::rank_failed) << error.what();
    EXPECT_NE(std::string(error.what()).find("an error of the fake driver"), std::string::npos) << error.what();
  }
  fake_cuda::fail_nothing();
  weir::barrier(s_, shared());
  s_.synchronize();
}
