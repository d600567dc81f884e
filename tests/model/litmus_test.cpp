// Litmus tests with known answers: the explorer finds each outcome that the memory model allows, and no other.
#include <gtest/gtest.h>

#include <set>

#include "explorer.hpp"

namespace {

using model::Atomic;
using Outcome = std::vector<int>;
using Outcomes = std::set<Outcome>;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto acq_rel = std::memory_order_acq_rel;
constexpr auto sequential = std::memory_order_seq_cst;

struct Words {
  Atomic<int> x{0};
  Atomic<int> y{0};
  Atomic<int> z{0};
  model::Plain<int> data{0};
  int r[6] = {};
};
using Body = std::function<void(Words&)>;

/// Every outcome of the first `count` registers, after which `at_end` may look at the words.
Outcomes outcomes(const std::vector<Body>& bodies, std::size_t count, const Body& at_end = {}) {
  Outcomes found;
  std::vector<model::Role<Words>> roles;
  for (std::size_t i = 0; i < bodies.size(); ++i) roles.push_back({"T" + std::to_string(i + 1), bodies[i]});
  const model::Result result = model::explore<Words>(roles, [&](Words& words) {
    if (at_end) at_end(words);
    found.insert(Outcome(words.r, words.r + count));
  });
  EXPECT_TRUE(result.complete) << result.what;
  return found;
}

Outcomes store_buffering(std::memory_order store, std::memory_order load) {
  return outcomes({[=](Words& w) {
                     w.x.store(1, store);
                     w.r[0] = w.y.load(load);
                   },
                   [=](Words& w) {
                     w.y.store(1, store);
                     w.r[1] = w.x.load(load);
                   }},
                  2);
}

TEST(LitmusTest, store_buffering_is_seen_unless_all_four_are_sequential) {
  const Outcomes all{{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  const Outcomes ordered{{0, 1}, {1, 0}, {1, 1}};
  EXPECT_EQ(store_buffering(relaxed, relaxed), all);
  EXPECT_EQ(store_buffering(release, acquire), all);
  EXPECT_EQ(store_buffering(sequential, acquire), all);
  EXPECT_EQ(store_buffering(release, sequential), all);
  EXPECT_EQ(store_buffering(sequential, sequential), ordered);
}

TEST(LitmusTest, a_message_is_passed_by_release_and_acquire_and_not_by_less) {
  const auto message_passing = [](std::memory_order store, std::memory_order load) {
    return outcomes({[=](Words& w) {
                       w.x.store(1, relaxed);
                       w.y.store(1, store);
                     },
                     [=](Words& w) {
                       w.r[0] = w.y.load(load);
                       w.r[1] = w.x.load(relaxed);
                     }},
                    2);
  };
  const Outcomes all{{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  const Outcomes passed{{0, 0}, {0, 1}, {1, 1}};
  EXPECT_EQ(message_passing(relaxed, relaxed), all);
  EXPECT_EQ(message_passing(release, relaxed), all);
  EXPECT_EQ(message_passing(relaxed, acquire), all);
  EXPECT_EQ(message_passing(release, acquire), passed);
  EXPECT_EQ(message_passing(sequential, sequential), passed);
}

TEST(LitmusTest, two_readers_may_disagree_about_two_writers_unless_all_is_sequential) {
  const auto disagreement = [](std::memory_order store, std::memory_order load) {
    return outcomes({[=](Words& w) { w.x.store(1, store); }, [=](Words& w) { w.y.store(1, store); },
                     [=](Words& w) {
                       w.r[0] = w.x.load(load);
                       w.r[1] = w.y.load(load);
                     },
                     [=](Words& w) {
                       w.r[2] = w.y.load(load);
                       w.r[3] = w.x.load(load);
                     }},
                    4);
  };
  EXPECT_EQ(disagreement(release, acquire).size(), 16u);
  EXPECT_EQ(disagreement(sequential, acquire).size(), 16u);
  const Outcomes ordered = disagreement(sequential, sequential);
  EXPECT_EQ(ordered.size(), 15u);
  EXPECT_EQ(ordered.count({1, 0, 1, 0}), 0u);
}

TEST(LitmusTest, loads_do_not_see_their_own_future) {
  // Allowed by the standard with relaxed order, and by processors; the explorer says that it does not try it.
  const Outcomes found = outcomes({[](Words& w) {
                                     w.r[0] = w.x.load(relaxed);
                                     w.y.store(1, relaxed);
                                   },
                                   [](Words& w) {
                                     w.r[1] = w.y.load(relaxed);
                                     w.x.store(1, relaxed);
                                   }},
                                  2);
  EXPECT_EQ(found, (Outcomes{{0, 0}, {0, 1}, {1, 0}}));
}

TEST(LitmusTest, two_reads_of_one_word_do_not_go_back) {
  const Outcomes found = outcomes({[](Words& w) { w.x.store(1, relaxed); }, [](Words& w) { w.x.store(2, relaxed); },
                                   [](Words& w) {
                                     w.r[0] = w.x.load(relaxed);
                                     w.r[1] = w.x.load(relaxed);
                                   },
                                   [](Words& w) {
                                     w.r[2] = w.x.load(relaxed);
                                     w.r[3] = w.x.load(relaxed);
                                   }},
                                  4);
  EXPECT_EQ(found.count({1, 2, 1, 2}), 1u);
  EXPECT_EQ(found.count({2, 1, 2, 1}), 1u);
  EXPECT_EQ(found.count({1, 2, 2, 1}), 0u);  // all agree about the order of stores to one word
  for (const Outcome& r : found) EXPECT_FALSE((r[0] != 0 && r[1] == 0) || (r[2] != 0 && r[3] == 0));
}

TEST(LitmusTest, stores_to_two_words_may_be_ordered_against_their_threads_unless_all_are_sequential) {
  const auto two_writes = [](std::memory_order order) {
    return outcomes({[=](Words& w) {
                       w.x.store(1, order);
                       w.y.store(2, order);
                     },
                     [=](Words& w) {
                       w.y.store(1, order);
                       w.x.store(2, order);
                     }},
                    2, [](Words& w) {
                      w.r[0] = w.x.load(relaxed);
                      w.r[1] = w.y.load(relaxed);
                    });
  };
  const Outcomes all{{1, 1}, {1, 2}, {2, 1}, {2, 2}};
  const Outcomes ordered{{1, 2}, {2, 1}, {2, 2}};
  EXPECT_EQ(two_writes(relaxed), all);
  EXPECT_EQ(two_writes(release), all);
  EXPECT_EQ(two_writes(sequential), ordered);
}

TEST(LitmusTest, a_release_sequence_goes_on_by_read_modify_writes_and_not_by_stores) {
  const auto passed_on = [](bool by_update) {
    return outcomes({[](Words& w) {
                       w.x.store(1, relaxed);
                       w.y.store(1, release);
                     },
                     [=](Words& w) {
                       if (by_update) {
                         int expected = 1;
                         w.y.compare_exchange_strong(expected, 2, relaxed, relaxed);
                       } else if (w.y.load(relaxed) == 1) {
                         w.y.store(2, relaxed);
                       }
                     },
                     [](Words& w) {
                       w.r[0] = w.y.load(acquire);
                       w.r[1] = w.x.load(relaxed);
                     }},
                    2);
  };
  EXPECT_EQ(passed_on(true).count({2, 0}), 0u);
  EXPECT_EQ(passed_on(true).count({2, 1}), 1u);
  EXPECT_EQ(passed_on(false).count({2, 0}), 1u);
}

TEST(LitmusTest, read_modify_writes_lose_no_update_and_of_two_compare_exchanges_one_wins) {
  const Outcomes sums = outcomes(std::vector<Body>(3, [](Words& w) { w.x.fetch_add(1, relaxed); }), 1,
                                 [](Words& w) { w.r[0] = w.x.load(relaxed); });
  EXPECT_EQ(sums, (Outcomes{{3}}));
  const auto take = [](int name) {
    return [=](Words& w) {
      int expected = 0;
      w.r[name] = w.x.compare_exchange_strong(expected, name + 1, relaxed) ? 1 : 0;
    };
  };
  EXPECT_EQ(outcomes({take(0), take(1), take(2)}, 3), (Outcomes{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}));
}

TEST(LitmusTest, a_sequential_store_is_no_barrier_for_what_is_not_sequential) {
  // x may be seen before y, although it is stored after it: as on processors whose store-release lets later stores pass.
  const Outcomes found = outcomes({[](Words& w) {
                                     w.y.store(1, sequential);
                                     w.x.store(1, relaxed);
                                   },
                                   [](Words& w) {
                                     w.r[0] = w.x.load(relaxed);
                                     w.r[1] = w.y.load(sequential);
                                   }},
                                  2);
  EXPECT_EQ(found.count({1, 0}), 1u);
  const Outcomes updates = outcomes({[](Words& w) {
                                       w.x.exchange(1, sequential);
                                       w.r[0] = w.y.load(acquire);
                                     },
                                     [](Words& w) {
                                       w.y.exchange(1, sequential);
                                       w.r[1] = w.x.load(acquire);
                                     }},
                                    2);
  EXPECT_EQ(updates.count({0, 0}), 1u);
}

// ---- what it reports ---------------------------------------------------------------------------------------------------

model::Result run(const std::vector<Body>& bodies) {
  std::vector<model::Role<Words>> roles;
  for (std::size_t i = 0; i < bodies.size(); ++i) roles.push_back({"T" + std::to_string(i + 1), bodies[i]});
  return model::explore<Words>(roles, {});
}

Body publish(std::memory_order order) {
  return [=](Words& w) {
    w.data = 7;
    w.y.store(1, order);
  };
}
Body receive(std::memory_order order) {
  return [=](Words& w) {
    if (w.y.load(order) == 1) model::check(w.data == 7, "the data is there");
  };
}

TEST(LitmusTest, a_data_race_is_reported_and_ordered_use_is_none) {
  EXPECT_TRUE(run({publish(release), receive(acquire)}).complete);
  for (const auto& [store, load] : {std::pair{relaxed, acquire}, std::pair{release, relaxed}}) {
    const model::Result result = run({publish(store), receive(load)});
    EXPECT_TRUE(result.failed);
    EXPECT_NE(result.what.find("data race between T1 and T2"), std::string::npos) << result.what;
  }
}

TEST(LitmusTest, a_failing_check_is_reported_with_its_interleaving) {
  const model::Result result = run({[](Words& w) {
                                      w.x.store(1, sequential);
                                      w.y.store(1, sequential);
                                    },
                                    [](Words& w) {
                                      if (w.x.load(sequential) == 1) model::check(w.y.load(sequential) == 1, "both");
                                    }});
  EXPECT_TRUE(result.failed);
  EXPECT_NE(result.what.find("not so: both"), std::string::npos);
  EXPECT_NE(result.what.find("litmus_test.cpp:"), std::string::npos) << result.what;
  EXPECT_NE(result.what.find("read 0 of the set-up"), std::string::npos) << result.what;
  EXPECT_EQ(result.what.find("no interleaving"), std::string::npos) << result.what;
}

TEST(LitmusTest, a_wait_that_nobody_ends_is_reported_and_one_that_somebody_ends_is_not) {
  const Body wait = [](Words& w) { w.x.await_other(0, acquire); };
  const Body spin = [](Words& w) {
    while (w.x.load(acquire) == 0) model::spin();
  };
  const Body idle = [](Words& w) { w.x.await_other(0, acquire, true); };
  const Body give = [](Words& w) { w.x.store(1, release); };
  EXPECT_TRUE(run({wait, give, spin, idle}).complete);
  EXPECT_TRUE(run({idle}).complete);
  for (const Body& body : {wait, spin}) {
    const model::Result result = run({body});
    EXPECT_TRUE(result.failed);
    EXPECT_NE(result.what.find("nobody will ever write"), std::string::npos) << result.what;
  }
}

TEST(LitmusTest, use_after_the_end_of_an_object_is_reported) {
  struct Place {
    std::optional<Atomic<int>> lent;
    Atomic<Atomic<int>*> word{nullptr};
    Atomic<int> finished{0};
  };
  const auto lend = [](bool wait) {
    return model::explore<Place>({{"lender",
                                   [=](Place& place) {
                                     place.lent.emplace(1);
                                     place.word.store(&*place.lent, release);
                                     if (wait) place.finished.await_other(0, acquire);
                                     place.lent.reset();
                                   }},
                                  {"borrower",
                                   [](Place& place) {
                                     if (Atomic<int>* word = place.word.await_other(nullptr, acquire))
                                       word->store(2, relaxed);
                                     place.finished.store(1, release);
                                   }}},
                                 {});
  };
  EXPECT_TRUE(lend(true).complete) << lend(true).what;
  EXPECT_TRUE(lend(false).failed);
}

TEST(LitmusTest, a_lock_made_of_a_spin_loop_excludes_and_one_that_is_not_given_back_is_found) {
  const auto locked = [](std::memory_order unlock, bool forget) -> Body {
    return [=](Words& w) {
      while (w.x.exchange(1, acquire) != 0) model::spin();
      w.data = w.data + 1;
      if (!forget) w.x.store(0, unlock);
    };
  };
  EXPECT_TRUE(run({locked(release, false), locked(release, false), locked(release, false)}).complete);
  EXPECT_TRUE(run({locked(relaxed, false), locked(relaxed, false)}).failed);
  EXPECT_TRUE(run({locked(release, true), locked(release, true)}).failed);
}

}  // namespace
