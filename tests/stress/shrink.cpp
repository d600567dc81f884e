// Delta debugging over a program's commands: chunks first, then single commands and pairs, until nothing more goes.
#include "shrink.hpp"

#include <algorithm>
#include <set>

#include "valid.hpp"

namespace weir::stress {

namespace {

/// Whether an array is simply made full of zeros.
bool plain(const Command& c) { return c.kind != Kind::clone_array && c.how == How::zeros && c.pool < 0; }

/// What every step makes less.
std::size_t weight(const Program& program) {
  std::set<int> streams;
  std::size_t extras = 0;
  for (const Command& c : program.commands) {
    streams.insert({c.stream, c.other});
    const bool makes = c.kind == Kind::make_array || c.kind == Kind::clone_array || c.kind == Kind::make_host;
    if (c.kind == Kind::make_graph) extras += 4 * graph_of(program, c).body.size();
    extras += (c.thread != 0 ? 1 : 0) + (c.delay != 0 ? 1 : 0) + (c.control != Control::none ? 1 : 0) +
              (makes && !plain(c) ? 1 : 0);
  }
  return 4 * program.commands.size() + streams.size() + extras;
}

class Shrinker {
 public:
  Shrinker(const Program& failing, const std::function<bool(const Program&)>& fails, std::chrono::milliseconds budget)
      : best_(failing), fails_(fails), end_(std::chrono::steady_clock::now() + budget) {}

  Program run() {
    bool progress = true;
    while (progress && !late()) {
      progress = remove_chunks();
      progress = remove_pairs() || progress;
      progress = one_thread() || progress;
      progress = merge_streams() || progress;
      progress = change_each() || progress;
      progress = shrink_graphs() || progress;
    }
    return best_;
  }

 private:
  bool late() const { return std::chrono::steady_clock::now() > end_; }

