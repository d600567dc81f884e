// Graphs in files: saved, loaded in another process, damaged.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include <weir/weir.hpp>

#include "support/any_device.hpp"
#include "support/child.hpp"
#include "support/errors.hpp"
#include "support/graphs.hpp"

namespace {

using namespace weir_test;
using weir::Errc;

struct SaveScale {
  float offset;
  WEIR_KERNEL void operator()(std::size_t i, float a, weir::View<const float> x, weir::View<float> y) const {
    y[i] = a * x[i] + offset;
  }
};
struct CountDown {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<std::int32_t> n) const { --n[i]; }
};
struct SumUp {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const float> x, weir::View<float> sum) const {
    sum[0] = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum[0] += x[i];
  }
};
struct Unregistered {
  WEIR_KERNEL void operator()(std::size_t, weir::View<int>) const {}
};

void register_all() {
  weir::register_kernel<SaveScale>("test.scale");
  weir::register_kernel<CountDown>("test.count_down");
  weir::register_kernel<SumUp>("test.sum_up");
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const char* name)
      : path(std::filesystem::temp_directory_path() / (std::to_string(getpid()) + "." + name)) {}
  ~TemporaryFile() { std::filesystem::remove(path); }
  std::string bytes() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void write(const std::string& bytes) const { std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes; }

  std::filesystem::path path;
};

/// y = 3 * x + 1, its sum, and a loop that adds to z.
void save_example(weir::Device device, const std::filesystem::path& path) {
  register_all();
  weir::Stream s(device, {.name = "first"});
  weir::Stream t(device, {.name = "second"});
  auto x = weir::full<float>(s, 1000, 2.0f);
  auto y = weir::zeros<float>(s, 1000);
  auto sum = weir::zeros<float>(s, 1);
  auto turns = weir::full<std::int32_t>(s, 1, 5);
  auto z = weir::zeros<float>(s, 8);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] {
    auto scratch = weir::empty<float>(s, 1000);
    weir::copy(s, scratch, x);
    weir::launch(s, weir::Extent{.size = 1000, .name = "scale"}, SaveScale{1.0f}, 3.0f, weir::in(scratch),
                 weir::out(y));
    t.wait(s);
    if (device.backend() == "cpu") {
      weir::reduce(s, y, sum);
    } else {  // there CUB does it, which cannot be saved
      weir::launch(s, 1, SumUp{}, weir::in(y), weir::out(sum));
    }
    weir::fill(t, z.slice(2, 6), 4.0f);
    s.wait(t);
    weir::capture_while(s, turns, [&] {
      weir::launch(s, 8, SaveScale{1.0f}, 1.0f, weir::in(z), weir::out(z));
      weir::launch(s, 1, CountDown{}, weir::inout(turns));
    });
  });
  weir::save(graph, path, {{"x", x}, {"y", y}, {"sum", sum}, {"turns", turns}, {"z", z}});
}

void check_example(weir::Device device, const std::filesystem::path& path) {
  register_all();
  weir::LoadedGraph loaded = weir::load_graph(path, device);
  weir::Stream s(device);
  auto x = loaded.array<float>("x");
  auto sum = loaded.array<float>("sum");
  loaded.graph.launch(s);
  insist(sum.to_host().at(0) == 7000.0f, "the saved contents are used");
  insist(loaded.array<float>("z").to_host() == std::vector<float>({5, 5, 9, 9, 9, 9, 5, 5}), "the loop runs 5 times");
  weir::fill(s, x, 4.0f);
  weir::fill(s, loaded.array<std::int32_t>("turns"), 1);
  loaded.graph.launch(s);
  s.synchronize();
  insist(sum.to_host().at(0) == 13000.0f, "inputs are changed by name");
}

WEIR_SCENE(loads_a_graph) {
  check_example(weir::device(std::getenv("WEIR_TEST_GRAPH_DEVICE")), std::getenv("WEIR_TEST_GRAPH_FILE"));
}

class GraphsFiles : public AnyDevice {};

TEST_P(GraphsFiles, LoadInTheSameProcess) {
  const TemporaryFile file("same.weir");
  save_example(device(), file.path);
  check_example(device(), file.path);
}

TEST_P(GraphsFiles, LoadInAnotherProcess) {
  const TemporaryFile file("other.weir");
  save_example(device(), file.path);
  EXPECT_TRUE(ended_well(play(
      "loads_a_graph", {"WEIR_TEST_GRAPH_FILE=" + file.path.string(), "WEIR_TEST_GRAPH_DEVICE=" + device().name()})));
}

