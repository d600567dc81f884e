// Captures of streams: what becomes a node, and what is refused (R110 to R148, R211).
#include <algorithm>

#include "backends/fake_cuda/world.hpp"

namespace fake_cuda {

namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

bool is_mine(const Capture& capture) { return capture.owner == std::this_thread::get_id(); }

void check_thread(Call& call, const CUstream_st& stream) {
  if (!stream.capture || is_mine(*stream.capture)) return;
  violate(call, "R211", "of stream " + std::to_string(stream.id) + ", which another thread captures");
}

/// Use of a legacy stream while a blocking stream of its device is captured (R125).
cudaError_t check_implicit(const CUstream_st& stream) {
  if (!stream.legacy) return cudaSuccess;
  for (const auto& capture : world().captures) {
    const bool blocking = std::any_of(
        capture->streams.begin(), capture->streams.end(),
        [&](const CUstream_st* captured) { return captured->blocking && captured->device == stream.device; });
    if (blocking) return invalidate(*capture, cudaErrorStreamCaptureImplicit);
  }
  return cudaSuccess;
}

void close(const std::shared_ptr<Capture>& capture) {
  capture->open = false;
  for (CUstream_st* stream : capture->streams) {
    stream->capture = nullptr;
    stream->tails.clear();
  }
  capture->streams.clear();
  std::erase(world().captures, capture);
}

/// Whether every node of the forked streams lies before the origin's end.
bool is_joined(const Capture& capture) {
  std::set<cudaGraphNode_t> reached;
  std::vector<cudaGraphNode_t> open = capture.origin->tails;
  while (!open.empty()) {
    const cudaGraphNode_t node = open.back();
    open.pop_back();
    if (!reached.insert(node).second) continue;
    open.insert(open.end(), node->behind.begin(), node->behind.end());
  }
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](const CUstream_st* stream) {
    return std::all_of(stream->tails.begin(), stream->tails.end(),
                       [&](cudaGraphNode_t node) { return reached.count(node) > 0; });
  });
}

