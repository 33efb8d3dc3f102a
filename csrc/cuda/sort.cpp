// Sorting rows on CUDA: sort, topk, kth value, median, mode, and the rows of a matrix.
//
// Rows that fit into the shared memory of a block are sorted there, in one launch (sort_rows.cu), longer ones
// by radix (radix.h); of those topk finds what it needs without sorting all of it (select.cu).
#include <algorithm>
#include <bit>
#include <limits>

#include "core/error.h"
#include "core/registry.h"
#include "cuda/copy.h"
#include "cuda/launch.h"
#include "cuda/move.h"
#include "cuda/radix.h"
#include "cuda/walk.h"

namespace tapegrad::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kShortRow = 2048;      // as in sort_rows.cu
constexpr int64_t kSelectTile = 2048;    // as in select.cu
constexpr int64_t kSelectBlocks = 1024;  // more of them take longer chunks instead

// As the kernels have them.
struct RowArguments {
  const void* x;
  const void* positions;
  void* values;
  void* indices;
  int64_t rows;
  int32_t length, out_length;
  int32_t first;
  int32_t padded;
  int32_t rows_per_block;
  int32_t descending;
  int32_t is_median;
};
struct MatrixArguments {
  const void* x;
  void* order;
  int64_t columns;
  int32_t rows, padded;
};
struct PickArguments {
  const void* sorted;
  const void* positions;
  void* values;
  void* indices;
  int64_t rows, length;
  int64_t out_length, first;
};
struct ColumnArguments {
  int64_t count;
  const void* x;
  const void* order;
  void* out;
  int64_t columns, column;
};
struct SelectArguments {
  const void* x;
  void* counts;
  void* states;
  void* chunks;
  void* values;
  void* positions;
  int64_t length, k;
  int64_t chunk_length;
  int64_t rows;
  int32_t chunk_count;
  int32_t pass;
  int32_t descending;
};

int64_t blocks_of(int64_t count) { return (count + kThreads - 1) / kThreads; }

// Contiguous rows, and where what is wanted of them goes.
struct Rows {
  const char* op;
  Device device;
  DType dtype;
  const void* x;
  int64_t count, length;
  void* values;
  void* indices;
  int64_t out_length;
  bool descending = false;

  // Rows along the last dimension of contiguous operands, which in the outputs may be shorter.
  Rows(const OpCall& call, bool descending)
      : op(call.op.name),
        device(call.in(0).device()),
        dtype(call.in(0).dtype()),
        x(call.in(0).data()),
        count(0),
        length(call.in(0).sizes().back()),
        values(call.out(0).data()),
        indices(call.out(1).data()),
        out_length(0),
        descending(descending) {
    if (length > 0) count = call.in(0).numel() / length;
    if (count > 0) out_length = call.out(0).numel() / count;
    TAPEGRAD_CHECK(length < std::numeric_limits<uint32_t>::max(), op,
                   ": rows of more than 2^32 elements are not supported");
  }
  bool is_short() const { return length <= kShortRow; }
  bool is_empty() const { return count == 0 || out_length == 0; }
  auto item() const { return static_cast<int64_t>(itemsize(dtype)); }
};

enum Function : uint64_t {
  kShortRows,
  kMatrixRows,
  kRange,
  kMedian,
  kMode,
  kColumn,
  kCount,
  kSplit,
  kWrite
};

// A kernel of one of the files, for a dtype.
FunctionHandle find_kernel(Device device, Function function, DType dtype) {
  struct Text {
    const char *file, *arguments, *name;
    bool by_size;  // not by dtype
  };
  constexpr Text kTexts[] = {
      {"sort_rows.cu", "RowArguments", "sort_short_rows", false},
      {"sort_rows.cu", "MatrixArguments", "sort_few_matrix_rows", false},
      {"pick.cu", "PickArguments", "pick_range", true},
      {"pick.cu", "PickArguments", "pick_median", false},
      {"pick.cu", "PickArguments", "pick_mode", false},
      {"pick.cu", "ColumnArguments", "take_column", true},
      {"select.cu", "SelectArguments", "select_count", false},
      {"select.cu", "SelectArguments", "select_split", false},
      {"select.cu", "SelectArguments", "select_write", false},
  };
  static auto& cache = *new KernelCache;
  return cache.find(device.index, function << 8 | static_cast<uint64_t>(dtype), [&] {
    const Text& text = kTexts[function];
    return concat("file ", text.file, "\n", text.arguments, "\n", text.name, "<",
                  text.by_size ? item_type(dtype) : kernel_type(dtype), ">");
  });
}

