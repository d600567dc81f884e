// An array may be destroyed at any moment: its memory is given back after all work that was given the array (C7, R95).
#include <optional>
#include <thread>

#include "arrays_support.hpp"

using namespace weir_test;

class ArrayLifetime : public AnyDevice {
 protected:
  static constexpr std::size_t n = 1 << 16;

  /// Fresh arrays on `stream`, written over: what would fall upon memory that was given back too early.
  std::vector<weir::Array<int>> overwrite(weir::StreamRef stream) {
    std::vector<weir::Array<int>> others;
    for (int k = 0; k < 4; ++k) others.push_back(weir::full<int>(stream, n, -99));
    return others;
  }
  /// The same, and they are written before this returns: memory that was given back too early is wrong in every run.
  std::vector<weir::Array<int>> written_over(Gate& gate, weir::StreamRef stream) {
    std::vector<weir::Array<int>> others;
    EXPECT_TRUE(returns_while_held(gate, [&] {
      others = overwrite(stream);
      stream.synchronize();
    }));
    return others;
  }
  static void expect_untouched(weir::StreamRef stream, const std::vector<weir::Array<int>>& others) {
    for (const auto& other : others) EXPECT_EQ(read(stream, other), std::vector<int>(n, -99));
  }
};
ON_EVERY_DEVICE(ArrayLifetime);

// s: [hold]--[a = 0,1,..][a -> result](free a)
// t:         [others = -99]                       must not get a's memory: it is not free before the gate opens
TEST_P(ArrayLifetime, destroyed_while_its_own_stream_has_still_to_use_it) {
  weir::Stream s = free_stream(device(), "s");
  weir::Stream t = free_stream(device(), "t");
  auto result = weir::zeros<int>(weir::pinned, n);
  Gate gate;
  gate.hold(s);
  {
    std::optional<weir::Array<int>> a(weir::empty<int>(s, n));
    weir::launch(s, n, Count{}, weir::out(*a), 0);
    weir::copy(s, result, *a);
    EXPECT_TRUE(returns_while_held(gate, [&] { a.reset(); }));
  }
  const auto others = overwrite(t);
  EXPECT_TRUE(returns_while_held(gate, [&] { t.synchronize(); }));
  gate.open();
  s.synchronize();
  EXPECT_EQ(host_values(result), counted(n));
  expect_untouched(t, others);
}

// s: [a = 0,1,..](e)                  (free a)[others = -99]
// t:             (wait e)[hold]--[a -> result]
TEST_P(ArrayLifetime, destroyed_while_another_stream_has_still_to_read_it) {
  weir::Stream s = free_stream(device(), "s");
  weir::Stream t = free_stream(device(), "t");
  auto result = weir::zeros<int>(weir::pinned, n);
  Gate gate;
  std::vector<weir::Array<int>> others;
  {
    std::optional<weir::Array<int>> a(weir::empty<int>(s, n));
    weir::launch(s, n, Count{}, weir::out(*a), 0);
    t.wait(s);
    gate.hold(t);
    weir::copy(t, result, *a);
    EXPECT_TRUE(returns_while_held(gate, [&] { a.reset(); }));
    others = written_over(gate, s);
  }
  gate.open();
  t.synchronize();
  EXPECT_EQ(host_values(result), counted(n));
  expect_untouched(s, others);
}

// s: [a = 0,1,..](e)                  (free a)[others = -99]
// t:             (wait e)[hold]--[kernel a -> result]
TEST_P(ArrayLifetime, destroyed_while_a_kernel_of_another_stream_has_still_to_read_it) {
  weir::Stream s = free_stream(device(), "s");
  weir::Stream t = free_stream(device(), "t");
  auto result = weir::zeros<int>(weir::pinned, n);
  Gate gate;
  std::vector<weir::Array<int>> others;
  {
    auto a = weir::empty<int>(s, n);
    weir::launch(s, n, Count{}, weir::out(a), 0);
    t.wait(s);
    gate.hold(t);
    weir::launch(t, n, CopyElement{}, weir::in(a), weir::out(result));
  }
  others = written_over(gate, s);
  gate.open();
  t.synchronize();
  EXPECT_EQ(host_values(result), counted(n));
  expect_untouched(s, others);
}

