// One collective among processes, from the call to its end.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/collectives/communicator_state.hpp"
#include "core/ranks/pieces.hpp"
#include "core/ranks/plan.hpp"
#include "ranks/link.hpp"
#include "recycled.hpp"

namespace weir::detail {

class RankEngine;

/// When a stream came to its part; parts of one unit share it.
struct RankArrival {
  std::atomic<std::int64_t> nanoseconds{0};  ///< on the steady clock; 0: not yet
  std::shared_ptr<const Error> failure;      ///< what the stream had failed by; written before
};

/// This rank's part of a collective whose other ranks are other processes.
class RankedCall final : public LocalCall, public Recycled<RankedCall> {
 public:
  RankedCall(std::shared_ptr<CommunicatorState> communicator, std::uint64_t number, int rank,
             std::shared_ptr<RankArrival> arrival, std::shared_ptr<RankEngine> engine);
  void arrived(CollectivePart& part, std::shared_ptr<const Error> failure) noexcept override;
  void help() noexcept override;
  void look_again() noexcept override;
  const RankLaunch* launch() const noexcept override { return way == Way::launched ? &launch_ : nullptr; }
  /// The memory that messages may be in outlives its arrays, from here on until let_memory_go().
  void keep_memory() noexcept;
  void let_memory_go() noexcept;
  /// Something may write to it for ever.
  void lose_memory() noexcept;

  const std::shared_ptr<RankArrival> arrival;
  /// How its data goes to the other ranks; set before it is submitted.
  enum class Way : std::uint8_t {
    host,     ///< from memory that the host reaches, or a mover's
    cut,      ///< in pieces, by `room` unless the host reaches the arrays
    direct,   ///< from the device's memory
    launched  ///< by a kernel in the stream itself
  };
  Way way = Way::host;
  /// `history`: of all calls before it. Kernels of ranks that called something else before do not come to each other.
  void set_way(Way its_way, std::size_t lane, std::uint64_t history);
  /// As fingerprint_of() has it; from set_way() on.
  std::uint64_t fingerprint() const { return fingerprint_; }
  /// Whether it, or its kernel, may be at an end for who looks; of a launched one.
  bool was_told() const noexcept;
  std::shared_ptr<PieceRoom> room;
  // Of who looks for late ranks.
  std::int64_t asked_nanoseconds = 0;  ///< when the others were asked last
  int asked = 0;
  std::uint64_t earlier = 0;  ///< the call before it of which they were asked last
  std::int64_t reported_nanoseconds = 0;

 private:
  ~RankedCall() override { let_memory_go(); }

  const std::shared_ptr<RankEngine> engine_;
  Storage* kept_[2] = {nullptr, nullptr};
  std::size_t lane_ = 0;
  std::uint64_t fingerprint_ = 0;
  RankMove kernel_;
  RankLaunch launch_{};
};

/// How far it is. Thread rule: whoever has the link's lock.
class RankOperation : public Recycled<RankOperation> {
 public:
  struct Ends {
    RankLink& link;
    const std::vector<int>& members;  ///< the job's ranks, by the communicator's
    int rank;                         ///< this one
    std::uint32_t tag;
    bool compare;
    RankMover* mover;  ///< null: all by messages
  };
  enum class Outcome : std::uint8_t { waits, done, different, lost, not_moved };
  static constexpr std::size_t most_with_head = 2048;  ///< bytes of a message

