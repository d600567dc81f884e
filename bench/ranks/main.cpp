// ranks_bench, for `weir ranks -n 2` on two GPUs: collectives between processes beside NCCL called by hand in the same run. Both ranks
// do the same; rank 0 says what it measured.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <weir/collectives.hpp>
#include <weir/weir.hpp>

#include "cuda/raw_nccl.hpp"
#include "support/command_line.hpp"
#include "support/measure.hpp"
#include "support/proof.hpp"
#include "support/report.hpp"

namespace {

using bench::check_nccl;
using bench::RawNccl;

constexpr std::string_view usage =
    "usage: weir ranks -n 2 -- ranks_bench [--short] [--json FILE]\n"
    "  --short       a tenth of the work, few repetitions: figures are rough\n"
    "  --json FILE   write the rows there\n"
    "Ends with 3 where a row falls short.\n";

constexpr std::size_t in_a_row = 200;
constexpr std::size_t grouped = 10;

/// One rank: small sums, by NCCL and by us.
class Rank {
 public:
  Rank(const RawNccl& nccl, weir::Communicator& comm) : nccl_(nccl), comm_(comm), s_(comm.device()) {
    x_ = weir::full(s_, 2, 1.0f);
    y_ = weir::zeros<float>(s_, 2);
    const auto id = weir::zeros<unsigned char>(s_, sizeof(RawNccl::UniqueId));
    RawNccl::UniqueId own{};
    if (comm.rank() == 0) check_nccl(nccl.get_unique_id(&own), "ncclGetUniqueId");
    weir::copy(s_, id, std::vector<unsigned char>(std::begin(own.bytes), std::end(own.bytes)));
    weir::broadcast(s_, comm, weir::inout(id), 0);
    const std::vector<unsigned char> all = id.to_host();
    std::copy(all.begin(), all.end(), own.bytes);
    check(cudaSetDevice(comm.device().index()), "cudaSetDevice");
    check_nccl(nccl.init_rank(&raw_, comm.size(), own, comm.rank()), "ncclCommInitRank");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    for (void** memory : {&raw_x_, &raw_y_}) {
      check(cudaMalloc(memory, 2 * grouped * sizeof(float)), "cudaMalloc");
      check(cudaMemset(*memory, 0, 2 * grouped * sizeof(float)), "cudaMemset");
    }
    for (std::size_t i = 0; i < grouped; ++i) {
      from_.push_back(weir::full(s_, 2, 1.0f));
      to_.push_back(weir::zeros<float>(s_, 2));
    }
  }
  ~Rank() {
    nccl_.destroy(raw_);
    cudaStreamDestroy(stream_);
    cudaFree(raw_x_);
    cudaFree(raw_y_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  /// Microseconds each; both ranks begin together.
  double raw() const {
    begin();
    return each([&] { nccl_.all_reduce(raw_x_, raw_y_, 2, RawNccl::type_f32, RawNccl::sum, raw_, stream_); },
                [&] { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); });
  }
  double ours() const {
    weir::fill(s_, y_, 0.0f);
    begin();
    const double figure =
        each([&] { weir::all_reduce(s_, comm_, weir::in(x_), weir::out(y_)); }, [&] { s_.synchronize(); });
    bench::expect(y_.to_host() == std::vector<float>(2, static_cast<float>(comm_.size())),
                  "an all_reduce gave a wrong sum");
    return figure;
  }
  /// Of ten sums that are one unit.
  double raw_group() const {
    begin();
    return each(
        [&] {
          nccl_.group_start();
          for (std::size_t i = 0; i < 2 * grouped; i += 2) {
            nccl_.all_reduce(static_cast<float*>(raw_x_) + i, static_cast<float*>(raw_y_) + i, 2, RawNccl::type_f32,
                             RawNccl::sum, raw_, stream_);
          }
          nccl_.group_end();
        },
        [&] { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); });
  }
  double our_group() const {
    for (const auto& one : to_) weir::fill(s_, one, 0.0f);
    begin();
    const double figure = each(
        [&] {
          const weir::CollectiveGroup group;
          for (std::size_t i = 0; i < grouped; ++i) {
            weir::all_reduce(s_, comm_, weir::in(from_[i]), weir::out(to_[i]));
          }
        },
        [&] { s_.synchronize(); });
    for (const auto& one : to_) {
      bench::expect(one.to_host() == std::vector<float>(2, static_cast<float>(comm_.size())),
                    "a group gave a wrong sum");
    }
    return figure;
  }

 private:
  static void check(cudaError_t answer, const char* call) {
    if (answer != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(answer));
  }
  void begin() const {
    weir::barrier(s_, comm_);
    s_.synchronize();
  }
  template <class Call, class Wait>
  static double each(Call&& call, Wait&& wait) {
    return 1e6 / in_a_row * bench::seconds([&] {
             for (std::size_t i = 0; i < in_a_row; ++i) call();
             wait();
           });
  }

  const RawNccl& nccl_;
  weir::Communicator& comm_;
  weir::Stream s_;
  weir::Array<float> x_, y_;
  std::vector<weir::Array<float>> from_, to_;
  RawNccl::Comm raw_ = nullptr;
  cudaStream_t stream_ = nullptr;
  void* raw_x_ = nullptr;
  void* raw_y_ = nullptr;
};

int run_all(const bench::Arguments& arguments) {
  const char* const number = std::getenv("LOCAL_RANK");
  const auto gpus = weir::devices("cuda");
  const std::size_t local = number != nullptr ? std::strtoul(number, nullptr, 10) : 0;
  if (local >= gpus.size()) throw std::invalid_argument("each rank needs a GPU of its own");
  weir::Communicator comm = weir::communicator(gpus[local], {.name = "bench"});
  std::ostream nowhere(nullptr);
  bench::Report report(comm.rank() == 0 ? std::cout : nowhere);
  bench::Row row{"all_reduce.processes", "8 B in a row, two processes", "us", {}, {}, {bench::ratio_at_most(1.05)}};
  bench::Row group{"all_reduce.group", "ten of 8 B in a group, two processes", "us", {}, {}, {}};
  row.others_matter_not = group.others_matter_not = true;  // the other rank is busy on purpose
  RawNccl nccl;
  const std::string why = nccl.open();
  if (!why.empty()) {
    report.skip(row, why);
    report.skip(group, why);
  } else {
    const Rank rank(nccl, comm);
    bench::Options options = arguments.options();
    options.pause = {};
    options.repetitions = options.divide > 1 ? 5 : 41;
    const auto add = [&](bench::Row& one, auto&& raw, auto&& ours) {
      const bench::Pair pair = bench::by_turns(options, raw, ours);
      one.value = pair.ours;
      one.raw = pair.raw;
      report.add(one);
    };
    add(
        row, [&] { return rank.raw(); }, [&] { return rank.ours(); });
    add(
        group, [&] { return rank.raw_group(); }, [&] { return rank.our_group(); });
  }
  report.print_table();
  if (comm.rank() == 0 && !arguments.json.empty()) report.write_json(arguments.json);
  return !report.all_ran() ? 1 : report.all_proved() ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_all(bench::parse(argc, argv));
  } catch (const std::invalid_argument& mistake) {
    std::cerr << "ranks_bench: " << mistake.what() << "\n" << usage;
    return 2;
  } catch (const std::exception& failure) {
    std::cerr << "ranks_bench: " << failure.what() << std::endl;
    return 1;
  }
}
