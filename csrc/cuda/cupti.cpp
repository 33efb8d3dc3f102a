// CUPTI, loaded at run time: no header of it is needed to build.
//
// What is read of its records has been at the same place since CUDA 11, and is checked by size and kind only as far
// as that goes: a record of another kind is skipped. CUPTI gives an activity the number of the driver's call that
// asked for it ("correlation"), and tells which numbers of ours were on top of the thread's stacks then
// ("external correlation"). There are two stacks: the call of the profile, and the kernel that is launched, because
// all kernels of this library are called "kernel".
//
// CUPTI serves one user in a process, so one profile at a time watches by it.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "cuda/capturing.h"
#include "cuda/context.h"
#include "cuda/launch.h"
#include "cuda/profile.h"

namespace tapegrad::cuda {

namespace {

using Status = int;  // CUptiResult; zero is success
using RequestBuffer = void (*)(uint8_t** buffer, size_t* nbytes, size_t* most_records);
using CompleteBuffer = void (*)(ContextHandle, uint32_t, uint8_t* buffer, size_t, size_t filled);

// name in the library, name in the table, parameters
#define TAPEGRAD_CUPTI_FUNCTIONS(F)                                                           \
  F(cuptiActivityRegisterCallbacks, register_callbacks, (RequestBuffer, CompleteBuffer))      \
  F(cuptiActivityEnable, enable, (int kind))                                                  \
  F(cuptiActivityDisable, disable, (int kind))                                                \
  F(cuptiActivityFlushAll, flush, (uint32_t flag))                                            \
  F(cuptiActivityGetNextRecord, next_record, (uint8_t* buffer, size_t filled, void** record)) \
  F(cuptiActivityPushExternalCorrelationId, push, (int kind, uint64_t id))                    \
  F(cuptiActivityPopExternalCorrelationId, pop, (int kind, uint64_t* id))                     \
  F(cuptiGetTimestamp, get_time, (uint64_t* nanoseconds))                                     \
  F(cuptiGetCallbackName, get_name, (int domain, uint32_t number, const char** name))         \
  F(cuptiGetResultString, get_text, (Status status, const char** text))

struct Functions {
#define TAPEGRAD_CUPTI_MEMBER(SYMBOL, NAME, PARAMETERS) Status(*NAME) PARAMETERS = nullptr;
  TAPEGRAD_CUPTI_FUNCTIONS(TAPEGRAD_CUPTI_MEMBER)
#undef TAPEGRAD_CUPTI_MEMBER
};

enum RecordKind : int {
  kCopy = 1,
  kFill = 2,
  kDriverCall = 4,
  kRuntimeCall = 5,
  kKernel = 10,
  kExternal = 39
};
// In the order in which they are asked for.
constexpr int kKinds[] = {kExternal, kKernel, kCopy, kFill, kDriverCall, kRuntimeCall};
enum Stack : int {
  kCalls = 3,
  kKernels = 4
};  // kinds of external correlation that are free to use
constexpr int kDriverDomain = 1, kRuntimeDomain = 2;
constexpr uint32_t kFlushForced = 1;
constexpr size_t kBufferBytes = size_t{4} << 20;

template <class T>
T read(const void* record, size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(record) + offset, sizeof value);
  return value;
}

int64_t now() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

// ---- the library

class Library {
 public:
  Library() {
    if (!find_cupti) return;
    for (const std::string& path : find_cupti()) {
      reason_ = load(path);
      if (reason_.empty()) return;
    }
  }
  const std::string& reason() const { return reason_; }
  Functions functions;

