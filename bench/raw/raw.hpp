// The raw counterparts: the least that does each benchmark's work, with threads that spin and do nothing else.
#pragma once

#include <cstddef>

namespace bench::raw {

/// Empty tasks through `rings` rings, round robin, to one spinning worker, then a wait. Million tasks a second. A task is
/// a cache line that is made and copied into its slot; for the lean rate only its function is written.
double launch_rate(std::size_t rings, std::size_t count);
double lean_launch_rate(std::size_t rings, std::size_t count);
/// One empty task through a ring and a wait for it. Microseconds.
double round_trip(std::size_t count);
/// A task that two spinning threads hand each other through rings. Microseconds a turn.
double hop(std::size_t count);
/// A spinning pair: one task, then `width` tasks, then one task, each step after the one before. Microseconds.
double fork_join(std::size_t width, std::size_t count);
/// `nodes` empty functions, called in a plain loop. Microseconds.
double calls(std::size_t nodes, std::size_t count);
/// A fixed number of busy tasks without order on all cores. Seconds.
double busy_tasks(std::size_t count, std::size_t steps);

// The same where the waiter runs the work itself, on queues with a lock: nothing is handed to another thread.

double own_launch_rate(std::size_t count);
double own_round_trip(std::size_t count);
/// Tasks on two queues by turns, each behind the one before.
double own_hop(std::size_t count);
double own_fork_join(std::size_t width, std::size_t count);

/// A whole task through each of `threads` threads' own ring to one spinning worker. Million tasks a second, of all.
double threads_launch_rate(std::size_t threads, std::size_t count);
/// `stages` threads, each of which is busy for `steps` with one frame after another, at most `slots` frames behind the next one.
/// Milliseconds.
double video(std::size_t stages, std::size_t frames, std::size_t slots, std::size_t steps);

/// a = b + factor * c on all cores, by OpenMP's static loop.
void triad(double* a, const double* b, const double* c, double factor, std::size_t n);
/// The same by the calling thread alone.
void triad_alone(double* a, const double* b, const double* c, double factor, std::size_t n);
/// The sum of all elements, by OpenMP's static loop with a reduction.
double sum(const double* x, std::size_t n);
/// p = q = a + b, by OpenMP's static loop.
void add_to_both(const float* a, const float* b, float* p, float* q, std::size_t n);
/// Two threads that spin meet twice. Microseconds.
double two_barriers(std::size_t count);
/// memcpy and memset of equal parts on all cores.
void copy(void* to, const void* from, std::size_t bytes);
void fill(void* to, int value, std::size_t bytes);
/// there_x = x; there_y = y; there_z = there_x + there_y; z = there_z: each a static loop on all cores.
void vadd(const double* x, const double* y, double* z, double* there_x, double* there_y, double* there_z,
          std::size_t n);
/// values = host; sums of blocks; values /= their sum; host = values: each a static loop on all cores.
void normalize(double* host, double* values, double* sums, std::size_t n, std::size_t block);

}  // namespace bench::raw
