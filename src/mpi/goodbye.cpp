// Whether all processes finalise MPI: each tells rank 0 when it ends, and rank 0 answers when all have, or one has failed.
#include "mpi/goodbye.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "back_off.hpp"
#include "ranks/place.hpp"
#include "thread_safety.hpp"

namespace weir::mpi {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int to_first = 1, from_first = 2;
constexpr std::chrono::milliseconds patience_with_failed{500};  ///< until what was said is surely out

struct World {
  detail::Mutex mutex;
  bool prepared WEIR_GUARDED_BY(mutex) = false;
  MPI_Comm comm WEIR_GUARDED_BY(mutex) = MPI_COMM_NULL;  ///< null: not all leave it to Weir
};
World& world_here() {
  static auto& one = *new World;
  return one;
}

/// What is under way may outlive the call that began it.
struct Words {
  std::vector<int> failed;  ///< what each rank says; of others than rank 0, the answer first
  std::vector<MPI_Request> heard;
  std::vector<MPI_Request> said;
  int own = 0;

  void hear(MPI_Comm comm, int from, int tag) {
    heard.push_back(MPI_REQUEST_NULL);
    MPI_Irecv(&failed[heard.size() - 1], 1, MPI_INT, from, tag, comm, &heard.back());
  }
  void say(MPI_Comm comm, int to, int tag) {
    said.push_back(MPI_REQUEST_NULL);
    MPI_Isend(&own, 1, MPI_INT, to, tag, comm, &said.back());
  }
  static bool over(std::vector<MPI_Request>& requests) {
    int all = 0;
    const int error = MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE);
    return error != MPI_SUCCESS || all != 0;
  }
};

/// Looks at what is under way until `done`.
template <class F>
void look_until(F&& done) {
  const auto began = Clock::now();
  for (int looks = 0; !done(); ++looks) {
    if (Clock::now() - began < std::chrono::milliseconds(2)) {
      detail::back_off(looks);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

}  // namespace

void prepare_goodbye(MPI_Comm world, bool finalizes) {
  World& here = world_here();
  const detail::LockGuard guard(here.mutex);
  if (here.prepared) return;
  here.prepared = true;
  const int mine = finalizes ? 1 : 0;
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, world);
  if (all == 0 || MPI_Comm_dup(world, &here.comm) != MPI_SUCCESS) return;
  MPI_Comm_set_errhandler(here.comm, MPI_ERRORS_RETURN);
}

bool say_goodbye() {
  MPI_Comm comm = MPI_COMM_NULL;
  {
    World& here = world_here();
    const detail::LockGuard guard(here.mutex);
    comm = here.comm;
  }
  if (comm == MPI_COMM_NULL) return !detail::ranks_failed();
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  Words& words = *new Words;
  // Requests and words stay where they are.
  words.failed.assign(static_cast<std::size_t>(size), 0);
  words.heard.reserve(static_cast<std::size_t>(size));
  words.said.reserve(static_cast<std::size_t>(size));
  const auto failed = [&] {
    return detail::ranks_failed() ||
           std::any_of(words.failed.begin(), words.failed.end(), [](int one) { return one != 0; });
  };
  if (rank == 0) {
    for (int r = 1; r < size; ++r) words.hear(comm, r, to_first);
    look_until([&] { return Words::over(words.heard) || failed(); });
    words.own = failed() ? 1 : 0;
    for (int r = 1; r < size; ++r) words.say(comm, r, from_first);
  } else {
    words.own = failed() ? 1 : 0;
    words.hear(comm, 0, from_first);
    words.say(comm, 0, to_first);
    look_until([&] { return Words::over(words.heard) || failed(); });
  }
  const bool good = !failed();
  const auto until = Clock::now() + patience_with_failed;
  look_until([&] {
    const bool over = Words::over(words.said) && (rank == 0 || Words::over(words.heard));
    return over || (!good && Clock::now() >= until);
  });
  if (!good) return false;  // some words are still under way, in memory that MPI knows
  delete &words;
  MPI_Comm_free(&comm);
  return true;
}

}  // namespace weir::mpi
