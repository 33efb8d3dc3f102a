// CUDA graphs: tapegrad/cuda/graphs.py builds on these.
#include "cuda/context.h"
#include "cuda/graph.h"
#include "ops/autocast.h"
#include "python/binding.h"

namespace tapegrad::python {

namespace {

using cuda::Graph;
using cuda::PoolId;

using PoolTuple = std::pair<uint64_t, uint64_t>;

PoolTuple tuple_of(PoolId pool) { return {pool.first, pool.second}; }

cuda::CaptureMode mode_of(const std::string& name) {
  if (name == "global") return cuda::CaptureMode::Global;
  if (name == "thread_local") return cuda::CaptureMode::ThreadLocal;
  TAPEGRAD_CHECK(name == "relaxed",
                 "CUDAGraph.capture_begin: Unknown capture error mode. Expected `global`, "
                 "`thread_local`, or `relaxed`, got ",
                 name);
  return cuda::CaptureMode::Relaxed;
}

template <class Handle>
uintptr_t number_of(Handle handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

}  // namespace

void bind_cuda_graph(Binder& b) {
  nb::class_<Graph>(b.module(), "_CudaGraph", "Work of a device that is captured, to be run again.")
      .def(nb::init<bool>(), "keep_graph"_a = false)
      .def("_begin",
           [](Graph& self, std::optional<PoolTuple> pool, const std::string& mode) {
    clear_kept_casts();  // of work that has run: the graph makes its own, which others cannot use
    self.begin_capture(pool ? PoolId{pool->first, pool->second} : PoolId{}, mode_of(mode));
  }, "pool"_a.none(), "mode"_a, "Begins to capture the current stream.")
      .def("_end",
           [](Graph& self) {
    clear_kept_casts();
    self.end_capture();
  }, "Ends the capture.")
      .def("_abort",
           [](Graph& self) {
    clear_kept_casts();
    self.abort_capture();
  }, "Ends a capture of which nothing is wanted.")
      .def("instantiate", &Graph::instantiate, "Make the graph ready to be replayed, once more.")
      .def("replay", &Graph::replay, "Put the captured work into the current stream.")
      .def("reset", &Graph::reset, "Forget the captured work, and give its memory back.")
      .def("pool", [](const Graph& self) { return tuple_of(self.pool()); },
           "Return the handle of the memory pool, for other captures to share.")
      .def("_register_generator", &Graph::register_generator, "generator"_a,
           "Draws of a generator are new in each replay.")
      .def("enable_debug_mode", &Graph::enable_debug_mode,
           "Keep what is captured from now on for `debug_dump`.")
      .def("debug_dump", &Graph::debug_dump, "debug_path"_a,
           "Write the captured work to a file, as a graph in the DOT language.")
      .def("raw_cuda_graph", [](const Graph& self) { return number_of(self.handle()); },
           "Return the driver's handle of a graph that was captured with keep_graph=True.")
      .def("raw_cuda_graph_exec", [](const Graph& self) { return number_of(self.exec()); },
           "Return the driver's handle of the graph that is ready to be replayed.")
      .def_prop_ro("_is_capturing", &Graph::is_capturing, "Whether the capture is going on.")
      .def_prop_ro("_node_count", &Graph::node_count, "How many kernels, copies and fills it has.");
  b.function("_cuda_new_pool", [] { return tuple_of(cuda::new_pool_id()); },
             "A handle of a memory pool for graphs.");
  b.function("_cuda_is_capturing", [] {
    return cuda::capture_underway && cuda::is_capturing(cuda::current_device());
  }, "Whether the current stream is captured.");
  b.function("_cuda_start_early_in_graphs", [](bool early) {
    return std::exchange(cuda::starts_early_in_graphs, early);
  }, "early"_a, "Whether captured kernels start while the one before them runs; returns what was.");
}

}  // namespace tapegrad::python
