// The explorer beside the text of the standard: random small programs, whose executions are counted here by trying every
// reads-from and every modification order, and testing the rules of [intro.races] and [atomics.order] as they are written.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <sstream>

#include "explorer.hpp"

namespace {

using Order = std::memory_order;
constexpr int places = 2;

struct Step {
  enum Kind { load, store, exchange } kind;
  int place;
  Order order;
  int value;  ///< stores: each another one
};
using Program = std::vector<std::vector<Step>>;

std::string text_of(const Program& program) {
  static const std::map<Order, const char*> orders{{std::memory_order_relaxed, "rlx"},
                                                   {std::memory_order_acquire, "acq"},
                                                   {std::memory_order_release, "rel"},
                                                   {std::memory_order_acq_rel, "a/r"},
                                                   {std::memory_order_seq_cst, "sc"}};
  std::ostringstream text;
  for (const auto& thread : program) {
    text << "  |";
    for (const Step& step : thread) {
      text << " "
           << (step.kind == Step::load    ? "R"
               : step.kind == Step::store ? "W"
                                          : "U")
           << "xyz"[step.place] << "." << orders.at(step.order);
      if (step.kind != Step::load) text << "=" << step.value;
    }
    text << "\n";
  }
  return text.str();
}

Program random_program(std::mt19937& random) {
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  Program program(static_cast<std::size_t>(2 + below(2)));
  int value = 0;
  int left = 7;
  const int taste = below(3);  // of orders: all, mostly sequential, mostly weak
  for (std::size_t t = 0; t < program.size(); ++t) {
    const int most = std::min(left - static_cast<int>(program.size() - t - 1), 4);
    const int steps = 1 + below(std::max(most, 1));
    left -= steps;
    for (int i = 0; i < steps; ++i) {
      Step step{};
      step.kind = std::array{Step::load, Step::store, Step::load, Step::store,
                             Step::exchange}[static_cast<std::size_t>(below(5))];
      step.place = below(places);
      step.value = ++value;
      const bool strong = taste == 0 ? below(2) == 0 : taste == 1 ? below(4) != 0 : below(6) == 0;
      if (strong) {
        step.order = std::memory_order_seq_cst;
      } else if (below(2) == 0) {
        step.order = std::memory_order_relaxed;
      } else if (step.kind == Step::load) {
        step.order = std::memory_order_acquire;
      } else if (step.kind == Step::store) {
        step.order = std::memory_order_release;
      } else {
        step.order = std::array{std::memory_order_acquire, std::memory_order_release,
                                std::memory_order_acq_rel}[static_cast<std::size_t>(below(3))];
      }
      program[t].push_back(step);
    }
  }
  return program;
}

/// What each read saw, thread by thread, and the modification order of each place.
using Execution = std::vector<int>;

// ---- the rules, by relations between events --------------------------------------------------------------------------

class Relation {
 public:
  explicit Relation(std::size_t size) : size_(size), pairs_(size * size, 0) {}
  char& operator()(std::size_t a, std::size_t b) { return pairs_[a * size_ + b]; }
  bool operator()(std::size_t a, std::size_t b) const { return pairs_[a * size_ + b] != 0; }
  Relation& operator|=(const Relation& other) {
    for (std::size_t i = 0; i < pairs_.size(); ++i) pairs_[i] = static_cast<char>(pairs_[i] | other.pairs_[i]);
    return *this;
  }
  Relation then(const Relation& other) const {
    Relation result(size_);
    for (std::size_t a = 0; a < size_; ++a)
      for (std::size_t b = 0; b < size_; ++b)
        if ((*this)(a, b))
          for (std::size_t c = 0; c < size_; ++c)
            if (other(b, c)) result(a, c) = 1;
    return result;
  }
  void close() {
    for (std::size_t b = 0; b < size_; ++b)
      for (std::size_t a = 0; a < size_; ++a)
        if ((*this)(a, b))
          for (std::size_t c = 0; c < size_; ++c)
            if ((*this)(b, c)) (*this)(a, c) = 1;
  }
  bool has_loop() const {
    for (std::size_t a = 0; a < size_; ++a)
      if ((*this)(a, a)) return true;
    return false;
  }

