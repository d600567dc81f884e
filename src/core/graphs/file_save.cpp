// Graphs into files.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <zlib.h>

#include <weir/copy.hpp>

#include "core/checks.hpp"
#include "core/collectives/captured_call.hpp"
#include "core/graphs/file_format.hpp"
#include "core/graphs/graph_state.hpp"

namespace weir {

using namespace detail;

namespace {

constexpr const char* operation = "weir::save";

/// The graph's arrays, by place in the file.
class Buffers {
 public:
  void add(Storage& storage) {
    Storage* memory = storage.base != nullptr ? storage.base : &storage;
    if (std::find(all_.begin(), all_.end(), memory) == all_.end()) all_.push_back(memory);
  }
  /// Where an address is; no_buffer for memory that is no array's.
  FilePlace find(const void* data) const {
    const auto at = reinterpret_cast<std::uintptr_t>(data);
    for (std::uint32_t i = 0; i < all_.size(); ++i) {
      const auto begin = reinterpret_cast<std::uintptr_t>(all_[i]->data);
      if (at >= begin && at < begin + all_[i]->bytes) return {i, at - begin};
    }
    return {};
  }
  void write(ByteWriter& out, SourceLocation where) const {
    out.put(static_cast<std::uint32_t>(all_.size()));
    for (Storage* storage : all_) {
      out.put(static_cast<std::uint8_t>(storage->kind));
      out.put(static_cast<std::uint64_t>(storage->bytes));
      std::vector<std::byte> contents(storage->bytes);
      if (storage->kind == MemoryKind::device && storage->bytes != 0) {
        storage->device->backend->drain(storage->device->index);
        const AnyView<std::byte> view(static_cast<std::byte*>(storage->data), Shape(storage->bytes));
        detail::copy(storage->device->own, endpoint(contents), endpoint(view), where);  // also where a node frees it
      } else if (storage->bytes != 0) {
        std::memcpy(contents.data(), storage->data, storage->bytes);
      }
      out.append(contents.data(), contents.size());
    }
  }

 private:
  std::vector<Storage*> all_;
};

class Writer final : public ClosureWriter {
 public:
  Writer(const Buffers& buffers, SourceLocation where) : buffers_(buffers), where_(where) {}

  void nodes(const GraphForm& form) {
    out_.put(static_cast<std::uint32_t>(form.nodes.size()));
    std::vector<std::uint32_t> depths;
    depths.reserve(form.nodes.size());
    for (std::size_t i = 0; i < form.nodes.size(); ++i) {
      node_ = &form.nodes[i];
      depths.push_back(node_->parent < 0 ? 0 : depths[static_cast<std::size_t>(node_->parent)] + 1);
      if (depths.back() > most_nested) refuse("it is inside of more graphs and bodies than a file can hold");
      node(*node_);
    }
  }
  const std::vector<std::byte>& bytes() const { return out_.bytes(); }

  void bytes(const void* data, std::size_t size) override {
    closure_.put(std::uint8_t{'B'});
    closure_.put(static_cast<std::uint64_t>(size));
    closure_.append(data, size);
  }
  void view(const void* data, std::size_t rank, const std::size_t* sizes, const std::ptrdiff_t* strides,
            std::size_t element_bytes) override {
    closure_.put(std::uint8_t{'V'});
    const FilePlace place = Shape::of(rank, sizes).count() == 0 ? FilePlace{} : find(data);
    closure_.put(place.buffer);
    closure_.put(place.offset);
    closure_.put(static_cast<std::uint8_t>(rank));
    for (std::size_t d = 0; d < rank; ++d) {
      closure_.put(static_cast<std::uint64_t>(sizes[d]));
      closure_.put(static_cast<std::int64_t>(strides[d]));
    }
    closure_.put(static_cast<std::uint64_t>(element_bytes));
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    std::string object = "node '" + name_of(*node_) + "'";
    if (node_->where) {
      object += " made at " + std::string(node_->where.file_name()) + ":" + std::to_string(node_->where.line());
    }
    throw Error(Errc::not_supported, operation, object, why, where_);
  }
  FilePlace find(const void* data) const {
    const FilePlace place = buffers_.find(data);
    if (place.buffer == no_buffer) refuse("it uses memory that Weir did not allocate, which no file can hold");
    return place;
  }
  void put(const FilePlace& place) {
    out_.put(place.buffer);
    out_.put(place.offset);
  }
  void put(const Layout& layout) {
    out_.shape(layout.shape);
    for (const std::ptrdiff_t stride : layout.stride) out_.put(static_cast<std::int64_t>(stride));
    out_.put(static_cast<std::uint64_t>(layout.element_bytes));
  }

