// Arrays of other processes: their elements, their lifetime, who frees what.
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "ipc/peer.hpp"
#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

using weir::Errc;

constexpr std::size_t n = 100'003;

weir::Pool shareable(weir::Device device, const char* name = "shared") {
  return weir::Pool(device, {.name = name, .shareable = true});
}

class IpcArrays : public AnyDevice {};
ON_EVERY_DEVICE(IpcArrays);

/// Imports an array of ints, reads it, writes 9 everywhere, and holds it until it is told to go.
WEIR_SCENE(ipc_imports_and_fills) {
  const Talk test = test_process();
  {
    auto x = weir::import_array<int>(test_device(), test.hear<weir::ArrayHandle>());
    const std::vector<int> values = x.to_host();
    insist(x.shape() == weir::Shape(7, n), "the shape is the exporter's");
    insist(values.front() == 5 && values.back() == 5 && x.size() == 7 * n, "the elements are the exporter's");
    weir::fill(x.stream(), x, 9);
    x.stream().synchronize();
    test.nod();
    test.await_nod();
  }
  weir::synchronize();
  test.nod();
  test.await_nod();
}

TEST_P(IpcArrays, are_read_and_written_by_another_process_in_place) {
  const weir::Pool pool = shareable(device());
  const weir::Stream s(device());
  auto x = weir::empty<int>(s, {7, n}, pool);
  weir::fill(s, x, 5);
  s.synchronize();
  Peer peer("ipc_imports_and_fills", device());
  peer->say(weir::export_array(x));
  peer->await_nod();
  EXPECT_EQ(x.to_host(s), std::vector<int>(7 * n, 9));
  peer->nod();
  peer->await_nod();
  peer->nod();
  EXPECT_TRUE(peer.ends_well());
}

/// The memory is the importer's, too: freed and destroyed by the exporter, it is not given to anybody else before.
TEST_P(IpcArrays, stay_until_the_importer_has_dropped_them) {
  const weir::Pool pool = shareable(device());
  const weir::Stream s(device());
  for (const bool by_free : {true, false}) {
    std::optional<weir::Array<int>> x = weir::empty<int>(s, {7, n}, pool);
    weir::fill(s, *x, 5);
    s.synchronize();
    Peer peer("ipc_imports_and_fills", device());
    peer->say(weir::export_array(*x));
    peer->await_nod();
    const weir::Stream other(device());
    if (by_free) {
      x->free(other);  // its object lives on
    } else {
      x.reset();
    }
    device().synchronize();
    EXPECT_GE(pool.statistics().used, 7 * n * sizeof(int)) << "while it is imported";
    peer->nod();
    peer->await_nod();
    EXPECT_TRUE(eventually([&] { return pool.statistics().used == 0; })) << "once it is not";
    peer->nod();
    EXPECT_TRUE(peer.ends_well());
  }
}

TEST_P(IpcArrays, of_an_importer_that_died_are_the_exporters_alone_again) {
  const weir::Pool pool = shareable(device());
  const weir::Stream s(device());
  std::optional<weir::Array<int>> x = weir::empty<int>(s, {7, n}, pool);
  weir::fill(s, *x, 5);
  s.synchronize();
  Peer peer("ipc_imports_and_fills", device());
  peer->say(weir::export_array(*x));
  peer->await_nod();
  x.reset();
  EXPECT_NE(pool.statistics().used, 0u);
  peer.kill();
  EXPECT_TRUE(eventually([&] { return pool.statistics().used == 0; }));
}

/// Exports a row of an array, and a handle of one that is gone.
WEIR_SCENE(ipc_exports) {
  const Talk test = test_process();
  const weir::Pool pool = shareable(test_device());
  const weir::Stream s(test_device());
  auto x = weir::empty<float>(s, {3, n}, pool);
  for (int row = 0; row < 3; ++row) weir::fill(s, x.slice(row, row + 1), 1.5f + static_cast<float>(row));
  s.synchronize();
  test.say(weir::export_array(x.slice(1, 2)));
  weir::ArrayHandle gone;
  {
    auto y = weir::empty<float>(s, 10, pool);
    gone = weir::export_array(y);
  }
  test.say(gone);
  auto freed = weir::empty<float>(s, 10, pool);
  const weir::ArrayHandle given_back = weir::export_array(freed);
  freed.free();  // its object lives on
  test.say(given_back);
  test.await_nod();
}

