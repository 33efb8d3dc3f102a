// CUDA devices, streams, events and memory, for tapegrad/cuda.
#include "core/error.h"
#include "cuda/allocator.h"
#include "cuda/context.h"
#include "cuda/driver.h"
#include "cuda/held_calls.h"
#include "cuda/move.h"
#include "cuda/settings.h"
#include "cuda/stream.h"
#include "graph/grad_mode.h"
#include "ops/copy.h"
#include "python/binding.h"
#include "python/pinned.h"
#include "python/text.h"

namespace tapegrad::python {

namespace {

using cuda::AllocatorStatistics;
using cuda::DeviceProperties;
using cuda::PoolStatistics;
using cuda::Statistic;
using cuda::StreamHandle;

StreamHandle stream_of(uintptr_t handle) { return reinterpret_cast<StreamHandle>(handle); }
uintptr_t number_of(StreamHandle stream) { return reinterpret_cast<uintptr_t>(stream); }

// ---- devices

nb::dict properties_dict(int device) {
  const DeviceProperties& found = cuda::device_properties(device);
  nb::dict result;
  result["name"] = found.name;
  result["uuid"] = nb::bytes(reinterpret_cast<const char*>(found.uuid), sizeof found.uuid);
  result["major"] = found.major;
  result["minor"] = found.minor;
  result["total_memory"] = found.total_memory;
  result["multi_processor_count"] = found.multiprocessors;
  result["warp_size"] = found.warp_size;
  result["max_threads_per_block"] = found.max_threads_per_block;
  result["max_threads_per_multi_processor"] = found.max_threads_per_multiprocessor;
  result["max_blocks_per_multi_processor"] = found.max_blocks_per_multiprocessor;
  result["regs_per_multiprocessor"] = found.registers_per_multiprocessor;
  result["shared_memory_per_block"] = found.shared_memory_per_block;
  result["shared_memory_per_block_optin"] = found.shared_memory_per_block_optin;
  result["shared_memory_per_multiprocessor"] = found.shared_memory_per_multiprocessor;
  result["L2_cache_size"] = found.l2_cache_size;
  result["clock_rate"] = found.clock_rate;
  result["memory_clock_rate"] = found.memory_clock_rate;
  result["memory_bus_width"] = found.memory_bus_width;
  result["is_integrated"] = found.is_integrated;
  result["is_multi_gpu_board"] = found.is_multi_gpu_board;
  result["pci_domain_id"] = found.pci_domain_id;
  result["pci_bus_id"] = found.pci_bus_id;
  result["pci_device_id"] = found.pci_device_id;
  return result;
}

void bind_devices(Binder& b) {
  b.function("_cuda_why_unavailable", [] { return cuda::why_unavailable(); },
             "Why no CUDA device can be used; empty if one can.");
  b.function("_cuda_is_initialized", cuda::has_started,
             "Whether a device has been used in this process.");
  b.function("_cuda_driver_version", [] {
    int version = 0;
    cuda::check(cuda::driver().get_version(&version), "cuda: asking for the version");
    return version;
  }, "The version of CUDA that the driver supports: 1000 times the major one, 10 times the minor.");
  b.function("_cuda_device_count", cuda::device_count, "How many devices can be used.");
  b.function("_cuda_current_device", cuda::current_device, "The device this thread has chosen.");
  b.function("_cuda_set_device", cuda::set_device, "device"_a, "Chooses a device for this thread.");
  b.function("_cuda_check_device", cuda::check_device, "device"_a,
             "Refuses the number of a device that is not there.");
  b.function("_cuda_properties", properties_dict, "device"_a, "What a device is and has.");
  b.function("_cuda_can_access_peer", cuda::can_access_peer, "device"_a, "peer"_a,
             "Whether a device can read the memory of another.");
  b.function("_cuda_memory_info", [](int device) {
    const cuda::MemoryInfo info = cuda::memory_info(device);
    return std::pair(info.free, info.total);
  }, "device"_a, "Free and total bytes of a device, whoever uses them.");
  b.function("_cuda_synchronize", [](int device) {
    const cuda::AskedWait asked;
    cuda::synchronize(device);
  }, "device"_a, "Waits until a device is done.");
}

// ---- streams and events

void bind_streams(Binder& b) {
  b.function("_cuda_current_stream", [](int device) {
    cuda::check_device(device);
    return number_of(cuda::current_stream(device));
  }, "device"_a, "The stream this thread uses on a device.");
  b.function("_cuda_set_stream", [](int device, uintptr_t stream) {
    cuda::check_device(device);
    cuda::set_current_stream(device, stream_of(stream));
  }, "device"_a, "stream"_a, "Chooses the stream this thread uses on a device.");
  b.function("_cuda_create_stream", [](int device, int priority) {
    return number_of(cuda::create_stream(device, priority));
  }, "device"_a, "priority"_a, "The next stream of the pool of a priority.");
  b.function("_cuda_stream_priority", [](int device, uintptr_t stream) {
    return cuda::stream_priority(device, stream_of(stream));
  }, "device"_a, "stream"_a, "The priority of a stream of the pools; 0 for others.");
  b.function("_cuda_stream_priorities", cuda::stream_priorities, "device"_a,
             "The least and the greatest priority, which is the lower number.");
  b.function("_cuda_stream_query", [](int device, uintptr_t stream) {
    return cuda::is_done(device, stream_of(stream));
  }, "device"_a, "stream"_a, "Whether everything in a stream is done.");
  b.function("_cuda_stream_synchronize", [](int device, uintptr_t stream) {
    const cuda::AskedWait asked;
    cuda::synchronize(device, stream_of(stream));
  }, "device"_a, "stream"_a, "Waits until everything in a stream is done.");
}

void bind_events(Binder& b) {
  using cuda::Event;
  nb::class_<Event>(b.module(), "_CudaEvent", "A place in a stream.")
      .def("__init__",
           [](Event* self, bool enable_timing, bool blocking) {
    const unsigned timing = enable_timing ? Event::kDefault : Event::kDisableTiming;
    new (self) Event(timing | (blocking ? Event::kBlockingSync : Event::kDefault));
  }, "enable_timing"_a = false, "blocking"_a = false)
      .def("record_on",
           [](Event& self, int device, uintptr_t stream) {
    self.record(device, stream_of(stream));
  }, "device"_a, "stream"_a, "Records the event in a stream.")
      .def("wait_on",
           [](const Event& self, int device, uintptr_t stream) {
    self.make_wait(device, stream_of(stream));
  }, "device"_a, "stream"_a, "Makes a stream wait for the event.")
      .def("query", &Event::is_done, "Return whether everything before the event is done.")
      .def("synchronize",
           [](const Event& self) {
    const cuda::AskedWait asked;
    self.synchronize();
  }, "Wait until everything before the event is done.")
      .def("elapsed_time", &Event::elapsed, "end_event"_a,
           "Return the milliseconds from this event to another.")
      .def_prop_ro("device_index", &Event::device, "The device; -1 before it is recorded.")
      .def_prop_ro("cuda_event", [](const Event& self) {
    return reinterpret_cast<uintptr_t>(self.handle());
  }, "The driver's handle; 0 before it is recorded.");
}

// ---- memory

nb::dict as_dict(const Statistic& statistic) {
  nb::dict result;
  result["current"] = statistic.current;
  result["peak"] = statistic.peak;
  result["allocated"] = statistic.allocated;
  result["freed"] = statistic.freed;
  return result;
}

nb::dict memory_statistics(int device) {
  struct Named {
    const char* name;
    Statistic PoolStatistics::* member;
  };
  static constexpr Named kStatistics[] = {
      {"allocation", &PoolStatistics::allocation},
      {"segment", &PoolStatistics::segment},
      {"active", &PoolStatistics::active},
      {"inactive_split", &PoolStatistics::inactive_split},
      {"allocated_bytes", &PoolStatistics::allocated_bytes},
      {"reserved_bytes", &PoolStatistics::reserved_bytes},
      {"active_bytes", &PoolStatistics::active_bytes},
      {"inactive_split_bytes", &PoolStatistics::inactive_split_bytes},
      {"requested_bytes", &PoolStatistics::requested_bytes}};
  cuda::run_expected_calls();  // they keep memory
  const AllocatorStatistics& all = cuda::statistics(device);
  nb::dict result;
  for (const Named& each : kStatistics) {
    nb::dict pools;
    pools["all"] = as_dict(all.all.*each.member);
    pools["small_pool"] = as_dict(all.pools[0].*each.member);
    pools["large_pool"] = as_dict(all.pools[1].*each.member);
    result[each.name] = pools;
  }
  result["num_alloc_retries"] = all.retries;
  result["num_ooms"] = all.out_of_memory;
  result["num_device_alloc"] = all.device_allocations;
  result["num_device_free"] = all.device_frees;
  return result;
}

nb::list snapshot_list() {
  cuda::run_expected_calls();
  nb::list segments;
  for (const cuda::SegmentSnapshot& each : cuda::snapshot()) {
    nb::dict segment;
    nb::list blocks;
    size_t allocated = 0, active = 0, requested = 0;
    for (const cuda::BlockSnapshot& found : each.blocks) {
      nb::dict block;
      const std::string_view state = found.state;
      block["address"] = found.address;
      block["size"] = found.size;
      block["requested_size"] = found.requested;
      block["state"] = found.state;
      blocks.append(block);
      allocated += state == "active_allocated" ? found.size : 0;
      active += state != "inactive" ? found.size : 0;
      requested += found.requested;
    }
    segment["device"] = each.device;
    segment["address"] = each.address;
    segment["total_size"] = each.size;
    segment["allocated_size"] = allocated;
    segment["active_size"] = active;
    segment["requested_size"] = requested;
    segment["stream"] = number_of(each.stream);
    segment["segment_pool_id"] = nb::make_tuple(each.owner.first, each.owner.second);
    segment["segment_type"] = each.pool == cuda::PoolKind::Small ? "small" : "large";
    segment["blocks"] = blocks;
    segments.append(segment);
  }
  return segments;
}

void bind_memory(Binder& b) {
  b.function("_cuda_allocate", [](int device, size_t nbytes) {
    return reinterpret_cast<uintptr_t>(cuda::allocate(device, nbytes));
  }, "device"_a, "nbytes"_a, "The address of fresh memory for the current stream.");
  b.function("_cuda_deallocate", [](int device, uintptr_t address) {
    cuda::check_device(device);
    cuda::deallocate(device, reinterpret_cast<void*>(address));
  }, "device"_a, "address"_a, "Takes back what _cuda_allocate() gave.");
  b.function("_cuda_memory_stats", memory_statistics, "device"_a,
             "The statistics of the allocator, in dicts of dicts.");
  b.function("_cuda_reset_peaks", cuda::reset_peaks, "device"_a,
             "Makes the peaks start again at what is there now.");
  b.function("_cuda_reset_sums", cuda::reset_sums, "device"_a,
             "Makes what was ever allocated and freed start again at zero.");
  b.function("_cuda_snapshot", snapshot_list, "The segments of the allocator, and their blocks.");
  b.function("_cuda_empty_cache", [] {
    const cuda::AskedWait asked;
    cuda::run_expected_calls();
    cuda::empty_cache();
  }, "Gives memory that holds no tensors back to the driver.");
  b.function("_cuda_memory_fraction", cuda::memory_fraction, "device"_a,
             "The part of the memory that this process may use.");
  b.function("_cuda_set_memory_fraction", cuda::set_memory_fraction, "device"_a, "fraction"_a,
             "Sets the part of the memory that this process may use.");
}

// ---- page-locked memory

// A tensor without gaps that owns page-locked memory.
Tensor pinned_tensor(void* data, DType dtype, Sizes sizes, Sizes strides) {
  size_t nbytes = itemsize(dtype);
  for (int64_t size : sizes) nbytes *= static_cast<size_t>(size);
  Ref<Storage> storage = Storage::borrow(data, nbytes, data, cuda::free_pinned);
  return Tensor(TensorImpl::create(std::move(storage), dtype, sizes, strides, 0));
}
Tensor pinned_bytes(void* data, size_t nbytes) {
  const DimVector sizes{static_cast<int64_t>(nbytes)}, strides{1};
  return pinned_tensor(data, DType::UInt8, sizes, strides);
}

bool is_pinned(const Tensor& x) {
  return x->device().is_cpu() && x.numel() > 0 && cuda::is_pinned(x->storage().data());
}

void bind_pinned(Binder& b) {
  b.method("pin_memory", [](const Tensor& self, nb::handle) { return pinned(self); },
           "device"_a.none() = nb::none(),
           "This tensor in page-locked memory, which a GPU copies from while the CPU goes on.");
  b.method("is_pinned", [](const Tensor& self, nb::handle) { return is_pinned(self); },
           "device"_a.none() = nb::none(), "Whether the tensor is in page-locked memory.");
  b.method("record_stream",
           [](const Tensor& self, nb::handle stream) {
    TAPEGRAD_CHECK(self->device().type == DeviceType::CUDA,
                   "record_stream: expected a tensor on a CUDA device, got one on '",
                   to_string(self->device()), "'");
    const auto handle = nb::cast<uintptr_t>(stream.attr("cuda_stream"));
    cuda::record_stream(self->storage(), stream_of(handle));
  }, "stream"_a,
           "Tells that a stream other than the tensor's own uses it: its memory is not used again "
           "before that stream is done with what it has now.");
  b.function("_cuda_record_pinned", [](const Tensor& x, int device, uintptr_t stream) {
    cuda::check_device(device);
    cuda::record_pinned(x->storage().data(), device, stream_of(stream));
  }, "x"_a, "device"_a, "stream"_a, "Tells that a stream uses page-locked memory.");
  b.function("_cuda_pinned_bytes", [](size_t nbytes) {
    return pinned_bytes(cuda::allocate_pinned(nbytes), nbytes);
  }, "nbytes"_a, "Fresh page-locked memory, as a tensor of uint8.");
  b.function("_cuda_pinned_for",
             [](size_t nbytes, int device, uintptr_t stream) {
    return pinned_bytes(cuda::allocate_pinned_for(nbytes, device, stream_of(stream)), nbytes);
  }, "nbytes"_a, "device"_a, "stream"_a,
             "The same, for a stream to write to before anybody else uses it: nobody waits for "
             "streams that used the memory before, but that one.");
  b.function("_cuda_pinned_like", [](const Tensor& x) {
    const size_t nbytes = static_cast<size_t>(x.numel()) * itemsize(x.dtype());
    return pinned_tensor(cuda::allocate_pinned(nbytes), x.dtype(), x.sizes(), x.strides());
  }, "x"_a, "Fresh page-locked memory for a tensor whose elements lie like those of a dense one.");
  b.function("_cuda_copy_aside",
             [](const Tensor& to, const Tensor& from, uintptr_t stream, uintptr_t after) {
    cuda::copy_aside(*to.impl(), *from.impl(), stream_of(stream), stream_of(after));
  }, "to"_a, "from_"_a, "stream"_a, "after"_a,
             "Copies on a stream between page-locked memory and a device, behind another stream.");
  b.function("_cuda_record_stream", [](const Tensor& x, uintptr_t stream) {
    cuda::record_stream(x->storage(), stream_of(stream));
  }, "x"_a, "stream"_a, "record_stream() with the driver's handle.");
  b.function("_cuda_erase_stream", [](const Tensor& x, uintptr_t stream) {
    cuda::erase_stream(x->storage(), stream_of(stream));
  }, "x"_a, "stream"_a, "Takes back record_stream(): the tensor's own stream waits for that one.");
  b.function("_cuda_limit_waiting",
             [](int device, uintptr_t stream, size_t most_bytes) {
    cuda::limit_waiting(device, stream_of(stream), most_bytes);
  }, "device"_a, "stream"_a, "most_bytes"_a,
             "Hands out freed memory that waits for a stream, where there is more than this; what "
             "uses it next waits on the device.");
  b.function("_cuda_pinned_stats", [] {
    const cuda::PinnedStatistics& stats = cuda::pinned_statistics();
    nb::dict result;
    result["live_bytes"] = stats.live_bytes;
    result["cached_bytes"] = stats.cached_bytes;
    result["system_allocations"] = stats.system_allocations;
    return result;
  }, "Bytes and counts of page-locked memory.");
}

// ---- waiting

void warn_of_wait() {
  if (!PyGILState_Check()) return;
  if (PyErr_WarnEx(PyExc_UserWarning, "called a synchronizing CUDA operation", 1) < 0)
    throw nb::python_error();
}

void bind_waits(Binder& b) {
  cuda::warn_of_wait = warn_of_wait;
  b.function("_cuda_unasked_waits", [] { return cuda::unasked_waits; },
             "How often the host has waited for a device without being asked to.");
  b.function("_cuda_sync_debug_mode", [] { return static_cast<int>(cuda::unasked_wait); },
             "What happens when the host waits unasked: 0 nothing, 1 a warning, 2 an error.");
  b.function("_cuda_set_sync_debug_mode", [](int mode) {
    cuda::unasked_wait = static_cast<cuda::UnaskedWait>(mode);
  }, "mode"_a, "Sets what happens when the host waits unasked.");
}

// ---- settings

void bind_settings(Binder& b) {
  b.function("_cuda_matmul_settings", [] {
    const cuda::MatmulSettings& settings = cuda::matmul_settings;
    nb::dict result;
    result["float32_precision"] = static_cast<int>(settings.float32_precision);
    result["allow_fp16_reduced_precision_reduction"] = settings.allow_float16_reduction;
    result["allow_bf16_reduced_precision_reduction"] = settings.allow_bfloat16_reduction;
    result["allow_fp16_accumulation"] = settings.allow_float16_accumulation;
    return result;
  }, "How exact matrix products on CUDA are.");
  b.function("_cuda_set_matmul_settings",
             [](int float32_precision, bool float16, bool bfloat16, bool accumulation) {
    cuda::matmul_settings = {static_cast<cuda::Float32Precision>(float32_precision), float16,
                             bfloat16, accumulation};
  }, nb::kw_only(), "float32_precision"_a, "allow_fp16_reduced_precision_reduction"_a,
             "allow_bf16_reduced_precision_reduction"_a, "allow_fp16_accumulation"_a,
             "Sets how exact matrix products on CUDA are.");
  b.function("_cuda_is_deterministic", [] { return cuda::deterministic_algorithms; },
             "Whether kernels on CUDA give the same bits in every run.");
  b.function("_cuda_set_deterministic", [](bool enabled) {
    cuda::deterministic_algorithms = enabled;
  }, "enabled"_a, "Sets whether kernels on CUDA give the same bits in every run.");
}

void bind_merging(Binder& b) {
  b.function("_cuda_merges_calls", [] { return cuda::merges_calls; },
             "Whether one kernel may run several calls.");
  b.function("_cuda_set_merges_calls", cuda::set_merges_calls, "enabled"_a,
             "Sets whether one kernel may run several calls.");
  b.function("_cuda_held_calls", [] { return cuda::HeldCalls::count(); },
             "How many calls wait for another one, or for somebody who asks for their result.");
  b.function("_cuda_merged_calls", [] { return cuda::merged_calls; },
             "How many calls were merged with one that came before.");
  b.function("_cuda_least_held_product", [] { return cuda::least_held_product; },
             "How many elements a product has at least that waits for GELU.");
  b.function("_cuda_set_least_held_product", [](int64_t elements) {
    cuda::least_held_product = elements;
  }, "elements"_a, "Sets how many elements a product has at least that waits for GELU.");
}

}  // namespace

Tensor pinned(const Tensor& x) {
  TAPEGRAD_CHECK(x->device().is_cpu(), "pin_memory: cannot pin a tensor on '",
                 to_string(x->device()), "': Only dense CPU tensors can be pinned");
  TAPEGRAD_CHECK(cuda::is_available(),
                 "pin_memory: Cannot access accelerator device when none is available: ",
                 cuda::why_unavailable());
  if (is_pinned(x)) return x;
  const GradMode off(false);
  const Tensor plain = contiguous(x);
  const size_t nbytes = static_cast<size_t>(x.numel()) * itemsize(x.dtype());
  Tensor result =
      pinned_tensor(cuda::allocate_pinned(nbytes), x.dtype(), plain.sizes(), plain.strides());
  copy_into(result, plain);
  return result;
}

void bind_cuda(Binder& b) {
  bind_devices(b);
  bind_streams(b);
  bind_events(b);
  bind_memory(b);
  bind_pinned(b);
  bind_waits(b);
  bind_settings(b);
  bind_merging(b);
}

}  // namespace tapegrad::python
