// Activities as they come, bounded: the oldest make room for new ones.
#include "foreign/store.hpp"

#include <algorithm>

namespace weir::foreign {

Store::Store(std::size_t limit) : most_pieces_(std::max<std::size_t>(2, limit / (piece * sizeof(Activity)))) {}

void Store::add(const Activity& activity) {
  const detail::LockGuard lock(mutex_);
  if (pieces_.empty() || pieces_.back().size() == piece) {
    std::vector<Activity> next;
    if (pieces_.size() == most_pieces_) {
      next.swap(pieces_.front());
      pieces_.pop_front();
      rest_.dropped += static_cast<std::uint64_t>(std::count_if(next.begin(), next.end(), is_command));
      next.clear();
    }
    next.reserve(piece);
    pieces_.push_back(std::move(next));
  }
  pieces_.back().push_back(activity);
  commands_ += is_command(activity) ? 1 : 0;
}

std::uint32_t Store::intern(std::string_view text) {
  const detail::LockGuard lock(mutex_);
  const auto [at, is_new] = places_.try_emplace(std::string(text), static_cast<std::uint32_t>(rest_.texts.size()));
  if (is_new) rest_.texts.emplace_back(text);
  return at->second;
}

void Store::add_context(std::uint32_t id, Context context) {
  const detail::LockGuard lock(mutex_);
  rest_.contexts.insert_or_assign(id, context);
}

void Store::add_stream(StreamKey id, const Stream& stream) {
  const detail::LockGuard lock(mutex_);
  Stream& known = rest_.streams[id];
  known.priority = stream.priority;
  known.blocking = stream.blocking;
}

void Store::name_stream(StreamKey id, std::string_view name) {
  const detail::LockGuard lock(mutex_);
  rest_.streams[id].name = name;
}

void Store::add_lost(std::uint64_t records) {
  const detail::LockGuard lock(mutex_);
  rest_.lost += records;
}

void Store::add_overhead(const Overhead& more) {
  const detail::LockGuard lock(mutex_);
  rest_.overhead.instrumentation += more.instrumentation;
  rest_.overhead.resources += more.resources;
  rest_.overhead.buffers += more.buffers;
}

Collected Store::read() const {
  const detail::LockGuard lock(mutex_);
  Collected made = rest_;
  for (const std::vector<Activity>& one : pieces_) {
    made.activities.insert(made.activities.end(), one.begin(), one.end());
  }
  return made;
}

std::uint64_t Store::commands() const {
  const detail::LockGuard lock(mutex_);
  return commands_;
}

}  // namespace weir::foreign