TEST_P(IpcArrays, may_be_parts_of_the_exporters) {
  Peer peer("ipc_exports", device());
  const auto handle = peer->hear<weir::ArrayHandle>();
  auto x = weir::import_array<float>(device(), handle);
  EXPECT_EQ(x.shape(), weir::Shape(1, n));
  EXPECT_EQ(x.to_host(), std::vector<float>(n, 2.5f));
  auto again = weir::import_array<float>(device(), handle);
  weir::fill(again.stream(), again, 4.0f);
  again.stream().synchronize();
  EXPECT_EQ(x.to_host(), std::vector<float>(n, 4.0f)) << "imported twice, it is one array";
  const auto info = weir::pointer_info(x.data());
  EXPECT_EQ(info.kind, weir::MemoryKind::device);
  // It is an array like any other: slices, copies, kernels' arguments.
  auto copy = x.slice({{0, 1}, {5, 9}}).clone(x.stream());
  EXPECT_EQ(copy.to_host(), std::vector<float>(4, 4.0f));
}

TEST_P(IpcArrays, that_are_gone_or_of_other_elements_are_errors) {
  Peer peer("ipc_exports", device());
  const auto handle = peer->hear<weir::ArrayHandle>();
  const auto gone = peer->hear<weir::ArrayHandle>();
  const std::string process = "array of process " + std::to_string(peer.pid());
  for (const auto& one : {gone, peer->hear<weir::ArrayHandle>()}) {
    EXPECT_TRUE(fails_with(Errc::already_freed, [&] { static_cast<void>(weir::import_array<float>(device(), one)); },
                           {"weir::import_array", process, "arrays_test.cpp"}));
  }
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { static_cast<void>(weir::import_array<int>(device(), handle)); },
                         {process, "float32", "int32 were asked for"}));
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { static_cast<void>(weir::import_array<double>(device(), handle)); },
                         {"float64 were asked for"}));
  if (on("cuda")) {
    EXPECT_TRUE(fails_with(Errc::wrong_device,
                           [&] { static_cast<void>(weir::import_array<float>(weir::device("cpu"), handle)); },
                           {"'cuda'"}));
  }
  const weir::Device simulated = weir::device("sim:h200");
  EXPECT_TRUE(fails_with(Errc::not_supported, [&] { static_cast<void>(weir::import_array<float>(simulated, handle)); },
                         {"sim:h200"}));
  peer.kill();
  EXPECT_TRUE(fails_with(Errc::exporter_gone, [&] { static_cast<void>(weir::import_array<float>(device(), handle)); },
                         {process, "has ended"}));
}

TEST_P(IpcArrays, keep_their_elements_when_the_exporter_has_ended) {
  if (!on("cpu")) GTEST_SKIP() << "says what holds on CPUs: a driver does not promise it";
  Peer peer("ipc_exports", device());
  auto x = weir::import_array<const float>(device(), peer->hear<weir::ArrayHandle>());
  peer.kill();
  EXPECT_EQ(x.to_host(), std::vector<float>(n, 2.5f));
}

TEST_P(IpcArrays, of_const_elements_are_mapped_read_only) {
  if (!on("cpu")) GTEST_SKIP() << "is about pages of the host";
  Peer peer("ipc_exports", device());
  auto x = weir::import_array<const float>(device(), peer->hear<weir::ArrayHandle>());
  std::ostringstream address;
  address << std::hex << reinterpret_cast<std::uintptr_t>(x.data());
  std::ifstream maps("/proc/self/maps");
  bool read_only = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::string access;
    std::istringstream(line) >> std::hex >> begin >> dash >> end >> access;
    const auto at = reinterpret_cast<std::uintptr_t>(x.data());
    if (at >= begin && at < end) read_only = access == "r--s";
  }
  EXPECT_TRUE(read_only);
}

