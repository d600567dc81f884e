// What has touched one allocation: the last writer of each byte, and who read or accumulated since.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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

/// Mostly one, which then takes no memory of its own. What is in it has a site, which is never 0.
class Accesses {
 public:
  Accesses() = default;
  Accesses(const Accesses& other)
      : first_(other.first_), more_(other.more_ ? std::make_unique<std::vector<Access>>(*other.more_) : nullptr) {}
  Accesses& operator=(const Accesses& other) { return *this = Accesses(other); }
  Accesses(Accesses&&) noexcept = default;
  Accesses& operator=(Accesses&&) noexcept = default;

  std::size_t size() const { return more_ ? more_->size() : first_.site != 0 ? 1 : 0; }
  Access* begin() { return more_ ? more_->data() : &first_; }
  Access* end() { return begin() + size(); }
  const Access* begin() const { return more_ ? more_->data() : &first_; }
  const Access* end() const { return begin() + size(); }
  void push_back(const Access& access) {
    if (size() == 0) {
      *begin_of_one() = access;
    } else {
      if (!more_) more_ = std::make_unique<std::vector<Access>>(1, first_);
      more_->push_back(access);
    }
  }
  /// Only the first ones stay.
  void shrink(std::size_t count) {
    if (!more_) {
      if (count == 0) first_ = {};
    } else if (count > 1) {
      more_->resize(count);
    } else {
      first_ = count == 1 ? more_->front() : Access();
      more_.reset();
    }
  }
  bool operator==(const Accesses& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }
  std::size_t bytes() const { return more_ ? sizeof(*more_) + more_->capacity() * sizeof(Access) : 0; }

 private:
  Access* begin_of_one() {
    more_.reset();
    return &first_;
  }

  Access first_;
  std::unique_ptr<std::vector<Access>> more_;
};

inline bool reads(recorded::Access access) { return access != recorded::Access::out; }
inline bool writes(recorded::Access access) { return access != recorded::Access::in; }
inline bool conflict(recorded::Access a, recorded::Access b) {
  if (a == recorded::Access::accumulate && b == a) return false;
  return writes(a) || writes(b);
}

