// Makes one allocation of the process fail, and counts what is allocated: every operator new of the program, and the malloc
// and aligned_alloc of what is linked into it.
#pragma once

#include <cstdint>

namespace weir_test {

enum class Whose { this_thread, others };

/// From here on the `n`-th allocation (from 0) of this thread, or of all other threads, fails; once.
void fail_allocation(Whose whose, std::int64_t n);
/// No more. Whether it has failed.
bool stop_failing();
/// Blocks that were allocated and are not freed.
std::int64_t live_blocks();

}  // namespace weir_test
