// Three pipelines of real programs, written with Weir from its documents alone: frames of a video, a training loop, and a
// wave over two devices. Each is checked against plain loops.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/weir.hpp>

#include "support/any_device.hpp"

using namespace weir_test;

namespace port_pipelines {

// ---- a video: decode, blur, histogram, encode, through a ring of buffers

constexpr std::size_t height = 120, width = 160, frames = 20, levels = 16;
constexpr int taps[5] = {1, 4, 6, 4, 1};

std::uint8_t pixel_of(std::size_t frame, std::size_t i) {
  const std::uint32_t mixed = static_cast<std::uint32_t>(i) * 2654435761u + static_cast<std::uint32_t>(frame) * 40503u;
  return static_cast<std::uint8_t>(mixed >> 24);
}
/// Stands for a decoder of the host.
void decode(std::size_t frame, weir::Array<std::uint8_t>& image) {
  std::size_t i = 0;
  for (std::uint8_t& pixel : image) pixel = pixel_of(frame, i++);
}
/// Stands for an encoder of the host: differences of neighbours, as pairs of a length and a value.
std::vector<std::uint8_t> encode(const std::uint8_t* pixels, std::size_t n) {
  std::vector<std::uint8_t> code;
  std::uint8_t before = 0;
  for (std::size_t i = 0; i < n;) {
    const auto difference = static_cast<std::uint8_t>(pixels[i] - before);
    std::uint8_t run = 0;
    while (i < n && run < 255 && static_cast<std::uint8_t>(pixels[i] - before) == difference) {
      before = pixels[i++];
      ++run;
    }
    code.push_back(run);
    code.push_back(difference);
  }
  return code;
}

WEIR_KERNEL inline std::size_t clamped(std::size_t at, std::size_t shift, std::size_t size) {
  const std::size_t moved = at + shift < 2 ? 0 : at + shift - 2;
  return moved < size ? moved : size - 1;
}
/// One direction of a separable blur of five taps; edges repeat.
struct BlurRows {
  int weights[5] = {1, 4, 6, 4, 1};
  WEIR_KERNEL void operator()(weir::Index<2> at, weir::View<const std::uint8_t, 2> from, weir::View<int, 2> to) const {
    int sum = 0;
    for (std::size_t t = 0; t < 5; ++t) sum += weights[t] * from(at[0], clamped(at[1], t, from.size(1)));
    to[at] = sum;
  }
};
struct BlurColumns {
  int weights[5] = {1, 4, 6, 4, 1};
  WEIR_KERNEL void operator()(weir::Index<2> at, weir::View<const int, 2> from, weir::View<std::uint8_t, 2> to) const {
    int sum = 0;
    for (std::size_t t = 0; t < 5; ++t) sum += weights[t] * from(clamped(at[0], t, from.size(0)), at[1]);
    to[at] = static_cast<std::uint8_t>((sum + 128) / 256);
  }
};

struct Frame {
  explicit Frame(weir::StreamRef stream)
      : decoded(weir::empty<std::uint8_t>(weir::pinned, {height, width})),
        image(weir::empty<std::uint8_t>(stream, {height, width})),
        rows(weir::empty<int>(stream, {height, width})),
        blurred(weir::empty<std::uint8_t>(stream, {height, width})),
        result(weir::empty<std::uint8_t>(weir::pinned, {height, width})),
        uploaded(stream.device()),
        computed(stream.device()),
        encoded(stream.device()) {}

  weir::Array<std::uint8_t> decoded, image;
  weir::Array<int> rows;
  weir::Array<std::uint8_t> blurred, result;
  weir::Event uploaded, computed, encoded;
};

std::vector<std::uint8_t> blurred_by_loops(std::size_t frame) {
  std::vector<int> rows(height * width);
  std::vector<std::uint8_t> image(height * width);
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t t = 0; t < 5; ++t)
        rows[y * width + x] += taps[t] * pixel_of(frame, y * width + clamped(x, t, width));
    }
  }
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      int sum = 128;
      for (std::size_t t = 0; t < 5; ++t) sum += taps[t] * rows[clamped(y, t, height) * width + x];
      image[y * width + x] = static_cast<std::uint8_t>(sum / 256);
    }
  }
  return image;
}

// ---- training: a network of one hidden layer, whose batches are fetched ahead

constexpr std::size_t batch = 32, inputs = 24, hidden = 40, outputs = 8, steps = 30, report_every = 10;
constexpr float rate = 0.05f;

