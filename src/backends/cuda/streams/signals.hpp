// Waits between a queue here and another backend, in both directions.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "backend.hpp"
#include "backends/cuda/streams/failures.hpp"

namespace weir::cuda {

class CudaSignal;
struct CudaEvent;

/// A word in pinned memory on which streams wait. It counts up for ever, and a stream waits for a count or more: so the word
/// serves again as soon as it was written, whether or not the stream has looked.
struct alignas(64) SignalWord {
  std::uint32_t reached;  ///< what the device reads
  std::uint32_t awaited;
  SignalWord* next;  ///< in the list of free ones
};

/// The signals that streams here wait for. Those that nobody has given when the process ends are given then: what would
/// give them is dropped, and nothing shall wait for the streams for ever.
class Signals {
 public:
  static Signals& instance();

  /// A signal for the next command of a queue with these failures.
  std::unique_ptr<CudaSignal> make(FailureState& failures, SourceLocation where);

 private:
  friend class CudaSignal;
  Signals();
  SignalWord& take_word(SourceLocation where);
  bool remove(CudaSignal& signal) noexcept;
  void end() noexcept;

  std::mutex mutex_;
  SignalWord* free_ = nullptr;  ///< guarded by mutex_, as the next
  CudaSignal* pending_ = nullptr;
  bool ended_ = false;
};

class CudaSignal final : public detail::Signal {
 public:
  CudaSignal(FailureState& failures, SignalWord& word)
      : failures_(failures), word_(word), count_(word.awaited), place_(failures.open_place()) {}
  ~CudaSignal() override { give(nullptr); }
  void give(std::shared_ptr<const Error> failure) noexcept override;
  /// Puts the wait into a stream.
  cudaError_t hold(cudaStream_t stream, int device) const;

 private:
  friend class Signals;
  void let_go(std::shared_ptr<const Error> failure) noexcept;

  FailureState& failures_;
  SignalWord& word_;
  const std::uint32_t count_;
  const std::uint64_t place_;
  bool pending_ = false;  ///< guarded by the lock of all signals, as the next
  CudaSignal* previous_ = nullptr;
  CudaSignal* next_ = nullptr;
};

/// Gives the signal when the last record of the event is reached. Takes it unless it throws.
void signal_after(CudaEvent& event, std::unique_ptr<detail::Signal>& signal, SourceLocation where);

}  // namespace weir::cuda
