// NVIDIA's driver, loaded at run time: no header and no library of CUDA is needed to build.
//
// What is declared here of its interface is stable: the driver keeps old entry points for programs
// that were built with them. Handles are pointers to what nobody looks into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "core/device.h"
#include "core/error.h"

namespace tapegrad::cuda {

using Result = int;  // CUresult; zero is success
using DevicePointer = unsigned long long;
using DeviceHandle = int;
using ContextHandle = struct ContextTag*;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;
using ModuleHandle = struct ModuleTag*;
using FunctionHandle = struct FunctionTag*;
using GraphHandle = struct GraphTag*;
using GraphExecHandle = struct GraphExecTag*;
using GraphNodeHandle = struct GraphNodeTag*;

// Of CUresult, what is asked for by name.
inline constexpr Result kSuccess = 0, kOutOfMemory = 2, kInvalidDevice = 101, kNotReady = 600;

// What a launch is told, as cuda.h has it (CUlaunchConfig, CUlaunchAttribute).
struct LaunchAttribute {
  int id, padding;
  int value;
  char further_values[60];
};
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  StreamHandle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

// name in the library, name in the table, parameters
#define TAPEGRAD_CUDA_FUNCTIONS(F)                                                                 \
  F(cuInit, init, (unsigned flags))                                                                \
  F(cuDriverGetVersion, get_version, (int* version))                                               \
  F(cuDeviceGetCount, get_device_count, (int* count))                                              \
  F(cuDeviceGet, get_device, (DeviceHandle * device, int index))                                   \
  F(cuDeviceGetName, get_device_name, (char* name, int length, DeviceHandle device))               \
  F(cuDeviceGetUuid, get_device_uuid, (char* sixteen_bytes, DeviceHandle device))                  \
  F(cuDeviceGetAttribute, get_device_attribute, (int* value, int attribute, DeviceHandle device))  \
  F(cuDeviceTotalMem_v2, get_device_memory, (size_t* bytes, DeviceHandle device))                  \
  F(cuDeviceCanAccessPeer, can_access_peer, (int* can, DeviceHandle device, DeviceHandle peer))    \
  F(cuDevicePrimaryCtxRetain, retain_context, (ContextHandle * context, DeviceHandle device))      \
  F(cuCtxSetCurrent, set_context, (ContextHandle context))                                         \
  F(cuCtxSynchronize, synchronize_context, ())                                                     \
  F(cuMemGetInfo_v2, get_memory_info, (size_t* free, size_t* total))                               \
  F(cuMemAlloc_v2, allocate, (DevicePointer * data, size_t nbytes))                                \
  F(cuMemFree_v2, free, (DevicePointer data))                                                      \
  F(cuMemHostAlloc, allocate_host, (void** data, size_t nbytes, unsigned flags))                   \
  F(cuMemFreeHost, free_host, (void* data))                                                        \
  F(cuMemHostRegister_v2, register_host, (void* data, size_t nbytes, unsigned flags))              \
  F(cuMemHostUnregister, unregister_host, (void* data))                                            \
  F(cuPointerGetAttribute, get_pointer_attribute, (void* value, int attribute, DevicePointer p))   \
  F(cuMemcpyAsync, copy,                                                                           \
    (DevicePointer to, DevicePointer from, size_t nbytes, StreamHandle stream))                    \
  F(cuMemsetD8Async, fill_bytes,                                                                   \
    (DevicePointer data, unsigned char value, size_t count, StreamHandle stream))                  \
  F(cuStreamCreateWithPriority, create_stream,                                                     \
    (StreamHandle * stream, unsigned flags, int priority))                                         \
  F(cuCtxGetStreamPriorityRange, get_stream_priorities, (int* least, int* greatest))               \
  F(cuStreamSynchronize, synchronize_stream, (StreamHandle stream))                                \
  F(cuStreamQuery, query_stream, (StreamHandle stream))                                            \
  F(cuStreamWaitEvent, make_stream_wait, (StreamHandle stream, EventHandle event, unsigned flags)) \
  F(cuEventCreate, create_event, (EventHandle * event, unsigned flags))                            \
  F(cuEventRecord, record_event, (EventHandle event, StreamHandle stream))                         \
  F(cuEventQuery, query_event, (EventHandle event))                                                \
  F(cuEventSynchronize, synchronize_event, (EventHandle event))                                    \
  F(cuEventElapsedTime, get_elapsed_time,                                                          \
    (float* milliseconds, EventHandle start, EventHandle end))                                     \
  F(cuEventDestroy_v2, destroy_event, (EventHandle event))                                         \
  F(cuModuleLoadData, load_module, (ModuleHandle * module, const void* image))                     \
  F(cuModuleGetFunction, get_function,                                                             \
    (FunctionHandle * function, ModuleHandle module, const char* name))                            \
  F(cuFuncSetAttribute, set_function_attribute,                                                    \
    (FunctionHandle function, int attribute, int value))                                           \
  F(cuLaunchKernelEx, launch,                                                                      \
    (const LaunchConfig* config, FunctionHandle function, void** parameters, void** extra))        \
  F(cuStreamBeginCapture_v2, begin_capture, (StreamHandle stream, int mode))                       \
  F(cuStreamEndCapture, end_capture, (StreamHandle stream, GraphHandle * graph))                   \
  F(cuStreamIsCapturing, is_stream_capturing, (StreamHandle stream, int* status))                  \
  F(cuThreadExchangeStreamCaptureMode, exchange_capture_mode, (int* mode))                         \
  F(cuGraphInstantiateWithFlags, instantiate_graph,                                                \
    (GraphExecHandle * exec, GraphHandle graph, unsigned long long flags))                         \
  F(cuGraphLaunch, launch_graph, (GraphExecHandle exec, StreamHandle stream))                      \
  F(cuGraphGetNodes, get_graph_nodes, (GraphHandle graph, GraphNodeHandle * nodes, size_t* count)) \
  F(cuGraphDebugDotPrint, print_graph, (GraphHandle graph, const char* path, unsigned flags))      \
  F(cuGraphDestroy, destroy_graph, (GraphHandle graph))                                            \
  F(cuGraphExecDestroy, destroy_graph_exec, (GraphExecHandle exec))                                \
  F(cuGetErrorName, get_error_name, (Result result, const char** name))                            \
  F(cuGetErrorString, get_error_text, (Result result, const char** text))

struct Driver {
#define TAPEGRAD_CUDA_MEMBER(SYMBOL, NAME, PARAMETERS) Result(*NAME) PARAMETERS = nullptr;
  TAPEGRAD_CUDA_FUNCTIONS(TAPEGRAD_CUDA_MEMBER)
#undef TAPEGRAD_CUDA_MEMBER
};

// The driver's table. Loads it and initialises CUDA when first asked; throws RuntimeError that names what is
// missing, at each call. Refuses in a process that was forked from one that had used CUDA.
const Driver& driver();
// Whether there is a driver with at least one device; why_unavailable() is empty, or the reason.
bool is_available();
const std::string& why_unavailable();
// Whether the driver has been initialised in this process, by anybody asking for it here.
bool is_initialized();

struct AcceleratorError : Error {  // torch.AcceleratorError, a RuntimeError
  AcceleratorError(std::string text, Result code) : Error(std::move(text)), code(code) {}
  Result code;
};

// Throws AcceleratorError "what: CUDA error: text (NAME)" unless a call succeeded.
void check(Result result, const char* what);

}  // namespace tapegrad::cuda
