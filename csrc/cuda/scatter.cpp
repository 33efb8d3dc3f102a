// Gather and scatter on CUDA: tapegrad/cuda/kernels/scatter.cu.
#include "core/registry.h"
#include "cuda/kernel_errors.h"
#include "cuda/launch.h"
#include "cuda/meet.h"
#include "cuda/walk.h"
#include "spec/index.h"

namespace tapegrad::cuda {

namespace {

// The lined tensor in the shape of the index, with every line as one element.
Ref<TensorImpl> as_lines(const TensorImpl& lined, const TensorImpl& index, size_t dim) {
  DimVector strides(lined.strides());
  strides[dim] = 0;
  return TensorImpl::create(lined.storage_ref(), lined.dtype(), index.sizes(), strides,
                            lined.offset());
}

// What gather and scatter have in common.
struct Lines {
  Lines(const char* op, const TensorImpl& lined, const TensorImpl& index, const TensorImpl& other,
        size_t dim)
      : op(op),
        lined(lined),
        index(index),
        other(other),
        dim(dim),
        lines(as_lines(lined, index, dim)),
        walk({&index, &other, lines.get()}) {}

  // The offset of the last element that an index can name.
  int64_t extent() const {
    int64_t extent = 0;
    for (size_t d = 0; d < static_cast<size_t>(lined.dim()); ++d)
      extent += (lined.size(d) - 1) * lined.stride(d);
    return extent;
  }

  // "gather<unsigned, NarrowGeometry<2, 3>>", behind its file and its arguments
  std::string describe(const std::string& function) const {
    return concat("file scatter.cu\nLineArguments<", walk.type(), ">\n", function, ", ",
                  walk.type(), ">");
  }

  void run(FunctionHandle kernel, int64_t blocks, void* places, void* values, uint64_t limit) {
    Arguments arguments;
    walk.put(arguments);
    arguments.put(index.data());
    arguments.put(other.data());
    arguments.put(lined.data());
    arguments.put(lined.size(dim));
    arguments.put(lined.stride(dim));
    arguments.put(places);
    arguments.put(values);
    arguments.put(limit);
    const int device = lined.device().index;
    const auto named = static_cast<int64_t>(dim);
    arguments.put(error_place(device, {op, named, lined.size(dim), fail_index_at_run_time}));
    launch(kernel, device, blocks, kElementThreads, arguments);
  }

  const char* op;
  const TensorImpl &lined, &index, &other;
  size_t dim;
  Ref<TensorImpl> lines;
  Walk walk;
};

// Inputs: the tensor, the int64 index. Attribute: the dimension. No operand is 0-d.
void gather(const OpCall& call) {
  const TensorImpl& out = call.out();
  if (out.numel() == 0) return;
  Lines lines(call.op.name, call.in(0), call.in(1), out, static_cast<size_t>(call.integer(0)));
  static auto& cache = *new KernelCache;
  const char* item = item_type(out.dtype());
  const uint64_t key = lines.walk.key() << 4 | itemsize(out.dtype());
  const FunctionHandle kernel =
      cache.find(out.device().index, key, [&] { return lines.describe(concat("gather<", item)); });
  lines.run(kernel, lines.walk.blocks(), nullptr, nullptr, 0);
}

void scatter_few(Lines& lines, const Meeting& meeting) {
  static auto& cache = *new KernelCache;
  const uint64_t key = lines.walk.key() << 8 | meeting.key();
  const FunctionHandle kernel = cache.find(lines.lined.device().index, key, [&] {
    return lines.describe(
        concat("scatter_few<", kernel_type(meeting.dtype), ", ", meeting.mode_text()));
  });
  lines.run(kernel, 1, nullptr, nullptr, meeting.limit);
}

void scatter_many(Lines& lines, const Meeting& meeting) {
  static auto& cache = *new KernelCache;
  const KeyType place = meeting.places();
  const DType item = moved_dtype(meeting.dtype);
  const uint64_t key =
      lines.walk.key() << 16 | static_cast<uint64_t>(place.nbytes) << 8 | itemsize(item);
  const FunctionHandle kernel = cache.find(lines.lined.device().index, key, [&] {
    return lines.describe(concat("scatter_places<", kernel_type(item), ", ", place.text));
  });
  Placed placed(meeting);
  lines.run(kernel, lines.walk.blocks(), placed.places->data(), placed.values->data(),
            meeting.limit);
  meet(meeting, std::move(placed));
}

void scatter_in_any_order(Lines& lines, const Meeting& meeting) {
  static auto& cache = *new KernelCache;
  const uint64_t key = lines.walk.key() << 8 | meeting.key();
  const FunctionHandle kernel = cache.find(lines.lined.device().index, key, [&] {
    return lines.describe(
        concat("scatter_in_any_order<", kernel_type(meeting.dtype), ", ", meeting.mode_text()));
  });
  lines.run(kernel, lines.walk.blocks(), nullptr, nullptr, meeting.limit);
}

void scatter_lines(const char* op, Lines& lines, ScatterMode mode) {
  const Meeting meeting(op, lines.lined, mode, lines.index.numel(), lines.extent());
  if (meeting.is_few()) scatter_few(lines, meeting);
  else if (meeting.may_come_in_any_order()) scatter_in_any_order(lines, meeting);
  else scatter_many(lines, meeting);
}

// Inputs: the tensor, which is also the output, the int64 index, the source in the index's shape.
// Attributes: the dimension, the ScatterMode. Equal places meet in the order of the index, or see Note [Any order].
void scatter(const OpCall& call) {
  if (call.in(1).numel() == 0) return;
  Lines lines(call.op.name, call.out(), call.in(1), call.in(2),
              static_cast<size_t>(call.integer(0)));
  scatter_lines(call.op.name, lines, static_cast<ScatterMode>(call.integer(1)));
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"gather", gather},
    {"scatter", scatter},
};

}  // namespace

void add_to_places(const char* op, const TensorImpl& out, const TensorImpl& places,
                   const TensorImpl& values) {
  Lines lines(op, out, places, values, 0);
  scatter_lines(op, lines, ScatterMode::Add);
}

}  // namespace tapegrad::cuda
