#include "cuda/graph.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/lane.h"
#include "cuda/context.h"
#include "cuda/foreign.h"
#include "cuda/held_calls.h"
#include "cuda/kernel_errors.h"
#include "cuda/random_source.h"
#include "cuda/stream.h"

namespace tapegrad::cuda {

namespace {

constexpr Result kInvalidated = 901;            // CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
constexpr unsigned long long kUsePriority = 8;  // CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY
constexpr unsigned kVerbose = 1;                // CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE
constexpr int kStateWords = 3;

// The one that is being captured; see Note [Captured work].
Graph* capturing_graph = nullptr;
uint64_t last_capture = 0, last_pool = 0;

// What the driver does not destroy while a graph is captured. Never destroyed.
auto& discarded = *new std::vector<GraphExecHandle>();

void destroy_discarded() noexcept {
  for (GraphExecHandle exec : discarded) driver().destroy_graph_exec(exec);
  discarded.clear();
}

}  // namespace

PoolId new_pool_id() { return {0, ++last_pool}; }

uint64_t current_capture() { return last_capture; }

// ---- random numbers

// What kernels are told of the generators of the graph that is being captured.
struct Sources {
  // The state, on the device, of the generator that an offset is of.
  static Graph::Source& find(const char* op, uint64_t offset) {
    const uint64_t mark = Generator::mark_of(offset);
    if (mark == 0 || mark > capturing_graph->sources_.size())
      fail_in_capture(
          op, "random numbers of a generator that the graph does not know cannot be drawn",
          "call register_generator_state(generator) of the CUDAGraph before the capture");
    Graph::Source& source = capturing_graph->sources_[mark - 1];
    source.is_read = true;
    return source;
  }