  /// Takes the candidate if it is a program, and fails.
  bool take(Program candidate) {
    if (late()) return false;
    candidate = prune(candidate);
    if (weight(candidate) >= weight(best_)) return false;
    if (problem(candidate) || !fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  bool remove_chunks() {
    bool progress = false;
    for (std::size_t chunk = std::max<std::size_t>(best_.commands.size() / 2, 1);; chunk /= 2) {
      // From the end: what is last is needed by nothing.
      for (std::size_t end = best_.commands.size(); end > 0 && !late();) {
        const std::size_t begin = end > chunk ? end - chunk : 0;
        Program candidate = best_;
        candidate.commands.erase(candidate.commands.begin() + static_cast<std::ptrdiff_t>(begin),
                                 candidate.commands.begin() + static_cast<std::ptrdiff_t>(end));
        const bool taken = take(std::move(candidate));
        progress = progress || taken;
        end = std::min(begin, best_.commands.size());
      }
      if (chunk <= 1) return progress;
    }
  }

  /// Commands that only go together: a record and its wait, a signal and who awaits it, two accesses.
  bool remove_pairs() {
    bool progress = false;
    for (std::size_t second = best_.commands.size(); second-- > 1 && !late();) {
      for (std::size_t first = second; first-- > 0 && second < best_.commands.size() && !late();) {
        if (!related(best_.commands[first], best_.commands[second])) continue;
        Program candidate = best_;
        candidate.commands.erase(candidate.commands.begin() + static_cast<std::ptrdiff_t>(second));
        candidate.commands.erase(candidate.commands.begin() + static_cast<std::ptrdiff_t>(first));
        if (take(std::move(candidate))) {
          progress = true;
          break;
        }
      }
    }
    return progress;
  }

  static bool related(const Command& a, const Command& b) {
    if (a.number >= 0) return a.number == b.number;
    if (a.kind == Kind::enter) return b.kind == Kind::leave && a.thread == b.thread;
    return a.kind == Kind::record && a.event == b.event;
  }

  bool one_thread() {
    const auto elsewhere = [](const Command& c) { return c.thread != 0; };
    if (std::none_of(best_.commands.begin(), best_.commands.end(), elsewhere)) return false;
    Program candidate = best_;
    for (Command& c : candidate.commands) c.thread = 0;
    for (GraphDecl& graph : candidate.graphs) {
      for (Command& c : graph.body) c.thread = 0;
    }
    return take(std::move(candidate));
  }

  /// Everything of one stream in another: fewer streams need fewer waits.
  bool merge_streams() {
    bool progress = false;
    for (std::size_t from = best_.streams.size(); from-- > 0 && !late();) {
      for (std::size_t to = 0; to < best_.streams.size() && !late(); ++to) {
        if (from == to || best_.streams[from].device != best_.streams[to].device || !used(to)) continue;
        if (!take(merged(static_cast<int>(from), static_cast<int>(to)))) continue;
        progress = true;
        break;
      }
    }
    return progress;
  }

  bool used(std::size_t stream) const {
    return std::any_of(best_.commands.begin(), best_.commands.end(),
                       [&](const Command& c) { return c.stream == static_cast<int>(stream); });
  }

  Program merged(int from, int to) const {
    Program candidate = best_;
    std::erase_if(candidate.commands, [&](const Command& c) {
      return c.stream == from && (c.kind == Kind::make_stream || c.kind == Kind::drop_stream);
    });
    rename(candidate.commands, from, to);
    for (GraphDecl& graph : candidate.graphs) {
      if (graph.origin == from) graph.origin = to;
      rename(graph.body, from, to);
    }
    return candidate;
  }

  static void rename(std::vector<Command>& commands, int from, int to) {
    for (Command& c : commands) {
      if (c.stream == from) c.stream = to;
      if (c.other == from) c.other = to;
    }
    std::erase_if(commands, [](const Command& c) { return c.stream >= 0 && c.stream == c.other; });
  }

  /// Commands that could be simpler: no delay, an array of zeros.
  bool change_each() {
    bool progress = false;
    for (std::size_t i = 0; i < best_.commands.size() && !late(); ++i) {
      Program candidate = best_;
      candidate.commands[i].delay = 0;
      progress = take(std::move(candidate)) || progress;
      if (i >= best_.commands.size()) break;
      candidate = best_;
      Command& c = candidate.commands[i];
      if (c.kind == Kind::clone_array) c.kind = Kind::make_array;
      if (c.kind != Kind::make_array && c.kind != Kind::make_host) continue;
      c.in.clear();
      c.how = How::zeros;
      c.pool = -1;
      progress = take(std::move(candidate)) || progress;
    }
    return progress;
  }

  /// Commands inside captures, alone and from the end; then without the conditional nodes around them.
  bool shrink_graphs() {
    bool progress = false;
    for (std::size_t g = 0; g < best_.graphs.size(); ++g) {
      for (std::size_t i = best_.graphs[g].body.size(); i-- > 0 && !late();) {
        if (i >= best_.graphs[g].body.size()) continue;
        Program candidate = best_;
        if (candidate.graphs[g].body[i].control != Control::none) {
          candidate.graphs[g].body[i].control = Control::none;
          candidate.graphs[g].body[i].turns = 1;
          progress = take(std::move(candidate)) || progress;
          candidate = best_;
        }
        std::vector<Command>& body = candidate.graphs[g].body;
        const int array = body[i].out.array;
        const bool makes = body[i].kind == Kind::make_array || body[i].kind == Kind::clone_array;
        body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
        if (makes) {
          std::erase_if(body, [&](const Command& c) {
            return c.out.array == array ||
                   std::any_of(c.in.begin(), c.in.end(), [&](const Operand& in) { return in.array == array; });
          });
        }
        progress = take(std::move(candidate)) || progress;
      }
    }
    return progress;
  }

  Program best_;
  const std::function<bool(const Program&)>& fails_;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace

Program shrink(const Program& failing, const std::function<bool(const Program&)>& fails,
               std::chrono::milliseconds budget) {
  return Shrinker(failing, fails, budget).run();
}

}  // namespace weir::stress
