// The engine's memory: uses against what touched the same bytes before, beginnings and ends, and contents.
#include <algorithm>
#include <bit>
#include <utility>

#include "check/state.hpp"

namespace weir::check {

std::span<const Run> Engine::rows(const Use& use) {
  if (runs_of(use, runs_)) return runs_;
  const Buffer& buffer = *buffers_[use.buffer];
  skip("memory '" + buffer.fact.name + "'", "a region has more than " + std::to_string(most_rows) + " rows");
  return {};
}

void Engine::hit(FindingKind kind, const Access& first, std::uint32_t buffer, std::span<const Run> bytes,
                 const Use& second, std::size_t number, bool host) {
  for (const auto& [begin, end] : bytes) {
    hits_.push_back({kind, first, buffer, begin, end, static_cast<std::uint32_t>(number), second.access, host});
  }
}

void Engine::share_buffer(std::uint32_t buffer, const std::string& why) {
  buffers_[buffer]->fact.unseen = why;
  buffers_[buffer]->all_written = true;
  buffers_[buffer]->written.clear();
}

std::uint32_t Engine::pinned_at(std::uint32_t buffer) const { return buffers_[buffer]->place.line; }
void Engine::set_pinned(std::uint32_t buffer, const char* file, std::uint32_t line) {
  buffers_[buffer]->place = {file, line};
}
void Engine::unpinned(std::uint32_t buffer, std::uint64_t begin, std::uint64_t end) {
  buffers_[buffer]->history.erase(begin, end);
}

void Engine::absorb_buffer(std::uint32_t whole, std::uint32_t part) {
  Buffer& to = *buffers_[whole];
  Buffer& from = *buffers_[part];
  to.history.absorb(from.history);
  from.history.clear();
  if (to.users.size() < from.users.size()) to.users.resize(from.users.size());
  for (std::size_t word = 0; word < from.users.size(); ++word) to.users[word] |= from.users[word];
  for (const std::uint32_t open : from.guards) scopes_.at(open).use.buffer = whole;
  to.guards.insert(to.guards.end(), from.guards.begin(), from.guards.end());
  from.guards.clear();
  if (to.fact.unseen.empty()) to.fact.unseen = from.fact.unseen;
}

/// What a use races with, into hits_. `launch`: the graph launch whose node it is; `given`: the graph was given the array.
void Engine::check_use(const Use& use, std::size_t number, const Clock& now, bool host, std::uint32_t launch,
                       bool given) {
  const std::span<const Run> bytes = runs(use);
  if (bytes.empty()) return;
  const Buffer& buffer = *buffers_[use.buffer];
  const bool kept = given && buffer.fact.owner == recorded::Owner::array;
  const bool allocated_here = launch != none && buffer.launch == launch;
  if (buffer.is_freed && !kept) hit(FindingKind::use_after_free, buffer.freed, use.buffer, bytes, use, number, host);
  if (buffer.alloc.tick != 0 && !allocated_here && !before(buffer.alloc, now)) {
    hit(FindingKind::use_before_alloc, buffer.alloc, use.buffer, bytes, use, number, host);
  }
  for (const std::uint32_t open : buffer.guards) {
    const Scope& scope = scopes_.at(open);
    if (!conflict(scope.access.how(), use.access)) continue;
    const Runs both = common({bytes.begin(), bytes.end()}, scope.runs);
    kinds_of(scope.access.how(), use.access,
             [&](FindingKind kind) { hit(kind, scope.access, use.buffer, both, use, number, host); });
  }
  const auto is_before = [&](const Access& access) { return before(access, now); };
  buffer.history.check(bytes, use.access, is_before, [&](std::uint64_t begin, std::uint64_t end, const Access& access) {
    kinds_of(access.how(), use.access, [&](FindingKind kind) {
      hits_.push_back({kind, access, use.buffer, begin, end, static_cast<std::uint32_t>(number), use.access, host});
    });
  });
}

void Engine::add_use(const Use& use, std::size_t number, const Access& like, const Clock& now) {
  const std::span<const Run> bytes = runs(use);
  if (bytes.empty()) return;
  Buffer& buffer = *buffers_[use.buffer];
  Access made = like;
  made.set_use(use.access, number);
  buffer.history.add(bytes, made, [&](const Access& old) { return before(old, now); });
  if (writes(use.access) && !buffer.all_written) wrote(buffer, bytes);
}

void Engine::wrote(Buffer& buffer, std::span<const Run> bytes) {
  if (buffer.all_written) return;
  for (const auto& [begin, end] : bytes) buffer.written.assign(begin, end, true);
  if (buffer.written.size() != 1) return;
  buffer.written.each([&](std::uint64_t begin, std::uint64_t end, bool) {
    buffer.all_written = begin == 0 && end == buffer.fact.bytes;
  });
  if (buffer.all_written) buffer.written.clear();
}

/// Bytes of device memory that are read, and that no command wrote: of each buffer at once.
void Engine::check_contents(const Second& second, std::span<const Use> uses) {
  const auto concerned = [this](const Use& use) {
    return use.access == recorded::Access::in && !buffers_[use.buffer]->all_written;
  };
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::uint32_t which = uses[i].buffer;
    const auto same = [&](const Use& use) { return use.buffer == which && concerned(use); };
    const auto first = uses.begin() + static_cast<std::ptrdiff_t>(i);
    if (!concerned(uses[i]) || std::any_of(uses.begin(), first, same)) continue;
    Runs unwritten;
    for (auto use = first; use != uses.end(); ++use) {
      if (!same(*use)) continue;
      for (const auto& [begin, end] : runs(*use)) {
        std::uint64_t at = begin;
        buffers_[which]->written.each(begin, end, [&](std::uint64_t from, std::uint64_t to, bool) {
          if (at < from) unwritten.emplace_back(at, from);
          at = to;
        });
        if (at < end) unwritten.emplace_back(at, end);
      }
    }
    if (!unwritten.empty()) warn(FindingKind::uninitialised_read, second, which, unwritten, i);
  }
}

