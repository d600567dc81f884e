// The fake driver's things: commands, streams, events, memory, graphs. All of it lies under one lock, and hidden from
// ThreadSanitizer.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backends/fake_cuda/function.hpp"
#include "backends/fake_cuda/hidden.hpp"

namespace fake_cuda {

using Clock = std::chrono::steady_clock;

struct Op;
using OpRef = std::shared_ptr<Op>;
using StreamRef = std::shared_ptr<CUstream_st>;
struct Capture;

/// A command, or a part of one: done when what it depends on is done and it has run.
struct Op {
  enum class Kind : std::uint8_t { marker, work, host, callback, word };
  Kind kind = Kind::marker;
  bool done = false;
  bool deferred = false;  ///< somebody else finishes it after it has run
  bool pair = false;      ///< a host function right behind a wait (R213)
  unsigned room = 0;      ///< places in its stream's queue
  unsigned waiting = 1;
  int device = 0;
  StreamRef stream;
  std::function<void()> run;
  const std::uint32_t* word = nullptr;
  std::uint32_t at_least = 0;
  Clock::time_point finished;
  std::vector<OpRef> next;
  std::vector<OpRef> behind;    ///< for ThreadSanitizer: what it comes after
  std::shared_ptr<char> token;  ///< for ThreadSanitizer: of the call that made it
};

struct KernelCall {
  CUfunc_st* function;
  Dimensions dimensions;
  std::vector<std::shared_ptr<void>> values;
  void operator()() const;
};

struct Block {
  std::size_t bytes;
  cudaMemoryType type;
  int device;
  bool registered = false;
  CUmemPoolHandle_st* pool = nullptr;
  OpRef freed = nullptr;  ///< the free in stream order: done, or to come
  CUstream_st* freed_in = nullptr;
  bool told = false;  ///< somebody has synchronised the stream that freed it since
  /// Of memory that processes share.
  bool mapped = false;
  bool imported = false;
  std::size_t offset = 0;
  int file = -1;  ///< of its own
};

struct Device {
  StreamRef legacy;
  std::deque<OpRef> host_functions;
  std::condition_variable host_work;
  bool host_thread = false;
  bool started = false;
  unsigned flags = 0;
  std::size_t paused = 0;
  std::size_t reserved_elsewhere = 0;
  std::size_t used = 0;
  std::set<int> peers;
  std::set<int> out_of_reach;
};

/// A call on its way: the lock, and what it saw to be done.
struct Call {
  const char* name;
  std::unique_lock<std::mutex> lock;
  std::shared_ptr<char> token;
  std::vector<OpRef> seen;
};

struct World {
  std::mutex mutex;
  std::condition_variable done;
  std::condition_variable work;
  std::condition_variable words_changed;
  std::vector<std::unique_ptr<Device>> devices;
  std::unordered_map<CUstream_st*, StreamRef> streams;
  std::vector<StreamRef> ended;  ///< destroyed with work pending
  std::set<CUevent_st*> events;
  std::set<CUgraph_st*> graphs;
  std::set<CUgraphExec_st*> instances;
  std::set<CUmemPoolHandle_st*> pools;
  std::vector<std::shared_ptr<Capture>> captures;
  std::map<std::uintptr_t, Block> blocks;
  std::deque<OpRef> ready;
  std::vector<OpRef> words;
  std::vector<OpRef> parked;
  bool word_thread = false;
  std::size_t threads = 0;
  std::size_t idle = 0;
  std::size_t waiters = 0;
  std::size_t room_waiters = 0;
  std::size_t destroyers =
      0;  ///< threads that wait in the destruction of an instance: nobody submits anything meanwhile
  std::size_t pending = 0;
  unsigned long long next_id = 1;
  std::map<unsigned long long, std::thread::id> inside;  ///< graph objects, and who is inside of a call about them
  int failure = cudaSuccess;
  std::uint64_t distant_guards = 0;
  bool record_violations = false;
  std::vector<std::string> violations;
};
World& world();

// calls.cpp
class Site;
enum Rules : unsigned {
  plain = 0,
  anywhere = 1,       ///< also inside host functions (R88, R89)
  after_failure = 2,  ///< also after a sticky error, and in every context
  of_driver = 4,      ///< leaves the thread's last error alone, and makes no context current
  in_context = 8      ///< needs a current context
};
class Site {
 public:
  explicit Site(const char* name);
  const char* name() const { return name_; }
  /// Counts; the error that this call is to fail with.
  int enter();
  void leave() noexcept;

