// Algorithms as stream commands: how often does each number occur, and which of them more often than others? Nothing here waits
// for the device until the answer is read.
#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>

#include <weir/weir.hpp>

/// A number with how often it occurs.
struct Tally {
  std::int32_t number;
  std::int32_t times;
};
struct MakeTally {
  WEIR_KERNEL Tally operator()(std::int32_t number, std::int32_t times) const { return {number, times}; }
};
struct IsFrequent {
  WEIR_KERNEL bool operator()(const Tally& tally) const { return tally.times > 1020; }
};
struct MoreOften {
  WEIR_KERNEL bool operator()(const Tally& a, const Tally& b) const { return a.times > b.times; }
};

int main(int argc, char** argv) {
  const weir::Device device = argc > 1 ? weir::device(argv[1]) : weir::default_device();
  constexpr std::size_t n = 1'000'000;
  std::vector<std::int32_t> numbers(n);
  std::map<std::int32_t, std::int32_t> expected;
  std::uint32_t state = 1;
  for (std::int32_t& number : numbers) {
    state = state * 1664525u + 1013904223u;
    number = static_cast<std::int32_t>((state >> 16) % 1000);
    ++expected[number];
  }

  const weir::Stream stream(device);
  const auto keys = weir::from(stream, numbers);
  const auto ones = weir::ones<std::int32_t>(stream, n);
  const auto unique = weir::zeros<std::int32_t>(stream, n);
  const auto times = weir::zeros<std::int32_t>(stream, n);
  const auto count = weir::zeros<std::int32_t>(stream, 1);
  weir::sort(stream, keys);
  weir::reduce_by_key(stream, keys, ones, unique, times, count);

  const auto tallies = weir::empty<Tally>(stream, n);
  const auto frequent = weir::empty<Tally>(stream, n);
  weir::transform(stream, unique, times, tallies, MakeTally{});
  weir::select_if(stream, tallies, frequent, count, IsFrequent{});
  const auto found = static_cast<std::size_t>(count.to_host(stream)[0]);
  const auto best = frequent.slice(0, found);
  weir::sort(stream, best, MoreOften{});

  bool right = found != 0;
  std::int32_t before = static_cast<std::int32_t>(n);
  for (const Tally& tally : best.to_host()) {
    right = right && expected[tally.number] == tally.times && tally.times <= before;
    before = tally.times;
  }
  std::printf("%s: %zu of %zu numbers occur more than 1020 times, the most frequent first: %s\n", device.name().c_str(),
              found, expected.size(), right ? "right" : "WRONG");
  return right ? 0 : 1;
}