void Engine::check_overlaps(const Second& second, std::span<const Use> uses) {
  if (second.call.collective) return;
  const auto written = [](const Use& use) {
    return use.access == recorded::Access::out || use.access == recorded::Access::inout;
  };
  // Mostly each argument has a buffer of its own.
  std::uint64_t seen = 0;
  bool twice = false;
  for (const Use& use : uses) {
    const std::uint64_t bit = std::uint64_t{1} << use.buffer % 64;
    twice = twice || (seen & bit) != 0;
    seen |= bit;
  }
  if (!twice) return;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const auto same = [&](const Use& use) { return use.buffer == uses[i].buffer; };
    const auto here = uses.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::none_of(here + 1, uses.end(), same) || std::any_of(uses.begin(), here, same)) continue;
    Runs all;
    std::size_t which = 0;
    for (std::size_t j = i; j < uses.size(); ++j) {
      if (uses[j].buffer != uses[i].buffer) continue;
      for (std::size_t k = j + 1; k < uses.size(); ++k) {
        if (uses[k].buffer != uses[i].buffer || (!written(uses[j]) && !written(uses[k]))) continue;
        Runs a, b;
        if (!runs_of(uses[j], a) || !runs_of(uses[k], b) || a == b) continue;
        const Runs both = common(a, b);
        if (!both.empty() && all.empty()) which = written(uses[j]) ? j : k;
        all.insert(all.end(), both.begin(), both.end());
      }
    }
    normalise(all);
    if (!all.empty()) warn(FindingKind::overlapping_arguments, second, uses[i].buffer, all, which);
  }
}

void Engine::alloc(const Call& call, std::uint32_t which, std::uint32_t place) {
  if (place != none && streams_[place]->capture != 0) {
    captured(call, place, Op::alloc, "", {}, which);
    return;
  }
  Buffer& buffer = *buffers_[which];
  Thread& host = thread(call);
  buffer.place = {call.file, call.line};
  buffer.history.clear();
  buffer.written.clear();
  buffer.is_freed = false;
  buffer.all_written = buffer.fact.kind != MemoryKind::device || !buffer.fact.unseen.empty() || buffer.fact.bytes == 0;
  Access& made = buffer.alloc;
  made = {};
  made.command = call.command;
  made.site = site(call, Op::alloc, place, "");
  if (place == none) {
    made.host = 1;
    made.set_moment(host.timeline, host_tick(host));
    return;
  }
  buffer.fact.home = place;
  Stream& stream = enter(call, place, true);
  made.set_moment(rule(4) ? stream.timeline : new_timeline(), ++stream.tick);
  stream.clock.raise(stream.timeline, stream.tick);
  leave(call, stream);
}

