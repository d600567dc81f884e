#include "backends/fake_cuda/nccl/processes.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "back_off.hpp"
#include "backends/fake_cuda/nccl/loops.hpp"

namespace fake_nccl {

namespace {

constexpr std::size_t most_calls = 64;
constexpr std::size_t room_of_rank = std::size_t{512} << 20;  // of which no page is there that nobody writes
constexpr std::size_t most_ranks = 16;

struct Said {
  Call call;
  std::size_t at;  ///< where its input is among the rank's data
};

std::byte* data_of(Shared& shared, int rank);

}  // namespace

struct Shared {
  std::atomic<unsigned> joined;
  std::atomic<unsigned> waiting;
  std::atomic<unsigned> round;
  std::size_t counts[most_ranks];
  Said said[most_ranks][most_calls];
};

namespace {

constexpr std::size_t head_bytes = (sizeof(Shared) / 4096 + 1) * 4096;

std::byte* data_of(Shared& shared, int rank) {
  return reinterpret_cast<std::byte*>(&shared) + head_bytes + static_cast<std::size_t>(rank) * room_of_rank;
}

/// False: it was stopped.
bool meet(Shared& shared, int size, const std::atomic<bool>& stopped) {
  const unsigned round = shared.round.load();
  if (shared.waiting.fetch_add(1) + 1 == static_cast<unsigned>(size)) {
    shared.waiting.store(0);
    shared.round.fetch_add(1);
    return true;
  }
  for (int looks = 0; shared.round.load() == round; ++looks) {
    if (stopped.load()) return false;
    weir::detail::back_off(looks);
  }
  return true;
}

std::size_t input_bytes(const Call& call) {
  if (call.from == nullptr || call.kind == Kind::receive) return 0;
  const bool all_parts = call.kind == Kind::reduce_scatter;
  return call.count * bytes_of(call.type) * (all_parts ? static_cast<std::size_t>(call.size) : 1);
}

}  // namespace

void make_id(char* id) {
  static std::atomic<int> next{0};
  std::memset(id, 0, 128);
  std::snprintf(id, 128, "/weir-fake-nccl-%d-%d", static_cast<int>(getpid()), next.fetch_add(1));
}

Shared* join(const char* id, int rank, int size) {
  if (static_cast<std::size_t>(size) > most_ranks) return nullptr;
  const std::size_t bytes = head_bytes + static_cast<std::size_t>(size) * room_of_rank;
  const int file = shm_open(id, O_RDWR | O_CREAT, 0600);
  if (file < 0) return nullptr;
  void* const memory = ftruncate(file, static_cast<off_t>(bytes)) == 0
                           ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0)
                           : MAP_FAILED;
  close(file);
  if (memory == MAP_FAILED) return nullptr;
  auto& shared = *static_cast<Shared*>(memory);  // all zero at first
  shared.joined.fetch_add(1);
  for (int looks = 0; shared.joined.load() < static_cast<unsigned>(size); ++looks) weir::detail::back_off(looks);
  if (rank == 0) shm_unlink(id);
  return &shared;
}

void run_with_others(Shared& shared, int rank, int size, const std::vector<Call>& own,
                     const std::atomic<bool>& stopped) {
  const auto mine = static_cast<std::size_t>(rank);
  std::size_t at = 0;
  shared.counts[mine] = own.size();
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::size_t bytes = input_bytes(own[i]);
    if (bytes != 0) std::memcpy(data_of(shared, rank) + at, own[i].from, bytes);
    shared.said[mine][i] = {own[i], at};
    at += bytes;
  }
  if (!meet(shared, size, stopped)) return;
  std::vector<Call> all;
  for (int r = 0; r < size; ++r) {
    for (std::size_t i = 0; i < shared.counts[r]; ++i) {
      Call call = shared.said[r][i].call;
      call.from = data_of(shared, r) + shared.said[r][i].at;
      if (r != rank) call.to = nullptr;
      all.push_back(call);
    }
  }
  run(all);
  meet(shared, size, stopped);
}

}  // namespace fake_nccl
