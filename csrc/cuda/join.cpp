// Kernels that lay elements out anew on CUDA: tapegrad/cuda/kernels/join.cu.
#include <algorithm>
#include <bit>
#include <vector>

#include "core/registry.h"
#include "cuda/launch.h"
#include "cuda/meet.h"
#include "cuda/prefix.h"
#include "cuda/walk.h"

namespace tapegrad::cuda {

namespace {

// ---- cat

constexpr size_t kMostPieces = 64;  // of a launch
constexpr int64_t kCatPerBlock = kElementThreads * 4;

// As join.cu has it. Lengths are in units.
struct CatPiece {
  const void* data;
  int64_t begin;
  int64_t length;
  int64_t first_block;
  Divisor divisor{1};
};

// Pieces of one launch.
struct Cat {
  const TensorImpl& out;
  int64_t rows;
  int64_t row_nbytes = 0;
  std::vector<CatPiece> pieces;  // lengths in bytes

  // The largest unit of bytes that all pieces are made of.
  int64_t unit() const {
    auto bits = reinterpret_cast<uintptr_t>(out.data()) | static_cast<uintptr_t>(row_nbytes) | 16;
    for (const CatPiece& piece : pieces)
      bits |= reinterpret_cast<uintptr_t>(piece.data) | static_cast<uintptr_t>(piece.begin) |
              static_cast<uintptr_t>(piece.length);
    return static_cast<int64_t>(bits & -bits);
  }
  void run() const;
};

const char* unit_type(int64_t nbytes) {
  return nbytes == 16  ? "Vector<uint64, 2>"
         : nbytes == 8 ? "uint64"
         : nbytes == 4 ? "unsigned"
         : nbytes == 2 ? "unsigned short"
                       : "unsigned char";
}

void Cat::run() const {
  const int64_t unit = this->unit();
  const size_t places = std::bit_ceil(std::max<size_t>(pieces.size(), 2));
  std::vector<CatPiece> scaled;
  int64_t blocks = 0;
  bool wide = false;
  for (CatPiece piece : pieces) {
    piece.begin /= unit;
    piece.length /= unit;
    piece.first_block = blocks;
    const int64_t count = rows * piece.length;
    wide |= count > kMostNarrowCount;
    if (count <= kMostNarrowCount) piece.divisor = Divisor(piece.length);
    blocks += (count + kCatPerBlock - 1) / kCatPerBlock;
    scaled.push_back(piece);
  }
  const int device = out.device().index;
  static auto& cache = *new KernelCache;
  const uint64_t key = static_cast<uint64_t>(unit) << 16 | places << 1 | wide;
  const FunctionHandle kernel = cache.find(device, key, [&] {
    return concat("file join.cu\nCatArguments<", places, ">\ncat<", unit_type(unit), ", ",
                  wide ? "true" : "false", ">");
  });
  Arguments arguments;
  arguments.put(out.data());
  arguments.put(rows);
  arguments.put(row_nbytes / unit);
  arguments.put(static_cast<int64_t>(scaled.size()));
  for (size_t i = 0; i < places; ++i) arguments.put(scaled[std::min(i, scaled.size() - 1)]);
  launch(kernel, device, blocks, kElementThreads, arguments);
}

// Attribute: the joined dimension. All operands are contiguous and of one dtype.
void cat(const OpCall& call) {
  const TensorImpl& out = call.out();
  if (out.numel() == 0) return;
  Cat cat{out, 1, 0, {}};
  for (size_t d = 0; d < static_cast<size_t>(call.integer(0)); ++d) cat.rows *= out.size(d);
  const auto item = static_cast<int64_t>(itemsize(out.dtype()));
  cat.row_nbytes = out.numel() / cat.rows * item;
  int64_t begin = 0;
  for (const TensorImpl* input : call.inputs) {
    if (input->numel() == 0) continue;
    const int64_t length = input->numel() / cat.rows * item;
    cat.pieces.push_back({input->data(), begin, length, 0});
    begin += length;
    if (cat.pieces.size() < kMostPieces) continue;
    cat.run();
    cat.pieces.clear();
  }
  if (!cat.pieces.empty()) cat.run();
}

// ---- triangles

// Attributes: the diagonal; whether the upper triangle is kept. The rest becomes zero. The output may
// be the input itself.
void triangle(const OpCall& call) {
  const TensorImpl &x = call.in(0), &out = call.out();
  if (out.numel() == 0) return;
  const size_t rank = out.sizes().size();
  // Walked along as a tensor: at each element the column less the row.
  DimVector strides(rank, 0);
  strides[rank - 1] = 1;
  strides[rank - 2] = -1;
  const Ref<TensorImpl> distance =
      TensorImpl::create(out.storage_ref(), out.dtype(), out.sizes(), strides, 0);
  const Walk walk({&out, &x, distance.get()});
  static auto& cache = *new KernelCache;
  const int device = out.device().index;
  const FunctionHandle kernel = cache.find(device, walk.key() << 4 | itemsize(out.dtype()), [&] {
    return concat("file join.cu\nTriangleArguments<", walk.type(), ">\ntriangle<",
                  item_type(out.dtype()), ", ", walk.type(), ">");
  });
  Arguments arguments;
  walk.put(arguments);
  arguments.put(out.data());
  arguments.put(x.data());
  arguments.put(call.integer(0));
  arguments.put(static_cast<int64_t>(call.attributes[1].as_bool()));
  launch(kernel, device, walk.blocks(), kElementThreads, arguments);
}

// ---- repeats

// As join.cu has it.
struct RepeatArguments {
  int64_t count;
  const void* ends;
  int64_t indices;
  void* out;
};

// Index i as often as the contiguous int64 input says at i.
void repeat_indices(const OpCall& call) {
  const TensorImpl &repeats = call.in(0), &out = call.out();
  if (out.numel() == 0) return;
  const Tensor ends = scratch(repeats.numel() * 8, out.device());
  prefix_sums({.numbers = "Repeats", .key = 0, .count = repeats.numel(), .x = repeats.data()},
              out.device(), ends->data());
  static auto& cache = *new KernelCache;
  const int device = out.device().index;
  const FunctionHandle kernel = cache.find(
      device, 0, [] { return std::string("file join.cu\nRepeatArguments\nrepeat_indices"); });
  launch_with(kernel, device, (out.numel() + kElementThreads - 1) / kElementThreads,
              kElementThreads,
              RepeatArguments{out.numel(), ends->data(), repeats.numel(), out.data()});
}

// ---- embed

// Whether two elements of a tensor may lie in one place; where in doubt, they may.
bool may_overlap(const TensorImpl& x) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t d = 0; d < x.sizes().size(); ++d)
    if (x.size(d) > 1) dims.emplace_back(x.stride(d), x.size(d));
  std::sort(dims.begin(), dims.end());
  int64_t extent = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= extent) return true;
    extent += stride * (size - 1);
  }
  return false;
}