/// As long as nothing races, one writer for each byte is enough: whoever comes after it comes after what it came after. Of
/// readers and accumulators those stay that no later one comes after, and of a writer that it had read the bytes before.
class History {
 public:
  /// `hit(begin, end, access)` for what is not before a use of this kind. `before(access)` says what is.
  template <class Before, class Hit>
  void check(std::span<const Run> runs, recorded::Access how, const Before& before, const Hit& hit) const {
    const auto look = [&](std::uint64_t begin, std::uint64_t end, const Access& access) {
      if (!before(access)) hit(begin, end, access);
    };
    const auto look_at_all = [&](std::uint64_t begin, std::uint64_t end, const Accesses& list) {
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
  void add(std::span<const Run> runs, const Access& access, const Behind& behind) {
    for (const auto& [begin, end] : runs) {
      if (access.how() == recorded::Access::in) {
        reads_.update(begin, end, [&](Accesses& list) { put(list, access, behind); });
      } else if (access.how() == recorded::Access::accumulate) {
        accumulations_.update(begin, end, [&](Accesses& list) { put(list, access, behind); });
      } else {
        const std::vector<Part> before = read_before(begin, end, access);
        writes_.assign(begin, end, access);
        writers_read_ = writers_read_ || access.how() == recorded::Access::inout;
        if (!reads_.empty()) reads_.erase(begin, end);
        if (!accumulations_.empty()) accumulations_.erase(begin, end);
        for (const Part& part : before) {
          // Others that accumulate conflict with what was read, and not with what was accumulated.
          RangeMap<Accesses>& kept = part.access.how() == recorded::Access::accumulate ? accumulations_ : reads_;
          kept.update(part.begin, part.end, [&](Accesses& list) { keep_latest(list, part.access); });
        }
      }
    }
  }

  /// Of an access whose end does not come after its beginning: it stands for nothing that was before it.
  void add_beside(const Runs& runs, const Access& access) {
    const auto append = [&](Accesses& list) { list.push_back(access); };
    for (const auto& [begin, end] : runs) {
      reads_.update(begin, end, append);
      if (writes(access.how())) accumulations_.update(begin, end, append);
    }
  }

  /// What touched memory that is no part of this one's yet.
  void absorb(const History& other) {
    writers_read_ = writers_read_ || other.writers_read_;
    other.writes_.each(
        [&](std::uint64_t begin, std::uint64_t end, const Access& access) { writes_.assign(begin, end, access); });
    const auto append = [](RangeMap<Accesses>& to) {
      return [&to](std::uint64_t begin, std::uint64_t end, const Accesses& more) {
        to.update(begin, end, [&](Accesses& list) {
          for (const Access& access : more) list.push_back(access);
        });
      };
    };
    other.reads_.each(append(reads_));
    other.accumulations_.each(append(accumulations_));
  }

  void erase(std::uint64_t begin, std::uint64_t end) {
    writes_.erase(begin, end);
    reads_.erase(begin, end);
    accumulations_.erase(begin, end);
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
    const auto all = [&](std::uint64_t, std::uint64_t, const Accesses& list) {
      for (const Access& access : list) call(access);
    };
    reads_.each(all);
    accumulations_.each(all);
  }
  std::size_t bytes() const {
    std::size_t all = writes_.bytes() + reads_.bytes() + accumulations_.bytes();
    const auto add = [&](std::uint64_t, std::uint64_t, const Accesses& list) { all += list.bytes(); };
    reads_.each(add);
    accumulations_.each(add);
    return all;
  }
  std::size_t size() const { return writes_.size() + reads_.size() + accumulations_.size(); }

 private:
  struct Part {
    std::uint64_t begin;
    std::uint64_t end;
    Access access;
  };
  /// By which uses the side that overwrites bytes now has read them: one more kind of what races with both.
  std::vector<Part> read_before(std::uint64_t begin, std::uint64_t end, const Access& now) const {
    std::vector<Part> found;
    if (now.how() != recorded::Access::out) return found;
    const auto look = [&](std::uint64_t from, std::uint64_t to, const Access& old) {
      const bool same_side = old.timeline == now.timeline && old.host == now.host && old.command != now.command;
      if (same_side && reads(old.how())) found.push_back({from, to, old});
    };
    const auto look_at_all = [&](std::uint64_t from, std::uint64_t to, const Accesses& list) {
      for (const Access& old : list) look(from, to, old);
    };
    if (writers_read_) writes_.each(begin, end, look);
    if (!accumulations_.empty()) accumulations_.each(begin, end, look_at_all);
    if (!reads_.empty()) reads_.each(begin, end, look_at_all);
    return found;
  }
  static void keep_latest(Accesses& list, const Access& access) {
    if (list.size() != 0 && list.begin()->tick >= access.tick) return;
    list.shrink(0);
    list.push_back(access);
  }

  /// Of a long list only the entry of the same timeline goes, which all readers in turn have: the others cost a look at a clock
  /// each.
  template <class Behind>
  static void put(Accesses& list, const Access& access, const Behind& behind) {
    constexpr std::size_t long_list = 8;
    if (list.size() > long_list) {
      for (Access& old : list) {
        if (old.timeline != access.timeline || old.host != access.host || !behind(old)) continue;
        old = access;
        return;
      }
    }
    Access* const all = list.begin();
    const std::size_t count = list.size();
    std::size_t kept = 0;
    while (kept < count && !behind(all[kept])) ++kept;
    if (kept == count) return list.push_back(access);
    for (std::size_t i = kept + 1; i < count; ++i) {
      if (!behind(all[i])) all[kept++] = all[i];
    }
    all[kept++] = access;
    if (kept != count) list.shrink(kept);
  }

  bool writers_read_ = false;  ///< some did
  RangeMap<Access> writes_;
  RangeMap<Accesses> reads_;
  RangeMap<Accesses> accumulations_;
};

}  // namespace weir::check