 private:
  std::size_t size_;
  std::vector<char> pairs_;
};

struct Node {
  Step step;
  int thread;  ///< -1: the first value
};

class Rules {
 public:
  explicit Rules(const Program& program) : sequenced_(0) {
    for (int place = 0; place < places; ++place)
      nodes_.push_back({{Step::store, place, std::memory_order_relaxed, 0}, -1});
    for (std::size_t t = 0; t < program.size(); ++t)
      for (const Step& step : program[t]) nodes_.push_back({step, static_cast<int>(t)});
    sequenced_ = Relation(nodes_.size());
    for (std::size_t a = 0; a < nodes_.size(); ++a)
      for (std::size_t b = 0; b < nodes_.size(); ++b)
        sequenced_(a, b) =
            nodes_[b].thread >= 0 && (nodes_[a].thread < 0 || (nodes_[a].thread == nodes_[b].thread && a < b));
    from_.assign(nodes_.size(), nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (writes(i) && nodes_[i].thread >= 0) stores_[static_cast<std::size_t>(nodes_[i].step.place)].push_back(i);
  }

  std::map<Execution, int> executions() {
    choose_order(0);
    return found_;
  }

 private:
  bool writes(std::size_t i) const { return nodes_[i].step.kind != Step::load; }
  bool reads(std::size_t i) const { return nodes_[i].step.kind != Step::store; }
  bool sequential(std::size_t i) const { return nodes_[i].step.order == std::memory_order_seq_cst; }
  bool same_place(std::size_t a, std::size_t b) const { return nodes_[a].step.place == nodes_[b].step.place; }

  void choose_order(int place) {
    if (place == places) return choose_from(places);
    auto order = stores_[static_cast<std::size_t>(place)];
    std::sort(order.begin(), order.end());
    do {
      order_[static_cast<std::size_t>(place)] = order;
      choose_order(place + 1);
    } while (std::next_permutation(order.begin(), order.end()));
  }
  void choose_from(std::size_t node) {
    if (node == nodes_.size()) return judge();
    if (!reads(node)) return choose_from(node + 1);
    for (std::size_t store = 0; store < nodes_.size(); ++store) {
      if (store == node || !writes(store) || !same_place(store, node) || sequenced_(node, store)) continue;
      from_[node] = store;
      choose_from(node + 1);
    }
  }

  void judge() {
    const std::size_t count = nodes_.size();
    Relation from(count);
    Relation order(count);
    Relation before(count);  // a read before the stores behind what it read
    for (std::size_t place = 0; place < places; ++place) {
      std::vector<std::size_t> all{place};
      all.insert(all.end(), order_[place].begin(), order_[place].end());
      for (std::size_t i = 0; i < all.size(); ++i)
        for (std::size_t j = i + 1; j < all.size(); ++j) order(all[i], all[j]) = 1;
    }
    for (std::size_t i = places; i < count; ++i) {
      if (!reads(i)) continue;
      from(from_[i], i) = 1;
      for (std::size_t j = 0; j < count; ++j)
        if (order(from_[i], j) && j != i) before(i, j) = 1;
      if (writes(i)) {  // a read-modify-write reads the last value before its own
        if (!order(from_[i], i)) return;
        for (std::size_t j = 0; j < count; ++j)
          if (order(from_[i], j) && order(j, i)) return;
      }
    }
    Relation causes = sequenced_;
    causes |= from;
    causes.close();
    if (causes.has_loop()) return;  // out of thin air

    Relation happens = sequenced_;
    for (std::size_t i = places; i < count; ++i) {
      if (!reads(i) || (nodes_[i].step.order != std::memory_order_acquire &&
                        nodes_[i].step.order != std::memory_order_acq_rel && !sequential(i)))
        continue;
      for (std::size_t head = from_[i]; head >= places; head = from_[head]) {  // release sequences that the store is of
        const Order release = nodes_[head].step.order;
        if (release == std::memory_order_release || release == std::memory_order_acq_rel || sequential(head))
          happens(head, i) = 1;
        if (nodes_[head].step.kind != Step::exchange) break;
      }
    }
    happens.close();
    Relation coherent = from;  // coherence-ordered before
    coherent |= order;
    coherent |= before;
    coherent.close();
    if (happens.has_loop() || coherent.has_loop() || happens.then(coherent).has_loop()) return;

    Relation strongly = sequenced_.then(happens).then(sequenced_);
    strongly |= sequenced_;
    for (std::size_t a = places; a < count; ++a)
      for (std::size_t b = places; b < count; ++b)
        if (sequential(a) && sequential(b) && same_place(a, b) && happens(a, b)) strongly(a, b) = 1;
    strongly.close();
    Relation total(count);
    for (std::size_t a = places; a < count; ++a)
      for (std::size_t b = places; b < count; ++b)
        total(a, b) = sequential(a) && sequential(b) && (strongly(a, b) || coherent(a, b));
    total.close();
    if (total.has_loop()) return;

    Execution execution;
    for (std::size_t i = places; i < count; ++i)
      if (reads(i)) execution.push_back(nodes_[from_[i]].step.value);
    for (const auto& stores : order_) {
      execution.push_back(-1);
      for (const std::size_t store : stores) execution.push_back(nodes_[store].step.value);
    }
    ++found_[execution];
  }

  std::vector<Node> nodes_;
  Relation sequenced_;
  std::vector<std::size_t> from_;
  std::array<std::vector<std::size_t>, places> stores_;
  std::array<std::vector<std::size_t>, places> order_;
  std::map<Execution, int> found_;
};

// ---- the explorer ------------------------------------------------------------------------------------------------------

struct Words {
  model::Atomic<int> word[places];
};

Execution execution_of(const model::Graph& graph) {
  Execution execution;
  std::array<std::vector<std::pair<int, int>>, places> stores;
  std::vector<model::EventId> constructed;
  for (const model::EventId id : graph.threads[model::setup_thread]) constructed.push_back(id);
  for (const auto& thread : graph.threads) {
    for (const model::EventId id : thread) {
      const model::Event& event = graph.events[id];
      if (event.atomic_read()) execution.push_back(static_cast<int>(event.value));
      if (event.kind != model::Kind::store && event.kind != model::Kind::update_write) continue;
      const auto place = std::find(constructed.begin(), constructed.end(), event.place) - constructed.begin();
      stores[static_cast<std::size_t>(place)].emplace_back(event.position, static_cast<int>(event.value));
    }
  }
  for (auto& order : stores) {
    std::sort(order.begin(), order.end());
    execution.push_back(-1);
    for (const auto& [position, value] : order) execution.push_back(value);
  }
  return execution;
}

std::map<Execution, int> explored(const Program& program) {
  std::map<Execution, int> found;
  std::vector<model::Role<Words>> roles;
  for (const auto& thread : program) {
    roles.push_back({"T", [&thread](Words& words) {
                       for (const Step& step : thread) {
                         auto& word = words.word[step.place];
                         switch (step.kind) {
                           case Step::load: word.load(step.order); break;
                           case Step::store: word.store(step.value, step.order); break;
                           case Step::exchange: word.exchange(step.value, step.order); break;
                         }
                       }
                     }});
  }
  model::Limits limits;
  limits.observe = [&](const model::Graph& graph) { ++found[execution_of(graph)]; };
  const model::Result result = model::explore<Words>(roles, {}, limits);
  EXPECT_TRUE(result.complete) << result.what;
  return found;
}

TEST(AxiomsTest, random_programs_have_the_executions_of_the_standard_each_once) {
  std::mt19937 random(20);
  std::size_t executions = 0;
  for (int i = 0; i < 400; ++i) {
    const Program program = random_program(random);
    const auto expected = Rules(program).executions();
    const auto found = explored(program);
    executions += found.size();
    for (const auto& [execution, times] : found) EXPECT_EQ(times, 1) << "explored twice, program " << i;
    std::size_t missing = 0;
    std::size_t wrong = 0;
    for (const auto& [execution, times] : expected) missing += found.count(execution) == 0;
    for (const auto& [execution, times] : found) wrong += expected.count(execution) == 0;
    ASSERT_TRUE(missing == 0 && wrong == 0) << "program " << i << "\n"
                                            << text_of(program) << "of " << expected.size() << " executions " << missing
                                            << " are missing, and " << wrong << " are not allowed";
  }
  EXPECT_GT(executions, 4'000u);
}

}  // namespace
