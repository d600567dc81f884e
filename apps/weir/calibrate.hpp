// `weir calibrate`: what its files share. Times are microseconds of the host's clock beside the device, which is virtual beside a
// simulated one; rates are GB/s, 1,000 bytes a microsecond.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <weir/array.hpp>
#include <weir/copy.hpp>
#include <weir/device.hpp>
#include <weir/stream.hpp>

#include "calibrate_work.hpp"
#include "session.hpp"

namespace tool {

/// Values of fields, as a profile names them: those of one round.
using Fields = std::map<std::string, double>;

/// A device with what measuring needs of it.
class Bench {
 public:
  explicit Bench(weir::Device device);

  /// Of the first round of a GPU, which loads code and warms up, each time is taken once.
  void set_repeats(int repeats) { repeats_ = repeats; }
  /// How long `body` takes, from an idle device on: the median of the repeats.
  double us(const std::function<void()>& body) const;
  /// The same with the wait until the device is idle again.
  double us_to_end(const std::function<void()>& body) const;
  /// Of a call, made `count` times.
  double each(int count, const std::function<void()>& call) const;
  /// What one more of something adds: `body` does as many as it is told, and waits.
  double slope(int few, int many, const std::function<void(int)>& body) const;

  void spin(weir::StreamRef stream, double us, std::size_t blocks = 1, std::uint32_t threads = 32) const;
  /// A kernel that reads and writes so many bytes, together.
  void move(weir::StreamRef stream, std::size_t bytes, std::size_t blocks, std::uint32_t threads) const;
  void copy_in(weir::StreamRef stream, std::size_t bytes) const;
  void copy_out(weir::StreamRef stream, std::size_t bytes) const;
  void copy_within(weir::StreamRef stream, std::size_t bytes) const;
  void fill(weir::StreamRef stream, std::size_t bytes) const;

  const weir::Device device;
  const bool simulated;
  const weir::Stream a, b;
  const weir::Array<Quad> pinned_in, pinned_out, pageable;
  const weir::Array<Quad> from, to;  ///< on the device

  static constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;
  static constexpr std::size_t host_bytes = 64 * MiB;
  static weir::Slice<Quad> part(const weir::Array<Quad>& array, std::size_t bytes) {
    return array.slice(0, bytes / sizeof(Quad));
  }
  /// More than caches hold, on a GPU.
  std::size_t device_bytes() const { return simulated ? 64 * MiB : 512 * MiB; }

 private:
  int repeats_ = 1;
};

/// A line through points (x, y), which minimises the relative errors of y.
struct Line {
  double at_zero = 0;
  double slope = 0;
};
Line line_through(const std::vector<std::pair<double, double>>& points);

/// Each adds its fields, and may use those of the ones before it.
void measure_host(const Bench& bench, Fields& fields);
void measure_copies(const Bench& bench, Fields& fields);
void measure_kernels(const Bench& bench, Fields& fields);
void measure_order(const Bench& bench, Fields& fields);
void measure_memory(const Bench& bench, Fields& fields);

/// A field of the profile that is made.
struct CardField {
  std::string group, name, unit, source;
  double value = 0;
  double least = 0, greatest = 0;
  bool measured = false;
  double shipped = 0;  ///< the H200's
  std::string full_name() const { return group == "device" ? name : group + "." + name; }
};
/// All fields of profiles: the medians of the rounds, and what was not measured as the H200's profile has it.
std::vector<CardField> card_of(const std::vector<Fields>& rounds, const std::string& device);
std::string card_text(const std::vector<CardField>& card, const std::string& name, const std::string& about);

/// Runs the session's program on the device, and writes how long its kernels last. Throws std::runtime_error where that is not
/// known.
Exit calibrate_kernels(const Session& session, const std::string& device, const std::string& path);

/// A file that is there whole once finish() returned, and else not touched. Throws std::runtime_error.
class WholeFile {
 public:
  explicit WholeFile(const std::string& path);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;
  void finish(const std::string& text);

 private:
  std::string path_, written_;
  std::FILE* file_;
};

}  // namespace tool