// Entries [first, first + out_length) of each sorted row. Positions, where there are any, stand for places in the row.
void sort_short(const Rows& rows, int64_t first, bool is_median, const void* positions) {
  const auto padded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows.length)));
  const int64_t per_block = std::min(kShortRow / padded, rows.count);
  const RowArguments arguments{rows.x,
                               positions,
                               rows.values,
                               rows.indices,
                               rows.count,
                               static_cast<int32_t>(rows.length),
                               static_cast<int32_t>(rows.out_length),
                               static_cast<int32_t>(first),
                               static_cast<int32_t>(padded),
                               static_cast<int32_t>(per_block),
                               rows.descending,
                               is_median};
  launch_with(find_kernel(rows.device, kShortRows, rows.dtype), rows.device.index,
              (rows.count + per_block - 1) / per_block, kThreads, arguments);
}

// All of the rows, into values and int64 indices.
void sort_all(Rows rows, void* values, void* indices, const void* positions = nullptr) {
  rows.values = values;
  rows.indices = indices;
  rows.out_length = rows.length;
  if (rows.is_short()) return sort_short(rows, 0, false, positions);
  const KeyType type = KeyType::of(rows.dtype);
  radix_sort(rows.op, rows.device,
             {.type = type,
              .rows = rows.count,
              .length = rows.length,
              .bits = type.bits(),
              .descending = rows.descending,
              .keys = rows.x,
              .items = positions,
              .wide_numbers = true,
              .keys_out = values,
              .items_out = indices});
}

// Sorts all of the rows, and takes from them what a kernel wants.
void pick(const Rows& rows, Function function, int64_t first, int64_t blocks) {
  const int64_t count = rows.count * rows.length;
  const Tensor values = scratch(count * rows.item(), rows.device);
  const Tensor indices = scratch(count * 8, rows.device);
  sort_all(rows, values->data(), indices->data());
  const PickArguments arguments{values->data(), indices->data(), rows.values,     rows.indices,
                                rows.count,     rows.length,     rows.out_length, first};
  launch_with(find_kernel(rows.device, function, rows.dtype), rows.device.index, blocks, kThreads,
              arguments);
}

// The k first of long rows, in their order.
void select(const Rows& rows) {
  const int64_t k = rows.out_length, passes = rows.item();
  const int64_t wanted = rows.count * rows.length / kSelectBlocks;
  const int64_t chunk_length =
      std::clamp<int64_t>((wanted + kSelectTile - 1) / kSelectTile, 1, 64) * kSelectTile;
  const int64_t chunks = (rows.length + chunk_length - 1) / chunk_length;
  const int64_t counts_nbytes = passes * rows.count * kThreads * 4;
  const Tensor counts = scratch(counts_nbytes, rows.device);
  const Tensor states = scratch((passes + 1) * rows.count * 16, rows.device);
  const Tensor of_chunks = scratch(2 * rows.count * chunks * 4, rows.device);
  const Tensor values = scratch(rows.count * k * rows.item(), rows.device);
  const Tensor positions = scratch(rows.count * k * 4, rows.device);
  fill_with_zeros(counts->data(), static_cast<size_t>(counts_nbytes), rows.device.index);
  SelectArguments arguments{rows.x,
                            counts->data(),
                            states->data(),
                            of_chunks->data(),
                            values->data(),
                            positions->data(),
                            rows.length,
                            k,
                            chunk_length,
                            rows.count,
                            static_cast<int32_t>(chunks),
                            0,
                            rows.descending};
  auto run = [&](Function function) {
    launch_with(find_kernel(rows.device, function, rows.dtype), rows.device.index,
                rows.count * chunks, kThreads, arguments);
  };
  for (; arguments.pass < passes; ++arguments.pass) run(kCount);
  run(kSplit);
  run(kWrite);
  Rows selected = rows;
  selected.x = values->data();
  selected.length = k;
  sort_all(selected, rows.values, rows.indices, positions->data());
}

// Outputs: values, indices. Attribute: descending. Always stable.
void sort(const OpCall& call) {
  const Rows rows(call, call.attributes[0].as_bool());
  if (!rows.is_empty()) sort_all(rows, rows.values, rows.indices);
}

