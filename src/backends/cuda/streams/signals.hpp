// Waits between a queue here and another backend, in both directions.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "backend.hpp"
#include "backends/cuda/streams/failures.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaQueue;
class CudaSignal;
struct CudaEvent;

/// A word in pinned memory on which streams wait. It counts up for ever, and a stream waits for a count or more: so the word
/// serves again as soon as it was written, whether or not the stream has looked.
struct alignas(64) SignalWord {
  std::uint32_t reached;  ///< what the device reads
  std::uint32_t awaited;
  SignalWord* next;  ///< in the list of free ones
};

/// Of all signals.
detail::Mutex& signals_lock();

/// The signals that streams here wait for. Those that nobody has given when the process ends are given then: what would
/// give them is dropped, and nothing shall wait for the streams for ever.
class Signals {
 public:
  static Signals& instance();

  /// A signal for the next command of a queue with these failures.
  std::unique_ptr<CudaSignal> make(FailureState& failures, SourceLocation where);
  /// So many words are ready, and made again before the last one is taken. While a thread waits for room none can be made (R214), and
  /// streams that are full hold a thousand (R3): a thread that found none then would wait for what only its own calls let go on.
  static constexpr std::size_t words = 4096;
  void fill(SourceLocation where);
  /// A word by itself, whose `awaited` is what is to be awaited.
  SignalWord& take_word(SourceLocation where);
  /// One that has reached it, and that nobody will write any more.
  void give_word(SignalWord& word) noexcept;

 private:
  friend class CudaSignal;
  Signals();
  void refill_soon() noexcept;
  /// False if it was given already.
  bool remove(CudaSignal& signal) noexcept WEIR_NEEDS(signals_lock());
  void end() noexcept;

  SignalWord* free_ WEIR_GUARDED_BY(signals_lock()) = nullptr;
  std::size_t free_count_ WEIR_GUARDED_BY(signals_lock()) = 0;
  std::atomic<bool> filling_{false};
  CudaSignal* pending_ WEIR_GUARDED_BY(signals_lock()) = nullptr;
  bool ended_ WEIR_GUARDED_BY(signals_lock()) = false;
};

/// Puts a wait into a stream, until the word has come to the count.
cudaError_t wait_for(const SignalWord& word, std::uint32_t count, cudaStream_t stream, int device);

class CudaSignal final : public detail::Signal {
 public:
  CudaSignal(FailureState& failures, SignalWord& word)
      : failures_(failures), word_(word), count_(word.awaited), place_(failures.open_place()) {}
  ~CudaSignal() override { give(nullptr, 0); }
  void give(std::shared_ptr<const Error> failure, StreamId from) noexcept override;
  /// Puts the wait into a stream.
  cudaError_t hold(cudaStream_t stream, int device) const { return wait_for(word_, count_, stream, device); }
  const SignalWord& word() const { return word_; }
  std::uint32_t count() const { return count_; }
  /// Of the failures, which it settles.
  std::uint64_t place() const { return place_; }

 private:
  friend class Signals;
  void let_go(std::shared_ptr<const Error> failure, StreamId from) noexcept WEIR_NEEDS(signals_lock());

  FailureState& failures_;
  SignalWord& word_;
  const std::uint32_t count_;
  const std::uint64_t place_;
  bool pending_ WEIR_GUARDED_BY(signals_lock()) = false;
  CudaSignal* previous_ WEIR_GUARDED_BY(signals_lock()) = nullptr;
  CudaSignal* next_ WEIR_GUARDED_BY(signals_lock()) = nullptr;
};

/// Gives the signal when the last record of the event is reached. Takes it unless it throws.
void signal_after(CudaEvent& event, std::unique_ptr<detail::Signal>& signal, SourceLocation where);

}  // namespace weir::cuda