TEST_P(IpcArrays, that_cannot_be_exported_are_refused_with_the_mend) {
  const weir::Pool pool = shareable(device());
  const weir::Stream s(device());
  auto ordinary = weir::empty<int>(s, 16);
  auto shared = weir::empty<int>(s, {4, 4}, pool);
  auto empty = weir::empty<int>(s, 0, pool);
  auto pinned = weir::zeros<int>(weir::pinned, 16);
  weir::Array<int> moved = weir::empty<int>(s, 16, pool);
  const weir::Array<int> other = std::move(moved);
  const auto refused = [&](Errc code, const auto& array, std::initializer_list<std::string_view> words) {
    return fails_with(
        code, [&] { static_cast<void>(weir::export_array(array)); }, words);
  };
  EXPECT_TRUE(refused(Errc::not_supported, ordinary, {"weir::export_array", "shareable = true", "arrays_test.cpp"}));
  EXPECT_TRUE(refused(Errc::wrong_memory, pinned, {"host memory"}));
  EXPECT_TRUE(refused(Errc::invalid_value, empty, {"no elements"}));
  EXPECT_TRUE(refused(Errc::wrong_shape, shared.slice({{0, 4}, {0, 2}}), {"contiguous"}));
  EXPECT_TRUE(refused(Errc::invalid_handle, moved, {"moved from"}));
  shared.free();
  EXPECT_TRUE(refused(Errc::already_freed, shared, {"given back"}));
  const weir::Device simulated = weir::device("sim:h200");
  EXPECT_TRUE(fails_with(Errc::not_supported, [&] { shareable(simulated); }, {"weir::Pool", "sim:h200"}));
  auto own = weir::empty<int>(s, 16, pool);
  const weir::ArrayHandle handle = weir::export_array(own);
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { static_cast<void>(weir::import_array<int>(s, handle)); },
                         {"this process"}));

  Peer peer("ipc_exports", device());
  auto imported = weir::import_array<float>(device(), peer->hear<weir::ArrayHandle>());
  EXPECT_TRUE(refused(Errc::not_supported, imported, {"handle can be passed on"}));
}

TEST_P(IpcArrays, are_not_imported_by_a_stream_that_captures) {
  Peer peer("ipc_exports", device());
  const auto handle = peer->hear<weir::ArrayHandle>();
  const weir::Stream s(device());
  const auto graph = weir::capture(s, [&] {
    EXPECT_TRUE(fails_with(Errc::capture_unsupported, [&] { static_cast<void>(weir::import_array<float>(s, handle)); },
                           {"captures"}));
    const weir::Pool pool = shareable(device());
    auto x = weir::empty<int>(s, 16, pool);
    EXPECT_TRUE(fails_with(Errc::not_supported, [&] { static_cast<void>(weir::export_array(x)); }, {"graph"}));
  });
}

/// A shareable pool is a pool: it gives memory back, and has limits and order.
TEST_P(IpcArrays, come_from_pools_that_give_memory_back_and_use_it_again) {
  const weir::Pool pool(device(), {.max_size = 64 << 20, .name = "small", .shareable = true});
  const weir::Stream s(device());
  for (int round = 0; round < 50; ++round) {
    auto a = weir::full(s, 1000, round);
    auto x = weir::empty<int>(s, 4 << 20, pool);
    auto y = weir::empty<int>(s, 100, pool);
    weir::fill(s, x, round);
    weir::fill(s, y, round);
    weir::copy(s, y.slice(0, 50), x.slice(7, 57));
    ASSERT_EQ(y.to_host(s), std::vector<int>(100, round));
  }
  EXPECT_TRUE(
      fails_with(Errc::out_of_memory, [&] { static_cast<void>(weir::empty<int>(s, 64 << 20, pool)); }, {"small"}));
  s.synchronize();
  device().synchronize();
  pool.trim();
  EXPECT_EQ(pool.statistics().reserved, 0u);
}

/// An observer is told of imported memory as of any other.
TEST_P(IpcArrays, are_told_to_observers) {
  struct Told : weir::Observer {
    void submitted(const weir::Command& command) override {
      const auto* alloc = std::get_if<weir::Alloc>(&command.op);
      if (alloc != nullptr && alloc->bytes == n * sizeof(float)) buffer = alloc->buffer;
      const auto* free = std::get_if<weir::Free>(&command.op);
      if (free != nullptr && free->buffer == buffer) gone = true;
    }
    weir::BufferId buffer = 0;
    bool gone = false;
  } told;
  Peer peer("ipc_exports", device());
  const auto handle = peer->hear<weir::ArrayHandle>();
  weir::attach(told);
  { auto x = weir::import_array<float>(device(), handle); }
  weir::detach(told);
  EXPECT_NE(told.buffer, 0u);
  EXPECT_TRUE(told.gone);
}

}  // namespace
}  // namespace weir_test
