// A timeline in code: what overlapped in two versions of one program, and why the rest did not.
#include <cstdio>
#include <utility>
#include <vector>

#include <weir/trace.hpp>
#include <weir/weir.hpp>

struct Scale {
  WEIR_KERNEL void operator()(std::size_t i, float a, weir::View<float> x) const { x[i] *= a; }
};

constexpr std::size_t n = 1 << 20;
constexpr std::size_t blocks = 4;

struct Block {
  weir::Stream stream;
  weir::Array<float> host;
  weir::Array<float> x;
};

/// Copies a block in, computes, and copies it out.
void run(const weir::Stream& stream, Block& block) {
  weir::copy(stream, block.x, block.host);
  weir::launch(stream, n, Scale{}, 2.0f, weir::inout(block.x));
  weir::copy(stream, block.host, block.x);
}

int main() {
  std::vector<Block> all;
  for (std::size_t i = 0; i < blocks; ++i) {
    weir::Stream stream;
    auto host = weir::full(weir::pinned, n, 1.0f);
    auto x = weir::empty<float>(stream, n);
    all.push_back({std::move(stream), std::move(host), std::move(x)});
  }
  weir::synchronize();

  weir::trace::Session first;
  {
    const weir::trace::Range range("one stream");
    for (Block& block : all) run(all[0].stream, block);
    weir::synchronize();
  }
  const weir::trace::Timeline before = first.stop();

  weir::trace::Session second;
  {
    const weir::trace::Range range("a stream for each");
    for (Block& block : all) run(block.stream, block);
    weir::synchronize();
  }
  const weir::trace::Timeline after = second.stop();

  std::printf("One stream:\n%s\n", to_text(summarize(before), before).c_str());
  std::printf("%s\n", to_text(explain(before), before).c_str());
  std::printf("A stream for each block:\n%s", to_text(compare(before, after)).c_str());

  // In one stream nothing runs beside anything else.
  const weir::trace::Summary summary = summarize(before);
  return summary.concurrency.size() <= 2 && !summary.critical_path.empty() ? 0 : 1;
}
