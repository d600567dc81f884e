#include "core/graphs/calling_graph.hpp"

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <utility>

#include "core/collectives/unit.hpp"
#include "core/graphs/graph_state.hpp"

namespace weir::detail {

namespace {

bool is_there(const Graph& graph) { return graph.state() != nullptr; }

[[noreturn]] void refuse_exchange(const FormNode& node, SourceLocation where) {
  throw Error(Errc::not_supported, "weir::Graph::update", "node '" + name_of(node) + "'",
              "a collective is not exchanged: capture the graph again", where);
}

/// Throws if the driver captured what no node says: it cannot be parted.
void check_driver_graph(GraphForm form, DeviceState& device, void* driver_graph, SourceLocation where) {
  for (FormNode& node : form.nodes) {
    if (captured_rank_of(node) == nullptr) continue;
    node.kind = NodeKind::empty;
    node.payload = {};
  }
  GraphExecutable* const whole = device.backend->instantiate(device.index, form, driver_graph, where);
  const bool more = whole->does_more();
  whole->close();
  if (!more) return;
  throw Error(Errc::capture_unsupported, "weir::capture_end", "graph on device " + device.name,
              "what another library captured cannot be in one graph with collectives among processes: capture the two "
              "into graphs of their own",
              where);
}

}  // namespace

/// Takes nodes of the outermost scope in an order that dependencies allow: what comes behind no call that is still to be made,
/// then some calls.
class CallingGraph::Planner {
 public:
  Planner(const GraphForm& form, std::vector<Place>& places)
      : form_(form),
        places_(places),
        missing_(form.nodes.size()),
        behind_(form.nodes.size()),
        taken_(form.nodes.size()) {
    for (std::uint32_t i = 0; i < form.nodes.size(); ++i) {
      if (form.nodes[i].parent >= 0) continue;
      ++left_;
      missing_[i] = form.nodes[i].depends.size();
      for (const std::uint32_t before : form.nodes[i].depends) behind_[before].push_back(i);
    }
    for (std::uint32_t i = 0; i < form.nodes.size(); ++i) {
      if (form.nodes[i].parent < 0 && missing_[i] == 0) note_ready(i);
    }
    find_all_ready();
  }

  /// How many nodes no step has yet.
  std::size_t left() const { return left_; }

  /// The calls of one more step, in their order; none: there are no more.
  std::vector<std::uint32_t> take_step(std::size_t step) {
    const std::vector<std::uint32_t> unit = next_unit();
    std::vector<std::uint32_t> open;
    for (std::uint32_t i = 0; i < unit.size(); ++i) {
      take(unit[i], {Place::Of::unit, step, i});
      const auto& before = form_.nodes[unit[i]].depends;
      open.insert(open.end(), before.begin(), before.end());
    }
    while (!open.empty()) {
      const std::uint32_t node = open.back();
      open.pop_back();
      if (taken_[node]) continue;
      take(node, {Place::Of::before, step, 0});
      const auto& before = form_.nodes[node].depends;
      open.insert(open.end(), before.begin(), before.end());
    }
    for (const std::uint32_t node : std::exchange(ready_, {})) {
      if (!taken_[node]) take(node, {Place::Of::beside, step, 0});
    }
    for (const std::uint32_t call : unit) note_done(call);
    find_all_ready();
    return unit;
  }

 private:
  const CapturedRank& said(std::uint32_t call) const { return *captured_rank_of(form_.nodes[call]); }

  void take(std::uint32_t node, const Place& place) {
    taken_[node] = true;
    places_[node] = place;
    --left_;
  }
  void note_ready(std::uint32_t node) {
    if (captured_rank_of(form_.nodes[node]) != nullptr) {
      ready_calls_.insert(node);
    } else {
      found_.push_back(node);
    }
  }
  void note_done(std::uint32_t node) {
    for (const std::uint32_t next : behind_[node]) {
      if (--missing_[next] == 0 && !taken_[next]) note_ready(next);
    }
  }
  void find_all_ready() {
    while (!found_.empty()) {
      const std::uint32_t node = found_.front();
      found_.pop_front();
      ready_.push_back(node);
      note_done(node);
    }
  }

