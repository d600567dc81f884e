// The commands' arithmetic done by plain loops: the meaning that every machine is compared with.
#include "window.hpp"

#include <algorithm>

namespace weir::stress {

namespace {

std::array<std::size_t, 4> index_of(const Window& w, std::size_t linear) {
  std::array<std::size_t, 4> index = {};
  for (std::size_t d = 4; d-- > 0;) {
    index[d] = linear % w.size[d];
    linear /= w.size[d];
  }
  return index;
}

Element& at(const Window& w, const std::array<std::size_t, 4>& index) {
  std::ptrdiff_t offset = 0;
  for (std::size_t d = 0; d < 4; ++d) offset += static_cast<std::ptrdiff_t>(index[d]) * w.stride[d];
  return w.data[offset];
}

Element salted(Element salt, std::size_t i) { return scramble(salt, static_cast<Element>(i)); }

void apply_blocks(Element salt, const Window& x, const Window& y) {
  const std::size_t threads = block_threads(salt);
  for (std::size_t begin = 0; begin < y.count(); begin += threads) {
    const std::size_t end = std::min(begin + threads, y.count());
    for (std::size_t i = begin; i < end; ++i) y[i] = scramble(y[i], x[end - 1 - (i - begin)], salted(salt, i));
  }
}

void apply_scan(Element salt, const Window& x, const Window& y) {
  Element sum = 0;
  for (std::size_t i = 0; i < x.count(); ++i) {
    sum = i == 0 ? x[0] : reduce_two(reduction_of(salt), sum, x[i]);
    y[i] = sum;
  }
}

void apply_reduce(Element salt, const Window& x, const Window& y) {
  Element sum = x[0];
  for (std::size_t i = 1; i < x.count(); ++i) sum = reduce_two(reduction_of(salt), sum, x[i]);
  y[0] = sum;
}

/// Host functions and host work mix an array in, if they have one.
void apply_host(Element salt, const std::vector<Window>& in, const Window& y) {
  for (std::size_t i = 0; i < y.count(); ++i) {
    const Element other = in.empty() ? 0 : in[0].wrapped(y, i);
    y[i] = scramble(y[i], other, salted(salt, i));
  }
}

}  // namespace

Element& Window::operator[](std::size_t linear) const { return at(*this, index_of(*this, linear)); }

Element& Window::wrapped(const Window& other, std::size_t linear) const { return shifted(other, linear, 0); }

Element& Window::shifted(const Window& other, std::size_t linear, Element salt) const {
  std::array<std::size_t, 4> index = index_of(other, linear);
  for (std::size_t d = 0; d < 4; ++d) index[d] = (index[d] + salt) % size[d];
  return at(*this, index);
}

Window window(const Program& program, const Operand& operand, Element* data) {
  const ArrayDecl& decl = program.arrays[static_cast<std::size_t>(operand.array)];
  Window w;
  w.rank = static_cast<std::size_t>(decl.rank);
  w.data = data;
  std::array<std::ptrdiff_t, 4> dense = {};
  std::ptrdiff_t stride = 1;
  for (std::size_t d = 4; d-- > 0;) {
    dense[d] = stride;
    stride *= static_cast<std::ptrdiff_t>(decl.size[d]);
  }
  for (std::size_t d = 0; d < 4; ++d) {
    const std::size_t from = operand.transposed && d < w.rank ? w.rank - 1 - d : d;
    w.data += static_cast<std::ptrdiff_t>(operand.dims[d].lo) * dense[d];
    w.size[d] = operand.dims[from].count();
    w.stride[d] = dense[from] * static_cast<std::ptrdiff_t>(operand.dims[from].step);
  }
  return w;
}

namespace {

void apply_once(const Command& c, const std::vector<Window>& in, const Window& y) {
  const std::size_t n = y.count();
  switch (c.kind) {
    case Kind::set:
      for (std::size_t i = 0; i < n; ++i) y[i] = salted(c.salt, i);
      return;
    case Kind::bump:
      for (std::size_t i = 0; i < n; ++i) y[i] = scramble(y[i], salted(c.salt, i));
      return;
    case Kind::map:
      for (std::size_t i = 0; i < n; ++i) y[i] = scramble(in[0].wrapped(y, i), salted(c.salt, i));
      return;
    case Kind::mix:
      for (std::size_t i = 0; i < n; ++i) y[i] = scramble(y[i], in[0].wrapped(y, i), salted(c.salt, i));
      return;
    case Kind::join:
      for (std::size_t i = 0; i < n; ++i) {
        y[i] = scramble(in[0].wrapped(y, i), in[1].wrapped(y, i), salted(c.salt, i));
      }
      return;
    case Kind::gather:
      for (std::size_t i = 0; i < n; ++i) {
        y[i] = scramble(y[i], in[0].shifted(y, i, c.salt % 1024), salted(c.salt, i));
      }
      return;
    case Kind::transform:
      for (std::size_t i = 0; i < n; ++i) {
        y[i] = in.size() == 1 ? scramble(in[0][i], c.salt) : scramble(in[0][i], in[1][i], c.salt);
      }
      return;
    case Kind::copy:
    case Kind::clone_array:
      for (std::size_t i = 0; i < n; ++i) y[i] = in[0][i];
      return;
    case Kind::fill:
      for (std::size_t i = 0; i < n; ++i) y[i] = c.salt;
      return;
    case Kind::upload: {
      const std::vector<Element> range = range_of(c.salt, n);
      for (std::size_t i = 0; i < n; ++i) y[i] = range[i];
      return;
    }
    case Kind::blocks: return apply_blocks(c.salt, in[0], y);
    case Kind::scan: return apply_scan(c.salt, in[0], y);
    case Kind::reduce: return apply_reduce(c.salt, in[0], y);
    case Kind::host_call:
    case Kind::external:
    case Kind::host_work: return apply_host(c.salt, in, y);
    case Kind::make_host:
    case Kind::make_array:
      if (c.how == How::empty) return;
      if (c.how == How::from) {
        const std::vector<Element> range = range_of(c.salt, n);
        std::copy(range.begin(), range.end(), y.data);
      } else {
        std::fill(y.data, y.data + n, c.how == How::zeros ? 0 : c.salt);
      }
      return;
    default: return;
  }
}

}  // namespace

void apply_work(const Command& c, const std::vector<Window>& in, const Window& y) {
  for (std::uint32_t turn = 0; turn < c.turns; ++turn) apply_once(c, in, y);
}

std::vector<Element> range_of(Element salt, std::size_t count) {
  std::vector<Element> range(count);
  for (std::size_t i = 0; i < count; ++i) range[i] = salted(salt, i);
  return range;
}

}  // namespace weir::stress
