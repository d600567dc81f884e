// Copies of pageable memory beside what pinned memory reached.
#include "trace/slow_copies.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "trace/intervals.hpp"
#include "trace/words.hpp"

namespace weir::trace {

namespace {

constexpr std::int64_t least = 1000;  ///< ns: shorter copies say nothing of a rate

class SlowCopies {
 public:
  explicit SlowCopies(const Timeline& timeline) : timeline_(timeline), held_host_(timeline.commands.size()) {
    for (const Command& one : timeline.commands) {
      if (!is_work(one) || !is_on_copy_engine(timeline, one) || one.pageable || one.bytes == 0) continue;
      if (one.end - one.begin < least) continue;
      pinned_[way_of(one)].push_back(
          {one.bytes, static_cast<double>(one.bytes) / static_cast<double>(one.end - one.begin)});
    }
    for (auto& [way, rates] : pinned_) {
      std::sort(rates.begin(), rates.end(), [](const Rate& a, const Rate& b) { return a.bytes < b.bytes; });
      for (std::size_t i = 1; i < rates.size(); ++i) rates[i].per_ns = std::max(rates[i].per_ns, rates[i - 1].per_ns);
    }
    for (const HostWait& wait : timeline.waits) {
      if (wait.command != none && timeline.text(wait.what) == "pageable copy") held_host_[wait.command] = true;
    }
  }

  std::vector<Held> make() const {
    std::vector<Held> made;
    for (std::uint32_t place = 0; place < timeline_.commands.size(); ++place) {
      const Command& one = timeline_.commands[place];
      if (!one.pageable || !is_work(one) || !is_on_copy_engine(timeline_, one)) continue;
      const bool is_compared = pinned_.contains(way_of(one));
      if (!is_compared && !held_host_[place]) continue;
      const std::optional<std::int64_t> pinned = is_compared ? time_of_pinned(one) : 0;
      if (!pinned) continue;
      Held held;
      held.reason = Reason::pageable_copy;
      held.command = place;
      if (!is_compared) held.by = place;
      held.file = one.file;
      held.line = one.line;
      held.begin = one.begin;
      held.end = one.end;
      held.saves = one.end - one.begin - *pinned;
      made.push_back(std::move(held));
    }
    return made;
  }

 private:
  using Way = std::pair<std::uint32_t, Lane>;  ///< a device's, in one direction
  struct Rate {
    std::uint64_t bytes;
    double per_ns;  ///< the best of copies that are no larger
  };
  Way way_of(const Command& one) const { return {timeline_.streams[one.stream].device, one.lane}; }
  std::optional<std::int64_t> time_of_pinned(const Command& one) const {
    const std::vector<Rate>& rates = pinned_.at(way_of(one));
    const auto after = std::upper_bound(rates.begin(), rates.end(), one.bytes,
                                        [](std::uint64_t bytes, const Rate& rate) { return bytes < rate.bytes / 2; });
    if (after == rates.begin()) return std::nullopt;
    return static_cast<std::int64_t>(static_cast<double>(one.bytes) / std::prev(after)->per_ns);
  }

  const Timeline& timeline_;
  std::map<Way, std::vector<Rate>> pinned_;
  std::vector<bool> held_host_;  ///< of each command: the host was in a call until it had ended
};

}  // namespace

std::vector<Held> slow_copies(const Timeline& timeline) { return SlowCopies(timeline).make(); }

}  // namespace weir::trace
