// Every copy there is: all kinds of memory and all layouts on both sides, 1 to 4 dimensions, with a stream and without,
// compared with a serial loop over indices (W6 to W8, W16, W17).
#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include "arrays_support.hpp"

using namespace weir_test;

class CopyCombinations : public AnyDevice {};
ON_EVERY_DEVICE(CopyCombinations);

namespace {

using Sizes = std::array<std::size_t, 4>;

/// How a part of `sizes` elements lies in a larger array: where index i of dimension d is found there.
struct Layout {
  std::string name;
  bool transposed = false;
  Sizes start{}, step{1, 1, 1, 1}, after{};

  /// The sizes of the array that holds the part; in its own order of dimensions.
  Sizes outer(std::size_t rank, const Sizes& sizes) const {
    Sizes all{1, 1, 1, 1};
    for (std::size_t d = 0; d < rank; ++d) {
      const std::size_t own = transposed ? rank - 1 - d : d;
      all[own] = start[d] + (sizes[d] - 1) * step[d] + 1 + after[d];
    }
    return all;
  }
  std::size_t offset(std::size_t rank, const Sizes& sizes, const Sizes& index) const {
    const Sizes all = outer(rank, sizes);
    Sizes at{};
    for (std::size_t d = 0; d < rank; ++d) at[transposed ? rank - 1 - d : d] = start[d] + index[d] * step[d];
    std::size_t sum = 0;
    for (std::size_t d = 0; d < rank; ++d) sum = sum * all[d] + at[d];
    return sum;
  }
  template <class T>
  weir::Slice<T> of(std::size_t rank, const Sizes& sizes, const weir::Array<T>& array) const {
    std::array<weir::Range, 4> ranges{};
    for (std::size_t d = 0; d < rank; ++d) {
      ranges[transposed ? rank - 1 - d : d] = {start[d], start[d] + (sizes[d] - 1) * step[d] + 1, step[d]};
    }
    const auto part = [&] {
      switch (rank) {
        case 1: return array.slice({ranges[0]});
        case 2: return array.slice({ranges[0], ranges[1]});
        case 3: return array.slice({ranges[0], ranges[1], ranges[2]});
        default: return array.slice({ranges[0], ranges[1], ranges[2], ranges[3]});
      }
    }();
    return transposed ? part.transposed() : part;
  }
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {.name = "contiguous"},
      {.name = "strided", .start = {1, 0, 1, 0}, .step = {2, 3, 2, 2}, .after = {1, 2, 0, 1}},
      {.name = "transposed", .transposed = true},
      {.name = "sliced", .start = {1, 2, 1, 3}, .after = {2, 0, 1, 1}},
      {.name = "transposed strided",
       .transposed = true,
       .start = {1, 1, 0, 0},
       .step = {2, 2, 1, 3},
       .after = {1, 1, 2, 0}},
  };
  return all;
}

void for_each_index(std::size_t rank, const Sizes& sizes, const std::function<void(const Sizes&)>& visit) {
  Sizes index{};
  std::size_t count = 1;
  for (std::size_t d = 0; d < rank; ++d) count *= sizes[d];
  for (std::size_t k = 0; k < count; ++k) {
    visit(index);
    for (std::size_t d = rank; d-- > 0 && ++index[d] == sizes[d];) index[d] = 0;
  }
}

weir::Shape shape_of(std::size_t rank, const Sizes& sizes) { return weir::Shape::of(rank, sizes.data()); }

struct Triple {
  std::int32_t a, b, c;
  bool operator==(const Triple&) const = default;
};
template <class T>
T element(std::size_t i) {
  if constexpr (std::is_same_v<T, Triple>) {
    const auto k = static_cast<std::int32_t>(i);
    return {k, -k, 3 * k + 1};
  } else {
    return static_cast<T>(i * 7 + 1);
  }
}

