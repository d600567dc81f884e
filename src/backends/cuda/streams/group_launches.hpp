// What must not come between the kernels of one collective.
#pragma once

#include "thread_safety.hpp"

namespace weir::cuda {

/// NCCL launches a collective's kernels one GPU after the other, and the first waits for the last. Whatever waits for GPUs with the
/// driver's own lock held, so that nobody launches meanwhile, holds this as those launches do: else neither ends. Leaf lock: nothing is
/// taken behind it.
inline detail::Mutex& group_launches() noexcept {
  static auto& mutex = *new detail::Mutex;
  return mutex;
}

}  // namespace weir::cuda
