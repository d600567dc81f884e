// Collectives in captures. The first rank's call makes the node, so that its stream goes on behind it; the others add what it
// comes behind, and the last one what it does.
#include "core/collectives/captured_call.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include <weir/kernel.hpp>

#include "core/graphs/capture.hpp"
#include "core/ranks/ranked_state.hpp"

namespace weir::detail {

namespace {

/// Of ranks whose transport leaves it to the host's kernels.
struct CapturedWork {
  CollectiveWork work;
  std::shared_ptr<CommunicatorState> communicator;
};
using SharedWork = std::shared_ptr<const CapturedWork>;

constexpr std::size_t piece_bytes = 32 * 1024;

std::size_t piece_of(const CollectiveWork& work) {
  return std::max<std::size_t>(1, piece_bytes / work.element_bytes());
}

/// A launch that keeps what `Shared` points to.
template <class Shared>
constexpr Kernel keeping_kernel(void (*run)(const void* closure, const KernelRange& range)) {
  return {
      .name = "collective",
      .rank = 1,
      .regions = 0,
      .closure_bytes = sizeof(Shared),
      .closure_align = alignof(Shared),
      .run = run,
      .run_blocks = nullptr,
      .copy = [](void* to, const void* from) { ::new (to) Shared(*static_cast<const Shared*>(from)); },
      .destroy = [](void* closure) noexcept { static_cast<Shared*>(closure)->~Shared(); },
      .device_code = nullptr,
  };
}

/// Its index counts pieces.
constexpr Kernel work_kernel = keeping_kernel<SharedWork>([](const void* closure, const KernelRange& range) {
  const CollectiveWork& work = (*static_cast<const SharedWork*>(closure))->work;
  work.run(range.begin * piece_of(work), std::min(range.end * piece_of(work), work.extent()));
});

/// Of ranks whose transport makes of it what its own library does.
class HandedCollective final : public CapturedCollective {
 public:
  HandedCollective(std::shared_ptr<CommunicatorState> communicator, std::vector<int> ranks, std::vector<Offer> offers)
      : communicator_(std::move(communicator)), ranks_(std::move(ranks)), offers_(std::move(offers)) {}
  CollectiveTransport& transport() const override { return *communicator_->transport; }
  std::size_t size() const override { return ranks_.size(); }
  CollectiveShare share(std::size_t index) const override {
    const Offer& offer = offers_[index];
    return {ranks_[index], offer.request, offer.send_counts, offer.receive_counts, offer.where};
  }
  const std::shared_ptr<CommunicatorState>& communicator() const { return communicator_; }