float sample(std::size_t step, std::size_t i) {
  const std::uint32_t mixed =
      static_cast<std::uint32_t>(i + 1) * 747796405u + static_cast<std::uint32_t>(step) * 2891336453u;
  return static_cast<float>(mixed >> 8) / static_cast<float>(1u << 24) - 0.5f;
}

/// y = relu(x w + b), or without relu.
struct Dense {
  bool relu;
  WEIR_KERNEL void operator()(weir::Index<2> at, weir::View<const float, 2> x, weir::View<const float, 2> w,
                              weir::View<const float> b, weir::View<float, 2> y) const {
    float sum = b[at[1]];
    for (std::size_t k = 0; k < w.size(0); ++k) sum += x(at[0], k) * w(k, at[1]);
    y[at] = relu && sum < 0 ? 0.0f : sum;
  }
};
struct SquaredError {
  WEIR_KERNEL float operator()(float y, float target) const { return (y - target) * (y - target); }
};
struct ErrorOfOutput {
  WEIR_KERNEL float operator()(float y, float target) const {
    return 2 * (y - target) / static_cast<float>(batch * outputs);
  }
};
/// The error of a layer's input, where its relu let it through.
struct BackThroughDense {
  WEIR_KERNEL void operator()(weir::Index<2> at, weir::View<const float, 2> error, weir::View<const float, 2> w,
                              weir::View<const float, 2> activation, weir::View<float, 2> before) const {
    float sum = 0;
    for (std::size_t j = 0; j < w.size(1); ++j) sum += error(at[0], j) * w(at[1], j);
    before[at] = activation[at] > 0 ? sum : 0.0f;
  }
};
/// w -= rate * (x^T error)
struct DescendWeights {
  WEIR_KERNEL void operator()(weir::Index<2> at, weir::View<const float, 2> x, weir::View<const float, 2> error,
                              weir::View<float, 2> w, float by) const {
    float sum = 0;
    for (std::size_t r = 0; r < x.size(0); ++r) sum += x(r, at[0]) * error(r, at[1]);
    w[at] -= by * sum;
  }
};
struct DescendBias {
  WEIR_KERNEL void operator()(std::size_t j, weir::View<const float, 2> error, weir::View<float> b, float by) const {
    float sum = 0;
    for (std::size_t r = 0; r < error.size(0); ++r) sum += error(r, j);
    b[j] -= by * sum;
  }
};

struct Batch {
  explicit Batch(weir::StreamRef stream)
      : host_x(weir::empty<float>(weir::pinned, {batch, inputs})),
        host_target(weir::empty<float>(weir::pinned, {batch, outputs})),
        x(weir::empty<float>(stream, {batch, inputs})),
        target(weir::empty<float>(stream, {batch, outputs})),
        uploaded(stream.device()),
        consumed(stream.device()) {}

  weir::Array<float> host_x, host_target, x, target;
  weir::Event uploaded, consumed;
};

/// What a user would write without a library: the losses of all steps.
std::vector<float> losses_by_loops() {
  std::vector<float> w1(inputs * hidden), b1(hidden), w2(hidden * outputs), b2(outputs);
  for (std::size_t i = 0; i < w1.size(); ++i) w1[i] = sample(1000, i);
  for (std::size_t i = 0; i < w2.size(); ++i) w2[i] = sample(1001, i);
  std::vector<float> losses;
  for (std::size_t step = 0; step < steps; ++step) {
    std::vector<float> h(batch * hidden), error(batch * outputs), back(batch * hidden);
    float loss = 0;
    for (std::size_t r = 0; r < batch; ++r) {
      for (std::size_t j = 0; j < hidden; ++j) {
        float sum = b1[j];
        for (std::size_t k = 0; k < inputs; ++k) sum += sample(step % 4, r * inputs + k) * w1[k * hidden + j];
        h[r * hidden + j] = std::max(sum, 0.0f);
      }
      for (std::size_t j = 0; j < outputs; ++j) {
        float sum = b2[j];
        for (std::size_t k = 0; k < hidden; ++k) sum += h[r * hidden + k] * w2[k * outputs + j];
        const float miss = sum - sample(step % 4, r * inputs + j);
        loss += miss * miss;
        error[r * outputs + j] = 2 * miss / static_cast<float>(batch * outputs);
      }
      for (std::size_t k = 0; k < hidden; ++k) {
        for (std::size_t j = 0; j < outputs; ++j) back[r * hidden + k] += error[r * outputs + j] * w2[k * outputs + j];
        if (h[r * hidden + k] <= 0) back[r * hidden + k] = 0;
      }
    }
    for (std::size_t r = 0; r < batch; ++r) {
      for (std::size_t j = 0; j < outputs; ++j) {
        b2[j] -= rate * error[r * outputs + j];
        for (std::size_t k = 0; k < hidden; ++k)
          w2[k * outputs + j] -= rate * h[r * hidden + k] * error[r * outputs + j];
      }
      for (std::size_t j = 0; j < hidden; ++j) {
        b1[j] -= rate * back[r * hidden + j];
        for (std::size_t k = 0; k < inputs; ++k)
          w1[k * hidden + j] -= rate * sample(step % 4, r * inputs + k) * back[r * hidden + j];
      }
    }
    losses.push_back(loss);
  }
  return losses;
}

