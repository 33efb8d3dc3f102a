// Convolution of tensors whose channels lie last in memory, without copying them into another order.
//
// A place of the output is a row of a matrix product, and its channels are the columns. What it sees are
// *runs* of adjacent elements of the image: all channels of a pixel or, without dilation and groups, those
// of a whole row of the kernel. So a row of the product is a few runs, found by their addresses, and
// the inner loop is that of a plain product: the products of im2col without its columns. The weights are
// transposed once a call into panels of output channels.
//
// Zeros around the image are the one thing that needs a copy: where there is padding, images are copied
// with it into a *field*, row by row, a few images at a time. Without padding the field is the image itself.
//
// The gradient of x is a product of the same kind. With strides, the places of x fall into *parts* by the
// remainder of their coordinates, each of which sees taps of its own. The gradient of w is a product of x,
// shifted tap by tap, with the gradient of y (tap_product); both are read where they lie. In depthwise
// convolutions vectors go along the channels, without products. A kernel of one tap is a plain matrix
// product of all pixels.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/parallel.h"
#include "cpu/conv.h"
#include "cpu/conv_kernels.h"
#include "cpu/gemm.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kPlacesOfUnit = 96;              // treated together, by one thread
constexpr int64_t kDepthOfBlock = 512;             // elements of a row between visits of a panel
constexpr int64_t kPlacesOfSums = 256;             // between visits of the sums of weights
constexpr int64_t kFieldBytes = int64_t{1} << 20;  // of padded images, for each thread
constexpr int64_t kUnitGrain = 32 * 1024;          // multiply-adds that make a second thread pay
constexpr int64_t kMoveGrain = 16 * 1024;          // elements that are copied

int64_t number(const Triple& at, const Triple& sizes) {
  return (at[0] * sizes[1] + at[1]) * sizes[2] + at[2];
}

// Images as products read them: pixel u of the field shows pixel u + origin of the image, or zeros.
struct Field {
  Triple source, origin, length;
  int64_t channels;

  // Whether all of it lies within the image, which then serves as it is.
  bool is_inside() const {
    for (int d = 0; d < 3; ++d)
      if (origin[d] < 0 || origin[d] + length[d] > source[d]) return false;
    return true;
  }
  const Triple& rows() const { return is_inside() ? source : length; }  // between which pixels step
  int64_t image() const { return volume(rows()) * channels; }
};

template <class T>
void copy_row(const Field& field, const T* image, int64_t d, int64_t h, T* to) {
  const int64_t sd = d + field.origin[0], sh = h + field.origin[1], c = field.channels;
  int64_t begin = 0, end = 0;
  if (sd >= 0 && sd < field.source[0] && sh >= 0 && sh < field.source[1]) {
    begin = std::clamp<int64_t>(-field.origin[2], 0, field.length[2]);
    end = std::clamp<int64_t>(field.source[2] - field.origin[2], begin, field.length[2]);
  }
  std::fill_n(to, begin * c, T(0));
  if (begin < end)
    std::memcpy(to + begin * c, image + number({sd, sh, begin + field.origin[2]}, field.source) * c,
                (end - begin) * c * sizeof(T));
  std::fill_n(to + end * c, (field.length[2] - end) * c, T(0));
}

template <class T>
void copy_images(const Field& field, const T* from, int64_t images, T* to) {
  const int64_t row = field.length[2] * field.channels, rows = field.length[0] * field.length[1];
  parallel_for(0, images * rows, std::max<int64_t>(1, kMoveGrain / std::max<int64_t>(1, row)),
               [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const T* image = from + k / rows * volume(field.source) * field.channels;
      copy_row(field, image, k % rows / field.length[1], k % field.length[1], to + k * row);
    }
  });
}

// Places of the output that see the same taps.
struct Part {
  Triple grid, step;             // how many places, and the pixels of the field between them
  std::vector<int64_t> taps;     // of the kernel, in the order in which they lie in the field
  std::vector<int64_t> offsets;  // of each, in pixels
  Triple first, stride, out;     // of the output: the first place, between places, the sizes

