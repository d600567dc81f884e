// Communicators over MPI: MPI is initialised and finalised, and its ranks find each other.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include <unistd.h>

#include <weir/mpi.hpp>

#include "mpi/goodbye.hpp"
#include "mpi/mpi_link.hpp"
#include "ranks/control.hpp"
#include "ranks/place.hpp"

namespace weir::mpi {

namespace {

using detail::Control;
using detail::RankClock;
using detail::SocketError;

constexpr const char* operation = "weir::mpi::communicator";

[[noreturn]] void refuse(Errc code, Device device, const std::string& why, SourceLocation where) {
  throw Error(code, operation, device.name(), why, where);
}

/// Of the process that initialised MPI: a child that it forks ends without a word, since MPI's connections are its parent's.
std::atomic<pid_t> initializer{0};

void finalize() {
  if (initializer.load() != getpid()) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  detail::leave_ranks();  // communicators that live, as at the end of exit(): nobody is to wait for this process
  if (!detail::ranks_failed()) detail::settle_ranks();
  if (say_goodbye()) {
    end_frees_of_links();
    MPI_Finalize();
  } else {
    std::fflush(nullptr);  // the others may never come to MPI_Finalize, which would wait for them
  }
}

/// Whether this process has left it to Weir to finalise MPI.
std::atomic<bool> finalizes{false};

void initialize(Device device, SourceLocation where) {
  static detail::Mutex mutex;
  const detail::LockGuard guard(mutex);
  int initialized = 0, finalized = 0, level = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) refuse(Errc::not_supported, device, "MPI is finalised already", where);
  MPI_Initialized(&initialized);
  if (initialized == 0) {
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
      refuse(Errc::not_supported, device, "MPI_Init_thread failed", where);
    }
    initializer.store(getpid());
    std::atexit(finalize);
    finalizes.store(true);
  }
  MPI_Query_thread(&level);
  if (level == MPI_THREAD_MULTIPLE) return;
  refuse(
      Errc::not_supported, device,
      "MPI was initialised with less than MPI_THREAD_MULTIPLE: call MPI_Init_thread with it, or leave it to this call",
      where);
}

/// What rank 0 tells the others, by MPI.
struct Meeting {
  char address[64];
  char secret[64];
  int port;
  int good;
};

bool on_one_host(MPI_Comm comm, int size) {
  MPI_Comm here = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
  int count = 0;
  MPI_Comm_size(here, &count);
  MPI_Comm_free(&here);
  int all = 0;
  const int alone = count == size ? 1 : 0;
  MPI_Allreduce(&alone, &all, 1, MPI_INT, MPI_MIN, comm);
  return all != 0;
}

Communicator join(Device device, MPI_Comm comm, int rank, int size, const CommunicatorOptions& options,
                  SourceLocation where) {
  Control::Settings settings;
  settings.rank = rank;
  settings.size = size;
  settings.checks = detail::wants_checks();
  settings.mover = detail::mover_of(device);
  auto link = std::make_unique<MpiLink>(comm);
  settings.reach = detail::reach_of(device, link.get());
  Meeting meeting{};
  const bool one_host = on_one_host(comm, size);
  std::string why = "rank 0 cannot listen";
  if (rank == 0) {
    try {
      const std::string address = one_host ? "127.0.0.1" : detail::own_address();
      auto [listening, port] = detail::listen_at(address, 0);
      settings.listening = std::move(listening);
      meeting.port = port;
      std::strncpy(meeting.address, address.c_str(), sizeof meeting.address - 1);
      std::strncpy(meeting.secret, detail::random_secret().c_str(), sizeof meeting.secret - 1);
      meeting.good = 1;
    } catch (const SocketError& error) {
      why = error.what;
    }
  }
  MPI_Bcast(&meeting, sizeof meeting, MPI_BYTE, 0, comm);
  if (meeting.good == 0) refuse(Errc::not_supported, device, why, where);
  settings.address = meeting.address;
  settings.port = meeting.port;
  settings.secret = meeting.secret;
  settings.deadline = RankClock::now() + std::min<std::chrono::nanoseconds>(options.timeout, std::chrono::hours(24));
  auto control = std::make_shared<Control>(std::move(settings));
  return detail::make_ranked(device, options, rank, size, std::make_shared<detail::SharedLink>(std::move(link)),
                             std::move(control), where);
}

}  // namespace

Communicator communicator(Device device, MPI_Comm comm, const CommunicatorOptions& options, SourceLocation where) {
  detail::check_call(operation, where);
  if (options.timeout <= std::chrono::nanoseconds(0)) {
    throw Error(Errc::invalid_value, operation, "timeout", "it is not positive", where);
  }
  initialize(device, where);
  if (comm == MPI_COMM_NULL) refuse(Errc::invalid_value, device, "the MPI communicator is MPI_COMM_NULL", where);
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  if (size == 1) return std::move(weir::communicators({device}, options, where).front());
  if (comm == MPI_COMM_WORLD) prepare_goodbye(comm, finalizes.load());
  MPI_Comm own = MPI_COMM_NULL;
  if (MPI_Comm_dup(comm, &own) != MPI_SUCCESS) refuse(Errc::not_supported, device, "MPI_Comm_dup failed", where);
  try {
    return join(device, own, rank, size, options, where);
  } catch (const SocketError& error) {
    refuse(error.kind == SocketError::Kind::gone ? Errc::rank_failed : Errc::collective_timeout, device, error.what,
           where);
  }
}

}  // namespace weir::mpi
