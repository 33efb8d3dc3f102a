// Devices, contexts, attributes and errors.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulator.h"

namespace tapegrad::cuda {

namespace {

// Its addresses are those of all functions of the driver's list, so that one that the emulator does
// not define is a mistake of linking, and not of the program that looks for it later.
[[maybe_unused]] const Driver complete{
#define TAPEGRAD_EMULATOR_ADDRESS(SYMBOL, NAME, PARAMETERS) &SYMBOL,
    TAPEGRAD_CUDA_FUNCTIONS(TAPEGRAD_EMULATOR_ADDRESS)
#undef TAPEGRAD_EMULATOR_ADDRESS
};

thread_local ContextHandle current_context = nullptr;
bool is_started = false;

size_t number_from_environment(const char* name, size_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 0) : otherwise;
}

bool is_device(DeviceHandle device) {
  return device >= 0 && static_cast<size_t>(device) < devices().size();
}

struct Attribute {
  int id, value;
};
// Those of an H100, under the numbers of CUdevice_attribute.
constexpr Attribute kAttributes[] = {
    {1, 1024},         // threads in a block
    {2, 1024},         // extent of a block: x
    {3, 1024},         // y
    {4, 64},           // z
    {5, 2147483647},   // extent of a grid: x
    {6, 65535},        // y
    {7, 65535},        // z
    {8, 49152},        // shared memory of a block
    {9, 65536},        // constant memory
    {10, 32},          // warp
    {11, 2147483647},  // pitch
    {12, 65536},       // registers of a block
    {13, 1980000},     // clock, kHz
    {16, 132},         // multiprocessors
    {17, 0},           // limit on the time of kernels
    {18, 0},           // integrated
    {19, 1},           // can map memory of the host
    {20, 0},           // compute mode
    {31, 1},           // concurrent kernels
    {32, 1},           // memory with error correction
    {33, 1},           // PCI bus
    {35, 0},           // TCC driver
    {36, 2619000},     // clock of the memory, kHz
    {37, 5120},        // width of the memory's bus
    {38, 52428800},    // L2 cache
    {39, 2048},        // threads of a multiprocessor
    {40, 3},           // copy engines
    {41, 1},           // one address space
    {50, 0},           // PCI domain
    {75, 9},           // compute capability: major
    {76, 0},           // minor
    {78, 1},           // priorities of streams
    {79, 1},           // L1 cache of global memory
    {80, 1},           // of local memory
    {81, 233472},      // shared memory of a multiprocessor
    {82, 65536},       // registers of a multiprocessor
    {83, 1},           // managed memory
    {89, 1},           // managed memory that is used from both sides
    {95, 0},           // cooperative launches
    {97, 232448},      // shared memory of a block that asks for it
    {106, 32},         // blocks of a multiprocessor
    {111, 1024},       // reserved shared memory of a block
    {115, 0},          // memory pools
};
constexpr int kPciDevice = 34;

struct Error {
  Result result;
  const char *name, *text;
};
constexpr Error kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kIllegalState, "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kAssert, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {kAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {kNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {kCaptureMerge, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {kCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {kCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {kCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

const Error* find_error(Result result) {
  for (const Error& error : kErrors)
    if (error.result == result) return &error;
  return nullptr;
}

std::mutex& lock() {
  // Never destroyed: threads of the host may be inside when the process ends.
  static std::mutex& only = *new std::mutex;
  return only;
}

}  // namespace

Inside::Inside() { lock().lock(); }
Inside::~Inside() {
  close_memory();
  lock().unlock();
}

ContextHandle current() { return current_context; }

std::vector<ContextTag>& devices() {
  static std::vector<ContextTag>& all = *new std::vector<ContextTag>;
  return all;
}

Result take_error(ContextTag& context) {
  check_bounds({});
  return std::exchange(context.error, kSuccess);
}

void report(ContextTag& context, Result error, const std::string& message) {
  std::fprintf(stderr, "CUDA emulator: %s\n", message.c_str());
  if (context.error == kSuccess) context.error = error;
}

