// Communicators over MPI: for users of the library weir::mpi, who have <mpi.h>. docs/collectives.md has the rules.
#pragma once

#include <mpi.h>

#include <weir/collectives.hpp>

namespace weir::mpi {

/// This process's rank of `comm`, on `device`. All ranks of `comm` call it, in the same order for the same communicator, and it
/// waits for all of them (options.timeout; then collective_timeout). It has a duplicate of `comm` of its own, for whose
/// messages the user's cannot be taken. Initialises MPI with MPI_THREAD_MULTIPLE if nobody has, and finalises it at the end of
/// the process then. Throws not_supported where somebody initialised it with less, where it is finalised already, and for
/// devices that are not of the CPU. A handle rather than MPI_COMM_WORLD needs MPI to be initialised. Thread rule: as MPI's own
/// collective calls on `comm`.
Communicator communicator(Device device, MPI_Comm comm, const CommunicatorOptions& options = {},
                          SourceLocation where = SourceLocation::current());

}  // namespace weir::mpi
