// Graphs: work of streams that is written down, and runs when the graph is launched.
//
// What CUDA forbids while streams are captured is refused here as well, and ends the capture: programs that would be
// refused by a GPU's driver do not pass here. Of the work that may run next a graph runs what was captured last, so that
// an edge that is missing shows.
#include <algorithm>
#include <cstdio>
#include <queue>

#include "emulator.h"

namespace tapegrad::cuda {

namespace {

enum Mode : int { kGlobal, kThreadLocal, kRelaxed };

thread_local int mode_of_thread = kGlobal;

std::vector<std::shared_ptr<CaptureTag>>& captures() {
  static auto& all = *new std::vector<std::shared_ptr<CaptureTag>>;
  return all;
}

// Its streams are ordinary ones again.
void end(const std::shared_ptr<CaptureTag>& capture) {
  for (ContextTag& context : devices())
    for (const auto& stream : context.streams)
      if (stream->capture == capture) {
        stream->capture = nullptr;
        stream->tail.clear();
      }
  std::erase(captures(), capture);
}

// Whether everything at the end of a stream comes before what is at the end of another.
bool is_joined(const CaptureTag& capture, const StreamTag& stream, const StreamTag& origin) {
  std::vector<bool> reached(capture.nodes.size());
  std::vector<size_t> waiting = origin.tail;
  while (!waiting.empty()) {
    const size_t node = waiting.back();
    waiting.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    const auto& before = capture.nodes[node].after;
    waiting.insert(waiting.end(), before.begin(), before.end());
  }
  return std::all_of(stream.tail.begin(), stream.tail.end(),
                     [&](size_t node) { return reached[node]; });
}

void run_nodes(const std::vector<GraphNode>& nodes) {
  std::vector<size_t> missing(nodes.size());
  std::vector<std::vector<size_t>> next(nodes.size());
  std::priority_queue<size_t> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].after.size();
    for (size_t before : nodes[i].after) next[before].push_back(i);
    if (missing[i] == 0) ready.push(i);
  }
  while (!ready.empty()) {
    const size_t i = ready.top();
    ready.pop();
    open_memory();
    nodes[i].run();
    for (size_t after : next[i])
      if (--missing[after] == 0) ready.push(after);
  }
}

}  // namespace

Result invalidate(CaptureTag& capture, Result error) {
  capture.is_valid = false;
  return error;
}

Result check_unsafe() {
  if (mode_of_thread == kRelaxed) return kSuccess;
  Result result = kSuccess;
  for (const auto& capture : captures()) {
    const bool is_own = capture->thread == std::this_thread::get_id();
    const bool is_meant =
        is_own ? capture->mode != kRelaxed : mode_of_thread == kGlobal && capture->mode == kGlobal;
    if (is_meant) result = invalidate(*capture, kCaptureUnsupported);
  }
  return result;
}

Result check_wait(const ContextTag& context) {
  Result result = kSuccess;
  for (const auto& capture : captures())
    if (capture->origin->context == &context) result = invalidate(*capture, kCaptureUnsupported);
  return result;
}

Result check_wait(StreamTag& stream) {
  if (stream.capture) return invalidate(*stream.capture, kCaptureUnsupported);
  return check_work(stream);
}

Result check_work(StreamTag& stream) {
  if (stream.capture) return stream.capture->is_valid ? kSuccess : kCaptureInvalidated;
  if (!stream.is_null) return kSuccess;
  for (const auto& other : stream.context->streams)
    if (other->capture && other->is_blocking) return invalidate(*other->capture, kCaptureImplicit);
  return kSuccess;
}

void add_node(StreamTag& stream, std::function<void()> run) {
  CaptureTag& capture = *stream.capture;
  capture.nodes.push_back({std::move(run), stream.tail});
  stream.tail = {capture.nodes.size() - 1};
}

Result wait_for_captured(StreamTag& stream, const EventTag& event) {
  const auto& capture = event.capture;
  if (std::find(captures().begin(), captures().end(), capture) == captures().end())
    return kCapturedEvent;
  if (stream.is_null) return invalidate(*capture, kCaptureImplicit);
  if (stream.capture && stream.capture != capture) {
    invalidate(*stream.capture, kCaptureMerge);
    return invalidate(*capture, kCaptureMerge);
  }
  stream.capture = capture;
  for (size_t node : event.tail)
    if (std::find(stream.tail.begin(), stream.tail.end(), node) == stream.tail.end())
      stream.tail.push_back(node);
  return kSuccess;
}

