// Files into plain structures, with everything checked that can be.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <unistd.h>

#include "core/graphs/file_format.hpp"
#include "core/runtime.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

namespace {

constexpr std::uint64_t most_element_bytes = 4096;

/// Source file names live as long as the process: SourceLocations point to them.
const char* keep_text(const std::string& text) {
  static auto& mutex = *new Mutex;
  static auto& all = *new std::set<std::string>;
  const LockGuard guard(mutex);
  return all.insert(text).first->c_str();
}

class FileReader {
 public:
  explicit FileReader(FileGraph& graph) : graph_(graph), in_(graph.bytes) {}

  void read() {
    for (std::uint32_t left = in_.count(9); left > 0; --left) buffer();
    for (std::uint32_t left = in_.count(24); left > 0; --left) name();
    const std::uint32_t nodes = in_.count(24);
    graph_.nodes.reserve(nodes);
    for (std::uint32_t i = 0; i < nodes; ++i) node(i, nodes);
    if (!in_.empty()) throw Damaged{"something follows the graph"};
    check_order();
  }

 private:
  void buffer() {
    FileBuffer buffer;
    const auto kind = in_.get<std::uint8_t>();
    if (kind > static_cast<std::uint8_t>(MemoryKind::device)) throw Damaged{"a kind of memory is unknown"};
    buffer.kind = static_cast<MemoryKind>(kind);
    buffer.contents = in_.take(in_.get<std::uint64_t>());
    graph_.buffers.push_back(buffer);
  }

  std::uint64_t bytes_of(const FilePlace& place) const {
    return place.buffer < graph_.buffers.size() ? graph_.buffers[place.buffer].contents.size() : 0;
  }
  FilePlace place() {
    FilePlace place;
    place.buffer = in_.get<std::uint32_t>();
    place.offset = in_.get<std::uint64_t>();
    if (place.buffer != no_buffer && (place.buffer >= graph_.buffers.size() || place.offset > bytes_of(place))) {
      throw Damaged{"a place lies outside of its array"};
    }
    return place;
  }
  FilePlace place_of(std::uint64_t bytes) {
    const FilePlace found = place();
    if (found.buffer == no_buffer || bytes > bytes_of(found) - found.offset) {
      throw Damaged{"a place lies outside of its array"};
    }
    return found;
  }

  void name() {
    FileName name;
    name.name = in_.text();
    name.place = place();
    name.shape = in_.shape();
    name.element_bytes = in_.get<std::uint64_t>();
    std::ptrdiff_t strides[max_rank];
    Wide stride = name.element_bytes;
    for (std::size_t d = max_rank; d-- > 0;) {
      if (stride > bytes_of(name.place)) stride = bytes_of(name.place) + 1;
      strides[d] = static_cast<std::ptrdiff_t>(stride);
      stride *= name.shape[d];
    }
    if (name.element_bytes == 0 ||
        !fits(bytes_of(name.place), name.place.offset, name.shape, strides, name.element_bytes)) {
      throw Damaged{"a named array lies outside of its memory"};
    }
    graph_.names.push_back(std::move(name));
  }

  Layout layout(const FilePlace& place) {
    Layout layout;
    layout.shape = in_.shape();
    for (std::ptrdiff_t& stride : layout.stride) stride = in_.get<std::int64_t>();
    layout.element_bytes = in_.get<std::uint64_t>();
    const bool sized = layout.element_bytes != 0 && layout.element_bytes <= most_element_bytes;
    if (!sized || place.buffer == no_buffer ||
        !fits(bytes_of(place), place.offset, layout.shape, layout.stride, layout.element_bytes)) {
      throw Damaged{"elements lie outside of their array"};
    }
    return layout;
  }

