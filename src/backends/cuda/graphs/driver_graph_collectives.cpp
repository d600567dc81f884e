// Collectives: one group of NCCL's calls becomes kernels of all ranks' devices in one graph.
#include <algorithm>
#include <set>
#include <utility>

#include "backends/cuda/collectives/call_order.hpp"
#include "backends/cuda/collectives/nccl_calls.hpp"
#include "backends/cuda/collectives/nccl_ranks.hpp"
#include "backends/cuda/collectives/nccl_transport.hpp"
#include "backends/cuda/collectives/reduce_boxes.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/graphs/driver_graph.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/group_launches.hpp"

namespace weir::cuda {

using detail::CapturedCollective;
using detail::CollectiveShare;
using detail::FormNode;
using detail::GraphForm;

void DriverGraph::reduce_in_boxes(const CapturedCollective& collective, const std::vector<Side>& sides,
                                  const ReduceBoxes& boxes, SourceLocation where) {
  std::vector<ReduceBoxes::Side> shares;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const CollectiveShare share = collective.share(i);
    shares.push_back({static_cast<std::size_t>(share.rank), share.request.in.data, share.request.out.data,
                      sides[i].queue->stream(where)});
  }
  boxes.reduce(collective.share(0).request, shares, {}, where);
}

void DriverGraph::call_nccl_for_all(const CapturedCollective& collective, const std::vector<Side>& sides,
                                    const NcclRanks& ranks, SourceLocation where) {
  check_nccl(nccl().GroupStart(), "ncclGroupStart", where);
  NcclResult answer = NcclResult::success;
  for (std::size_t i = 0; i < sides.size() && answer == NcclResult::success; ++i) {
    const CollectiveShare share = collective.share(i);
    const auto& request = share.request;
    if (has_two_sides(request.kind) && request.in.count() + request.out.count() == 0) continue;
    const auto rank = static_cast<std::size_t>(share.rank);
    void* const from = request.kind == detail::CollectiveKind::broadcast ? request.out.data : request.in.data;
    answer = call_nccl_for(
        share, {ranks.comms[rank], rank, ranks.comms.size(), from, request.out.data, sides[i].queue->stream(where)});
  }
  const NcclResult end = nccl().GroupEnd();
  check_nccl(answer, "a call of NCCL", where);
  check_nccl(end, "ncclGroupEnd", where);
}

void DriverGraph::open_part(CudaQueue& queue, std::size_t node, std::size_t index, SourceLocation where) {
  OpenPart part{node, index, &queue, {}, nullptr};
  const DeviceScope scope(queue.device().index());
  check(capture_tails(queue.stream(where), part.behind), making, queue.label(), where);
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeEmpty;
  check(add_node(recording_->graph, {}, parameters, &part.end), making, queue.label(), where);
  check(set_capture_tails(queue.stream(where), {part.end}), making, queue.label(), where);
  open_parts_.push_back(std::move(part));
}

void DriverGraph::close_parts(const GraphForm& form, std::size_t node) {
  const FormNode& one = form.nodes[node];
  const SourceLocation where = one.where;
  const DeviceScope scope(device_.index());
  std::vector<OpenPart> parts;
  for (OpenPart& part : open_parts_) {
    if (part.node == node) parts.push_back(std::move(part));
  }
  std::erase_if(open_parts_, [&](const OpenPart& part) { return part.node == node; });
  std::sort(parts.begin(), parts.end(), [](const OpenPart& a, const OpenPart& b) { return a.index < b.index; });
  Nodes all;
  for (const OpenPart& part : parts) append_new(all, part.behind);
  cudaGraph_t const graph = recording_->graph;
  DriverNodes became;
  became.graph = graph;
  became.place = place();
  const auto* launch = one.payload ? std::get_if<Launch>(&one.payload->op()) : nullptr;
  const CapturedCollective* const collective = launch != nullptr ? detail::captured_collective_of(*launch) : nullptr;
  if (collective == nullptr) {  // it moves nothing
    for (const OpenPart& part : parts) {
      for (cudaGraphNode_t before : all) check(add_dependency(graph, before, part.end), making, {}, where);
      became.nodes.push_back(part.end);
      became.ends.push_back(part.end);
    }
    made(node) = std::move(became);
    return;
  }
  const bool ordered = is_ordered_by_data(collective->share(0).request.kind);
  std::vector<Side> sides;
  std::vector<Nodes> present(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CudaQueue& queue = *parts[i].queue;
    check(capture_tails(queue.stream(where), present[i]), making, queue.label(), where);
    sides.push_back({&queue, ordered ? parts[i].behind : all, {}});
    for (const auto& [device, ends] : recording_->last_collective) {
      if (device == &queue.device()) append_new(sides.back().behind, ends);
    }
  }
  call_collective(*collective, sides, became, where);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CudaQueue& queue = *parts[i].queue;
    for (cudaGraphNode_t end : sides[i].ends) check(add_dependency(graph, end, parts[i].end), making, {}, where);
    const bool unused = present[i] == Nodes{parts[i].end};
    if (unused) unused_ends_.emplace_back(node, parts[i].end);
    check(set_capture_tails(queue.stream(where), unused ? sides[i].ends : present[i]), making, queue.label(), where);
    became.nodes.push_back(parts[i].end);
    append_new(became.ends, sides[i].ends);
    std::erase_if(recording_->last_collective, [&](const auto& last) { return last.first == &queue.device(); });
    recording_->last_collective.emplace_back(&queue.device(), sides[i].ends);
  }
  own(one.payload.shared());
  became.owned = std::exchange(present_owned_, {});
  made(node) = std::move(became);
}