  int64_t places() const { return volume(grid); }
};

// Walks through the places of a part, from place k of some images on: where each begins in the images of a
// field, and its pixel among those of the output's images.
class PlaceWalk {
 public:
  PlaceWalk(const Part& part, const Triple& rows, int64_t k)
      : part_(part),
        rows_(rows),
        image_(k / part.places()),
        at_{k / (part.grid[1] * part.grid[2]) % part.grid[0], k / part.grid[2] % part.grid[1],
            k % part.grid[2]} {
    begin_row();
  }
  int64_t pixel() const { return pixel_; }
  int64_t target() const { return target_; }
  void step() {
    pixel_ += part_.step[2];
    target_ += part_.stride[2];
    if (++at_[2] < part_.grid[2]) return;
    at_[2] = 0;
    if (++at_[1] == part_.grid[1]) {
      at_[1] = 0;
      if (++at_[0] == part_.grid[0]) {
        at_[0] = 0;
        ++image_;
      }
    }
    begin_row();
  }

 private:
  void begin_row() {
    Triple from, to;
    for (int d = 0; d < 3; ++d) {
      from[d] = at_[d] * part_.step[d];
      to[d] = part_.first[d] + at_[d] * part_.stride[d];
    }
    pixel_ = image_ * volume(rows_) + number(from, rows_);
    target_ = image_ * volume(part_.out) + number(to, part_.out);
  }

  const Part& part_;
  const Triple& rows_;
  int64_t image_;
  Triple at_;
  int64_t pixel_, target_;
};

struct Plan {
  Field field;
  std::vector<Part> parts;
};

// Where the field lies inside the image, its first pixel is that of the field.
void settle(Plan& plan) {
  if (!plan.field.is_inside()) return;
  const int64_t base = number(plan.field.origin, plan.field.source);
  for (Part& part : plan.parts)
    for (int64_t& offset : part.offsets) offset += base;
}

Plan plan_forward(const ConvShape& s) {
  Plan plan;
  Field& field = plan.field;
  field.source = s.in;
  field.channels = s.groups * s.in_channels;
  for (int d = 0; d < 3; ++d) {
    field.origin[d] = -s.padding[d];
    field.length[d] = (s.out[d] - 1) * s.stride[d] + (s.kernel[d] - 1) * s.dilation[d] + 1;
  }
  Part part{s.out, s.stride, {}, {}, {0, 0, 0}, {1, 1, 1}, s.out};
  for (int64_t tap = 0; tap < s.taps(); ++tap) {
    part.taps.push_back(tap);
    const Triple at{tap / (s.kernel[1] * s.kernel[2]) * s.dilation[0],
                    tap / s.kernel[2] % s.kernel[1] * s.dilation[1],
                    tap % s.kernel[2] * s.dilation[2]};
    part.offsets.push_back(number(at, field.rows()));
  }
  plan.parts.push_back(std::move(part));
  settle(plan);
  return plan;
}

int64_t floor_divide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// The taps that places r, r + stride, ... of x see in one dimension, the nearest to the beginning of y
// first, and the places of y under them, less the number of the place.
struct Seen {
  std::vector<int64_t> tap, shift;
};

std::vector<Seen> seen_by_remainder(const ConvShape& s, int d) {
  std::vector<Seen> seen(std::min(s.stride[d], s.in[d]));
  for (int64_t r = 0; r < static_cast<int64_t>(seen.size()); ++r)
    for (int64_t k = s.kernel[d]; k-- > 0;) {
      const int64_t reach = r + s.padding[d] - k * s.dilation[d];
      const int64_t shift = floor_divide(reach, s.stride[d]);
      if (shift * s.stride[d] != reach) continue;
      seen[r].tap.push_back(k);
      seen[r].shift.push_back(shift);
    }
  return seen;
}

