// The benchmarks of the CPU backend, by name.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include <weir/device.hpp>

#include "support/measure.hpp"
#include "support/neighbour.hpp"
#include "support/proof.hpp"
#include "support/report.hpp"

namespace bench {

struct Context {
  Options options;
  weir::Device device;
  const Neighbour& neighbour;
  std::string probe;  ///< the program that runs what needs a process of its own
  Report& report;
  int cores = 1;  ///< that the process may use

  /// What is to be reached on so many cores: the last of `scale`, from few cores to many, that is for no more than there are.
  double on_cores(std::initializer_list<std::pair<int, double>> scale) const {
    double limit = scale.begin()->second;
    for (const auto& [least, value] : scale) {
      if (cores >= least) limit = value;
    }
    return limit;
  }
  /// A count of a long run as this run does it, for people.
  std::string counts(std::size_t count) const { return grouped(options.cut(count)); }
  static std::string grouped(std::size_t count) {
    std::string text = std::to_string(count);
    for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
    return text;
  }
};

void launch_rate(Context& context);    // B1
void round_robin(Context& context);    // B2
void round_trip(Context& context);     // B3
void hops(Context& context);           // B4
void fork_join(Context& context);      // B5
void triad(Context& context);          // B6
void small_loop(Context& context);     // B7
void block_sums(Context& context);     // blocks
void idle(Context& context);           // B8
void pool(Context& context);           // B9
void copy_and_fill(Context& context);  // B10
void random_graph(Context& context);   // B11
void graphs(Context& context);         // graph.*
void normalize(Context& context);      // N3.*
void core_taken(Context& context);     // B1 to B5 beside a busy process
void vadd(Context& context);           // vadd.*
void video(Context& context);          // video.*
void threads(Context& context);        // threads.*
void observe(Context& context);        // observe.*
void trace(Context& context);          // trace.*
void check(Context& context);          // check.*
void collectives(Context& context);    // all_reduce.*
void algorithms(Context& context);     // algorithms.*
void instructions(Context& context);
void allocations(Context& context);
void replay_allocations(Context& context);
void flat_memory(Context& context);
void thousand_streams(Context& context);

}  // namespace bench
