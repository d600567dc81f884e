// Whether a list of commands is a program at all: every object within its life, every value written before it is read.
#include "valid.hpp"

#include <map>
#include <set>
#include <utility>

#include "bodies.hpp"
#include "captured.hpp"
#include "order.hpp"

namespace weir::stress {

namespace {

using Handle = std::pair<Object, int>;

/// What exists at one place in the list.
class Lives {
 public:
  explicit Lives(const Program& program) : program_(program), scopes_(static_cast<std::size_t>(program.threads)) {
    for (std::size_t s = 0; s < program.streams.size(); ++s) {
      if (program.streams[s].kind >= StreamKind::legacy) alive_.insert({Object::stream, static_cast<int>(s)});
    }
  }

  std::string complaint(const Command& c) const {
    if (const std::string text = handles(c); !text.empty()) return text;
    if (c.kind == Kind::replay) return body_complaint(c);
    if (c.kind == Kind::update_graph && updated(program_, c) == nullptr) return "updates what the graph does not have";
    for (const Operand& operand : c.in) {
      if (!defined_.contains(operand.array)) return "reads values never written";
    }
    const bool whole_out = c.out.array >= 0 && writes_all(program_, c);
    const bool writes_out = c.out.array >= 0 && runs_in_stream(c.kind) && c.kind != Kind::free_array;
    if ((writes_out || c.kind == Kind::host_work) && !whole_out && !defined_.contains(c.out.array)) {
      return "writes a part of an array without values";
    }
    if (c.kind == Kind::leave && scopes_[static_cast<std::size_t>(c.thread)] == 0) return "leaves no scope";
    if (c.kind == Kind::await && !signals_.contains(c.number)) return "awaits what nobody signals";
    if (c.kind == Kind::elapsed && !(recorded_.contains(c.event) && recorded_.contains(c.event2))) {
      return "time between events never recorded";
    }
    return {};
  }

  void apply(const Command& c) {
    if (c.kind == Kind::replay) {
      for (const Command& inner : graph_of(program_, c).body) note_values(inner);
    }
    if (c.kind == Kind::free_array) freed_.insert(c.out.array);
    for (const Handle& handle : made(c)) alive_.insert(handle);
    for (const Handle& handle : ended(c)) alive_.erase(handle);
    note_values(c);
    if (c.kind == Kind::enter) ++scopes_[static_cast<std::size_t>(c.thread)];
    if (c.kind == Kind::leave) --scopes_[static_cast<std::size_t>(c.thread)];
    if (c.kind == Kind::signal) signals_.insert(c.number);
    if (c.kind == Kind::record) recorded_.insert(c.event);
  }

 private:
  void note_values(const Command& c) {
    const bool empty_array = (c.kind == Kind::make_array || c.kind == Kind::make_host) && c.how == How::empty;
    if (c.out.array >= 0 && !empty_array && writes_all(program_, c)) defined_.insert(c.out.array);
  }

  std::string body_complaint(const Command& replay) const {
    for (const int array : Captured(graph_of(program_, replay)).used) {
      if (!defined_.contains(array)) return "replays what reads values never written";
      if (freed_.contains(array)) return "replays what uses a freed array";
    }
    return {};
  }

  std::vector<Handle> made(const Command& c) const {
    switch (c.kind) {
      case Kind::make_graph: {
        std::vector<Handle> all = {{Object::graph, c.graph}};
        for (const int array : Captured(graph_of(program_, c)).left) all.emplace_back(Object::array, array);
        return all;
      }
      case Kind::make_stream: return {{Object::stream, c.stream}};
      case Kind::make_event: return {{Object::event, c.event}};
      case Kind::make_pool: return {{Object::pool, c.pool}};
      case Kind::make_host:
      case Kind::make_array:
      case Kind::clone_array: return {{Object::array, c.out.array}};
      case Kind::record: return c.fresh ? std::vector<Handle>{{Object::event, c.event}} : std::vector<Handle>{};
      default: return {};
    }
  }
  static std::vector<Handle> ended(const Command& c) {
    switch (c.kind) {
      case Kind::drop_stream: return {{Object::stream, c.stream}};
      case Kind::drop_event: return {{Object::event, c.event}};
      case Kind::drop_pool: return {{Object::pool, c.pool}};
      case Kind::drop_graph: return {{Object::graph, c.graph}};
      case Kind::drop_array:
      case Kind::free_array: return {{Object::array, c.out.array}};
      default: return {};
    }
  }

  std::string handles(const Command& c) const {
    const std::vector<Handle> fresh = made(c);
    for (const Use& use : uses(program_, c)) {
      const Handle handle{use.object, use.id};
      bool makes = false;
      for (const Handle& f : fresh) makes = makes || f == handle;
      if (makes == alive_.contains(handle)) return makes ? "makes what exists" : "uses what does not exist";
    }
    return {};
  }

  const Program& program_;
  std::set<Handle> alive_;
  std::set<int> defined_;
  std::set<int> freed_;
  std::set<int> signals_;
  std::set<int> recorded_;
  std::vector<int> scopes_;
};

/// What only the order can tell: whose current stream a stream is, and what it was.
std::string current_complaint(const Program& program, const Order& order, const Command& c) {
  if (c.kind == Kind::drop_stream && order.is_current(c.stream)) return "drops a current stream";
  if (c.stream < 0) return {};
  const int device = program.streams[static_cast<std::size_t>(c.stream)].device;
  if (c.implicit && order.current(c.thread, device) != c.stream) return "expects another current stream";
  if (c.kind == Kind::enter && order.current(c.thread, device) != c.other) return "enters from another stream";
  return {};
}

}  // namespace

std::optional<std::string> problem(const Program& program) {
  Program grown = program;
  grown.commands.clear();
  Lives lives(program);
  Order order(grown);
  for (const Command& c : program.commands) {
    std::string complaint = lives.complaint(c);
    if (complaint.empty() && c.kind == Kind::make_graph) {
      complaint = capture_problem(program, graph_of(program, c)).value_or("");
    }
    if (complaint.empty()) complaint = current_complaint(program, order, c);
    if (const auto gap = complaint.empty() ? order.gap(c) : std::nullopt) {
      complaint = std::string("needs the ") + (gap->after_run ? "end" : "call") + " of an earlier command before its " +
                  (gap->before_call ? "call: " : "run: ") + to_text(program, grown.commands[gap->command]);
    }
    if (!complaint.empty()) return to_text(program, c) + ": " + complaint;
    lives.apply(c);
    grown.commands.push_back(c);
    order.append();
  }
  return std::nullopt;
}

Program prune(const Program& program) {
  Program kept = program;
  kept.commands.clear();
  Lives lives(program);
  Order order(kept);
  for (Command c : program.commands) {
    if (!lives.complaint(c).empty()) continue;
    if (c.kind == Kind::enter) {
      c.other = order.current(c.thread, program.streams[static_cast<std::size_t>(c.stream)].device);
    }
    if (!current_complaint(program, order, c).empty()) {
      if (c.kind == Kind::drop_stream) continue;
      c.implicit = false;
    }
    lives.apply(c);
    kept.commands.push_back(std::move(c));
    order.append();
  }
  return kept;
}

}  // namespace weir::stress