// The part of x whose places have the remainders r.
Part part_of_input(const ConvShape& s, const std::vector<Seen> (&seen)[3], const Triple& r,
                   const Field& field) {
  Part part;
  part.step = {1, 1, 1};
  part.first = r;
  part.stride = s.stride;
  part.out = s.in;
  for (int d = 0; d < 3; ++d) part.grid[d] = (s.in[d] - r[d] + s.stride[d] - 1) / s.stride[d];
  const Seen &sd = seen[0][r[0]], &sh = seen[1][r[1]], &sw = seen[2][r[2]];
  for (size_t i = 0; i < sd.tap.size(); ++i)
    for (size_t j = 0; j < sh.tap.size(); ++j)
      for (size_t k = 0; k < sw.tap.size(); ++k) {
        part.taps.push_back(number({sd.tap[i], sh.tap[j], sw.tap[k]}, s.kernel));
        part.offsets.push_back(number({sd.shift[i] - field.origin[0], sh.shift[j] - field.origin[1],
                                       sw.shift[k] - field.origin[2]},
                                      field.rows()));
      }
  return part;
}

Plan plan_grad_input(const ConvShape& s) {
  Plan plan;
  Field& field = plan.field;
  field.source = s.out;
  field.channels = s.groups * s.out_channels;
  std::vector<Seen> seen[3];
  for (int d = 0; d < 3; ++d) {
    seen[d] = seen_by_remainder(s, d);
    bool any = false;
    int64_t least = 0, most = 0;  // pixels of y that are seen
    for (int64_t r = 0; r < static_cast<int64_t>(seen[d].size()); ++r)
      for (int64_t shift : seen[d][r].shift) {
        const int64_t last = shift + (s.in[d] - r + s.stride[d] - 1) / s.stride[d] - 1;
        least = any ? std::min(least, shift) : shift;
        most = any ? std::max(most, last) : last;
        any = true;
      }
    field.origin[d] = least;
    field.length[d] = most - least + 1;
  }
  Triple r;
  for (r[0] = 0; r[0] < static_cast<int64_t>(seen[0].size()); ++r[0])
    for (r[1] = 0; r[1] < static_cast<int64_t>(seen[1].size()); ++r[1])
      for (r[2] = 0; r[2] < static_cast<int64_t>(seen[2].size()); ++r[2])
        plan.parts.push_back(part_of_input(s, seen, r, field));
  settle(plan);
  return plan;
}

// A batch in blocks of images that are in the field together, with the memory for that.
template <class T>
class Blocks {
 public:
  Blocks(const Field& field, int64_t batch, const T* from)
      : field_(field),
        batch_(batch),
        from_(from),
        block_(std::clamp<int64_t>(
            num_threads() * kFieldBytes / (field.image() * static_cast<int64_t>(sizeof(T))), 1,
            batch)),
        memory_(field.is_inside() ? 0 : block_ * field.image()) {}

  // Calls body(first image, count, images in the field) for each.
  template <class Body>
  void for_each(Body&& body) const {
    if (field_.is_inside()) return body(int64_t{0}, batch_, from_);
    for (int64_t n = 0; n < batch_; n += block_) {
      const int64_t count = std::min(block_, batch_ - n);
      copy_images(field_, from_ + n * volume(field_.source) * field_.channels, count,
                  memory_.get());
      body(n, count, static_cast<const T*>(memory_.get()));
    }
  }

 private:
  const Field& field_;
  int64_t batch_;
  const T* from_;
  int64_t block_;
  Workspace<T> memory_;
};

// ---- products -----------------------------------------------------------------------------------

// The taps of a part as runs of elements, and the panels of its weights.
template <class T>
struct Runs {
  std::vector<int64_t> offsets, lengths;
  int64_t depth = 0;
  T* weights = nullptr;  // of the first group

