// Fills write every element of any type and any layout, and nothing else.
#include <array>
#include <cstdint>
#include <cstring>

#include "arrays_support.hpp"

using namespace weir_test;

class Fills : public AnyDevice {};
ON_EVERY_DEVICE(Fills);

namespace {

template <std::size_t bytes>
struct Block {
  std::array<std::uint8_t, bytes> value;
  bool operator==(const Block&) const = default;
};

/// Every byte differs from its neighbours, so that a shifted or repeated byte shows.
template <std::size_t bytes>
Block<bytes> pattern(std::uint8_t seed) {
  Block<bytes> block;
  for (std::size_t i = 0; i < bytes; ++i) block.value[i] = static_cast<std::uint8_t>(seed + 37 * i + 1);
  return block;
}

template <class T>
void expect_filled(const std::vector<T>& all, const std::vector<bool>& inside, const T& value, const T& before,
                   const char* layout) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i], inside[i] ? value : before) << layout << " of " << sizeof(T) << "-byte elements, element " << i;
  }
}

/// Fills parts of arrays of `rows` x `columns` in one kind of memory.
template <class T>
void fill_parts(weir::StreamRef stream, const weir::Place& place, std::size_t rows, std::size_t columns, const T& value,
                const T& before) {
  struct Part {
    const char* layout;
    std::size_t row, row_step, column, column_end, column_step;
    bool transposed;
  };
  const Part parts[] = {
      {"whole array", 0, 1, 0, columns, 1, false},       {"rows", rows / 2, 1, 0, columns, 1, false},
      {"columns", 0, 1, columns / 3, columns, 1, false}, {"box", 1, 1, 1, columns - 1, 1, false},
      {"stepped rows", 0, 2, 0, columns, 1, false},      {"stepped columns", 0, 1, 1, columns, 3, false},
      {"stepped both", 1, 2, 0, columns, 2, false},      {"transposed", 0, 1, 1, columns - 1, 1, true},
      {"transposed steps", 1, 2, 0, columns, 3, true},
  };
  for (const Part& part : parts) {
    const weir::Array<T> array = weir::full<T>(place, {rows, columns}, before);
    const weir::Slice<T> slice =
        array.slice({{part.row, rows, part.row_step}, {part.column, part.column_end, part.column_step}});
    weir::fill(stream, part.transposed ? slice.transposed() : slice, value);
    stream.synchronize();
    std::vector<bool> inside(rows * columns);
    for (std::size_t r = part.row; r < rows; r += part.row_step) {
      for (std::size_t c = part.column; c < part.column_end; c += part.column_step) inside[r * columns + c] = true;
    }
    expect_filled(array.to_host(), inside, value, before, part.layout);
  }
}

template <std::size_t bytes>
void fill_elements_of(weir::Device device) {
  weir::Stream stream(device);
  for (const weir::Place& place : {weir::Place(stream), weir::Place(weir::pinned), weir::Place(weir::host)}) {
    fill_parts(stream, place, 7, 23, pattern<bytes>(90), pattern<bytes>(5));
  }
  fill_parts(stream, weir::Place(stream), 131, 257, pattern<bytes>(0), pattern<bytes>(200));
}

}  // namespace

TEST_P(Fills, elements_of_1_byte) { fill_elements_of<1>(device()); }
TEST_P(Fills, elements_of_2_bytes) { fill_elements_of<2>(device()); }
TEST_P(Fills, elements_of_3_bytes) { fill_elements_of<3>(device()); }
TEST_P(Fills, elements_of_4_bytes) { fill_elements_of<4>(device()); }
TEST_P(Fills, elements_of_8_bytes) { fill_elements_of<8>(device()); }
TEST_P(Fills, elements_of_12_bytes) { fill_elements_of<12>(device()); }
TEST_P(Fills, elements_of_16_bytes) { fill_elements_of<16>(device()); }
TEST_P(Fills, elements_of_40_bytes) { fill_elements_of<40>(device()); }
TEST_P(Fills, elements_of_100_bytes) { fill_elements_of<100>(device()); }

