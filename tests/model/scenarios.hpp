// The scenarios in which the strand is explored: two to four threads around up to three queues.
#pragma once

#include <array>
#include <ostream>

#include "queues.hpp"

namespace model {

template <class Strand>
struct Queues {
  using Q = Queue<Strand>;
  Ready ready;
  Q a{ready, 0};
  Q b{ready, 1};
  Q c{ready, 2};
  std::array<typename Q::Beds, 2> beds;

  void work(int share = Q::most_commands) {
    for (;;) {
      const int name = ready.pop();
      (name == 0 ? a : name == 1 ? b : c).run_popped(share);
    }
  }
};

template <class Strand>
struct StrandScenario {
  const char* name;
  std::vector<Role<Queues<Strand>>> roles;
  std::function<void(Queues<Strand>&)> at_end;
  std::function<void(Queues<Strand>&)> set_up = {};

  friend void PrintTo(const StrandScenario& scenario, std::ostream* out) { *out << scenario.name; }
};

template <class Strand>
Result explore(const StrandScenario<Strand>& scenario, const Limits& limits = {}) {
  return explore<Queues<Strand>>(scenario.roles, scenario.at_end, limits, scenario.set_up);
}

template <class Strand = PlainStrand>
std::vector<StrandScenario<Strand>> strand_scenarios() {
  using All = Queues<Strand>;
  const Role<All> worker{"worker", [](All& q) { q.work(); }};
  const Role<All> fair_worker{"worker", [](All& q) { q.work(1); }};
  const Role<All> a_appends{"producer", [](All& q) { q.a.append(); }};
  const Role<All> a_appends_fast{"producer", [](All& q) { q.a.append_fast(); }};
  const Role<All> a_appends_twice{"producer", [](All& q) {
                                    q.a.append_fast();
                                    q.a.append();
                                  }};
  const Role<All> a_appends_for_long{"producer", [](All& q) { q.a.append_for_long(); }};
  const Role<All> b_waits_for_a{"producer of b", [](All& q) { q.b.append_wait(q.a, 1); }};
  const auto over = [](int a, int b = 0, int c = 0) {
    return [=](All& q) {
      q.a.check_over(static_cast<std::uint64_t>(a));
      q.b.check_over(static_cast<std::uint64_t>(b));
      q.c.check_over(static_cast<std::uint64_t>(c));
    };
  };
  const auto a_waits = [](const char* name, std::uint64_t number, std::size_t bed) -> Role<All> {
    return {name, [=](All& q) { q.a.wait(number, q.beds[bed]); }};
  };
  return {
      {"commands_are_run", {a_appends_twice, worker}, over(2)},
      {"two_workers_share_a_queue", {a_appends_twice, worker, worker}, over(2)},
      {"two_workers_take_turns", {a_appends_twice, fair_worker, fair_worker}, over(2)},
      {"two_producers_append", {a_appends, a_appends_fast, worker}, over(2)},
      {"two_fast_producers_append", {a_appends_fast, a_appends_fast, worker}, over(2)},
      {"a_producer_has_the_lock_for_long", {a_appends_for_long, a_appends_fast, worker}, over(2)},
      {"two_producers_have_the_lock_for_long", {a_appends_for_long, a_appends_for_long, worker}, over(2)},
      {"a_producer_with_the_lock_for_long_parks_its_queue",
       {a_appends,
        {"producer of b",
         [](All& q) {
           q.b.append_fast();
           q.b.append_wait(q.a, 1, true);
         }},
        worker},
       over(1, 2)},
      {"an_implied_wait_is_run_though_its_command_throws",
       {a_appends, {"producer of b", [](All& q) { q.b.append_and_throw(q.a, 1); }}, worker},
       over(1, 1)},
      {"two_queues_follow_each_other",
       {{"legacy producer", [](All& q) { q.a.append_awaiting(q.b); }},
        {"blocking producer", [](All& q) { q.b.append_giving_way(q.a); }}},
       [](All& q) { q.a.check_follows(q.b); }},
      {"two_producers_follow_one_queue",
       {{"legacy producer", [](All& q) { q.a.append_awaiting(q.b); }},
        {"blocking producer 1", [](All& q) { q.b.append_giving_way(q.a); }},
        {"blocking producer 2", [](All& q) { q.b.append_fast(); }}},
       [](All& q) { q.a.check_follows(q.b); }},
      {"a_queue_waits_for_another", {a_appends, b_waits_for_a, worker}, over(1, 1)},
      {"a_queue_waits_and_goes_on",
       {a_appends,
        {"producer of b",
         [](All& q) {
           q.b.append_wait(q.a, 1);
           q.b.append_fast();
         }},
        worker,
        worker},
       over(1, 2)},
      {"a_queue_waits_while_it_runs",
       {a_appends,
        {"producer of b",
         [](All& q) {
           q.b.append_fast();
           q.b.append_wait(q.a, 1);
         }},
        worker},
       over(1, 2)},
      {"two_queues_wait_for_each_other_by_turns",
       {worker, worker},
       over(3, 3),
       [](All& q) {
         q.a.append_fast();
         q.b.append_wait(q.a, 1);
         q.b.append_fast();
         q.a.append_wait(q.b, 2);
         q.a.append_fast();
         q.b.append_wait(q.a, 3);
       }},
      {"a_producer_adds_a_wait_for_the_queue_that_is_woken",
       {{"producer", [](All& q) { q.a.append_wait(q.b, 2); }}, worker},
       over(2, 2),
       [](All& q) {
         q.a.append_fast();
         q.b.append_wait(q.a, 1);
         q.b.append_fast();
       }},
      {"a_host_waits_for_one_of_two_queues_that_wait_for_each_other",
       {{"host", [](All& q) { q.a.wait(2, q.beds[0]); }}, worker},
       over(2, 2),
       [](All& q) {
         q.a.append_fast();
         q.b.append_wait(q.a, 1);
         q.b.append_fast();
         q.a.append_wait(q.b, 2);
       }},
      {"a_producer_finds_no_room",
       {{"producer",
         [](All& q) {
           q.a.look_for_room();
           q.a.append_fast();
         }},
        a_appends_fast,
        worker},
       over(2)},
      {"two_queues_wait_for_one",
       {a_appends, b_waits_for_a, {"producer of c", [](All& q) { q.c.append_wait(q.a, 1); }}, worker},
       over(1, 1, 1)},
      {"a_queue_waits_for_one_that_waits",
       {a_appends, b_waits_for_a, {"producer of c", [](All& q) { q.c.append_wait(q.b, 1); }}, worker},
       over(1, 1, 1)},
      {"a_producer_waits_for_its_command",
       {{"host",
         [](All& q) {
           q.a.append();
           q.a.wait(1, q.beds[0]);
         }},
        worker},
       over(1)},
      {"a_host_waits_for_another_ones_command", {a_appends_fast, a_waits("host", 1, 0), worker}, over(1)},
      {"two_hosts_wait",
       {a_appends_fast, a_waits("host 1", 1, 0), a_waits("host 2", 1, 1)},
       [](All& q) { q.a.check_done(1); }},
      {"a_host_waits_and_no_worker_comes",
       {{"host",
         [](All& q) {
           q.a.append_fast();
           q.b.append_wait(q.a, 1);
           q.b.wait(1, q.beds[0]);
         }},
        {"producer", [](All& q) { q.b.append(); }}},
       [](All& q) { q.b.check_done(1); }},
      {"a_host_helps_what_its_queue_waits_for",
       {a_appends,
        {"host",
         [](All& q) {
           q.b.append_wait(q.a, 1);
           q.b.wait(1, q.beds[0]);
         }},
        worker},
       over(1, 1)},
      {"an_impatient_host_leaves",
       {a_appends, {"host", [](All& q) { q.a.sleep(1, q.beds[0], true); }}, worker},
       over(1)},
      {"a_queue_retires_while_it_runs",
       {{"owner",
         [](All& q) {
           q.a.append();
           q.a.retire_now();
         }},
        worker},
       [](All& q) {
         q.a.check_over(1);
         q.a.check_retired();
       }},
      {"a_queue_retires_while_a_host_helps",
       {{"owner",
         [](All& q) {
           q.a.append_fast();
           q.a.retire_now();
         }},
        a_waits("host", 1, 0),
        worker},
       [](All& q) {
         q.a.check_over(1);
         q.a.check_retired();
       }},
      {"a_queue_retires_while_it_waits",
       {a_appends,
        {"owner of b",
         [](All& q) {
           q.b.append_wait(q.a, 1);
           q.b.retire_now();
         }},
        worker},
       [](All& q) {
         q.a.check_over(1);
         q.b.check_over(1);
         q.b.check_retired();
       }},
      {"a_queue_is_used_again",
       {{"owner",
         [](All& q) {
           q.a.append_fast();
           q.a.retire_now();
           q.a.await_retired(1);
           q.a.append_fast();
           q.a.retire_now();
         }},
        worker},
       [](All& q) {
         q.a.check_over(2);
         q.a.check_retired(2);
       }},
      {"a_queue_retires_while_it_begins_anew",
       {{"owner",
         [](All& q) {
           q.a.append_fast();
           q.a.retire_now();
         }},
        {"host",
         [](All& q) {
           q.a.await_published(1);
           q.a.begin_anew();
         }},
        worker},
       [](All& q) {
         q.a.check_all_done();
         q.a.check_retired();
       }},
      {"a_queue_begins_anew_while_work_comes",
       {{"host", [](All& q) { q.a.begin_anew(); }}, a_appends_fast, worker},
       [](All& q) { q.a.check_all_done(); }},
      {"replays_are_counted",
       {{"launcher",
         [](All& q) {
           const auto replay = q.a.count_one();
           q.b.append_ticket(q.a);
           q.a.help_at(q.b, q.b.tail());
           q.a.wait(replay, q.beds[0]);
           q.a.stop_counting();
         }},
        worker},
       [](All& q) {
         q.a.check_over(1);
         q.b.check_over(1);
         q.a.check_retired();
       },
       [](All& q) { q.a.begin_counting(); }},
      {"a_queue_waits_for_a_replay",
       {{"launcher",
         [](All& q) {
           const auto replay = q.a.count_one();
           q.b.append_ticket(q.a);
           q.a.help_at(q.b, q.b.tail());
           q.c.append_wait(q.a, replay);
         }},
        {"host", [](All& q) { q.a.wait(1, q.beds[0]); }},
        worker},
       [](All& q) {
         q.b.check_over(1);
         q.c.check_over(1);
         q.a.check_done(1);
       },
       [](All& q) { q.a.begin_counting(); }},
  };
}

}  // namespace model
