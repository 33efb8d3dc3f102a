#include "cuda/meet.h"

#include <bit>

#include "core/error.h"
#include "cuda/launch.h"
#include "cuda/settings.h"

namespace tapegrad::cuda {

namespace {

constexpr int kThreads = 256;  // as in meet.cu
constexpr int64_t kTile = kThreads * 4;

// As meet.cu has it.
struct MeetArguments {
  int64_t count;
  void* out;
  const void* places;
  const void* values;
  void* heads;
  void* tails;
  uint64_t limit;
};

FunctionHandle find_kernel(const Meeting& meeting, bool across) {
  static auto& cache = *new KernelCache;
  const KeyType place = meeting.places();
  const uint64_t key = meeting.key() << 2 | uint64_t{place.nbytes == 8} << 1 | across;
  return cache.find(meeting.out.device().index, key, [&] {
    return concat("file meet.cu\nMeetArguments\n", across ? "meet_across<" : "meet<",
                  kernel_type(meeting.dtype), ", ", place.text, ", ", meeting.mode_text(), ">");
  });
}

}  // namespace

DType moved_dtype(DType dtype) {
  switch (itemsize(dtype)) {
    case 1:
      return DType::UInt8;
    case 2:
      return DType::Int16;
    case 4:
      return DType::Int32;
    default:
      return DType::Int64;
  }
}

Meeting::Meeting(const char* op, const TensorImpl& out, ScatterMode mode, int64_t count,
                 int64_t extent)
    : op(op),
      out(out),
      dtype(mode == ScatterMode::Set ? moved_dtype(out.dtype()) : out.dtype()),
      mode(mode),
      count(count),
      limit(static_cast<uint64_t>(extent) + 1) {}

bool Meeting::may_come_in_any_order() const {
  const bool is_word = dtype == DType::Int32 || dtype == DType::Int64;
  switch (mode) {
    case ScatterMode::Set:
      return !deterministic_algorithms;
    case ScatterMode::Add:
      return is_word ||
             (!deterministic_algorithms && (dtype == DType::Float32 || dtype == DType::Float64));
    case ScatterMode::Maximum:
    case ScatterMode::Minimum:
      return is_word;
    default:
      return false;
  }
}

const char* Meeting::mode_text() const {
  constexpr const char* kTexts[] = {"kSet", "kAdd", "kMultiply", "kMaximum", "kMinimum"};
  return kTexts[static_cast<int>(mode)];
}

uint64_t Meeting::key() const {
  return static_cast<uint64_t>(dtype) << 3 | static_cast<uint64_t>(mode);
}

Placed::Placed(const Meeting& meeting)
    : places(scratch(meeting.count * meeting.places().nbytes, meeting.out.device())),
      values(scratch(meeting.count * static_cast<int64_t>(itemsize(meeting.dtype)),
                     meeting.out.device())) {}

void meet(const Meeting& meeting, Placed placed) {
  const Device device = meeting.out.device();
  const auto item = static_cast<int>(itemsize(meeting.dtype));
  Placed sorted(meeting);
  radix_sort(meeting.op, device,
             {.type = meeting.places(),
              .rows = 1,
              .length = meeting.count,
              .bits = static_cast<int>(std::bit_width(meeting.limit)),
              .keys = placed.places->data(),
              .items = placed.values->data(),
              .item_nbytes = item,
              .keys_out = sorted.places->data(),
              .items_out = sorted.values->data()});
  const int64_t tiles = (meeting.count + kTile - 1) / kTile;
  const Tensor heads = scratch(tiles * 8, device), tails = scratch(tiles * 8, device);
  const MeetArguments arguments{meeting.count,         meeting.out.data(), sorted.places->data(),
                                sorted.values->data(), heads->data(),      tails->data(),
                                meeting.limit};
  launch_with(find_kernel(meeting, false), device.index, tiles, kThreads, arguments);
  if (tiles > 1)
    launch_with(find_kernel(meeting, true), device.index, (tiles * 32 + kThreads - 1) / kThreads,
                kThreads, arguments);
}

}  // namespace tapegrad::cuda
