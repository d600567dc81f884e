// mpi_bench, for two ranks under mpirun: collectives between processes beside MPI's own calls in the same run. Both ranks do the
// same; rank 0 says what it measured.
#include <mpi.h>

#include <chrono>
#include <iostream>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <weir/collectives.hpp>
#include <weir/mpi.hpp>
#include <weir/weir.hpp>

#include "killed.hpp"
#include "support/command_line.hpp"
#include "support/measure.hpp"
#include "support/proof.hpp"
#include "support/report.hpp"

namespace {

constexpr std::string_view usage =
    "usage: mpirun -n 2 mpi_bench [--only NAME]... [--short] [--strict] [--json FILE]\n"
    "  --only NAME   run this benchmark alone; may be given several times\n"
    "  --short       a tenth of the work, three repetitions: figures are rough\n"
    "  --strict      end with 1 where a row falls short, is wrong, or was disturbed by others\n"
    "  --json FILE   write the rows there\n"
    "names: small group large late killed\n";

struct Context {
  bench::Options options;
  int rank;
  weir::Communicator& comm;
  bench::Report& report;
};

/// One rank's part of a sum, which MPI and Weir compute in the same memory.
class Sum {
 public:
  Sum(weir::Communicator& comm, int rank, std::size_t n)
      : n_(n), comm_(comm), s_(comm.device()), x_(weir::full<float>(s_, n, static_cast<float>(rank + 1))) {
    y_ = weir::zeros<float>(s_, n);
    s_.synchronize();
  }
  void run_raw() {
    MPI_Allreduce(x_.view().data(), y_.view().data(), static_cast<int>(n_), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void run_ours() {
    weir::all_reduce(s_, comm_, weir::in(x_), weir::out(y_));
    s_.synchronize();
  }
  /// The figure of work that both ranks begin together, and that has to write the sum.
  template <class Work>
  double verified(Work&& work) {
    weir::fill(s_, y_, 0.0f);
    s_.synchronize();
    MPI_Barrier(MPI_COMM_WORLD);
    const double figure = work();
    const float* y = y_.view().data();
    bench::expect(y[0] == 3 && y[n_ - 1] == 3, "an all_reduce gave a wrong sum");
    return figure;
  }

 private:
  std::size_t n_;
  weir::Communicator& comm_;
  weir::Stream s_;
  weir::Array<float> x_;
  weir::Array<float> y_;
};

/// Adds the row; the other rank is busy on purpose.
void add(Context& context, bench::Row row) {
  row.others_matter_not = true;
  context.report.add(std::move(row));
}

/// Seconds per call of `count` calls.
template <class Call>
double each(std::size_t count, Call&& call) {
  return bench::seconds([&] {
           for (std::size_t i = 0; i < count; ++i) call();
         }) /
         static_cast<double>(count);
}

void small(Context& context) {
  Sum sum(context.comm, context.rank, 2);
  const std::size_t count = context.options.cut(20'000);
  const bench::Pair pair = bench::by_turns(
      context.options, [&] { return sum.verified([&] { return 1e6 * each(count, [&] { sum.run_raw(); }); }); },
      [&] { return sum.verified([&] { return 1e6 * each(count, [&] { sum.run_ours(); }); }); });
  add(context, {"mpi.small",
                "all_reduce of 8 bytes by two processes, and wait",
                "us",
                pair.ours,
                pair.raw,
                {bench::at_most(6, "us")}});
}

/// In one group, beside the same calls without one.
void group(Context& context) {
  constexpr std::size_t calls = 100;
  const weir::Stream s(context.comm.device());
  std::vector<weir::Array<float>> x, y;
  for (std::size_t i = 0; i < calls; ++i) {
    x.push_back(weir::full(s, 2, static_cast<float>(context.rank + 1)));
    y.push_back(weir::zeros<float>(s, 2));
  }
  const auto figure = [&](auto&& call_all) {
    for (const auto& sum : y) weir::fill(s, sum, 0.0f);
    s.synchronize();
    MPI_Barrier(MPI_COMM_WORLD);
    const double microseconds = 1e6 * bench::seconds([&] {
                                  call_all();
                                  s.synchronize();
                                });
    for (const auto& sum : y) bench::expect(sum.view().data()[1] == 3, "an all_reduce gave a wrong sum");
    return microseconds / calls;
  };
  const auto call_all = [&] {
    for (std::size_t i = 0; i < calls; ++i) weir::all_reduce(s, context.comm, weir::in(x[i]), weir::out(y[i]));
  };
  const bench::Pair pair = bench::by_turns(
      context.options, [&] { return figure(call_all); },
      [&] {
        return figure([&] {
          const weir::CollectiveGroup one;
          call_all();
        });
      });
  add(context, {"mpi.group",
                "100 all_reduces of 8 bytes in a group, each, beside the same without one",
                "us",
                pair.ours,
                pair.raw,
                {bench::ratio_at_most(0.5)}});
}

void large(Context& context) {
  Sum sum(context.comm, context.rank, std::size_t{4} << 20);
  const bench::Pair pair = bench::by_turns(
      context.options, [&] { return sum.verified([&] { return 1e3 * each(5, [&] { sum.run_raw(); }); }); },
      [&] { return sum.verified([&] { return 1e3 * each(5, [&] { sum.run_ours(); }); }); });
  add(context,
      {"mpi.large", "all_reduce of 16 MiB by two processes", "ms", pair.ours, pair.raw, {bench::ratio_at_most(1.05)}});
}

/// The CPU time that waiting for a peer costs, which comes two seconds late.
void late(Context& context) {
  Sum sum(context.comm, context.rank, 2);
  bench::Options options = context.options;
  options.repetitions = 1;
  const auto waiting = [&](auto&& call) {
    return sum.verified([&] {
      if (context.rank == 1) std::this_thread::sleep_for(std::chrono::seconds(2));
      const double before = bench::cpu_seconds();
      call();
      return bench::cpu_seconds() - before;
    });
  };
  const bench::Pair pair = bench::by_turns(
      options, [&] { return waiting([&] { sum.run_raw(); }); }, [&] { return waiting([&] { sum.run_ours(); }); });
  add(context, {"mpi.late",
                "CPU time spent on a peer that comes 2 s late",
                "s",
                pair.ours,
                pair.raw,
                {bench::at_most(0.06, "s")}});
}

/// Rank 0 starts two more; the other rank waits.
void killed(Context& context) {
  if (context.rank == 0) {
    const bench::Spread seconds = bench::repeat(context.options, mpi_bench::killed_peer);
    add(context,
        {"mpi.killed", "from a rank's death to the error of the other", "s", seconds, {}, {bench::at_most(2, "s")}});
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

using Bench = bench::Named<Context>;
constexpr Bench benches[] = {{"small", small}, {"group", group}, {"large", large}, {"late", late}, {"killed", killed}};

bool run_all(const bench::Arguments& arguments, int rank) {
  weir::Communicator comm = weir::mpi::communicator(weir::device("cpu"), MPI_COMM_WORLD, {.name = "bench"});
  std::ostream nowhere(nullptr);
  bench::Report report(rank == 0 ? std::cout : nowhere);
  Context context{arguments.options(), rank, comm, report};
  for (const Bench& one : bench::choose(benches, arguments.only)) one.run(context);
  report.print_table();
  if (rank == 0 && !arguments.json.empty()) report.write_json(arguments.json);
  return arguments.strict ? report.all_proved() : report.all_ran();
}

}  // namespace

int main(int argc, char** argv) {
  mpi_bench::take_part_if_started();
  int provided = MPI_THREAD_SINGLE, rank = 0, size = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  try {
    if (size != 2) throw std::invalid_argument("two ranks are measured, and here are " + std::to_string(size));
    const bool well = run_all(bench::parse(argc, argv), rank);
    MPI_Finalize();
    return well ? 0 : 1;
  } catch (const std::invalid_argument& mistake) {
    if (rank == 0) std::cerr << "mpi_bench: " << mistake.what() << "\n" << usage;
    MPI_Finalize();
    return 2;
  } catch (const std::exception& failure) {
    // The other rank may wait for this one.
    std::cerr << "mpi_bench: rank " << rank << ": " << failure.what() << std::endl;
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}
