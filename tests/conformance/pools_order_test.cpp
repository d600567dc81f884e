// Stream-ordered allocation: whose the memory is, and when it may be anybody's again (R64, R65, R94 to R98).
#include <algorithm>
#include <cstring>
#include <random>

#include "arrays_support.hpp"

using namespace weir_test;

class PoolOrder : public AnyDevice {
 protected:
  static constexpr std::size_t n = 1 << 16;
  static constexpr std::size_t bytes = n * sizeof(int);

  /// `count` writes `first`, `first + 1`, ... into raw memory.
  static void write(weir::StreamRef stream, void* memory, int first) {
    weir::launch(stream, n, Count{}, weir::out(view(memory)), first);
  }
  static weir::View<int> view(void* memory) { return weir::View<int>(static_cast<int*>(memory), n); }
  static bool overlap(const void* a, const void* b, std::size_t size) {
    const auto x = reinterpret_cast<std::uintptr_t>(a);
    const auto y = reinterpret_cast<std::uintptr_t>(b);
    return x < y + size && y < x + size;
  }
  weir::Pool keeping_pool() const { return weir::Pool(device(), {.release_threshold = std::size_t{1} << 30}); }
};
ON_EVERY_DEVICE(PoolOrder);

// R64, R94:   stream: [hold]--(allocate)[write][memory -> result](free)
TEST_P(PoolOrder, memory_is_there_at_once_and_usable_in_stream_order) {
  weir::Stream stream(device());
  const weir::Pool pool(device());
  auto result = weir::zeros<int>(weir::pinned, n);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    void* const memory = pool.allocate(stream, bytes);
    ASSERT_NE(memory, nullptr);
    write(stream, memory, 3);
    weir::copy(stream, result, view(memory));
    pool.free(stream, memory);
  }));
  gate.open();
  stream.synchronize();
  EXPECT_EQ(host_values(result), counted(n, 3));
}

// R95:   s: (allocate)[write](e)
//        t:                  (wait e)[memory -> result](free)
TEST_P(PoolOrder, memory_may_be_used_and_freed_in_another_stream_that_waited) {
  weir::Stream s = free_stream(device(), "s");
  weir::Stream t = free_stream(device(), "t");
  const weir::Pool pool(device());
  auto result = weir::zeros<int>(weir::pinned, n);
  Gate gate;
  gate.hold(s);
  void* const memory = pool.allocate(s, bytes);
  write(s, memory, 6);
  t.wait(s.record());
  weir::copy(t, result, view(memory));
  EXPECT_TRUE(returns_while_held(gate, [&] { pool.free(t, memory); }));
  gate.open();
  t.synchronize();
  EXPECT_EQ(host_values(result), counted(n, 6));
  EXPECT_EQ(pool.statistics().used, 0u);
}

// R96:   stream: [hold]--(allocate p)[write](free p)(allocate p again)...
TEST_P(PoolOrder, the_same_stream_gets_its_own_memory_back_at_once) {
  weir::Stream stream(device());
  const weir::Pool pool = keeping_pool();
  Gate gate;
  gate.hold(stream);
  void* const first = pool.allocate(stream, bytes);
  write(stream, first, 1);
  pool.free(stream, first);
  void* const second = pool.allocate(stream, bytes);
  EXPECT_EQ(second, first);
  pool.free(stream, second);
  void* const half = pool.allocate(stream, bytes / 2);
  EXPECT_EQ(half, first);
  pool.free(stream, half);
}

// R97:   a: [hold]--(allocate p)[p = 1, ..][p -> result](free p)
//        b:         (allocate q)[q = 5, ..]                       q is not p: nothing orders b after the free
TEST_P(PoolOrder, a_stream_without_order_never_gets_memory_whose_free_is_pending) {
  weir::Stream a = free_stream(device(), "a");
  weir::Stream b = free_stream(device(), "b");
  const weir::Pool pool = keeping_pool();
  auto result = weir::zeros<int>(weir::pinned, n);
  auto other = weir::zeros<int>(weir::pinned, n);
  Gate gate;
  gate.hold(a);
  void* const p = pool.allocate(a, bytes);
  write(a, p, 1);
  weir::copy(a, result, view(p));
  pool.free(a, p);
  void* q = nullptr;
  EXPECT_TRUE(returns_while_held(gate, [&] { q = pool.allocate(b, bytes); }));
  write(b, q, 5);
  EXPECT_TRUE(returns_while_held(gate, [&] { b.synchronize(); }));
  EXPECT_FALSE(overlap(p, q, bytes));
  gate.open();
  a.synchronize();
  weir::copy(b, other, view(q));
  pool.free(b, q);
  b.synchronize();
  EXPECT_EQ(host_values(result), counted(n, 1));
  EXPECT_EQ(host_values(other), counted(n, 5));
}