  Runs(const Part& part, const Field& field, int64_t channels, bool joins) {
    for (int64_t offset : part.offsets) {
      const int64_t at = offset * field.channels;
      if (joins && !offsets.empty() && offsets.back() + lengths.back() == at &&
          lengths.back() + channels <= kDepthOfBlock)
        lengths.back() += channels;
      else {
        offsets.push_back(at);
        lengths.push_back(channels);
      }
      depth += channels;
    }
  }
};

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Columns in panels of at most ConvKernels::vectors vectors, each as deep as a row of the product. Panel k
// of a group begins columns(k) * depth behind the first.
template <class T>
struct Panels {
  explicit Panels(int64_t columns)
      : columns(columns),
        vectors((columns + kernels.width - 1) / kernels.width),
        count((vectors + kernels.vectors - 1) / kernels.vectors) {}
  int64_t first(int64_t k) const { return vectors * k / count * kernels.width; }
  int64_t width(int64_t k) const { return first(k + 1) - first(k); }
  int64_t valid(int64_t k) const { return std::min(columns, first(k + 1)) - first(k); }
  int64_t padded() const { return vectors * kernels.width; }

  const ConvKernels<T>& kernels = conv_kernels<T>();
  int64_t columns, vectors, count;
};

// A product's operands: `from` has from_channels in a group, `out` has as many as the panels have columns.
template <class T>
struct Operands {
  int64_t batch, groups, from_channels;
  const T *from, *bias;
  T* out;
};

// Places begin to end of one part, of the images of a block, with all of their channels.
template <class T>
void run_unit(const Part& part, const Runs<T>& runs, const Panels<T>& panels, const Field& field,
              const Operands<T>& how, const T* images, T* out, int64_t begin, int64_t end) {
  int64_t origins[kPlacesOfUnit], targets[kPlacesOfUnit];
  const int64_t out_channels = how.groups * panels.columns;
  PlaceWalk walk(part, field.rows(), begin);
  for (int64_t k = 0; k < end - begin; ++k, walk.step()) {
    origins[k] = walk.pixel() * field.channels;
    targets[k] = walk.target() * out_channels;
  }
  const int64_t count = static_cast<int64_t>(runs.lengths.size());
  for (int64_t group = 0; group < how.groups; ++group)
    for (int64_t k = 0; k < panels.count; ++k) {
      const T* weights = runs.weights + (group * panels.padded() + panels.first(k)) * runs.depth;
      int64_t first = 0;
      do {
        int64_t last = first, depth = 0;
        while (last < count && (last == first || depth + runs.lengths[last] <= kDepthOfBlock))
          depth += runs.lengths[last++];
        const int64_t column = group * panels.columns + panels.first(k);
        panels.kernels.row_product(
            {end - begin, panels.valid(k), images + group * how.from_channels, origins,
             last - first, runs.offsets.data() + first, runs.lengths.data() + first, weights,
             panels.width(k), how.bias && first == 0 ? how.bias + column : nullptr, out + column,
             targets, first > 0});
        weights += depth * panels.width(k);
        first = last;
      } while (first < count);
    }
}

// pack(part, group, panel, memory) writes the weights of a panel, its padding zeros.
template <class T, class Pack>
void run_plan(const Plan& plan, const Operands<T>& how, int64_t columns, Pack&& pack) {
  const Panels<T> panels(columns);
  std::vector<Runs<T>> all;
  int64_t size = 0;
  for (const Part& part : plan.parts) {
    all.emplace_back(part, plan.field, how.from_channels, how.groups == 1);
    size += how.groups * panels.padded() * all.back().depth;
  }
  Workspace<T> memory(size);
  const Blocks<T> blocks(plan.field, how.batch, how.from);
  BlockingSection blocking;
  T* next = memory.get();
  for (size_t p = 0; p < all.size(); ++p) {
    Runs<T>& runs = all[p];
    runs.weights = next;
    next += how.groups * panels.padded() * runs.depth;
    if (runs.depth == 0) continue;
    parallel_for(0, how.groups * panels.count,
                 std::max<int64_t>(1, kMoveGrain / (runs.depth * panels.kernels.width)),
                 [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t group = k / panels.count, panel = k % panels.count;
        pack(plan.parts[p], panels, group, panel,
             runs.weights + (group * panels.padded() + panels.first(panel)) * runs.depth);
      }
    });
  }
  const int64_t out_image = volume(plan.parts[0].out) * how.groups * columns;
  blocks.for_each([&](int64_t n, int64_t count, const T* images) {
    for (size_t p = 0; p < all.size(); ++p) {
      const Part& part = plan.parts[p];
      const int64_t places = count * part.places();
      const int64_t units = (places + kPlacesOfUnit - 1) / kPlacesOfUnit;
      const double work =
          double(kPlacesOfUnit) * std::max<int64_t>(1, all[p].depth) * how.groups * columns;
      parallel_for(0, units, std::max<int64_t>(1, static_cast<int64_t>(kUnitGrain / work)),
                   [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k)
          run_unit(part, all[p], panels, plan.field, how, images, how.out + n * out_image,
                   places * k / units, places * (k + 1) / units);
      });
    }
  });
}

