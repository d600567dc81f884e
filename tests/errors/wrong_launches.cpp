// Wrong inputs: extents, blocks, arguments and algorithms (R168).
#include "wrong_inputs.hpp"

#include <utility>

namespace weir_test {

using weir::Errc;

namespace {

struct DoNothingOfAnyKind {
  template <class I>
  WEIR_KERNEL void operator()(I) const {}
};
struct ClearInBlocks {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<int> x) const { x[block.index()] = 0; }
};
struct AddTwo {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, weir::View<const int> y) const { x[i] += y[i]; }
};

void add_extents(Table& table) {
  table.add("two dimensions for a kernel of one", Errc::wrong_shape, {"weir::launch", "[2, 5]", "AddOne"},
            [](Room& room) {
              weir::launch(room.stream, {2, 5}, AddOne{}, weir::inout(room.a));
            });
  table.add("one dimension for a kernel of two", Errc::wrong_shape, {"weir::launch", "[12]"},
            [](Room& room) { weir::launch(room.stream, 12, AddOneToPlane{}, weir::inout(room.plane)); });
  table.add("two dimensions for an undeclared index", Errc::wrong_shape, {"weir::launch", "[2, 5]", "weir::Index"},
            [](Room& room) {
              const weir::Shape shape(2, 5);
              weir::launch(room.stream, shape, DoNothingOfAnyKind{});
            });
  table.add("a negative extent", Errc::size_overflow, {"weir::launch", "-3"},
            [](Room& room) { weir::launch(room.stream, -3, AddOne{}, weir::inout(room.a)); });
  table.add("a negative extent of two dimensions", Errc::size_overflow, {"weir::launch", "-4"}, [](Room& room) {
    weir::launch(room.stream, {3, -4}, AddOneToPlane{}, weir::inout(room.plane));
  });
  table.add("an extent that overflows", Errc::size_overflow, {"weir::launch"}, [](Room& room) {
    weir::launch(room.stream, {1LL << 40, 1LL << 40}, AddOneToPlane{}, weir::inout(room.plane));
  });
  table.add("a block of more than 1024 threads", Errc::invalid_value, {"weir::launch", "2048"}, [](Room& room) {
    weir::launch(room.stream, weir::Extent{.size = 10, .block = 2048}, AddOne{}, weir::inout(room.a));
  });
}

void add_blocks(Table& table) {
  struct Size {
    const char* name;
    weir::BlockExtent extent;
    const char* word;
  };
  for (const Size& size :
       {Size{"no blocks", {.blocks = 0, .threads = 32}, "0 blocks"},
        Size{"a negative number of blocks", {.blocks = static_cast<std::size_t>(-2), .threads = 32}, "-2"},
        Size{"blocks without threads", {.blocks = 1, .threads = 0}, "0 threads"},
        Size{"blocks of 2048 threads", {.blocks = 1, .threads = 2048}, "2048"},
        Size{"planes of blocks without rows", {.blocks = {0, 4}, .threads = 32}, "0 x 4 blocks"},
        Size{"planes of more than 1024 threads", {.blocks = 1, .threads = {33, 32}}, "33 x 32 threads"},
        Size{"blocks of too much shared memory",
             {.blocks = 1, .threads = 32, .shared_bytes = std::size_t{1} << 40},
             "shared"}}) {
    table.add(size.name, Errc::invalid_value, {"weir::launch_blocks", size.word},
              [extent = size.extent](Room& room) { weir::launch_blocks(room.stream, extent, DoNothingInBlocks{}); });
  }
  table.add(
      "a block that takes more shared memory than it asked for", Errc::invalid_value, {"64"},
      [](Room& room) {
        weir::launch_blocks(room.stream, {.blocks = 1, .threads = 1, .shared_bytes = 64, .name = "greedy"},
                            weir::host_only([](weir::Block& block) { (void)block.shared<int>(17); }));
        try {
          room.stream.synchronize();
        } catch (const weir::Error& error) {
          EXPECT_EQ(error.operation(), "weir::launch_blocks");
          if (std::string_view(error.what()).find("wrong_launches.cpp") == std::string_view::npos) throw;
          try {
            std::rethrow_exception(error.cause());
          } catch (const weir::Error& cause) {
            throw weir::Error(cause.errc(), error.operation(), error.object(), cause.what(), error.where());
          }
        }
      },
      Needs::cpu);
}

void add_no_kernels(Table& table) {
  using Kernel = void (*)(std::size_t, weir::View<int>);
  using BlockKernel = void (*)(weir::Block&, weir::View<int>);
  table.add("a kernel that is the address of nothing", Errc::invalid_value, {"weir::launch: kernel", "null"},
            [](Room& room) { weir::launch(room.stream, 10, Kernel{nullptr}, weir::inout(room.a)); });
  table.add("a kernel over blocks that is the address of nothing", Errc::invalid_value,
            {"weir::launch_blocks: kernel", "null"}, [](Room& room) {
              weir::launch_blocks(room.stream, {.blocks = 1, .threads = 1}, BlockKernel{nullptr}, weir::inout(room.a));
            });
  table.add("a node's kernel that is the address of nothing", Errc::invalid_value,
            {"weir::GraphBuilder::launch: kernel", "null"}, [](Room& room) {
              weir::GraphBuilder builder(room.device);
              builder.launch(10, Kernel{nullptr}, weir::inout(room.a));
            });
  table.add("a host function that is the address of nothing", Errc::invalid_value, {"weir::host_call: function"},
            [](Room& room) {
              void (*const nothing)() = nullptr;
              weir::host_call(room.stream, nothing);
            });
  table.add("a std::function without one", Errc::invalid_value, {"weir::host_call: function", "empty"},
            [](Room& room) { weir::host_call(room.stream, std::function<void()>()); });
  table.add("foreign work that is the address of nothing", Errc::invalid_value, {"weir::external: function"},
            [](Room& room) {
              void (*const nothing)(weir::NativeStream) = nullptr;
              weir::external(room.stream, nothing);
            });
}

