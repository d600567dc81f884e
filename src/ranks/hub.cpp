// Rank 0's side of the control: gathers what ranks say, and decides what becomes of communicators.
#include "ranks/hub.hpp"

#include <algorithm>
#include <numeric>

namespace weir::detail {

namespace {

constexpr std::chrono::milliseconds patience_with_answers{400};
constexpr std::size_t most_open_splits = 1024;

bool is_pair(std::uint64_t call) { return call == 0; }

}  // namespace

Hub::Hub(std::vector<std::string> hosts, Send send) : send_(std::move(send)) {
  for (std::string& host : hosts) ranks_.push_back({.host = std::move(host)});
  Members all(ranks_.size());
  std::iota(all.begin(), all.end(), 0);
  members_.emplace(0, std::move(all));
}

void Hub::tell(const Members& members, const ControlMessage& message) {
  for (const int rank : members) {
    if (!gone(rank)) send_(rank, message);
  }
}

bool Hub::take(int rank, const ControlMessage& message) {
  switch (message.type) {
    case Type::alive:
      for (std::size_t i = 0; i < std::min(message.numbers.size(), message.texts.size()); ++i) {
        if (members_.contains(message.numbers[i])) {
          ranks_[static_cast<std::size_t>(rank)].last[message.numbers[i]] = message.texts[i];
        }
      }
      return true;
    case Type::report: return take_report(message);
    case Type::answer: return take_answer(rank, message);
    case Type::split: return take_split(rank, message);
    case Type::left: {
      if (!message.has(3, 0)) return false;
      const auto found = members_.find(message.numbers[0]);
      if (found == members_.end()) return false;
      ranks_[static_cast<std::size_t>(rank)].left[message.numbers[0]] =
          message.texts.empty() ? std::string() : message.texts[0];
      // Who leaves while it is asked why the communicator fails is not why.
      if (!fails(message.numbers[0])) {
        ControlMessage told{Type::left, message.numbers};
        told.numbers[1] = static_cast<std::uint64_t>(rank);
        tell(found->second, told);
      }
      look_for_splits_without(message.numbers[0], rank);
      close_answered();
      look_for_all_survivors();
      return true;
    }
    case Type::bye:
      ranks_[static_cast<std::size_t>(rank)].gone = true;
      close_answered();
      look_for_all_survivors();
      return true;
    default: return false;
  }
}

bool Hub::take_report(const ControlMessage& message) {
  if (!message.has(4, 1) || message.numbers[1] > static_cast<std::uint64_t>(Inquiry::last)) return false;
  if (!members_.contains(message.numbers[0])) return false;
  const std::uint64_t blamed = message.numbers[3];
  open(message.numbers[0], static_cast<Inquiry>(message.numbers[1]), message.numbers[2],
       blamed < ranks_.size() ? static_cast<int>(blamed) : -1, message.texts[0],
       message.numbers.size() > 4 ? message.numbers[4] : 0);
  close_answered();  // all may have left
  return true;
}

bool Hub::take_answer(int rank, const ControlMessage& message) {
  if (!message.has(4, 2)) return false;
  if (message.numbers[2] > static_cast<std::uint64_t>(RankListener::CallState::last)) return false;
  const auto found = inquests_.find(message.numbers[0]);
  if (found == inquests_.end()) return true;  // it was too late
  found->second.answers[rank] = {.calls = message.numbers[1],
                                 .state = static_cast<RankListener::CallState>(message.numbers[2]),
                                 .fingerprint = message.numbers[3],
                                 .call = message.texts[0],
                                 .last = message.texts[1]};
  close_answered();
  return true;
}

bool Hub::take_split(int rank, const ControlMessage& message) {
  if (!message.has(4, 0)) return false;
  const auto members = members_.find(message.numbers[0]);
  if (members == members_.end() || splits_.size() >= most_open_splits) return false;
  if (message.numbers[1] == split_of_survivors) return take_survivor(rank, message.numbers[0]);
  if (std::find(members->second.begin(), members->second.end(), rank) == members->second.end()) return false;
  const auto key = std::pair(message.numbers[0], message.numbers[1]);
  auto& choices = splits_[key];
  choices[rank] = {.color = static_cast<int>(static_cast<std::int64_t>(message.numbers[2])),
                   .key = static_cast<int>(static_cast<std::int64_t>(message.numbers[3]))};
  if (choices.size() < members->second.size()) {
    for (const int one : Members(members->second)) {
      if (ranks_[static_cast<std::size_t>(one)].left.contains(key.first)) look_for_splits_without(key.first, one);
    }
    close_answered();
    return true;
  }
  std::map<int, std::uint64_t> contexts;
  const Members all = members->second;
  for (const int one : all) {
    if (!contexts.contains(choices[one].color)) contexts[choices[one].color] = next_context_++;
  }
  ControlMessage told{Type::splits, {key.first, key.second}};
  for (const int one : all) {
    RankListener::Choice& choice = choices[one];
    choice.context = contexts[choice.color];
    members_[choice.context].push_back(one);
    told.numbers.push_back(static_cast<std::uint64_t>(static_cast<std::int64_t>(choice.color)));
    told.numbers.push_back(static_cast<std::uint64_t>(static_cast<std::int64_t>(choice.key)));
    told.numbers.push_back(choice.context);
  }
  for (const auto& [color, context] : contexts) {
    Members& theirs = members_[context];
    std::stable_sort(theirs.begin(), theirs.end(), [&](int a, int b) { return choices[a].key < choices[b].key; });
  }
  splits_.erase(key);
  tell(all, told);
  return true;
}

void Hub::look_for_splits_without(std::uint64_t communicator, int rank) {
  const Members& members = members_.at(communicator);
  const auto at = std::find(members.begin(), members.end(), rank);
  const bool waits = std::any_of(splits_.begin(), splits_.end(), [&](const auto& split) {
    return split.first.first == communicator && !split.second.contains(rank);
  });
  if (!waits || at == members.end()) return;
  open(communicator, Inquiry::left, 0, rank,
       "the communicator of rank " + std::to_string(at - members.begin()) + " was destroyed before it called split()");
}

void Hub::died(int rank, const std::string& why) {
  Rank& one = ranks_[static_cast<std::size_t>(rank)];
  if (one.gone) return;
  one.gone = true;
  one.why = why;
  for (const auto& [communicator, members] : members_) {
    const auto at = std::find(members.begin(), members.end(), rank);
    if (at == members.end() || one.left.contains(communicator)) continue;
    open(communicator, Inquiry::died, 0, rank,
         "rank " + std::to_string(at - members.begin()) + " (" + one.host + ") is gone: " + why);
  }
  close_answered();
  look_for_all_survivors();
}

void Hub::open(std::uint64_t communicator, Inquiry reason, std::uint64_t call, int blamed, std::string what,
               std::uint64_t fingerprint) {
  if (failed_.contains(communicator)) return;
  for (const auto& [id, before] : inquests_) {
    if (before.communicator != communicator) continue;
    if (before.reason == Inquiry::stuck) {
      // Ranks that wait for each other in different calls ask at the same time: the answers about one do not tell of the other.
      if (reason == Inquiry::stuck && before.call == call && before.fingerprint == fingerprint) return;
      continue;
    }
    // What a rank says of itself counts for more than that it ended then.
    const bool says_why =
        before.reason == Inquiry::died && (reason == Inquiry::aborted || reason == Inquiry::stream_failed);
    if (!says_why) return;
  }
  if (reason != Inquiry::stuck) {  // what was answered may be of a call before this one
    std::erase_if(inquests_, [&](const auto& one) { return one.second.communicator == communicator; });
  }
  const std::uint64_t id = next_inquest_++;
  inquests_.emplace(id, Inquest{communicator, reason, call, blamed, std::move(what), fingerprint,
                                RankClock::now() + patience_with_answers});
  tell(members_[communicator], {Type::question, {id, communicator, call, fingerprint}});
}

bool Hub::fails(std::uint64_t communicator) const {
  return failed_.contains(communicator) || std::any_of(inquests_.begin(), inquests_.end(), [&](const auto& one) {
           return one.second.communicator == communicator && one.second.reason != Inquiry::stuck;
         });
}

bool Hub::all_answered(const Inquest& inquest) const {
  const Members& members = members_.at(inquest.communicator);
  return std::all_of(members.begin(), members.end(), [&](int rank) {
    return gone(rank) || ranks_[static_cast<std::size_t>(rank)].left.contains(inquest.communicator) ||
           inquest.answers.contains(rank);
  });
}

void Hub::close_answered() {
  for (auto at = inquests_.begin(); at != inquests_.end();) {
    if (!all_answered(at->second)) {
      ++at;
      continue;
    }
    const Inquest inquest = std::move(at->second);
    at = inquests_.erase(at);
    decide(inquest);
  }
}

void Hub::look(RankClock::time_point now) {
  for (auto at = inquests_.begin(); at != inquests_.end();) {
    if (at->second.until > now) {
      ++at;
      continue;
    }
    const Inquest inquest = std::move(at->second);
    at = inquests_.erase(at);
    decide(inquest);
  }
}

std::string Hub::difference(const Inquest& inquest) const {
  if (is_pair(inquest.call)) return {};
  const Members& members = members_.at(inquest.communicator);
  int first = -1;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto answer = inquest.answers.find(members[i]);
    if (answer == inquest.answers.end() || answer->second.fingerprint == 0) continue;
    if (first < 0) first = static_cast<int>(i);
    const RankListener::Answer& one = inquest.answers.at(members[static_cast<std::size_t>(first)]);
    if (one.fingerprint == answer->second.fingerprint) continue;
    return "rank " + std::to_string(first) + " calls " + one.call + ", rank " + std::to_string(i) + " " +
           answer->second.call;
  }
  return {};
}