TEST_P(GraphsFiles, WhatTheCpuSavedLoadsOnEveryBackend) {
  const TemporaryFile file("backends.weir");
  save_example(weir::device("cpu"), file.path);
  check_example(device(), file.path);
}

TEST_P(GraphsFiles, WhatAGraphFreesIsSavedToo) {
  weir::Stream s(device());
  auto result = weir::zeros<int>(s, 16);
  s.synchronize();
  std::optional<weir::Array<int>> kept;
  const weir::Graph make = weir::capture(s, [&] { kept.emplace(weir::full<int>(s, 16, 3)); });
  const weir::Graph end = weir::capture(s, [&] {
    auto scratch = weir::full<int>(s, 16, 1);
    weir::copy(s, scratch, *kept);
    weir::copy(s, result, scratch);
    scratch.free(s);
    kept->free(s);
  });
  make.launch(s);
  s.synchronize();
  const TemporaryFile file("freed.weir");
  weir::save(end, file.path, {{"result", result}});
  const weir::LoadedGraph loaded = weir::load_graph(file.path, device());
  loaded.graph.launch(s);
  s.synchronize();
  EXPECT_EQ(loaded.array<int>("result").to_host(), std::vector<int>(16, 3));
  struct Waits : weir::Observer {
    void waited(const weir::HostWait& wait) override {
      loads += wait.source == weir::HostWait::Source::load_graph && wait.stream != 0;
    }
    int loads = 0;
  } waits;
  weir::attach(waits, weir::Watch::host);
  static_cast<void>(weir::load_graph(file.path, device()));
  weir::detach(waits);
  EXPECT_EQ(waits.loads, 1) << "loading waits for the contents of the arrays, and says so";
}

TEST_P(GraphsFiles, TheShapeIsKept) {
  const TemporaryFile file("shape.weir");
  save_example(device(), file.path);
  const weir::LoadedGraph loaded = weir::load_graph(file.path, device());
  const auto nodes = weir::read_graph_nodes(file.path);
  EXPECT_EQ(loaded.graph.size(), nodes.size());
  const std::string shape = topology(loaded.graph);
  EXPECT_NE(shape.find("alloc; copy<alloc; scale<copy"), std::string::npos) << shape;
  EXPECT_EQ(loaded.graph.node(loaded.graph.find("scale")).stream_name, "first");
  EXPECT_NE(std::string(loaded.graph.node(loaded.graph.find("scale")).where.file_name()).find("graphs_files_test"),
            std::string::npos);
}

TEST_P(GraphsFiles, MemoryUsedTwiceIsSavedOnce) {
  const TemporaryFile file("twice.weir");
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 10'000);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] {
    for (int i = 1; i < 9; ++i) {
      auto scratch = weir::full<int>(s, 10'000, i);
      weir::copy(s, x.slice(0, 1000 * static_cast<std::size_t>(i)),
                 scratch.slice(0, 1000 * static_cast<std::size_t>(i)));
    }
  });
  weir::save(graph, file.path, {{"x", x}});
  if (on("cpu")) {
    EXPECT_LT(std::filesystem::file_size(file.path), 3 * 10'000 * sizeof(int));
  }
  weir::LoadedGraph loaded = weir::load_graph(file.path, device());
  EXPECT_EQ(topology(loaded.graph), topology(graph));
  loaded.graph.launch(s);
  const auto values = loaded.array<int>("x").to_host();
  EXPECT_EQ(values[0], 8);
  EXPECT_EQ(values[7999], 8);
  EXPECT_EQ(values[8000], 0);
}

TEST_P(GraphsFiles, WhatCannotBeSavedIsNamed) {
  const TemporaryFile file("refused.weir");
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 8);
  std::vector<int> host(8);
  weir::TimedEvent event(device());
  s.synchronize();
  const auto refused = [&](auto&& body, std::string_view word) {
    weir::Graph graph = weir::capture(s, body);
    return fails_with(Errc::not_supported, [&] { weir::save(graph, file.path); },
                      {"weir::save", word, "graphs_files_test"});
  };
  EXPECT_TRUE(refused([&] { weir::host_call(s, [] {}); }, "host_call"));
  EXPECT_TRUE(refused([&] { weir::external(s, [](weir::NativeStream) {}); }, "external"));
  EXPECT_TRUE(refused([&] { s.record(event); }, "record"));
  EXPECT_TRUE(refused([&] { weir::copy(s, x, host); }, "copy"));
  EXPECT_TRUE(refused([&] { weir::launch(s, 8, Unregistered{}, weir::inout(x)); }, "register_kernel"));
  weir::Graph graph = weir::capture(s, [&] { weir::fill(s, x, 1); });
  auto other = weir::zeros<int>(s, 8);
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { weir::save(graph, file.path, {{"other", other}}); }, {"other"}));
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { weir::save(graph, "/nowhere/at/all"); }));
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { weir::load_graph("/nowhere/at/all", device()); }));
  s.synchronize();
}

