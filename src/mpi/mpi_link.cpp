// Data between processes by MPI's messages.
#include "mpi/mpi_link.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include <dlfcn.h>

#include "thread_safety.hpp"

namespace weir::mpi {

namespace {

using detail::Transfer;

/// "MPI (Open MPI v4.1.4)"
std::string name_of_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string_view all(text, static_cast<std::size_t>(length));
  return "MPI (" + std::string(all.substr(0, all.find_first_of(",\n"))) + ")";
}

bool is_over() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

/// Open MPI and MPICH have a function for it, whose header depends on the version.
bool is_cuda_aware() {
  if (const char* value = std::getenv("WEIR_MPI_CUDA")) return std::string_view(value) == "1";
  auto* const query = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
  return query != nullptr && query() == 1;
}

/// The library's thread may be the last that has a link, and must not free its communicator beside MPI_Finalize.
struct Frees {
  detail::Mutex mutex;
  bool over WEIR_GUARDED_BY(mutex) = false;
};
Frees& frees() {
  static auto& one = *new Frees;
  return one;
}

}  // namespace

std::size_t largest_piece() {
  // A count is an int; whole pages.
  static const std::size_t piece = [] {
    std::size_t bytes = std::size_t{1} << 30;
    if (const char* value = std::getenv("WEIR_MPI_PIECE")) {
      const std::string_view text = value;
      std::from_chars(text.data(), text.data() + text.size(), bytes);
    }
    return std::clamp<std::size_t>(bytes, 1024, std::size_t{1} << 30);
  }();
  return piece;
}

void end_frees_of_links() {
  Frees& all = frees();
  const detail::LockGuard guard(all.mutex);
  all.over = true;
}

MpiLink::MpiLink(MPI_Comm comm) : comm_(comm), name_(name_of_library()), reaches_devices_(is_cuda_aware()) {
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  int* limit = nullptr;
  int known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &known);
  if (known != 0 && limit != nullptr) tag_limit_ = static_cast<std::uint32_t>(*limit);
}

MpiLink::~MpiLink() {
  MPI_Comm comm = comm_;
  Frees& all = frees();
  const detail::LockGuard guard(all.mutex);
  if (all.over) return;
  // After a failure the others may not come to it.
  if (!abandoned_ && !is_over()) MPI_Comm_free(&comm);
}

template <class Begin>
void MpiLink::begin(Transfer& transfer, std::size_t bytes, bool receives, Begin&& begin) {
  transfer.state = Transfer::State::under_way;
  transfer.bytes = 0;
  if (bytes <= largest_piece()) {
    // The handle holds the request itself: a short message allocates nothing.
    MPI_Request request = MPI_REQUEST_NULL;
    static_assert(sizeof request <= sizeof transfer.handle[0]);
    const int error = begin(std::size_t{0}, static_cast<int>(bytes), &request);
    transfer.handle[0] = 0;
    std::copy_n(reinterpret_cast<const std::byte*>(&request), sizeof request,
                reinterpret_cast<std::byte*>(&transfer.handle[0]));
    transfer.handle[1] = receives ? 1 : 0;
    if (error != MPI_SUCCESS) transfer.state = Transfer::State::failed;
    return;
  }
  auto requests = std::make_unique<Requests>();
  requests->receives = receives;
  for (std::size_t at = 0; at < bytes; at += largest_piece()) {
    requests->pieces.push_back(MPI_REQUEST_NULL);
    const int error = begin(at, static_cast<int>(std::min(largest_piece(), bytes - at)), &requests->pieces.back());
    if (error == MPI_SUCCESS) continue;
    transfer.state = Transfer::State::failed;
    break;
  }
  transfer.bytes = bytes;
  transfer.handle[0] = reinterpret_cast<std::uintptr_t>(requests.release());
  transfer.handle[1] = 2;
}

void MpiLink::send(Transfer& transfer, int to, std::uint32_t tag, const std::byte* data, std::size_t bytes) {
  begin(transfer, bytes, false, [&](std::size_t at, int count, MPI_Request* request) {
    return MPI_Isend(data + at, count, MPI_BYTE, to, static_cast<int>(tag), comm_, request);
  });
}

void MpiLink::receive(Transfer& transfer, int from, std::uint32_t tag, std::byte* data, std::size_t room) {
  begin(transfer, room, true, [&](std::size_t at, int count, MPI_Request* request) {
    return MPI_Irecv(data + at, count, MPI_BYTE, from, static_cast<int>(tag), comm_, request);
  });
}

void MpiLink::end(Transfer& transfer, Transfer::State state) {
  if (transfer.handle[1] == 2) delete reinterpret_cast<Requests*>(transfer.handle[0]);
  transfer.handle[0] = transfer.handle[1] = 0;
  transfer.state = state;
}

void MpiLink::test(Transfer& transfer) {
  if (transfer.state != Transfer::State::under_way) return;
  const auto state_of = [](int error) {
    int error_class = MPI_SUCCESS;
    if (error != MPI_SUCCESS) MPI_Error_class(error, &error_class);
    return error == MPI_SUCCESS              ? Transfer::State::done
           : error_class == MPI_ERR_TRUNCATE ? Transfer::State::too_long
                                             : Transfer::State::failed;
  };
  int done = 0;
  if (transfer.handle[1] == 2) {
    Requests& requests = *reinterpret_cast<Requests*>(transfer.handle[0]);
    const int error =
        MPI_Testall(static_cast<int>(requests.pieces.size()), requests.pieces.data(), &done, MPI_STATUSES_IGNORE);
    if (error != MPI_SUCCESS) return end(transfer, Transfer::State::failed);
    if (done != 0) end(transfer, Transfer::State::done);
    return;
  }
  MPI_Request request;
  std::copy_n(reinterpret_cast<const std::byte*>(&transfer.handle[0]), sizeof request,
              reinterpret_cast<std::byte*>(&request));
  MPI_Status status;
  const int error = MPI_Test(&request, &done, &status);
  if (error == MPI_SUCCESS && done == 0) return;
  if (error == MPI_SUCCESS && transfer.handle[1] == 1) {
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    transfer.bytes = static_cast<std::size_t>(std::max(count, 0));
  }
  end(transfer, state_of(error));
}

bool MpiLink::cancel(Transfer& transfer) {
  if (transfer.state != Transfer::State::under_way) return true;
  constexpr std::uint64_t cancelled = std::uint64_t{1} << 32;
  if (transfer.handle[1] == 1) {
    MPI_Request request;
    std::copy_n(reinterpret_cast<const std::byte*>(&transfer.handle[0]), sizeof request,
                reinterpret_cast<std::byte*>(&request));
    MPI_Cancel(&request);
    transfer.handle[1] = 1 | cancelled;
  } else if (transfer.handle[1] == 2) {
    Requests& requests = *reinterpret_cast<Requests*>(transfer.handle[0]);
    if (requests.receives && !std::exchange(requests.cancelled, true)) {
      for (MPI_Request& request : requests.pieces) {
        if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
      }
    }
  }
  test(transfer);
  return transfer.state != Transfer::State::under_way;
}

}  // namespace weir::mpi