// ---- one channel at a time: depthwise ----------------------------------------------------------

// Vectors go along the channels, so that places may see any of the taps: at the borders those that lie
// inside, and no field is needed.

// Places of the output that see the same taps, but for those outside: place k of a dimension sees places
// k * step + shift of the source.
struct DepthwisePart {
  Triple grid, step;
  Seen seen[3];
  Triple first, stride, out;  // of the output: the first place, between places, the sizes
};

std::vector<DepthwisePart> depthwise_parts(const ConvShape& s) {
  DepthwisePart part{s.out, s.stride, {}, {0, 0, 0}, {1, 1, 1}, s.out};
  for (int d = 0; d < 3; ++d)
    for (int64_t k = 0; k < s.kernel[d]; ++k) {
      part.seen[d].tap.push_back(k);
      part.seen[d].shift.push_back(k * s.dilation[d] - s.padding[d]);
    }
  return {part};
}

std::vector<DepthwisePart> depthwise_parts_of_input(const ConvShape& s) {
  std::vector<DepthwisePart> parts;
  std::vector<Seen> seen[3];
  for (int d = 0; d < 3; ++d) seen[d] = seen_by_remainder(s, d);
  Triple r;
  for (r[0] = 0; r[0] < static_cast<int64_t>(seen[0].size()); ++r[0])
    for (r[1] = 0; r[1] < static_cast<int64_t>(seen[1].size()); ++r[1])
      for (r[2] = 0; r[2] < static_cast<int64_t>(seen[2].size()); ++r[2]) {
        DepthwisePart part{{}, {1, 1, 1}, {}, r, s.stride, s.in};
        for (int d = 0; d < 3; ++d) {
          part.grid[d] = (s.in[d] - r[d] + s.stride[d] - 1) / s.stride[d];
          part.seen[d] = seen[d][r[d]];
        }
        parts.push_back(std::move(part));
      }
  return parts;
}

// The taps that some places of a row see, as offsets from the first place's pixel and rows of the weights.
struct RowTaps {
  std::vector<int64_t> offsets, rows;
  int64_t count() const { return static_cast<int64_t>(rows.size()); }
};

bool is_inside(int64_t place, int64_t size) { return place >= 0 && place < size; }

// Calls visit(first place, count, taps) for the places of row (d, h) of a part.
template <class Visit>
void for_each_segment(const DepthwisePart& part, const Triple& source, const Triple& kernel,
                      int64_t channels, int64_t d, int64_t h, Visit&& visit) {
  RowTaps taps;
  const Seen &sd = part.seen[0], &sh = part.seen[1], &sw = part.seen[2];
  const auto find = [&](int64_t w) {
    taps.offsets.clear();
    taps.rows.clear();
    for (size_t i = 0; i < sd.tap.size(); ++i)
      for (size_t j = 0; j < sh.tap.size(); ++j) {
        if (!is_inside(d * part.step[0] + sd.shift[i], source[0]) ||
            !is_inside(h * part.step[1] + sh.shift[j], source[1]))
          continue;
        for (size_t k = 0; k < sw.tap.size(); ++k) {
          if (!is_inside(w * part.step[2] + sw.shift[k], source[2])) continue;
          taps.offsets.push_back(number({sd.shift[i], sh.shift[j], sw.shift[k]}, source) *
                                 channels);
          taps.rows.push_back(number({sd.tap[i], sh.tap[j], sw.tap[k]}, kernel) * channels);
        }
      }
  };
  // Between these, places see all taps of a row.
  int64_t begin = 0, end = part.grid[2];
  for (int64_t shift : sw.shift) {
    const int64_t step = part.step[2];
    begin = std::max(begin, shift >= 0 ? int64_t{0} : (-shift + step - 1) / step);
    end = std::min(end, shift >= source[2] ? int64_t{0} : (source[2] - 1 - shift) / step + 1);
  }
  begin = std::min(begin, part.grid[2]);
  end = std::max(begin, end);
  for (int64_t w = 0; w < part.grid[2];) {
    const int64_t count = w == begin && begin < end ? end - begin : 1;
    find(w);
    visit(w, count, taps);
    w += count;
  }
}