struct Embed {
  Embed(const TensorImpl& to, const TensorImpl& from) : to(to), from(from), walk({&to, &from}) {}

  std::string describe(const std::string& function) const {
    return concat("file join.cu\nEmbedArguments<", walk.type(), ">\n", function, ", ", walk.type(),
                  ">");
  }
  void run(FunctionHandle kernel, void* places, void* values) const {
    Arguments arguments;
    walk.put(arguments);
    arguments.put(to.data());
    arguments.put(from.data());
    arguments.put(places);
    arguments.put(values);
    launch(kernel, to.device().index, walk.blocks(), kElementThreads, arguments);
  }

  const TensorImpl &to, &from;
  Walk walk;
};

void embed_overlapping(const char* op, const Embed& embed) {
  int64_t extent = 0;
  for (size_t d = 0; d < embed.to.sizes().size(); ++d)
    extent += (embed.to.size(d) - 1) * embed.to.stride(d);
  const Meeting meeting(op, embed.to, ScatterMode::Add, embed.to.numel(), extent);
  const KeyType place = meeting.places();
  const DType item = moved_dtype(embed.to.dtype());
  static auto& cache = *new KernelCache;
  const uint64_t key =
      embed.walk.key() << 8 | itemsize(item) << 4 | static_cast<uint64_t>(place.nbytes);
  const FunctionHandle kernel = cache.find(embed.to.device().index, key, [&] {
    return embed.describe(concat("embed_places<", kernel_type(item), ", ", place.text));
  });
  Placed placed(meeting);
  embed.run(kernel, placed.places->data(), placed.values->data());
  meet(meeting, std::move(placed));
}

// Adds the input to the output, whose places may overlap.
void embed(const OpCall& call) {
  const TensorImpl& to = call.out();
  if (to.numel() == 0) return;
  const Embed embed(to, call.in(0));
  if (may_overlap(to)) return embed_overlapping(call.op.name, embed);
  static auto& cache = *new KernelCache;
  const uint64_t key = embed.walk.key() << 8 | static_cast<uint64_t>(to.dtype());
  embed.run(cache.find(to.device().index, key,
                       [&] { return embed.describe(concat("embed<", kernel_type(to.dtype()))); }),
            nullptr, nullptr);
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"cat", cat},
    {"triangle", triangle},
    {"repeat_interleave", repeat_indices},
    {"embed", embed},
};

}  // namespace

}  // namespace tapegrad::cuda
