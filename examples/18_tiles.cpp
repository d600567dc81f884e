// Blocks of two dimensions: a matrix is transposed tile by tile, so that both sides are read and written along their rows.
#include <cstdio>
#include <vector>

#include <weir/weir.hpp>

constexpr std::size_t tile = 16;

struct Transpose {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const int, 2> from, weir::View<int, 2> to) const {
    // One more column than is used: on a GPU, neighbours in a column then lie in different banks of shared memory.
    const weir::View<int, 2> kept = block.shared<int>({tile, tile + 1});
    block.each([&](weir::Index<2> t) {
      const auto [row, column] = block.global_index(t);
      if (row < from.size(0) && column < from.size(1)) kept[t] = from(row, column);
    });

    const weir::Index<2> place = block.index<2>();
    block.each([&](weir::Index<2> t) {
      const std::size_t row = place[1] * tile + t[0];
      const std::size_t column = place[0] * tile + t[1];
      if (row < to.size(0) && column < to.size(1)) to(row, column) = kept(t[1], t[0]);
    });
  }
};

int main(int argc, char** argv) {
  const weir::Device device = argc > 1 ? weir::device(argv[1]) : weir::default_device();
  constexpr std::size_t rows = 1000, columns = 300;

  std::vector<int> values(rows * columns);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i);

  weir::Stream stream(device);
  const auto from = weir::from(stream, values, {rows, columns});
  auto to = weir::empty<int>(stream, {columns, rows});
  // As many blocks as cover the matrix; those at its edges have threads without an element.
  const auto extent = weir::BlockExtent::over({rows, columns}, {tile, tile}, tile * (tile + 1) * sizeof(int));
  weir::launch_blocks(stream, extent, Transpose{}, weir::in(from), weir::out(to));

  const std::vector<int> turned = to.to_host();
  bool right = true;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) right = right && turned[c * rows + r] == values[r * columns + c];
  }

  const weir::KernelInfo info = weir::kernel_info(device, Transpose{});
  std::printf("%s: %zu x %zu transposed by tiles, %s; a multiprocessor holds %zu of these blocks\n",
              device.name().c_str(), rows, columns, right ? "right" : "WRONG",
              info.blocks_per_multiprocessor(tile * tile, extent.shared_bytes));
  return right ? 0 : 1;
}
