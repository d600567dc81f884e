// What collectives of the fake NCCL do to memory.
#pragma once

#include <vector>

#include "backends/fake_cuda/nccl/fake_nccl.hpp"

namespace fake_nccl {

/// Why the calls of one group are not whole collectives; null: they are.
const char* why_incomplete(const std::vector<Call>& calls);
/// What is to be written to no memory is another process's.
void run(const std::vector<Call>& calls);
std::size_t bytes_of(int type);

}  // namespace fake_nccl
