// What collectives of the fake NCCL do to memory.
#pragma once

#include <vector>

#include "backends/fake_cuda/nccl/fake_nccl.hpp"

namespace fake_nccl {

/// Why the calls of one group are not whole collectives; null: they are.
const char* why_incomplete(const std::vector<Call>& calls);
void run(const std::vector<Call>& calls);

}  // namespace fake_nccl
