#include "backends/cuda/collectives/nccl_calls.hpp"

#include <algorithm>

#include "backends/cuda/collectives/staging.hpp"

namespace weir::cuda {

namespace {

using detail::CollectiveKind;
using detail::CollectiveRequest;
using detail::CollectiveShare;
using detail::Reduction;

/// gather, scatter and all_to_all: a send and a receive for each two ranks.
NcclResult exchange(const CollectiveShare& share, const NcclSide& side) {
  const NcclLibrary& library = nccl();
  const CollectiveRequest& request = share.request;
  const std::size_t bytes = request.in.present() ? request.in.layout.element_bytes : request.out.layout.element_bytes;
  NcclCommunicator* const comm = side.comm;
  const std::size_t size = side.size;
  const auto root = static_cast<std::size_t>(std::max(request.peer, 0));
  const bool is_root = side.rank == root;
  const bool all = request.kind == CollectiveKind::all_to_all;
  std::size_t sent = 0;
  std::size_t received = 0;
  for (std::size_t peer = 0; peer < size; ++peer) {
    std::size_t give = 0;
    std::size_t take = 0;
    if (all) {
      give = share.send_counts.empty() ? request.in.count() / size : share.send_counts[peer];
      take = share.receive_counts.empty() ? request.out.count() / size : share.receive_counts[peer];
    } else if (request.kind == CollectiveKind::gather) {
      give = peer == root ? request.in.count() : 0;
      take = is_root ? request.in.count() : 0;
    } else {
      give = is_root ? request.out.count() : 0;
      take = peer == root ? request.out.count() : 0;
    }
    char* const from = static_cast<char*>(side.from) + sent * bytes;
    char* const to = static_cast<char*>(side.to) + received * bytes;
    // A rank's own part of the longer array may be where it belongs.
    const bool there = peer == side.rank && give != 0 && take != 0 && from == to;
    NcclResult answer = NcclResult::success;
    if (give != 0 && !there) {
      answer = library.Send(from, give * bytes, NcclType::u8, static_cast<int>(peer), comm, side.stream);
    }
    if (take != 0 && !there && answer == NcclResult::success) {
      answer = library.Recv(to, take * bytes, NcclType::u8, static_cast<int>(peer), comm, side.stream);
    }
    if (answer != NcclResult::success) return answer;
    // What goes to one rank alone, or comes from one, is the whole array.
    if (all || request.kind == CollectiveKind::scatter) sent += give;
    if (all || request.kind == CollectiveKind::gather) received += take;
  }
  return NcclResult::success;
}

}  // namespace

NcclOperation nccl_operation(Reduction reduction) {
  switch (reduction) {
    case Reduction::multiplies: return NcclOperation::product;
    case Reduction::minimum: return NcclOperation::minimum;
    case Reduction::maximum: return NcclOperation::maximum;
    case Reduction::average: return NcclOperation::average;
    default: return NcclOperation::sum;
  }
}

bool has_two_sides(CollectiveKind kind) {
  return kind == CollectiveKind::all_to_all || kind == CollectiveKind::send || kind == CollectiveKind::receive;
}

bool is_ordered_by_data(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::all_gather ||
         kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::barrier;
}

bool moves_nothing(const CollectiveRequest& request) {
  if (request.kind == CollectiveKind::barrier) return true;
  if (request.kind == CollectiveKind::all_to_all) return false;  // ranks differ
  return request.in.count() == 0 && request.out.count() == 0;
}

bool reads(const CollectiveShare& share) {
  const CollectiveRequest& request = share.request;
  if (request.kind == CollectiveKind::broadcast) return false;  // where it writes, or reads
  return request.in.present() && (request.kind != CollectiveKind::scatter || share.rank == request.peer);
}
bool writes(const CollectiveShare& share) {
  const CollectiveRequest& request = share.request;
  const bool root = share.rank == request.peer;
  switch (request.kind) {
    case CollectiveKind::broadcast: return !root;
    case CollectiveKind::reduce:
    case CollectiveKind::gather: return root;
    default: return request.out.present();
  }
}

NcclResult call_nccl_for(const CollectiveShare& share, const NcclSide& side) {
  const NcclLibrary& library = nccl();
  const CollectiveRequest& request = share.request;
  NcclCommunicator* const comm = side.comm;
  const bool reduced = request.reduction != Reduction::none;
  const NcclElements elements = nccl_elements(request.in.present() ? request.in : request.out, reduced);
  const NcclOperation operation = nccl_operation(request.reduction);
  const std::size_t in = request.in.count() * elements.per_element;
  const std::size_t out = request.out.count() * elements.per_element;
  switch (request.kind) {
    case CollectiveKind::all_reduce:
      return library.AllReduce(side.from, side.to, in, elements.type, operation, comm, side.stream);
    case CollectiveKind::broadcast:
      return library.Broadcast(side.from, side.to, out, elements.type, request.peer, comm, side.stream);
    case CollectiveKind::reduce:
      return library.Reduce(side.from, side.to, in, elements.type, operation, request.peer, comm, side.stream);
    case CollectiveKind::all_gather: return library.AllGather(side.from, side.to, in, elements.type, comm, side.stream);
    case CollectiveKind::reduce_scatter:
      return library.ReduceScatter(side.from, side.to, out, elements.type, operation, comm, side.stream);
    case CollectiveKind::send: return library.Send(side.from, in, elements.type, request.peer, comm, side.stream);
    case CollectiveKind::receive: return library.Recv(side.to, out, elements.type, request.peer, comm, side.stream);
    default: return exchange(share, side);
  }
}

}  // namespace weir::cuda