// w (channels, taps) as (taps, channels).
template <class T>
void turn_weights(const ConvShape& s, const T* w, T* turned) {
  conv_kernels<T>().transpose(w, s.taps(), s.groups, s.taps(), turned, s.groups);
}

template <class T>
void run_depthwise(const ConvShape& s, const std::vector<DepthwisePart>& parts,
                   const Triple& source, const T* from, const T* w, const T* bias, T* out) {
  const ConvKernels<T>& kernels = conv_kernels<T>();
  const int64_t channels = s.groups;
  Workspace<T> weights(s.taps() * channels);
  BlockingSection blocking;
  turn_weights(s, w, weights.get());
  for (const DepthwisePart& part : parts) {
    const int64_t rows = part.grid[0] * part.grid[1];
    const int64_t work = part.grid[2] * s.taps() * channels;
    parallel_for(0, s.batch * rows, std::max<int64_t>(1, kUnitGrain / std::max<int64_t>(1, work)),
                 [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t n = k / rows, d = k % rows / part.grid[1], h = k % part.grid[1];
        const T* image = from + n * volume(source) * channels;
        T* result = out + n * volume(part.out) * channels;
        for_each_segment(part, source, s.kernel, channels, d, h,
                         [&](int64_t first, int64_t count, const RowTaps& taps) {
          const int64_t pixel =
              number({d * part.step[0], h * part.step[1], first * part.step[2]}, source);
          const int64_t target =
              number({part.first[0] + d * part.stride[0], part.first[1] + h * part.stride[1],
                      part.first[2] + first * part.stride[2]},
                     part.out);
          kernels.depthwise_places({count, channels, taps.count(), image + pixel * channels,
                                    part.step[2] * channels, taps.offsets.data(), weights.get(),
                                    taps.rows.data(), bias, result + target * channels,
                                    part.stride[2] * channels});
        });
      }
    });
  }
}

template <class T>
void depthwise_grad_weight(const ConvShape& s, const T* x, const T* g, T* w) {
  const ConvKernels<T>& kernels = conv_kernels<T>();
  const DepthwisePart part = depthwise_parts(s)[0];
  const int64_t channels = s.groups, size = s.taps() * channels;
  // Each image has sums of its own, which are added in order: the result does not depend on threads.
  Workspace<T> memory((s.batch + 1) * size);
  BlockingSection blocking;
  T* sums = memory.get() + size;
  std::fill_n(memory.get(), (s.batch + 1) * size, T(0));
  parallel_for(0, s.batch,
               std::max<int64_t>(1, kUnitGrain / std::max<int64_t>(1, volume(s.out) * size)),
               [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      for (int64_t row = 0; row < s.out[0] * s.out[1]; ++row) {
        const int64_t d = row / s.out[1], h = row % s.out[1];
        for_each_segment(part, s.in, s.kernel, channels, d, h,
                         [&](int64_t first, int64_t count, const RowTaps& taps) {
          const int64_t pixel =
              number({d * s.stride[0], h * s.stride[1], first * s.stride[2]}, s.in);
          kernels.depthwise_sums({count, channels, taps.count(),
                                  x + (n * volume(s.in) + pixel) * channels, s.stride[2] * channels,
                                  taps.offsets.data(),
                                  g + (n * volume(s.out) + row * s.out[2] + first) * channels,
                                  sums + n * size, taps.rows.data()});
        });
      }
  });
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t k = 0; k < size; ++k) memory.get()[k] += sums[n * size + k];
  kernels.transpose(memory.get(), channels, s.taps(), channels, w, s.taps());
}

