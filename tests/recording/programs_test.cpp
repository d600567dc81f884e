// Programs that end in their own ways. Tests of the tool start them by their names; by themselves they do nothing.
#include <cstddef>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include <weir/weir.hpp>

namespace {

struct Nothing {
  void operator()(std::size_t, weir::View<float>) const {}
};

void launch_once(weir::StreamRef stream) {
  const auto x = weir::zeros<float>(stream, 8);
  weir::launch(stream, 8, Nothing{}, weir::inout(x));
  stream.synchronize();
}

TEST(Programs, DISABLED_that_abort) {
  const weir::Stream stream(weir::device("cpu"));
  launch_once(stream);
  std::abort();
}

TEST(Programs, DISABLED_that_exit_in_a_host_function) {
  const weir::Stream stream(weir::device("cpu"));
  launch_once(stream);
  weir::host_call(stream, [] { std::exit(9); });
  stream.synchronize();
}

// A copy, and a guard over nothing before it is done.
TEST(Programs, DISABLED_that_guard_nothing) {
  const weir::Stream stream(weir::device("cpu"), {.blocking = false});
  std::vector<float> nothing;
  static_cast<void>(weir::host_write(nothing));
  const auto host = weir::zeros<float>(weir::pinned, 64);
  const auto x = weir::zeros<float>(stream, 64);
  weir::copy(stream, x, host);
  static_cast<void>(weir::host_write(nothing));
  stream.synchronize();
}

// The host writes what is being copied: a race.
TEST(Programs, DISABLED_that_write_too_early) {
  const weir::Stream stream(weir::device("cpu"), {.blocking = false});
  const auto host = weir::zeros<float>(weir::pinned, 64);
  host.set_name("frame");
  const auto x = weir::zeros<float>(stream, 64);
  stream.synchronize();
  weir::copy(stream, x, host);
  static_cast<void>(weir::host_write(host));
  stream.synchronize();
}

}  // namespace
