// The generator's commands that make and end objects, order and ask.
#include <algorithm>

#include "generator.hpp"

namespace weir::stress {

void Generator::make_stream() {
  Command c = command(Kind::make_stream);
  const StreamKind kind = random_.percent(50) ? StreamKind::blocking : StreamKind::non_blocking;
  const int priority = random_.percent(60) ? 0 : -static_cast<int>(random_.between(1, 5));
  c.stream = add_stream({kind, device(), c.thread, priority});
  put(c);
}

void Generator::drop_stream() {
  std::vector<int> free;
  for (const int s : streams_) {
    if (!order_.is_current(s)) free.push_back(s);
  }
  if (free.empty()) return;
  Command c = command(Kind::drop_stream);
  c.stream = random_.pick(free);
  put(c);
}

void Generator::make_array() {
  const auto& [rank, shape] = random_.pick(shapes_);
  const bool first = arrays_.empty();
  make_array(first || random_.percent(65) ? Memory::device
             : random_.percent(60)        ? Memory::pinned
                                          : Memory::pageable,
             shape, rank);
}

void Generator::make_array(Memory memory, const Shape& shape, int rank) {
  Command c = command(memory == Memory::device ? Kind::make_array : Kind::make_host);
  const int d = memory == Memory::device ? device() : 0;
  const int id = add_array({memory, d, rank, shape, c.thread});
  home_.resize(program_.arrays.size(), -1);
  c.out = whole(program_, id);
  static const std::vector<How> hows = {How::empty, How::zeros, How::full, How::from};
  c.how = hows[random_.below(memory == Memory::device && rank == 1 && !captured_ ? 4 : 3)];
  if (memory == Memory::device) {
    choose_stream(c, d, true);
    home_[static_cast<std::size_t>(id)] = c.stream;
    std::vector<int> pools;
    for (const int p : pools_) {
      if (program_.pools[static_cast<std::size_t>(p)].device == d) pools.push_back(p);
    }
    if (c.how == How::empty && !pools.empty() && random_.percent(60)) c.pool = random_.pick(pools);
  }
  put(c);
  if (c.how == How::empty) define(id);
}

/// Writes all of a new array, on any stream.
void Generator::define(int id) {
  const bool by_kernel = array(id).memory != Memory::pageable && random_.percent(40);
  Command c = command(by_kernel ? Kind::set : captured_ || random_.percent(50) ? Kind::fill : Kind::upload);
  c.out = whole(program_, id);
  const bool on_device = array(id).memory == Memory::device;
  choose_stream(c, on_device ? array(id).device : device(), on_device);
  if (c.kind == Kind::set) c.delay = delay();
  put(c);
}

void Generator::clone_array() {
  Command c = command(Kind::clone_array);
  const int from = any_array();
  const int d = array(from).memory == Memory::device ? array(from).device : device();
  const int id = add_array({Memory::device, d, array(from).rank, array(from).size, c.thread});
  home_.resize(program_.arrays.size(), -1);
  c.in.push_back(whole(program_, from));
  c.out = whole(program_, id);
  choose_stream(c, d, false);
  home_[static_cast<std::size_t>(id)] = c.stream;
  put(c);
}

void Generator::end_array() {
  if (arrays_.size() < 3) return;
  const int a = any_array();
  Command c = command(Kind::drop_array);
  c.out = whole(program_, a);
  if (array(a).memory == Memory::device && random_.percent(35) && !used_by_graphs(a)) {
    c.kind = Kind::free_array;
    const int home = home_[static_cast<std::size_t>(a)];
    const bool alive =
        stream(home).kind >= StreamKind::legacy || std::count(streams_.begin(), streams_.end(), home) > 0;
    if (alive && random_.percent(40)) {
      c.fresh = true;
      c.stream = home;
    } else {
      choose_stream(c, array(a).device, false);
    }
  }
  put(c);
}

void Generator::make_or_end_pool() {
  Command c = command(Kind::make_pool);
  if (pools_.empty() || random_.percent(50)) {
    c.pool = add_pool({device(), random_.percent(50) ? 0u : 1u << 20});
  } else {
    c.kind = random_.percent(50) ? Kind::drop_pool : Kind::trim_pool;
    c.pool = random_.pick(pools_);
  }
  put(c);
}

/// Waits and records that nobody needs, and ends of events.
void Generator::order_noise() {
  const int d = device();
  Command c = command(Kind::record);
  choose_stream(c, d, false);
  // Which of several failures a whole device throws first is not said.
  const unsigned broad = may_wait_for_all() ? 1 : 0, with_events = events_.empty() ? 0 : 1;
  switch (random_.weighted({30, with_events * 30, 15, 8, with_events * 6, broad * 2, broad, with_events * 10})) {
    case 0: record(c.thread, c.stream); return;
    case 1:
      c.kind = Kind::wait_event;
      c.event = random_.pick(events_);
      break;
    case 2: {
      Command other = c;
      choose_stream(other, device(), false);
      if (other.stream == c.stream) return;
      c.kind = Kind::wait_stream;
      c.other = other.stream;
      break;
    }
    case 3: c.kind = Kind::sync_stream; break;
    case 4:
      c = command(Kind::sync_event);
      c.event = random_.pick(events_);
      break;
    case 5:
      c = command(Kind::sync_device);
      c.device = d;
      break;
    case 6: c = command(Kind::sync_all); break;
    default:
      c = command(Kind::drop_event);
      c.event = random_.pick(events_);
      break;
  }
  put(c);
}

/// Questions: whether a stream or event is done, and the time between two events.
void Generator::ask() {
  Command c = command(Kind::query_stream);
  choose_stream(c, device(), false);
  if (events_.empty() || random_.percent(40)) return put(c);
  c.stream = -1;
  c.kind = Kind::query_event;
  c.event = random_.pick(events_);
  std::vector<int> timed;
  for (const int e : events_) {
    if (program_.events[static_cast<std::size_t>(e)].timed && order_.last_record(e, c.thread)) timed.push_back(e);
  }
  if (!timed.empty() && random_.percent(70)) {
    c.kind = Kind::elapsed;
    c.event = random_.pick(timed);
    c.event2 = random_.pick(timed);
    if (program_.events[static_cast<std::size_t>(c.event)].device !=
        program_.events[static_cast<std::size_t>(c.event2)].device)
      return;
  }
  put(c);
}

void Generator::scope() {
  Command c = command(Kind::leave);
  if (order_.in_scope(c.thread) && random_.percent(60)) return put(c);
  c.kind = random_.percent(75) ? Kind::enter : Kind::set_current;
  choose_stream(c, device(), false);
  c.implicit = false;
  if (c.kind == Kind::enter) {
    c.other = order_.current(c.thread, stream(c.stream).device);
    if (c.other == c.stream) return;
  }
  put(c);
}

}  // namespace weir::stress