extern "C" {

Result cuStreamBeginCapture_v2(StreamHandle handle, int mode) {
  const Inside inside;
  StreamTag* stream = find_stream(handle);
  if (!stream) return current() ? kInvalidHandle : kInvalidContext;
  if (mode < kGlobal || mode > kRelaxed) return kInvalidValue;
  if (stream->is_null) return kCaptureUnsupported;
  if (stream->capture) return kIllegalState;
  stream->capture = std::make_shared<CaptureTag>();
  stream->capture->origin = stream;
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  captures().push_back(stream->capture);
  return kSuccess;
}

Result cuStreamEndCapture(StreamHandle handle, GraphHandle* graph) {
  const Inside inside;
  *graph = nullptr;
  StreamTag* stream = find_stream(handle);
  if (!stream) return current() ? kInvalidHandle : kInvalidContext;
  const auto capture = stream->capture;
  if (!capture) return kIllegalState;
  if (capture->mode != kRelaxed && capture->thread != std::this_thread::get_id())
    return kCaptureWrongThread;
  if (capture->origin != stream) return invalidate(*capture, kCaptureUnmatched);
  Result result = capture->is_valid ? kSuccess : kCaptureInvalidated;
  for (ContextTag& context : devices())
    for (const auto& other : context.streams)
      if (result == kSuccess && other->capture == capture && !is_joined(*capture, *other, *stream))
        result = kCaptureUnjoined;
  end(capture);
  if (result == kSuccess) *graph = new GraphTag{stream->context, std::move(capture->nodes)};
  return result;
}

Result cuStreamIsCapturing(StreamHandle handle, int* status) {
  const Inside inside;
  StreamTag* stream = find_stream(handle);
  if (!stream) return current() ? kInvalidHandle : kInvalidContext;
  *status = !stream->capture ? 0 : stream->capture->is_valid ? 1 : 2;
  return kSuccess;
}

Result cuThreadExchangeStreamCaptureMode(int* mode) {
  if (*mode < kGlobal || *mode > kRelaxed) return kInvalidValue;
  std::swap(*mode, mode_of_thread);
  return kSuccess;
}

Result cuGraphInstantiateWithFlags(GraphExecHandle* exec, GraphHandle graph, unsigned long long) {
  const Inside inside;
  if (!graph) return kInvalidHandle;
  *exec = new GraphExecTag{graph->context,
                           std::make_shared<const std::vector<GraphNode>>(graph->nodes)};
  return kSuccess;
}

Result cuGraphLaunch(GraphExecHandle exec, StreamHandle handle) {
  const Inside inside;
  StreamTag* stream = find_stream(handle);
  if (!stream || !exec || exec->context != stream->context) return kInvalidHandle;
  if (const Result result = check_work(*stream)) return result;
  enqueue(*stream, [nodes = exec->nodes] { run_nodes(*nodes); });
  return kSuccess;
}

Result cuGraphGetNodes(GraphHandle graph, GraphNodeHandle* nodes, size_t* count) {
  const Inside inside;
  if (!graph || nodes) return kInvalidValue;  // nobody looks at them
  *count = graph->nodes.size();
  return kSuccess;
}

Result cuGraphDebugDotPrint(GraphHandle graph, const char* path, unsigned) {
  const Inside inside;
  std::FILE* file = graph ? std::fopen(path, "w") : nullptr;
  if (!file) return kInvalidValue;
  std::fprintf(file, "digraph captured {\n");
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    std::fprintf(file, "  n%zu\n", i);
    for (size_t before : graph->nodes[i].after) std::fprintf(file, "  n%zu -> n%zu\n", before, i);
  }
  std::fprintf(file, "}\n");
  std::fclose(file);
  return kSuccess;
}

Result cuGraphDestroy(GraphHandle graph) {
  const Inside inside;
  if (!graph) return kInvalidHandle;
  delete graph;
  return kSuccess;
}

Result cuGraphExecDestroy(GraphExecHandle exec) {
  const Inside inside;
  if (!exec) return kInvalidHandle;
  if (!captures().empty()) return invalidate(*captures().front(), kCaptureUnsupported);
  delete exec;  // work that waits holds the nodes
  return kSuccess;
}

}  // extern "C"

}  // namespace tapegrad::cuda