  RankOperation(CallReference call, std::size_t lane);
  RankedCall& call() const { return static_cast<RankedCall&>(*call_); }
  const RankArrival& arrival() const { return *call().arrival; }
  std::size_t lane() const { return lane_; }
  bool started() const { return started_; }
  /// It cannot go on: somebody was told.
  bool noted() const { return noted_; }
  void set_noted() { noted_ = true; }
  using Scratch = std::array<RankScratch, piece_tracks>;
  void start(const Ends& ends, Scratch& scratch);
  /// With memory of its own, beside those before it in its lane.
  void start_beside(const Ends& ends);
  /// Whether it is one that may: short, by messages alone, of memory that the host reaches.
  bool may_be_beside(const Ends& ends) const;
  /// Whether what comes next in its lane may begin: the messages of both have one order then, on all ranks.
  bool has_sent_for_all() const;
  /// Whether none of the two writes what the other has.
  bool is_apart_from(const RankOperation& other) const;
  /// What it was started with is as new; or lost.
  void give_scratch_back();
  void lose_scratch();
  /// `moved`: something has happened.
  Outcome step(const Ends& ends, bool& moved);
  /// What came instead of what was due; `read`: its head could be.
  struct Met {
    bool read = false;
    std::uint64_t fingerprint = 0;
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;
    std::uint64_t due = 0;
  };
  /// Which rank it was.
  int culprit() const { return culprit_; }
  const Met& met() const { return met_; }
  /// Bytes that are about to move, for who decides how long to look.
  std::size_t bytes_moving() const;
  /// Why it was `not_moved`.
  const std::string& why() const { return why_; }
  /// Gives up what is under way. False: not all of it, ask again.
  bool cancel(const Ends& ends);
  /// What cannot be given up may go on for ever: its memory is lost, and that of its arrays.
  void abandon();

 private:
  struct Head {
    std::uint64_t fingerprint;
    std::uint64_t number;
    std::uint64_t bytes;
  };
  /// One message: its head, with the bytes of a short one; and those of a longer one.
  struct Leg {
    RankMessage message;
    Transfer first;
    Transfer rest;
    enum class Stage : std::uint8_t { first, rest, over } stage = Stage::first;
    std::unique_ptr<std::byte[]> room;
  };
  static bool is_long(const RankMessage& message) { return message.bytes > most_with_head; }

  /// A plan and how far it is; with calls that are cut, each does every other piece. Stays where it is: the link has addresses of its legs.
  struct Track {
    RankPlan plan;
    std::size_t phase = 0;
    bool moving = false;  ///< the phase's messages are over, and its move is under way
    std::vector<Leg> legs;
    std::size_t piece = 0;
    std::uint32_t tag = 0;
    RankScratch* scratch = nullptr;
    bool begun = false;
  };

  /// What there is of a call that is not launched.
  struct Messages {
    Scratch* scratch = nullptr;
    std::array<Track, piece_tracks> tracks;
    std::optional<Pieces> pieces;
    bool moves = false;  ///< a mover does it
  };
  std::span<Track> tracks() const { return messages_ ? std::span<Track>(messages_->tracks) : std::span<Track>(); }

  /// Messages may be in the device's memory: what begins and ends them runs where that is current.
  template <class F>
  void where_memory_is(F&& f);
  void plan_whole(const Ends& ends);
  void begin_piece(Track& track, const Ends& ends);
  void begin_phase(Track& track, const Ends& ends);
  void begin(Leg& leg, const Track& track, const Ends& ends);
  /// Copies by the call's transport.
  void copy(std::span<const RankCopy> copies, std::shared_ptr<RankMove> copied);
  Outcome look_at_kernel(bool& moved);
  Outcome step_all(const Ends& ends, bool& moved);
  Outcome step(Track& track, const Ends& ends, bool& moved);
  /// Of a phase whose messages are over.
  Outcome end_phase(Track& track);
  Outcome step(Leg& leg, const Track& track, const Ends& ends);
  bool take_head(Leg& leg, const Track& track, const Ends& ends);
  static Outcome look(Transfer& transfer, RankLink& link);

  CallReference call_;
  const std::size_t lane_;
  const std::uint64_t number_;
  const std::uint64_t fingerprint_;
  bool started_ = false;
  bool noted_ = false;
  std::unique_ptr<Scratch> own_scratch_;  ///< which messages may be in
  std::unique_ptr<Messages> messages_;
  std::string why_;
  int culprit_ = -1;
  Met met_;
};

}  // namespace weir::detail