/// The checksum of gzip and PNG, bit by bit.
std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t sum = ~0u;
  for (const char c : bytes) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum % 2 != 0 ? 0xEDB88320u : 0u);
  }
  return ~sum;
}

/// The checksum of the header, made right again.
void mend(std::string& bytes) {
  constexpr std::size_t header = 32;
  if (bytes.size() < header) return;
  const std::uint64_t length = bytes.size() - header;
  const std::uint64_t sum = crc32(std::string_view(bytes).substr(header));
  std::memcpy(bytes.data() + 16, &length, sizeof length);
  std::memcpy(bytes.data() + 24, &sum, sizeof sum);
}

/// A file with one node, a copy from one array of 64 bytes to another, as the format's description says.
struct CopyFile {
  std::uint32_t version = 2;
  std::uint32_t reserved = 0;
  std::uint64_t to_count = 4, from_count = 4;
  std::uint64_t to_element = 4, from_element = 4;
  std::uint64_t region_offset = 0, row_bytes = 16, rows = 1, pitch = 0;

  std::string bytes() const {
    std::string bytes = "WEIRGRPH";
    const auto put = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
    put(version);
    put(reserved);
    for (int zero = 0; zero < 2; ++zero) put(std::uint64_t{0});  // length and sum: mended at the end
    put(std::uint32_t{2});                                       // buffers
    for (int i = 0; i < 2; ++i) {
      put(static_cast<std::uint8_t>(weir::MemoryKind::device));
      put(std::uint64_t{64});
      bytes.append(64, static_cast<char>('a' + i));
    }
    put(std::uint32_t{0});  // names
    put(std::uint32_t{1});  // nodes
    put(static_cast<std::uint8_t>(weir::NodeKind::copy));
    put(std::int32_t{-1});                                       // parent
    for (int zero = 0; zero < 7; ++zero) put(std::uint32_t{0});  // branch, priority, stream, two texts, line
    put(std::uint8_t{1});                                        // enabled
    put(std::uint32_t{0});                                       // dependencies
    put(std::uint32_t{1});                                       // regions
    put(std::uint32_t{0});
    for (const std::uint64_t part : {region_offset, row_bytes, rows, pitch}) put(part);
    put(std::uint8_t{2});  // access
    const auto end = [&](std::uint32_t buffer, std::uint64_t count, std::uint64_t element) {
      put(buffer);
      put(std::uint64_t{0});  // offset
      put(std::uint32_t{1});  // rank
      for (const std::uint64_t size : {count, std::uint64_t{1}, std::uint64_t{1}, std::uint64_t{1}}) put(size);
      for (const std::uint64_t stride : {element, std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{0}}) put(stride);
      put(element);
    };
    end(0, to_count, to_element);
    end(1, from_count, from_element);
    mend(bytes);
    return bytes;
  }
};

TEST_P(GraphsFiles, WhatAFileSaysOfItselfIsCompared) {
  const TemporaryFile file("compared.weir");
  const std::string good = CopyFile{}.bytes();
  file.write(good);
  EXPECT_EQ(weir::load_graph(file.path, device()).graph.size(), 1u);
  const auto refused = [&](const std::string& bytes, std::string_view why) {
    file.write(bytes);
    return fails_with(Errc::not_a_graph_file, [&] { weir::load_graph(file.path, device()); }, {why}) &&
           fails_with(Errc::not_a_graph_file, [&] { weir::read_graph_nodes(file.path); }, {why});
  };
  const auto with = [&](std::size_t at, char value) {
    std::string bytes = good;
    bytes.at(at) = value;
    return bytes;
  };
  EXPECT_TRUE(refused(with(0, 'w'), "no graph"));
  EXPECT_TRUE(refused(CopyFile{.version = 1}.bytes(), "version"));
  EXPECT_TRUE(refused(CopyFile{.reserved = 1}.bytes(), "head"));
  EXPECT_TRUE(refused(good + '\0', "length"));
  EXPECT_TRUE(refused(good.substr(0, good.size() - 1), "length"));
  EXPECT_TRUE(refused(with(16, static_cast<char>(good[16] + 1)), "length"));
  EXPECT_TRUE(refused(with(24, static_cast<char>(good[24] + 1)), "checksum"));
  EXPECT_TRUE(refused(with(32 + 4 + 9, 'z'), "checksum"));  // the first array's first element
  std::string more = good + '\0';
  mend(more);
  EXPECT_TRUE(refused(more, "follows"));
}