  void node(const FormNode& node) {
    const bool collective = node.kind == NodeKind::launch && is_collective(std::get<Launch>(node.payload->op()));
    if (collective || is_handed_collective(node)) {
      refuse("a collective cannot be in a file: its communicator is this process's");
    }
    out_.put(static_cast<std::uint8_t>(node.kind));
    out_.put(node.parent);
    out_.put(node.branch);
    out_.put(static_cast<std::int32_t>(node.priority));
    out_.put(node.stream);
    out_.text(node.stream_name);
    out_.text(node.where.file_name());
    out_.put(node.where.line());
    out_.put(static_cast<std::uint8_t>(node.enabled));
    out_.put(static_cast<std::uint32_t>(node.depends.size()));
    for (const std::uint32_t before : node.depends) out_.put(before);
    regions(node);
    switch (node.kind) {
      case NodeKind::launch: return launch(std::get<Launch>(node.payload->op()));
      case NodeKind::copy: {
        const auto& copy = std::get<Copy>(node.payload->op());
        put(find(copy.to));
        put(copy.to_layout);
        put(find(copy.from));
        return put(copy.from_layout);
      }
      case NodeKind::fill: {
        const auto& fill = std::get<Fill>(node.payload->op());
        put(find(fill.to));
        put(fill.layout);
        return out_.append(fill.value, fill.layout.element_bytes);
      }
      case NodeKind::alloc: return put(find(std::get<Alloc>(node.payload->op()).data));
      case NodeKind::free: return put(find(std::get<Free>(node.payload->op()).data));
      case NodeKind::conditional:
        put(find(node.condition.value));
        out_.put(static_cast<std::uint8_t>(node.condition.kind));
        return out_.put(node.condition.bodies);
      case NodeKind::graph:
      case NodeKind::empty: return;
      case NodeKind::host_call: refuse("a host function cannot be in a file");
      case NodeKind::external: refuse("foreign work cannot be in a file");
      case NodeKind::record:
      case NodeKind::wait: refuse("an event cannot be in a file");
    }
  }

  void regions(const FormNode& node) {
    static const std::vector<Region> none;
    const std::vector<Region>& uses = node.payload ? node.payload->uses() : none;
    std::vector<Region> flat;
    for (const Region& region : uses) add_rows(flat, region);
    out_.put(static_cast<std::uint32_t>(flat.size()));
    for (const Region& region : flat) {
      const bool commutes = region.access == Access::accumulate;
      put(region.extent_bytes() == 0 ? FilePlace{} : find(region.begin));
      out_.put(static_cast<std::uint64_t>(region.row_bytes));
      out_.put(static_cast<std::uint64_t>(region.rows));
      out_.put(static_cast<std::uint64_t>(region.pitch));
      out_.put(static_cast<std::uint8_t>(commutes ? Access::read_write : region.access));
    }
  }

  /// The format knows rows alone: a region of more dimensions becomes several, or what spans it if they were many.
  static void add_rows(std::vector<Region>& flat, const Region& region) {
    constexpr std::size_t most = 256;
    std::size_t count = 1;
    for (std::size_t d = 0; d < region.outer_count && count <= most; ++d) count *= region.outer[d].count;
    if (count > most) {
      flat.emplace_back(region.begin, region.extent_bytes(), 1, 0, region.buffer, region.access);
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto* begin = static_cast<const std::byte*>(region.begin);
      std::size_t rest = i;
      for (std::size_t d = 0; d < region.outer_count; ++d) {
        begin += rest % region.outer[d].count * region.outer[d].stride;
        rest /= region.outer[d].count;
      }
      flat.emplace_back(begin, region.row_bytes, region.rows, region.pitch, region.buffer, region.access);
    }
  }

  void launch(const Launch& launch) {
    const RegisteredKernel* known = find_kernel(*launch.kernel);
    if (known == nullptr) {
      refuse("kernel " + std::string(launch.kernel->name) +
             " is not registered with arguments of these types: see weir::register_kernel");
    }
    out_.text(known->name);
    out_.text(launch.name != nullptr ? launch.name : "");
    out_.shape(launch.extent);
    out_.put(launch.block);
    out_.put(launch.threads);
    out_.put(static_cast<std::uint64_t>(launch.shared_bytes));
    closure_ = ByteWriter();
    known->write(launch.closure, *this);
    out_.put(static_cast<std::uint64_t>(closure_.bytes().size()));
    out_.append(closure_.bytes().data(), closure_.bytes().size());
  }

  const Buffers& buffers_;
  SourceLocation where_;
  const FormNode* node_ = nullptr;
  ByteWriter out_;
  ByteWriter closure_;
};

}  // namespace

namespace detail {
std::uint64_t checksum(std::span<const std::byte> bytes) {
  return crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}
}  // namespace detail

void save(const Graph& graph, const std::string& path, const std::vector<NamedArray>& arrays, SourceLocation where) {
  const CoreGraph& core = graph_of(graph, operation, where);
  Buffers buffers;
  for (const FormNode& node : core.form.nodes) {
    if (!node.payload) continue;
    for (Storage* storage : node.payload->arrays()) buffers.add(*storage);
  }
  Writer nodes(buffers, where);
  nodes.nodes(core.form);
  ByteWriter body;
  buffers.write(body, where);
  body.put(static_cast<std::uint32_t>(arrays.size()));
  for (const NamedArray& array : arrays) {
    const FilePlace place = buffers.find(array.data);
    if (place.buffer == no_buffer) {
      throw Error(Errc::invalid_value, operation, "array '" + array.name + "'", "no node of the graph uses it", where);
    }
    body.text(array.name);
    body.put(place.buffer);
    body.put(place.offset);
    body.shape(array.shape);
    body.put(static_cast<std::uint64_t>(array.element_bytes));
  }
  body.append(nodes.bytes().data(), nodes.bytes().size());

  ByteWriter header;
  header.append(file_magic.data(), file_magic.size());
  header.put(file_version);
  header.put(std::uint32_t{0});
  header.put(static_cast<std::uint64_t>(body.bytes().size()));
  header.put(checksum(body.bytes()));
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const auto write = [&file](const std::vector<std::byte>& bytes) {
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  write(header.bytes());
  write(body.bytes());
  file.close();
  if (!file) throw Error(Errc::invalid_value, operation, path, "the file cannot be written", where);
}

}  // namespace weir
