// Collectives of the fake NCCL among processes: what each gives is in memory that all share.
#pragma once

#include <atomic>
#include <vector>

#include "backends/fake_cuda/nccl/fake_nccl.hpp"

namespace fake_nccl {

struct Shared;

/// Of 128 bytes.
void make_id(char* id);
/// Waits until all ranks have joined. Null: there is no memory for it.
Shared* join(const char* id, int rank, int size);
/// Waits for all ranks, and writes what this one gets. Where it is stopped meanwhile, nothing.
void run_with_others(Shared& shared, int rank, int size, const std::vector<Call>& own,
                     const std::atomic<bool>& stopped);

}  // namespace fake_nccl
