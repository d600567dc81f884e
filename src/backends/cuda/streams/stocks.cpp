// Filling stocks, and taking from them.
#include "backends/cuda/streams/stocks.hpp"

#include <memory>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/room.hpp"
#include "backends/cuda/streams/threads.hpp"

namespace weir::cuda {

namespace {
constexpr const char* starting = "weir: starting a device";
/// The last quarter of a stock is for the time when a thread waits for room, and the driver makes nothing (R214): that thread may be the
/// one who has taken the others, faster than they were made again.
constexpr std::size_t share_of_last = 4;
}  // namespace

cudaError_t Stocks::make_event(bool timed, cudaEvent_t& event) const {
  const DeviceScope scope(device_.index());
  return cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming);
}

cudaError_t Stocks::make_stream(bool blocking, int priority, cudaStream_t& stream) const {
  const DeviceScope scope(device_.index());
  return cudaStreamCreateWithPriority(&stream, blocking ? cudaStreamDefault : cudaStreamNonBlocking, priority);
}

cudaError_t Stocks::make_flags() {
  const DeviceScope scope(device_.index());
  void* memory = nullptr;
  const cudaError_t answer = cudaHostAlloc(&memory, flags * sizeof(unsigned long long), cudaHostAllocPortable);
  if (answer != cudaSuccess) return answer;
  const detail::LockGuard guard(mutex_);
  flags_.reserve(flags_.size() + flags);
  for (std::size_t i = 0; i < flags; ++i) flags_.push_back(static_cast<unsigned long long*>(memory) + i);
  return cudaSuccess;
}

/// The driver's room for streams grows in steps, and each step waits for all running kernels. One step now, for 5 us a
/// stream, and the first thousand streams come without waiting (C10, R60).
cudaError_t Stocks::make_room_for_streams(std::vector<cudaStream_t>& kept) const {
  constexpr std::size_t room = 1024;
  const DeviceScope scope(device_.index());
  std::vector<cudaStream_t> made;
  made.reserve(room);
  cudaError_t answer = cudaSuccess;
  while (made.size() < room && answer == cudaSuccess) {
    cudaStream_t stream = nullptr;
    answer = make_stream(false, 0, stream);
    if (answer == cudaSuccess) made.push_back(stream);
  }
  for (cudaStream_t stream : made) {
    if (answer == cudaSuccess && kept.size() < streams) {
      kept.push_back(stream);
    } else {
      static_cast<void>(cudaStreamDestroy(stream));
    }
  }
  return answer;
}

bool Stocks::few_flags() {
  const detail::LockGuard guard(mutex_);
  return flags_.size() < flags / 2;
}

void Stocks::fill(SourceLocation where) {
  const auto checked = [&](cudaError_t answer) { check(answer, starting, device_.name(), where); };
  std::vector<cudaStream_t> room;
  {
    const detail::LockGuard guard(mutex_);
    room.swap(of_kind(false, 0).ready);  // of an attempt that failed further on
    of_kind(true, 0).ready.reserve(streams);
  }
  room.reserve(streams);
  const cudaError_t made = make_room_for_streams(room);
  {
    const detail::LockGuard guard(mutex_);
    of_kind(false, 0).ready.swap(room);
  }
  checked(made);
  while (refill_a_stream()) {
  }
  checked(refill_events(false));
  checked(refill_events(true));
  if (few_flags()) checked(make_flags());
}

Stocks::StreamsOfKind& Stocks::of_kind(bool blocking, int priority) {
  for (StreamsOfKind& one : streams_) {
    if (one.blocking == blocking && one.priority == priority) return one;
  }
  return streams_.emplace_back(StreamsOfKind{blocking, priority, {}});
}

void Stocks::refill_soon() noexcept {
  if (refilling_.exchange(true)) return;
  try {
    auto task = make_task([this] { refill(); });
    TaskThread::housekeeper().post(task);
  } catch (...) {
    refilling_.store(false);  // the next one who takes asks again
  }
}

void Stocks::refill() noexcept {
  refilling_.store(false);  // before it looks: who takes behind that asks again
  try {
    note(refill_events(false));
    note(refill_events(true));
    while (refill_a_stream()) {
    }
    if (few_flags()) note(make_flags());
  } catch (...) {
    // Without memory the stocks stay low, and who takes makes what is missing.
  }
}

cudaError_t Stocks::refill_events(bool timed) {
  for (;;) {
    {
      const detail::LockGuard guard(mutex_);
      if (events_[timed ? 1 : 0].size() >= depth_of_events(timed)) return cudaSuccess;
    }
    cudaEvent_t event = nullptr;
    const cudaError_t answer = make_event(timed, event);
    if (answer != cudaSuccess) return answer;
    give_event(event, timed);
  }
}