std::string Hub::missing(const Inquest& inquest, std::vector<std::uint64_t>& failed) const {
  const Members& members = members_.at(inquest.communicator);
  std::string text;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto answer = inquest.answers.find(members[i]);
    const char* why = nullptr;
    if (gone(members[i])) {
      why = "its process is gone";
    } else if (answer == inquest.answers.end()) {
      why = "its process does not answer";
    } else if (is_pair(inquest.call)) {
      continue;
    } else if (answer->second.state == RankListener::CallState::not_called) {
      why = "it did not call";
    } else if (answer->second.state == RankListener::CallState::not_ready) {
      why = "its stream did not come to it";
    } else {
      continue;
    }
    failed.push_back(static_cast<std::uint64_t>(members[i]));
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(i) + " (" + why + ")";
  }
  return text;
}

std::string Hub::table(const Inquest& inquest) const {
  const Members& members = members_.at(inquest.communicator);
  std::string text;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Rank& rank = ranks_[static_cast<std::size_t>(members[i])];
    const auto answer = inquest.answers.find(members[i]);
    text += "\n  rank " + std::to_string(i) + " (" + rank.host;
    if (answer != inquest.answers.end()) {
      text += ", " + answer->second.last;
    } else {
      const auto left = rank.left.find(inquest.communicator);
      if (left != rank.left.end() && !left->second.empty()) {
        text += ", " + left->second;
      } else {
        const auto heard = rank.last.find(inquest.communicator);
        text += heard != rank.last.end() ? ", " + heard->second + ", when it was last heard of; it " : "): ";
        text += !rank.why.empty() ? "is gone" : rank.gone ? "has ended" : "does not answer";
      }
    }
    if (rank.left.contains(inquest.communicator)) text += "; its communicator is gone";
    // The call that did not fit may be an earlier one.
    const bool may_be_earlier = inquest.reason == Inquiry::mismatch || inquest.reason == Inquiry::stuck;
    if (may_be_earlier && answer != inquest.answers.end() && !answer->second.call.empty() &&
        !answer->second.last.ends_with("): " + answer->second.call)) {
      text += "; before that, " + answer->second.call;
    }
  }
  return text;
}