void add_arguments(Table& table) {
  table.add("a view without memory", Errc::null_view, {"weir::launch", "10"},
            [](Room& room) { weir::launch(room.stream, 10, AddOne{}, weir::View<int>(nullptr, 10)); });
  table.add("a view without memory as inout", Errc::null_view, {"weir::launch", "10"},
            [](Room& room) { weir::launch(room.stream, 10, AddOne{}, weir::inout(weir::View<int>(nullptr, 10))); });
  table.add("a misaligned view", Errc::misaligned, {"weir::launch", "4"}, [](Room& room) {
    int* const odd = reinterpret_cast<int*>(reinterpret_cast<char*>(room.pinned.data()) + 1);
    weir::launch(room.stream, 9, AddOne{}, weir::View<int>(odd, 9));
  });
  table.add("a view without memory for blocks", Errc::null_view, {"weir::launch_blocks:", "10"}, [](Room& room) {
    weir::launch_blocks(room.stream, {.blocks = 1, .threads = 1}, ClearInBlocks{}, weir::View<int>(nullptr, 10));
  });
  table.add("a plane where the kernel wants a line", Errc::wrong_shape,
            {"weir::launch:", "argument 1", "AddOne'", "2 dimensions"},
            [](Room& room) { weir::launch(room.stream, 12, AddOne{}, weir::inout(room.plane)); });
  table.add("a line where the kernel wants a plane", Errc::wrong_shape, {"argument 1", "AddOneToPlane", "1 dimensions"},
            [](Room& room) {
              weir::launch(room.stream, {2, 5}, AddOneToPlane{}, weir::inout(room.a));
            });
  table.add("a plane where a kernel for blocks wants a line", Errc::wrong_shape,
            {"weir::launch_blocks:", "argument 1", "ClearInBlocks", "2 dimensions"}, [](Room& room) {
              weir::launch_blocks(room.stream, {.blocks = 1, .threads = 1}, ClearInBlocks{}, weir::out(room.plane));
            });
  table.add("a const plane as the second argument, where the kernel wants a line", Errc::wrong_shape,
            {"argument 2", "AddTwo", "2 dimensions"}, [](Room& room) {
              weir::launch(room.stream, 10, AddTwo{}, weir::inout(room.a), std::as_const(room.plane));
            });
  table.add(
      "a pageable array in a kernel", Errc::wrong_memory, {"weir::launch", "host array", "pageable"},
      [](Room& room) { weir::launch(room.stream, 10, AddOne{}, weir::inout(room.pageable)); },
      Needs::pageable_out_of_reach);
  table.add(
      "a pageable view in a kernel", Errc::wrong_memory, {"weir::launch", "pageable"},
      [](Room& room) { weir::launch(room.stream, 10, AddOne{}, weir::View<int>(room.vector.data(), 10)); },
      Needs::pageable_out_of_reach);
  table.add(
      "an array of another device", Errc::wrong_device, {"weir::launch", "enable_peer_access"},
      [](Room& room) {
        auto far = weir::zeros<int>(room.other, 10);
        weir::get_stream(room.other).synchronize();
        weir::launch(room.stream, 10, AddOne{}, weir::inout(far));
      },
      Needs::two_devices);
}

void add_algorithms(Table& table) {
  table.add("transform of arrays of two lengths", Errc::wrong_shape, {"weir::transform", "10", "9"},
            [](Room& room) { weir::transform(room.stream, room.a, room.b.slice(0, 9), Same{}); });
  table.add("transform of a pair of arrays of two lengths", Errc::wrong_shape, {"weir::transform"},
            [](Room& room) { weir::transform(room.stream, room.a, room.b.slice(0, 9), room.b, weir::Plus{}); });
  table.add("reduce of nothing", Errc::wrong_shape, {"weir::reduce"},
            [](Room& room) { weir::reduce(room.stream, room.a.slice(0, 0), room.b); });
  table.add("reduce to nothing", Errc::wrong_shape, {"weir::reduce"},
            [](Room& room) { weir::reduce(room.stream, room.a, room.b.slice(0, 0)); });
  table.add("inclusive_scan to another length", Errc::wrong_shape, {"weir::inclusive_scan", "10", "5"},
            [](Room& room) { weir::inclusive_scan(room.stream, room.a, room.b.slice(0, 5)); });
  table.add("reduce of a plane", Errc::wrong_shape, {"weir::reduce:", "2 dimensions"},
            [](Room& room) { weir::reduce(room.stream, room.plane, room.b); });
}

}  // namespace

std::vector<WrongInput> wrong_launches() {
  Table table(__FILE__);
  add_extents(table);
  add_blocks(table);
  add_no_kernels(table);
  add_arguments(table);
  add_algorithms(table);
  return table.take();
}

}  // namespace weir_test
