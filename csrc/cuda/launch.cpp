#include "cuda/launch.h"

#include "cuda/capturing.h"

namespace tapegrad::cuda {

namespace {

constexpr int kMostSharedBytes = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
// Dynamic shared memory that no kernel has to ask for: with what it declares that is less than 48 KiB.
constexpr int kPlainSharedBytes = 16 * 1024;
constexpr int kStartEarly = 6;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
constexpr int kEarlyCapability = 9;

// How the driver is told where the arguments are.
void* const kArgumentBuffer = reinterpret_cast<void*>(1);
void* const kArgumentSize = reinterpret_cast<void*>(2);

// Never destroyed. Under Note [The GIL guards handles].
auto& descriptions = *new std::unordered_map<FunctionHandle, std::string>;

}  // namespace

FunctionHandle load_kernel(const std::string& description, int device) {
  static auto* loaded = new std::unordered_map<std::string, FunctionHandle>[kMostDevices];
  auto found = loaded[device].find(description);
  if (found != loaded[device].end()) return found->second;
  TAPEGRAD_CHECK(compile_kernel, "cuda: kernels cannot be compiled before the module is loaded");
  const std::string image = compile_kernel(description, device);
  if (loaded[device].empty())
    starts_early[device] = device_properties(device).major >= kEarlyCapability;
  const DeviceGuard guard(device);
  const RelaxedCapture relaxed;
  ModuleHandle module;  // stays: a kernel may be launched at any time
  check(driver().load_module(&module, image.data()), "cuda: loading a kernel");
  FunctionHandle function;
  check(driver().get_function(&function, module, "kernel"), "cuda: loading a kernel");
  loaded[device].emplace(description, function);
  descriptions.emplace(function, description);
  return function;
}

const std::string& kernel_description(FunctionHandle kernel) {
  static const std::string& unknown = *new std::string("kernel");
  const auto found = descriptions.find(kernel);
  return found == descriptions.end() ? unknown : found->second;
}

void launch(FunctionHandle function, int device, int64_t blocks, int threads, void* arguments,
            size_t nbytes, int shared_bytes) {
  const DeviceGuard guard(device);
  void* extra[] = {kArgumentBuffer, arguments, kArgumentSize, &nbytes, nullptr};
  if (shared_bytes > kPlainSharedBytes)
    check(driver().set_function_attribute(function, kMostSharedBytes, shared_bytes),
          "cuda: shared memory of a kernel");
  LaunchAttribute early{kStartEarly, 0, 1, {}};
  const bool starts_now =
      starts_early[device] && (!capture_underway || (starts_early_in_graphs && !capture_has_joins));
  const LaunchConfig config{static_cast<unsigned>(blocks),
                            1,
                            1,
                            static_cast<unsigned>(threads),
                            1,
                            1,
                            static_cast<unsigned>(shared_bytes),
                            current_stream(device),
                            &early,
                            starts_now};
  if (launch_watch) [[unlikely]]
    launch_watch(function, true);
  const Result result = driver().launch(&config, function, nullptr, extra);
  if (launch_watch) [[unlikely]]
    launch_watch(function, false);
  check(result, "cuda: launching a kernel");
}

const char* kernel_type(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return "bool";
    case DType::UInt8:
      return "unsigned char";
    case DType::Int8:
      return "signed char";
    case DType::Int16:
      return "short";
    case DType::Int32:
      return "int";
    case DType::Int64:
      return "int64";
    case DType::Float16:
      return "Half";
    case DType::BFloat16:
      return "BFloat16";
    case DType::Float32:
      return "float";
    case DType::Float64:
      return "double";
    default:
      fail<NotImplementedError>("cuda: no kernels for dtype ", name(dtype));
  }
}

}  // namespace tapegrad::cuda
