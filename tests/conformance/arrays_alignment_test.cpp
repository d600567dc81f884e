// Elements that are aligned to more than memory usually is.
#include <cstdint>
#include <optional>

#include "arrays_support.hpp"

using namespace weir_test;

namespace {

template <std::size_t bytes>
struct alignas(bytes) Wide {
  int value;
};

/// Adds one to every element, and counts those that are not where their type says.
template <std::size_t bytes>
struct AddOne {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<Wide<bytes>> x, int* misaligned) const {
    x[i].value += 1;
    if (reinterpret_cast<std::uintptr_t>(&x[i]) % bytes != 0) add_to_word(misaligned, 1);
  }
};

template <class T>
bool aligned(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(T) == 0;
}

}  // namespace

class ArrayAlignment : public AnyDevice {
 protected:
  template <std::size_t bytes>
  void check() {
    using Element = Wide<bytes>;
    const weir::Stream stream(device());
    const weir::Pool pool(device());
    Marker misaligned;
    for (const std::size_t n : {std::size_t{1}, std::size_t{3}, std::size_t{1000}}) {
      // Small ones between them, so that no address is a multiple of a page by chance.
      const auto small = weir::zeros<int>(stream, 8);
      const auto on_device = weir::full(stream, n, Element{1});
      const auto in_pool = weir::empty<Element>(stream, n, pool);
      const auto small_pinned = weir::zeros<int>(weir::pinned, 8);
      const auto pinned = weir::full(weir::pinned, n, Element{0});
      const auto pageable = weir::full(weir::host, n, Element{0});
      EXPECT_TRUE(aligned(on_device.data()) && aligned(in_pool.data())) << bytes;
      EXPECT_TRUE(aligned(pinned.data())) << bytes;
      EXPECT_TRUE(aligned(pageable.data())) << bytes;
      weir::launch(stream, n, AddOne<bytes>{}, weir::inout(on_device), misaligned.word());
      weir::copy(stream, in_pool, on_device);
      weir::launch(stream, n, AddOne<bytes>{}, weir::inout(in_pool), misaligned.word());
      weir::copy(stream, pinned, in_pool);
      weir::launch(stream, n, AddOne<bytes>{}, weir::inout(pinned), misaligned.word());
      weir::copy(stream, pageable, pinned);
      stream.synchronize();
      EXPECT_EQ(pageable.span()[n - 1].value, 4) << bytes;
    }
    EXPECT_EQ(misaligned.value(), 0) << bytes;
    EXPECT_EQ(pool.statistics().used, 0u) << bytes;
  }
};
ON_EVERY_DEVICE(ArrayAlignment);

TEST_P(ArrayAlignment, is_that_of_the_elements_in_every_memory) {
  check<256>();
  check<512>();
  check<1024>();
  check<4096>();
}

TEST_P(ArrayAlignment, holds_in_captures_and_for_memory_that_is_used_again_there) {
  weir::Stream stream(device());
  const weir::Pool pool(device());
  Marker misaligned;
  std::optional<weir::Graph> graph(weir::capture(stream, [&] {
    for (int k = 0; k < 4; ++k) {
      const auto plain = weir::empty<char>(stream, 64 * 1024 + 512, pool);
      weir::fill(stream, plain, 'x');
    }
    for (int k = 0; k < 4; ++k) {
      const auto wide = weir::empty<Wide<4096>>(stream, 16, pool);
      weir::launch(stream, 16, AddOne<4096>{}, weir::inout(wide), misaligned.word());
    }
  }));
  graph->launch(stream);
  stream.synchronize();
  EXPECT_EQ(misaligned.value(), 0);
  graph.reset();
  stream.synchronize();
  EXPECT_EQ(pool.statistics().used, 0u);
}

TEST_P(ArrayAlignment, is_given_back_whole) {
  const weir::Stream stream(device());
  const weir::Pool pool(device());
  for (int round = 0; round < 100; ++round) {
    auto array = weir::empty<Wide<2048>>(stream, 7, pool);
    if (round % 2 == 0) array.free(stream);
  }
  stream.synchronize();
  EXPECT_EQ(pool.statistics().used, 0u);
}