cudaError_t begin(Call& call, cudaStream_t handle, cudaStreamCaptureMode mode, cudaGraph_t graph,
                  const cudaGraphNode_t* tails, std::size_t count) {
  const StreamRef stream = find(call, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (stream->legacy) return cudaErrorStreamCaptureUnsupported;
  check_thread(call, *stream);
  if (stream->capture) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->id = world().next_id++;
  capture->mode = mode;
  capture->owner = std::this_thread::get_id();
  capture->origin = stream.get();
  capture->own_graph = graph == nullptr;
  capture->graph = graph;
  if (graph == nullptr) {
    capture->graph = new CUgraph_st;
    world().graphs.insert(capture->graph);
  }
  capture->streams.push_back(stream.get());
  stream->tails.assign(tails, tails + count);
  stream->capture = capture;
  world().captures.push_back(std::move(capture));
  return cudaSuccess;
}

void destroy(cudaGraph_t graph) {
  for (const auto& node : graph->nodes) {
    for (cudaGraph_t inside : node->inside) destroy(inside);
  }
  world().graphs.erase(graph);
  delete graph;
}

cudaError_t end(Call& call, cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  const StreamRef stream = find(call, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return cudaErrorIllegalState;
  if (capture->origin != stream.get()) return invalidate(*capture, cudaErrorStreamCaptureUnmatched);
  cudaError_t answer = cudaSuccess;
  if (!is_mine(*capture) && capture->mode != cudaStreamCaptureModeRelaxed) {
    answer = cudaErrorStreamCaptureWrongThread;
  } else if (capture->invalid) {
    answer = cudaErrorStreamCaptureInvalidated;
  } else if (!is_joined(*capture)) {
    answer = cudaErrorStreamCaptureUnjoined;
  }
  close(capture);
  if (answer == cudaSuccess) {
    *graph = capture->graph;
  } else if (capture->graph->owner == nullptr) {
    // A void capture takes the graph with it that it went into.
    destroy(capture->graph);
  }
  return answer;
}

cudaError_t info(Call& call, cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                 cudaGraph_t* graph, const cudaGraphNode_t** nodes, std::size_t* count) {
  const StreamRef stream = find(call, handle);
  if (!stream || status == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->legacy) {
    // Asked, it says so and leaves the capture alone.
    for (const auto& capture : world().captures) {
      for (const CUstream_st* captured : capture->streams) {
        if (captured->blocking && captured->device == stream->device) return cudaErrorStreamCaptureImplicit;
      }
    }
  }
  *status = cudaStreamCaptureStatusNone;
  if (!stream->capture) return cudaSuccess;
  *status = stream->capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  if (id != nullptr) *id = stream->capture->id;
  if (graph != nullptr) *graph = stream->capture->graph;
  if (nodes != nullptr) *nodes = stream->tails.data();
  if (count != nullptr) *count = stream->tails.size();
  return cudaSuccess;
}

cudaError_t update(Call& call, cudaStream_t handle, const cudaGraphNode_t* nodes, std::size_t count, unsigned flags) {
  const StreamRef stream = find(call, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  check_thread(call, *stream);
  if (!stream->capture) return cudaErrorIllegalState;
  if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
  std::vector<cudaGraphNode_t> tails;
  if (flags != cudaStreamSetCaptureDependencies) tails = stream->tails;
  for (std::size_t i = 0; i < count; ++i) {
    if (nodes[i]->graph != stream->capture->graph) return cudaErrorInvalidValue;
    if (std::find(tails.begin(), tails.end(), nodes[i]) == tails.end()) tails.push_back(nodes[i]);
  }
  stream->tails = std::move(tails);
  return cudaSuccess;
}

}  // namespace

cudaError_t invalidate(Capture& capture, cudaError_t answer) {
  capture.invalid = true;
  return answer;
}

cudaError_t enter_stream(Call& call, const StreamRef& stream, bool& captured) {
  captured = stream->capture != nullptr;
  if (captured) {
    check_thread(call, *stream);
    return stream->capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  }
  return check_implicit(*stream);
}

cudaError_t ask_stream(Call& call, const StreamRef& stream) {
  if (stream->capture) {
    check_thread(call, *stream);
    return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
  }
  if (const cudaError_t no = check_implicit(*stream)) return no;
  return unsafe(call);
}

cudaError_t unsafe(Call&) {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (const auto& capture : world().captures) {
    const bool forbids = (capture->mode == cudaStreamCaptureModeGlobal &&
                          (thread_mode == cudaStreamCaptureModeGlobal || is_mine(*capture))) ||
                         (capture->mode == cudaStreamCaptureModeThreadLocal && is_mine(*capture));
    if (forbids) return invalidate(*capture, cudaErrorStreamCaptureUnsupported);
  }
  return cudaSuccess;
}

void leave_capture(const StreamRef& stream) {
  if (!stream->capture) return;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->origin == stream.get()) {
    close(capture);
    if (capture->own_graph) destroy(capture->graph);
  } else {
    std::erase(capture->streams, stream.get());
    stream->capture = nullptr;
  }
}

cudaGraphNode_t capture_node(CUstream_st& stream, cudaGraphNodeType type, Work work) {
  const cudaGraphNode_t node = add_node(stream.capture->graph, type, stream.tails, std::move(work));
  stream.tails = {node};
  return node;
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  FAKE_CALL(cudaStreamBeginCapture, plain, { return begin(call, stream, mode, nullptr, nullptr, 0); });
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* tails,
                                          const cudaGraphEdgeData*, size_t count, cudaStreamCaptureMode mode) {
  FAKE_GRAPH_CALL(cudaStreamBeginCaptureToGraph, plain, (graph), {
    if (graph == nullptr || world().graphs.count(graph) == 0) return cudaErrorInvalidValue;
    return begin(call, stream, mode, graph, tails, count);
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  FAKE_CALL(cudaStreamEndCapture, plain, { return end(call, stream, graph); });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  FAKE_CALL(cudaStreamIsCapturing, plain, { return info(call, stream, status, nullptr, nullptr, nullptr, nullptr); });
}
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  FAKE_CALL(cudaStreamGetCaptureInfo, plain, {
    if (edges != nullptr) *edges = nullptr;
    return info(call, stream, status, id, graph, nodes, count);
  });
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData*,
                                                size_t count, unsigned flags) {
  FAKE_CALL(cudaStreamUpdateCaptureDependencies, plain, { return update(call, stream, nodes, count, flags); });
}
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** nodes, size_t* count) {
  FAKE_CALL(cudaStreamGetCaptureInfo, plain, { return info(call, stream, status, id, graph, nodes, count); });
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count,
                                                unsigned flags) {
  FAKE_CALL(cudaStreamUpdateCaptureDependencies, plain, { return update(call, stream, nodes, count, flags); });
}
#endif
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  FAKE_CALL(cudaThreadExchangeStreamCaptureMode, plain, {
    std::swap(*mode, thread_mode);
    return cudaSuccess;
  });
}

}  // extern "C"
