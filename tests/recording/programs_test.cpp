// Programs that end in their own ways. Tests of the tool start them by their names; by themselves they do nothing.
#include <cstddef>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include <weir/collectives.hpp>
#include <weir/dlpack.hpp>
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

// Each rank's part lies in what it gathers, as it may.
TEST(Programs, DISABLED_that_gather_in_place) {
  const weir::Device device = weir::device("cpu");
  const std::vector<weir::Communicator> ranks = weir::communicators({device, device});
  const weir::Stream streams[2] = {weir::Stream(device), weir::Stream(device)};
  for (std::size_t r = 0; r < 2; ++r) {
    const auto x = weir::zeros<float>(streams[r], 8);
    weir::all_gather(streams[r], ranks[r], weir::in(x.slice(4 * r, 4 * r + 4)), weir::out(x));
  }
  weir::synchronize();
}

// An array that others have, too: they may order it unseen.
TEST(Programs, DISABLED_that_export_an_array) {
  const weir::Stream own(weir::device("cpu"), {.blocking = false}), other(weir::device("cpu"), {.blocking = false});
  const auto x = weir::zeros<float>(own, 8);
  auto* const tensor = weir::to_dlpack(x);
  weir::launch(own, 8, Nothing{}, weir::inout(x));
  weir::launch(other, 8, Nothing{}, weir::inout(x));
  weir::synchronize();
  tensor->deleter(tensor);
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