/// What a free races with. Returns the stream that it is a command of, which it has entered; none: the host's own.
std::uint32_t Engine::check_end(const Call& call, std::uint32_t which, std::uint32_t place, bool tried) {
  const Buffer& buffer = *buffers_[which];
  Clock end = thread(call).clock;
  const bool array = buffer.fact.owner == recorded::Owner::array;
  std::uint32_t where = place;
  if (array) {
    // An array ends behind the streams that it knows of; nothing comes behind its end.
    if (buffer.fact.home != none) end.join(streams_[buffer.fact.home]->clock);
    for (std::size_t word = 0; word < buffer.users.size(); ++word) {
      for (std::uint64_t bits = buffer.users[word]; bits != 0; bits &= bits - 1) {
        end.join(streams_[64 * word + static_cast<std::size_t>(std::countr_zero(bits))]->clock);
      }
    }
    if (buffer.keepers) end.join(*buffer.keepers);
    if (where == none && buffer.fact.home != none && streams_[buffer.fact.home]->alive &&
        streams_[buffer.fact.home]->capture == 0) {
      where = buffer.fact.home;
    }
  }
  if (where != none) {
    if (tried) remember(where);
    Stream& stream = enter(call, where, true);
    if (rule(4)) end.join(stream.clock);
  }
  check_free({call, Op::free, where, ""}, which, end);
  return where;
}

void Engine::try_free(const Call& call, std::uint32_t which, std::uint32_t place) {
  if (place == none || streams_[place]->capture == 0) check_end(call, which, place, true);
}

void Engine::free(const Call& call, std::uint32_t which, std::uint32_t place) {
  if (place != none && streams_[place]->capture != 0) {
    captured(call, place, Op::free, "", {}, which);
    return;
  }
  Buffer& buffer = *buffers_[which];
  const std::uint32_t where = check_end(call, which, place);
  buffer.is_freed = true;
  buffer.freed = {};
  buffer.freed.command = call.command;
  buffer.freed.set_moment(where == none ? thread(call).timeline : streams_[where]->timeline, never);
  buffer.freed.site = site(call, Op::free, where, "");
  buffer.freed.host = where == none ? 1 : 0;
  if (where != none) leave(call, *streams_[where]);
}

void Engine::try_part_gone(const Call& call, std::uint32_t which, std::uint64_t begin, std::uint64_t end) {
  check_free({call, Op::free, none, ""}, which, {{begin, end}}, thread(call).clock);
}
void Engine::part_gone(const Call& call, std::uint32_t which, std::uint64_t begin, std::uint64_t end) {
  try_part_gone(call, which, begin, end);
  buffers_[which]->history.erase(begin, end);
}

void Engine::check_free(const Second& second, std::uint32_t which, const Clock& end) {
  const std::uint64_t bytes = buffers_[which]->fact.bytes;
  if (bytes != 0) check_free(second, which, {{0, bytes}}, end);
}

void Engine::check_free(const Second& second, std::uint32_t which, const Runs& all, const Clock& end) {
  const Buffer& buffer = *buffers_[which];
  const Use use{which, recorded::Access::out, false, 0, 0, buffer.fact.bytes, {}};
  hits_.clear();
  const bool host = second.stream == none;
  if (buffer.alloc.tick != 0 && !before(buffer.alloc, end)) {
    hit(FindingKind::free_before_alloc, buffer.alloc, which, all, use, 0, host);
  }
  for (const std::uint32_t open : buffer.guards) {
    const Scope& scope = scopes_.at(open);
    hit(FindingKind::use_after_free, scope.access, which, common(scope.runs, all), use, 0, host);
  }
  buffer.history.check(
      all, recorded::Access::out, [&](const Access& access) { return access.kept != 0 || before(access, end); },
      [&](std::uint64_t begin, std::uint64_t to, const Access& access) {
        hits_.push_back({FindingKind::use_after_free, access, which, begin, to, 0, use.access, host});
      });
  if (!hits_.empty()) conclude(second, hits_);
}

void Engine::leaves_capturing(const Call& call, std::uint32_t stream) {
  if (!options_.leaks) return;
  Finding made;
  made.kind = FindingKind::leak;
  made.severity = Severity::warning;
  made.second = side_of({call, Op::begin_capture, stream, ""}, 0, recorded::Access::in, false, true);
  made.why = "the capture never ended";
  report(std::move(made));
}

void Engine::finish() {
  if (options_.leaks) {
    for (const auto& buffer : buffers_) {
      if (buffer->fact.owner != recorded::Owner::pool || buffer->is_freed || buffer->alloc.tick == 0) continue;
      const Site& made = sites_[buffer->alloc.site];
      warn(FindingKind::leak,
           {{made.thread, buffer->alloc.command, made.place.file, made.place.line}, Op::alloc, made.stream, ""},
           buffer->id, {{0, buffer->fact.bytes}}, 0);
    }
    for (const auto& [id, scope] : scopes_) {
      const Site& made = sites_[scope.access.site];
      warn(FindingKind::leak,
           {{made.thread, scope.access.command, made.place.file, made.place.line}, Op::host_open, none, ""},
           scope.use.buffer, scope.runs, 0);
    }
  }
  for (Hint& one : hints_) {
    if (!one.ordered) report(std::move(one.finding));
  }
  hints_.clear();
}

}  // namespace weir::check
