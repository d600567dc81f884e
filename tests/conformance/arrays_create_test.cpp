// Making arrays: kinds of memory, shapes, values, and the stream that they belong to (W5, W6, W17, W18).
#include <array>
#include <cstdint>

#include "arrays_support.hpp"

using namespace weir_test;

class ArrayCreation : public AnyDevice {};
ON_EVERY_DEVICE(ArrayCreation);

namespace {

struct Pixel {
  std::uint8_t r, g, b;
  bool operator==(const Pixel&) const = default;
};

/// Every kind of place on the device of a test.
std::vector<weir::Place> places(weir::Device device, weir::StreamRef stream) {
  return {weir::Place(weir::host), weir::Place(weir::pinned), weir::Place(device), weir::Place(stream)};
}

}  // namespace

TEST_P(ArrayCreation, from_takes_a_shape_and_a_list) {
  const weir::Stream s(device());
  const auto image = weir::from(s, counted(6), {2, 3});
  EXPECT_EQ(image.shape(), weir::Shape(2, 3));
  EXPECT_EQ(image.to_host(), counted(6));
  EXPECT_EQ(weir::from(s, {1.0f, 2.0f}).to_host(), (std::vector<float>{1.0f, 2.0f}));
  EXPECT_EQ(weir::from(weir::pinned, counted(6), {3, 2}).slice(1, 2).to_host(), counted(2, 2));
  EXPECT_TRUE(fails_with(weir::Errc::wrong_shape,
                         [&] {
                           weir::from(s, counted(6), {2, 4});
                         },
                         {"weir::from", "6 elements", "[2, 4]"}));
}

TEST_P(ArrayCreation, zeros_ones_full_and_from_have_their_values_in_every_kind_of_memory) {
  weir::Stream stream(device());
  const std::vector<float> source{3.0f, 1.0f, 4.0f, 1.0f, 5.0f};
  for (const weir::Place& place : places(device(), stream)) {
    EXPECT_EQ(weir::zeros<float>(place, 5).to_host(), std::vector<float>(5, 0.0f));
    EXPECT_EQ(weir::ones<float>(place, 5).to_host(), std::vector<float>(5, 1.0f));
    EXPECT_EQ(weir::full<float>(place, 5, 2.5f).to_host(), std::vector<float>(5, 2.5f));
    EXPECT_EQ(weir::from(place, source).to_host(), source);
    const Pixel pixel{1, 2, 3};
    EXPECT_EQ(weir::full<Pixel>(place, 3, pixel).to_host(), std::vector<Pixel>(3, pixel));
  }
}

TEST_P(ArrayCreation, without_a_place_it_is_on_the_current_stream_of_the_default_device) {
  const auto a = weir::zeros<int>(4);
  const auto b = weir::ones<int>(4);
  const auto c = weir::full<int>(4, 7);
  const auto d = weir::empty<int>(4);
  const auto e = weir::from(std::vector<int>{1, 2});
  for (const weir::ArrayBase<int>* array :
       {static_cast<const weir::ArrayBase<int>*>(&a), static_cast<const weir::ArrayBase<int>*>(&b),
        static_cast<const weir::ArrayBase<int>*>(&c), static_cast<const weir::ArrayBase<int>*>(&d),
        static_cast<const weir::ArrayBase<int>*>(&e)}) {
    EXPECT_EQ(array->device(), device());
    EXPECT_EQ(array->stream(), weir::get_stream(device()));
    EXPECT_EQ(array->kind(), weir::MemoryKind::device);
  }
  EXPECT_EQ(e.to_host(), (std::vector<int>{1, 2}));
}

TEST_P(ArrayCreation, a_device_means_its_current_stream) {
  weir::Stream stream(device());
  const weir::ScopedStream scope(stream);
  EXPECT_EQ(weir::zeros<int>(device(), 4).stream(), stream);
  EXPECT_EQ(weir::zeros<int>(4).stream(), stream);
}