TEST_P(GraphsFiles, RegionsLieInsideTheirArrays) {
  const TemporaryFile file("regions.weir");
  const auto loads = [&](const CopyFile& contents) {
    file.write(contents.bytes());
    return weir::load_graph(file.path, device()).graph.size() == 1;
  };
  const auto refused = [&](const CopyFile& contents) {
    return fails_with(Errc::not_a_graph_file, [&] { loads(contents); }, {"region", "outside"});
  };
  EXPECT_TRUE(loads({.row_bytes = 64}));
  EXPECT_TRUE(loads({.region_offset = 48, .row_bytes = 16}));
  EXPECT_TRUE(loads({.row_bytes = 16, .rows = 4, .pitch = 16}));
  EXPECT_TRUE(refused({.row_bytes = 65}));
  EXPECT_TRUE(refused({.region_offset = 49, .row_bytes = 16}));
  EXPECT_TRUE(refused({.row_bytes = 16, .rows = 4, .pitch = 17}));
  EXPECT_TRUE(refused({.row_bytes = 16, .rows = 5, .pitch = 16}));
  EXPECT_TRUE(refused({.row_bytes = 16, .rows = ~std::uint64_t{0}, .pitch = ~std::uint64_t{0}}));
}

TEST_P(GraphsFiles, BothEndsOfACopyHaveOneShapeAndElementSize) {
  const TemporaryFile file("ends.weir");
  const auto load = [&](const CopyFile& contents) {
    file.write(contents.bytes());
    return weir::load_graph(file.path, device()).graph.size();
  };
  const auto refused = [&](const CopyFile& contents) {
    return fails_with(Errc::not_a_graph_file, [&] { load(contents); }, {"copy's ends"});
  };
  EXPECT_EQ(load({.to_count = 8, .from_count = 8, .to_element = 8, .from_element = 8}), 1u);
  EXPECT_TRUE(refused({.to_count = 3}));
  EXPECT_TRUE(refused({.from_count = 3}));
  EXPECT_TRUE(refused({.to_element = 8}));
  EXPECT_TRUE(refused({.from_element = 2}));
}

TEST_P(GraphsFiles, AConditionHasTheBodiesOfItsKind) {
  const TemporaryFile file("bodies.weir");
  save_example(device(), file.path);
  const std::string good = file.bytes();
  const std::string a_loop("\3\1\0\0\0", 5);  // its kind and the number of its bodies, behind an offset of 0
  const std::size_t at = good.rfind(std::string(8, '\0') + a_loop) + 8;
  ASSERT_NE(at, std::string::npos + 8);
  const auto with = [&](char kind, std::uint32_t bodies) {
    std::string bytes = good;
    bytes[at] = kind;
    std::memcpy(bytes.data() + at + 1, &bodies, sizeof bodies);
    mend(bytes);
    file.write(bytes);
  };
  constexpr char if_else = 1, switch_ = 2, while_ = 3;
  for (const auto& [kind, bodies] : std::vector<std::pair<char, std::uint32_t>>{{0, 2},
                                                                                {if_else, 1},
                                                                                {if_else, 3},
                                                                                {switch_, 0},
                                                                                {switch_, 60000},
                                                                                {while_, 0},
                                                                                {while_, 2},
                                                                                {while_, 300}}) {
    with(kind, bodies);
    EXPECT_TRUE(fails_with(Errc::not_a_graph_file, [&] { weir::load_graph(file.path, device()); }, {"bodies"}))
        << int(kind) << " " << bodies;
  }
  for (const char kind : {char(0), switch_, while_}) {
    with(kind, 1);
    EXPECT_GT(weir::load_graph(file.path, device()).graph.size(), 0u);
  }
}

