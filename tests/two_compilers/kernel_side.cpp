// Compiled by nvcc where there is a CUDA backend.
#include "shared.hpp"

void launch_in_kernel_file(weir::StreamRef stream, weir::Array<int>& x) {
  weir::launch(stream, x.size(), AddTwo{}, weir::inout(x));
}

void launch_lambda_in_kernel_file(weir::StreamRef stream, weir::Array<int>& x, int by) {
  weir::launch(
      stream, x.size(), [by] WEIR_KERNEL(std::size_t i, weir::View<int> v) { v[i] += by; }, weir::inout(x));
}
