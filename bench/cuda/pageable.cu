// Pageable memory: copies by size beside the driver's own, and M1 from vectors.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <sched.h>

#include <weir/weir.hpp>

#include "bench.hpp"
#include "raw.hpp"
#include "sums.hpp"
#include "support/proof.hpp"

namespace bench {

namespace {

int own_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

constexpr int many_cores = 16;
constexpr std::size_t mebibyte = std::size_t{1} << 20;

std::string size_text(std::size_t bytes) {
  return bytes < mebibyte ? std::to_string(bytes / 1024) + " KiB" : std::to_string(bytes / mebibyte) + " MiB";
}

/// Bytes that tell one copy from another: `turn` is in all of them.
std::uint8_t byte_of(std::size_t i, std::size_t turn) {
  return static_cast<std::uint8_t>(i * 7 + i / 4096 + turn * 31);
}
void write_turn(std::vector<std::uint8_t>& bytes, std::size_t turn) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_of(i, turn);
}
bool holds_turn(const std::vector<std::uint8_t>& bytes, std::size_t turn) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != byte_of(i, turn)) return false;
  }
  return true;
}

/// The same copies both ways, each side with memory and bytes of its own.
class Copies {
 public:
  Copies(weir::Device device, std::size_t bytes)
      : stream_(device, {.blocking = false}),
        ours_(weir::zeros<std::uint8_t>(stream_, bytes)),
        raws_(weir::zeros<std::uint8_t>(stream_, bytes)),
        source_(bytes),
        raw_source_(bytes),
        target_(bytes),
        raw_target_(bytes),
        repeats_(std::max<std::size_t>(1, 64 * mebibyte / bytes)) {
    write_sources();
    stream_.synchronize();
  }

  double raw_in() const {
    return rate([&] {
      if constexpr (sabotaged) return;
      cudaMemcpyAsync(raws_.data(), raw_source_.data(), raw_source_.size(), cudaMemcpyHostToDevice, raw_stream_);
      raw_stream_.synchronize();
    });
  }
  double our_in() const {
    return rate([&] {
      if constexpr (sabotaged) return;
      weir::copy(stream_, ours_, source_);
      stream_.synchronize();
    });
  }
  double raw_out() {
    return rate([&] {
      if constexpr (sabotaged) return;
      cudaMemcpyAsync(raw_target_.data(), raws_.data(), raw_target_.size(), cudaMemcpyDeviceToHost, raw_stream_);
      raw_stream_.synchronize();
    });
  }
  double our_out() {
    return rate([&] {
      if constexpr (sabotaged) return;
      weir::copy(stream_, target_, ours_);
      stream_.synchronize();
    });
  }

  /// Once more, with bytes that were never copied before, and there and back.
  void prove() {
    write_sources();
    our_in();
    raw_in();
    std::fill(target_.begin(), target_.end(), std::uint8_t{0});
    std::fill(raw_target_.begin(), raw_target_.end(), std::uint8_t{0});
    our_out();
    raw_out();
    expect(holds_turn(target_, turn_), "the copies brought wrong bytes");
    expect(holds_turn(raw_target_, turn_ - 1), "the raw copies brought wrong bytes");
  }

 private:
  void write_sources() {
    write_turn(raw_source_, ++turn_);
    write_turn(source_, ++turn_);
  }
  /// GB/s
  template <class Copy>
  double rate(Copy&& copy) const {
    const double time = seconds([&] {
      for (std::size_t i = 0; i < repeats_; ++i) copy();
    });
    return static_cast<double>(repeats_ * source_.size()) * 1e-9 / time;
  }

  weir::Stream stream_;
  raw::Stream raw_stream_;
  weir::Array<std::uint8_t> ours_;
  weir::Array<std::uint8_t> raws_;
  std::vector<std::uint8_t> source_;
  std::vector<std::uint8_t> raw_source_;
  std::vector<std::uint8_t> target_;
  std::vector<std::uint8_t> raw_target_;
  std::size_t repeats_;
  std::size_t turn_ = 0;
};

}  // namespace