// R98 (an H200 gives b the memory of p; another piece is as good):
//        a: [hold]--(allocate p)[p = 1, ..][p -> result](free p)(e)
//        b:                                             (wait e)(allocate q)[q = 5, ..]
TEST_P(PoolOrder, a_stream_that_waited_for_the_free_writes_behind_it) {
  weir::Stream a = free_stream(device(), "a");
  weir::Stream b = free_stream(device(), "b");
  const weir::Pool pool = keeping_pool();
  auto result = weir::zeros<int>(weir::pinned, n);
  Gate gate;
  gate.hold(a);
  void* const p = pool.allocate(a, bytes);
  write(a, p, 1);
  weir::copy(a, result, view(p));
  pool.free(a, p);
  b.wait(a.record());
  void* const q = pool.allocate(b, bytes);
  write(b, q, 5);
  EXPECT_TRUE(stays(device(), [&] { return !b.done(); }));
  gate.open();
  auto other = weir::zeros<int>(weir::pinned, n);
  weir::copy(b, other, view(q));
  pool.free(b, q);
  b.synchronize();
  EXPECT_EQ(host_values(result), counted(n, 1));
  EXPECT_EQ(host_values(other), counted(n, 5));
}

// a: (allocate p)[p = 1, ..](e)(free p)      the record is before the free: waiting for it allows nothing
// b:            (wait e)(allocate q)
TEST_P(PoolOrder, a_wait_for_work_before_the_free_does_not_order_the_free) {
  weir::Stream a = free_stream(device(), "a");
  weir::Stream b = free_stream(device(), "b");
  const weir::Pool pool = keeping_pool();
  auto result = weir::zeros<int>(weir::pinned, n);
  Gate gate;
  void* const p = pool.allocate(a, bytes);
  write(a, p, 1);
  const weir::Event before = a.record();
  gate.hold(a);
  weir::copy(a, result, view(p));
  pool.free(a, p);
  b.wait(before);
  void* const q = pool.allocate(b, bytes);
  write(b, q, 5);
  b.synchronize();
  EXPECT_FALSE(overlap(p, q, bytes));
  gate.open();
  a.synchronize();
  EXPECT_EQ(host_values(result), counted(n, 1));
  pool.free(b, q);
}

// a: (allocate p)(free p)   finished: the host has waited
// b:                        (allocate q)
TEST_P(PoolOrder, finished_frees_are_for_everybody) {
  weir::Stream a = free_stream(device(), "a");
  weir::Stream b = free_stream(device(), "b");
  const weir::Pool pool = keeping_pool();
  void* const p = pool.allocate(a, bytes);
  pool.free(a, p);
  a.synchronize();
  void* const q = pool.allocate(b, bytes);
  EXPECT_EQ(q, p);
  pool.free(b, q);
}

TEST_P(PoolOrder, live_memory_never_overlaps) {
  weir::Stream stream(device());
  const weir::Pool pool(device());
  struct Piece {
    std::uintptr_t begin, end;
  };
  std::vector<Piece> pieces;
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {
    const std::size_t size = 1 + random() % (i % 10 == 0 ? 300000 : 3000);
    const auto begin = reinterpret_cast<std::uintptr_t>(pool.allocate(stream, size));
    EXPECT_EQ(begin % 256, 0u);
    pieces.push_back({begin, begin + size});
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < pieces.size(); ++i) ASSERT_LE(pieces[i - 1].end, pieces[i].begin);
  for (const Piece& piece : pieces) pool.free(stream, reinterpret_cast<void*>(piece.begin));
  EXPECT_EQ(pool.statistics().used, 0u);
}

namespace {

struct FillPiece {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> piece, int value) const { piece[i] = value; }
};
struct CheckPiece {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const int> piece, int value, int* wrong) const {
    if (piece[i] != value) add_to_word(wrong, 1);
  }
};

}  // namespace

// Several streams take, write, check and give back pieces of one pool, with random waits between them.
TEST_P(PoolOrder, random_traffic_of_several_streams_keeps_every_piece_intact) {
  const weir::Pool pool = keeping_pool();
  std::vector<weir::Stream> streams;
  for (int k = 0; k < 5; ++k) streams.push_back(free_stream(device(), "traffic"));
  Marker wrong;
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 1; round <= 2000; ++round) {
    const weir::StreamRef owner = streams[random() % streams.size()];
    const std::size_t size = 1 + random() % 4000;
    auto* const data = static_cast<int*>(pool.allocate(owner, size * sizeof(int)));
    const weir::View<int> piece(data, size);
    weir::launch(owner, size, FillPiece{}, weir::out(piece), round);
    weir::StreamRef user = owner;
    if (random() % 3 == 0) {
      user = streams[random() % streams.size()];
      user.wait(owner);
    }
    weir::launch(user, size, CheckPiece{}, weir::in(piece), round, wrong.word());
    pool.free(user, data);
  }
  for (const weir::Stream& stream : streams) stream.synchronize();
  EXPECT_EQ(wrong.value(), 0);
  EXPECT_EQ(pool.statistics().used, 0u);
}

// R65:   held:  [hold]
//        other:       (free of finished memory, allocate, trim)     none of it waits for the held stream
TEST_P(PoolOrder, nothing_here_waits_for_other_streams) {
  weir::Stream held(device());
  weir::Stream other(device());
  weir::Pool pool(device());
  void* const early = pool.allocate(other, bytes);
  Gate gate;
  gate.hold(held);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    void* const late = pool.allocate(other, 64 * bytes);
    pool.free(other, early);
    pool.free(other, late);
    pool.trim();
    (void)pool.statistics();
    pool.set_release_threshold(1 << 20);
    const weir::Pool another(device());
    another.free(held, another.allocate(held, bytes));
  }));
}