/// False when all stocks are full, or the driver makes no more.
bool Stocks::refill_a_stream() {
  bool blocking = false;
  int priority = 0;
  bool any = false;
  {
    const detail::LockGuard guard(mutex_);
    for (const StreamsOfKind& one : streams_) {
      if (any || one.ready.size() >= one.depth()) continue;
      any = true;
      blocking = one.blocking;
      priority = one.priority;
    }
  }
  if (!any) return false;
  cudaStream_t stream = nullptr;
  const cudaError_t answer = make_stream(blocking, priority, stream);
  note(answer);
  if (answer != cudaSuccess) return false;
  give_stream(stream, blocking, priority);
  return true;
}

/// One more, by who takes one of the last.
void Stocks::leave_event(bool timed) noexcept {
  cudaEvent_t event = nullptr;
  const cudaError_t answer = make_event(timed, event);
  note(answer);
  if (answer == cudaSuccess) give_event(event, timed);
}

cudaEvent_t Stocks::take_event(bool timed, SourceLocation where) {
  cudaEvent_t event = nullptr;
  bool low = false;
  bool last = false;
  {
    const detail::LockGuard guard(mutex_);
    auto& ready = events_[timed ? 1 : 0];
    low = ready.size() <= depth_of_events(timed) / 2;
    last = ready.size() <= depth_of_events(timed) / share_of_last;
    if (!ready.empty()) {
      event = ready.front();
      ready.pop_front();
    }
  }
  if (low) refill_soon();
  if (last && event != nullptr && !RoomCall::others_wait()) leave_event(timed);
  if (event == nullptr) check(make_event(timed, event), "weir::Event", "event on " + device_.name(), where);
  return event;
}

void Stocks::give_event(cudaEvent_t event, bool timed) noexcept {
  try {
    const detail::LockGuard guard(mutex_);
    events_[timed ? 1 : 0].push_back(event);
  } catch (...) {
    // Without memory for the list it is not used again.
  }
}

void Stocks::leave_stream(bool blocking, int priority) noexcept {
  cudaStream_t stream = nullptr;
  const cudaError_t answer = make_stream(blocking, priority, stream);
  note(answer);
  if (answer == cudaSuccess) give_stream(stream, blocking, priority);
}

cudaStream_t Stocks::take_stream(bool blocking, int priority, const char* operation, const std::string& object,
                                 SourceLocation where) {
  cudaStream_t stream = nullptr;
  bool low = false;
  bool last = false;
  {
    const detail::LockGuard guard(mutex_);
    StreamsOfKind& kind = of_kind(blocking, priority);
    low = kind.ready.size() <= kind.depth() / 2;
    last = kind.ready.size() <= kind.depth() / share_of_last;
    if (!kind.ready.empty()) {
      stream = kind.ready.back();
      kind.ready.pop_back();
    }
  }
  if (low) refill_soon();
  if (last && stream != nullptr && !RoomCall::others_wait()) leave_stream(blocking, priority);
  if (stream == nullptr) check(make_stream(blocking, priority, stream), operation, object, where);
  return stream;
}

void Stocks::give_stream(cudaStream_t stream, bool blocking, int priority) noexcept {
  try {
    const detail::LockGuard guard(mutex_);
    of_kind(blocking, priority).ready.push_back(stream);
  } catch (...) {
    // Without memory for the list it is not used again.
  }
}

volatile unsigned long long* Stocks::take_flag(SourceLocation where) {
  for (;;) {
    volatile unsigned long long* flag = nullptr;
    bool low = false;
    {
      const detail::LockGuard guard(mutex_);
      low = flags_.size() <= flags / 2;
      if (!flags_.empty()) {
        flag = flags_.back();
        flags_.pop_back();
      }
    }
    if (low) refill_soon();
    if (flag != nullptr) return flag;
    check(make_flags(), "weir::host_call", device_.name(), where);
  }
}

void Stocks::give_flag(volatile unsigned long long* flag) noexcept {
  try {
    const detail::LockGuard guard(mutex_);
    flags_.push_back(flag);
  } catch (...) {
    // Without memory for the list it is not used again.
  }
}

StockEvent::StockEvent(CudaDevice& device, bool timed, SourceLocation where)
    : device_(&device), event_(device.stocks().take_event(timed, where)), timed_(timed) {}

StockEvent::~StockEvent() {
  if (event_ != nullptr) device_->stocks().give_event(event_, timed_);
}

namespace {
/// The streams of one priority share hardware queues, where a held one may hold up others (R182): those that wait are held a
/// lot, and few streams have the greatest priority.
constexpr int greatest_priority = -5;
}  // namespace

cudaStream_t CudaDevice::take_waiting_stream(SourceLocation where) {
  return stocks_.take_stream(false, greatest_priority, "weir::Stream::wait", name_, where);
}

void CudaDevice::give_waiting_stream(cudaStream_t stream) noexcept {
  stocks_.give_stream(stream, false, greatest_priority);
}

}  // namespace weir::cuda
