// Random programs of streams, events, kernels and collectives, against a model that runs each call at once.
// On the CPU 20,000 of them; WEIR_COLLECTIVES_PROGRAMS says another number.
#include <cstdlib>
#include <random>

#include <weir/host_call.hpp>
#include <weir/launch.hpp>

#include "collectives/ranks.hpp"
#include "support/sanitizers.hpp"

namespace weir_test {
namespace {

using weir::in;
using weir::inout;
using weir::out;

struct AddTo {
  WEIR_KERNEL void operator()(std::size_t i, int value, weir::View<int> x) const { x[i] += value; }
};

constexpr std::size_t count = 16;
constexpr std::size_t arrays = 3;
constexpr int modulus = 1000;

/// Keeps numbers small: x % modulus.
struct Reduce {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] %= modulus; }
};

/// A rank has two streams and three arrays; what it does to an array follows, in the streams, what it did before.
class Program {
 public:
  Program(std::mt19937& random, std::size_t n) : random_(random), ranks_(n), more_(n) {
    for (std::size_t a = 0; a < arrays; ++a) {
      arrays_.push_back(ranks_.arrays<int>(count, [a](std::size_t r, std::size_t i) { return 7 * a + 3 * r + i; }));
      model_.emplace_back(n, std::vector<int>(count));
      for (std::size_t r = 0; r < n; ++r) {
        for (std::size_t i = 0; i < count; ++i) model_[a][r][i] = static_cast<int>(7 * a + 3 * r + i);
      }
    }
    ranks_.synchronize();
  }

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const std::size_t a = pick(arrays);
      comms_ = pick(2) == 0 ? &ranks_.comms : &more_.comms;
      switch (pick(7)) {
        case 0: add(a, pick(size())); break;
        case 1: all_reduce(a); break;
        case 2: broadcast(a, pick(size())); break;
        case 3: all_gather(a, (a + 1) % arrays); break;
        case 4: exchange(a, pick(size()), pick(size())); break;
        case 5: weir::host_call(stream(pick(size())), [] {}); break;  // what comes behind it may still fail
        default: switch_streams(pick(size())); break;
      }
    }
    for (std::size_t a = 0; a < arrays; ++a) {
      for (std::size_t r = 0; r < size(); ++r) ASSERT_EQ(arrays_[a][r].to_host(), model_[a][r]) << a << ", rank " << r;
    }
  }

 private:
  std::size_t pick(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }
  std::size_t size() const { return ranks_.size(); }
  const weir::Stream& stream(std::size_t r) const { return second_[r] ? more_.streams[r] : ranks_.streams[r]; }
  /// In a random order of ranks, as threads might.
  template <class F>
  void each_rank(F&& f) {
    std::vector<std::size_t> order(size());
    for (std::size_t r = 0; r < size(); ++r) order[r] = r;
    std::shuffle(order.begin(), order.end(), random_);
    for (const std::size_t r : order) f(r);
  }

  void switch_streams(std::size_t r) {
    const weir::Event event = stream(r).record();
    second_[r] = !second_[r];
    stream(r).wait(event);
  }
  void add(std::size_t a, std::size_t r) {
    const int value = static_cast<int>(pick(50));
    weir::launch(stream(r), count, AddTo{}, value, inout(arrays_[a][r]));
    for (int& one : model_[a][r]) one += value;
  }
  void all_reduce(std::size_t a) {
    each_rank([&](std::size_t r) {
      weir::all_reduce(stream(r), (*comms_)[r], inout(arrays_[a][r]));
      weir::launch(stream(r), count, Reduce{}, inout(arrays_[a][r]));
    });
    std::vector<int> sum(count);
    for (const auto& one : model_[a]) {
      for (std::size_t i = 0; i < count; ++i) sum[i] += one[i];
    }
    for (int& one : sum) one %= modulus;
    for (auto& one : model_[a]) one = sum;
  }
  void broadcast(std::size_t a, std::size_t root) {
    each_rank(
        [&](std::size_t r) { weir::broadcast(stream(r), (*comms_)[r], inout(arrays_[a][r]), static_cast<int>(root)); });
    const auto value = model_[a][root];
    for (auto& one : model_[a]) one = value;
  }
  /// The first elements of all ranks, in turn.
  void all_gather(std::size_t a, std::size_t to) {
    const std::size_t part = count / size();
    each_rank([&](std::size_t r) {
      weir::all_gather(stream(r), (*comms_)[r], in(arrays_[a][r].slice(0, part)),
                       out(arrays_[to][r].slice(0, part * size())));
    });
    std::vector<int> all;
    for (const auto& one : model_[a])
      all.insert(all.end(), one.begin(), one.begin() + static_cast<std::ptrdiff_t>(part));
    for (auto& one : model_[to]) std::copy(all.begin(), all.end(), one.begin());
  }
  void exchange(std::size_t a, std::size_t r, std::size_t q) {
    if (r == q) return;
    const std::size_t b = (a + 1) % arrays;
    for (const auto& [me, other] : {std::pair{r, q}, std::pair{q, r}}) {
      weir::CollectiveGroup group;
      weir::send(stream(me), (*comms_)[me], in(arrays_[a][me]), static_cast<int>(other));
      weir::receive(stream(me), (*comms_)[me], out(arrays_[b][me]), static_cast<int>(other));
      group.end();
    }
    model_[b][r] = model_[a][q];
    model_[b][q] = model_[a][r];
  }

  std::mt19937& random_;
  Ranks ranks_;
  Ranks more_;  ///< for their streams, too
  const std::vector<weir::Communicator>* comms_ = nullptr;
  std::vector<bool> second_ = std::vector<bool>(7);
  std::vector<std::vector<weir::Array<int>>> arrays_;
  std::vector<std::vector<std::vector<int>>> model_;
};

TEST(CollectivesRandom, programs_do_what_a_serial_model_does) {
  const char* wanted = std::getenv("WEIR_COLLECTIVES_PROGRAMS");
  const bool plain = on_cpu() && !under_address_sanitizer && !under_thread_sanitizer;
  const unsigned usual = on_real_gpus() ? 10 : plain ? 20'000 : 100;
  const unsigned programs = wanted != nullptr ? static_cast<unsigned>(std::atoi(wanted)) : usual;
  for (unsigned seed = 1; seed <= programs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    watch_anew();
    std::mt19937 random(seed);
    Program(random, 1 + seed % std::min<std::size_t>(4, most_ranks())).run(40);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace weir_test