// s: [a = 0,1,..](e)                          (free a)[others = -99]
// t:             (wait e)[hold 1]--[a -> first]
// u:             (wait e)[hold 2]--[a -> second]
TEST_P(ArrayLifetime, destroyed_while_several_streams_have_still_to_read_it) {
  weir::Stream s = free_stream(device(), "s");
  weir::Stream t = free_stream(device(), "t");
  weir::Stream u = free_stream(device(), "u");
  auto first = weir::zeros<int>(weir::pinned, n);
  auto second = weir::zeros<int>(weir::pinned, n);
  Gate gate_t, gate_u;
  std::vector<weir::Array<int>> others;
  {
    auto a = weir::empty<int>(s, n);
    weir::launch(s, n, Count{}, weir::out(a), 0);
    t.wait(s);
    u.wait(s);
    gate_t.hold(t);
    gate_u.hold(u);
    weir::copy(t, first, a);
    weir::copy(u, second, a);
  }
  others = written_over(gate_t, s);
  gate_t.open();
  t.synchronize();
  EXPECT_EQ(host_values(first), counted(n));
  EXPECT_TRUE(stays(device(), [&] { return !u.done(); }));
  gate_u.open();
  u.synchronize();
  EXPECT_EQ(host_values(second), counted(n));
  expect_untouched(s, others);
}

// s: [a = 0,1,..](free a)
// t:                      [hold]--[slice of a -> result](slice gone)
// s:                                                                [others = -99]
TEST_P(ArrayLifetime, a_slice_keeps_the_memory_alive) {
  weir::Stream s = free_stream(device(), "s");
  weir::Stream t = free_stream(device(), "t");
  auto result = weir::zeros<int>(weir::pinned, n / 2);
  Gate gate;
  std::vector<weir::Slice<int>> half;
  {
    auto a = weir::empty<int>(s, n);
    weir::launch(s, n, Count{}, weir::out(a), 0);
    half.push_back(a.slice(n / 2, n));
  }
  auto others = overwrite(s);
  t.wait(s);
  gate.hold(t);
  weir::copy(t, result, half.front());
  half.clear();
  auto more = written_over(gate, s);
  gate.open();
  t.synchronize();
  EXPECT_EQ(host_values(result), counted(n / 2, static_cast<int>(n / 2)));
  expect_untouched(s, others);
  expect_untouched(s, more);
}

TEST_P(ArrayLifetime, copies_of_a_slice_keep_the_memory_alive_one_by_one) {
  weir::Stream s(device());
  std::vector<weir::Slice<int>> kept;
  {
    const auto a = weir::from(s, counted(n));
    kept.push_back(a.slice(0, 100));
    const weir::Slice<int> moved = std::move(kept.front());
    kept.front() = moved.slice(50, 100);
  }
  const auto others = overwrite(s);
  EXPECT_EQ(kept.front().to_host(), counted(50, 50));
}

TEST_P(ArrayLifetime, assigning_over_an_array_gives_its_memory_back_in_order) {
  weir::Stream s = free_stream(device(), "s");
  weir::Stream t = free_stream(device(), "t");
  auto result = weir::zeros<int>(weir::pinned, n);
  Gate gate;
  auto a = weir::empty<int>(s, n);
  weir::launch(s, n, Count{}, weir::out(a), 0);
  t.wait(s);
  gate.hold(t);
  weir::copy(t, result, a);
  EXPECT_TRUE(returns_while_held(gate, [&] { a = weir::full<int>(s, n, -99); }));
  const auto others = written_over(gate, s);
  gate.open();
  t.synchronize();
  EXPECT_EQ(host_values(result), counted(n));
  EXPECT_EQ(read(s, a), std::vector<int>(n, -99));
  expect_untouched(s, others);
}

// s: [a = 0,1,..](e)        ........[others = -99]
// t:             (wait e)[hold]--[a -> result](free a)
TEST_P(ArrayLifetime, freed_in_the_order_of_another_stream) {
  weir::Stream s = free_stream(device(), "s");
  weir::Stream t = free_stream(device(), "t");
  auto result = weir::zeros<int>(weir::pinned, n);
  Gate gate;
  auto a = weir::empty<int>(s, n);
  weir::launch(s, n, Count{}, weir::out(a), 0);
  t.wait(s);
  gate.hold(t);
  weir::copy(t, result, a);
  EXPECT_TRUE(returns_while_held(gate, [&] { a.free(t); }));
  const auto others = written_over(gate, s);
  gate.open();
  t.synchronize();
  EXPECT_EQ(host_values(result), counted(n));
  expect_untouched(s, others);
}

