// Reading and writing blocks at indexed places on CUDA: tapegrad/cuda/kernels/index.cu.
#include "spec/index.h"

#include <bit>
#include <vector>

#include "core/registry.h"
#include "cuda/kernel_errors.h"
#include "cuda/launch.h"
#include "cuda/meet.h"
#include "cuda/walk.h"

namespace tapegrad::cuda {

namespace {

constexpr int64_t kFewTuples = 256;  // as in index.cu
constexpr int64_t kWrittenPerBlock = 256 * 16;
constexpr int64_t kRowWarps = 8;
constexpr int64_t kLargeBlock = 32;  // elements from which a warp is busy with a block

struct Column {
  const void* data;
  int64_t size, stride, wrap;
  ErrorPlace errors;
};

// What an index op walks: see csrc/cpu/index.cpp.
class IndexWalk {
 public:
  IndexWalk(const OpCall& call, const TensorImpl& x, size_t first_index)
      : x(x),
        before(x, 0, static_cast<size_t>(call.integer(0))),
        after(x, static_cast<size_t>(call.integer(0)) + call.inputs.size() - first_index,
              static_cast<size_t>(x.dim())),
        tuples(call.in(first_index).numel()),
        item(static_cast<int64_t>(itemsize(x.dtype()))) {
    const auto rule = static_cast<IndexRule>(call.integer(1));
    const auto fail = rule == IndexRule::NoWrapRuntime ? fail_index_at_run_time : fail_index;
    auto dim = static_cast<size_t>(call.integer(0));
    // The numbers that the user gave the dimensions are the last attributes.
    size_t named = call.attributes.size() - (call.inputs.size() - first_index);
    for (size_t i = first_index; i < call.inputs.size(); ++i, ++dim)
      columns.push_back({call.in(i).data(), x.size(dim), x.stride(dim),
                         rule == IndexRule::Wrap ? x.size(dim) : 0,
                         error_place(x.device().index,
                                     {call.op.name, call.integer(named++), x.size(dim), fail})});
  }

  int64_t count() const { return before.count() * tuples * after.count(); }
  bool is_wide() const { return count() > kMostNarrowCount; }
  // How many different tuples there can be.
  uint64_t numbers() const {
    uint64_t product = 1;
    for (const Column& column : columns) product *= static_cast<uint64_t>(column.size);
    return product;
  }
  // The offset of the last element that a tuple can name.
  int64_t extent() const {
    int64_t extent = before.extent() + after.extent();
    for (const Column& column : columns) extent += (column.size - 1) * column.stride;
    return extent;
  }

  // How many elements can be moved at a time: those of up to 16 bytes.
  int64_t width(const void* other) const {
    int64_t width = after.is_dense() ? 16 / item : 1;
    const auto addresses =
        reinterpret_cast<uintptr_t>(x.data()) | reinterpret_cast<uintptr_t>(other);
    auto fits = [&] {
      bool fits = after.count() % width == 0 && before.divides(width) &&
                  addresses % static_cast<uintptr_t>(width * item) == 0;
      for (const Column& column : columns) fits &= column.stride % width == 0;
      return fits;
    };
    while (width > 1 && !fits()) width /= 2;
    return width;
  }
  // Takes so many elements as one.
  void widen(int64_t width) {
    if (width == 1) return;
    before.divide_strides(width);
    after.divide_innermost(width);
    for (Column& column : columns) column.stride /= width;
    item *= width;
  }

  uint64_t key() const {
    return before.key() << 24 | after.key() << 16 | static_cast<uint64_t>(columns.size()) << 8 |
           uint64_t{is_wide()};
  }
  std::string describe(const std::string& function) const {
    return concat("file index.cu\nIndexArguments<", is_wide() ? "WideSplit" : "NarrowSplit", ", ",
                  columns.size(), ", ", before.type(), ", ", after.type(), ">\n", function);
  }

  struct Rest {
    const void* other;
    uint64_t limit = 0;
    const void* places = nullptr;
    const void* values = nullptr;
    int64_t is_constant = 0;
  };
  void run(FunctionHandle kernel, int64_t blocks, const Rest& rest) const {
    Arguments arguments;
    arguments.put(count());
    for (const int64_t size : {after.count(), tuples}) {
      if (is_wide()) arguments.put(size);
      else arguments.put(Divisor(size));
    }
    before.put(arguments);
    after.put(arguments);
    for (const Column& column : columns) arguments.put(column);
    arguments.put(x.data());
    arguments.put(rest.other);
    arguments.put(tuples);
    arguments.put(after.count());
    arguments.put(rest.limit);
    arguments.put(rest.places);
    arguments.put(rest.values);
    arguments.put(rest.is_constant);
    launch(kernel, x.device().index, blocks, kElementThreads, arguments);
  }

