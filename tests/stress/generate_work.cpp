// The generator's commands that compute, copy and read.
#include <utility>

#include "generator.hpp"

namespace weir::stress {

void Generator::kernel() {
  static const std::vector<Kind> kinds = {Kind::set, Kind::bump, Kind::bump, Kind::map,
                                          Kind::mix, Kind::mix,  Kind::join, Kind::gather};
  Command c = command(random_.pick(kinds));
  const int d = device();
  const auto out = choose_array(d, 0);
  if (!out) return;
  c.out = reads_out(c.kind) ? part(*out) : part_to_write(*out);
  const std::size_t inputs = c.kind == Kind::set || c.kind == Kind::bump ? 0 : c.kind == Kind::join ? 2 : 1;
  for (std::size_t i = 0; i < inputs; ++i) {
    Operand in = part(*choose_array(d, rank_of(*out)));
    if (overlap(in, c.out)) return kernel();
    c.in.push_back(in);
  }
  c.delay = delay();
  choose_stream(c, d, true);
  control(c);
  put(c);
}

void Generator::algorithm() {
  static const std::vector<Kind> kinds = {Kind::reduce, Kind::scan, Kind::transform, Kind::transform};
  Command c = command(random_.pick(kinds));
  const int d = device();
  const auto x = choose_array(d, 1), y = choose_array(d, 1);
  if (!x || !y) return;
  c.in.push_back(part_to_write(*x));
  Shape shape = shape_of(program_, c.in[0]);
  if (c.kind == Kind::reduce) shape = {1, 1, 1, 1};
  auto out = part_of_shape(*y, shape, 1);
  if (c.kind != Kind::reduce && (!out || random_.percent(25))) out = c.in[0];
  if (!out) return;
  const bool in_place = c.kind != Kind::reduce && out->array == c.in[0].array &&
                        out->dims[0].lo == c.in[0].dims[0].lo && out->dims[0].step == c.in[0].dims[0].step;
  if (overlap(*out, c.in[0]) && !in_place) return;
  c.out = *out;
  if (c.kind == Kind::transform && random_.percent(50)) {
    const auto second = part_of_shape(*choose_array(d, 1), shape, 1);
    if (second && !overlap(*second, c.out)) c.in.push_back(*second);
  }
  choose_stream(c, d, true);
  put(c);
}

void Generator::blocks() {
  Command c = command(Kind::blocks);
  const int d = device();
  const auto x = choose_array(d, 1), y = choose_array(d, 1);
  if (!x || !y) return;
  c.out = part(*y);
  const auto in = part_of_shape(*x, shape_of(program_, c.out), 1);
  if (!in || overlap(*in, c.out)) return;
  c.in.push_back(*in);
  c.delay = delay();
  choose_stream(c, d, true);
  control(c);
  put(c);
}

void Generator::fill() {
  Command c = command(Kind::fill);
  const int a = any_array();
  c.out = part_to_write(a);
  const bool on_device = array(a).memory == Memory::device;
  choose_stream(c, on_device ? array(a).device : device(), on_device);
  if (on_device) control(c);
  put(c);
}

void Generator::copy() {
  Command c = command(Kind::copy);
  const int to = any_array(), from = any_array();
  c.out = part_to_write(to);
  const auto in = part_of_shape(from, shape_of(program_, c.out), rank_of(to));
  if (!in || overlap(*in, c.out)) return;
  c.in.push_back(*in);
  const bool to_device = array(to).memory == Memory::device, from_device = array(from).memory == Memory::device;
  const int natural = to_device ? array(to).device : from_device ? array(from).device : device();
  const bool foreign = theme_.devices > 1 && random_.percent(20);
  choose_stream(c, foreign ? device() : natural, (to_device || from_device) && !foreign);
  put(c);
}

void Generator::upload() {
  Command c = command(Kind::upload);
  const int a = any_array();
  c.out = part_to_write(a);
  const bool on_device = array(a).memory == Memory::device;
  choose_stream(c, on_device ? array(a).device : device(), on_device);
  put(c);
}

void Generator::read_back() {
  const int a = any_array();
  const bool on_device = array(a).memory == Memory::device;
  const bool by_legacy = theme_.defaults && !theme_.failures;
  Command c = command(on_device && by_legacy && random_.percent(50) ? Kind::to_host : Kind::download);
  if (c.kind == Kind::to_host) {
    c.in.push_back(whole(program_, a));
    c.stream = legacy(array(a).device);
  } else {
    c.in.push_back(part(a));
    choose_stream(c, on_device ? array(a).device : device(), on_device);
  }
  put(c);
}

void Generator::host_function() {
  Command c = command(random_.percent(75) ? Kind::host_call : Kind::external);
  const auto out = choose_host_array(0);
  if (!out) return;
  c.out = part(*out);
  if (random_.percent(50)) {
    const Operand in = part(*choose_host_array(rank_of(*out)));
    if (!overlap(in, c.out)) c.in.push_back(in);
  }
  c.delay = delay();
  choose_stream(c, device(), true);
  put(c);
}

void Generator::host_work() {
  Command c = command(Kind::host_work);
  const auto out = choose_host_array(0);
  if (!out) return;
  c.out = part(*out);
  if (random_.percent(50)) {
    const Operand in = part(*choose_host_array(rank_of(*out)));
    if (!overlap(in, c.out)) c.in.push_back(in);
  }
  put(c);
}

void Generator::failure() {
  // Which of two failures the legacy stream inherits first is not said.
  if (theme_.defaults && std::exchange(failed_, true)) return;
  Command c = command(random_.percent(70) ? Kind::fail_kernel : Kind::fail_host);
  c.salt |= 1u;
  c.delay = delay();
  choose_stream(c, device(), true);
  put(c);
}

}  // namespace weir::stress