TEST_P(ArrayCreation, shapes_of_one_to_four_dimensions) {
  weir::Stream stream(device());
  for (const weir::Place& place : places(device(), stream)) {
    const auto line = weir::empty<double>(place, 6);
    const auto plane = weir::empty<double>(place, {2, 3});
    const auto cube = weir::empty<double>(place, {2, 3, 4});
    const auto four = weir::empty<double>(place, {2, 3, 4, 5});
    EXPECT_EQ(line.shape(), weir::Shape(6));
    EXPECT_EQ(plane.shape(), weir::Shape(2, 3));
    EXPECT_EQ(cube.shape(), weir::Shape(2, 3, 4));
    EXPECT_EQ(four.shape(), weir::Shape(2, 3, 4, 5));
    EXPECT_EQ(four.rank(), 4u);
    EXPECT_EQ(four.size(), 120u);
    EXPECT_EQ(four.bytes(), 960u);
    EXPECT_TRUE(four.contiguous());
    EXPECT_EQ(four.view().stride(0), 60);
    EXPECT_EQ(four.view().stride(3), 1);
  }
}

TEST_P(ArrayCreation, kinds_and_devices_of_memory) {
  weir::Stream stream(device());
  const auto on_stream = weir::empty<int>(stream, 4);
  const auto pageable = weir::empty<int>(weir::host, 4);
  const auto pinned = weir::empty<int>(weir::pinned, 4);
  EXPECT_EQ(on_stream.kind(), weir::MemoryKind::device);
  EXPECT_EQ(pageable.kind(), weir::MemoryKind::pageable);
  EXPECT_EQ(pinned.kind(), weir::MemoryKind::pinned);
  EXPECT_EQ(on_stream.device(), device());
  EXPECT_EQ(pageable.device(), weir::device("cpu"));
  EXPECT_EQ(pinned.device(), weir::device("cpu"));
  EXPECT_EQ(on_stream.stream(), stream);
}

TEST_P(ArrayCreation, from_takes_vectors_spans_and_c_arrays) {
  weir::Stream stream(device());
  const int c_array[3] = {1, 2, 3};
  const std::array<int, 3> array{1, 2, 3};
  const std::vector<int> vector{1, 2, 3};
  EXPECT_EQ(weir::from(stream, c_array).to_host(), vector);
  EXPECT_EQ(weir::from(stream, array).to_host(), vector);
  EXPECT_EQ(weir::from(stream, vector).to_host(), vector);
  EXPECT_EQ(weir::from(stream, std::span<const int>(vector)).to_host(), vector);
  EXPECT_EQ(weir::from(stream, std::vector<int>{1, 2, 3}).to_host(), vector);
}

// W5:   stream: [hold]---[zeros][ones][full][from][sum]
//       host:       creates, and returns, while the gate is shut
TEST_P(ArrayCreation, is_asynchronous_and_in_the_order_of_its_stream) {
  constexpr std::size_t n = 1000;
  weir::Stream stream(device());
  Gate gate;
  gate.hold(stream);
  weir::Array<int> zeros, ones, full, counted_array;
  EXPECT_TRUE(returns_while_held(gate, [&] {
    zeros = weir::zeros<int>(stream, n);
    ones = weir::ones<int>(stream, n);
    full = weir::full<int>(stream, n, 5);
    counted_array = weir::from(stream, counted(n));  // pageable and small: taken before the call returns
  }));
  weir::launch(stream, n, AddValue{}, weir::inout(zeros), 1);
  weir::launch(stream, n, AddValue{}, weir::inout(ones), 1);
  weir::launch(stream, n, AddValue{}, weir::inout(full), 1);
  weir::launch(stream, n, AddValue{}, weir::inout(counted_array), 1);
  EXPECT_FALSE(stream.done());
  gate.open();
  stream.synchronize();
  EXPECT_EQ(zeros.to_host(), std::vector<int>(n, 1));
  EXPECT_EQ(ones.to_host(), std::vector<int>(n, 2));
  EXPECT_EQ(full.to_host(), std::vector<int>(n, 6));
  EXPECT_EQ(counted_array.to_host(), counted(n, 1));
}

// W5, R96:   s: [a = 7]--(free a)--[hold]---[b = zeros]      b has a's memory
//            t:                         [read that memory]   still 7: the creation waits for its turn
TEST_P(ArrayCreation, does_not_write_before_its_turn) {
  constexpr std::size_t n = 4096;
  weir::Pool pool(device(), {.release_threshold = 1u << 20});
  weir::Stream s = free_stream(device(), "s");
  weir::Stream t = free_stream(device(), "t");
  auto a = weir::empty<int>(s, n, pool);
  weir::fill(s, a, 7);
  int* const memory = a.data();
  s.synchronize();
  a.free();
  Gate gate;
  gate.hold(s);
  auto b = weir::empty<int>(s, n, pool);
  weir::fill(s, b, 0);
  ASSERT_EQ(b.data(), memory) << "the pool gives a stream its own memory back first";
  auto seen = weir::empty<int>(weir::pinned, n);
  weir::copy(t, seen, weir::View<const int>(memory, n));
  EXPECT_TRUE(returns_while_held(gate, [&] { t.synchronize(); }));
  EXPECT_EQ(host_values(seen), std::vector<int>(n, 7));
  gate.open();
  EXPECT_EQ(read(s, b), std::vector<int>(n, 0));
}