// ---- weights ------------------------------------------------------------------------------------

// The sums of one group over the images of a block; g has whole vectors of channels, g_stride apart.
template <class T>
void add_to_weights(const ConvShape& s, const Plan& plan, const std::vector<int64_t>& offsets,
                    int64_t images, const T* x, const T* g, int64_t g_stride, int64_t width,
                    T* sums) {
  const ConvKernels<T>& kernels = conv_kernels<T>();
  const Triple& rows = plan.field.rows();
  const int64_t c = plan.field.channels, lines = std::max<int64_t>(1, kPlacesOfSums / s.out[2]);
  const double work = double(volume(s.out)) * width * images;
  const int64_t grain = std::max<int64_t>(8, static_cast<int64_t>(4 * kUnitGrain / work));
  parallel_for(0, s.depth(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t n = 0; n < images; ++n)
      for (int64_t d = 0; d < s.out[0]; ++d)
        for (int64_t h = 0; h < s.out[1]; h += lines) {
          const int64_t pixel = number({d * s.stride[0], h * s.stride[1], 0}, rows);
          kernels.tap_product({end - begin, width / kernels.width,
                               x + n * plan.field.image() + pixel * c, offsets.data() + begin,
                               std::min(lines, s.out[1] - h), s.out[2], s.stride[1] * rows[2] * c,
                               s.stride[2] * c,
                               g + (n * volume(s.out) + number({d, h, 0}, s.out)) * g_stride,
                               g_stride, sums + begin * width, width});
        }
  });
}

template <class T>
void product_grad_weight(const ConvShape& s, const Plan& plan, const T* x, const T* g, T* w) {
  const ConvKernels<T>& kernels = conv_kernels<T>();
  const int64_t width = round_up(s.out_channels, kernels.width), all = s.groups * s.out_channels;
  const int64_t places = volume(s.out), depth = s.depth();
  std::vector<int64_t> offsets;
  for (int64_t offset : plan.parts[0].offsets)
    for (int64_t k = 0; k < s.in_channels; ++k) offsets.push_back(offset * plan.field.channels + k);
  const bool whole = width == s.out_channels;
  Workspace<T> sums(s.groups * depth * width), wide(whole ? 0 : s.batch * places * width);
  const Blocks<T> blocks(plan.field, s.batch, x);
  BlockingSection blocking;
  std::fill_n(sums.get(), s.groups * depth * width, T(0));
  blocks.for_each([&](int64_t n, int64_t count, const T* images) {
    for (int64_t group = 0; group < s.groups; ++group) {
      const T* grads = g + n * places * all + group * s.out_channels;
      if (!whole)
        parallel_for(0, count * places, std::max<int64_t>(1, kMoveGrain / width),
                     [&](int64_t begin, int64_t end) {
          for (int64_t k = begin; k < end; ++k) {
            std::copy_n(grads + k * all, s.out_channels, wide.get() + k * width);
            std::fill_n(wide.get() + k * width + s.out_channels, width - s.out_channels, T(0));
          }
        });
      add_to_weights(s, plan, offsets, count, images + group * s.in_channels,
                     whole ? grads : wide.get(), whole ? all : width, width,
                     sums.get() + group * depth * width);
    }
  });
  for (int64_t group = 0; group < s.groups; ++group)
    kernels.transpose(sums.get() + group * depth * width, width, depth, s.out_channels,
                      w + group * s.weights(), depth);
}

// A kernel of one tap that sees every pixel once: all pixels are the rows of one product.
bool is_one_product(const ConvShape& s) {
  const Triple ones{1, 1, 1}, zeros{0, 0, 0};
  return s.groups == 1 && s.kernel == ones && s.stride == ones && s.padding == zeros;
}