/// A file of nodes that do nothing, each with one that it is inside of and one that it depends on; -1: none.
std::string bare_nodes(const std::vector<std::pair<std::int32_t, std::int32_t>>& nodes, weir::NodeKind kind) {
  std::string bytes = "WEIRGRPH";
  const auto put = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  put(std::uint32_t{2});
  for (int i = 0; i < 5; ++i) put(std::uint32_t{0});           // the rest of the header
  for (int none = 0; none < 2; ++none) put(std::uint32_t{0});  // buffers, names
  put(static_cast<std::uint32_t>(nodes.size()));
  for (const auto& [parent, before] : nodes) {
    put(static_cast<std::uint8_t>(kind));
    put(parent);
    for (int zero = 0; zero < 7; ++zero) put(std::uint32_t{0});  // branch, priority, stream, two texts, line
    put(std::uint8_t{1});
    put(std::uint32_t{before < 0 ? 0u : 1u});  // dependencies
    if (before >= 0) put(before);
    put(std::uint32_t{0});  // regions
  }
  mend(bytes);
  return bytes;
}

/// A file of graphs inside each other.
std::string nested(std::int32_t count) {
  std::vector<std::pair<std::int32_t, std::int32_t>> nodes;
  for (std::int32_t i = 0; i < count; ++i) nodes.emplace_back(i - 1, -1);
  return bare_nodes(nodes, weir::NodeKind::graph);
}

TEST_P(GraphsFiles, NodesThatWaitForEachOtherAreRefused) {
  const TemporaryFile file("cycle.weir");
  file.write(bare_nodes({{-1, 2}, {-1, -1}, {-1, 1}}, weir::NodeKind::empty));
  EXPECT_EQ(weir::load_graph(file.path, device()).graph.size(), 3u);
  file.write(bare_nodes({{-1, 2}, {-1, 0}, {-1, 1}}, weir::NodeKind::empty));
  EXPECT_TRUE(fails_with(Errc::not_a_graph_file, [&] { weir::load_graph(file.path, device()); }, {"each other"}));
}

TEST_P(GraphsFiles, GraphsInsideEachOtherHaveALimit) {
  const TemporaryFile file("nested.weir");
  file.write(nested(201));
  EXPECT_EQ(weir::load_graph(file.path, device()).graph.size(), 201u);
  for (const std::int32_t nodes : {202, 500000}) {
    file.write(nested(nodes));
    EXPECT_TRUE(fails_with(Errc::not_a_graph_file, [&] { weir::load_graph(file.path, device()); }, {"nested"}));
    EXPECT_TRUE(fails_with(Errc::not_a_graph_file, [&] { weir::read_graph_nodes(file.path); }, {"nested"}));
  }
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 4);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] { weir::fill(s, x, 1); });
  for (int depth = 0; depth < 200; ++depth) graph = weir::capture(s, [&] { graph.launch(s); });
  weir::save(graph, file.path);
  EXPECT_EQ(weir::load_graph(file.path, device()).graph.size(), 201u);
  EXPECT_TRUE(fails_with(Errc::not_supported, [&] { (void)weir::capture(s, [&] { graph.launch(s); }); },
                         {"weir::Graph::launch", "201"}));
  graph.launch(s);
  EXPECT_EQ(x.to_host(), std::vector<int>(4, 1));
}

TEST_P(GraphsFiles, DamagedFilesAreErrors) {
  const TemporaryFile file("damaged.weir");
  save_example(device(), file.path);
  const std::string good = file.bytes();
  std::mt19937 random(7);
  int loaded = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good;
    const bool cut = random() % 4 == 0;
    if (cut) bytes.resize(random() % bytes.size());
    // Most of the file is contents: damage the rest more often.
    for (std::uint32_t left = cut ? 0 : 1 + random() % 4; left > 0; --left) {
      const std::size_t tail = std::min<std::size_t>(bytes.size(), 3000);
      const std::size_t at = random() % 2 == 0 ? random() % bytes.size() : bytes.size() - 1 - random() % tail;
      constexpr unsigned char values[] = {0, 1, 2, 4, 0x7f, 0x80, 0xff};
      bytes[at] = static_cast<char>(random() % 2 == 0 ? values[random() % 7] : random());
    }
    if (round % 8 != 0) mend(bytes);
    file.write(bytes);
    try {
      weir::load_graph(file.path, device());
      ++loaded;  // damage to contents or names only
    } catch (const weir::Error& error) {
      EXPECT_TRUE(error.errc() == Errc::not_a_graph_file || error.errc() == Errc::not_supported) << error.what();
    }
  }
  EXPECT_LT(loaded, 4000);
  file.write(good);
  EXPECT_GT(weir::load_graph(file.path, device()).graph.size(), 0u);
}

ON_EVERY_DEVICE(GraphsFiles);

}  // namespace
