#include "cuda/kernel_errors.h"

#include <vector>

#include "core/error.h"
#include "core/source.h"
#include "cuda/capturing.h"
#include "cuda/context.h"

namespace tapegrad::cuda {

namespace {

constexpr unsigned kPortable = 1, kMapped = 2;  // flags of cuMemHostAlloc
constexpr int kElementBits = 47, kCallBits = 16;
constexpr uint64_t kReported = uint64_t{1} << 63;
// Numbers of calls that run once, in turn; those behind them are for captured calls. The last is that of all captured
// calls for which there is none left.
constexpr uint32_t kSingleCalls = 1 << 15, kCalls = 1 << kCallBits, kManyCalls = kCalls - 1;

struct Launch {
  KernelError error;
  SourceLine line;  // of the program
};

struct Reports {
  uint64_t* word = nullptr;  // never freed: kernels may write to it until the process ends
  uint64_t calls = 0;
  std::vector<Launch> launches;      // by the number of the call
  std::vector<uint32_t> free_calls;  // of those for captured calls
};
std::vector<uint32_t>* captured_calls = nullptr;

Reports& reports_of(int device) {
  static auto* all = new Reports[kMostDevices];
  return all[device];
}

[[noreturn]] void fail_one_of_many(const KernelError&, int64_t element) {
  fail("CUDAGraph.replay: a kernel of a graph met an element or an index that it cannot use: ",
       element);
}

uint32_t next_call(Reports& reports, int device) {
  if (!captured_calls || !is_capturing(device)) [[likely]]
    return static_cast<uint32_t>(reports.calls++ % kSingleCalls);
  if (reports.free_calls.empty()) return kManyCalls;
  captured_calls->push_back(reports.free_calls.back());
  reports.free_calls.pop_back();
  return captured_calls->back();
}

}  // namespace

void list_captured_calls(std::vector<uint32_t>* calls) { captured_calls = calls; }

void release_captured_calls(int device, const std::vector<uint32_t>& calls) {
  auto& free = reports_of(device).free_calls;
  free.insert(free.end(), calls.begin(), calls.end());
}

ErrorPlace error_place(int device, const KernelError& error) {
  Reports& reports = reports_of(device);
  if (!reports.word) {
    const DeviceGuard guard(device);
    const RelaxedCapture relaxed;
    void* word;
    check(driver().allocate_host(&word, sizeof(uint64_t), kPortable | kMapped), "cuda");
    reports.word = static_cast<uint64_t*>(word);
    *reports.word = 0;
    reports.launches.resize(kCalls);
    reports.launches[kManyCalls].error.fail = fail_one_of_many;
    for (uint32_t call = kManyCalls; call-- > kSingleCalls;) reports.free_calls.push_back(call);
  }
  const uint32_t call = next_call(reports, device);
  if (call != kManyCalls) {
    Launch& launch = reports.launches[call];
    launch.error = error;
    launch.line = SourceLine::here();
  }
  return {reports.word, kReported | uint64_t{call} << kElementBits};
}

void throw_kernel_errors(int device) {
  Reports& reports = reports_of(device);
  if (!reports.word) return;
  const uint64_t report = *static_cast<volatile uint64_t*>(reports.word);
  if (!report) return;
  *static_cast<volatile uint64_t*>(reports.word) = 0;
  const uint64_t call = report >> kElementBits & ((uint64_t{1} << kCallBits) - 1);
  // The element is signed.
  const auto element = static_cast<int64_t>(report << (64 - kElementBits)) >> (64 - kElementBits);
  const Launch& launch = reports.launches[call];
  try {
    launch.error.fail(launch.error, element);
  } catch (Error& error) {
    if (launch.line.known()) error.text += concat("; launched at ", launch.line.text());
    throw;
  }
}

void fail_index(const KernelError& error, int64_t element) {
  fail<IndexError>(error.op, ": index ", element, " is out of bounds for dimension ", error.dim,
                   " with size ", error.size);
}
void fail_index_at_run_time(const KernelError& error, int64_t element) {
  fail(error.op, ": index ", element, " is out of bounds for dimension ", error.dim, " with size ",
       error.size);
}

}  // namespace tapegrad::cuda