// ---- a wave: a plane of two halves, one on each device, whose edges are exchanged while the inner rows are computed

constexpr std::size_t rows_of_half = 48, columns = 96, wave_steps = 60, receivers = 8;
constexpr float courant = 0.2f;

float pulse(float row, float column) { return std::exp(-0.05f * (row * row + column * column)); }

/// The next time over the last but one. `now` has a row more on either side, and both have a column, which stays zero.
struct WaveStep {
  WEIR_KERNEL void operator()(weir::Index<2> at, weir::View<const float, 2> now, weir::View<float, 2> next) const {
    const std::size_t r = 1 + at[0], c = 1 + at[1];
    float& point = next(at[0], c);
    point = 2 * now(r, c) - point +
            courant * (now(r - 1, c) + now(r + 1, c) + now(r, c - 1) + now(r, c + 1) - 4 * now(r, c));
  }
};
struct Listen {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const float, 2> row, weir::View<float, 2> heard) const {
    heard(0, i) = row(0, i * (columns / receivers) + 1);
  }
};

/// A half with a row of halo on either side: of the plane's border, or of the other half.
struct Half {
  Half(weir::Device device, std::size_t first_row)
      : compute(device, {.name = "compute " + device.name()}),
        transfer(device, {.name = "transfer " + device.name()}),
        edge_done(device),
        halo_there(device),
        heard(weir::zeros<float>(compute, {wave_steps, receivers})) {
    std::vector<float> start((rows_of_half + 2) * columns);
    for (std::size_t r = 0; r < rows_of_half + 2; ++r) {
      const std::size_t row = first_row + r;
      if (row == 0 || row == 2 * rows_of_half + 1) continue;
      for (std::size_t c = 1; c + 1 < columns; ++c)
        start[r * columns + c] = pulse(static_cast<float>(row) - 40, static_cast<float>(c) - 50);
    }
    now = weir::from(compute, start, {rows_of_half + 2, columns});
    next = now.clone(compute);
    edge_done = compute.record();
    halo_there = compute.record();
  }

  /// Says which rows it uses, so that nothing else has to wait for it.
  void advance(std::size_t begin, std::size_t end) {
    weir::launch(compute, {end - begin, columns - 2}, WaveStep{}, weir::in(now.slice(begin - 1, end + 1)),
                 weir::inout(next.slice(begin, end)));
  }

  weir::Stream compute, transfer;
  weir::Event edge_done;   // the row that the other half needs is computed, and this half's halo has been read
  weir::Event halo_there;  // the other half's row has come
  weir::Array<float> heard, now, next;
};

}  // namespace port_pipelines

using namespace port_pipelines;

class PortOfPipelines : public AnyDevice {};
ON_EVERY_DEVICE(PortOfPipelines);