  /// The first call that can be made, and what may be one unit with it: the other calls of its group; of a send or receive, those that wait
  /// for none of them, or a pair of ranks that send to each other would wait for ever.
  std::vector<std::uint32_t> next_unit() {
    if (ready_calls_.empty()) return {};
    const std::uint32_t first = *ready_calls_.begin();
    const std::uint64_t group = said(first).offer.unit;
    std::vector<std::uint32_t> unit;
    const auto in_unit = [&](std::uint32_t node) { return std::find(unit.begin(), unit.end(), node) != unit.end(); };
    for (std::uint32_t i = first; i < form_.nodes.size(); ++i) {
      if (taken_[i] || captured_rank_of(form_.nodes[i]) == nullptr) continue;
      const bool ready = ready_calls_.contains(i);
      const bool pairs = is_pair(said(first).offer.request.kind) && is_pair(said(i).offer.request.kind);
      if (i == first || (ready && pairs)) {
        unit.push_back(i);
      } else if (group != 0 && said(i).offer.unit == group && is_behind(i, in_unit)) {
        unit.push_back(i);
      } else if (group == 0 && !pairs) {
        break;
      }
    }
    for (const std::uint32_t call : unit) ready_calls_.erase(call);
    return unit;
  }
  /// Whether it comes behind nothing but these and what can be done.
  template <class F>
  bool is_behind(std::uint32_t call, F&& in_unit) const {
    const auto& before = form_.nodes[call].depends;
    return static_cast<std::size_t>(std::count_if(before.begin(), before.end(), in_unit)) == missing_[call];
  }

  const GraphForm& form_;
  std::vector<Place>& places_;
  std::vector<std::size_t> missing_;  ///< of what a node depends on: what is no part of a step, nor ready for one
  std::vector<std::vector<std::uint32_t>> behind_;
  std::vector<bool> taken_;
  std::size_t left_ = 0;
  std::deque<std::uint32_t> found_;
  std::vector<std::uint32_t> ready_;
  std::set<std::uint32_t> ready_calls_;
};

bool CallingGraph::is_needed(const GraphForm& form) {
  return std::any_of(form.nodes.begin(), form.nodes.end(), captured_rank_of);
}

CallingGraph::CallingGraph(const GraphForm& form, DeviceState& device, void* driver_graph, SourceLocation where)
    : places_(form.nodes.size()) {
  constexpr const char* operation = "weir::capture_end";
  if (driver_graph != nullptr) check_driver_graph(form, device, driver_graph, where);
  Planner planner(form, places_);
  std::vector<Step> steps;
  while (planner.left() > 0) {
    const std::size_t left = planner.left();
    Step step;
    for (const std::uint32_t call : planner.take_step(steps.size())) {
      const FormNode& node = form.nodes[call];
      step.unit.push_back({node.payload.shared(), captured_rank_of(node), node.enabled});
    }
    if (planner.left() == left) {
      throw Error(Errc::graph_cycle, operation, "graph on device " + device.name,
                  "its collectives come behind each other", where);
    }
    steps.push_back(std::move(step));
  }
  std::vector<GraphForm> before(steps.size());
  std::vector<GraphForm> beside(steps.size());
  const auto form_at = [&](const Place& place) -> GraphForm& {
    return place.of == Place::Of::before ? before[place.step] : beside[place.step];
  };
  for (std::size_t i = 0; i < form.nodes.size(); ++i) {
    if (form.nodes[i].parent >= 0) places_[i] = places_[static_cast<std::size_t>(form.nodes[i].parent)];
    if (places_[i].of == Place::Of::unit) continue;
    places_[i].index = static_cast<std::uint32_t>(form_at(places_[i]).nodes.size());
    form_at(places_[i]).nodes.emplace_back();
  }
  for (std::size_t i = 0; i < form.nodes.size(); ++i) {
    if (places_[i].of != Place::Of::unit) form_at(places_[i]).nodes[places_[i].index] = part_of(form, i);
  }
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const auto& [part, graph] :
         {std::pair{&before[s], &steps[s].before}, std::pair{&beside[s], &steps[s].beside}}) {
      if (part->nodes.empty()) continue;
      *graph = instantiate(std::move(*part), next_graph_id(), device, nullptr, operation, where);
    }
  }
  const LockGuard guard(mutex_);
  steps_ = std::move(steps);
}

