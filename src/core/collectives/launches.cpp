// Launches of graphs with collectives, as their communicators see them; and what those who waited too long are told.
#include <algorithm>

#include "core/collectives/circle.hpp"

namespace weir::detail {

std::string seconds_of(std::chrono::nanoseconds time) {
  std::string length = std::to_string(std::chrono::duration<double>(time).count());
  length.erase(length.find_last_not_of('0') + 1);
  if (length.back() == '.') length.pop_back();
  return length;
}

std::string note_missing(CommunicatorState& communicator, LocalCall& late) {
  std::string missing;
  for (std::size_t i = 0; i < late.ranks().size(); ++i) {
    if (late.parts()[i].ready_nanoseconds.load(std::memory_order_relaxed) != 0) continue;
    const int rank = late.ranks()[i];
    communicator.ranks[static_cast<std::size_t>(rank)].failed = true;
    missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(rank) +
               (late.offer(i) ? " (its stream did not come to it)" : " (it did not call)");
  }
  return missing;
}

std::chrono::steady_clock::time_point CommunicatorState::look_at_launches(std::chrono::steady_clock::time_point now,
                                                                          Pending& stuck) {
  using Time = std::chrono::steady_clock::time_point;
  Time next = Time::max();
  for (const WaitingLaunch& launch : waiting_launches()) {
    auto& all = stuck.launches;
    auto found = std::find_if(all.begin(), all.end(),
                              [&](const PendingLaunch& one) { return one.launch.launch == launch.launch; });
    if (found == all.end()) found = all.insert(all.end(), PendingLaunch{launch});
    // Of a gate in each of several lanes the first stands for all.
    if (found->communicators.empty() || found->communicators.back().get() != this) {
      found->communicators.push_back(shared_from_this());
    }
    if (launch.ready_nanoseconds == 0) continue;
    // Where there is none, it waits for another communicator's.
    const auto before = std::find_if(complete.begin(), complete.end(), [&](const CallReference& call) {
      if (call->as_gate() != nullptr) return false;
      const std::uint64_t order = gated ? call->order() : call->lane_number.load(std::memory_order_relaxed);
      const auto parts = call->parts();
      return call->open() && order != 0 && order < launch.order &&
             std::any_of(parts.begin(), parts.end(), [](const CollectivePart& part) {
               return part.ready_nanoseconds.load(std::memory_order_acquire) == 0;
             });
    });
    if (before == complete.end()) continue;
    const Time until = Time(std::chrono::nanoseconds(launch.ready_nanoseconds)) + timeout;
    if (until > now) {
      next = std::min(next, until);
      continue;
    }
    LocalCall& call = **before;
    const std::string text = text_of(*call.offer(0));  // its ranks have all called
    fail(Errc::collective_timeout, "the launch of a graph with its collectives [" +
                                       std::string(launch.where.file_name()) + ":" +
                                       std::to_string(launch.where.line()) + "] waited " + seconds_of(timeout) +
                                       " s behind " + text + ", to which did not come: " + note_missing(*this, call));
    return Time::max();
  }
  return next;
}

}  // namespace weir::detail
