// The functor that both files launch.
#pragma once

#include <weir/weir.hpp>

struct AddTwo {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] += 2; }
};

/// Each launches AddTwo over the array, in its own file.
void launch_in_host_file(weir::StreamRef stream, weir::Array<int>& x);
void launch_in_kernel_file(weir::StreamRef stream, weir::Array<int>& x);
/// A lambda for host and device, where nvcc is at work.
void launch_lambda_in_kernel_file(weir::StreamRef stream, weir::Array<int>& x, int by);
