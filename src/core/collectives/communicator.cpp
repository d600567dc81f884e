// Communicators, as users have them.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "core/collectives/communicator_state.hpp"
#include "core/ranks/environment.hpp"
#include "core/ranks/ranked_state.hpp"

namespace weir {

using namespace detail;

namespace {

std::vector<Communicator> members_of(const std::shared_ptr<CommunicatorState>& state) {
  std::vector<Communicator> members;
  for (std::size_t r = 0; r < state->size(); ++r) {
    members.push_back(Communicator(std::make_unique<Member>(state, static_cast<int>(r))));
  }
  return members;
}

std::shared_ptr<CommunicatorState> make_state(const std::vector<Device>& devices, const CommunicatorOptions& options,
                                              SourceLocation where) {
  auto state = std::make_shared<CommunicatorState>(devices, options, where);
  watch(state);
  return state;
}

/// All ranks have chosen: a communicator for each color.
void decide(CommunicatorState::Split& split, CommunicatorState& state, SourceLocation where) WEIR_NEEDS(state.mutex) {
  std::vector<CommunicatorState::Split::Choice> order;
  for (const auto& choice : split.choices) order.push_back(*choice);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.color != b.color ? a.color < b.color : a.key < b.key; });
  std::vector<std::pair<std::shared_ptr<CommunicatorState>, int>> results(order.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    std::vector<Device> theirs;
    for (; last < order.size() && order[last].color == order[first].color; ++last) {
      theirs.push_back(state.ranks[static_cast<std::size_t>(order[last].rank)].device);
    }
    const auto made = make_state(
        theirs, {.name = state.name + "/" + std::to_string(order[first].color), .timeout = state.timeout}, where);
    for (std::size_t i = first; i < last; ++i) {
      results[static_cast<std::size_t>(order[i].rank)] = {made, static_cast<int>(i - first)};
    }
    first = last;
  }
  split.results = std::move(results);
}

[[noreturn]] void refuse_failed(CommunicatorState& state, int rank, const char* operation, SourceLocation where)
    WEIR_NEEDS(state.mutex) {
  throw Error(Errc::rank_failed, operation, state.describe(rank),
              "this rank is one that failed: " + state.failure->text, where);
}

}  // namespace

namespace detail {

Member::~Member() {
  if (forked()) {
    new std::shared_ptr<CommunicatorState>(std::move(state));  // a child's queues have no workers
    return;
  }
  if (split) {
    std::pair<std::shared_ptr<CommunicatorState>, int> decided;
    {
      const LockGuard guard(state->mutex);
      if (!split->results.empty()) decided = split->results[static_cast<std::size_t>(rank)];
    }
    if (decided.first) decided.first->leave(decided.second);
    return;
  }
  state->leave(rank);
}

void submit_collective(StreamRef stream, const Communicator& communicator, const CollectiveRequest& request,
                       SourceLocation where) {
  const char* operation = operation_of(request.kind);
  enter(operation, where);
  Member& member = communicator.member(operation, where);
  const Offer offer(request, stream, where);
  if (add_to_group(member.state, member.rank, offer)) return;
  member.state->call(member.rank, offer, nullptr, nullptr, nullptr);
}

}  // namespace detail

Communicator::Communicator(std::unique_ptr<Member> member) : member_(std::move(member)) {}
Communicator::Communicator() noexcept = default;
Communicator::Communicator(Communicator&& other) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept = default;
Communicator::~Communicator() = default;

