// What has touched one allocation: the last writer of each byte, and who read or accumulated since.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <weir/recording.hpp>

#include "check/clock.hpp"
#include "check/range_map.hpp"
#include "check/regions.hpp"

namespace weir::check {

/// One use that was made. 24 bytes, for there is one for each byte range.
struct Access {
  std::uint64_t tick : 48 = 0;  ///< on the timeline; 0: before everything
  std::uint64_t use : 16 = 0;   ///< its place among the command's
  std::uint64_t command = 0;
  std::uint32_t timeline : 27 = 0;
  std::uint32_t access : 3 = 0;
  std::uint32_t host : 1 = 0;  ///< made by the host thread itself
  std::uint32_t kept : 1 = 0;  ///< by a graph, which keeps the memory alive
  std::uint32_t site = 0;

  /// Tells compilers that the narrower fields are wide enough.
  void set_moment(Timeline on, Tick at) {
    timeline = on & 0x7ffffff;
    tick = at & 0xffffffffffff;
  }
  void set_use(recorded::Access kind, std::size_t number) {
    access = static_cast<std::uint32_t>(kind) & 7;
    use = (number < 0xffff ? number : 0xffff) & 0xffff;
  }
  recorded::Access how() const { return static_cast<recorded::Access>(access); }
  bool operator==(const Access& other) const {
    return tick == other.tick && command == other.command && timeline == other.timeline && site == other.site &&
           use == other.use && access == other.access && host == other.host && kept == other.kept;
  }
};
static_assert(sizeof(Access) == 24);

inline bool reads(recorded::Access access) { return access != recorded::Access::out; }
inline bool writes(recorded::Access access) { return access != recorded::Access::in; }
inline bool conflict(recorded::Access a, recorded::Access b) {
  if (a == recorded::Access::accumulate && b == a) return false;
  return writes(a) || writes(b);
}

/// As long as nothing races, one writer for each byte is enough: whoever comes after it comes after what it came after. Of
/// readers and accumulators those stay that no later one comes after.
class History {
 public:
  /// `hit(begin, end, access)` for what is not before a use of this kind. `before(access)` says what is.
  template <class Before, class Hit>
  void check(const Runs& runs, recorded::Access how, const Before& before, const Hit& hit) const {
    const auto look = [&](std::uint64_t begin, std::uint64_t end, const Access& access) {
      if (!before(access)) hit(begin, end, access);
    };
    const auto look_at_all = [&](std::uint64_t begin, std::uint64_t end, const std::vector<Access>& list) {
      for (const Access& access : list) look(begin, end, access);
    };
    for (const auto& [begin, end] : runs) {
      if (!writes_.empty()) writes_.each(begin, end, look);
      if (!reads_.empty() && writes(how)) reads_.each(begin, end, look_at_all);
      if (!accumulations_.empty() && how != recorded::Access::accumulate) accumulations_.each(begin, end, look_at_all);
    }
  }

  /// `behind(old)`: whether the new access comes after the old one, which then needs not be kept beside it.
  template <class Behind>
  void add(const Runs& runs, const Access& access, const Behind& behind) {
    for (const auto& [begin, end] : runs) {
      if (access.how() == recorded::Access::in) {
        reads_.update(begin, end, [&](std::vector<Access>& list) { put(list, access, behind); });
      } else if (access.how() == recorded::Access::accumulate) {
        accumulations_.update(begin, end, [&](std::vector<Access>& list) { put(list, access, behind); });
      } else {
        writes_.assign(begin, end, access);
        if (!reads_.empty()) reads_.erase(begin, end);
        if (!accumulations_.empty()) accumulations_.erase(begin, end);
      }
    }
  }

  /// Of an access whose end does not come after its beginning: it stands for nothing that was before it.
  void add_beside(const Runs& runs, const Access& access) {
    const auto append = [&](std::vector<Access>& list) { list.push_back(access); };
    for (const auto& [begin, end] : runs) {
      reads_.update(begin, end, append);
      if (writes(access.how())) accumulations_.update(begin, end, append);
    }
  }

  void clear() {
    writes_.clear();
    reads_.clear();
    accumulations_.clear();
  }
  bool empty() const { return writes_.empty() && reads_.empty() && accumulations_.empty(); }
  template <class Call>
  void each(const Call& call) const {
    writes_.each([&](std::uint64_t, std::uint64_t, const Access& access) { call(access); });
    const auto all = [&](std::uint64_t, std::uint64_t, const std::vector<Access>& list) {
      for (const Access& access : list) call(access);
    };
    reads_.each(all);
    accumulations_.each(all);
  }
  std::size_t bytes() const { return writes_.bytes() + reads_.bytes() + accumulations_.bytes(); }
  std::size_t size() const { return writes_.size() + reads_.size() + accumulations_.size(); }

 private:
  template <class Behind>
  static void put(std::vector<Access>& list, const Access& access, const Behind& behind) {
    std::size_t kept = 0;
    for (const Access& old : list) {
      if (!behind(old)) list[kept++] = old;
    }
    list.resize(kept);
    list.push_back(access);
  }

  RangeMap<Access> writes_;
  RangeMap<std::vector<Access>> reads_;
  RangeMap<std::vector<Access>> accumulations_;
};

}  // namespace weir::check
