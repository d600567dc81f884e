// Whether all processes finalise MPI: MPI_Finalize waits for all, and those that failed do not come to it.
#pragma once

#include <mpi.h>

namespace weir::mpi {

/// At the first communicator of MPI_COMM_WORLD, by all its ranks. `finalizes`: this process has left that to Weir.
void prepare_goodbye(MPI_Comm world, bool finalizes);
/// The process ends. False: some rank has failed, and says no goodbye. Waits until all have ended, or one has failed.
bool say_goodbye();

}  // namespace weir::mpi
