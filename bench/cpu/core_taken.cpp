// B1 to B5 while another process takes one core: how many times slower than with both cores.
#include "bench.hpp"
#include "work.hpp"

namespace bench {

namespace {

/// `time` gives a time; rates are turned over first.
template <class Time>
void beside_neighbour(Context& context, const char* name, const char* work, Time&& time) {
  const Pair pair = by_turns(context.options, time, [&] {
    context.neighbour.resume();
    const double figure = time();
    context.neighbour.pause();
    return figure;
  });
  const double alone = pair.raw.median;
  const Spread fall{pair.ours.median / alone, pair.ours.low / alone, pair.ours.high / alone};
  context.report.add({.name = name,
                      .work = work,
                      .unit = "x slower",
                      .value = fall,
                      .reach = {at_most(3, "x slower")},
                      .others_matter_not = true});
}

}  // namespace

void core_taken(Context& context) {
  const std::size_t count = context.options.cut(1'000'000);
  beside_neighbour(context, "B1.taken", "B1, one core taken by a process",
                   [rate = LaunchRate(context.device, 1, count)]() mutable { return 1 / rate(); });
  beside_neighbour(context, "B2.taken", "B2, one core taken",
                   [rate = LaunchRate(context.device, 8, count)]() mutable { return 1 / rate(); });
  beside_neighbour(context, "B3.taken", "B3, one core taken", RoundTrip(context.device, context.options.cut(200'000)));
  beside_neighbour(context, "B4.taken", "B4, one core taken", Hop(context.device, context.options.cut(200'000)));
  beside_neighbour(context, "B5.taken", "B5, one core taken", ForkJoin(context.device, 64, context.options.cut(5'000)));
}

}  // namespace bench