  static RandomSource of(const char* op, int device, uint64_t seed, uint64_t offset, int word) {
    if (!capture_underway || !is_capturing(device)) [[likely]] {
      TAPEGRAD_CHECK(
          !Generator::mark_of(offset), op,
          ": the random numbers belong to a CUDA graph, and cannot be drawn outside of its "
          "capture; run on the captured stream what was captured there, checkpoints "
          "included");
      return {seed, offset, nullptr, nullptr};
    }
    const Graph::Source& source = find(op, offset);
    return {seed - source.seed, offset % Generator::kMark, source.word(0), source.word(word)};
  }
};

RandomSource random_source(const char* op, int device, uint64_t seed, uint64_t offset) {
  return Sources::of(op, device, seed, offset, 1);
}

RandomSource random_source(const OpCall& call) {
  return random_source(call.op.name, call.out().device().index,
                       static_cast<uint64_t>(call.integer(0)),
                       static_cast<uint64_t>(call.integer(1)));
}

RandomSource random_source_aside(const char* op, int device, uint64_t seed, uint64_t offset) {
  return Sources::of(op, device, seed, offset, 2);
}

void Graph::begin_sources() {
  sources_.clear();
  const Device device{DeviceType::CUDA, static_cast<uint8_t>(device_)};
  sources_.push_back({.generator = &default_generator(device)});
  for (Generator* each : registered_)
    if (each->device() == device && each != sources_[0].generator)
      sources_.push_back({.generator = each});
  // Ordinary memory: that of the graph is used by kernels that run before those which read the state, or is theirs
  // to fill.
  const LaneScope lane(0);
  const int64_t words[] = {kStateWords};
  for (Source& source : sources_)
    source.state = TensorImpl::empty(DType::Int64, words, kStateWords, device);
}

void Graph::mark_generators() noexcept {
  for (size_t i = 0; i < sources_.size(); ++i) {
    sources_[i].seed = sources_[i].generator->initial_seed();
    sources_[i].generator->begin_capture((i + 1) * Generator::kMark);
  }
}

void Graph::end_sources() {
  for (Source& source : sources_) source.used = source.generator->end_capture();
}

void Graph::write_sources(StreamHandle stream) {
  for (Source& source : sources_) {
    const RandomStream state = source.generator->reserve(source.used.counters);
    const RandomStream aside = source.generator->reserve_aside(source.used.aside);
    if (!source.is_read) continue;
    const uint64_t words[kStateWords] = {state.seed, state.offset, aside.offset};
    // Ordinary memory: the driver reads so few bytes at once.
    check(driver().copy(reinterpret_cast<DevicePointer>(source.word(0)),
                        reinterpret_cast<DevicePointer>(words), sizeof words, stream),
          "CUDAGraph.replay");
    note_use(source.state->storage(), stream);
  }
}

// ---- capture

void Graph::begin_capture(PoolId pool, CaptureMode mode) {
  TAPEGRAD_CHECK(
      !is_capturing_ && !has_graph_,
      "CUDAGraph.capture_begin: This CUDAGraph instance already owns a captured graph. To "
      "capture a new graph, create a new instance.");
  TAPEGRAD_CHECK(
      !capture_underway,
      "CUDAGraph.capture_begin: another CUDA graph is being captured; one is captured at a "
      "time");
  run_held_calls();
  device_ = current_device();
  stream_ = current_stream(device_);
  TAPEGRAD_CHECK(stream_,
                 "CUDAGraph.capture_begin: CUDA graphs must be captured on a non-default stream. "
                 "(However, after capture, it's ok to replay them on the default stream.)");
  for (const Generator* each : registered_)
    TAPEGRAD_CHECK(!each->is_captured(), "internal error: a generator is captured twice");
  begin_sources();
  const DeviceGuard guard(device_);
  check(driver().begin_capture(stream_, static_cast<int>(mode)), "CUDAGraph.capture_begin");
  pool_ = pool == PoolId{} ? new_pool_id() : pool;
  number_ = ++last_capture;
  thread_ = std::this_thread::get_id();
  begin_pool(device_, pool_);
  mark_generators();
  list_captured_calls(&calls_);
  is_capturing_ = capture_underway = lanes_are_captured = true;
  capturing_device = device_;
  capture_has_joins = false;
  capturing_graph = this;
  last_op = nullptr;
}

// Everything but the driver goes back to its ordinary ways.
void Graph::leave_capture() noexcept {
  is_capturing_ = capture_underway = lanes_are_captured = false;
  capturing_device = -1;
  capturing_graph = nullptr;
  list_captured_calls(nullptr);
  end_sources();
  end_pool(device_);
  collect_foreign();
  destroy_discarded();
}

void Graph::end_capture() {
  TAPEGRAD_CHECK(is_capturing_, "CUDAGraph.capture_end: called without capture_begin before it");
  TAPEGRAD_CHECK(std::this_thread::get_id() == thread_,
                 "CUDAGraph.capture_end: expected the thread that called capture_begin");
  TAPEGRAD_CHECK(current_stream(device_) == stream_,
                 "CUDAGraph.capture_end: Capture must end on the same stream it began on.");
  run_held_calls();  // those of the graph are part of it
  const DeviceGuard guard(device_);
  const Result result = driver().end_capture(stream_, &graph_);
  leave_capture();
  has_graph_ = true;  // the pool and the numbers of calls are its own
  if (result != kSuccess || !graph_) fail_capture(result);
  try {
    check(driver().get_graph_nodes(graph_, nullptr, &node_count_), "CUDAGraph.capture_end");
    if (keep_graph_) return;
    instantiate();
  } catch (...) {
    reset();
    throw;
  }
  if (!keep_for_debug_) destroy_graph();
}

void Graph::fail_capture(Result result) {
  reset();
  constexpr const char* kWhat = "CUDAGraph.capture_end";
  if (result == kInvalidated || result == kSuccess)
    fail(
        kWhat,
        ": the capture was ended by a call of the driver that cannot be captured, such as one that "
        "waits for the device or uses the default stream; see the error before this one");
  check(result, kWhat);
  fail(kWhat);  // check() has thrown
}

void Graph::abort_capture() noexcept {
  if (!is_capturing_) return;
  try {
    const DeviceGuard guard(device_);
    GraphHandle graph = nullptr;
    driver().end_capture(stream_, &graph);
    if (graph) driver().destroy_graph(graph);
  } catch (...) {  // the process ends
  }
  leave_capture();
  has_graph_ = true;
  reset();
}

void Graph::instantiate() {
  TAPEGRAD_CHECK(has_graph_ && graph_,
                 "CUDAGraph.instantiate: expected a graph that was captured with keep_graph=True");
  const DeviceGuard guard(device_);
  const RelaxedCapture relaxed;
  if (exec_) discarded.push_back(std::exchange(exec_, nullptr));
  if (!capture_underway) destroy_discarded();
  check(driver().instantiate_graph(&exec_, graph_, kUsePriority), "CUDAGraph.instantiate");
}

void Graph::replay() {
  TAPEGRAD_CHECK(
      has_graph_ && (exec_ || graph_),
      "CUDAGraph.replay: Called CUDAGraph::replay without a preceding successful capture.");
  if (!exec_) instantiate();
  run_held_calls();
  const StreamHandle stream = current_stream(device_);
  TAPEGRAD_CHECK(!cuda::is_capturing(device_, stream),
                 "CUDAGraph.replay: a graph cannot be replayed into another one that is captured");
  const DeviceGuard guard(device_);
  const RelaxedCapture relaxed;
  if (last_stream_ != stream) order_streams(device_, last_stream_, stream);
  write_sources(stream);
  check(driver().launch_graph(exec_, stream), "CUDAGraph.replay");
  last_stream_ = stream;
}

void Graph::destroy_graph() noexcept {
  if (graph_) driver().destroy_graph(std::exchange(graph_, nullptr));
}

void Graph::reset() noexcept {
  abort_capture();
  if (!has_graph_) return;
  has_graph_ = false;
  last_stream_ = nullptr;
  try {
    const DeviceGuard guard(device_);
    if (exec_) discarded.push_back(std::exchange(exec_, nullptr));
    if (!capture_underway) destroy_discarded();
    destroy_graph();
  } catch (...) {  // the process ends, or was forked
  }
  sources_.clear();
  release_captured_calls(device_, calls_);
  calls_.clear();
  release_pinned(number_);
  release_pool(device_, pool_);
  node_count_ = 0;
}

Graph::~Graph() { reset(); }

void Graph::register_generator(Generator& generator) {
  TAPEGRAD_CHECK(!is_capturing_,
                 "CUDAGraph.register_generator_state: expected to be called before the capture");
  TAPEGRAD_CHECK(
      generator.device().type == DeviceType::CUDA,
      "CUDAGraph.register_generator_state: expected a generator of a CUDA device, got one "
      "of '",
      to_string(generator.device()), "'");
  if (std::find(registered_.begin(), registered_.end(), &generator) == registered_.end())
    registered_.push_back(&generator);
}

PoolId Graph::pool() const {
  TAPEGRAD_CHECK(
      has_graph_ || is_capturing_,
      "CUDAGraph.pool: Called CUDAGraph::pool() without a preceding successful capture.");
  return pool_;
}

void Graph::debug_dump(const std::string& path) {
  TAPEGRAD_CHECK(graph_, "CUDAGraph.debug_dump: expected a graph that was captured after "
                         "enable_debug_mode(), or with keep_graph=True");
  const DeviceGuard guard(device_);
  check(driver().print_graph(graph_, path.c_str(), kVerbose), "CUDAGraph.debug_dump");
  if (!keep_graph_) destroy_graph();
}

GraphHandle Graph::handle() const {
  TAPEGRAD_CHECK(
      graph_, "CUDAGraph.raw_cuda_graph: expected a graph that was captured with keep_graph=True");
  return graph_;
}

GraphExecHandle Graph::exec() const {
  TAPEGRAD_CHECK(exec_, "CUDAGraph.raw_cuda_graph_exec: expected a graph that is instantiated");
  return exec_;
}

}  // namespace tapegrad::cuda
