// Collectives of two GPUs, beside NCCL called by hand: large ones, and small ones of both ranks by one thread.
#include <string>
#include <utility>
#include <vector>

#include <weir/collectives.hpp>
#include <weir/weir.hpp>

#include "bursts.hpp"
#include "raw.hpp"
#include "raw_nccl.hpp"
#include "support/proof.hpp"

namespace bench {

namespace {

constexpr std::size_t gibibyte = std::size_t{1} << 30;

/// Two GPUs and their memory, NCCL's by hand and ours: all of cudaMalloc, so that both move the same.
class TwoGpus {
 public:
  TwoGpus(const RawNccl& nccl, weir::Device near, weir::Device far)
      : nccl_(nccl), devices_{near, far}, ours_(weir::communicators({near, far})) {
    const int numbers[] = {near.index(), far.index()};
    check_nccl(nccl.init_all(comms_, 2, numbers), "ncclCommInitAll");
    for (const weir::Device device : devices_) {
      our_streams_.emplace_back(device, weir::StreamOptions{.blocking = false});
      x_.push_back(weir::full<float>(our_streams_.back(), gibibyte / sizeof(float), 1.0f));
      y_.push_back(weir::zeros<float>(our_streams_.back(), gibibyte / sizeof(float)));
      x_two_.push_back(x_.back().slice(0, 2));
      y_two_.push_back(y_.back().slice(0, 2));
      our_streams_.back().synchronize();
      raw::check(cudaSetDevice(device.index()), "cudaSetDevice");
      raw::check(cudaStreamCreateWithFlags(&streams_.emplace_back(), cudaStreamNonBlocking), "cudaStreamCreate");
      for (std::vector<void*>* memory : {&raw_x_, &raw_y_}) {
        raw::check(cudaMalloc(&memory->emplace_back(), gibibyte), "cudaMalloc");
        raw::check(cudaMemset(memory->back(), 0, gibibyte), "cudaMemset");
      }
    }
    raw::check(cudaSetDevice(near.index()), "cudaSetDevice");
  }
  ~TwoGpus() {
    for (std::size_t r = 0; r < 2; ++r) {
      nccl_.destroy(comms_[r]);
      cudaStreamDestroy(streams_[r]);
      cudaFree(raw_x_[r]);
      cudaFree(raw_y_[r]);
    }
  }
  TwoGpus(const TwoGpus&) = delete;
  TwoGpus& operator=(const TwoGpus&) = delete;

