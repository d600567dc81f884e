// Collectives in captures. The first rank's call makes the node, so that its stream goes on behind it; the others add what it
// comes behind, and the last one what it does.
#include "core/collectives/captured_call.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include <weir/kernel.hpp>

#include "core/graphs/capture.hpp"

namespace weir::detail {

namespace {

using SharedWork = std::shared_ptr<const CollectiveWork>;

constexpr std::size_t piece_bytes = 32 * 1024;

std::size_t piece_of(const CollectiveWork& work) {
  return std::max<std::size_t>(1, piece_bytes / work.element_bytes());
}

/// Its index counts pieces.
constexpr Kernel work_kernel{
    .name = "collective",
    .rank = 1,
    .regions = 0,
    .closure_bytes = sizeof(SharedWork),
    .closure_align = alignof(SharedWork),
    .run =
        [](const void* closure, const KernelRange& range) {
          const CollectiveWork& work = **static_cast<const SharedWork*>(closure);
          work.run(range.begin * piece_of(work), std::min(range.end * piece_of(work), work.extent()));
        },
    .run_blocks = nullptr,
    .copy = [](void* to, const void* from) { ::new (to) SharedWork(*static_cast<const SharedWork*>(from)); },
    .destroy = [](void* closure) noexcept { static_cast<SharedWork*>(closure)->~SharedWork(); },
    .device_code = nullptr,
};

/// Whether some of `from` come behind `node`.
bool come_behind(const GraphForm& form, std::vector<std::uint32_t> from, std::uint32_t node) {
  std::vector<bool> seen(form.nodes.size());
  while (!from.empty()) {
    const std::uint32_t one = from.back();
    from.pop_back();
    if (one == node) return true;
    if (seen[one]) continue;
    seen[one] = true;
    const auto& before = form.nodes[one].depends;
    from.insert(from.end(), before.begin(), before.end());
  }
  return false;
}

/// The node, and what it is inside of, from there outwards.
std::vector<std::uint32_t> around(const GraphForm& form, std::uint32_t node) {
  std::vector<std::uint32_t> all{node};
  while (form.nodes[all.back()].parent >= 0) all.push_back(static_cast<std::uint32_t>(form.nodes[all.back()].parent));
  return all;
}

/// Where one of them is inside of a body, the outermost node around it that the other is not inside of is meant.
void put_behind(GraphForm& form, std::uint32_t node, std::uint32_t earlier) {
  for (const std::uint32_t first : around(form, earlier)) {
    for (const std::uint32_t second : around(form, node)) {
      const FormNode& a = form.nodes[first];
      FormNode& b = form.nodes[second];
      if (a.parent != b.parent || a.branch != b.branch) continue;
      if (first != second && !come_behind(form, b.depends, first)) b.depends.push_back(first);
      return;
    }
  }
}

/// A communicator is ordered like a stream, whatever streams its collectives are in.
void keep_order(Capture& capture, std::uint64_t communicator, std::vector<int> pair, std::uint32_t node) {
  auto& all = capture.last_collectives;
  const auto last = std::find_if(all.begin(), all.end(), [&](const Capture::LastCollective& one) {
    return one.communicator == communicator && one.pair == pair;
  });
  if (last == all.end()) {
    all.push_back({communicator, std::move(pair), node});
  } else {
    put_behind(capture.form, node, std::exchange(last->node, node));
  }
}

}  // namespace

bool is_collective(const Launch& launch) { return launch.kernel == &work_kernel; }

bool is_captured_still(const CapturedCall& call) {
  const LockGuard guard(captures_lock());
  return find_capture(call.capture) != nullptr;
}

void CommunicatorState::call_captured(int rank, const Offer& offer) {
  const CollectiveRequest& request = offer.request;
  const char* operation = operation_of(request.kind);
  const LockGuard capturing(captures_lock());
  Recorder* const recorder = offer.stream.state()->recorder.load(std::memory_order_relaxed);
  Capture* const capture = recorder != nullptr ? recorder->capture : nullptr;
  if (capture == nullptr || capture->by_hand || recorder->edit != nullptr) {
    throw Error(Errc::not_supported, operation, describe(rank),
                "collectives become nodes by capture alone, and this stream's has ended or is none", offer.where);
  }
  capture->check_valid(operation, describe(rank), offer.where);
  capture->check_scope(*recorder, operation, offer.where);
  const auto break_capture = [&](Errc code, const std::string& why) {
    const Error error(code, operation, describe(rank), why, offer.where);
    capture->broken = error;
    throw Error(error);
  };
  if (std::any_of(open.begin(), open.end(),
                  [&](const CallReference& one) { return !one->offer(one->index_of(rank)); })) {
    break_capture(Errc::capture_isolation, "other ranks called this, and do not capture it");
  }
  std::erase_if(captured, [](const auto& one) { return !is_captured_still(*one); });

  const std::vector<int> ranks_of_call = ranks_of(request, rank, size_);
  const std::size_t index = index_of(request, rank);
  auto found = std::find_if(captured.begin(), captured.end(), [&](const auto& one) {
    const CollectiveKind kind =
        std::find_if(one->offers.begin(), one->offers.end(), [](const auto& other) { return other.has_value(); })
            ->value()
            .request.kind;
    return is_pair(kind) == is_pair(request.kind) && one->ranks == ranks_of_call && !one->offers[index];
  });
  const bool fresh = found == captured.end();
  if (!fresh && (*found)->capture != capture->id) {
    break_capture(Errc::capture_isolation, "another rank of this process captured it into another graph");
  }
  if (!fresh) {
    const FormNode& node = capture->form.nodes[(*found)->node];
    if (ScopeOf{node.parent, node.branch} != capture->scope) {
      break_capture(Errc::capture_isolation,
                    "another rank of this process called it in another body of a conditional node, or in none");
    }
    for (std::size_t i = 0; i < (*found)->ranks.size(); ++i) {
      if (!(*found)->offers[i]) continue;
      const std::string why = difference(rank, offer, (*found)->ranks[i], *(*found)->offers[i]);
      if (!why.empty()) break_capture(Errc::collective_mismatch, why);
    }
    if (come_behind(capture->form, recorder->tails, (*found)->node)) {
      break_capture(Errc::graph_cycle, "this stream comes behind the collective that it is about to take part in");
    }
  }

  Region regions[2];
  const std::size_t uses = check_offer(*this, rank, offer, true, regions);
  if (fresh) {
    auto call = std::make_shared<CapturedCall>();
    call->capture = capture->id;
    call->ranks = std::move(ranks_of_call);
    call->offers.resize(call->ranks.size());
    captured.reserve(captured.size() + 1);
    call->node = capture->add(*recorder, NodeKind::empty, nullptr, offer.where);
    captured.push_back(std::move(call));
    found = captured.end() - 1;
    ++capture->open_collectives;
    keep_order(*capture, id, is_pair(request.kind) ? (*found)->ranks : std::vector<int>{}, (*found)->node);
  } else {
    auto& before = capture->form.nodes[(*found)->node].depends;
    for (const std::uint32_t tail : recorder->tails) {
      if (std::find(before.begin(), before.end(), tail) == before.end()) before.push_back(tail);
    }
    recorder->tails.assign(1, (*found)->node);
  }
  CapturedCall& call = **found;
  call.offers[index] = offer;
  call.uses.insert(call.uses.end(), regions, regions + uses);
  if (!std::all_of(call.offers.begin(), call.offers.end(), [](const auto& one) { return one.has_value(); })) return;
  const SharedWork work = std::make_shared<const CollectiveWork>(work_of(call.offers));
  if (work->extent() != 0) {
    Command command;
    command.where = offer.where;
    command.uses = call.uses;
    command.op =
        Launch{&work_kernel,         &work, Shape((work->extent() + piece_of(*work) - 1) / piece_of(*work)), 0, 0, 0,
               name_of(request.kind)};
    capture->complete(call.node, NodeKind::launch, std::make_shared<Payload>(command));
  }
  --capture->open_collectives;
  captured.erase(found);
}

}  // namespace weir::detail