FormNode CallingGraph::part_of(const GraphForm& form, std::size_t node) const {
  const Place& place = places_[node];
  FormNode part = form.nodes[node];
  part.depends.clear();
  for (const std::uint32_t before : form.nodes[node].depends) {
    const Place& other = places_[before];
    if (other.of == place.of && other.step == place.step) part.depends.push_back(other.index);
  }
  if (part.parent >= 0) part.parent = static_cast<std::int32_t>(places_[static_cast<std::size_t>(part.parent)].index);
  return part;
}

void CallingGraph::launch(StreamRef stream, SourceLocation where) {
  const LockGuard guard(mutex_);
  for (const Step& step : steps_) {
    for (const Call& call : step.unit) {
      if (call.enabled) call.said->communicator->check_replay_of(call.said->rank, where);
    }
  }
  for (const Step& step : steps_) {
    if (is_there(step.before)) step.before.launch(stream, where);
    make_calls(step, stream, where);
  }
}

/// In the stream itself, unless that has something to do meanwhile, or is another device's.
void CallingGraph::make_calls(const Step& step, StreamRef stream, SourceLocation where) {
  std::vector<UnitCall> calls;
  std::vector<Stream> sides;
  const StreamState& state = *stream.state();
  for (const Call& call : step.unit) {
    if (!call.enabled) continue;
    calls.push_back({call.said->communicator, call.said->rank, call.said->offer});
    const Device device = call.said->communicator->device_of(call.said->rank);
    StreamRef& on = calls.back().offer.stream;
    on = stream;
    calls.back().offer.unit = 0;
    if (!is_there(step.beside) && device.state() == state.device) continue;
    const auto side =
        std::find_if(sides.begin(), sides.end(), [&](const Stream& one) { return one.device() == device; });
    if (side != sides.end()) {
      on = *side;
      continue;
    }
    sides.emplace_back(
        device, StreamOptions{.priority = state.priority, .blocking = false, .name = state.name + ": collectives"},
        where);
    sides.back().wait(stream, where);
    on = sides.back();
  }
  const auto join = [&] {
    for (const Stream& side : sides) stream.wait(side, where);
  };
  try {
    if (calls.size() == 1) {
      calls.front().communicator->call(calls.front().rank, calls.front().offer, nullptr, nullptr, nullptr);
    } else if (!calls.empty()) {
      call_unit(calls);
    }
    if (is_there(step.beside)) step.beside.launch(stream, where);
  } catch (...) {
    join();
    throw;
  }
  join();
}

void CallingGraph::update(const GraphForm& form, std::size_t node) {
  const FormNode& wanted = form.nodes[node];
  const CapturedRank* const said = captured_rank_of(wanted);
  const Place& place = places_[node];
  const LockGuard guard(mutex_);
  if (place.of == Place::Of::unit) {
    Call& call = steps_[place.step].unit[place.index];
    if (call.said != said) refuse_exchange(wanted, wanted.where);
    call.enabled = wanted.enabled;
    return;
  }
  if (said != nullptr) refuse_exchange(wanted, wanted.where);
  Step& step = steps_[place.step];
  auto& part = static_cast<CoreGraph&>(*(place.of == Place::Of::before ? step.before : step.beside).state());
  const LockGuard edits(part.edit_mutex);
  FormNode changed = part_of(form, node);
  std::swap(part.form.nodes[place.index], changed);
  try {
    part.executable->update(part.form, place.index);
  } catch (...) {
    std::swap(part.form.nodes[place.index], changed);
    throw;
  }
  observe_change(part, place.index);
}

bool CallingGraph::does_more() {
  const LockGuard guard(mutex_);
  const auto more = [](const Graph& graph) {
    return is_there(graph) && static_cast<CoreGraph&>(*graph.state()).executable->does_more();
  };
  return std::any_of(steps_.begin(), steps_.end(),
                     [&](const Step& step) { return more(step.before) || more(step.beside); });
}

}  // namespace weir::detail