/// One side of a copy: an array in some kind of memory, its values on the host, and the part that is copied.
template <class T>
struct Side {
  const Layout* layout;
  std::vector<T> values;
  weir::Array<T> array;
  weir::Slice<T> part;

  Side(const weir::Place& place, const Layout& how, std::size_t rank, const Sizes& sizes, std::size_t seed)
      : layout(&how),
        values(fresh(how, rank, sizes, seed)),
        array(make(place, how, rank, sizes)),
        part(how.of(rank, sizes, array)) {}

  static std::vector<T> fresh(const Layout& how, std::size_t rank, const Sizes& sizes, std::size_t seed) {
    std::vector<T> all(shape_of(rank, how.outer(rank, sizes)).count());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = element<T>(seed + i);
    return all;
  }
  weir::Array<T> make(const weir::Place& place, const Layout& how, std::size_t rank, const Sizes& sizes) {
    auto made = weir::empty<T>(place, shape_of(rank, how.outer(rank, sizes)));
    if (made.kind() == weir::MemoryKind::device) {
      weir::copy(place.stream, made, values);
      place.stream.synchronize();
    } else {
      std::copy(values.begin(), values.end(), made.begin());
    }
    return made;
  }
};

/// Copies, and compares every element of both arrays with a serial copy.
template <class T>
testing::AssertionResult copies_right(const weir::Place& to_place, const Layout& to_layout,
                                      const weir::Place& from_place, const Layout& from_layout, std::size_t rank,
                                      const Sizes& sizes,
                                      const std::function<void(const weir::Slice<T>&, const weir::Slice<T>&)>& copy) {
  Side<T> to(to_place, to_layout, rank, sizes, 1000);
  const Side<T> from(from_place, from_layout, rank, sizes, 0);
  copy(to.part, from.part);
  for_each_index(rank, sizes, [&](const Sizes& index) {
    to.values[to_layout.offset(rank, sizes, index)] = from.values[from_layout.offset(rank, sizes, index)];
  });
  if (to.array.to_host() != to.values) return testing::AssertionFailure() << "the destination has wrong elements";
  if (from.array.to_host() != from.values) return testing::AssertionFailure() << "the source has changed";
  return testing::AssertionSuccess();
}

struct Named {
  std::string name;
  weir::Place place;
};
/// Pageable and pinned memory, and every device of the backend.
std::vector<Named> places(weir::Device device) {
  std::vector<Named> all = {{"host", weir::host}, {"pinned", weir::pinned}};
  for (const weir::Device& each : weir::devices(device.backend())) all.push_back({each.name(), weir::Place(each)});
  return all;
}

template <class T>
void copy_everything(weir::Device device, std::size_t rank, const Sizes& sizes) {
  weir::Stream stream(device);
  const auto on_stream = [&](const weir::Slice<T>& to, const weir::Slice<T>& from) {
    weir::copy(stream, to, from);
    stream.synchronize();
  };
  const auto implicitly = [&](const weir::Slice<T>& to, const weir::Slice<T>& from) {
    weir::copy(to, from);
    weir::synchronize();
  };
  for (const Named& to : places(device)) {
    for (const Named& from : places(device)) {
      for (const Layout& to_layout : layouts()) {
        for (const Layout& from_layout : layouts()) {
          const std::string what = from.name + " " + from_layout.name + " to " + to.name + " " + to_layout.name;
          EXPECT_TRUE(copies_right<T>(to.place, to_layout, from.place, from_layout, rank, sizes, on_stream)) << what;
          EXPECT_TRUE(copies_right<T>(to.place, to_layout, from.place, from_layout, rank, sizes, implicitly))
              << what << ", without a stream";
        }
      }
    }
  }
}

}  // namespace