void Hub::decide(const Inquest& inquest) {
  if (failed_.contains(inquest.communicator)) return;
  std::vector<std::uint64_t> failed;
  if (inquest.blamed >= 0) failed.push_back(static_cast<std::uint64_t>(inquest.blamed));
  std::string what = inquest.what;
  Errc code = Errc::rank_failed;
  const bool may_differ =
      inquest.reason == Inquiry::stuck || inquest.reason == Inquiry::late || inquest.reason == Inquiry::mismatch;
  const std::string different = may_differ ? difference(inquest) : std::string();
  if (!different.empty() || inquest.reason == Inquiry::mismatch) {
    code = Errc::collective_mismatch;
    failed.clear();  // nobody is to blame
    if (!different.empty()) what = different;
    // Calls that are alike, or half of a pair: what the other rank sent tells of its call.
    const auto other = inquest.answers.find(inquest.blamed);
    if (different.empty() && other != inquest.answers.end() && !other->second.call.empty()) {
      what += "; that call is " + other->second.call;
    }
  } else if (inquest.reason == Inquiry::stuck) {
    return;
  } else if (inquest.reason == Inquiry::died && inquest.blamed >= 0 &&
             ranks_[static_cast<std::size_t>(inquest.blamed)].left.contains(inquest.communicator)) {
    const Members& members = members_.at(inquest.communicator);
    const auto at = std::find(members.begin(), members.end(), inquest.blamed) - members.begin();
    what = "the communicator of rank " + std::to_string(at) + " was destroyed before it called this";
  } else if (inquest.reason == Inquiry::late) {
    code = Errc::collective_timeout;
    std::string who = missing(inquest, failed);
    const Members& members = members_.at(inquest.communicator);
    const auto peer = std::find(members.begin(), members.end(), inquest.blamed);
    if (who.empty() && is_pair(inquest.call) && peer != members.end()) {
      who = "rank " + std::to_string(peer - members.begin()) + " (it did not come to its send or receive of this)";
    }
    what += who.empty() ? "the data of the others" : "those who are missing: " + who;
  }
  failed_.emplace(inquest.communicator, failed);
  ControlMessage told{Type::verdict, {inquest.communicator, static_cast<std::uint64_t>(code)}, {}};
  told.numbers.insert(told.numbers.end(), failed.begin(), failed.end());
  what += table(inquest);
  // In pieces: a text of a message is bounded, and a table of many ranks is long.
  for (std::size_t at = 0; at < what.size(); at += longest_text) told.texts.push_back(what.substr(at, longest_text));
  tell(members_.at(inquest.communicator), told);
  look_for_survivors(inquest.communicator);
}