 private:
  const char* name_;
  struct Counter* counter_;
};
cudaError_t refuse_before(Site& site, unsigned rules);
cudaError_t set_last(cudaError_t error, unsigned rules);
void violate(Call& call, const std::string& rule, const std::string& what);
int& current_device();
bool& on_host_thread();
/// Whether this thread has a current context: nearly every call of the runtime makes the device's so.
bool& has_context();
/// A context of this thread that is no device's primary one, if it is current: what the fake has is in the others.
CUcontext& foreign_context();

template <class Body>
cudaError_t make_call(Site& site, unsigned rules, const Body& body) {
  std::shared_ptr<char> token;
  if constexpr (watched) {
    {
      const Hidden hidden;
      token = std::make_shared<char>();
    }
    release(token.get());
  }
  std::vector<OpRef> seen;
  cudaError_t answer;
  {
    const Hidden hidden;
    answer = refuse_before(site, rules);
    if (answer == cudaSuccess) {
      Call call{site.name(), std::unique_lock<std::mutex>(world().mutex), std::move(token), {}};
      if ((rules & in_context) != 0 && !has_context()) violate(call, "contexts", "by a thread that has none");
      answer = body(call);
      seen = std::move(call.seen);
    }
    site.leave();
  }
  for (const OpRef& op : seen) acquire(op.get());
  const Hidden hidden;
  seen.clear();
  token.reset();
  return set_last(answer, rules);
}
/// A graph with all that is inside of it, or an instance.
class GraphObject {
 public:
  GraphObject(cudaGraph_t graph) : graph_(graph) {}
  GraphObject(cudaGraphNode_t node) : node_(node) {}
  GraphObject(cudaGraphExec_t instance) : instance_(instance) {}
  /// Stays what it is when the object is gone; 0: there is none.
  unsigned long long number() const;

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphNode_t node_ = nullptr;
  cudaGraphExec_t instance_ = nullptr;
};

/// The driver knows no locks for them: two threads inside of calls about one is a violation.
class InsideGraphs {
 public:
  InsideGraphs(const Site& site, std::initializer_list<GraphObject> objects);
  ~InsideGraphs();
  InsideGraphs(const InsideGraphs&) = delete;
  InsideGraphs& operator=(const InsideGraphs&) = delete;

