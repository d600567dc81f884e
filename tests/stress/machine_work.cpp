// The commands that compute, copy, allocate and call host functions, as calls of the library.
#include <algorithm>
#include <utility>

#include "kernels.hpp"
#include "machine.hpp"

namespace weir::stress {

namespace {

Shape to_shape(const std::array<std::size_t, 4>& size, int rank) {
  return Shape::of(static_cast<std::size_t>(rank), size.data());
}

template <class T>
Window window_of(const AnyView<T>& view) {
  Window w;
  w.data = const_cast<Element*>(view.data());
  w.rank = view.rank();
  for (std::size_t d = 0; d < 4; ++d) {
    w.size[d] = d < view.rank() ? view.size(d) : 1;
    w.stride[d] = d < view.rank() ? view.stride(d) : 0;
  }
  return w;
}

/// What a host function does; owned by the stream.
struct HostWork {
  Command command;
  std::vector<Window> in;
  Window out;
  std::shared_ptr<int> token;

  void operator()() const {
    spin(command.delay);
    apply_work(command, in, out);
  }
};

}  // namespace

StreamArg Machine::stream_arg(const Command& c) const {
  return c.implicit ? StreamArg(device_of(c)) : StreamArg(stream(c));
}

Slice<Element> Machine::slice(const Operand& operand) {
  const auto range = [&](std::size_t d) { return Range{operand.dims[d].lo, operand.dims[d].hi, operand.dims[d].step}; };
  Array<Element>& whole_array = array(operand);
  const auto cut = [&] {
    switch (program_.arrays[index(operand.array)].rank) {
      case 1: return whole_array.slice({range(0)});
      case 2: return whole_array.slice({range(0), range(1)});
      case 3: return whole_array.slice({range(0), range(1), range(2)});
      default: return whole_array.slice({range(0), range(1), range(2), range(3)});
    }
  };
  return operand.transposed ? cut().transposed() : cut();
}

Argument<const Element> Machine::input(const Operand& operand) {
  return is_whole(program_, operand) && !operand.transposed ? in(std::as_const(array(operand))) : in(slice(operand));
}

Argument<Element> Machine::output(const Operand& operand, bool reads) {
  const bool plain = is_whole(program_, operand) && !operand.transposed;
  if (reads) return plain ? inout(array(operand)) : inout(slice(operand));
  return plain ? out(array(operand)) : out(slice(operand));
}

template <class F>
void Machine::with_part(const Operand& operand, F&& f) {
  if (is_whole(program_, operand) && !operand.transposed) {
    f(array(operand));
  } else {
    f(slice(operand));
  }
}

bool Machine::work(std::size_t number, const Command& c, Outcome& outcome) {
  switch (c.kind) {
    case Kind::make_host:
    case Kind::make_array:
    case Kind::clone_array: return make_array(c), true;
    case Kind::drop_array:
    case Kind::free_array: return end_array(c), true;
    case Kind::set:
    case Kind::bump:
    case Kind::map:
    case Kind::mix:
    case Kind::join:
    case Kind::gather: return kernel(c), true;
    case Kind::blocks: return blocks(c), true;
    case Kind::reduce:
    case Kind::scan:
    case Kind::transform: return algorithm(c), true;
    case Kind::copy:
    case Kind::fill:
    case Kind::upload:
    case Kind::download:
    case Kind::to_host: return move(number, c, outcome), true;
    case Kind::host_call:
    case Kind::external: return host_function(c), true;
    case Kind::host_work: return host_work(c), true;
    case Kind::fail_kernel:
    case Kind::fail_host: return fail(c), true;
    default: return false;
  }
}

template <template <std::size_t> class Kernel, class... A>
void Machine::launch_ranked(const Command& c, A&&... arguments) {
  const int rank = program_.arrays[index(c.out.array)].rank;
  const Extent extent{to_shape(shape_of(program_, c.out), rank), c.salt % 4 == 0 ? c.salt % 1024 + 1 : 0, name_of(c)};
  switch (rank) {
    case 1: return launch(stream_arg(c), extent, Kernel<1>{{c.salt, c.delay}}, arguments...);
    case 2: return launch(stream_arg(c), extent, Kernel<2>{{c.salt, c.delay}}, arguments...);
    case 3: return launch(stream_arg(c), extent, Kernel<3>{{c.salt, c.delay}}, arguments...);
    default: return launch(stream_arg(c), extent, Kernel<4>{{c.salt, c.delay}}, arguments...);
  }
}

void Machine::kernel(const Command& c) {
  const Argument<Element> y = output(c.out, reads_out(c.kind));
  switch (c.kind) {
    case Kind::set: return launch_ranked<Set>(c, y);
    case Kind::bump: return launch_ranked<Bump>(c, y);
    case Kind::map: return launch_ranked<Map>(c, input(c.in[0]), y);
    case Kind::mix: return launch_ranked<Mix>(c, input(c.in[0]), y);
    case Kind::join: return launch_ranked<Join>(c, input(c.in[0]), input(c.in[1]), y);
    default: return launch_ranked<Gather>(c, input(c.in[0]), y);
  }
}

template <template <std::size_t> class Kernel, class... A>
void Machine::update_ranked(Graph& graph, Node node, const Command& c, A&&... arguments) {
  switch (program_.arrays[index(c.out.array)].rank) {
    case 1: return graph.update(node, Kernel<1>{{c.salt, c.delay}}, arguments...);
    case 2: return graph.update(node, Kernel<2>{{c.salt, c.delay}}, arguments...);
    case 3: return graph.update(node, Kernel<3>{{c.salt, c.delay}}, arguments...);
    default: return graph.update(node, Kernel<4>{{c.salt, c.delay}}, arguments...);
  }
}

/// Other numbers for a node's kernel, and the same arrays.
void Machine::update_kernel(Graph& graph, Node node, const Command& c) {
  const Argument<Element> y = output(c.out, reads_out(c.kind));
  if (c.kind == Kind::set) return update_ranked<Set>(graph, node, c, y);
  if (c.kind == Kind::bump) return update_ranked<Bump>(graph, node, c, y);
  update_ranked<Map>(graph, node, c, input(c.in[0]), y);
}

void Machine::blocks(const Command& c) {
  const std::uint32_t threads = block_threads(c.salt);
  const BlockExtent extent{(count_of(c.out) + threads - 1) / threads, threads, threads * sizeof(Element), nullptr};
  launch_blocks(stream_arg(c), extent, Turn{c.salt, c.delay}, input(c.in[0]), output(c.out, true));
}

void Machine::algorithm(const Command& c) {
  const bool plus = reduction_of(c.salt) == Reduction::plus;
  with_part(c.in[0], [&](const auto& x) {
    with_part(c.out, [&](const auto& y) {
      if (c.kind == Kind::reduce)
        return plus ? reduce(stream_arg(c), x, y, Plus{}) : reduce(stream_arg(c), x, y, Maximum{});
      if (c.kind == Kind::scan) {
        return plus ? inclusive_scan(stream_arg(c), x, y, Plus{}) : inclusive_scan(stream_arg(c), x, y, Maximum{});
      }
      if (c.in.size() == 1) return transform(stream_arg(c), x, y, ScrambleOne{c.salt});
      with_part(c.in[1], [&](const auto& z) { transform(stream_arg(c), x, z, y, ScrambleTwo{c.salt}); });
    });
  });
}

void Machine::move(std::size_t number, const Command& c, Outcome& outcome) {
  if (c.kind == Kind::copy) {
    return with_part(c.out, [&](const auto& to) {
      with_part(c.in[0], [&](const auto& from) { c.implicit ? copy(to, from) : copy(stream(c), to, from); });
    });
  }
  if (c.kind == Kind::fill) {
    return with_part(c.out, [&](const auto& to) { c.implicit ? fill(to, c.salt) : fill(stream(c), to, c.salt); });
  }
  if (c.kind == Kind::upload) {
    std::vector<Element> range = range_of(c.salt, count_of(c.out));
    with_part(c.out, [&](const auto& to) { c.implicit ? copy(to, range) : copy(stream(c), to, range); });
    std::fill(range.begin(), range.end(), 0);
    return;
  }
  std::vector<Element>& read = outcome.read[number];
  if (c.kind == Kind::to_host) {
    read = array(c.in[0]).to_host();
    return;
  }
  read.assign(count_of(c.in[0]), 0);
  with_part(c.in[0], [&](const auto& from) { c.implicit ? copy(read, from) : copy(stream(c), read, from); });
}

void Machine::host_function(const Command& c) {
  const Argument<Element> y = output(c.out, true);
  HostWork function{c, {}, window_of(y.view), token_};
  const auto call = [&](const auto&... uses) {
    if (c.kind == Kind::host_call || device_of(c).backend() != "cpu") {  // GPUs call foreign work at once
      host_call(stream_arg(c), std::move(function), uses...);
    } else {
      external(
          stream_arg(c), [f = std::move(function)](NativeStream) { f(); }, uses...);
    }
  };
  if (c.in.empty()) return call(y);
  const Argument<const Element> x = input(c.in[0]);
  function.in.push_back(window_of(x.view));
  call(x, y);
}

void Machine::host_work(const Command& c) {
  std::vector<Window> in;
  for (const Operand& operand : c.in) in.push_back(window_of(slice(operand).host_view()));
  apply_work(c, in, window_of(slice(c.out).host_view()));
}

void Machine::fail(const Command& c) {
  if (c.kind == Kind::fail_host || device_of(c).backend() != "cpu") {  // device code cannot throw
    return host_call(stream_arg(c), [salt = c.salt, token = token_] { throw PlannedFailure(salt); });
  }
  const std::size_t count = 1 + c.salt % 50;
  launch(stream_arg(c), count, host_only(Fail{c.salt, c.delay, count}));
}

void Machine::make_array(const Command& c) {
  const ArrayDecl& decl = program_.arrays[index(c.out.array)];
  const Shape shape = to_shape(decl.size, decl.rank);
  const Place place = c.kind == Kind::clone_array ? Place(stream(c))
                      : c.kind == Kind::make_host ? (decl.memory == Memory::pinned ? Place(pinned) : Place(host))
                      : c.implicit                ? Place(device_of(c))
                                                  : Place(stream(c));
  try {
    if (c.kind == Kind::clone_array) {
      array(c.out) = array(c.in[0]).clone(stream(c));
      return;
    }
    switch (c.how) {
      case How::empty:
        array(c.out) = c.pool < 0 ? empty<Element>(place, shape) : empty<Element>(place, shape, *pools_[index(c.pool)]);
        return;
      case How::zeros: array(c.out) = zeros<Element>(place, shape); return;
      case How::full: array(c.out) = full<Element>(place, shape, c.salt); return;
      case How::from: array(c.out) = from(place, range_of(c.salt, decl.count())); return;
    }
  } catch (const Error&) {
    // A copy that returns when it is done was skipped, and threw. Later commands use an array all the same.
    array(c.out) = empty<Element>(place, shape);
    throw;
  }
}

void Machine::end_array(const Command& c) {
  if (c.kind == Kind::free_array) c.fresh ? array(c.out).free() : array(c.out).free(stream(c));
  array(c.out) = Array<Element>();
}

}  // namespace weir::stress