 private:
  std::string load(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return dlerror();
    Functions found;
#define TAPEGRAD_CUPTI_LOAD(SYMBOL, NAME, PARAMETERS)                           \
  found.NAME = reinterpret_cast<decltype(found.NAME)>(dlsym(library, #SYMBOL)); \
  if (!found.NAME) return concat(path, " has no function " #SYMBOL);
    TAPEGRAD_CUPTI_FUNCTIONS(TAPEGRAD_CUPTI_LOAD)
#undef TAPEGRAD_CUPTI_LOAD
    functions = found;
    return {};
  }

  std::string reason_ = "CUPTI was not found";
};

const Library& library() {
  static const Library& only = *new Library;
  return only;
}
const Functions& cupti() { return library().functions; }

std::string describe(const char* what, Status status) {
  const char* text = nullptr;
  if (cupti().get_text(status, &text) || !text) text = "an unknown error";
  return concat(what, " failed: ", text, " (", status, ")");
}

// ---- buffers, which threads of CUPTI fill

struct Buffers {
  std::mutex lock;
  std::vector<std::pair<uint8_t*, size_t>> filled;
};
Buffers& buffers = *new Buffers;

void request_buffer(uint8_t** buffer, size_t* nbytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::malloc(kBufferBytes));
  *nbytes = *buffer ? kBufferBytes : 0;
  *most_records = 0;  // as many as fit
}

void complete_buffer(ContextHandle, uint32_t, uint8_t* buffer, size_t, size_t filled) {
  const std::lock_guard held(buffers.lock);
  buffers.filled.emplace_back(buffer, filled);
}

std::vector<std::pair<uint8_t*, size_t>> take_buffers() {
  const std::lock_guard held(buffers.lock);
  return std::exchange(buffers.filled, {});
}

void free_buffers() {
  for (const auto& [buffer, filled] : take_buffers()) std::free(buffer);
}

// ---- watching

bool is_watching = false;  // under the GIL

void note_launch(FunctionHandle kernel, bool begins) {
  uint64_t last;
  if (begins) cupti().push(kKernels, reinterpret_cast<uint64_t>(kernel));
  else cupti().pop(kKernels, &last);
}

class ActivityTimes final : public CudaTimes {
 public:
  // Throws RuntimeError where CUPTI refuses.
  ActivityTimes() {
    static const Status registered = cupti().register_callbacks(request_buffer, complete_buffer);
    TAPEGRAD_CHECK(!registered, describe("asking for CUPTI's records", registered));
    free_buffers();
    clock_ = sample();
    for (const int kind : kKinds) {
      const Status status = cupti().enable(kind);
      if (status) disable();
      TAPEGRAD_CHECK(!status, describe("watching by CUPTI", status));
      ++enabled_;
    }
    is_watching = true;
    launch_watch = note_launch;
  }
  ~ActivityTimes() override { stop(); }

  void begin(Device device, int64_t call) override {
    is_used_[device.index] = true;
    cupti().push(kCalls, static_cast<uint64_t>(call));
  }
  void end() noexcept override {
    uint64_t last;
    cupti().pop(kCalls, &last);
  }

  std::vector<DeviceActivity> finish() override {
    if (has_started()) is_used_[current_device()] = true;
    for (int device = 0; device < kMostDevices; ++device) {
      const AskedWait asked;
      if (is_used_[device] && !capture_underway) synchronize(device);
    }
    {
      const BlockingSection others_run;
      cupti().flush(kFlushForced);
    }
    const ClockPair last = sample();
    stop();
    std::vector<DeviceActivity> found = parse(last);
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.start < b.start; });
    return found;
  }

  bool sees_kernels() const override { return true; }

 private:
  // CUPTI's clock and ours at one moment.
  struct ClockPair {
    int64_t theirs = 0, ours = 0;
  };
  struct Numbers {
    int64_t call = -1;
    uint64_t kernel = 0;
  };

  // The pair whose reading took the least time.
  static ClockPair sample() {
    ClockPair best;
    int64_t least = INT64_MAX;
    for (int repeat = 0; repeat < 10; ++repeat) {
      uint64_t theirs = 0;
      const int64_t before = now();
      cupti().get_time(&theirs);
      const int64_t after = now();
      if (after - before >= least) continue;
      least = after - before;
      best = {static_cast<int64_t>(theirs), before + least / 2};
    }
    return best;
  }

  void disable() noexcept {
    while (enabled_ > 0) cupti().disable(kKinds[--enabled_]);
  }
  void stop() noexcept {
    if (!enabled_) return;
    disable();
    launch_watch = nullptr;
    is_watching = false;
  }

  std::vector<DeviceActivity> parse(const ClockPair& last) {
    std::vector<DeviceActivity> found, calls;
    std::unordered_map<uint32_t, Numbers> numbers;
    const auto filled = take_buffers();
    for (const auto& [buffer, nbytes] : filled) {
      void* record = nullptr;
      while (cupti().next_record(buffer, nbytes, &record) == 0)
        read_record(record, &found, &calls, &numbers);
    }
    for (DeviceActivity& activity : found) {
      const auto known = numbers.find(static_cast<uint32_t>(activity.launch));
      if (known == numbers.end()) continue;
      activity.call = known->second.call;
      if (known->second.kernel && activity.kind == DeviceActivity::Kind::Kernel)
        activity.name = kernel_description(reinterpret_cast<FunctionHandle>(known->second.kernel));
    }
    keep_launches(found, calls);
    found.insert(found.end(), std::make_move_iterator(calls.begin()),
                 std::make_move_iterator(calls.end()));
    for (DeviceActivity& activity : found) {
      activity.start = on_our_clock(activity.start, last);
      activity.end = on_our_clock(activity.end, last);
    }
    for (const auto& [buffer, nbytes] : filled) std::free(buffer);
    return found;
  }