TEST_P(PortOfPipelines, frames_of_a_video_are_blurred_counted_and_encoded) {
  weir::Stream upload({.name = "upload"}), compute({.name = "compute"}), download({.name = "download"});
  std::vector<Frame> ring;
  for (int i = 0; i < 3; ++i) ring.emplace_back(upload);
  compute.wait(upload);
  auto counts = weir::zeros<std::uint32_t>(compute, {frames, levels});
  std::vector<std::vector<std::uint8_t>> codes(frames);

  for (std::size_t f = 0; f < frames; ++f) {
    Frame& frame = ring[f % ring.size()];
    frame.uploaded.synchronize();
    decode(f, frame.decoded);

    upload.wait(frame.computed);
    weir::copy(upload, frame.image, frame.decoded);
    upload.record(frame.uploaded);

    compute.wait({frame.uploaded, frame.encoded});
    weir::launch(compute, {height, width}, BlurRows{}, weir::in(frame.image), weir::out(frame.rows));
    weir::launch(compute, {height, width}, BlurColumns{}, weir::in(frame.rows), weir::out(frame.blurred));
    weir::histogram(compute, frame.blurred.reshape(height * width), counts.slice(f, f + 1).reshape(levels), 0, 256);
    compute.record(frame.computed);

    download.wait(frame.computed);
    weir::copy(download, frame.result, frame.blurred);
    weir::host_call(download, [&codes, &frame, f] { codes[f] = encode(frame.result.data(), frame.result.size()); });
    download.record(frame.encoded);
  }
  weir::synchronize();

  const std::vector<std::uint32_t> all_counts = counts.to_host();
  for (std::size_t f = 0; f < frames; ++f) {
    const std::vector<std::uint8_t> image = blurred_by_loops(f);
    EXPECT_EQ(codes[f], encode(image.data(), image.size())) << "frame " << f;
    std::vector<std::uint32_t> expected(levels);
    for (const std::uint8_t pixel : image) {
      ++expected[pixel * levels / 256];
    }
    EXPECT_EQ(std::vector<std::uint32_t>(all_counts.begin() + static_cast<std::ptrdiff_t>(f * levels),
                                         all_counts.begin() + static_cast<std::ptrdiff_t>((f + 1) * levels)),
              expected)
        << "frame " << f;
  }
}

TEST_P(PortOfPipelines, a_network_is_trained_on_batches_that_are_fetched_ahead) {
  weir::Stream fetch({.name = "fetch"}), train({.name = "train"});
  std::vector<Batch> batches;
  for (int i = 0; i < 2; ++i) batches.emplace_back(fetch);
  std::vector<float> start1(inputs * hidden), start2(hidden * outputs);
  for (std::size_t i = 0; i < start1.size(); ++i) start1[i] = sample(1000, i);
  for (std::size_t i = 0; i < start2.size(); ++i) start2[i] = sample(1001, i);
  auto w1 = weir::from(train, start1, {inputs, hidden});
  auto w2 = weir::from(train, start2, {hidden, outputs});
  auto b1 = weir::zeros<float>(train, hidden);
  auto b2 = weir::zeros<float>(train, outputs);
  auto h = weir::empty<float>(train, {batch, hidden});
  auto y = weir::empty<float>(train, {batch, outputs});
  auto error = weir::empty<float>(train, {batch, outputs});
  auto back = weir::empty<float>(train, {batch, hidden});
  auto squares = weir::empty<float>(train, batch * outputs);
  auto losses = weir::zeros<float>(train, steps);
  auto reported = weir::zeros<float>(weir::pinned, steps / report_every);
  std::vector<weir::Event> reports;
  std::vector<float> seen;

  for (std::size_t step = 0; step < steps; ++step) {
    Batch& next = batches[step % batches.size()];
    next.uploaded.synchronize();
    for (std::size_t r = 0; r < batch; ++r) {
      for (std::size_t k = 0; k < inputs; ++k) next.host_x.host_view()(r, k) = sample(step % 4, r * inputs + k);
      for (std::size_t j = 0; j < outputs; ++j) next.host_target.host_view()(r, j) = sample(step % 4, r * inputs + j);
    }
    fetch.wait(next.consumed);
    weir::copy(fetch, next.x, next.host_x);
    weir::copy(fetch, next.target, next.host_target);
    fetch.record(next.uploaded);

    train.wait(next.uploaded);
    weir::launch(train, {batch, hidden}, Dense{.relu = true}, weir::in(next.x), weir::in(w1), weir::in(b1),
                 weir::out(h));
    weir::launch(train, {batch, outputs}, Dense{.relu = false}, weir::in(h), weir::in(w2), weir::in(b2), weir::out(y));
    const auto flat_y = y.reshape(batch * outputs), flat_target = next.target.reshape(batch * outputs);
    weir::transform(train, flat_y, flat_target, squares, SquaredError{});
    weir::reduce(train, squares, losses.slice(step, step + 1));
    weir::transform(train, flat_y, flat_target, error.reshape(batch * outputs), ErrorOfOutput{});
    weir::launch(train, {batch, hidden}, BackThroughDense{}, weir::in(error), weir::in(w2), weir::in(h),
                 weir::out(back));
    weir::launch(train, {hidden, outputs}, DescendWeights{}, weir::in(h), weir::in(error), weir::inout(w2), rate);
    weir::launch(train, outputs, DescendBias{}, weir::in(error), weir::inout(b2), rate);
    weir::launch(train, {inputs, hidden}, DescendWeights{}, weir::in(next.x), weir::in(back), weir::inout(w1), rate);
    weir::launch(train, hidden, DescendBias{}, weir::in(back), weir::inout(b1), rate);
    train.record(next.consumed);

    if ((step + 1) % report_every == 0) {
      const std::size_t at = step / report_every;
      weir::copy(train, reported.slice(at, at + 1), losses.slice(step, step + 1));
      reports.push_back(train.record());
      if (at > 0) {  // the loss of the report before: the device has long gone on
        reports[at - 1].synchronize();
        seen.push_back(reported[at - 1]);
      }
    }
  }
  reports.back().synchronize();
  seen.push_back(reported[reports.size() - 1]);

  const std::vector<float> expected = losses_by_loops();
  const std::vector<float> all = losses.to_host();
  for (std::size_t step = 0; step < steps; ++step) EXPECT_NEAR(all[step], expected[step], 1e-3f * expected[step]);
  ASSERT_EQ(seen.size(), steps / report_every);
  for (std::size_t at = 0; at < seen.size(); ++at) EXPECT_EQ(seen[at], all[(at + 1) * report_every - 1]);
  EXPECT_LT(all.back(), 0.8f * all.front());
}

