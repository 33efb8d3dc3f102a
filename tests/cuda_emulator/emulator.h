// The emulator's own state: what stands behind the handles of the driver.
//
// One lock is held in every function of the driver, also while kernels run: at any time at most one
// thread of the host is inside. Nothing below locks by itself. Memory of devices is out of the host's
// reach but while work runs there: code of the product that follows an address of a device crashes,
// as it does beside a GPU.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/driver.h"
#include "interface.h"

namespace tapegrad::cuda {

// Of CUresult, what the emulator returns.
enum : Result {
  kInvalidValue = 1,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kIllegalAddress = 700,
  kAssert = 710,
  kMisalignedAddress = 716,
  kLaunchFailed = 719,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureMerge = 902,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCaptureImplicit = 906,
  kCapturedEvent = 907,
  kCaptureWrongThread = 908,
};

struct ContextTag {  // a device and its only context
  int index = 0;
  size_t total = 0, used = 0;
  StreamHandle null_stream = nullptr;
  std::vector<std::unique_ptr<StreamTag>> streams;
  Result error = kSuccess;  // of work that ran since the last synchronisation
};

// A place in a stream that can be waited for.
struct Record {
  StreamHandle stream;
  uint64_t sequence;
  bool done = false, was_asked_for = false;
  std::chrono::steady_clock::time_point time;
};

struct Work {
  uint64_t sequence;  // the order in which the host asked for work, over all streams
  std::function<void()> run;
  std::shared_ptr<Record> waits_for;
};

// Work that was captured, and what it comes after, by number.
struct GraphNode {
  std::function<void()> run;
  std::vector<size_t> after;
};

struct GraphTag {
  ContextHandle context;
  std::vector<GraphNode> nodes;
};

struct GraphExecTag {
  ContextHandle context;
  std::shared_ptr<const std::vector<GraphNode>> nodes;
};

// A capture that is going on.
struct CaptureTag {
  StreamHandle origin = nullptr;
  int mode = 0;
  std::thread::id thread;
  bool is_valid = true;
  std::vector<GraphNode> nodes;
};

struct StreamTag {
  ContextHandle context;
  bool is_null, is_blocking;
  std::deque<Work> queue;
  bool was_asked_for = false;
  std::shared_ptr<CaptureTag> capture;  // null where work runs
  std::vector<size_t> tail;             // what captured work comes after
};

struct EventTag {
  ContextHandle context;
  bool has_time;
  std::shared_ptr<Record> record;
  std::shared_ptr<CaptureTag> capture;  // where it was recorded in one
  std::vector<size_t> tail;
};

struct FunctionTag {
  ModuleHandle module;
  std::string name;
  const tapegrad_emulator::Kernel* kernel;
  unsigned shared_limit;
};

struct ModuleTag {
  ContextHandle context;
  std::string image;
  void* library = nullptr;
  tapegrad_emulator::Context* state = nullptr;
  tapegrad_emulator::Range variables;     // code and constants as well
  size_t tls_module = 0, tls_nbytes = 0;  // where its static shared memory lies
  std::map<std::string, std::unique_ptr<FunctionTag>> functions;
};

// ---- devices.cpp

// Stands in every function of the driver: holds the lock, and leaves no memory of a device open.
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};
// The current context, or null.
ContextHandle current();
// Null before cuInit.
std::vector<ContextTag>& devices();
// The error of the work that ran in a context, once.
Result take_error(ContextTag& context);
// Says on stderr what went wrong, and keeps the error for the next synchronisation.
void report(ContextTag& context, Result error, const std::string& message);

// ---- memory.cpp

// Lets this process reach the memory of devices, and no longer; what is done already costs nothing.
void open_memory();
void close_memory();
enum class Memory { kPageable, kPinned, kDevice, kFreed };
// What a range of addresses is; nothing where it begins in device memory and ends outside of it.
bool classify(DevicePointer data, size_t nbytes, Memory* memory);
// Looks for writes outside of what was allocated; `culprit` is what ran last, or empty.
void check_bounds(const std::string& culprit);
// Whether checking after every launch is cheap.
bool has_few_allocations();
// What is known about an address of device memory, for a message.
std::string describe_address(const void* address);
// The memory at an address that kernels of a device may use: its own, and pinned memory of the host.
tapegrad_emulator::Range find_memory(const void* address, const ContextTag& context);

// ---- streams.cpp

inline constexpr uint64_t kEverything = std::numeric_limits<uint64_t>::max();

// The stream behind a handle; null where it is not one of the current context.
StreamHandle find_stream(StreamHandle handle);
// Queues work; returns its sequence number.
uint64_t enqueue(StreamTag& stream, std::function<void()> run,
                 std::shared_ptr<Record> waits_for = nullptr);
// Runs the work of a stream that was asked for before `limit`, and all that it waits for.
void run_until(StreamTag& stream, uint64_t limit);
// Counts a call that makes the host wait for a device, whether or not there was anything to wait for.
void count_wait();
// Runs all work of a context, or of all.
void run_all(ContextTag& context);
void run_all();

// ---- graphs.cpp

// Ends captures that do not allow a call which might wait for streams; returns the error, or success.
Result check_unsafe();
// Before the host waits for a device or a stream, or asks whether it is done.
Result check_wait(const ContextTag& context);
Result check_wait(StreamTag& stream);
// Before work is put into a stream.
Result check_work(StreamTag& stream);
Result invalidate(CaptureTag& capture, Result error);
void add_node(StreamTag& stream, std::function<void()> run);
Result wait_for_captured(StreamTag& stream, const EventTag& event);

// ---- activity.cpp

enum ActivityRecord : int { kCopyRecord = 1, kFillRecord = 2, kKernelRecord = 10 };
enum CallNumber : int { kLaunchCall, kCopyCall, kFillCall };
// What CUPTI tells of a piece of work.
struct Reported {
  ActivityRecord kind;
  const char* name = nullptr;  // of a kernel
  size_t nbytes = 0;           // of a copy or a fill
  int way = 0;                 // of a copy
};
// A call of the driver, which CUPTI tells of when it ends.
class DriverCall {
 public:
  explicit DriverCall(int number);
  ~DriverCall();
  DriverCall(const DriverCall&) = delete;
  DriverCall& operator=(const DriverCall&) = delete;
  // Work of a stream that the call asks for, and that CUPTI tells of when it has run.
  std::function<void()> reported(const Reported& what, StreamTag& stream,
                                 std::function<void()> run) const;

 private:
  int number_;
  uint64_t start_;
  uint32_t correlation_;
};

// ---- lines.cpp

// The line of a kernel's text that an address of code belongs to; empty where nobody knows.
std::string describe_code(const ModuleTag& module, const void* code);

// ---- fibers.cpp

struct Launch {
  FunctionHandle function;
  tapegrad_emulator::Index grid, block;
  unsigned shared_nbytes;
  const unsigned char* arguments;
  size_t arguments_nbytes;
};
// Runs a grid on the CPU; returns an error and describes it.
Result run_grid(const Launch& launch, std::string* message);

#define TAPEGRAD_EMULATOR_DECLARE(SYMBOL, NAME, PARAMETERS) extern "C" Result SYMBOL PARAMETERS;
TAPEGRAD_CUDA_FUNCTIONS(TAPEGRAD_EMULATOR_DECLARE)
#undef TAPEGRAD_EMULATOR_DECLARE

}  // namespace tapegrad::cuda