  // Of the calls of the driver, those that asked a device for something.
  static void keep_launches(const std::vector<DeviceActivity>& found,
                            std::vector<DeviceActivity>& calls) {
    std::unordered_map<uint64_t, int64_t> asked;
    for (const DeviceActivity& activity : found) asked.emplace(activity.launch, activity.call);
    std::erase_if(calls, [&](DeviceActivity& call) {
      const auto what = asked.find(call.launch);
      if (what == asked.end()) return true;
      call.call = what->second;
      return false;
    });
  }

  int64_t on_our_clock(int64_t theirs, const ClockPair& last) const {
    const double whole = static_cast<double>(last.theirs - clock_.theirs);
    const double part = whole > 0 ? static_cast<double>(theirs - clock_.theirs) / whole : 0;
    const int64_t drift = (last.ours - last.theirs) - (clock_.ours - clock_.theirs);
    return theirs + (clock_.ours - clock_.theirs) +
           static_cast<int64_t>(part * static_cast<double>(drift));
  }

  static void read_record(const void* record, std::vector<DeviceActivity>* found,
                          std::vector<DeviceActivity>* calls,
                          std::unordered_map<uint32_t, Numbers>* numbers) {
    const int kind = read<int>(record, 0);
    if (kind == kExternal) {
      Numbers& of_launch = (*numbers)[read<uint32_t>(record, 16)];
      const uint64_t number = read<uint64_t>(record, 8);
      if (read<int>(record, 4) == kCalls) of_launch.call = static_cast<int64_t>(number);
      else if (read<int>(record, 4) == kKernels) of_launch.kernel = number;
    } else if (kind == kKernel) {
      found->push_back(kernel_of(record));
    } else if (kind == kCopy || kind == kFill) {
      found->push_back(move_of(record, kind));
    } else if (kind == kDriverCall || kind == kRuntimeCall) {
      calls->push_back(call_of(record, kind));
    }
  }

  static DeviceActivity kernel_of(const void* record) {
    DeviceActivity activity;
    activity.start = read<int64_t>(record, 16);
    activity.end = read<int64_t>(record, 24);
    activity.device = read<int>(record, 40);
    activity.stream = read<uint32_t>(record, 48);
    activity.launch = read<uint32_t>(record, 92);
    const auto* name = read<const char*>(record, 104);
    activity.name = name ? name : "kernel";
    return activity;
  }

  static DeviceActivity move_of(const void* record, int kind) {
    constexpr const char* kCopies[] = {"", "Memcpy HtoD", "Memcpy DtoH", "",           "", "", "",
                                       "", "Memcpy DtoD", "Memcpy HtoH", "Memcpy PtoP"};
    DeviceActivity activity;
    activity.kind = kind == kCopy ? DeviceActivity::Kind::Copy : DeviceActivity::Kind::Fill;
    activity.nbytes = read<int64_t>(record, 8);
    activity.start = read<int64_t>(record, 16);
    activity.end = read<int64_t>(record, 24);
    activity.device = read<int>(record, 32);
    activity.stream = read<uint32_t>(record, 40);
    activity.launch = read<uint32_t>(record, 44);
    const uint8_t way = read<uint8_t>(record, 4);
    const bool is_known = kind == kCopy && way < std::size(kCopies) && *kCopies[way];
    activity.name = is_known ? kCopies[way] : kind == kCopy ? "Memcpy" : "Memset";
    return activity;
  }

  static DeviceActivity call_of(const void* record, int kind) {
    DeviceActivity activity;
    activity.kind = DeviceActivity::Kind::Launch;
    activity.start = read<int64_t>(record, 8);
    activity.end = read<int64_t>(record, 16);
    activity.launch = read<uint32_t>(record, 32);
    const char* name = nullptr;
    const int domain = kind == kDriverCall ? kDriverDomain : kRuntimeDomain;
    if (cupti().get_name(domain, read<uint32_t>(record, 4), &name) || !name) name = "launch";
    activity.name = name;
    return activity;
  }

  size_t enabled_ = 0;               // how many of the kinds
  bool is_used_[kMostDevices] = {};  // by calls of the profile
  ClockPair clock_;
};

}  // namespace

std::unique_ptr<DeviceTimes> watch_by_cupti(std::string* reason) {
  if (!library().reason().empty()) {
    *reason = library().reason();
    return nullptr;
  }
  if (is_watching) {
    *reason = "another profile uses CUPTI";
    return nullptr;
  }
  try {
    return std::make_unique<ActivityTimes>();
  } catch (const Error& error) {
    *reason = error.what();
    return nullptr;
  }
}

}  // namespace tapegrad::cuda