Member& Communicator::member(const char* operation, SourceLocation where) const {
  if (!member_) {
    throw Error(Errc::invalid_handle, operation, "a communicator", "it was moved from, or never made", where);
  }
  Member& member = *member_;
  const LockGuard resolving(member.resolving);
  if (!member.split) return member;
  const auto split = member.split;
  const auto parent = member.state;
  UniqueLock lock(parent->mutex);
  const auto until = std::chrono::steady_clock::now() + parent->timeout;
  while (split->results.empty()) {
    if (parent->failure && !split->of_survivors) parent->refuse(member.rank, operation, where);
    if (parent->ranked && !split->decided) {
      if (split->of_survivors && parent->ranked->is_out()) refuse_failed(*parent, member.rank, operation, where);
      const std::string why_not = parent->ranked->why_undecided();
      if (!why_not.empty()) throw Error(Errc::rank_failed, operation, parent->describe(member.rank), why_not, where);
    }
    if (parent->split_changed.wait_until(lock, until) != std::cv_status::timeout || !split->results.empty()) continue;
    if (parent->failure && !split->of_survivors) continue;
    std::string missing;
    for (std::size_t r = 0; r < split->choices.size(); ++r) {
      if (!split->choices[r]) missing += " " + std::to_string(r);
    }
    // Of other processes rank 0 alone knows who has called it.
    throw Error(Errc::collective_timeout, operation, parent->describe(member.rank),
                split->of_survivors ? "some ranks that did not fail have yet to call without_failed()"
                : missing.empty()   ? "some ranks have yet to call split()"
                                    : "ranks that have yet to call split():" + missing,
                where);
  }
  const auto [state, rank] = split->results[static_cast<std::size_t>(member.rank)];
  if (!state) refuse_failed(*parent, member.rank, operation, where);
  member.state = state;
  member.rank = rank;
  member.split = nullptr;
  return member;
}

int Communicator::rank(SourceLocation where) const { return member("weir::Communicator::rank", where).rank; }
int Communicator::size(SourceLocation where) const {
  return static_cast<int>(member("weir::Communicator::size", where).state->size());
}
Device Communicator::device(SourceLocation where) const {
  const Member& mine = member("weir::Communicator::device", where);
  const LockGuard guard(mine.state->mutex);
  return mine.state->ranks[static_cast<std::size_t>(mine.rank)].device;
}
const std::string& Communicator::name(SourceLocation where) const {
  return member("weir::Communicator::name", where).state->name;
}
std::string_view Communicator::transport(SourceLocation where) const {
  const CommunicatorState& state = *member("weir::Communicator::transport", where).state;
  return state.ranked ? state.ranked->transport() : state.transport->name();
}
std::chrono::nanoseconds Communicator::timeout(SourceLocation where) const {
  return member("weir::Communicator::timeout", where).state->timeout;
}

Communicator Communicator::split(int color, int key, SourceLocation where) const {
  constexpr const char* operation = "weir::Communicator::split";
  enter(operation, where);
  const Member& mine = member(operation, where);
  CommunicatorState& state = *mine.state;
  auto split = std::make_shared<CommunicatorState::Split>();
  auto made = std::make_unique<Member>(mine.state, mine.rank);
  made->split = split;  // if this call throws, its end is nobody's leaving
  const LockGuard guard(state.mutex);
  if (state.failure) state.refuse(mine.rank, operation, where);
  const std::size_t number = state.ranks[static_cast<std::size_t>(mine.rank)].splits;
  if (!state.ranked) {
    for (std::size_t r = 0; r < state.size(); ++r) {
      if (!state.ranks[r].left || state.ranks[r].splits > number) continue;
      state.fail_by_who_left(static_cast<int>(r));
      state.refuse(mine.rank, operation, where);
    }
  }
  if (state.splits.size() <= number) state.splits.push_back(split);
  split = state.splits[number];
  ++state.ranks[static_cast<std::size_t>(mine.rank)].splits;
  made->split = split;
  if (state.ranked) {
    state.ranked->split(number, color, key);  // rank 0's process decides
    return Communicator(std::move(made));
  }
  split->choices.resize(state.size());
  split->choices[static_cast<std::size_t>(mine.rank)] = {color, key, mine.rank};
  if (std::all_of(split->choices.begin(), split->choices.end(), [](const auto& one) { return one.has_value(); })) {
    decide(*split, state, where);
    state.split_changed.notify_all();
  }
  return Communicator(std::move(made));
}

