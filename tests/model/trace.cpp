// Puts an execution in an order that a person can follow, with the source line of each step.
#include "trace.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace model {

namespace {

std::string source_line(Where where) {
  static std::map<std::string, std::vector<std::string>> files;
  auto [file, fresh] = files.try_emplace(where.file);
  if (fresh) {
    std::ifstream in(where.file);
    std::error_code none_there;  // a path from the build folder, beside whose programs this one is
    const auto program = std::filesystem::read_symlink("/proc/self/exe", none_there);
    if (!in) in.open(program.parent_path().parent_path() / where.file);
    for (std::string line; std::getline(in, line);) file->second.push_back(line);
  }
  if (where.line == 0 || where.line > file->second.size()) return "";
  const std::string& line = file->second[where.line - 1];
  const std::size_t begin = line.find_first_not_of(' ');
  return begin == std::string::npos ? "" : line.substr(begin);
}

/// Whether `first` must stand before `second` for the execution to be read from top to bottom.
bool goes_before(const Graph& graph, EventId first, EventId second, bool as_interleaved) {
  const Event& a = graph.events[first];
  const Event& b = graph.events[second];
  if (graph.causes(first, second)) return true;
  if (b.thread == end_thread && a.thread != end_thread) return true;
  if (a.thread == setup_thread && b.thread != setup_thread) return true;
  if (!as_interleaved || a.place != b.place || a.place == none) return false;
  const auto key = [&](const Event& event) -> std::uint32_t {
    if (event.kind == Kind::destroy) return ~0u;
    if (event.reads()) return event.from == none ? ~0u : 2u * graph.events[event.from].position + 1;
    return event.position == unplaced ? ~0u : 2u * event.position;
  };
  return key(a) < key(b);
}

/// False if there is no such order.
bool put_in_order(const Graph& graph, bool as_interleaved, std::vector<EventId>& order) {
  const std::size_t count = graph.events.size();
  std::vector<bool> placed(count, false);
  order.clear();
  int thread = -1;
  while (order.size() < count) {
    EventId next = none;
    for (std::size_t i = 0; i < count; ++i) {
      if (placed[i]) continue;
      bool ready = true;
      for (std::size_t j = 0; ready && j < count; ++j) {
        ready = placed[j] || i == j ||
                !goes_before(graph, static_cast<EventId>(j), static_cast<EventId>(i), as_interleaved);
      }
      if (!ready) continue;
      if (next == none || graph.events[i].thread == thread) next = static_cast<EventId>(i);  // few changes of thread
      if (graph.events[next].thread == thread) break;
    }
    if (next == none) return false;
    placed[next] = true;
    order.push_back(next);
    thread = graph.events[next].thread;
  }
  return true;
}

std::string word(std::uint64_t value) {
  std::ostringstream text;
  if (value >= (std::uint64_t{1} << 20)) text << "0x" << std::hex;
  text << value;
  return text.str();
}

const char* name_of(std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed: return "relaxed";
    case std::memory_order_consume: return "consume";
    case std::memory_order_acquire: return "acquire";
    case std::memory_order_release: return "release";
    case std::memory_order_acq_rel: return "acq_rel";
    case std::memory_order_seq_cst: return "seq_cst";
  }
  return "";
}

}  // namespace

std::string describe_place(Where where) {
  const char* file = std::strrchr(where.file, '/');
  return std::string(file != nullptr ? file + 1 : where.file) + ":" + std::to_string(where.line);
}

std::string describe(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<EventId> order;
  std::ostringstream text;
  if (!put_in_order(graph, true, order)) {
    put_in_order(graph, false, order);
    text << "(no interleaving: some operations below see older values than the last one written above them)\n";
  }
  std::map<EventId, std::size_t> steps;
  std::map<EventId, std::uint16_t> newest;  // stores above, by place
  std::size_t step = 0;
  for (const EventId id : order) {
    const Event& event = graph.events[id];
    if (event.plain() || event.kind == Kind::construct || event.kind == Kind::destroy) continue;
    if (event.thread == setup_thread) continue;
    const bool second_half = event.kind == Kind::update_write;
    if (event.writes()) newest[event.place] = std::max(newest[event.place], event.position);
    if (!second_half) ++step;
    steps[id] = step;
    if (second_half) {
      text << ", wrote " << word(event.value);
      continue;
    }
    text << (step == 1 ? "" : "\n");
    text.width(4);
    text << step << "  " << names[event.thread];
    text << std::string(names[event.thread].size() < 12 ? 12 - names[event.thread].size() : 1, ' ');
    text << describe_place(event.where) << "  " << source_line(event.where) << "\n                  ["
         << name_of(event.effective_order()) << "] ";
    if (event.reads() && event.from != none) {
      text << "read " << word(event.value);
      const auto from = steps.find(event.from);
      text << (from != steps.end() ? " of step " + std::to_string(from->second) : std::string(" of the set-up"));
      const auto last = newest.find(event.place);
      if (last != newest.end() && last->second > graph.events[event.from].position) text << ", not the last";
    } else {
      text << "wrote " << word(event.value);
    }
  }
  text << "\n";
  return text.str();
}

}  // namespace model