bool Hub::take_survivor(int rank, std::uint64_t communicator) {
  const Members& members = members_.at(communicator);
  if (std::find(members.begin(), members.end(), rank) == members.end()) return false;
  if (is_out(communicator, rank)) {
    // The others may have gone on by now.
    ControlMessage told{Type::splits, {communicator, split_of_survivors}};
    for (std::size_t i = 0; i < members.size(); ++i) told.numbers.insert(told.numbers.end(), {1u, i, 0u});
    tell({rank}, told);
    return true;
  }
  survivors_[communicator].insert(rank);
  look_for_survivors(communicator);
  return true;
}

/// Of a communicator that failed: the rank does not go on.
bool Hub::is_out(std::uint64_t communicator, int rank) const {
  const auto failure = failed_.find(communicator);
  if (failure == failed_.end()) return false;
  const std::vector<std::uint64_t>& failed = failure->second;
  return gone(rank) || ranks_[static_cast<std::size_t>(rank)].left.contains(communicator) ||
         std::find(failed.begin(), failed.end(), static_cast<std::uint64_t>(rank)) != failed.end();
}

void Hub::look_for_survivors(std::uint64_t communicator) {
  const auto found = survivors_.find(communicator);
  if (found == survivors_.end() || !failed_.contains(communicator)) return;
  const std::set<int> asked = found->second;
  const Members members = members_.at(communicator);
  const auto is_out = [&](int rank) { return this->is_out(communicator, rank); };
  if (!std::all_of(members.begin(), members.end(), [&](int rank) { return is_out(rank) || asked.contains(rank); }))
    return;
  survivors_.erase(found);
  const std::uint64_t context = next_context_++;
  ControlMessage told{Type::splits, {communicator, split_of_survivors}};
  for (std::size_t i = 0; i < members.size(); ++i) {
    const bool out = is_out(members[i]);
    if (!out) members_[context].push_back(members[i]);
    told.numbers.insert(told.numbers.end(), {out ? 1u : 0u, i, context});
  }
  tell({asked.begin(), asked.end()}, told);
}

void Hub::look_for_all_survivors() {
  std::vector<std::uint64_t> communicators;
  for (const auto& [communicator, asked] : survivors_) communicators.push_back(communicator);
  for (const std::uint64_t one : communicators) look_for_survivors(one);
}

}  // namespace weir::detail