// Every length and every start around the widths that a fill may use inside.
TEST_P(Fills, any_length_from_any_start) {
  constexpr std::size_t n = 300;
  weir::Stream stream(device());
  auto array = weir::empty<std::uint8_t>(stream, n);
  for (std::size_t start = 0; start < 20; ++start) {
    for (std::size_t length : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257}) {
      weir::fill(stream, array, std::uint8_t{1});
      weir::fill(stream, array.slice(start, start + length), std::uint8_t{2});
      std::vector<std::uint8_t> expected(n, 1);
      std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(start), length, std::uint8_t{2});
      ASSERT_EQ(array.to_host(), expected) << length << " from " << start;
    }
  }
}

TEST_P(Fills, large_arrays_to_their_last_element) {
  weir::Stream stream(device());
  const std::size_t n = (std::size_t{1} << 22) + 3;
  auto array = weir::full<float>(stream, n, 1.0f);
  weir::fill(stream, array.slice(1, n - 1), 2.5f);
  const std::vector<float> values = array.to_host();
  EXPECT_EQ(values.front(), 1.0f);
  EXPECT_EQ(values.back(), 1.0f);
  EXPECT_EQ(std::count(values.begin(), values.end(), 2.5f), static_cast<std::ptrdiff_t>(n - 2));
}

TEST_P(Fills, three_and_four_dimensions) {
  weir::Stream stream(device());
  const auto array = weir::zeros<int>(stream, {3, 4, 5, 6});
  weir::fill(stream, array.slice({{1, 3}, {0, 4, 2}, {2, 5}, {1, 6, 2}}).transposed(), 9);
  const std::vector<int> values = array.to_host();
  std::size_t i = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < 4; ++b) {
      for (std::size_t c = 0; c < 5; ++c) {
        for (std::size_t d = 0; d < 6; ++d) {
          const bool inside = a >= 1 && b % 2 == 0 && c >= 2 && d % 2 == 1;
          ASSERT_EQ(values[i++], inside ? 9 : 0) << a << ' ' << b << ' ' << c << ' ' << d;
        }
      }
    }
  }
}

TEST_P(Fills, a_value_that_converts_is_converted) {
  weir::Stream stream(device());
  auto array = weir::empty<double>(stream, 3);
  weir::fill(stream, array, 3);
  EXPECT_EQ(array.to_host(), std::vector<double>(3, 3.0));
}

TEST_P(Fills, host_ranges_and_raw_views) {
  weir::Stream stream(device());
  std::vector<int> range(100, 1);
  weir::fill(stream, range, 4);
  stream.synchronize();
  EXPECT_EQ(range, std::vector<int>(100, 4));
  auto array = weir::zeros<int>(stream, 10);
  weir::fill(stream, array.view<1>().slice(2, 4), 8);
  EXPECT_EQ(array.to_host(), (std::vector<int>{0, 0, 8, 8, 0, 0, 0, 0, 0, 0}));
}

TEST_P(Fills, nothing_is_filled_in_nothing) {
  weir::Stream stream(device());
  const auto array = weir::full<int>(stream, 4, 1);
  std::vector<int> none;
  weir::fill(stream, array.slice(2, 2), 9);
  weir::fill(stream, none, 9);
  weir::fill(stream, weir::View<int>(), 9);
  EXPECT_EQ(array.to_host(), std::vector<int>(4, 1));
}

// Strides below zero: down to the first element of the memory, and not beyond it (R48).
TEST_P(Fills, of_views_that_run_backwards_reach_the_beginning) {
  weir::Stream stream(device());
  auto array = weir::zeros<int>(stream, 10);
  auto pinned = weir::full<int>(weir::pinned, 10, 0);
  stream.synchronize();
  for (int* first : {array.data(), pinned.data()}) {
    weir::fill(stream, weir::View<int>(first + 8, {9}, {-1}), 5);
    weir::fill(stream, weir::View<int>(first + 4, {3}, {-2}), 6);
  }
  stream.synchronize();
  const std::vector<int> expected{6, 5, 6, 5, 6, 5, 5, 5, 5, 0};
  EXPECT_EQ(array.to_host(), expected);
  EXPECT_EQ(host_values(pinned), expected);
}
