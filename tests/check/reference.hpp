// What the checker must find, by the definition: moments, edges between them, and their transitive closure. No clocks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <weir/check.hpp>
#include <weir/recording.hpp>

namespace check_test {

/// A set of numbers.
class Bits {
 public:
  bool has(std::size_t n) const { return n / 64 < words_.size() && (words_[n / 64] >> n % 64 & 1) != 0; }
  void add(std::size_t n) {
    if (n / 64 >= words_.size()) words_.resize(n / 64 + 1);
    words_[n / 64] |= std::uint64_t{1} << n % 64;
  }
  void add(const Bits& more) {
    if (words_.size() < more.words_.size()) words_.resize(more.words_.size());
    for (std::size_t w = 0; w < more.words_.size(); ++w) words_[w] |= more.words_[w];
  }
  void remove(const Bits& some) {
    for (std::size_t w = 0; w < words_.size() && w < some.words_.size(); ++w) words_[w] &= ~some.words_[w];
  }
  Bits with(const Bits& other) const {
    Bits made;
    for (std::size_t w = 0; w < words_.size() && w < other.words_.size(); ++w) {
      made.words_.push_back(words_[w] & other.words_[w]);
    }
    return made;
  }
  bool any() const {
    for (const std::uint64_t word : words_) {
      if (word != 0) return true;
    }
    return false;
  }
  std::size_t end() const { return words_.size() * 64; }

 private:
  std::vector<std::uint64_t> words_;
};

/// Grows by commands, in the order of the calls. May be copied, to try what a command would do.
class Reference {
 public:
  explicit Reference(const weir::Recording& recording, weir::HostOrder order = weir::HostOrder::declared);

  void call(std::size_t place);
  /// As `expect.races` of the cases.
  nlohmann::json races() const;
  /// Whether the last command raced with anything.
  bool last_raced() const { return raced_; }
  std::set<std::string> redundant() const { return redundant_; }
  std::set<std::string> empty() const { return empty_; }

 private:
  using Moment = std::uint32_t;
  using Moments = std::vector<Moment>;
  static constexpr Moment nowhere = 0xffffffff;

  struct Node {
    weir::recorded::Op op;
    std::string path;
    std::uint32_t target;
    bool enabled = true;
    std::vector<weir::recorded::Use> uses;
    std::vector<std::uint32_t> after;       ///< of its list
    std::vector<std::vector<Node>> bodies;  ///< of a conditional node, or the nodes of a child
    bool child = false;
  };
  static constexpr std::size_t no_number = static_cast<std::size_t>(-1);
  struct Use {
    std::size_t command;
    std::string node;
    std::uint32_t buffer;
    weir::recorded::Access access;
    Bits bytes;
    Moment begin;
    Moment end;  ///< nowhere: not yet
    bool kept = false;
    std::vector<std::pair<const void*, std::size_t>> bodies;  ///< of conditional nodes
    std::size_t launch = no_number;
  };
  struct Event {
    Moments record;  ///< empty: never
    std::uint32_t capture = 0;
    std::vector<std::uint32_t> frontier;
  };
  struct Stream {
    Moment last = nowhere;
    std::vector<Moment> all;
    std::uint32_t capture = 0;
    std::vector<std::uint32_t> frontier;
  };
  struct Memory {
    Moments alloc;
    std::size_t alloc_command = 0;
    bool freed = false;
    std::size_t free_command = 0;
    std::set<std::uint32_t> given;
    Moments launches;
    std::uint32_t home = weir::recorded::none;
  };
  struct Graph {
    std::shared_ptr<std::vector<Node>> nodes;
    Moment end = nowhere;
    std::map<std::tuple<std::string, std::string, std::uint32_t>, Bits> raced;  ///< by two nodes and their buffer
    bool launched = false;
  };

  Moment moment(const Moments& after);
  bool before(Moment a, Moment b) const { return a != nowhere && b != nowhere && (a == b || before_[b].has(a)); }
  Moment run(std::size_t place, std::uint32_t stream, bool own_only = false);
  void use(Use use);
  void add(const Use& second, std::size_t first, const std::string& node, std::uint32_t buffer, const char* kind,
           const Bits& bytes);
  void free(std::size_t place, std::uint32_t buffer, Moment end, const std::string& node);
  void learn(Moment moment) { host(thread_) = this->moment({host(thread_), moment}); }
  Moment& host(std::uint32_t thread);
  Bits bytes(const weir::recorded::Use& use) const;
  std::vector<Node> nodes(std::span<const weir::recorded::Node> list, const std::string& path);
  std::vector<Node> copied(const std::vector<Node>& list, const std::string& path) const;
  void run_nodes(std::size_t place, const std::vector<Node>& list, Moment begin, Moments& ends,
                 std::vector<std::pair<const void*, std::size_t>> bodies, Graph& graph, std::vector<Use>& uses,
                 std::vector<std::pair<std::uint32_t, Moment>>& records);
  void launch(std::size_t place, std::uint32_t stream, std::uint32_t name);
  void hint(std::size_t place, std::uint32_t stream, const Moments& awaited, Moment without);

  const weir::Recording* recording_;
  weir::HostOrder order_;
  std::vector<Bits> before_;
  std::map<std::uint32_t, Moment> hosts_;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  std::vector<Memory> memory_;
  std::map<std::uint32_t, Graph> graphs_;
  std::map<std::uint32_t, std::vector<Node>> captures_;
  std::map<std::uint32_t, Moments> gives_;
  std::map<std::uint32_t, Use> scopes_;
  std::vector<Use> uses_;
  std::set<std::size_t> using_moments_;
  std::uint32_t thread_ = 0;
  bool raced_ = false;
  struct Partner {
    std::size_t first;
    std::string node;
    std::set<std::string> kinds;
    Bits bytes;
  };
  struct Race {
    std::size_t second;
    std::string node;
    std::uint32_t buffer;
    std::vector<Partner> partners;
  };
  std::vector<Race> races_;
  std::set<std::string> redundant_;
  std::set<std::string> empty_;
};

}  // namespace check_test