void DriverGraph::forget_unused_ends() noexcept {
  Nodes behind;
  for (const auto& [node, end] : std::exchange(unused_ends_, {})) {
    const cudaError_t answer = dependents_of(end, behind);
    note(answer);
    if (answer != cudaSuccess || !behind.empty()) continue;  // something was forked there
    std::erase(nodes_[node].nodes, end);
    note(cudaGraphDestroyNode(end));
  }
}

void DriverGraph::add_collective(const GraphForm& form, std::uint32_t node, const Nodes& behind,
                                 const CapturedCollective& collective) {
  const FormNode& one = form.nodes[node];
  const auto& devices = static_cast<NcclTransport&>(collective.transport()).ranks()->devices;
  CudaQueue& main = *recording_->main;
  std::vector<Side> sides;
  for (std::size_t i = 0; i < collective.size(); ++i) {
    CudaDevice& device = *devices[static_cast<std::size_t>(collective.share(i).rank)];
    const bool is_main = &main.device() == &device && main.priority() == one.priority;
    sides.push_back({is_main ? &main : &helper(device, one.priority, one.where), behind, {}});
  }
  DriverNodes became;
  became.graph = recording_->graph;
  became.place = place();
  call_collective(collective, sides, became, one.where);
  for (const Side& side : sides) append_new(became.ends, side.ends);
  own(one.payload.shared());
  became.owned = std::exchange(present_owned_, {});
  made(node) = std::move(became);
}

void DriverGraph::call_collective(const CapturedCollective& collective, std::vector<Side>& sides, DriverNodes& became,
                                  SourceLocation where) {
  auto& transport = static_cast<NcclTransport&>(collective.transport());
  for (const Side& side : sides) {
    check(set_capture_tails(side.queue->stream(where), side.behind), making, side.queue->label(), where);
  }
  Nodes before;
  check(nodes_in(recording_->graph, before), making, device_.name(), where);
  {
    const CallOrderLock order(!CallOrder::is_mine());
    const detail::LockGuard in_use(transport.ranks()->in_use);
    if (transport.abandoned()) {
      throw Error(Errc::rank_failed, making, device_.name(), "the communicator of one of its collectives has failed",
                  where);
    }
    make_ranks(*transport.ranks(), where);
    const NcclRanks& ranks = *transport.ranks();
    const DeviceScope scope(sides.front().queue->device().index());
    const detail::LockGuard whole(group_launches());
    if (ranks.boxes.suit(collective.share(0).request)) {
      reduce_in_boxes(collective, sides, ranks.boxes, where);
    } else {
      call_nccl_for_all(collective, sides, ranks, where);
    }
  }
  own(keep_for_graph(transport.ranks()));
  for (Side& side : sides) {
    check(capture_tails(side.queue->stream(where), side.ends), making, side.queue->label(), where);
  }
  const std::set<cudaGraphNode_t> known(before.begin(), before.end());
  check(nodes_in(recording_->graph, became.nodes), making, device_.name(), where);
  std::erase_if(became.nodes, [&](cudaGraphNode_t node) { return known.count(node) != 0; });
}

}  // namespace weir::cuda
