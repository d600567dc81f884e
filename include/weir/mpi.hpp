// Communicators over MPI: for users of the library weir::mpi, who have <mpi.h>. docs/collectives.md has the rules.
#pragma once

#include <mpi.h>

#include <weir/collectives.hpp>

namespace weir::mpi {

/// This process's rank of `comm`, on `device`. All ranks of `comm` call it, in the same order for the same communicator, and it
/// waits for all of them (options.timeout; then collective_timeout). It duplicates `comm`, so that its
/// messages never match the program's. If MPI is not initialised, it is with MPI_THREAD_MULTIPLE, and finalised when the
/// process ends. Throws not_supported where MPI was initialised with a lower level or is finalised already, and for
/// devices that are not of the CPU. For other communicators than MPI_COMM_WORLD MPI must be initialised before. Thread rule: as MPI's own
/// collective calls on `comm`.
Communicator communicator(Device device, MPI_Comm comm, const CommunicatorOptions& options = {},
                          SourceLocation where = SourceLocation::current());

}  // namespace weir::mpi
