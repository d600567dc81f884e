// Peer access: who may reach whose memory, and what happens without it (R191, R199, R204).
// Left out: R204's own call (cudaMemPoolSetAccess): in Weir peer access covers pools too.
#include "arrays_support.hpp"

using namespace weir_test;
using weir::Errc;

class PeerAccess : public TwoDevices {
 protected:
  void SetUp() override {
    TwoDevices::SetUp();
    if (IsSkipped()) return;
    if (!weir::can_access_peer(first(), second())) GTEST_SKIP() << "no peer access between these devices";
  }
  void TearDown() override {
    TwoDevices::TearDown();
    if (IsSkipped()) return;
    for (auto [from, to] : {std::pair(first(), second()), std::pair(second(), first())}) {
      if (weir::peer_access_enabled(from, to)) weir::disable_peer_access(from, to);
    }
  }
};
ON_EVERY_BACKEND(PeerAccess);

// R191
TEST_P(PeerAccess, is_off_until_enabled_and_again_when_disabled) {
  EXPECT_FALSE(weir::peer_access_enabled(first(), second()));
  EXPECT_TRUE(fails_with(Errc::peer_not_enabled, [&] { weir::disable_peer_access(first(), second()); },
                         {"weir::disable_peer_access", first().name(), second().name()}));
  weir::enable_peer_access(first(), second());
  EXPECT_TRUE(weir::peer_access_enabled(first(), second()));
  EXPECT_TRUE(fails_with(Errc::peer_already_enabled, [&] { weir::enable_peer_access(first(), second()); },
                         {"weir::enable_peer_access", first().name(), second().name()}));
  weir::disable_peer_access(first(), second());
  EXPECT_FALSE(weir::peer_access_enabled(first(), second()));
  EXPECT_TRUE(fails_with(Errc::peer_not_enabled, [&] { weir::disable_peer_access(first(), second()); }));
}

TEST_P(PeerAccess, has_a_direction) {
  weir::enable_peer_access(first(), second());
  EXPECT_FALSE(weir::peer_access_enabled(second(), first()));
  EXPECT_TRUE(fails_with(Errc::peer_not_enabled, [&] { weir::disable_peer_access(second(), first()); }));
}

TEST_P(PeerAccess, of_a_device_to_itself_is_an_error) {
  EXPECT_FALSE(weir::can_access_peer(first(), first()));
  EXPECT_TRUE(
      fails_with(Errc::peer_unsupported, [&] { weir::enable_peer_access(first(), first()); }, {first().name()}));
}

// R199
TEST_P(PeerAccess, lets_kernels_read_and_write_the_other_devices_memory) {
  weir::Stream a(first());
  weir::Stream b(second());
  auto array = weir::from(b, counted(1000));
  auto copy = weir::zeros<int>(a, 1000);
  a.wait(b);
  weir::enable_peer_access(first(), second());
  weir::launch(a, 1000, AddValue{}, weir::inout(array), 5);
  weir::launch(a, 1000, CopyElement{}, weir::in(array), weir::out(copy));
  a.synchronize();
  EXPECT_EQ(array.to_host(), counted(1000, 5));
  EXPECT_EQ(copy.to_host(), counted(1000, 5));
}

// R199: an illegal address on a GPU, which ends all its work; here refused at the call.
TEST_P(PeerAccess, without_it_such_a_kernel_is_refused_and_nothing_has_changed) {
  weir::Stream a(first());
  weir::Stream b(second());
  auto array = weir::from(b, counted(1000));
  b.synchronize();
  EXPECT_TRUE(fails_with(Errc::wrong_device, [&] { weir::launch(a, 1000, AddValue{}, weir::inout(array), 5); },
                         {"weir::launch", first().name(), second().name(), "peers_access_test.cpp"}));
  EXPECT_TRUE(
      fails_with(Errc::wrong_device, [&] { weir::launch(a, 1000, AddValue{}, weir::inout(array.slice(10, 20)), 5); }));
  a.synchronize();
  EXPECT_EQ(array.to_host(), counted(1000));
  weir::enable_peer_access(second(), first());  // the wrong direction
  EXPECT_TRUE(fails_with(Errc::wrong_device, [&] { weir::launch(a, 1000, AddValue{}, weir::inout(array), 5); }));
}

TEST_P(PeerAccess, without_it_raw_views_of_the_other_devices_memory_are_refused_too) {
  weir::Stream a(first());
  weir::Stream b(second());
  auto array = weir::from(b, counted(1000));
  b.synchronize();
  EXPECT_TRUE(fails_with(Errc::wrong_device, [&] { weir::launch(a, 1000, AddValue{}, array.view<1>(), 5); }));
  EXPECT_EQ(array.to_host(), counted(1000));
}

// R204
TEST_P(PeerAccess, covers_memory_of_pools) {
  weir::Stream a(first());
  weir::Stream b(second());
  const weir::Pool pool(second());
  auto array = weir::empty<int>(b, 1000, pool);
  weir::fill(b, array, 8);
  a.wait(b);
  weir::enable_peer_access(first(), second());
  auto copy = weir::zeros<int>(a, 1000);
  weir::launch(a, 1000, CopyElement{}, weir::in(array), weir::out(copy));
  EXPECT_EQ(copy.to_host(), std::vector<int>(1000, 8));
}

// first:  (wait)[hold]--[kernel reads the peer's array]
// second:                                              (free)[others = -99]
TEST_P(PeerAccess, keeps_the_peers_memory_alive_for_pending_kernels) {
  constexpr std::size_t n = 1 << 16;
  weir::Stream a = free_stream(first(), "a");
  weir::Stream b = free_stream(second(), "b");
  weir::enable_peer_access(first(), second());
  auto result = weir::zeros<int>(weir::pinned, n);
  Gate gate;
  {
    auto array = weir::empty<int>(b, n);
    weir::launch(b, n, Count{}, weir::out(array), 0);
    a.wait(b);
    gate.hold(a);
    weir::launch(a, n, CopyElement{}, weir::in(array), weir::out(result));
  }
  std::vector<weir::Array<int>> others;
  for (int k = 0; k < 4; ++k) others.push_back(weir::full<int>(b, n, -99));
  gate.open();
  a.synchronize();
  EXPECT_EQ(host_values(result), counted(n));
  for (const auto& other : others) EXPECT_EQ(read(b, other), std::vector<int>(n, -99));
}
