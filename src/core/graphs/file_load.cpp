// Graphs from files: arrays, closures, nodes.
#include <memory>
#include <string>
#include <utility>

#include <weir/copy.hpp>

#include "core/checks.hpp"
#include "core/graphs/capture.hpp"
#include "core/graphs/file_format.hpp"
#include "core/observers.hpp"

namespace weir {

using namespace detail;

namespace {

constexpr const char* operation = "weir::load_graph";
constexpr std::size_t array_alignment = most_alignment;  // what is in them is not known

/// Counted storages that are given back unless they are taken.
class Storages {
 public:
  ~Storages() {
    for (Storage* storage : all) release(storage);
  }
  std::vector<Storage*> all;
};

/// Reads a closure's pieces; what does not fit the kernel is damage.
class FileClosure final : public ClosureReader {
 public:
  FileClosure(std::span<const std::byte> bytes, const std::vector<Storage*>& storages)
      : in_(bytes), storages_(storages) {}

  void bytes(void* data, std::size_t size) override {
    if (in_.get<std::uint8_t>() != 'B' || in_.get<std::uint64_t>() != size)
      throw Damaged{"arguments do not fit a kernel"};
    std::memcpy(data, in_.take(size).data(), size);
  }
  void* view(std::size_t rank, std::size_t* sizes, std::ptrdiff_t* strides, std::size_t element_bytes,
             std::size_t alignment) override {
    if (in_.get<std::uint8_t>() != 'V') throw Damaged{"arguments do not fit a kernel"};
    const auto buffer = in_.get<std::uint32_t>();
    const auto offset = in_.get<std::uint64_t>();
    if (in_.get<std::uint8_t>() != rank) throw Damaged{"arguments do not fit a kernel"};
    std::ptrdiff_t byte_strides[max_rank] = {};
    for (std::size_t d = 0; d < rank; ++d) {
      sizes[d] = in_.get<std::uint64_t>();
      strides[d] = in_.get<std::int64_t>();
      constexpr std::int64_t most = std::int64_t{1} << 48;
      if (sizes[d] > static_cast<std::uint64_t>(most) || strides[d] < 0 || strides[d] > most) {
        throw Damaged{"a view makes no sense"};
      }
      byte_strides[d] = strides[d] * static_cast<std::ptrdiff_t>(element_bytes);
    }
    if (in_.get<std::uint64_t>() != element_bytes) throw Damaged{"arguments do not fit a kernel"};
    bool empty = false;
    for (std::size_t d = 0; d < rank; ++d) empty = empty || sizes[d] == 0;
    if (buffer == no_buffer && empty) return nullptr;
    if (buffer >= storages_.size() || offset % alignment != 0) throw Damaged{"a view lies outside of its array"};
    const Storage& storage = *storages_[buffer];
    if (!fits(storage.bytes, offset, Shape::of(rank, sizes), byte_strides, element_bytes)) {
      throw Damaged{"a view lies outside of its array"};
    }
    return static_cast<std::byte*>(storage.data) + offset;
  }
  bool at_end() const { return in_.empty(); }

 private:
  ByteReader in_;
  const std::vector<Storage*>& storages_;
};

class Loader {
 public:
  Loader(const FileGraph& file, Device device, SourceLocation where) : file_(file), device_(device), where_(where) {}

  void make_arrays() {
    const StreamRef stream = device_.state()->own;
    for (const FileBuffer& buffer : file_.buffers) {
      const std::size_t bytes = buffer.contents.size();
      storages.all.reserve(storages.all.size() + 1);
      Storage* storage =
          make_storage(operation, buffer.kind, stream, Shape(bytes), 1, array_alignment, nullptr, where_);
      storages.all.push_back(storage);
      if (bytes == 0) continue;
      if (buffer.kind != MemoryKind::device) {
        std::memcpy(storage->data, buffer.contents.data(), bytes);
        continue;
      }
      const AnyView<std::byte> to(static_cast<std::byte*>(storage->data), Shape(bytes));
      detail::copy(stream, endpoint(to, storage), endpoint(buffer.contents), where_);
    }
    // Replays go to any stream: what they read is there.
    wait_told(stream_wait(*stream.state(), stream.id(), where_, HostWait::Source::load_graph),
              [&] { stream.state()->real->synchronize(operation, where_); });
  }

  GraphForm make_form() {
    GraphForm form;
    for (const FileNode& node : file_.nodes) {
      form.nodes.push_back(node.form);
      FormNode& made = form.nodes.back();
      made.device = device_.index();
      Command command;
      command.where = node.form.where;
      std::vector<Region> uses;
      for (const FileRegion& region : node.uses) uses.push_back(region_of_file(region));
      command.uses = uses;
      std::vector<std::byte> closure;
      std::string name = node.name;
      switch (node.form.kind) {
        case NodeKind::launch: command.op = launch(node, closure); break;
        case NodeKind::copy: command.op = copy(node); break;
        case NodeKind::fill:
          command.op = Fill{address(node.to), node.to_layout, node.value.data(), kind(node.to)};
          break;
        case NodeKind::alloc: command.op = Alloc{address(node.to), bytes(node.to), buffer(node.to), nullptr}; break;
        case NodeKind::free: command.op = Free{address(node.to), bytes(node.to), buffer(node.to), nullptr}; break;
        case NodeKind::conditional:
          made.condition.value = static_cast<const std::int32_t*>(address(node.to));
          command.op = Wait{nullptr, 0};
          break;
        default: continue;
      }
      auto payload = std::make_shared<Payload>(command);
      if (node.to.buffer != no_buffer) payload->keep(*storages.all[node.to.buffer]);
      made.payload = NodePayload(std::move(payload));
    }
    return form;
  }

