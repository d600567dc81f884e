// Starting the library's own threads, and saying so where the system has none.
#pragma once

namespace weir::cpu {

/// Starts a detached thread that takes no signals. False if the system refuses: the first time, a line on stderr says so.
bool start_thread(void (*run)(void* argument), void* argument);
/// Whether the last start failed: then who polls runs what it asks for.
bool threads_are_missing();
/// For tests: as if the system had no more threads.
void refuse_threads(bool refused);

}  // namespace weir::cpu