  void node(std::uint32_t index, std::uint32_t nodes) {
    FileNode node;
    const auto kind = in_.get<std::uint8_t>();
    if (kind > static_cast<std::uint8_t>(NodeKind::empty)) throw Damaged{"a kind of node is unknown"};
    node.form.kind = static_cast<NodeKind>(kind);
    node.form.parent = in_.get<std::int32_t>();
    node.form.branch = in_.get<std::uint32_t>();
    node.form.priority = in_.get<std::int32_t>();
    if (node.form.priority < -64 || node.form.priority > 64) throw Damaged{"a priority makes no sense"};
    node.form.stream = in_.get<std::uint64_t>();
    node.form.stream_name = in_.text();
    node.file = in_.text();
    const auto line = in_.get<std::uint32_t>();
    node.form.where = SourceLocation(keep_text(node.file), line);
    node.form.enabled = in_.get<std::uint8_t>() != 0;
    for (std::uint32_t left = in_.count(4); left > 0; --left) {
      node.form.depends.push_back(in_.get<std::uint32_t>());
      if (node.form.depends.back() >= nodes) throw Damaged{"a node depends on one that does not exist"};
    }
    check_parent(node, index);
    depths_.push_back(node.form.parent < 0 ? 0 : depths_[static_cast<std::size_t>(node.form.parent)] + 1);
    if (depths_.back() > most_nested) throw Damaged{"its nodes are nested too deeply"};
    for (std::uint32_t left = in_.count(37); left > 0; --left) node.uses.push_back(region());
    what_the_kind_needs(node);
    graph_.nodes.push_back(std::move(node));
  }

  void check_parent(const FileNode& node, std::uint32_t index) const {
    if (node.form.parent < 0) {
      if (node.form.parent != -1) throw Damaged{"a parent makes no sense"};
      return;
    }
    if (static_cast<std::uint32_t>(node.form.parent) >= index) throw Damaged{"a parent comes after its node"};
    const FormNode& parent = graph_.nodes[static_cast<std::size_t>(node.form.parent)].form;
    const std::uint32_t bodies = parent.kind == NodeKind::graph         ? 1
                                 : parent.kind == NodeKind::conditional ? parent.condition.bodies
                                                                        : 0;
    if (node.form.branch >= bodies) throw Damaged{"a node is in a body that does not exist"};
  }

  FileRegion region() {
    FileRegion region{};
    region.place = place();
    region.row_bytes = in_.get<std::uint64_t>();
    region.rows = in_.get<std::uint64_t>();
    region.pitch = in_.get<std::uint64_t>();
    const auto access = in_.get<std::uint8_t>();
    if (access < 1 || access > 3) throw Damaged{"an access is unknown"};
    region.access = static_cast<Access>(access);
    const Wide extent = region.rows == 0 ? 0 : static_cast<Wide>(region.rows - 1) * region.pitch + region.row_bytes;
    const std::uint64_t room = region.place.buffer == no_buffer ? 0 : bytes_of(region.place) - region.place.offset;
    if (extent > room) throw Damaged{"a region lies outside of its array"};
    return region;
  }

  void what_the_kind_needs(FileNode& node) {
    switch (node.form.kind) {
      case NodeKind::launch:
        node.kernel = in_.text();
        node.name = in_.text();
        node.extent = in_.shape();
        node.block = in_.get<std::uint32_t>();
        node.threads = in_.get<std::uint32_t>();
        node.shared_bytes = in_.get<std::uint64_t>();
        node.closure = in_.take(in_.get<std::uint64_t>());
        return;
      case NodeKind::copy:
        node.to = place();
        node.to_layout = layout(node.to);
        node.from = place();
        node.from_layout = layout(node.from);
        if (!(node.to_layout.shape == node.from_layout.shape) ||
            node.to_layout.element_bytes != node.from_layout.element_bytes) {
          throw Damaged{"a copy's ends do not fit"};
        }
        return;
      case NodeKind::fill:
        node.to = place();
        node.to_layout = layout(node.to);
        node.value = in_.take(node.to_layout.element_bytes);
        return;
      case NodeKind::alloc:
      case NodeKind::free: node.to = place_of(0); return;
      case NodeKind::conditional: {
        node.to = place_of(sizeof(std::int32_t));
        if (node.to.offset % alignof(std::int32_t) != 0) throw Damaged{"a condition is not aligned"};
        const auto kind = in_.get<std::uint8_t>();
        if (kind > static_cast<std::uint8_t>(Condition::Kind::while_)) throw Damaged{"a condition is unknown"};
        node.form.condition.kind = static_cast<Condition::Kind>(kind);
        node.form.condition.bodies = in_.get<std::uint32_t>();
        bodies_ += node.form.condition.bodies;
        if (!can_have(node.form.condition.kind, node.form.condition.bodies) || bodies_ > most_bodies) {
          throw Damaged{"a condition's bodies make no sense"};
        }
        return;
      }
      case NodeKind::graph:
      case NodeKind::empty: return;
      case NodeKind::record:
      case NodeKind::wait:
      case NodeKind::host_call:
      case NodeKind::external: throw Damaged{"a node is of a kind that files cannot hold"};
    }
  }