  void raw_all_reduce(std::size_t count) const {
    nccl_.group_start();
    for (std::size_t r = 0; r < 2 && !sabotaged; ++r) {
      nccl_.all_reduce(raw_x_[r], raw_y_[r], count, RawNccl::type_f32, RawNccl::sum, comms_[r], streams_[r]);
    }
    nccl_.group_end();
  }
  void all_reduce() const { all_reduce(x_, y_); }
  void all_reduce_two() const { all_reduce(x_two_, y_two_); }
  void raw_all_gather() const {
    nccl_.group_start();
    for (std::size_t r = 0; r < 2 && !sabotaged; ++r) {
      nccl_.all_gather(raw_x_[r], raw_y_[r], half, RawNccl::type_f32, comms_[r], streams_[r]);
    }
    nccl_.group_end();
  }
  void all_gather() const {
    for (std::size_t r = 0; r < 2 && !sabotaged; ++r) {
      weir::all_gather(our_streams_[r], ours_[r], weir::in(x_[r].slice(0, half)), weir::out(y_[r]));
    }
  }
  /// Ten all_reduces of two numbers, over both GPUs in one graph.
  cudaGraphExec_t raw_graph() const {
    cudaEvent_t fork = nullptr;
    cudaEvent_t join = nullptr;
    raw::check(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming), "cudaEventCreate");
    raw::check(cudaSetDevice(devices_[1].index()), "cudaSetDevice");
    raw::check(cudaEventCreateWithFlags(&join, cudaEventDisableTiming), "cudaEventCreate");
    raw::check(cudaSetDevice(devices_[0].index()), "cudaSetDevice");
    raw::check(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    raw::check(cudaEventRecord(fork, streams_[0]), "cudaEventRecord");
    raw::check(cudaStreamWaitEvent(streams_[1], fork, cudaEventWaitDefault), "cudaStreamWaitEvent");
    for (int i = 0; i < 10; ++i) raw_all_reduce(2);
    raw::check(cudaEventRecord(join, streams_[1]), "cudaEventRecord");
    raw::check(cudaStreamWaitEvent(streams_[0], join, cudaEventWaitDefault), "cudaStreamWaitEvent");
    cudaGraph_t graph = nullptr;
    raw::check(cudaStreamEndCapture(streams_[0], &graph), "cudaStreamEndCapture");
    cudaGraphExec_t instance = nullptr;
    raw::check(cudaGraphInstantiate(&instance, graph, 0), "cudaGraphInstantiate");
    cudaGraphDestroy(graph);
    cudaEventDestroy(fork);
    cudaEventDestroy(join);
    return instance;
  }
  void raw_launch(cudaGraphExec_t instance) const {
    raw::check(cudaGraphLaunch(instance, streams_[0]), "cudaGraphLaunch");
  }
  weir::Graph graph() const {
    return weir::capture(our_streams_[0], [&] {
      our_streams_[1].wait(our_streams_[0]);
      for (int i = 0; i < 10; ++i) all_reduce_two();
      our_streams_[0].wait(our_streams_[1]);
    });
  }
  void launch(const weir::Graph& graph) const {
    if (!sabotaged) graph.launch(our_streams_[0]);
  }
  void raw_wait() const {
    for (const cudaStream_t stream : streams_) raw::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  void wait() const {
    for (const weir::Stream& stream : our_streams_) stream.synchronize();
  }
  /// Whether the last element of `count` is what it should be on both.
  void prove(std::size_t count, float value) const {
    for (std::size_t r = 0; r < 2; ++r) {
      expect(y_[r].slice(count - 1, count).to_host()[0] == value, "our collective gave another value");
      weir::fill(our_streams_[r], y_[r], 0.0f);
    }
    wait();
  }

  static constexpr std::size_t whole = gibibyte / sizeof(float);
  static constexpr std::size_t half = whole / 2;

 private:
  using Slice = decltype(std::declval<weir::Array<float>>().slice(0, 2));
  template <class Arrays>
  void all_reduce(const Arrays& x, const Arrays& y) const {
    for (std::size_t r = 0; r < 2 && !sabotaged; ++r) {
      weir::all_reduce(our_streams_[r], ours_[r], weir::in(x[r]), weir::out(y[r]));
    }
  }

  const RawNccl& nccl_;
  const std::vector<weir::Device> devices_;
  const std::vector<weir::Communicator> ours_;
  RawNccl::Comm comms_[2] = {};
  std::vector<weir::Stream> our_streams_;
  std::vector<weir::Array<float>> x_, y_;
  std::vector<Slice> x_two_, y_two_;  // their first two numbers
  std::vector<cudaStream_t> streams_;
  std::vector<void*> raw_x_;
  std::vector<void*> raw_y_;
};

/// Milliseconds of each of several, one behind the other.
template <class Call, class Wait>
double milliseconds_of(Call&& call, Wait&& wait) {
  constexpr std::size_t count = 5;
  return whole_cost(count, call, wait) / 1e3;
}

void measure(Context& context, Row large, Row small, Row replayed, Row gather) {
  RawNccl nccl;
  const std::string why = nccl.open();
  if (!why.empty()) {
    for (const Row* row : {&large, &small, &replayed, &gather}) context.report.skip(*row, why);
    return;
  }
  const TwoGpus gpus(nccl, context.device, *context.peer);
  const auto raw_wait = [&] { gpus.raw_wait(); };
  const auto wait = [&] { gpus.wait(); };
  const auto add = [&](Row& row, const Pair& pair, std::size_t proven, float value) {
    raw::check_last();
    gpus.prove(proven, value);
    row.value = pair.ours;
    row.raw = pair.raw;
    context.report.add(row);
  };
  add(large,
      by_turns(
          context.options, [&] { return milliseconds_of([&] { gpus.raw_all_reduce(TwoGpus::whole); }, raw_wait); },
          [&] { return milliseconds_of([&] { gpus.all_reduce(); }, wait); }),
      TwoGpus::whole, 2.0f);
  constexpr std::size_t count = 200;
  add(small,
      by_turns(
          bursts(context),
          [&] {
            return whole_cost(
                count, [&] { gpus.raw_all_reduce(2); }, raw_wait);
          },
          [&] {
            return whole_cost(
                count, [&] { gpus.all_reduce_two(); }, wait);
          }),
      2, 2.0f);
  {
    const weir::Graph graph = gpus.graph();
    const cudaGraphExec_t raw_graph = gpus.raw_graph();
    add(replayed,
        by_turns(
            bursts(context),
            [&] {
              return whole_cost(
                  count, [&] { gpus.raw_launch(raw_graph); }, raw_wait);
            },
            [&] {
              return whole_cost(
                  count, [&] { gpus.launch(graph); }, wait);
            }),
        2, 2.0f);
    raw::check(cudaGraphExecDestroy(raw_graph), "cudaGraphExecDestroy");
  }
  add(gather,
      by_turns(
          context.options, [&] { return milliseconds_of([&] { gpus.raw_all_gather(); }, raw_wait); },
          [&] { return milliseconds_of([&] { gpus.all_gather(); }, wait); }),
      TwoGpus::whole, 1.0f);
}

}  // namespace

void collectives(Context& context) {
  const Row large{"all_reduce.large", "all_reduce of 1 GiB, two GPUs", "ms", {}, {}, {ratio_at_most(1.01)}};
  const Row small{"all_reduce.small", "8 B in a row, both ranks by one thread", "us", {}, {}, {ratio_at_most(1.05)}};
  const Row replayed{"all_reduce.replayed", "ten of 8 B in a graph, two GPUs", "us", {}, {}, {ratio_at_most(1.02)}};
  const Row gather{"all_gather.large", "all_gather of 1 GiB in all, two GPUs", "ms", {}, {}, {ratio_at_most(1 / 1.3)}};
  if (context.peer) return measure(context, large, small, replayed, gather);
  for (const Row* row : {&large, &small, &replayed, &gather})
    context.report.skip(*row, "needs two GPUs, and there is one");
}

}  // namespace bench