template <class T>
void multiply_pixels(bool transpose, int64_t pixels, int64_t columns, int64_t depth, const T* a,
                     const T* w, int64_t w_stride, const T* bias, T* c) {
  BlockingSection blocking;
  if (bias)
    return gemm_with_bias<T>(false, transpose, pixels, columns, depth, a, depth, w, w_stride, bias,
                             c, columns);
  gemm<T>(false, transpose, pixels, columns, depth, T(1), a, depth, w, w_stride, T(0), c, columns);
}

}  // namespace

template <class T>
bool prefers_channels_last(const ConvShape& s, int64_t columns) {
  return are_sensible(s) && (s.is_depthwise() || 2 * columns >= conv_kernels<T>().width);
}

template <class T>
void conv_channels_last(const ConvShape& s, const T* x, const T* w, const T* bias, T* y) {
  if (is_one_product(s))
    return multiply_pixels(true, s.batch * volume(s.in), s.out_channels, s.in_channels, x, w,
                           s.in_channels, bias, y);
  if (s.is_depthwise()) return run_depthwise(s, depthwise_parts(s), s.in, x, w, bias, y);
  const Plan plan = plan_forward(s);
  const Operands<T> how{s.batch, s.groups, s.in_channels, x, bias, y};
  run_plan(plan, how, s.out_channels,
           [&](const Part&, const Panels<T>& panels, int64_t group, int64_t k, T* to) {
    if (panels.valid(k) < panels.width(k)) std::fill_n(to, s.depth() * panels.width(k), T(0));
    panels.kernels.transpose(w + group * s.weights() + panels.first(k) * s.depth(), s.depth(),
                             panels.valid(k), s.depth(), to, panels.width(k));
  });
}

template <class T>
void conv_grad_input_channels_last(const ConvShape& s, const T* g, const T* w, const T* bias,
                                   T* x) {
  if (is_one_product(s))
    return multiply_pixels(false, s.batch * volume(s.in), s.in_channels, s.out_channels, g, w,
                           s.in_channels, bias, x);
  if (s.is_depthwise()) return run_depthwise(s, depthwise_parts_of_input(s), s.out, g, w, bias, x);
  const Plan plan = plan_grad_input(s);
  const Operands<T> how{s.batch, s.groups, s.out_channels, g, bias, x};
  run_plan(plan, how, s.in_channels,
           [&](const Part& part, const Panels<T>& panels, int64_t group, int64_t k, T* to) {
    const int64_t valid = panels.valid(k), width = panels.width(k);
    for (int64_t tap : part.taps)
      for (int64_t o = 0; o < s.out_channels; ++o, to += width) {
        const T* row = w + group * s.weights() + (o * s.taps() + tap) * s.in_channels;
        std::copy_n(row + panels.first(k), valid, to);
        std::fill_n(to + valid, width - valid, T(0));
      }
  });
}

template <class T>
void conv_grad_weight_channels_last(const ConvShape& s, const T* x, const T* g, T* w) {
  if (is_one_product(s)) {
    BlockingSection blocking;
    return gemm<T>(true, false, s.out_channels, s.in_channels, s.batch * volume(s.in), T(1), g,
                   s.out_channels, x, s.in_channels, T(0), w, s.in_channels);
  }
  if (s.is_depthwise()) return depthwise_grad_weight(s, x, g, w);
  product_grad_weight(s, plan_forward(s), x, g, w);
}

#define TAPEGRAD_CONV(T)                                                                           \
  template bool prefers_channels_last<T>(const ConvShape&, int64_t);                               \
  template void conv_channels_last(const ConvShape&, const T*, const T*, const T*, T*);            \
  template void conv_grad_input_channels_last(const ConvShape&, const T*, const T*, const T*, T*); \
  template void conv_grad_weight_channels_last(const ConvShape&, const T*, const T*, T*);
TAPEGRAD_CONV(float)
TAPEGRAD_CONV(double)
#undef TAPEGRAD_CONV

}  // namespace tapegrad::cpu