  static bool can_have(Condition::Kind kind, std::uint32_t bodies) {
    constexpr std::uint32_t most_cases = 1 << 12;
    switch (kind) {
      case Condition::Kind::if_:
      case Condition::Kind::while_: return bodies == 1;
      case Condition::Kind::if_else: return bodies == 2;
      case Condition::Kind::switch_: return bodies > 0 && bodies <= most_cases;
    }
    return false;
  }

  /// Dependencies stay inside one body, and never form a cycle.
  void check_order() const {
    std::vector<std::uint32_t> waits(graph_.nodes.size());
    std::vector<std::vector<std::uint32_t>> after(graph_.nodes.size());
    std::vector<std::uint32_t> open;
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const FormNode& node = graph_.nodes[i].form;
      for (const std::uint32_t before : node.depends) {
        const FormNode& other = graph_.nodes[before].form;
        if (other.parent != node.parent || other.branch != node.branch) throw Damaged{"a dependency leaves its body"};
        after[before].push_back(i);
      }
      waits[i] = static_cast<std::uint32_t>(node.depends.size());
      if (waits[i] == 0) open.push_back(i);
    }
    std::size_t seen = 0;
    for (; seen < open.size(); ++seen) {
      for (const std::uint32_t next : after[open[seen]]) {
        if (--waits[next] == 0) open.push_back(next);
      }
    }
    if (seen != graph_.nodes.size()) throw Damaged{"its nodes wait for each other"};
  }

  static constexpr std::uint64_t most_bodies = 1 << 20;

  FileGraph& graph_;
  ByteReader in_;
  std::vector<std::uint32_t> depths_;  ///< by node: how many it is inside of
  std::uint64_t bodies_ = 0;           ///< of all conditions
};

}  // namespace

Shape ByteReader::shape() {
  const auto rank = get<std::uint32_t>();
  if (rank < 1 || rank > max_rank) throw Damaged{"a shape has an impossible rank"};
  std::size_t sizes[max_rank];
  Wide count = 1;
  for (std::size_t d = 0; d < max_rank; ++d) {
    sizes[d] = get<std::uint64_t>();
    if (d >= rank && sizes[d] != 1) throw Damaged{"a shape contradicts itself"};
    if (sizes[d] >> 62 != 0) throw Damaged{"a shape is larger than any memory"};
    count = count * sizes[d];
    if (count >> 62 != 0) throw Damaged{"a shape is larger than any memory"};
  }
  return Shape::of(rank, sizes);
}

bool fits(std::uint64_t bytes, std::uint64_t offset, const Shape& shape, const std::ptrdiff_t* strides,
          std::uint64_t element_bytes) {
  if (offset > bytes) return false;
  if (shape.count() == 0) return true;
  Wide extent = element_bytes;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (strides[d] < 0) return false;
    extent += static_cast<Wide>(shape[d] - 1) * static_cast<std::uint64_t>(strides[d]);
    if (extent > bytes) return false;
  }
  return extent <= bytes - offset;
}