  const TensorImpl& x;
  Dims before, after;
  int64_t tuples;
  int64_t item;  // bytes
  std::vector<Column> columns;
};

const char* unit_type(int64_t nbytes) {
  return nbytes == 16  ? "Vector<uint64, 2>"
         : nbytes == 8 ? "uint64"
         : nbytes == 4 ? "unsigned"
         : nbytes == 2 ? "unsigned short"
                       : "unsigned char";
}

// Inputs: the indexed tensor, the index tensors. Attributes: how many dimensions come before, the
// IndexRule, then the user's number of each indexed dimension.
void index(const OpCall& call) {
  const TensorImpl& out = call.out();
  if (out.numel() == 0) return;
  IndexWalk walk(call, call.in(0), 1);
  walk.widen(walk.width(out.data()));
  static auto& cache = *new KernelCache;
  const uint64_t key = walk.key() << 8 | static_cast<uint64_t>(walk.item);
  const FunctionHandle kernel = cache.find(out.device().index, key, [&] {
    return walk.describe(concat("index_read<", unit_type(walk.item), ">"));
  });
  walk.run(kernel, element_blocks(walk.count(), 1), {.other = out.data()});
}

void write_few(const IndexWalk& walk, const Meeting& meeting, IndexWalk::Rest rest) {
  static auto& cache = *new KernelCache;
  const FunctionHandle kernel =
      cache.find(walk.x.device().index, walk.key() << 8 | meeting.key(), [&] {
    return walk.describe(
        concat("index_write_few<", kernel_type(meeting.dtype), ", ", meeting.mode_text(), ">"));
  });
  rest.limit = walk.numbers();
  walk.run(kernel, (walk.count() + kWrittenPerBlock - 1) / kWrittenPerBlock, rest);
}

void write_elements(const IndexWalk& walk, const Meeting& meeting, IndexWalk::Rest rest) {
  static auto& cache = *new KernelCache;
  const KeyType place = meeting.places();
  const DType item = moved_dtype(meeting.dtype);
  const uint64_t key = walk.key() << 8 | itemsize(item) << 4 | static_cast<uint64_t>(place.nbytes);
  const FunctionHandle kernel = cache.find(walk.x.device().index, key, [&] {
    return walk.describe(concat("index_places<", kernel_type(item), ", ", place.text, ">"));
  });
  Placed placed(meeting);
  rest.limit = meeting.limit;
  rest.places = placed.places->data();
  rest.values = placed.values->data();
  walk.run(kernel, element_blocks(walk.count(), 1), rest);
  meet(meeting, std::move(placed));
}

void write_in_any_order(const IndexWalk& walk, const Meeting& meeting, IndexWalk::Rest rest) {
  static auto& cache = *new KernelCache;
  const FunctionHandle kernel =
      cache.find(walk.x.device().index, walk.key() << 8 | meeting.key(), [&] {
    return walk.describe(
        concat("index_in_any_order<", kernel_type(meeting.dtype), ", ", meeting.mode_text(), ">"));
  });
  rest.limit = meeting.limit;
  walk.run(kernel, element_blocks(walk.count(), 1), rest);
}

void write_rows(const IndexWalk& walk, const Meeting& meeting, IndexWalk::Rest rest) {
  static auto &number_cache = *new KernelCache, &row_cache = *new KernelCache;
  const Device device = walk.x.device();
  rest.limit = walk.numbers();
  const KeyType number = KeyType::place(rest.limit > UINT32_MAX);
  const Tensor numbers = scratch(walk.tuples * number.nbytes, device);
  const Tensor sorted = scratch(walk.tuples * number.nbytes, device);
  const Tensor order = scratch(walk.tuples * 4, device);
  const uint64_t key = walk.key() << 16 | meeting.key() << 8 | static_cast<uint64_t>(number.nbytes);
  rest.places = numbers->data();
  walk.run(
      number_cache.find(device.index, key,
                        [&] { return walk.describe(concat("index_numbers<", number.text, ">")); }),
      (walk.tuples + kElementThreads - 1) / kElementThreads, rest);
  radix_sort(meeting.op, device,
             {.type = number,
              .rows = 1,
              .length = walk.tuples,
              .bits = static_cast<int>(std::bit_width(rest.limit)),
              .keys = numbers->data(),
              .keys_out = sorted->data(),
              .items_out = order->data()});
  rest.places = sorted->data();
  rest.values = order->data();
  const int64_t width = walk.width(rest.is_constant ? nullptr : rest.other);
  const FunctionHandle kernel =
      row_cache.find(device.index, key << 5 | static_cast<uint64_t>(width), [&] {
    return walk.describe(concat("index_rows<", kernel_type(meeting.dtype), ", ",
                                meeting.mode_text(), ", ", number.text, ", ", width, ">"));
  });
  const int64_t column_blocks = (walk.after.count() + 32 * width - 1) / (32 * width);
  const int64_t place_blocks = (walk.tuples + kRowWarps - 1) / kRowWarps;
  walk.run(kernel, walk.before.count() * column_blocks * place_blocks, rest);
}

// Inputs: the indexed tensor, which is also the output, the values (one element stands for all),
// the index tensors. Attributes: dimensions before, IndexRule, whether to accumulate, the dimensions.
void index_put(const OpCall& call) {
  const TensorImpl &x = call.out(), &values = call.in(1);
  const IndexWalk walk(call, x, 2);
  if (walk.count() == 0) return;
  const ScatterMode mode = call.attributes[2].as_bool() ? ScatterMode::Add : ScatterMode::Set;
  const Meeting meeting(call.op.name, x, mode, walk.count(), walk.extent());
  const IndexWalk::Rest rest{.other = values.data(),
                             .is_constant = values.numel() == 1 && walk.count() > 1};
  if (walk.tuples <= kFewTuples) write_few(walk, meeting, rest);
  else if (walk.after.count() >= kLargeBlock) write_rows(walk, meeting, rest);
  else if (meeting.may_come_in_any_order()) write_in_any_order(walk, meeting, rest);
  else write_elements(walk, meeting, rest);
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"index", index},          {"index_select", index},    {"index_put_", index_put},
    {"index_add_", index_put}, {"index_copy_", index_put}, {"index_fill_", index_put},
};

}  // namespace

}  // namespace tapegrad::cuda
