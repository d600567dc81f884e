// Graphs: a pipeline captured once and replayed; changed without rebuilding; and a loop inside a graph.
#include <cstdint>
#include <cstdio>

#include <weir/weir.hpp>

struct Saxpy {
  WEIR_KERNEL void operator()(std::size_t i, float a, weir::View<const float> x, weir::View<float> y) const {
    y[i] += a * x[i];
  }
};
struct CountDown {
  WEIR_KERNEL void operator()(std::size_t, weir::View<std::int32_t> turns) const { --turns[0]; }
};

int main() {
  constexpr std::size_t n = 1 << 16;
  weir::Stream main_stream;
  weir::Stream side;
  auto x = weir::ones<float>(main_stream, n);
  auto y = weir::zeros<float>(main_stream, n);
  auto z = weir::zeros<float>(main_stream, n);
  auto turns = weir::full<std::int32_t>(main_stream, 1, 3);
  main_stream.synchronize();

  // Two branches, forked and joined by events. Nothing runs yet.
  weir::Graph graph = weir::capture(main_stream, [&] {
    side.wait(main_stream);
    weir::launch(main_stream, {.size = n, .name = "left"}, Saxpy{}, 2.0f, weir::in(x), weir::inout(y));
    weir::launch(side, {.size = n, .name = "right"}, Saxpy{}, 3.0f, weir::in(x), weir::inout(z));
    main_stream.wait(side);
  });
  for (int i = 0; i < 10; ++i) graph.launch(main_stream);
  std::printf("after 10 replays: y = %g, z = %g\n", static_cast<double>(y.to_host()[0]),
              static_cast<double>(z.to_host()[0]));

  // The next replay uses other arguments.
  graph.update(graph.find("left"), Saxpy{}, 100.0f, weir::in(x), weir::inout(y));
  graph.launch(main_stream);
  std::printf("after an update: y = %g\n", static_cast<double>(y.to_host()[0]));

  // Built by hand, with the order that follows from what nodes read and write.
  weir::GraphBuilder builder(weir::Dependencies::inferred);
  builder.fill(z, 0.0f);
  builder.while_(turns, [&] {
    builder.launch(n, Saxpy{}, 1.0f, weir::in(x), weir::inout(z));
    builder.launch(1, CountDown{}, weir::inout(turns));
  });
  builder.build().launch(main_stream);
  std::printf("a loop of 3 turns: z = %g\n", static_cast<double>(z.to_host()[0]));

  auto last = weir::empty<float>(weir::pinned, 2);
  weir::copy(main_stream, last.slice(0, 1), y.slice(n - 1, n));
  weir::copy(main_stream, last.slice(1, 2), z.slice(n - 1, n));
  main_stream.synchronize();
  const auto values = weir::host_read(last);
  const bool right = values[0] == 120.0f && values[1] == 3.0f;
  std::printf("%s", weir::to_dot(graph).c_str());
  return right ? 0 : 1;
}