// s: [a = 0,1,..][hold]--[a -> result]     the stream object is gone, then the array
TEST_P(ArrayLifetime, outlives_its_stream) {
  auto result = weir::zeros<int>(weir::pinned, n);
  weir::Stream t = free_stream(device(), "t");
  Gate gate;
  {
    std::optional<weir::Stream> s(free_stream(device(), "s"));
    auto a = weir::empty<int>(*s, n);
    weir::launch(*s, n, Count{}, weir::out(a), 0);
    gate.hold(*s);
    weir::copy(*s, result, a);
    t.wait(*s);
    EXPECT_TRUE(returns_while_held(gate, [&] { s.reset(); }));
    weir::launch(t, n, AddValue{}, weir::inout(a), 1);
    weir::copy(t, result.slice(0, 1), a.slice(0, 1));
  }
  const auto others = overwrite(t);
  gate.open();
  t.synchronize();
  std::vector<int> expected = counted(n);
  expected[0] = 1;
  EXPECT_EQ(host_values(result), expected);
  expect_untouched(t, others);
}

TEST_P(ArrayLifetime, ended_by_another_host_thread) {
  weir::Stream s = free_stream(device(), "s");
  weir::Stream t = free_stream(device(), "t");
  auto result = weir::zeros<int>(weir::pinned, n);
  Gate gate;
  auto a = weir::empty<int>(s, n);
  gate.hold(s);
  weir::launch(s, n, Count{}, weir::out(a), 0);
  weir::copy(s, result, a);
  std::thread([array = std::move(a)]() mutable { array = weir::Array<int>(); }).join();
  const auto others = overwrite(t);
  t.synchronize();
  gate.open();
  s.synchronize();
  EXPECT_EQ(host_values(result), counted(n));
  expect_untouched(t, others);
}

// s: [hold]--[pinned -> a]     the pinned array is gone before the copy runs
TEST_P(ArrayLifetime, pinned_memory_outlives_the_copies_from_it) {
  weir::Stream s = free_stream(device(), "s");
  auto a = weir::zeros<int>(s, n);
  Gate gate;
  gate.hold(s);
  {
    std::optional<weir::Array<int>> source(weir::from(weir::pinned, counted(n)));
    weir::copy(s, a, *source);
    EXPECT_TRUE(returns_while_held(gate, [&] { source.reset(); }));
  }
  std::vector<weir::Array<int>> others;
  for (int k = 0; k < 4; ++k) others.push_back(weir::full<int>(weir::pinned, n, -99));
  gate.open();
  EXPECT_EQ(read(s, a), counted(n));
  for (const auto& other : others) EXPECT_EQ(host_values(other), std::vector<int>(n, -99));
}

// s: [hold]--[a -> pinned]     the pinned array is gone before the copy runs: it must not fall on its successors
TEST_P(ArrayLifetime, pinned_memory_outlives_the_copies_to_it) {
  weir::Stream s = free_stream(device(), "s");
  const auto a = weir::from(s, counted(n));
  Gate gate;
  gate.hold(s);
  {
    auto target = weir::empty<int>(weir::pinned, n);
    weir::copy(s, target, a);
  }
  std::vector<weir::Array<int>> others;
  for (int k = 0; k < 4; ++k) others.push_back(weir::full<int>(weir::pinned, n, -99));
  gate.open();
  s.synchronize();
  for (const auto& other : others) EXPECT_EQ(host_values(other), std::vector<int>(n, -99));
}

// s: [a = 0,1,..][hold]--[host function reads the pinned array]
TEST_P(ArrayLifetime, memory_declared_by_a_host_function_outlives_it) {
  weir::Stream s = free_stream(device(), "s");
  Marker sum(1);
  Gate gate;
  gate.hold(s);
  {
    auto values = weir::from(weir::pinned, counted(100));
    weir::host_call(
        s,
        [data = values.data(), word = sum.word()] {
          int total = 0;
          for (int i = 0; i < 100; ++i) total += data[i];
          store_word(word, total);
        },
        weir::in(values));
  }
  std::vector<weir::Array<int>> others;
  for (int k = 0; k < 4; ++k) others.push_back(weir::full<int>(weir::pinned, 100, -99));
  gate.open();
  s.synchronize();
  EXPECT_EQ(sum.value(), 4950);
}

TEST_P(ArrayLifetime, a_moved_array_has_one_owner) {
  weir::Stream s(device());
  weir::Pool pool(device());
  {
    auto a = weir::empty<int>(s, n, pool);
    const auto held = pool.statistics().used;
    EXPECT_GE(held, n * sizeof(int));
    weir::Array<int> b = std::move(a);
    EXPECT_EQ(a.storage(), nullptr);
    EXPECT_TRUE(a.empty());
    weir::Array<int> c;
    c = std::move(b);
    EXPECT_EQ(pool.statistics().used, held);
  }
  EXPECT_EQ(pool.statistics().used, 0u);
}
