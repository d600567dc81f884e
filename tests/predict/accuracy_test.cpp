// Predictions beside what an H200 took: 994 small programs, measured on one, in tests/data.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/recording.hpp>
#include <weir/sim.hpp>

namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

std::ifstream data(const char* name) { return std::ifstream(std::string(WEIR_TEST_DATA) + "/" + name); }

/// Writes scenarios: streams, then commands.
class Scenario {
 public:
  void stream(const char* kind, const std::string& priority) {
    streams_ += (streams_.empty() ? "" : ",") + std::string(R"({"name":"s)") + std::to_string(count_++) +
                R"(","kind":")" + kind + R"(","priority":)" + priority + "}";
  }
  void events(int count) {
    for (int i = 0; i < count; ++i)
      events_ += (i == 0 ? "" : ",") + std::string(R"({"name":"e)") + std::to_string(i) + "\"}";
  }
  void command(const std::string& stream, const std::string& members) {
    commands_ += R"({"stream":"s)" + stream + "\"," + members + "},";
  }
  void copy(const std::string& stream, const char* from, const char* to, const std::string& bytes) {
    command(stream, R"("op":"copy","from":{"buffer":")" + std::string(from) + R"(","bytes":)" + bytes +
                        R"(},"to":{"buffer":")" + to + R"(","bytes":)" + bytes + "}");
  }
  void kernel(const std::string& stream, const std::string& cost) {
    command(stream, R"("op":"launch","cost":{)" + cost + "}");
  }
  std::string text(const std::string& end) const {
    const auto buffer = [](const char* name, const char* kind) {
      return std::string(R"({"bytes":1610612736,"name":")") + name + R"(","kind":")" + kind + "\"}";
    };
    return R"({"format":"weir.scenario","version":1,"streams":[)" + streams_ + R"(],"events":[)" + events_ +
           R"(],"buffers":[)" + buffer("in", "pinned") + "," + buffer("out", "pinned") + "," +
           buffer("page", "pageable") + "," + buffer("data", "device") + R"(],"program":[)" + commands_ + end + "]}";
  }
  int streams() const { return count_; }

 private:
  int count_ = 0;
  std::string streams_, events_, commands_;
};

struct Errors {
  std::vector<double> percent;
  int inside = 0;  ///< of the interval
  std::vector<double> widths;

  void add(const std::string& scenario, double measured) {
    const weir::sim::Prediction prediction =
        weir::sim::predict(weir::parse_recording(scenario), {"h200", {}, false, false});
    percent.push_back(100 * std::abs(prediction.makespan_us / measured - 1));
    inside += prediction.low_us <= measured && measured <= prediction.high_us;
    widths.push_back(100 * (prediction.high_us - prediction.low_us) / prediction.makespan_us);
  }
  double quantile(double share) {
    std::sort(percent.begin(), percent.end());
    return percent[std::min(percent.size() - 1, static_cast<std::size_t>(share * static_cast<double>(percent.size())))];
  }
};

std::string pipeline(const std::vector<std::string>& row) {
  Scenario scenario;
  const int streams = std::atoi(row[2].c_str()), chunks = std::atoi(row[3].c_str());
  for (int i = 0; i < streams; ++i) scenario.stream("non_blocking", "0");
  const auto part = [&](int chunk, int what) {
    const std::string stream = std::to_string(chunk % streams);
    if (what == 0 && row[4] != "0") scenario.copy(stream, "in", "data", row[4]);
    if (what == 1 && row[5] != "0")
      scenario.kernel(stream, "\"block_ns\":" + row[5] + "000,\"blocks\":" + row[6] + ",\"threads\":128");
    if (what == 2 && row[7] != "0") scenario.copy(stream, "data", "out", row[7]);
  };
  for (int i = 0; i < 3 * chunks; ++i) {
    if (row[1] == "depth") {
      part(i / 3, i % 3);
    } else {
      part(i % chunks, i / chunks);
    }
  }
  std::string waits;
  for (int i = 0; i < streams; ++i)
    waits += (i == 0 ? "" : ",") + std::string(R"({"op":"synchronize","stream":"s)") + std::to_string(i) + "\"}";
  return scenario.text(waits);
}

