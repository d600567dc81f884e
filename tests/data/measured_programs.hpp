// Programs that an H200 ran, and how long it took: tests/data/pipelines.csv and mixed_programs.txt as scenarios.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace weir_test {

struct MeasuredProgram {
  std::string family;
  double us;  ///< measured, median
  std::string scenario;
  std::string work = {};  ///< of pipelines: what is done, whatever the order and the streams
};

namespace detail {

inline std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

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

inline std::string pipeline(const std::vector<std::string>& row) {
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

inline std::string mixed(const std::string& streams, const std::string& commands) {
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

}  // namespace detail

/// Copies and kernels in streams. `folder`: tests/data.
inline std::vector<MeasuredProgram> measured_pipelines(const std::string& folder) {
  std::vector<MeasuredProgram> programs;
  std::ifstream file(folder + "/pipelines.csv");
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    const std::vector<std::string> row = detail::split(line, ',');
    const std::string work = row[0] + " " + row[3] + " " + row[4] + " " + row[5] + " " + row[6] + " " + row[7];
    programs.push_back({row[0], std::atof(row[8].c_str()), detail::pipeline(row), work});
  }
  return programs;
}

/// All other kinds of commands.
inline std::vector<MeasuredProgram> measured_mixtures(const std::string& folder) {
  std::vector<MeasuredProgram> programs;
  std::ifstream file(folder + "/mixed_programs.txt");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = detail::split(line, '|');
    const std::vector<std::string> head = detail::split(parts[0], ' ');
    programs.push_back({head[0], std::atof(head[1].c_str()), detail::mixed(parts[1], parts[2])});
  }
  return programs;
}

}  // namespace weir_test