 private:
  std::vector<unsigned long long> numbers_;
};
#define FAKE_GRAPH_CALL(name, rules, objects, ...)                 \
  static ::fake_cuda::Site site(#name);                            \
  const ::fake_cuda::InsideGraphs inside(site, FAKE_LIST objects); \
  return ::fake_cuda::make_call(site, rules, [&]([[maybe_unused]] ::fake_cuda::Call & call) -> cudaError_t __VA_ARGS__)
#define FAKE_LIST(...) \
  { __VA_ARGS__ }
#define FAKE_CALL(name, rules, ...)     \
  static ::fake_cuda::Site site(#name); \
  return ::fake_cuda::make_call(site, rules, [&]([[maybe_unused]] ::fake_cuda::Call & call) -> cudaError_t __VA_ARGS__)

// sharing.cpp
bool open_shared_file(CUmemPoolHandle_st& pool);
/// Fresh memory in the pool's file; null if there is none.
void* take_shared(CUmemPoolHandle_st& pool, std::size_t bytes, std::size_t& offset);
void give_shared(std::uintptr_t address, const Block& block);
/// Fresh memory in a file of its own.
void* take_shareable(std::size_t bytes, int& file);

// scheduler.cpp
void depend(const OpRef& op, const OpRef& on);
void submit(const OpRef& op);
void finish(const OpRef& op);
void wait_for(Call& call, const OpRef& op);
void wait_while(Call& call, const std::function<bool()>& condition);
/// True if the op is null or done; the caller is then behind it.
bool is_done(Call& call, const OpRef& op);
OpRef new_op(Call& call, Op::Kind kind, int device, std::function<void()> run = {});
void unpark();
/// Of every stream of a device, destroyed ones too; of all devices where it is negative.
std::vector<OpRef> last_ops(int device);
void break_world(int error);

// streams.cpp
/// The stream of a handle; null: the call ends with cudaErrorInvalidResourceHandle.
StreamRef find(Call& call, cudaStream_t handle);
/// Puts a command behind what is in the stream, and behind what the legacy stream's rules put before it.
void enqueue(Call& call, const StreamRef& stream, const OpRef& op);
/// Waits until the stream has room for one more (R3, R213).
void wait_for_room(Call& call, const StreamRef& stream, bool host_function);
/// While a thread waits for room in a stream, calls that create things wait as well (R214), and host functions, and who
/// destroys events.
void wait_for_others_room(Call& call);
cudaError_t event_record(Call& call, cudaEvent_t event, cudaStream_t stream, unsigned flags);
cudaError_t event_wait(Call& call, cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t stream_synchronize(Call& call, cudaStream_t stream);
cudaError_t host_function(Call& call, cudaStream_t stream, cudaHostFn_t function, void* data);
cudaError_t synchronize_with(Call& call, const StreamRef& stream);

// capture.cpp
/// What the rules of captures say to a call for a stream that puts work into it. `captured` is told whether it becomes a node.
cudaError_t enter_stream(Call& call, const StreamRef& stream, bool& captured);
/// To a call that waits for a stream, or asks it.
cudaError_t ask_stream(Call& call, const StreamRef& stream);
/// To a call that is potentially unsafe (R120 to R122).
cudaError_t unsafe(Call& call);
cudaError_t invalidate(Capture& capture, cudaError_t answer);
void leave_capture(const StreamRef& stream);

// launch.cpp
cudaError_t make_kernel(CUfunc_st* function, dim3 grid, dim3 block, std::size_t shared, void** arguments,
                        std::shared_ptr<const KernelCall>& made);

// memory.cpp
const Block* block_at(const void* address, std::uintptr_t* begin = nullptr);
/// What pools of a device hold beyond their thresholds goes back (R102): what the stream freed, and what was told before.
void release_unused(int device, const CUstream_st& stream);
/// The same for all streams.
void release_unused(int device);

// graphs.cpp
cudaError_t launch_graph(Call& call, cudaGraphExec_t instance, cudaStream_t stream);
cudaError_t set_kernel(Call& call, cudaGraphNode_t node, const std::shared_ptr<const KernelCall>& kernel);
cudaError_t set_kernel(Call& call, cudaGraphExec_t instance, cudaGraphNode_t node,
                       const std::shared_ptr<const KernelCall>& kernel);

}  // namespace fake_cuda

struct CUstream_st {
  int device = 0;
  bool legacy = false;
  bool blocking = false;
  bool dead = false;
  bool waited_last = false;  ///< its last command was a wait for an event
  int priority = 0;
  std::size_t paused = 0;
  unsigned long long id = 0;
  std::size_t room_taken = 0;
  std::size_t pairs = 0;
  fake_cuda::OpRef last;
  std::shared_ptr<fake_cuda::Capture> capture;
  std::vector<cudaGraphNode_t> tails;
};

struct CUevent_st {
  int device = 0;
  bool timed = true;
  fake_cuda::OpRef op;
  std::shared_ptr<fake_cuda::Capture> capture;  ///< of its last record
  std::vector<cudaGraphNode_t> nodes;
};

struct CUmemPoolHandle_st {
  int device = 0;
  std::size_t most = 0;
  std::size_t threshold = 0;
  std::size_t used = 0;
  std::size_t reserved = 0;
  std::size_t reserved_high = 0;
  std::vector<std::uintptr_t> freed;  ///< blocks whose free is done or to come, oldest first
  int file = -1;                      ///< in which a pool has its blocks that processes share
  std::size_t end = 0;                ///< of that file
  bool imported = false;
  bool exported = false;  ///< its allocations may be, too
};

namespace fake_cuda {
struct Capture {
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  bool own_graph = true;
  bool open = true;
  bool invalid = false;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id owner;
  CUstream_st* origin = nullptr;
  std::vector<CUstream_st*> streams;
};

/// What a node does.
struct Work {
  std::shared_ptr<const KernelCall> kernel;
  std::function<void()> action;  ///< copies and fills
  cudaHostFn_t function = nullptr;
  void* data = nullptr;
  cudaEvent_t event = nullptr;
  /// Of a kernel that says itself when it has ended: makes its command of that replay.
  std::function<void(const OpRef&, unsigned long long replay)> prepare;
};
cudaGraphNode_t add_node(cudaGraph_t graph, cudaGraphNodeType type, const std::vector<cudaGraphNode_t>& behind,
                         Work work);
/// In a capturing stream, which goes on from there.
cudaGraphNode_t capture_node(CUstream_st& stream, cudaGraphNodeType type, Work work);
/// A node, or a command of the stream.
cudaError_t put_work(Call& call, const StreamRef& stream, cudaGraphNodeType type, Work work);
}  // namespace fake_cuda

struct CUgraphNode_st {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  cudaGraph_t graph = nullptr;
  std::vector<cudaGraphNode_t> behind;
  std::vector<cudaGraphNode_t> before;
  fake_cuda::Work work;
  cudaGraphNode_t original = nullptr;
  std::vector<cudaGraph_t> inside;  ///< the child, or the bodies
  cudaGraphConditionalHandle handle = 0;
  cudaGraphConditionalNodeType condition = cudaGraphCondTypeIf;
};

struct CUgraph_st {
  unsigned long long number = fake_cuda::world().next_id++;
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  cudaGraphNode_t owner = nullptr;  ///< of a body or a child
  bool body = false;
  std::vector<cudaGraphConditionalHandle> handles;
  std::size_t instances = 0;
};
