// The hazard checker: a wait is missing twice, and each time the launch is refused, with the line that mends it. The same
// happens to any program under WEIR_CHECK=throw; WEIR_CHECK=1 only prints.
#include <cstdio>
#include <functional>
#include <vector>

#include <weir/check.hpp>
#include <weir/weir.hpp>

struct Scale {
  WEIR_KERNEL void operator()(std::size_t i, float factor, weir::View<float> x) const { x[i] = factor * (x[i] + 1); }
};

/// An array is made on one stream and used at once on another: its memory may not be there yet, nor its zeros.
float hidden_bug(const weir::Device& device, bool mended) {
  const weir::Stream own(device, {.blocking = false, .name = "own"});
  const weir::Stream compute(device, {.blocking = false, .name = "compute"});
  auto a = weir::zeros<float>(own, 1024);
  a.set_name("a");
  if (mended) compute.wait(own);
  weir::launch(compute, 1024, Scale{}, 2.0f, weir::inout(a));
  std::vector<float> result(1024);
  weir::copy(compute, result, a);
  return result[1023];
}

/// While one half is computed the other one is filled. Whoever fills a half again must wait until it is free.
float double_buffer(const weir::Device& device, bool mended) {
  constexpr std::size_t n = 1024;
  const weir::Stream upload(device, {.blocking = false, .name = "upload"});
  const weir::Stream compute(device, {.blocking = false, .name = "compute"});
  auto source = weir::ones<float>(weir::pinned, n);
  std::vector<weir::Array<float>> halves;
  std::vector<weir::Event> computed(2);
  for (int i = 0; i < 2; ++i) halves.push_back(weir::zeros<float>(upload, n));
  halves[0].set_name("front");
  halves[1].set_name("back");
  for (std::size_t step = 0; step < 6; ++step) {
    weir::Array<float>& half = halves[step % 2];
    if (mended) upload.wait(computed[step % 2]);
    weir::copy(upload, half, source);
    compute.wait(upload);
    weir::launch(compute, n, Scale{}, 3.0f, weir::inout(half));
    compute.record(computed[step % 2]);
  }
  std::vector<float> result(n);
  weir::copy(compute, result, halves[1]);
  return result[n - 1];
}

/// Whether the wrong program is refused, and the mended one computes what it should.
bool shown(const char* name, const std::function<float(bool)>& program, float expected) {
  weir::Checker checker({.mode = weir::CheckMode::throw_error});
  std::printf("--- %s\n", name);
  try {
    program(false);
    return false;
  } catch (const weir::Error& error) {
    if (error.errc() != weir::Errc::hazard) throw;
    std::printf("%s\n", error.what());
  }
  const std::size_t before = checker.errors();
  return program(true) == expected && checker.errors() == before;
}

int main(int argc, char** argv) {
  const weir::Device device = argc > 1 ? weir::device(argv[1]) : weir::default_device();
  const bool first = shown(
      "an array of another stream", [&](bool mended) { return hidden_bug(device, mended); }, 2.0f);
  const bool second = shown(
      "a double buffer", [&](bool mended) { return double_buffer(device, mended); }, 6.0f);
  return first && second ? 0 : 1;
}