std::string mixed(const std::string& streams, const std::string& commands) {
  Scenario scenario;
  for (const std::string& one : split(streams, ' ')) {
    const char* kind = one[0] == 'n' ? "non_blocking" : one[0] == 'b' ? "blocking" : "legacy";
    scenario.stream(kind, one.substr(1));
  }
  int events = 0;
  for (const std::string& command : split(commands, ' ')) {
    const std::vector<std::string> parts = split(command.substr(1), ',');
    const std::string& stream = parts[0];
    switch (command[0]) {
      case 'K':
        scenario.kernel(stream, "\"block_ns\":" + parts[1] + ",\"blocks\":" + parts[2] + ",\"threads\":" + parts[3]);
        break;
      case 'T':
        scenario.kernel(stream, "\"bytes\":" + parts[1] + ",\"blocks\":" + parts[2] + ",\"threads\":" + parts[3]);
        break;
      case 'I': scenario.copy(stream, "in", "data", parts[1]); break;
      case 'O': scenario.copy(stream, "data", "out", parts[1]); break;
      case 'P': scenario.copy(stream, "page", "data", parts[1]); break;
      case 'Q': scenario.copy(stream, "data", "page", parts[1]); break;
      case 'W': scenario.copy(stream, "data", "data", parts[1]); break;
      case 'F': scenario.command(stream, R"("op":"fill","to":{"buffer":"data","bytes":)" + parts[1] + "}"); break;
      case 'H': scenario.command(stream, R"("op":"host_function")"); break;
      default:
        events = std::max(events, std::atoi(parts[1].c_str()) + 1);
        scenario.command(stream, std::string(R"("op":")") + (command[0] == 'R' ? "record" : "wait") +
                                     R"(","event":"e)" + parts[1] + "\"");
    }
  }
  scenario.events(events);
  return scenario.text(R"({"op":"synchronize","device":"dev0"})");
}

TEST(Accuracy, C12_pipelines_of_copies_and_kernels_take_as_long_as_on_an_H200) {
  Errors errors;
  std::ifstream file = data("pipelines.csv");
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    const std::vector<std::string> row = split(line, ',');
    errors.add(pipeline(row), std::atof(row[8].c_str()));
  }
  ASSERT_EQ(errors.percent.size(), 717U);
  EXPECT_LE(errors.quantile(0.5), 1.5);
  EXPECT_LE(errors.quantile(0.95), 7);
  EXPECT_LE(errors.quantile(1), 40);
  EXPECT_GE(errors.inside, 717 * 85 / 100);
  EXPECT_LE(errors.inside, 717 * 98 / 100);
  std::sort(errors.widths.begin(), errors.widths.end());
  EXPECT_LE(errors.widths[errors.widths.size() / 2], 12);
}

TEST(Accuracy, mixtures_of_all_kinds_of_commands_take_as_long_as_on_an_H200) {
  Errors errors, driver_kernels;
  std::ifstream file = data("mixed_programs.txt");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = split(line, '|');
    const std::vector<std::string> head = split(parts[0], ' ');
    const bool apart = head[0] == "fills" || head[0].rfind("copies_within", 0) == 0;
    (apart ? driver_kernels : errors).add(mixed(parts[1], parts[2]), std::atof(head[1].c_str()));
  }
  ASSERT_EQ(errors.percent.size() + driver_kernels.percent.size(), 277U);
  EXPECT_LE(errors.quantile(0.5), 3);
  EXPECT_LE(errors.quantile(0.95), 15);
  EXPECT_LE(driver_kernels.quantile(0.5), 10);
  EXPECT_LE(driver_kernels.quantile(0.95), 30);
}

}  // namespace