class PortOverTwoDevices : public TwoDevices {};
ON_EVERY_BACKEND(PortOverTwoDevices);

TEST_P(PortOverTwoDevices, a_wave_runs_over_both_and_its_edges_are_exchanged_beside_the_inner_rows) {
  Half halves[2] = {Half(first(), 0), Half(second(), rows_of_half)};
  // Of each half, the row that the other one needs, and the row that comes from there.
  const std::size_t edge[2] = {rows_of_half, 1}, halo[2] = {rows_of_half + 1, 0};

  for (std::size_t step = 0; step < wave_steps; ++step) {
    for (std::size_t d = 0; d < 2; ++d) {
      Half& half = halves[d];
      half.compute.wait(half.halo_there);
      half.advance(edge[d], edge[d] + 1);
      half.compute.record(half.edge_done);
      half.advance(d == 0 ? 1 : 2, d == 0 ? rows_of_half : rows_of_half + 1);
      weir::launch(half.compute, receivers, Listen{}, weir::in(half.next.slice(20, 21)),
                   weir::out(half.heard.slice(step, step + 1)));
    }
    for (std::size_t d = 0; d < 2; ++d) {
      Half &half = halves[d], &other = halves[1 - d];
      half.transfer.wait({half.edge_done, other.edge_done});
      weir::copy(half.transfer, half.next.slice(halo[d], halo[d] + 1), other.next.slice(edge[1 - d], edge[1 - d] + 1));
      half.transfer.record(half.halo_there);
    }
    for (Half& half : halves) std::swap(half.now, half.next);
  }

  constexpr std::size_t rows = 2 * rows_of_half + 2;
  std::vector<float> now(rows * columns);
  for (std::size_t r = 1; r + 1 < rows; ++r) {
    for (std::size_t c = 1; c + 1 < columns; ++c)
      now[r * columns + c] = pulse(static_cast<float>(r) - 40, static_cast<float>(c) - 50);
  }
  std::vector<float> next = now;
  const std::vector<float> heard[2] = {halves[0].heard.to_host(), halves[1].heard.to_host()};
  for (std::size_t step = 0; step < wave_steps; ++step) {
    for (std::size_t r = 1; r + 1 < rows; ++r) {
      for (std::size_t c = 1; c + 1 < columns; ++c) {
        const std::size_t i = r * columns + c;
        next[i] = 2 * now[i] - next[i] +
                  courant * (now[i - columns] + now[i + columns] + now[i - 1] + now[i + 1] - 4 * now[i]);
      }
    }
    for (std::size_t d = 0; d < 2; ++d) {
      for (std::size_t i = 0; i < receivers; ++i) {
        EXPECT_NEAR(heard[d][step * receivers + i],
                    next[(20 + d * rows_of_half) * columns + i * (columns / receivers) + 1], 1e-3f)
            << "receiver " << i << " of half " << d << " in step " << step;
      }
    }
    std::swap(now, next);
  }
  for (std::size_t d = 0; d < 2; ++d) {
    const std::vector<float> half = halves[d].now.to_host();
    for (std::size_t i = columns; i < (rows_of_half + 1) * columns; ++i)
      ASSERT_NEAR(half[i], now[d * rows_of_half * columns + i], 1e-3f) << "half " << d;
  }
}