void pageable_copies(Context& context) {
  constexpr double noise = 0.97;  // of sizes that both sides bring by one command
  const bool many = own_cores() >= many_cores;
  for (const std::size_t bytes :
       {mebibyte / 16, mebibyte, 4 * mebibyte, 16 * mebibyte, 64 * mebibyte, 256 * mebibyte}) {
    Copies copies(context.device, bytes);
    const bool large = bytes >= 4 * mebibyte;
    const std::string name =
        ".pageable_" + (bytes < mebibyte ? std::to_string(bytes / 1024) + "k" : std::to_string(bytes / mebibyte) + "m");
    const auto row = [&](const char* way, const char* work, const Pair& pair, double reach) {
      raw::check_last();
      copies.prove();
      context.report.add({way + name,
                          work + size_text(bytes),
                          "GB/s",
                          pair.ours,
                          pair.raw,
                          {ratio_at_least(!large ? noise
                                          : many ? reach
                                                 : 1.0)}});
    };
    Options options = context.options;
    options.pause = {};
    row("copy.in", "pageable copy to the GPU, ",
        by_turns(
            options, [&] { return copies.raw_in(); }, [&] { return copies.our_in(); }),
        3.0);
    row("copy.out", "pageable copy from the GPU, ",
        by_turns(
            options, [&] { return copies.raw_out(); }, [&] { return copies.our_out(); }),
        2.0);
  }
}

void pageable_vectors(Context& context) {
  constexpr std::size_t n = 20'000'000;
  constexpr std::size_t bytes = n * sizeof(double);
  std::vector<double> x(n);
  std::vector<double> y(n);
  std::vector<double> z(n);
  std::vector<double> raw_z(n);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = static_cast<double>(i % 1000);
    y[i] = static_cast<double>(i % 777);
  }
  const weir::Stream stream(context.device, {.blocking = false});
  const raw::Stream raw_stream;
  const auto xd = weir::zeros<double>(stream, n);
  const auto yd = weir::zeros<double>(stream, n);
  const auto zd = weir::zeros<double>(stream, n);
  stream.synchronize();
  const auto by_hand = [&] {
    cudaMemcpyAsync(xd.data(), x.data(), bytes, cudaMemcpyHostToDevice, raw_stream);
    cudaMemcpyAsync(yd.data(), y.data(), bytes, cudaMemcpyHostToDevice, raw_stream);
    add<<<static_cast<unsigned>((n + 255) / 256), 256, 0, raw_stream>>>(xd.data(), yd.data(), zd.data(), n);
    cudaMemcpyAsync(raw_z.data(), zd.data(), bytes, cudaMemcpyDeviceToHost, raw_stream);
    raw_stream.synchronize();
  };
  const auto ours = [&] {
    weir::copy(stream, xd, x);
    weir::copy(stream, yd, y);
    weir::launch(stream, n, Add{}, weir::in(xd), weir::in(yd), weir::out(zd));
    weir::copy(stream, z, zd);
    stream.synchronize();
  };
  Options options = context.options;
  options.pause = {};
  const Pair pair = by_turns(
      options, [&] { return seconds(by_hand) * 1e3; }, [&] { return seconds(ours) * 1e3; });
  raw::check_last();
  const auto wrong = [&](const std::vector<double>& sums, double more) {
    for (std::size_t i = 0; i < n; ++i) {
      if (sums[i] != x[i] + y[i] + more) return true;
    }
    return false;
  };
  std::fill(z.begin(), z.end(), -1.0);
  std::fill(raw_z.begin(), raw_z.end(), -1.0);
  weir::fill(stream, zd, -2.0);
  ours();
  expect(!wrong(z, 0.0), "wrong sums");
  weir::fill(stream, zd, -2.0);
  stream.synchronize();
  by_hand();
  expect(!wrong(raw_z, more_by_hand), "wrong sums of raw CUDA");
  std::vector<Bound> reach = {ratio_at_most(1.0)};
  if (own_cores() >= many_cores) reach.push_back(at_most(12, "ms"));
  context.report.add({"M1.pageable", "M1: x + y from and to vectors, one stream", "ms", pair.ours, pair.raw,
                      std::move(reach), "Numba 78, Warp 138 ms"});
}

}  // namespace bench
