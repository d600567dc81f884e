// Random programs of calls, groups and graphs between processes, against a serial model of all ranks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ranks/world.hpp"

namespace {

using ranks_test::is_rank;
using ranks_test::shared;

using Word = std::uint32_t;  // sums wrap

/// All ranks make the same program of a seed, and know what every rank has: each array is one word, many times.
class Program {
 public:
  explicit Program(std::uint32_t seed) : random_(seed), comm_(shared()), rank_(comm_.rank()), size_(comm_.size()) {
    for (std::size_t s = 0; s < streams; ++s) {
      streams_.emplace_back(ranks_test::device(), weir::StreamOptions{.blocking = false});
      for (std::size_t a = 0; a < arrays; ++a) {
        constexpr std::size_t counts[] = {1, 2, 100, 600, 9'000};
        const std::size_t count = counts[pick(std::size(counts))];
        words_.emplace_back();
        for (int r = 0; r < size_; ++r)
          words_.back().push_back(static_cast<Word>(100 * words_.size() + static_cast<std::size_t>(r)));
        all_.push_back(weir::full(streams_[s], count, words_.back()[static_cast<std::size_t>(rank_)]));
      }
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      switch (pick(4)) {
        case 0: graph(pick(streams)); break;
        case 1: group(anywhere); break;
        default: call(pick(streams)); break;
      }
      if (pick(8) == 0) check(i);
    }
    check(steps);
  }

 private:
  static constexpr std::size_t streams = 3;
  static constexpr std::size_t arrays = 6;  ///< of each stream
  static constexpr std::size_t anywhere = streams;
  using Model = std::vector<std::vector<Word>>;  ///< of each array, each rank's word

  std::size_t pick(std::size_t below) { return random_() % below; }
  /// Two arrays of one size, of a stream.
  std::pair<std::size_t, std::size_t> pair_of(std::size_t stream) {
    const std::size_t first = stream * arrays + pick(arrays);
    std::vector<std::size_t> alike;
    for (std::size_t a = stream * arrays; a < (stream + 1) * arrays; ++a) {
      if (all_[a].size() == all_[first].size()) alike.push_back(a);
    }
    return {first, alike[pick(alike.size())]};
  }

  /// What the ranks' words of `from` and `to` become.
  struct Call {
    std::size_t kind;
    std::size_t from, to;
    std::size_t root;
  };
  Call any_call(std::size_t stream) {
    const auto [from, to] = pair_of(stream);
    return {pick(5), from, to, pick(static_cast<std::size_t>(size_))};
  }
  static void think(const Call& call, Model& words) {
    const std::vector<Word> from = words[call.from];
    std::vector<Word>& to = words[call.to];
    Word sum = 0;
    for (const Word one : from) sum += one;
    switch (call.kind) {
      case 0: std::fill(to.begin(), to.end(), sum); break;
      case 1: std::fill(to.begin(), to.end(), *std::max_element(from.begin(), from.end())); break;
      case 2: std::fill(to.begin(), to.end(), to[call.root]); break;
      case 3: to[call.root] = sum; break;
      default: to = from; break;
    }
  }
  void make(const Call& call, weir::StreamRef s) const {
    const auto& from = all_[call.from];
    const auto& to = all_[call.to];
    const bool same = call.from == call.to;
    const int root = static_cast<int>(call.root);
    switch (call.kind) {
      case 0:
        same ? weir::all_reduce(s, comm_, weir::inout(to)) : weir::all_reduce(s, comm_, weir::in(from), weir::out(to));
        break;
      case 1:
        same ? weir::all_reduce(s, comm_, weir::inout(to), weir::Maximum{})
             : weir::all_reduce(s, comm_, weir::in(from), weir::out(to), weir::Maximum{});
        break;
      case 2: weir::broadcast(s, comm_, weir::inout(to), root); break;
      case 3:
        same ? weir::reduce(s, comm_, weir::inout(to), weir::Plus{}, root)
             : weir::reduce(s, comm_, weir::in(from), weir::out(to), weir::Plus{}, root);
        break;
      default:
        if (!same) weir::copy(s, to, from);
        break;
    }
  }
  weir::StreamRef stream_of(std::size_t array) const { return streams_[array / arrays]; }

  void call(std::size_t stream) {
    const Call one = any_call(stream);
    make(one, streams_[stream]);
    think(one, words_);
  }

  /// Of several arrays, each once: what a rank sends goes to the next one, or all have the sum.
  struct Unit {
    std::vector<Call> calls;                                  ///< in place
    std::vector<std::pair<std::size_t, std::size_t>> passed;  ///< from, to
  };
  Unit any_unit(std::size_t stream) {
    std::vector<std::size_t> left;
    for (std::size_t a = 0; a < all_.size(); ++a) {
      if (stream == anywhere || a / arrays == stream) left.push_back(a);
    }
    std::shuffle(left.begin(), left.end(), random_);
    left.resize(1 + pick(left.size()));
    Unit unit;
    while (!left.empty()) {
      const std::size_t one = left.back();
      left.pop_back();
      const auto alike = std::find_if(left.begin(), left.end(), [&](std::size_t a) {
        return a / arrays == one / arrays && all_[a].size() == all_[one].size();
      });
      if (pick(2) == 0 && alike != left.end()) {
        unit.passed.emplace_back(one, *alike);
        left.erase(alike);
      } else {
        unit.calls.push_back({pick(4), one, one, pick(static_cast<std::size_t>(size_))});
      }
    }
    return unit;
  }
  void make(const Unit& unit) const {
    const weir::CollectiveGroup group;
    for (const Call& one : unit.calls) make(one, stream_of(one.to));
    for (const auto& [from, to] : unit.passed) {
      weir::send(stream_of(from), comm_, weir::in(all_[from]), (rank_ + 1) % size_);
      weir::receive(stream_of(to), comm_, weir::out(all_[to]), (rank_ + size_ - 1) % size_);
    }
  }
  void think(const Unit& unit, Model& words) const {
    for (const Call& one : unit.calls) think(one, words);
    for (const auto& [from, to] : unit.passed) {
      for (int r = 0; r < size_; ++r) {
        words[to][static_cast<std::size_t>(r)] = words[from][static_cast<std::size_t>((r + size_ - 1) % size_)];
      }
    }
  }
  void group(std::size_t stream) {
    const Unit unit = any_unit(stream);
    make(unit);
    think(unit, words_);
  }

  /// Of one stream, launched a few times.
  void graph(std::size_t stream) {
    struct Step {
      bool is_unit;
      Call call;
      Unit unit;
    };
    std::vector<Step> steps;
    for (std::size_t i = 1 + pick(5); i > 0; --i) {
      const bool is_unit = pick(3) == 0;
      steps.push_back({is_unit, is_unit ? Call{} : any_call(stream), is_unit ? any_unit(stream) : Unit{}});
    }
    const weir::Graph graph = weir::capture(streams_[stream], [&] {
      for (const Step& step : steps) step.is_unit ? make(step.unit) : make(step.call, streams_[stream]);
    });
    for (std::size_t launches = 1 + pick(3); launches > 0; --launches) {
      graph.launch(streams_[stream]);
      for (const Step& step : steps) step.is_unit ? think(step.unit, words_) : think(step.call, words_);
    }
  }

  void check(int step) const {
    for (std::size_t a = 0; a < all_.size(); ++a) {
      const std::vector<Word> host = all_[a].to_host();
      const Word wanted = words_[a][static_cast<std::size_t>(rank_)];
      const auto other = std::find_if(host.begin(), host.end(), [&](Word one) { return one != wanted; });
      if (other == host.end()) continue;
      ADD_FAILURE() << "behind step " << step << ": element " << other - host.begin() << " of array " << a << " of "
                    << host.size() << " is " << *other << ", not " << wanted << ", on rank " << rank_;
      return;
    }
  }

  std::mt19937 random_;
  const weir::Communicator& comm_;
  const int rank_;
  const int size_;
  std::vector<weir::Stream> streams_;
  std::vector<weir::Array<Word>> all_;
  Model words_;
};

}  // namespace

TEST(OnRanksRandom, programs_of_calls_groups_and_graphs_are_as_a_serial_model_has_them) {
  if (!is_rank()) GTEST_SKIP() << "needs several processes: weir ranks, or mpirun";
  const char* const number = std::getenv("WEIR_PROGRAMS");
  const std::uint32_t programs = number != nullptr ? static_cast<std::uint32_t>(std::atoi(number)) : 2;
  for (std::uint32_t seed = 1; seed <= programs && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Program(seed).run(25);
  }
}