extern "C" {

Result cuInit(unsigned flags) {
  const Inside inside;
  if (flags != 0) return kInvalidValue;
  if (!is_started) {
    const size_t count = number_from_environment("TAPEGRAD_EMULATED_DEVICES", 2);
    const size_t total = number_from_environment("TAPEGRAD_EMULATED_MEMORY", size_t{1} << 30);
    devices() = std::vector<ContextTag>(count);
    for (size_t i = 0; i < count; ++i) {
      ContextTag& context = devices()[i];
      context.index = static_cast<int>(i);
      context.total = total;
      context.streams.emplace_back(new StreamTag{&context, true, true, {}});
      context.null_stream = context.streams.front().get();
    }
    is_started = true;
  }
  return devices().empty() ? kNoDevice : kSuccess;
}

Result cuDriverGetVersion(int* version) {
  *version = 12080;
  return kSuccess;
}

Result cuDeviceGetCount(int* count) {
  if (!is_started) return kNotInitialized;
  *count = static_cast<int>(devices().size());
  return kSuccess;
}

Result cuDeviceGet(DeviceHandle* device, int index) {
  if (!is_started) return kNotInitialized;
  if (!is_device(index)) return kInvalidDevice;
  *device = index;
  return kSuccess;
}

Result cuDeviceGetName(char* name, int length, DeviceHandle device) {
  if (!is_device(device)) return kInvalidDevice;
  if (length < 1) return kInvalidValue;
  std::snprintf(name, static_cast<size_t>(length), "Emulated GPU");
  return kSuccess;
}

Result cuDeviceGetUuid(char* sixteen_bytes, DeviceHandle device) {
  if (!is_device(device)) return kInvalidDevice;
  std::memcpy(sixteen_bytes, "emulated device", 16);
  sixteen_bytes[15] = static_cast<char>(device);
  return kSuccess;
}

Result cuDeviceGetAttribute(int* value, int attribute, DeviceHandle device) {
  if (!is_device(device)) return kInvalidDevice;
  if (attribute == kPciDevice) {
    *value = device;
    return kSuccess;
  }
  for (const Attribute& each : kAttributes)
    if (each.id == attribute) {
      *value = each.value;
      return kSuccess;
    }
  return kInvalidValue;
}

Result cuDeviceTotalMem_v2(size_t* bytes, DeviceHandle device) {
  if (!is_device(device)) return kInvalidDevice;
  *bytes = devices()[static_cast<size_t>(device)].total;
  return kSuccess;
}

Result cuDeviceCanAccessPeer(int* can, DeviceHandle device, DeviceHandle peer) {
  if (!is_device(device) || !is_device(peer)) return kInvalidDevice;
  *can = device != peer;
  return kSuccess;
}

Result cuDevicePrimaryCtxRetain(ContextHandle* context, DeviceHandle device) {
  if (!is_started) return kNotInitialized;
  if (!is_device(device)) return kInvalidDevice;
  *context = &devices()[static_cast<size_t>(device)];
  return kSuccess;
}

Result cuCtxSetCurrent(ContextHandle context) {
  if (!is_started) return kNotInitialized;
  current_context = context;
  return kSuccess;
}

Result cuCtxSynchronize() {
  count_wait();
  const Inside inside;
  if (!current()) return kInvalidContext;
  if (const Result result = check_wait(*current())) return result;
  run_all(*current());
  return take_error(*current());
}

Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (!current()) return kInvalidContext;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return kSuccess;
}

Result cuGetErrorName(Result result, const char** name) {
  const Error* error = find_error(result);
  *name = error ? error->name : nullptr;
  return error ? kSuccess : kInvalidValue;
}

Result cuGetErrorString(Result result, const char** text) {
  const Error* error = find_error(result);
  *text = error ? error->text : nullptr;
  return error ? kSuccess : kInvalidValue;
}

}  // extern "C"

}  // namespace tapegrad::cuda