// Outputs: values, indices, whose last dimension tells k. Attributes: largest, sorted. What need not be sorted is.
void topk(const OpCall& call) {
  const Rows rows(call, call.attributes[0].as_bool());
  if (rows.is_empty()) return;
  if (rows.is_short()) sort_short(rows, 0, false, nullptr);
  else select(rows);
}

// Outputs: one value and one index per row. Attribute: k, from 1.
void kth_value(const OpCall& call) {
  const Rows rows(call, false);
  if (rows.is_empty()) return;
  const int64_t first = call.integer(0) - 1;
  if (rows.is_short()) sort_short(rows, first, false, nullptr);
  else pick(rows, kRange, first, blocks_of(rows.count));
}

// Outputs: one value and one index per row.
void mode(const OpCall& call) {
  const Rows rows(call, false);
  if (!rows.is_empty()) pick(rows, kMode, 0, rows.count);
}

// Attribute: the dimension. Outputs: values and indices, contiguous over the other dimensions.
void median(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  if (call.out(0).numel() == 0) return;
  // The rows as a contiguous tensor with the dimension last.
  DimVector sizes(x.sizes()), strides(x.strides());
  if (x.dim() == 0) {
    sizes.push_back(1);
    strides.push_back(1);
  } else {
    const auto dim = static_cast<size_t>(call.integer(0));
    const int64_t size = sizes[dim], stride = strides[dim];
    sizes.erase(dim);
    strides.erase(dim);
    sizes.push_back(size);
    strides.push_back(stride);
  }
  const Ref<TensorImpl> last =
      TensorImpl::create(x.storage_ref(), x.dtype(), sizes, strides, x.offset());
  Tensor rows_of(last.get());
  if (!last->is_contiguous()) {
    rows_of = empty("median", sizes, x.dtype(), x.device());
    TensorImpl *from[] = {last.get()}, *to[] = {rows_of.impl()};
    copy({call.op, from, {}, to});
  }
  TensorImpl* inputs[] = {rows_of.impl()};
  const OpCall along_last{call.op, inputs, call.attributes, call.outputs};
  const Rows rows(along_last, false);
  if (rows.is_short()) sort_short(rows, (rows.length - 1) / 2, true, nullptr);
  else pick(rows, kMedian, 0, blocks_of(rows.count));
}

// ---- the rows of a matrix

// From the last column to the first, each time stably.
void sort_by_columns(const OpCall& call, const TensorImpl& x, int64_t count, int64_t columns) {
  const KeyType type = KeyType::of(x.dtype());
  const Device device = x.device();
  const Tensor keys = scratch(count * type.nbytes, device);
  const Tensor sorted = scratch(count * type.nbytes, device);
  Tensor order, next;
  for (int64_t column = columns; column-- > 0;) {
    const ColumnArguments arguments{
        count, x.data(), order.defined() ? order->data() : nullptr, keys->data(), columns, column};
    launch_with(find_kernel(device, kColumn, x.dtype()), device.index, blocks_of(count), kThreads,
                arguments);
    if (column > 0) next = scratch(count * 4, device);
    radix_sort(call.op.name, device,
               {.type = type,
                .rows = 1,
                .length = count,
                .bits = type.bits(),
                .keys = keys->data(),
                .items = arguments.order,
                .wide_numbers = column == 0,
                .keys_out = sorted->data(),
                .items_out = column > 0 ? next->data() : call.out().data()});
    order = next;
  }
}

// The order of the rows of a contiguous matrix, compared element by element from the left. Output: row numbers.
void sort_rows(const OpCall& call) {
  const TensorImpl& x = call.in(0);
  const int64_t count = x.size(0), columns = count > 0 ? x.numel() / count : 0;
  if (count == 0) return;
  if (count > kShortRow) return sort_by_columns(call, x, count, columns);
  const auto padded = std::bit_ceil(static_cast<uint64_t>(count));
  launch_with(find_kernel(x.device(), kMatrixRows, x.dtype()), x.device().index, 1, kThreads,
              MatrixArguments{x.data(), call.out().data(), columns, static_cast<int32_t>(count),
                              static_cast<int32_t>(padded)});
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"sort", sort}, {"topk", topk},     {"kthvalue", kth_value},
    {"mode", mode}, {"median", median}, {"sort_rows", sort_rows},
};

}  // namespace

}  // namespace tapegrad::cuda
