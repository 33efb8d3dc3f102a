// CUPTI's part that profiles use: records of kernels, copies and fills, of the driver's calls that asked for them,
// and of the numbers that a program had put on its stacks then. Records lie as CUPTI 12 and 13 write them.
//
// Its clock is not that of the program, as CUPTI's is not. TAPEGRAD_EMULATED_CUPTI=busy, read at each call that
// enables something, refuses as CUPTI does while another profiler uses it.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "emulator.h"

namespace tapegrad::cuda {

namespace {

enum Status : int {
  kFine = 0,
  kBadParameter = 1,
  kEndOfRecords = 12,
  kEmptyStack = 26,
  kBusy = 39
};
enum : int { kDriverRecord = 4, kRuntimeRecord = 5, kExternalRecord = 39, kMostKinds = 64 };
constexpr int kStacks = 7;
constexpr size_t kMostBytes = 256;  // of a record

using RequestBuffer = void (*)(uint8_t**, size_t*, size_t*);
using CompleteBuffer = void (*)(ContextHandle, uint32_t, uint8_t*, size_t, size_t);

RequestBuffer request = nullptr;
CompleteBuffer complete = nullptr;
bool is_enabled[kMostKinds] = {};
uint8_t* buffer = nullptr;
size_t buffer_nbytes = 0, filled = 0;
uint32_t last_correlation = 0;
thread_local std::vector<uint64_t> stacks[kStacks];

constexpr const char* kCalls[] = {"cuLaunchKernelEx", "cuMemcpyAsync", "cuMemsetD8Async"};

uint64_t now() {
  using namespace std::chrono;
  return static_cast<uint64_t>(
      duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count());
}

// How long the records of a kind are.
size_t record_nbytes(int kind) {
  switch (kind) {
    case kKernelRecord:
      return 208;
    case kCopyRecord:
    case kFillRecord:
      return 96;
    case kExternalRecord:
      return 24;
    default:
      return 40;
  }
}

void give_buffer_back() {
  if (buffer) complete(nullptr, 0, buffer, buffer_nbytes, filled);
  buffer = nullptr;
}

// A record of zeros, to be filled in; null where nobody wants it.
uint8_t* new_record(int kind) {
  if (!is_enabled[kind] || !request) return nullptr;
  if (buffer && filled + kMostBytes > buffer_nbytes) give_buffer_back();
  if (!buffer) {
    size_t most_records = 0;
    request(&buffer, &buffer_nbytes, &most_records);
    filled = 0;
    if (!buffer || buffer_nbytes < kMostBytes) return nullptr;
  }
  uint8_t* record = buffer + filled;
  filled += record_nbytes(kind);
  std::memset(record, 0, record_nbytes(kind));
  std::memcpy(record, &kind, sizeof kind);
  return record;
}

template <class T>
void put(uint8_t* record, size_t offset, T value) {
  std::memcpy(record + offset, &value, sizeof value);
}

uint32_t number_of(const StreamTag& stream) {
  const auto& streams = stream.context->streams;
  for (size_t k = 0; k < streams.size(); ++k)
    if (streams[k].get() == &stream) return static_cast<uint32_t>(k);
  return 0;
}

void write(const Reported& what, const StreamTag& stream, uint32_t correlation, uint64_t start) {
  uint8_t* record = new_record(what.kind);
  if (!record) return;
  const bool is_kernel = what.kind == kKernelRecord;
  put(record, 16, start);
  put(record, 24, now());
  put(record, is_kernel ? 40 : 32, static_cast<uint32_t>(stream.context->index));
  put(record, is_kernel ? 48 : 40, number_of(stream));
  put(record, is_kernel ? 92 : 44, correlation);
  if (is_kernel) put(record, 104, what.name);
  else put(record, 8, static_cast<uint64_t>(what.nbytes));
  if (what.kind == kCopyRecord) put(record, 4, static_cast<uint8_t>(what.way));
}

}  // namespace

DriverCall::DriverCall(int number)
    : number_(number), start_(now()), correlation_(++last_correlation) {
  for (int kind = 0; kind < kStacks; ++kind) {
    if (stacks[kind].empty()) continue;
    if (uint8_t* record = new_record(kExternalRecord)) {
      put(record, 4, kind);
      put(record, 8, stacks[kind].back());
      put(record, 16, correlation_);
    }
  }
}

DriverCall::~DriverCall() {
  uint8_t* record = new_record(kDriverRecord);
  if (!record) return;
  put(record, 4, number_);
  put(record, 8, start_);
  put(record, 16, now());
  put(record, 32, correlation_);
}

std::function<void()> DriverCall::reported(const Reported& what, StreamTag& stream,
                                           std::function<void()> run) const {
  if (!is_enabled[what.kind]) return run;
  return [what, &stream, run = std::move(run), correlation = correlation_] {
    const uint64_t start = now();
    run();
    write(what, stream, correlation, start);
  };
}

extern "C" {

int cuptiActivityRegisterCallbacks(RequestBuffer on_request, CompleteBuffer on_complete) {
  const Inside inside;
  if (!on_request || !on_complete) return kBadParameter;
  request = on_request;
  complete = on_complete;
  return kFine;
}

int cuptiActivityEnable(int kind) {
  const Inside inside;
  const char* state = std::getenv("TAPEGRAD_EMULATED_CUPTI");
  if (state && std::string_view(state) == "busy" && kind == kKernelRecord) return kBusy;
  if (kind < 0 || kind >= kMostKinds) return kBadParameter;
  is_enabled[kind] = true;
  return kFine;
}

int cuptiActivityDisable(int kind) {
  const Inside inside;
  if (kind < 0 || kind >= kMostKinds) return kBadParameter;
  is_enabled[kind] = false;
  return kFine;
}

int cuptiActivityFlushAll(uint32_t) {
  const Inside inside;
  give_buffer_back();
  return kFine;
}

int cuptiActivityGetNextRecord(uint8_t* records, size_t nbytes, void** record) {
  auto* next = static_cast<uint8_t*>(*record);
  if (next) {
    int kind;
    std::memcpy(&kind, next, sizeof kind);
    next += record_nbytes(kind);
  } else {
    next = records;
  }
  if (next >= records + nbytes) return kEndOfRecords;
  *record = next;
  return kFine;
}

int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id) {
  if (kind < 0 || kind >= kStacks) return kBadParameter;
  stacks[kind].push_back(id);
  return kFine;
}

int cuptiActivityPopExternalCorrelationId(int kind, uint64_t* id) {
  if (kind < 0 || kind >= kStacks) return kBadParameter;
  if (stacks[kind].empty()) return kEmptyStack;
  *id = stacks[kind].back();
  stacks[kind].pop_back();
  return kFine;
}

int cuptiGetTimestamp(uint64_t* nanoseconds) {
  *nanoseconds = now();
  return kFine;
}

int cuptiGetCallbackName(int, uint32_t number, const char** name) {
  if (number >= std::size(kCalls)) return kBadParameter;
  *name = kCalls[number];
  return kFine;
}

int cuptiGetResultString(int status, const char** text) {
  *text = status == kBusy ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "CUPTI_ERROR";
  return kFine;
}

}  // extern "C"

}  // namespace tapegrad::cuda
