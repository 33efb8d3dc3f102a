#include "cuda/kernel_errors.h"

#include <vector>

#include "core/error.h"
#include "core/source.h"
#include "cuda/context.h"

namespace tapegrad::cuda {

namespace {

constexpr unsigned kPortable = 1, kMapped = 2;  // flags of cuMemHostAlloc
constexpr int kElementBits = 47, kCallBits = 16;
constexpr uint64_t kReported = uint64_t{1} << 63;

struct Launch {
  KernelError error;
  SourceLine line;  // of the program
};

struct Reports {
  uint64_t* word = nullptr;  // never freed: kernels may write to it until the process ends
  uint64_t calls = 0;
  std::vector<Launch> launches;  // by the number of the call
};

Reports& reports_of(int device) {
  static auto* all = new Reports[kMostDevices];
  return all[device];
}

}  // namespace

ErrorPlace error_place(int device, const KernelError& error) {
  Reports& reports = reports_of(device);
  if (!reports.word) {
    const DeviceGuard guard(device);
    void* word;
    check(driver().allocate_host(&word, sizeof(uint64_t), kPortable | kMapped), "cuda");
    reports.word = static_cast<uint64_t*>(word);
    *reports.word = 0;
    reports.launches.resize(size_t{1} << kCallBits);
  }
  const uint64_t call = reports.calls++ & ((uint64_t{1} << kCallBits) - 1);
  Launch& launch = reports.launches[call];
  launch.error = error;
  launch.line = SourceLine::here();
  return {reports.word, kReported | call << kElementBits};
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
