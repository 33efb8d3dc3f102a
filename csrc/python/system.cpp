// Threads, memory, build facts, default dtype.
#include "core/allocator.h"
#include "core/denormals.h"
#include "core/limits.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/blas.h"
#include "cpu/isa.h"
#include "graph/budget.h"
#include "graph/node.h"
#include "graph/tape_memory.h"
#include "ops/promotion.h"
#include "python/binding.h"
#include "python/collector.h"
#include "python/function_ops.h"
#include "python/python_types.h"
#include "python/source_line.h"
#include "python/visit_probe.h"

namespace tapegrad::python {

namespace {

nb::dict stats_dict() {
  const MemoryStats& stats = memory_stats();
  nb::dict result;
  result["live_bytes"] = stats.live_bytes;
  result["peak_bytes"] = stats.peak_bytes;
  result["cached_bytes"] = stats.cached_bytes;
  result["allocations"] = stats.allocations;
  result["system_allocations"] = stats.system_allocations;
  result["live_allocations"] = stats.live_allocations;
  result["saved_bytes"] = total_saved_bytes();
  int64_t peak = 0;
  for (int place = 0; place < kDevicePlaces; ++place) peak += Budget::peak(device_at(place));
  result["peak_saved_bytes"] = peak;
  return result;
}

nb::dict build_info() {
  nb::dict result;
#if defined(__clang__)
  result["compiler"] = "clang " __clang_version__;
#else
  result["compiler"] = "gcc " __VERSION__;
#endif
  result["cplusplus"] = std::to_string(__cplusplus);
  result["instruction_set"] = cpu::isa_name();
  result["blas"] = cpu::blas_description();
  result["threads"] = std::to_string(num_threads());
  return result;
}

// The default devices around the blocks of `with torch.device(...)` that this thread is in.
thread_local std::vector<Device> outer_devices;

struct FunctionOps {
  const char* function;
  std::vector<const char*> ops;
};
// A function, because bindings of other files come first.
std::vector<FunctionOps>& function_ops() {
  static std::vector<FunctionOps> list;
  return list;
}

nb::dict function_ops_dict() {
  nb::dict result;
  for (const FunctionOps& each : function_ops()) result[each.function] = nb::cast(each.ops);
  return result;
}

nb::list ops_list() {
  struct TraitName {
    OpTrait trait;
    const char* name;
  };
  static constexpr TraitName kTraits[] = {
      {kAnyRank, "elementwise"},        {kRandom, "random"},           {kOverwrites, "overwrites"},
      {kContracts, "contracts"},        {kHostRead, "host_read"},      {kAnyOrder, "any_order"},
      {kNoDerivative, "no_derivative"}, {kUnrecorded, "unrecorded"},   {kMoves, "moves"},
      {kHostNumbers, "host_numbers"},   {kLeadingDims, "leading_dims"}};
  nb::list result;
  for (const Op* op : all_ops()) {
    nb::list attributes, traits, devices;
    for (const char* name : op->attributes) attributes.append(name);
    for (const TraitName& each : kTraits)
      if (op->traits & each.trait) traits.append(each.name);
    for (int d = 0; d < kDeviceTypes; ++d)
      if (op->kernels[d]) devices.append(name(static_cast<DeviceType>(d)));
    result.append(
        nb::make_tuple(op->name, nb::tuple(attributes), nb::tuple(traits), nb::tuple(devices)));
  }
  return result;
}

DType result_type_of(const nb::args& args) {
  ResultType type;
  for (nb::handle arg : args) {
    Scalar number;
    if (is_tensor(arg.ptr())) type.add(tensor_of(arg.ptr()));
    else if (scalar_from_object(arg.ptr(), &number)) type.add(number);
    else if (const Tensor operand = number_operand(arg.ptr()); operand.defined()) type.add(operand);
    else fail<TypeError>("result_type: expected tensors or numbers");
  }
  return type.get();
}

}  // namespace

void runs(const char* function, std::initializer_list<const char*> ops) {
  for (const char* op : ops)
    TAPEGRAD_CHECK(find_op(op), "internal error: ", function, " runs '", op,
                   "', but no op has that name");
  function_ops().push_back({function, ops});
}

void bind_system(Binder& b) {
  b.function("_check_count", check_count, "op"_a, "count"_a, "what"_a, "bytes_each"_a,
             "Refuses a result of more objects than memory can hold.");
  b.function("get_num_threads", [] { return num_threads(); }, "How many threads a kernel may use.");
  b.function("_set_flush_denormal", set_flush_denormal, "mode"_a);
  b.function("set_num_threads", [](int count) { set_num_threads(count); }, "num_threads"_a,
             "Sets how many threads a kernel may use.");
  b.function("memory_stats", stats_dict,
             "Bytes and counts of the CPU allocator: live, peak, cached, allocations, and saved by "
             "the tape.");
  b.function("reset_peak_memory_stats", [] {
    reset_peak_memory_stats();
    for (int place = 0; place < kDevicePlaces; ++place) Budget::reset_peak(device_at(place));
  }, "Makes the peaks start again at the bytes that are live now.");
  b.function("empty_cache", empty_cache, "Returns cached memory to the system.");
  b.function("build_info", build_info, "Compiler, instruction set, BLAS and threads.");
  b.function("_refuses_unseen_reads", [](const Tensor& x) {
    try {
      return x->data() == nullptr;
    } catch (const Error&) {
      return true;
    }
  }, "x"_a, "Whether a look at bytes outside of kernels fails: in checked builds.");
  b.function("_ops", ops_list, "(name, attributes, traits, devices) of every op, by name.");
  b.function("_function_ops", function_ops_dict,
             "The ops that functions run, of those that do not have the name of their op.");
  b.function("_walked_entries", walked_entries,
             "How many tape entries the collector of cycles has gone through so far.");
  b.function("_subtracting_visit_is_known", [] { return subtracting_visit() != nullptr; },
             "Whether cycles through entries with several owners can be collected.");
  b.function("live_counts", [] {
    return std::pair<int64_t, int64_t>(live_tensor_count(), live_node_count());
  }, "Live tensors and tape entries, for leak checks.");
  b.function("set_blas_library", [](const std::string& path) { cpu::set_blas_library(path); },
             "path"_a, "Where the BLAS library lies.");
  b.function("install_source_lines", install_source_lines, "own_folder"_a,
             "Starts noting the source line of each tape entry.");
  b.function("_reads_frames_directly", reads_frames_directly,
             "Whether source lines are taken without making frame objects.");
  b.function("_running_line", running_line_both_ways,
             "The running (code, offset), as tape entries take it and by CPython's public calls.");
  b.function("_get_default_device", [] { return nb::borrow(device_object(default_device)); },
             "The device of new tensors on this thread.");
  b.function("_set_default_device", [](nb::handle device) {
    default_device = device.is_none() ? Device{} : device_of(device);
  }, "device"_a.none(), "Sets the device of new tensors on this thread.");
  b.function("_enter_device", [](nb::handle device) {
    const Device inner = device_of(device);
    outer_devices.push_back(std::exchange(default_device, inner));
  }, "device"_a, "The same until _leave_device().");
  b.function("_leave_device", [] {
    TAPEGRAD_CHECK(!outer_devices.empty(), "device: left on a thread on which it was not entered");
    default_device = outer_devices.back();
    outer_devices.pop_back();
  }, "Takes back the last _enter_device() of this thread.");
  b.function("get_default_dtype", [] { return default_dtype(); },
             "The dtype of new floating-point tensors.");
  b.function("set_default_dtype", [](DType d) { set_default_dtype(d); }, "d"_a,
             "Sets the dtype of new floating-point tensors.");
  b.function("promote_types", [](DType type1, DType type2) { return promote_types(type1, type2); },
             "type1"_a, "type2"_a, "The smallest dtype both convert to.");
  b.function("result_type", result_type_of, "The dtype an op on these operands gives.");
}

}  // namespace tapegrad::python