TEST_P(CopyCombinations, one_dimension) {
  copy_everything<std::uint8_t>(device(), 1, {37, 1, 1, 1});
  copy_everything<double>(device(), 1, {29, 1, 1, 1});
}
TEST_P(CopyCombinations, two_dimensions) {
  copy_everything<std::int32_t>(device(), 2, {5, 9, 1, 1});
  copy_everything<Triple>(device(), 2, {7, 3, 1, 1});
}
TEST_P(CopyCombinations, three_dimensions) { copy_everything<std::int32_t>(device(), 3, {3, 4, 6, 1}); }
TEST_P(CopyCombinations, four_dimensions) { copy_everything<std::int16_t>(device(), 4, {2, 3, 4, 5}); }
TEST_P(CopyCombinations, dimensions_of_one_element) { copy_everything<std::int32_t>(device(), 4, {1, 3, 1, 2}); }

// Random parts of random arrays, some larger than what a call takes before it returns.
TEST_P(CopyCombinations, random_parts) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const auto kinds = places(device());
  for (int round = 0; round < 60; ++round) {
    const std::size_t rank = 1 + below(4);
    Sizes sizes{1, 1, 1, 1};
    const std::size_t longest[] = {300000, 300, 40, 14};
    for (std::size_t d = 0; d < rank; ++d) sizes[d] = 1 + below(longest[rank - 1]);
    Layout to, from;
    for (Layout* layout : {&to, &from}) {
      layout->transposed = below(3) == 0;
      for (std::size_t d = 0; d < rank; ++d) {
        layout->start[d] = below(3);
        layout->step[d] = 1 + below(3) * below(2);
        layout->after[d] = below(3);
      }
    }
    weir::Stream stream(device());
    const Named& to_place = kinds[below(kinds.size())];
    const Named& from_place = kinds[below(kinds.size())];
    ASSERT_TRUE((copies_right<std::int32_t>(to_place.place, to, from_place.place, from, rank, sizes,
                                            [&](const auto& a, const auto& b) {
                                              weir::copy(stream, a, b);
                                              stream.synchronize();
                                            })))
        << "round " << round << ": " << from_place.name << " to " << to_place.name;
  }
}

TEST_P(CopyCombinations, vectors_spans_c_arrays_and_views_on_both_sides) {
  weir::Stream stream(device());
  auto array = weir::zeros<int>(stream, {2, 3});
  const std::vector<int> values = counted(6, 1);
  weir::copy(stream, array, values);  // a range fits any shape of as many elements
  int c_array[6] = {};
  weir::copy(stream, c_array, array);
  stream.synchronize();
  EXPECT_EQ(std::vector<int>(c_array, c_array + 6), values);
  std::vector<int> back(8, -1);
  weir::copy(stream, std::span<int>(back).subspan(1, 6), array);
  weir::copy(stream, array.transposed(), weir::View<const int, 2>(values.data(), {3, 2}));
  stream.synchronize();
  EXPECT_EQ(back, (std::vector<int>{-1, 1, 2, 3, 4, 5, 6, -1}));
  EXPECT_EQ(array.to_host(), (std::vector<int>{1, 3, 5, 2, 4, 6}));
}

TEST_P(CopyCombinations, parts_of_one_array_that_share_no_element) {
  weir::Stream stream(device());
  const auto line = weir::from(stream, counted(8));
  weir::copy(stream, line.slice(4, 8), line.slice(0, 4));
  EXPECT_EQ(line.to_host(), (std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3}));
  const auto plane = weir::from(stream, counted(12)).reshape({3, 4}).clone(stream);
  weir::copy(stream, plane.slice({{0, 3}, {2, 4}}), plane.slice({{0, 3}, {0, 2}}));
  EXPECT_EQ(plane.to_host(), (std::vector<int>{0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9}));
}

TEST_P(CopyCombinations, steps_that_pass_each_other) {
  weir::Stream stream(device());
  const auto line = weir::from(stream, counted(8));
  weir::copy(stream, line.slice({{1, 8, 2}}), line.slice({{0, 7, 2}}));
  EXPECT_EQ(line.to_host(), (std::vector<int>{0, 0, 2, 2, 4, 4, 6, 6}));
}
