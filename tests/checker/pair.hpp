// What tests of the checker start from.
#pragma once

#include <weir/weir.hpp>

namespace checker_test {

/// Two streams that only waits order.
struct Pair {
  weir::Device device = weir::device("cpu");
  weir::Stream own{device, {.blocking = false, .name = "own"}};
  weir::Stream compute{device, {.blocking = false, .name = "compute"}};
};

}  // namespace checker_test
