// Wrong inputs: copies and fills whose sides do not fit, overlap, have no memory, or reach past its end (R48).
#include "wrong_inputs.hpp"

namespace weir_test {

using weir::Errc;

namespace {

template <class T>
weir::View<T> odd_view(T* data, std::size_t n) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return weir::View<T>(reinterpret_cast<T*>(reinterpret_cast<Byte*>(data) + 1), n);
}

/// Of n elements from this one on down.
template <class T>
weir::View<T> backwards(T* last, std::size_t n) {
  return weir::View<T>(last, {n}, {-1});
}

void add_shapes(Table& table) {
  table.add("a copy of another length", Errc::wrong_shape, {"weir::copy", "[10]", "[9]"},
            [](Room& room) { weir::copy(room.stream, room.a, room.b.slice(0, 9)); });
  table.add("a copy of another rank", Errc::wrong_shape, {"weir::copy", "[3, 4]", "[12]"},
            [](Room& room) { weir::copy(room.stream, room.plane, weir::zeros<int>(room.stream, 12)); });
  table.add("a copy of the transposed shape", Errc::wrong_shape, {"weir::copy", "[3, 4]", "[4, 3]"},
            [](Room& room) { weir::copy(room.stream, room.plane, room.plane.clone(room.stream).transposed()); });
  table.add("a copy from a vector that is too short", Errc::wrong_shape, {"weir::copy", "[3, 4]", "[10]"},
            [](Room& room) { weir::copy(room.stream, room.plane, room.vector); });
  table.add("a copy to a vector that is too long", Errc::wrong_shape, {"weir::copy", "[10]", "[9]"},
            [](Room& room) { weir::copy(room.stream, room.vector, room.a.slice(0, 9)); });
  table.add("a copy of something to nothing", Errc::wrong_shape, {"weir::copy", "[0]", "[10]"},
            [](Room& room) { weir::copy(room.stream, room.a.slice(0, 0), room.b); });
  table.add("a copy of a view of negative size", Errc::size_overflow, {"weir::copy", "-4"}, [](Room& room) {
    weir::copy(room.stream, weir::View<int>(room.a.data(), static_cast<std::size_t>(-4)), room.b);
  });
  table.add("a copy between vectors of two lengths without a stream", Errc::wrong_shape, {"weir::copy"},
            [](Room& room) { weir::copy(room.vector, std::vector<int>(11)); });
}

void add_overlaps(Table& table) {
  table.add("a copy of an array to itself", Errc::overlapping, {"weir::copy"},
            [](Room& room) { weir::copy(room.stream, room.a, room.a); });
  table.add("a copy of overlapping slices", Errc::overlapping, {"weir::copy"},
            [](Room& room) { weir::copy(room.stream, room.a.slice(1, 9), room.a.slice(0, 8)); });
  table.add("a copy of overlapping rows", Errc::overlapping, {"weir::copy"},
            [](Room& room) { weir::copy(room.stream, room.plane.slice(0, 2), room.plane.slice(1, 3)); });
  table.add("a copy of overlapping columns", Errc::overlapping, {"weir::copy"}, [](Room& room) {
    weir::copy(room.stream, room.plane.slice({{0, 3}, {0, 2}}), room.plane.slice({{0, 3}, {1, 3}}));
  });
  table.add("a copy of overlapping steps", Errc::overlapping, {"weir::copy"}, [](Room& room) {
    weir::copy(room.stream, room.a.slice({{0, 6, 2}}), room.a.slice({{2, 8, 2}}));
  });
  table.add("a copy of an overlapping raw view", Errc::overlapping, {"weir::copy"}, [](Room& room) {
    weir::copy(room.stream, room.a.slice(0, 5), weir::View<const int>(room.a.data() + 4, 5));
  });
  table.add("a copy of overlapping parts of a vector", Errc::overlapping, {"weir::copy"}, [](Room& room) {
    weir::copy(room.stream, std::span<int>(room.vector).first(6), std::span<const int>(room.vector).last(6));
  });
}

void add_memory(Table& table) {
  table.add("a copy to a view without memory", Errc::null_view, {"weir::copy", "[10]"},
            [](Room& room) { weir::copy(room.stream, weir::View<int>(nullptr, 10), room.b); });
  table.add("a copy from a view without memory", Errc::null_view, {"weir::copy", "[10]"},
            [](Room& room) { weir::copy(room.stream, room.a, weir::View<const int>(nullptr, 10)); });
  table.add("a copy from a span without memory", Errc::null_view, {"weir::copy"}, [](Room& room) {
    weir::copy(room.stream, room.a, std::span<const int>(static_cast<const int*>(nullptr), 10));
  });
  table.add("a copy to a misaligned view", Errc::misaligned, {"weir::copy", "4"},
            [](Room& room) { weir::copy(room.stream, odd_view(room.pinned.data(), 9), room.b.slice(0, 9)); });
  table.add("a copy from a misaligned view", Errc::misaligned, {"weir::copy", "4"}, [](Room& room) {
    weir::copy(room.stream, room.a.slice(0, 9), odd_view<const int>(room.vector.data(), 9));
  });
  table.add("a copy past the end of device memory", Errc::invalid_value, {"weir::copy"}, [](Room& room) {
    void* const memory = room.pool.allocate(room.stream, 4096);
    std::vector<int> values(1 << 20);
    try {
      weir::copy(room.stream, weir::View<int>(static_cast<int*>(memory), std::size_t{1} << 20), values);
    } catch (...) {
      room.pool.free(room.stream, memory);
      throw;
    }
  });
  table.add("a fill past the end of pinned memory", Errc::invalid_value, {"weir::fill"},
            [](Room& room) { weir::fill(room.stream, weir::View<int>(room.pinned.data(), 100000), 4); });
  table.add("a fill past the beginning of pinned memory", Errc::invalid_value, {"weir::fill", "36 bytes below"},
            [](Room& room) { weir::fill(room.stream, backwards(room.pinned.data() + 8, 10), 4); });
  table.add("a copy past the beginning of device memory", Errc::invalid_value, {"weir::copy", "bytes below"},
            [](Room& room) {
              const std::size_t n = room.a.size();
              weir::copy(room.stream, backwards(room.a.data() + 1, n), room.b);
            });
  table.add("a fill of a view without memory", Errc::null_view, {"weir::fill", "[10]"},
            [](Room& room) { weir::fill(room.stream, weir::View<int>(nullptr, 10), 1); });
  table.add("a fill of a misaligned view", Errc::misaligned, {"weir::fill", "4"},
            [](Room& room) { weir::fill(room.stream, odd_view(room.pinned.data(), 9), 1); });
  table.add("a fill of a view of negative size", Errc::size_overflow, {"weir::fill", "-4"}, [](Room& room) {
    weir::fill(room.stream, weir::View<int>(room.pinned.data(), static_cast<std::size_t>(-4)), 1);
  });
  table.add(
      "a fill of memory of another device", Errc::wrong_device, {"weir::fill"},
      [](Room& room) {
        auto far = weir::zeros<int>(room.other, 10);
        weir::get_stream(room.other).synchronize();
        weir::fill(room.stream, far, 1);
      },
      Needs::two_devices);
}

}  // namespace

std::vector<WrongInput> wrong_copies() {
  Table table(__FILE__);
  add_shapes(table);
  add_overlaps(table);
  add_memory(table);
  return table.take();
}

}  // namespace weir_test
