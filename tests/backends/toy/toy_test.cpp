// What the seam's defaults make of a backend that runs inline, where the conformance suite asks the CPU alone.
#include <stdexcept>

#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

struct Burst {
  void operator()(std::size_t) const { throw std::runtime_error("the pipe burst"); }
};
struct Write {
  void operator()(std::size_t, int* word, int value) const { *word = value; }
};

const weir::Device toy = weir::device("toy");

TEST(Toy, commands_have_run_when_the_call_returns) {
  const weir::Stream s(toy);
  int word = 0;
  weir::host_call(s, [&] { word = 1; });
  EXPECT_EQ(word, 1);
  EXPECT_TRUE(s.done());
  EXPECT_TRUE(s.record().done());
}

TEST(Toy, a_failure_skips_what_follows_until_the_stream_has_told_it) {
  const weir::Stream s(toy);
  weir::launch(s, 1, Burst{});
  int word = 0;
  weir::host_call(s, [&] { word = 1; });
  EXPECT_EQ(word, 0);
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { s.synchronize(); }, {"Burst", "the pipe burst"}));
  weir::host_call(s, [&] { word = 2; });
  EXPECT_EQ(word, 2);
  s.synchronize();
}

TEST(Toy, an_event_throws_what_its_record_found_and_leaves_it_to_the_stream) {
  const weir::Stream s(toy);
  const weir::Event before = s.record();
  weir::launch(s, 1, Burst{});
  const weir::Event behind = s.record();
  before.synchronize();
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { behind.synchronize(); }, {"the pipe burst"}));
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { s.synchronize(); }, {"the pipe burst"}));
}

TEST(Toy, a_stream_that_waits_fails_too_on_this_backend_and_on_another) {
  const weir::Stream s(toy);
  const weir::Stream same(toy);
  const weir::Stream other(weir::device("cpu"));
  weir::launch(s, 1, Burst{});
  const weir::Event behind = s.record();
  same.wait(behind);
  other.wait(behind);
  for (const weir::Stream* stream : {&s, &same, &other}) {
    EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { stream->synchronize(); }, {"the pipe burst"}));
  }
}

TEST(Toy, the_device_tells_what_no_stream_has) {
  {
    const weir::Stream gone(toy);
    weir::launch(gone, 1, Burst{});
  }
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [] { toy.synchronize(); }, {"the pipe burst"}));
  toy.synchronize();
}

TEST(Toy, what_it_does_not_write_is_refused_by_name) {
  const weir::Stream s(toy);
  const weir::Stream other(weir::device("cpu"));
  Gate gate;
  gate.hold(other);
  const weir::Event elsewhere = other.record();
  EXPECT_TRUE(fails_with(weir::Errc::not_supported, [&] { s.wait(elsewhere); }, {"weir::Stream::wait"}));
  gate.open();
  other.synchronize();
  const weir::TimedEvent a = s.record_timed();
  const weir::TimedEvent b = s.record_timed();
  EXPECT_TRUE(fails_with(weir::Errc::not_supported, [&] { (void)weir::elapsed(a, b); }, {"weir::elapsed", "toy"}));
  EXPECT_TRUE(fails_with(weir::Errc::not_supported,
                         [&] { (void)weir::capture(s, [&] { weir::launch(s, 1, Burst{}); }); },
                         {"weir::Graph", "toy"}));
}

TEST(Toy, arrays_of_two_backends_share_pinned_memory) {
  const weir::Stream s(toy);
  const auto words = weir::full<int>(weir::pinned, 1, 0);
  weir::launch(s, 1, Write{}, words.data(), 7);
  EXPECT_EQ(*words.data(), 7);
}

}  // namespace
}  // namespace weir_test