namespace {

struct Head {
  std::uint64_t length;  ///< of what follows
  std::uint64_t sum;
};

/// What cannot be read at all, as a folder: no damage.
struct Unreadable {};

/// Appends up to `size` bytes, in pieces: a length that is a lie costs no memory. Whether all were there.
bool read_bytes(std::istream& file, std::uint64_t size, std::vector<std::byte>& bytes) {
  constexpr std::uint64_t piece = std::uint64_t{16} << 20;
  while (size > 0) {
    const auto wanted = static_cast<std::size_t>(std::min(size, piece));
    const std::size_t before = bytes.size();
    bytes.resize(before + wanted);
    file.read(reinterpret_cast<char*>(bytes.data() + before), static_cast<std::streamsize>(wanted));
    if (file.bad()) throw Unreadable{};
    const auto got = static_cast<std::size_t>(file.gcount());
    bytes.resize(before + got);
    if (got < wanted) return false;
    size -= got;
  }
  return true;
}

/// Before anything else is read: most files that are no graphs end here, however long they are.
Head read_head(std::istream& file) {
  std::vector<std::byte> bytes;
  read_bytes(file, header_bytes, bytes);
  ByteReader in(bytes);
  const auto magic = in.take(file_magic.size());
  if (std::memcmp(magic.data(), file_magic.data(), file_magic.size()) != 0) throw Damaged{"it is no graph of Weir's"};
  if (in.get<std::uint32_t>() != file_version) throw Damaged{"it is of another version of Weir"};
  if (in.get<std::uint32_t>() != 0) throw Damaged{"its head is wrong"};
  const auto length = in.get<std::uint64_t>();
  return {length, in.get<std::uint64_t>()};
}

/// Whether the length is known to be right. A pipe has none: what it brings counts.
bool check_length(const std::string& path, std::uint64_t length) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return false;
  const std::uintmax_t size = std::filesystem::file_size(path, unknown);
  if (unknown) return false;
  if (size - header_bytes != length) throw Damaged{"its length is wrong"};
  return true;
}

std::uint64_t host_memory() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace

FileGraph read_file(const std::string& path, const char* operation, SourceLocation where) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(Errc::invalid_value, operation, path, "the file cannot be read", where);
  FileGraph graph;
  try {
    const Head head = read_head(file);
    const bool known = check_length(path, head.length);
    if (head.length > host_memory()) {
      throw Error(Errc::out_of_memory, operation, path,
                  "its " + std::to_string(head.length) + " bytes are more than the memory of this machine", where);
    }
    if (known) graph.bytes.reserve(head.length);
    if (!read_bytes(file, head.length, graph.bytes) || file.peek() != std::istream::traits_type::eof()) {
      throw Damaged{"its length is wrong"};
    }
    if (checksum(graph.bytes) != head.sum) throw Damaged{"its checksum is wrong"};
    FileReader(graph).read();
  } catch (const Unreadable&) {
    throw Error(Errc::invalid_value, operation, path, "the file cannot be read", where);
  } catch (const Damaged& damage) {
    throw Error(Errc::not_a_graph_file, operation, path, damage.what, where);
  }
  return graph;
}

}  // namespace weir::detail

namespace weir {

std::vector<NodeInfo> read_graph_nodes(const std::string& path, SourceLocation where) {
  constexpr const char* operation = "weir::read_graph_nodes";
  detail::enter(operation, where);
  const detail::FileGraph file = detail::read_file(path, operation, where);
  std::vector<NodeInfo> all;
  for (std::size_t i = 0; i < file.nodes.size(); ++i) {
    const detail::FileNode& node = file.nodes[i];
    NodeInfo info;
    info.node = Node(1, i);
    info.kind = node.form.kind;
    constexpr const char* conditions[] = {"if", "if/else", "switch", "while"};
    info.name = !node.name.empty()                        ? node.name
                : !node.kernel.empty()                    ? node.kernel
                : node.form.kind == NodeKind::conditional ? conditions[static_cast<int>(node.form.condition.kind)]
                                                          : std::string(to_text(node.form.kind));
    if (info.kind == NodeKind::launch) {
      for (std::size_t d = 0; d < node.extent.rank(); ++d) {
        info.detail += (d == 0 ? "[" : ", ") + std::to_string(node.extent[d]);
      }
      info.detail += "]";
    }
    info.where = node.form.where;
    info.stream = node.form.stream;
    info.stream_name = node.form.stream_name;
    info.priority = node.form.priority;
    for (const std::uint32_t before : node.form.depends) info.depends.emplace_back(1, before);
    if (node.form.parent >= 0) info.parent = Node(1, static_cast<std::size_t>(node.form.parent));
    info.branch = node.form.branch;
    info.enabled = node.form.enabled;
    all.push_back(std::move(info));
  }
  return all;
}

}  // namespace weir
