#include "backends/sim/model/collective_task.hpp"

#include <algorithm>

namespace weir::sim::model {

namespace {

/// What a collective of no bytes lasts, in times from a launch to its kernel: ten of 8 bytes in a graph take 59 to 67 us.
constexpr double starts_at_least = 2;

/// How much each rank sends, for each of its bytes, and the share of the rate of copies to peers at which NCCL 2.28 does it, for
/// 1 GiB between two H200s.
struct Way {
  double sent;
  double share;
};
Way way_of(std::string_view call, double ranks) {
  const double others = (ranks - 1) / ranks;
  if (call == "all_reduce") return {2 * others, 0.83};
  if (call == "broadcast" || call == "reduce" || call == "send" || call == "receive") return {1, 0.92};
  return {others, 0.69};
}

}  // namespace

Task collective_task(const Profile& profile, std::string_view call, double bytes, std::size_t ranks) {
  const Way way = way_of(call, static_cast<double>(std::max<std::size_t>(ranks, 1)));
  Task task;
  task.work = Work::collective;
  task.bytes = bytes;
  task.fixed_us =
      starts_at_least * profile.start.kernel_us + way.sent * bytes / (way.share * profile.link.peer_gb_s * 1000);
  return task;
}

}  // namespace weir::sim::model
