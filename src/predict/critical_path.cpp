#include "predict/critical_path.hpp"

#include <algorithm>

namespace weir::predict {

using sim::Cause;
using sim::PathPart;
using sim::model::none;
using sim::model::Span;
using sim::model::Work;
using Why = sim::model::Cause;

namespace {

Cause work_cause(const sim::model::Program& program, const Span& span) {
  if (span.task == none) return Cause::order;
  const sim::model::Task& task = program.tasks[span.task];
  switch (task.work) {
    case Work::kernel: return Cause::kernels;
    case Work::fill:
    case Work::copy_within: return Cause::memory;
    case Work::host_function: return Cause::host_functions;
    case Work::copy_host: return Cause::host;
    default: return task.pageable ? Cause::pageable : Cause::link;
  }
}

class Path {
 public:
  Path(const sim::model::Program& program, const sim::model::Result& result)
      : program_(program), result_(result), time_(result.makespan) {}

  std::vector<PathPart> walk() {
    std::uint32_t span = last_span();
    while (time_ > 0 && span != none) span = before(span);
    host(none);
    std::reverse(parts_.begin(), parts_.end());
    return std::move(parts_);
  }

 private:
  /// Takes the time back to `begin`.
  void part(Cause cause, std::uint32_t call, double begin) {
    begin = std::max(0.0, std::min(begin, time_));
    if (begin < time_) parts_.push_back({cause, call == none ? sim::no_command : call, begin, time_});
    time_ = begin;
  }

  std::uint32_t last_span() {
    for (std::size_t i = result_.calls.size(); i-- > 0;) {
      if (result_.calls[i].end < time_) continue;
      return host(static_cast<std::uint32_t>(i));
    }
    for (std::size_t i = result_.spans.size(); i-- > 0;) {
      if (result_.spans[i].end >= time_) return static_cast<std::uint32_t>(i);
    }
    return none;
  }

  /// Host time back to the last wait that ended before: what that wait waited for, or none. `call`: the last one to look at.
  std::uint32_t host(std::uint32_t call) {
    if (call == none) {
      part(Cause::host, none, 0);
      return none;
    }
    for (std::uint32_t i = call + 1; i-- > 0;) {
      const sim::model::HostSpan& one = result_.calls[i];
      if (one.awaited == none || one.end > time_ || result_.spans[one.awaited].end > time_) continue;
      part(Cause::host, i, result_.spans[one.awaited].end);
      return one.awaited;
    }
    part(Cause::host, call, 0);
    return none;
  }

  /// Through a span, to the one that it came behind.
  std::uint32_t before(std::uint32_t number) {
    const Span& span = result_.spans[number];
    part(work_cause(program_, span), span.call, span.begin);
    // Behind what kept its engine busy, or the part of a collective that came last, the path is that command's.
    const bool follows = span.begin > span.ready &&
                         (span.begin_by == Why::link || span.begin_by == Why::driver || span.begin_by == Why::order);
    if (follows && span.holder != none && result_.spans[span.holder].end >= time_) return span.holder;
    if (span.begin > span.ready && span.begin_by == Why::copy_order && span.holder != none) {
      const Span& held = result_.spans[span.holder];
      part(work_cause(program_, held), held.call, held.begin);
      part(Cause::copy_order, span.call, span.idle_from);
      if (span.before != none) return span.before;
    }
    part(wait_cause(span), span.call, span.ready);
    if (span.behind != none && span.ready_by == Why::barrier && span.stream != none) return before_barrier(number);
    if (span.behind == none) {
      if (span.call == none) return none;
      return host(span.call);
    }
    const Span& behind = result_.spans[span.behind];
    part(span.ready_by == Why::barrier ? Cause::legacy_barrier
         : span.ready_by == Why::check ? Cause::check
                                       : Cause::hops,
         span.call, std::min(behind.end, time_));
    return span.behind;
  }

  /// Without the barrier it would have begun behind what its stream was given before, or when it was called.
  std::uint32_t before_barrier(std::uint32_t number) {
    const Span& span = result_.spans[number];
    std::uint32_t own = number;
    while (own > 0 && result_.spans[own - 1].stream != span.stream) --own;
    const bool behind_own = own > 0 && result_.spans[own - 1].end > span.issued;
    part(Cause::legacy_barrier, span.call, behind_own ? result_.spans[own - 1].end : span.issued);
    return behind_own ? own - 1 : host(span.call);
  }

  const sim::model::Program& program_;
  const sim::model::Result& result_;
  double time_;
  std::vector<PathPart> parts_;
};

}  // namespace

Cause wait_cause(const Span& span) {
  switch (span.begin > span.ready ? span.begin_by : span.ready_by) {
    case Why::host: return Cause::host;
    case Why::order: return Cause::order;
    case Why::link: return Cause::link;
    case Why::copy_order: return Cause::copy_order;
    case Why::device: return Cause::full_device;
    case Why::check: return Cause::check;
    case Why::barrier: return Cause::legacy_barrier;
    case Why::queue: return Cause::work_queue;
    default: return Cause::host_functions;
  }
}

std::vector<PathPart> critical_path(const sim::model::Program& program, const sim::model::Result& result) {
  return Path(program, result).walk();
}

}  // namespace weir::predict