  std::vector<LoadedGraph::Named> names() const {
    std::vector<LoadedGraph::Named> all;
    for (const FileName& name : file_.names) {
      Storage* storage = storages.all.at(name.place.buffer);
      all.push_back({name.name, {storage, address(name.place), name.shape}, name.element_bytes});
    }
    return all;
  }

  Storages storages;

 private:
  void* address(const FilePlace& place) const {
    if (place.buffer == no_buffer) return nullptr;
    auto* data = static_cast<std::byte*>(storages.all[place.buffer]->data);
    return data == nullptr ? nullptr : data + place.offset;
  }
  MemoryKind kind(const FilePlace& place) const { return storages.all[place.buffer]->kind; }
  std::size_t bytes(const FilePlace& place) const { return storages.all[place.buffer]->bytes; }
  BufferId buffer(const FilePlace& place) const {
    return place.buffer == no_buffer ? 0 : storages.all[place.buffer]->buffer;
  }

  Region region_of_file(const FileRegion& region) const {
    return {address(region.place), region.row_bytes, region.rows, region.pitch, buffer(region.place), region.access};
  }

  Copy copy(const FileNode& node) const {
    Copy copy{};
    copy.to = address(node.to);
    copy.from = address(node.from);
    copy.to_layout = node.to_layout;
    copy.from_layout = node.from_layout;
    copy.to_kind = kind(node.to);
    copy.from_kind = kind(node.from);
    copy.to_device = copy.from_device = device_.index();
    return copy;
  }

  Launch launch(const FileNode& node, std::vector<std::byte>& closure) const {
    const RegisteredKernel* known = find_kernel(node.kernel);
    if (known == nullptr) {
      throw Error(Errc::not_supported, operation, "kernel '" + node.kernel + "'",
                  "this process has not registered it: see weir::register_kernel", where_);
    }
    const Kernel& kernel = *known->kernel;
    if (kernel.rank != node.extent.rank() || node.threads != 0 || node.block > 1024) {
      throw Damaged{"an extent does not fit a kernel"};
    }
    closure.resize(kernel.closure_bytes + 2 * (kernel.closure_align + std::size_t{1}));
    const auto raw = reinterpret_cast<std::uintptr_t>(closure.data());
    auto* at = closure.data() + (kernel.closure_align - raw % kernel.closure_align) % kernel.closure_align;
    FileClosure reader(node.closure, storages.all);
    known->read(at, reader);
    if (!reader.at_end()) throw Damaged{"arguments do not fit a kernel"};
    return Launch{
        &kernel, at, node.extent, node.block, 0, node.shared_bytes, node.name.empty() ? nullptr : node.name.c_str()};
  }

  const FileGraph& file_;
  Device device_;
  SourceLocation where_;
};

}  // namespace

LoadedGraph load_graph(const std::string& path, Device device, SourceLocation where) {
  enter(operation, where);
  check_host_wait(operation, "graph file", where);
  const FileGraph file = read_file(path, operation, where);
  try {
    Loader loader(file, device, where);
    loader.make_arrays();
    Graph graph = instantiate(loader.make_form(), next_graph_id(), *device.state(), nullptr, operation, where);
    std::vector<LoadedGraph::Named> names = loader.names();
    return LoadedGraph(std::move(graph), std::exchange(loader.storages.all, {}), std::move(names));
  } catch (const Damaged& damage) {
    throw Error(Errc::not_a_graph_file, operation, path, damage.what, where);
  } catch (const Error& error) {
    // What the file says, the driver does not take.
    if (error.errc() != Errc::invalid_value) throw;
    throw Error(Errc::not_a_graph_file, operation, path, error.what(), where, std::make_exception_ptr(error));
  }
}

LoadedGraph::LoadedGraph(Graph g, std::vector<Storage*> storages, std::vector<Named> names)
    : graph(std::move(g)), storages_(std::move(storages)), names_(std::move(names)) {}
LoadedGraph::LoadedGraph(LoadedGraph&& other) noexcept
    : graph(std::move(other.graph)),
      storages_(std::exchange(other.storages_, {})),
      names_(std::exchange(other.names_, {})) {}
LoadedGraph& LoadedGraph::operator=(LoadedGraph&& other) noexcept {
  std::swap(graph, other.graph);
  std::swap(storages_, other.storages_);
  std::swap(names_, other.names_);
  return *this;
}
LoadedGraph::~LoadedGraph() {
  graph = Graph();  // before its arrays, which thus outlive its replays
  for (Storage* storage : storages_) release(storage);
}

LoadedGraph::Place LoadedGraph::find(std::string_view name, std::size_t element_bytes, SourceLocation where) const {
  constexpr const char* call = "weir::LoadedGraph::array";
  for (const Named& named : names_) {
    if (named.name != name) continue;
    if (named.element_bytes != element_bytes) {
      throw Error(Errc::invalid_value, call, "'" + std::string(name) + "'",
                  "its elements have " + std::to_string(named.element_bytes) + " bytes", where);
    }
    return named.place;
  }
  throw Error(Errc::invalid_value, call, "'" + std::string(name) + "'", "no array was saved under this name", where);
}

}  // namespace weir
