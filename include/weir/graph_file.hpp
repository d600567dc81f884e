// Graphs in files: of library operations and registered kernels, with the arrays that they use; loaded again in another
// process, on any backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <weir/array.hpp>
#include <weir/detail/arguments.hpp>
#include <weir/graph.hpp>
#include <weir/kernel.hpp>

namespace weir {

namespace detail {

/// Writes and reads the pieces of a closure. Views are written as a place in an array of the graph.
class ClosureWriter {
 public:
  virtual ~ClosureWriter() = default;
  virtual void bytes(const void* data, std::size_t size) = 0;
  virtual void view(const void* data, std::size_t rank, const std::size_t* sizes, const std::ptrdiff_t* strides,
                    std::size_t element_bytes) = 0;
};
class ClosureReader {
 public:
  virtual ~ClosureReader() = default;
  virtual void bytes(void* data, std::size_t size) = 0;
  virtual void* view(std::size_t rank, std::size_t* sizes, std::ptrdiff_t* strides, std::size_t element_bytes,
                     std::size_t alignment) = 0;
};

/// A kernel that files may name.
struct RegisteredKernel {
  std::string name;
  const Kernel* kernel;
  void (*write)(const void* closure, ClosureWriter& writer);
  void (*read)(void* closure, ClosureReader& reader);
};
void add_kernel(RegisteredKernel kernel, SourceLocation where);

template <std::size_t I, class T>
void write_slot(const Slot<I, T>& slot, ClosureWriter& writer) {
  if constexpr (is_view<T>) {
    std::size_t sizes[T::rank()];
    std::ptrdiff_t strides[T::rank()];
    for (std::size_t d = 0; d < T::rank(); ++d) {
      sizes[d] = slot.value.size(d);
      strides[d] = slot.value.stride(d);
    }
    writer.view(slot.value.data(), T::rank(), sizes, strides, sizeof(typename T::element_type));
  } else {
    writer.bytes(&slot.value, sizeof(T));
  }
}
template <std::size_t I, class T>
void read_slot(Slot<I, T>& slot, ClosureReader& reader) {
  if constexpr (is_view<T>) {
    using Element = typename T::element_type;
    std::size_t sizes[T::rank()];
    std::ptrdiff_t strides[T::rank()];
    void* data = reader.view(T::rank(), sizes, strides, sizeof(Element), alignof(Element));
    slot.value = T(static_cast<Element*>(data), sizes, strides);
  } else {
    reader.bytes(&slot.value, sizeof(T));
  }
}

template <class C>
struct ClosureFormat;
template <class F, class... B>
struct ClosureFormat<Closure<F, B...>> {
  using C = Closure<F, B...>;
  static_assert(std::is_trivially_copyable_v<F>, "kernels in files are copied as bytes");
  static void write(const void* closure, ClosureWriter& writer) {
    const C& c = *static_cast<const C*>(closure);
    if constexpr (!std::is_empty_v<F>) writer.bytes(&c.kernel, sizeof(F));
    write_slots(c.arguments, writer);
  }
  static void read(void* closure, ClosureReader& reader) {
    C& c = *static_cast<C*>(closure);
    if constexpr (!std::is_empty_v<F>) reader.bytes(&c.kernel, sizeof(F));
    read_slots(c.arguments, reader);
  }

