// This process as a rank of a job: under mpirun by MPI, under `weir ranks` by its environment.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <weir/collectives.hpp>
#include <weir/copy.hpp>
#include <weir/weir.hpp>

namespace ranks_test {

/// This rank's: of WEIR_TEST_RANK_DEVICES, a backend, or the CPU.
weir::Device device();
/// Whether somebody started several of this process.
bool is_rank();
/// One more communicator of all of them.
weir::Communicator make(const weir::CommunicatorOptions& options = {});
/// The one that most tests share.
weir::Communicator& shared();

}  // namespace ranks_test
