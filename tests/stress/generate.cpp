// The generator's plan: objects first, then commands by weight; and its choices of streams, arrays and parts.
#include "generate.hpp"

#include <algorithm>

#include "generator.hpp"

namespace weir::stress {

Program generate(const Theme& theme, std::uint64_t seed) { return Generator(theme, seed).run(); }

Generator::Generator(const Theme& theme, std::uint64_t seed) : Builder(theme, seed) {
  shapes_.push_back({1, {random_.between(1, 300), 1, 1, 1}});
  if (random_.percent(40)) shapes_.push_back({1, {random_.between(1, 300), 1, 1, 1}});
  if (random_.percent(40)) shapes_.push_back({2, {random_.between(1, 20), random_.between(1, 15), 1, 1}});
  if (random_.percent(15))
    shapes_.push_back({3, {random_.between(1, 7), random_.between(1, 6), random_.between(1, 7), 1}});
  if (random_.percent(15)) {
    shapes_.push_back(
        {4, {random_.between(1, 4), random_.between(1, 4), random_.between(1, 4), random_.between(1, 5)}});
  }
  if (random_.below(150) == 0) shapes_.push_back({1, {random_.between(90000, 110000), 1, 1, 1}});
  if (random_.below(1500) == 0) shapes_.push_back({1, {random_.between(263000, 300000), 1, 1, 1}});
}

Program Generator::run() {
  const std::size_t count = random_.between(theme_.min_commands, theme_.max_commands);
  const std::size_t streams = random_.between(1, theme_.threads > 1 ? 2 : 4);
  for (turn_ = 0; turn_ < theme_.threads; ++turn_) {
    for (std::size_t i = 0; i < streams; ++i) make_stream();
    for (int d = 0; d < theme_.devices; ++d) make_array();
  }
  turn_ = thread();
  make_array();
  for (std::size_t i = 0; theme_.graphs && i < random_.between(1, 2); ++i) make_graph();
  for (std::size_t i = 0; i < count; ++i) next();
  // Streams that end with a failure pending: only here, because nobody could wait for them any more.
  for (std::size_t i = 0; theme_.failures && i < 2; ++i) drop_stream();
  return std::move(program_);
}

void Generator::next() {
  const unsigned objects = theme_.allocations;
  if (random_.percent(30)) turn_ = thread();
  if (theme_.graphs && random_.percent(22)) return next_of_graphs();
  switch (random_.weighted({28, 6, 4, 6, 14, 4, 5, 5, 4, 8, 5, 4, 2, may_wait_for_all() ? 2u : 0u, objects / 2,
                            objects / 4, objects / 2, 1 + objects / 10, theme_.failures ? 4u : 0u})) {
    case 0: return kernel();
    case 1: return algorithm();
    case 2: return blocks();
    case 3: return fill();
    case 4: return copy();
    case 5: return upload();
    case 6: return read_back();
    case 7: return host_function();
    case 8: return host_work();
    case 9: return order_noise();
    case 10: return scope();
    case 11: return ask();
    case 12: return make_stream();
    case 13: return drop_stream();
    case 14: return make_array();
    case 15: return clone_array();
    case 16: return end_array();
    case 17: return make_or_end_pool();
    default: return failure();
  }
}

int Generator::device() {
  if (captured_) return stream(random_.pick(streams_)).device;
  return static_cast<int>(random_.below(static_cast<std::size_t>(theme_.devices)));
}

Command Generator::command(Kind kind) {
  Command c;
  c.kind = kind;
  c.thread = captured_ || random_.percent(95) ? turn_ : thread();
  c.salt = static_cast<Element>(random_.next());
  return c;
}

void Generator::choose_stream(Command& c, int device, bool may_be_implicit) {
  std::vector<int> of_device, of_thread;
  for (const int s : streams_) {
    if (stream(s).device != device) continue;
    of_device.push_back(s);
    if (stream(s).thread == c.thread) of_thread.push_back(s);
  }
  if (captured_) {
    c.stream = random_.pick(of_device);
    return join_capture(c.stream);
  }
  const int current = order_.current(c.thread, device);
  const unsigned defaults = theme_.defaults ? 1 : 0;
  switch (random_.weighted({of_thread.empty() ? 0u : 50u, of_device.empty() ? 0u : 15u, 15, defaults * 10, defaults * 9,
                            defaults * (theme_.threads > 1 ? 2u : 0u)})) {
    case 0: c.stream = random_.pick(of_thread); break;
    case 1: c.stream = random_.pick(of_device); break;
    case 2: c.stream = current; break;
    case 3: c.stream = legacy(device); break;
    case 4: c.stream = per_thread(c.thread, device); break;
    default: c.stream = per_thread(thread(), device); break;
  }
  c.implicit = may_be_implicit && c.stream == current && random_.percent(60);
}

bool Generator::reachable(int array_id, int device) const {
  return array(array_id).memory == Memory::pinned ||
         (array(array_id).memory == Memory::device && array(array_id).device == device);
}

std::optional<int> Generator::choose_array(int device, int rank) {
  std::vector<int> found;
  for (const int a : arrays_) {
    if (reachable(a, device) && (rank == 0 || rank_of(a) == rank)) found.push_back(a);
  }
  return favourite(found);
}

std::optional<int> Generator::choose_host_array(int rank) {
  std::vector<int> found;
  for (const int a : arrays_) {
    if (array(a).memory != Memory::device && (rank == 0 || rank_of(a) == rank)) found.push_back(a);
  }
  return favourite(found);
}

std::optional<int> Generator::favourite(const std::vector<int>& arrays) {
  if (arrays.empty()) return std::nullopt;
  std::vector<int> own;
  for (const int a : arrays) {
    if (array(a).thread == turn_) own.push_back(a);
  }
  return random_.pick(own.empty() || random_.percent(15) ? arrays : own);
}

Operand Generator::part(int array_id, unsigned percent_whole) {
  Operand operand = whole(program_, array_id);
  if (random_.percent(percent_whole)) return operand;
  for (int d = 0; d < rank_of(array_id); ++d) {
    if (random_.percent(35)) continue;
    Steps& steps = operand.dims[static_cast<std::size_t>(d)];
    const std::size_t size = steps.hi;
    steps.lo = random_.below(size);
    steps.hi = random_.between(steps.lo + 1, size);
    if (random_.percent(30)) steps.step = random_.between(2, 3);
  }
  operand.transposed = rank_of(array_id) > 1 && random_.percent(20);
  return operand;
}

std::optional<Operand> Generator::part_of_shape(int array_id, const Shape& shape, int rank) {
  if (rank_of(array_id) != rank) return std::nullopt;
  Operand operand = whole(program_, array_id);
  operand.transposed = rank > 1 && random_.percent(20);
  for (int d = 0; d < rank; ++d) {
    const std::size_t count = shape[static_cast<std::size_t>(operand.transposed ? rank - 1 - d : d)];
    Steps& steps = operand.dims[static_cast<std::size_t>(d)];
    const std::size_t size = steps.hi;
    if (count > size) return std::nullopt;
    steps.step = count > 1 && random_.percent(20) && (count - 1) * 2 + 1 <= size ? 2 : 1;
    const std::size_t span = (count - 1) * steps.step + 1;
    steps.lo = random_.below(size - span + 1);
    steps.hi = steps.lo + span;
  }
  return operand;
}

std::uint32_t Generator::delay() {
  switch (random_.weighted({72, 18, 8, 2})) {
    case 0: return 0;
    case 1: return static_cast<std::uint32_t>(random_.between(100, 4000));
    case 2: return static_cast<std::uint32_t>(random_.between(4000, 40000));
    default: return static_cast<std::uint32_t>(random_.between(40000, 200000));
  }
}

}  // namespace weir::stress
