// The hazard cases of tests/data, and helpers of tests about scenario files.
#include "cases.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <new>

#include <unistd.h>
#include <zlib.h>
#include <nlohmann/json.hpp>

#include "support/hazard_cases.hpp"

namespace recording_test {

namespace {

using nlohmann::json;

void without(json& object, const char* member, const json& value) {
  if (object.is_object() && object.contains(member) && object[member] == value) object.erase(member);
}
json first_thread(const json& scenario) { return scenario.contains("threads") ? scenario["threads"][0] : json("main"); }
json first_device(const json& scenario) {
  return scenario.contains("devices") ? scenario["devices"][0]["name"] : json("dev0");
}

json normal_operand(json operand, const json& buffers) {
  if (operand.is_string()) operand = {{"buffer", operand}};
  without(operand, "offset", 0);
  without(operand, "access", "in");
  without(operand, "raw", false);
  for (const json& buffer : buffers) {
    if (buffer["name"] != operand["buffer"] || operand.contains("repeat")) continue;
    const std::uint64_t offset = operand.value("offset", std::uint64_t{0});
    if (operand.contains("bytes") && operand["bytes"].get<std::uint64_t>() + offset == buffer["bytes"]) {
      operand.erase("bytes");
    }
  }
  return operand;
}

void normalise(json& command, const json& scenario, std::size_t place) {
  const json& buffers = scenario["buffers"];
  for (const char* member : {"to", "from", "use", "condition"}) {
    if (command.contains(member)) command[member] = normal_operand(command[member], buffers);
  }
  if (command.contains("uses")) {
    for (json& use : command["uses"]) use = normal_operand(use, buffers);
    const bool optional = command["op"] == "launch" || command["op"] == "external" || command["op"] == "host_function";
    if (optional) without(command, "uses", json::array());
  }
  without(command, "external", false);
  without(command, "after", json::array());
  without(command, "gives", json::array());
  without(command, "id", "#" + std::to_string(place));
  without(command, "thread", first_thread(scenario));
  if (command["op"] == "build_graph") without(command, "device", first_device(scenario));
  if (command.contains("nodes")) {
    for (json& node : command["nodes"]) normalise(node, scenario, place);
  }
  if (command.contains("bodies")) {
    for (json& body : command["bodies"]) {
      for (json& node : body) normalise(node, scenario, place);
    }
  }
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> made;
    for (const json& one : weir_test::hazard_cases()) {
      made.push_back({one.at("id"), one.at("scenario").dump(), one.at("verdict") == "clean", {}, {}});
      for (const json& misuse : one.at("expect").at("misuse")) {
        auto& list = misuse.value("required", false) ? made.back().refused : made.back().consequences;
        list.emplace_back(misuse.at("second"), misuse.at("errc"));
      }
    }
    return made;
  }();
  return all;
}

std::string normal(const std::string& text) {
  json scenario = json::parse(text);
  for (const char* list : {"streams", "events", "buffers"}) {
    if (!scenario.contains(list)) continue;
    for (json& part : scenario[list]) {
      without(part, "device", first_device(scenario));
      without(part, "thread", first_thread(scenario));
      without(part, "priority", 0);
      without(part, "later", false);
      without(part, "timed", false);
      without(part, "owner", "array");
      without(part, "start", "live");
      without(part, "contents", "written");
    }
  }
  without(scenario, "events", json::array());
  std::size_t place = 0;
  for (json& command : scenario["program"]) normalise(command, scenario, place++);
  return scenario.dump(1);
}

Folder::Folder() {
  static int number = 0;
  path_ = std::filesystem::temp_directory_path() /
          ("weir recording " + std::to_string(getpid()) + " " + std::to_string(++number));
  std::filesystem::create_directories(path_);
}
Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}
std::size_t Folder::files() const {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
}

std::string contents(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::string packed(const std::string& text) {
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string scenario(const Parts& parts) {
  return R"({"format": "weir.scenario", "version": 1, "streams": [)" + parts.streams + R"(], "events": [)" +
         parts.events + R"(], "buffers": [)" + parts.buffers + "]" + (parts.more.empty() ? "" : ", " + parts.more) +
         R"(, "program": [)" + parts.program + "]}";
}

}  // namespace recording_test