 private:
  std::shared_ptr<CommunicatorState> communicator_;
  std::vector<int> ranks_;
  std::vector<Offer> offers_;
};
using SharedCollective = std::shared_ptr<const CapturedCollective>;

using SharedRank = std::shared_ptr<const CapturedRank>;

/// Of a rank whose other ranks are other processes. Nobody runs it: see CallingGraph.
constexpr Kernel rank_kernel = keeping_kernel<SharedRank>(nullptr);

/// Of a child graph or conditional node: whether there are any inside of it.
bool has_host_functions(const GraphForm& form, std::uint32_t node) {
  if (form.nodes[node].kind != NodeKind::graph && form.nodes[node].kind != NodeKind::conditional) return false;
  for (std::size_t i = node + 1; i < form.nodes.size(); ++i) {
    if (form.nodes[i].kind != NodeKind::host_call) continue;
    for (std::int32_t outer = form.nodes[i].parent; outer >= 0;
         outer = form.nodes[static_cast<std::size_t>(outer)].parent) {
      if (outer == static_cast<std::int32_t>(node)) return true;
    }
  }
  return false;
}

/// Whether a host function, whose failure would not keep NCCL's like from running, stands before one of `from`.
bool behind_host_function(const GraphForm& form, std::vector<std::uint32_t> from) {
  std::vector<bool> seen(form.nodes.size());
  while (!from.empty()) {
    const std::uint32_t one = from.back();
    from.pop_back();
    if (seen[one]) continue;
    seen[one] = true;
    if (form.nodes[one].kind == NodeKind::host_call || has_host_functions(form, one)) return true;
    const auto& before = form.nodes[one].depends;
    from.insert(from.end(), before.begin(), before.end());
  }
  return false;
}

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

bool moves_nothing(const CapturedCall& call) {
  return std::all_of(call.offers.begin(), call.offers.end(), [](const auto& offer) {
    return offer->request.kind == CollectiveKind::barrier ||
           offer->request.in.count() + offer->request.out.count() == 0;
  });
}

/// A driver that cannot do its part makes the capture void.
template <class Do>
void do_with_driver(Capture& capture, const Recorder& recorder, const char* operation, SourceLocation where,
                    const Do& part) {
  try {
    part();
  } catch (const std::exception& exception) {
    const auto* error = dynamic_cast<const Error*>(&exception);
    capture.broken = error != nullptr ? *error
                                      : Error(Errc::capture_invalidated, operation, "stream '" + recorder.name + "'",
                                              exception.what(), where);
    throw;
  }
}

/// Where collectives become nodes.
WEIR_NEEDS(captures_lock())
Recorder& recorder_of(const Offer& offer, const std::string& object, bool in_no_body, std::string_view transport) {
  const char* operation = operation_of(offer.request.kind);
  Recorder* const recorder = offer.stream.state()->recorder.load(std::memory_order_relaxed);
  Capture* const capture = recorder != nullptr ? recorder->capture : nullptr;
  if (capture == nullptr || capture->by_hand || recorder->edit != nullptr) {
    throw Error(Errc::not_supported, operation, object,
                "collectives become nodes by capture alone, and this stream's has ended or is none", offer.where);
  }
  capture->check_valid(operation, object, offer.where);
  capture->check_scope(*recorder, operation, offer.where);
  if (in_no_body && capture->scope.parent >= 0) {
    throw Error(Errc::not_supported, operation, object,
                "in the body of a conditional node collectives by " + std::string(transport) +
                    " cannot run: call it before or behind the node",
                offer.where);
  }
  return *recorder;
}

}  // namespace

/// Nobody runs it.
constexpr Kernel captured_collective_kernel = keeping_kernel<SharedCollective>(nullptr);

bool is_collective(const Launch& launch) {
  return launch.kernel == &work_kernel || launch.kernel == &captured_collective_kernel || launch.kernel == &rank_kernel;
}

const CapturedRank* captured_rank_of(const FormNode& node) {
  const auto* const launch = node.payload ? std::get_if<Launch>(&node.payload->op()) : nullptr;
  if (launch == nullptr || launch->kernel != &rank_kernel) return nullptr;
  return static_cast<const SharedRank*>(launch->closure)->get();
}

std::shared_ptr<CommunicatorState> called_by_launches(const Launch& launch) {
  if (launch.kernel == &work_kernel) {
    const auto& communicator = (*static_cast<const SharedWork*>(launch.closure))->communicator;
    return communicator->gated ? communicator : nullptr;
  }
  const CapturedCollective* const said = captured_collective_of(launch);
  return said != nullptr ? static_cast<const HandedCollective*>(said)->communicator() : nullptr;
}

bool is_handed_collective(const FormNode& node) {
  const auto* const launch = node.payload ? std::get_if<Launch>(&node.payload->op()) : nullptr;
  return launch != nullptr && captured_collective_of(*launch) != nullptr;
}

std::vector<std::shared_ptr<CommunicatorState>> communicators_of(const GraphForm& form) {
  std::vector<std::shared_ptr<CommunicatorState>> all;
  for (const FormNode& node : form.nodes) {
    const auto* const launch = node.payload ? std::get_if<Launch>(&node.payload->op()) : nullptr;
    const auto one = launch != nullptr ? called_by_launches(*launch) : nullptr;
    if (one != nullptr && std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
  }
  // Who launches two at once takes them in one order.
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  return all;
}

bool is_captured_still(const CapturedCall& call) {
  const LockGuard guard(captures_lock());
  return find_capture(call.capture) != nullptr;
}

void CommunicatorState::capture_rank(int rank, const Offer& offer, std::span<const Region> uses) {
  const LockGuard capturing(captures_lock());
  const char* operation = operation_of(offer.request.kind);
  Recorder& recorder = recorder_of(offer, describe(rank), true, ranked->transport());
  Capture& capture = *recorder.capture;
  const SharedRank said = std::make_shared<const CapturedRank>(CapturedRank{shared_from_this(), rank, offer});
  Command command;
  command.where = offer.where;
  command.uses = uses;
  command.op = Launch{&rank_kernel, &said, Shape(1), 0, 0, 0, name_of(offer.request.kind)};
  auto payload = std::make_shared<Payload>(command);
  capture.last_collectives.reserve(capture.last_collectives.size() + 1);
  const std::uint32_t node = capture.add_to_unit(recorder, offer.unit, std::move(payload), offer.where);
  const bool pair = is_pair(offer.request.kind);
  keep_order(capture, id, pair ? ranks_of(offer.request, rank, size_) : std::vector<int>{}, node);
  if (recorder.driver == nullptr) return;
  do_with_driver(capture, recorder, operation, offer.where, [&] {
    recorder.driver->capture_part(node, 0, offer.where);
    recorder.driver->capture_collective(capture.form, node);
  });
}

void CommunicatorState::call_captured(int rank, const Offer& offer) {
  const CollectiveRequest& request = offer.request;
  const char* operation = operation_of(request.kind);
  const bool handed = !transport->traits().by_elements;
  if (handed) {
    transport->check_captured(request, describe(rank), offer.where);
    transport->start(offer.where);
  }
  const LockGuard capturing(captures_lock());
  Recorder* const recorder = &recorder_of(offer, describe(rank), handed, transport->name());
  Capture* const capture = recorder->capture;
  if (handed && behind_host_function(capture->form, recorder->tails)) {
    throw Error(Errc::capture_unsupported, operation, describe(rank),
                "it would come behind a host function of its graph, and " + std::string(transport->name()) +
                    " would run it although that failed: call the host function in a graph or stream before this one",
                offer.where);
  }
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
  if (recorder->driver != nullptr && handed) {
    do_with_driver(*capture, *recorder, operation, offer.where,
                   [&] { recorder->driver->capture_part(call.node, index, offer.where); });
  }
  if (!std::all_of(call.offers.begin(), call.offers.end(), [](const auto& one) { return one.has_value(); })) return;
  Command command;
  command.where = offer.where;
  command.uses = call.uses;
  const auto complete = [&](const Kernel& kernel, const void* closure, std::size_t extent) {
    command.op = Launch{&kernel, closure, Shape(extent), 0, 0, 0, name_of(request.kind)};
    capture->complete(call.node, NodeKind::launch, std::make_shared<Payload>(command));
  };
  if (handed) {
    // All devices run those of all communicators in one order.
    if (capture->last_handed) {
      if (come_behind(capture->form, {*capture->last_handed}, call.node)) {
        break_capture(Errc::graph_cycle, "its ranks call it and another collective in opposite order");
      }
      auto& before = capture->form.nodes[call.node].depends;
      if (std::find(before.begin(), before.end(), *capture->last_handed) == before.end()) {
        before.push_back(*capture->last_handed);
      }
    }
    if (!moves_nothing(call)) {
      std::vector<Offer> offers;
      for (const auto& one : call.offers) offers.push_back(*one);
      const SharedCollective said =
          std::make_shared<const HandedCollective>(shared_from_this(), call.ranks, std::move(offers));
      complete(captured_collective_kernel, &said, 1);
      capture->last_handed = call.node;
    }
    if (recorder->driver != nullptr) {
      do_with_driver(*capture, *recorder, operation, offer.where,
                     [&] { recorder->driver->capture_collective(capture->form, call.node); });
    }
  } else {
    const SharedWork one = std::make_shared<const CapturedWork>(CapturedWork{work_of(call.offers), shared_from_this()});
    const std::size_t extent = one->work.extent(), piece = piece_of(one->work);
    if (extent != 0) complete(work_kernel, &one, (extent + piece - 1) / piece);
  }
  --capture->open_collectives;
  captured.erase(found);
}

}  // namespace weir::detail
