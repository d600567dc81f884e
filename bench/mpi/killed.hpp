// How soon a killed process is reported, by two ranks of a job of their own: mpirun would end the whole job.
#pragma once

namespace mpi_bench {

/// In a process that killed_peer() has started: does its part, and never returns. First thing in main().
void take_part_if_started();
/// Seconds from a rank's death to the error of the other one's wait. Throws std::runtime_error.
double killed_peer();

}  // namespace mpi_bench