void Communicator::abort(SourceLocation where) const {
  constexpr const char* operation = "weir::Communicator::abort";
  enter(operation, where);
  const Member& mine = member(operation, where);
  const LockGuard guard(mine.state->mutex);
  if (mine.state->failure) return;
  std::string text = "rank " + std::to_string(mine.rank) + " aborted it";
  if (where) text += " [" + std::string(where.file_name()) + ":" + std::to_string(where.line()) + "]";
  mine.state->fail(Errc::rank_failed, text);
}

Communicator Communicator::without_failed(SourceLocation where) const {
  constexpr const char* operation = "weir::Communicator::without_failed";
  enter(operation, where);
  const Member& mine = member(operation, where);
  CommunicatorState& state = *mine.state;
  const LockGuard guard(state.mutex);
  if (!state.failure) throw Error(Errc::not_ready, operation, state.describe(mine.rank), "nothing has failed", where);
  if (state.ranked) {
    const std::string why_not = state.ranked->why_not_on();
    if (why_not.empty() && state.ranked->is_out()) refuse_failed(state, mine.rank, operation, where);
    if (!why_not.empty()) throw Error(Errc::not_supported, operation, state.describe(mine.rank), why_not, where);
    if (!state.survivors_split) {
      state.survivors_split = std::make_shared<CommunicatorState::Split>();
      state.survivors_split->of_survivors = true;
      state.ranked->go_on();
    }
    auto made = std::make_unique<Member>(mine.state, mine.rank);
    made->split = state.survivors_split;  // rank 0's process says who they are
    return Communicator(std::move(made));
  }
  if (state.survivors_of.empty()) {  // the first one says who they are
    for (std::size_t r = 0; r < state.size(); ++r) {
      if (!state.ranks[r].failed && !state.ranks[r].left) state.survivors_of.push_back(static_cast<int>(r));
    }
    std::vector<Device> devices;
    for (const int rank : state.survivors_of) devices.push_back(state.ranks[static_cast<std::size_t>(rank)].device);
    if (!devices.empty()) {
      state.survivors = make_state(devices, {.name = state.name + "'", .timeout = state.timeout}, where);
    }
  }
  const auto found = std::find(state.survivors_of.begin(), state.survivors_of.end(), mine.rank);
  if (found == state.survivors_of.end()) {
    refuse_failed(state, mine.rank, operation, where);
  }
  return Communicator(std::make_unique<Member>(state.survivors, static_cast<int>(found - state.survivors_of.begin())));
}

std::vector<Communicator> communicators(const std::vector<Device>& devices, const CommunicatorOptions& options,
                                        SourceLocation where) {
  constexpr const char* operation = "weir::communicators";
  enter(operation, where);
  if (devices.empty()) throw Error(Errc::invalid_value, operation, "devices", "there are none", where);
  if (options.timeout <= std::chrono::nanoseconds(0)) {
    throw Error(Errc::invalid_value, operation, "timeout", "it is not positive", where);
  }
  const auto state = make_state(devices, options, where);
  state->transport->start(where);
  return members_of(state);
}

Communicator communicator(Device device, const CommunicatorOptions& options, SourceLocation where) {
  constexpr const char* operation = "weir::communicator";
  enter(operation, where);
  if (options.timeout <= std::chrono::nanoseconds(0)) {
    throw Error(Errc::invalid_value, operation, "timeout", "it is not positive", where);
  }
  if (has_job_in_environment()) return make_from_environment(device, options, operation, where);
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "WORLD_SIZE"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || std::string_view(value) == "1") continue;
    throw Error(Errc::not_supported, operation, device.name(),
                std::string(variable) + " is " + value +
                    ": ranks that mpirun or srun started are of weir::mpi::communicator (<weir/mpi.hpp>), those of "
                    "weir ranks and torchrun, which set RANK, MASTER_ADDR and MASTER_PORT, too, of this call; "
                    "weir::communicators makes ranks of one process",
                where);
  }
  return std::move(communicators({device}, options, where).front());
}

}  // namespace weir