 private:
  template <std::size_t... I, class... T>
  static void write_slots(const Slots<std::index_sequence<I...>, T...>& slots, ClosureWriter& writer) {
    (write_slot<I, T>(slots, writer), ...);
  }
  template <std::size_t... I, class... T>
  static void read_slots(Slots<std::index_sequence<I...>, T...>& slots, ClosureReader& reader) {
    (read_slot<I, T>(slots, reader), ...);
  }
};

template <class F, class Indices>
struct DeclaredClosure;
template <class F, std::size_t... I>
struct DeclaredClosure<F, std::index_sequence<I...>> {
  using type = Closure<F, typename CallParameters<F>::template type<I + 1>...>;
};

template <class C, class F, std::size_t rank>
void register_closure(std::string name, SourceLocation where) {
  add_kernel(
      {std::move(name), &element_kernel<C, F, rank, ThisCompiler>, &ClosureFormat<C>::write, &ClosureFormat<C>::read},
      where);
}

}  // namespace detail

/// Lets graphs with launches of this kernel be saved and loaded under `name`, in every process that registers it so. Its
/// arguments are of the types that its call operator declares. Throws invalid_value if another kernel has the name.
template <class F>
void register_kernel(std::string name, SourceLocation where = SourceLocation::current()) {
  using Known = detail::CallParameters<F>;
  static_assert(Known::known, "this kernel's call operator is a template: name the types of its arguments, too");
  using C = typename detail::DeclaredClosure<F, std::make_index_sequence<Known::count - 1>>::type;
  detail::register_closure<C, F, detail::index_rank<typename detail::ParameterAt<F, 0>::type>>(std::move(name), where);
}
/// For arguments of other types: `register_kernel<Scale, double, View<const float>, View<float>>("scale")`.
template <class F, class First, class... B>
void register_kernel(std::string name, SourceLocation where = SourceLocation::current()) {
  using C = detail::Closure<F, First, B...>;
  constexpr std::size_t rank = std::is_invocable_v<const F&, std::size_t, const First&, const B&...> ? 1
                               : std::is_invocable_v<const F&, Index<2>, const First&, const B&...>  ? 2
                               : std::is_invocable_v<const F&, Index<3>, const First&, const B&...>  ? 3
                                                                                                     : 4;
  detail::register_closure<C, F, rank>(std::move(name), where);
}

/// An array of a graph with the name by which a loaded graph gives it back.
struct NamedArray {
  template <class T>
  NamedArray(std::string n, const ArrayBase<T>& array)
      : name(std::move(n)), data(array.data()), shape(array.shape()), element_bytes(sizeof(T)) {}

  std::string name;
  const void* data;
  Shape shape;
  std::size_t element_bytes;
};

/// Writes the graph, the arrays that it uses with their present contents, and their names. Waits for the work that these
/// arrays are in. Throws not_supported, naming the node and its line, for what cannot be in a file: host functions, foreign
/// work, events, collectives, kernels that are not registered, memory that Weir did not allocate, nodes inside of more than
/// 200 graphs and bodies.
void save(const Graph& graph, const std::string& path, const std::vector<NamedArray>& arrays = {},
          SourceLocation where = SourceLocation::current());

/// A graph from a file with its arrays.
class LoadedGraph {
 public:
  LoadedGraph(LoadedGraph&&) noexcept;
  LoadedGraph& operator=(LoadedGraph&&) noexcept;
  ~LoadedGraph();

  Graph graph;
  /// The array that was saved under this name. Throws invalid_value if there is none, or its elements have another size.
  template <class T>
  Slice<T> array(std::string_view name, SourceLocation where = SourceLocation::current()) const {
    const auto [storage, data, shape] = find(name, sizeof(T), where);
    return Slice<T>(storage, AnyView<T>(static_cast<T*>(data), shape));
  }

  /// For the library.
  struct Place {
    detail::Storage* storage;
    void* data;
    Shape shape;
  };
  struct Named {
    std::string name;
    Place place;
    std::size_t element_bytes;
  };
  LoadedGraph(Graph g, std::vector<detail::Storage*> storages, std::vector<Named> names);

 private:
  Place find(std::string_view name, std::size_t element_bytes, SourceLocation where) const;

  std::vector<detail::Storage*> storages_;  ///< counted
  std::vector<Named> names_;
};

/// Reads a graph and makes its arrays on `device`. Throws not_a_graph_file for a damaged or foreign file, not_supported for
/// a kernel that this process has not registered.
LoadedGraph load_graph(const std::string& path, Device device, SourceLocation where = SourceLocation::current());

/// The nodes alone, for looking: needs neither the kernels nor a device.
std::vector<NodeInfo> read_graph_nodes(const std::string& path, SourceLocation where = SourceLocation::current());

}  // namespace weir