// W18:   s: [hold]--[a = full 3]--(e)
//        t:                        (wait e)--[a += 1]
TEST_P(ArrayCreation, other_streams_wait_for_the_creation) {
  constexpr std::size_t n = 1000;
  weir::Stream s = free_stream(device(), "s");
  weir::Stream t = free_stream(device(), "t");
  Gate gate;
  gate.hold(s);
  auto a = weir::full<int>(s, n, 3);
  t.wait(s);
  weir::launch(t, n, AddValue{}, weir::inout(a), 1);
  EXPECT_TRUE(stays(device(), [&] { return !t.done(); }));
  gate.open();
  EXPECT_EQ(read(t, a), std::vector<int>(n, 4));
}

// current: [hold]       host memory is of no stream: its values are there when the call returns
TEST_P(ArrayCreation, host_memory_has_its_values_at_once) {
  weir::Stream current(device());
  const weir::ScopedStream scope(current);
  Gate gate;
  gate.hold(current);
  for (const weir::Place& place : {weir::Place(weir::host), weir::Place(weir::pinned)}) {
    EXPECT_TRUE(returns_while_held(gate, [&] {
      EXPECT_EQ(host_values(weir::zeros<int>(place, 100)), std::vector<int>(100, 0));
      EXPECT_EQ(host_values(weir::full<int>(place, 100, 4)), std::vector<int>(100, 4));
      EXPECT_EQ(host_values(weir::from(place, counted(100))), counted(100));
    }));
  }
}

TEST_P(ArrayCreation, empty_arrays_are_arrays) {
  weir::Stream stream(device());
  for (const weir::Place& place : places(device(), stream)) {
    for (const weir::Shape& shape : {weir::Shape(0), weir::Shape(0, 5), weir::Shape(5, 0), weir::Shape(3, 0, 2, 2)}) {
      auto a = weir::zeros<int>(place, shape);
      EXPECT_TRUE(a.empty());
      EXPECT_EQ(a.size(), 0u);
      EXPECT_EQ(a.shape(), shape);
      EXPECT_TRUE(a.to_host().empty());
      EXPECT_TRUE(a.clone(stream).empty());
    }
    EXPECT_TRUE(weir::from(place, std::vector<int>{}).empty());
  }
}

TEST_P(ArrayCreation, memory_is_aligned_for_every_element_type) {
  struct alignas(64) Line {
    float values[16];
  };
  weir::Stream stream(device());
  for (const weir::Place& place : places(device(), stream)) {
    std::vector<weir::Array<std::uint8_t>> between;
    for (int i = 0; i < 8; ++i) {
      between.push_back(weir::empty<std::uint8_t>(place, 1 + i));
      const auto lines = weir::empty<Line>(place, 3);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lines.data()) % alignof(Line), 0u);
    }
  }
}

TEST_P(ArrayCreation, clone_is_asynchronous_and_independent) {
  constexpr std::size_t n = 1000;
  weir::Stream stream(device());
  auto a = weir::from(stream, counted(n));
  Gate gate;
  gate.hold(stream);
  weir::Array<int> twin;
  EXPECT_TRUE(returns_while_held(gate, [&] { twin = a.clone(stream); }));
  weir::fill(stream, a, -1);
  gate.open();
  EXPECT_EQ(twin.to_host(), counted(n));
  EXPECT_EQ(a.to_host(), std::vector<int>(n, -1));
}

TEST_P(ArrayCreation, clone_of_a_strided_slice_is_dense) {
  weir::Stream stream(device());
  const auto a = weir::from(stream, counted(24)).reshape({4, 6}).clone(stream);
  const auto turned = a.transposed().clone(stream);
  EXPECT_EQ(turned.shape(), weir::Shape(6, 4));
  EXPECT_TRUE(turned.contiguous());
  EXPECT_EQ(turned.to_host()[1], 6);
  const auto every_second = a.slice({{0, 4, 2}, {1, 6, 2}}).clone(stream);
  EXPECT_EQ(every_second.to_host(), (std::vector<int>{1, 3, 5, 13, 15, 17}));
}
