// Memory that is freed in the order of another stream than its own: both must be through before anybody gets it (R95).
#include "arrays_support.hpp"

using namespace weir_test;

class MemoryFreedElsewhere : public AnyDevice {
 protected:
  static constexpr std::size_t n = 1 << 16;

  /// Fresh arrays on `stream`, written over: what would fall upon memory that was given back too early.
  static std::vector<weir::Array<int>> write_over(weir::StreamRef stream) {
    std::vector<weir::Array<int>> others;
    for (int k = 0; k < 4; ++k) others.push_back(weir::full<int>(stream, n, -99));
    return others;
  }

  weir::Stream s = free_stream(device(), "s");
  weir::Stream t = free_stream(device(), "t");
  weir::Array<int> result = weir::zeros<int>(weir::pinned, n);
  weir::Array<int> a = weir::empty<int>(s, n);
};
ON_EVERY_DEVICE(MemoryFreedElsewhere);

// s: [a = 0,1,..][hold]--[a -> result]
// t:                                    free(a)[others = -99]
TEST_P(MemoryFreedElsewhere, is_nobodys_before_its_own_stream_is_through) {
  Gate gate;
  weir::launch(s, n, Count{}, weir::out(a), 0);
  gate.hold(s);
  weir::copy(s, result, a);
  EXPECT_TRUE(returns_while_held(gate, [&] { a.free(t); }));
  const auto others = write_over(t);
  if (on("cpu")) t.synchronize();  // on a GPU the driver may let t wait for the free
  gate.open();
  s.synchronize();
  EXPECT_EQ(host_values(result), counted(n));
  for (const auto& other : others) EXPECT_EQ(read(t, other), std::vector<int>(n, -99));
}

// s: [a = 0,1,..]                          [others = -99]
// t:             [hold]--[a -> result](free a)              the library was not told that t uses a
TEST_P(MemoryFreedElsewhere, is_nobodys_before_the_stream_that_is_named_is_through) {
  Gate gate;
  weir::launch(s, n, Count{}, weir::out(a), 0);
  s.synchronize();
  gate.hold(t);
  weir::launch(t, n, CopyElement{}, weir::in(a.view<1>()), weir::out(result));
  EXPECT_TRUE(returns_while_held(gate, [&] { a.free(t); }));
  const auto others = write_over(s);
  EXPECT_TRUE(returns_while_held(gate, [&] { s.synchronize(); }));
  gate.open();
  t.synchronize();
  EXPECT_EQ(host_values(result), counted(n));
  for (const auto& other : others) EXPECT_EQ(read(s, other), std::vector<int>(n, -99));
}
