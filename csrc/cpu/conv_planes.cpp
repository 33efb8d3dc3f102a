// Convolution by planes: no columns are copied out. Each channel of an image is copied once into a
// *plane* with its padding around it, `length` long in each dimension. Numbered through, place q of
// the output sees, under a given tap of the kernel, place q + offset(tap) of the plane, whatever q
// is: so the inner loop of a matrix product can take its vectors straight from the plane.
//
// Which places make a vector is the *tiling* of the output. Where rows of the output are whole
// vectors, it takes them one by one; where they are halves or quarters of vectors, a vector is put
// together from the same columns of two or four rows. Else the places are numbered by the plane's
// rows, which are longer than the output's: some are computed in vain, and dropped when the results
// are stored. Where images are so small that this would be many, conv_columns.cpp is the better
// method.
//
// Strides. With stride s the places that one tap sees are every s-th, so a channel is copied into
// one plane per *phase*, the remainder of a coordinate by s; within a phase they are adjacent again.
//
// The gradient of x is a convolution of the gradient of y. With strides, the places of x fall into
// phases, each of which sees its own taps: one *part* of the work per phase.
//
// The gradient of w is the product of the planes, shifted tap by tap, with the gradient of y, whose
// channels are brought side by side for that (tap_product).
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/parallel.h"
#include "cpu/conv.h"
#include "cpu/conv_kernels.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kSlack = 64;                     // elements that the last vector may read beyond
constexpr int64_t kVectorsWanted = 9;              // of the images that are treated together
constexpr int64_t kDepthOfBlock = 768;             // taps and channels between visits of a panel
constexpr int64_t kBlockBytes = int64_t{1} << 20;  // of images packed together
constexpr int64_t kPlacesOfImage = 48;  // that make a visit of the sums of weights worth it
constexpr int64_t kPlaces = 64;         // whose gradients are transposed at a time
constexpr int64_t kMaxRuns = 64;        // of a panel: its columns, at most
constexpr int64_t kRowsToGather = 24;   // of output channels, that make putting pieces together pay
constexpr int64_t kMaxVectors = 4;      // of a panel
constexpr int64_t kUnitGrain = 32 * 1024;  // multiply-adds that make a second thread pay
// What copying out a run of columns costs, in multiply-adds, and what adding it back does.
constexpr double kGatherCost = 700, kScatterCost = 1000;
// What a vector of 1, 2 or 4 pieces costs.
constexpr double kPieceCost[] = {0, 1.0, 1.06, 0, 1.15};

// How one channel of an image becomes planes: place u of phase f of a plane shows place
// u * step + phases[f] + origin of the image, or zero where there is none.
struct Layout {
  Triple source, step, origin, length;
  std::vector<int64_t> phases[3];

  int64_t plane() const { return volume(length); }
  int64_t channel() const {
    return plane() * static_cast<int64_t>(phases[0].size() * phases[1].size() * phases[2].size());
  }
};

template <class T>
void pack_channel(const Layout& layout, const T* image, T* planes) {
  const int64_t height = layout.length[1], length = layout.length[2], step = layout.step[1];
  for (int64_t fd : layout.phases[0])
    for (int64_t fh : layout.phases[1]) {
      // Rows whose source is inside the image.
      const int64_t first = fh + layout.origin[1];
      const int64_t begin =
          std::clamp<int64_t>(first >= 0 ? 0 : (-first + step - 1) / step, 0, height);
      const int64_t end =
          first >= layout.source[1]
              ? begin
              : std::clamp<int64_t>((layout.source[1] - 1 - first) / step + 1, begin, height);
      for (int64_t fw : layout.phases[2])
        for (int64_t ud = 0; ud < layout.length[0]; ++ud, planes += height * length) {
          const int64_t d = ud * layout.step[0] + fd + layout.origin[0];
          if (d < 0 || d >= layout.source[0]) {
            std::fill_n(planes, height * length, T(0));
            continue;
          }
          std::fill_n(planes, begin * length, T(0));
          if (begin < end)
            conv_kernels<T>().pack_rows(
                image + (d * layout.source[1] + first + begin * step) * layout.source[2],
                step * layout.source[2], end - begin, layout.source[2], layout.step[2],
                fw + layout.origin[2], length, planes + begin * length);
          std::fill_n(planes + end * length, (height - end) * length, T(0));
        }
    }
}

// Places of the output that are computed together: a grid of `grid` places, numbered by the plane's
// rows, and where they go.
struct Part {
  Triple grid;
  std::vector<int64_t> taps;     // of the kernel, which its places see
  std::vector<int64_t> offsets;  // of each tap in a channel's planes
  int64_t target = 0;            // of the first place, within an output channel
  Triple out_stride;

  int64_t columns(const Layout& layout) const {
    if (volume(grid) == 0) return 0;
    return ((grid[0] - 1) * layout.length[1] + grid[1] - 1) * layout.length[2] + grid[2];
  }
};

struct Plan {
  Layout layout;
  std::vector<Part> parts;
};

// y from x: one part; the phases are of x.
Plan plan_forward(const ConvShape& s) {
  Plan plan;
  Layout& layout = plan.layout;
  layout.source = s.in;
  layout.step = s.stride;
  for (int d = 0; d < 3; ++d) {
    layout.origin[d] = -s.padding[d];
    layout.length[d] = s.out[d] + (s.kernel[d] - 1) * s.dilation[d] / s.stride[d];
    for (int64_t k = 0; k < s.kernel[d]; ++k) {
      const int64_t phase = k * s.dilation[d] % s.stride[d];
      auto& phases = layout.phases[d];
      if (std::find(phases.begin(), phases.end(), phase) == phases.end()) phases.push_back(phase);
    }
  }
  Part part{s.out, {}, {}, 0, {s.out[1] * s.out[2], s.out[2], 1}};
  for (int64_t tap = 0; tap < s.taps(); ++tap) {
    const Triple k{tap / (s.kernel[1] * s.kernel[2]), tap / s.kernel[2] % s.kernel[1],
                   tap % s.kernel[2]};
    int64_t phase = 0, shift = 0;
    for (int d = 0; d < 3; ++d) {
      const auto& phases = layout.phases[d];
      const int64_t reach = k[d] * s.dilation[d];
      const auto found = std::find(phases.begin(), phases.end(), reach % s.stride[d]);
      phase = phase * static_cast<int64_t>(phases.size()) + (found - phases.begin());
      shift = shift * layout.length[d] + reach / s.stride[d];
    }
    part.taps.push_back(tap);
    part.offsets.push_back(phase * layout.plane() + shift);
  }
  plan.parts.push_back(std::move(part));
  return plan;
}

int64_t floor_divide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// The taps that places r, r + stride, ... of x see in one dimension, and how far the place of y is
// from the number of the place of x.
struct Seen {
  std::vector<int64_t> tap, shift;
};

std::vector<Seen> seen_by_phase(const ConvShape& s, int d) {
  std::vector<Seen> phases(std::min(s.stride[d], s.in[d]));
  for (int64_t r = 0; r < static_cast<int64_t>(phases.size()); ++r)
    for (int64_t k = 0; k < s.kernel[d]; ++k) {
      const int64_t reach = r + s.padding[d] - k * s.dilation[d];
      if (floor_divide(reach, s.stride[d]) * s.stride[d] != reach) continue;
      phases[r].tap.push_back(k);
      phases[r].shift.push_back(floor_divide(reach, s.stride[d]));
    }
  return phases;
}

// x's gradient from y's: one part per phase of x.
Plan plan_grad_input(const ConvShape& s) {
  Plan plan;
  Layout& layout = plan.layout;
  layout.source = s.out;
  layout.step = {1, 1, 1};
  std::vector<Seen> seen[3];
  for (int d = 0; d < 3; ++d) {
    seen[d] = seen_by_phase(s, d);
    int64_t least = 0, most = 0;
    bool any = false;
    for (const Seen& phase : seen[d])
      for (int64_t shift : phase.shift) {
        least = any ? std::min(least, shift) : shift;
        most = any ? std::max(most, shift) : shift;
        any = true;
      }
    for (Seen& phase : seen[d])
      for (int64_t& shift : phase.shift) shift -= least;
    layout.origin[d] = least;
    layout.length[d] = (s.in[d] + s.stride[d] - 1) / s.stride[d] + most - least;
    layout.phases[d] = {0};
  }
  for (size_t rd = 0; rd < seen[0].size(); ++rd)
    for (size_t rh = 0; rh < seen[1].size(); ++rh)
      for (size_t rw = 0; rw < seen[2].size(); ++rw) {
        const Triple r{static_cast<int64_t>(rd), static_cast<int64_t>(rh),
                       static_cast<int64_t>(rw)};
        Part part;
        for (int d = 0; d < 3; ++d) part.grid[d] = (s.in[d] - r[d] + s.stride[d] - 1) / s.stride[d];
        part.target = (r[0] * s.in[1] + r[1]) * s.in[2] + r[2];
        part.out_stride = {s.stride[0] * s.in[1] * s.in[2], s.stride[1] * s.in[2], s.stride[2]};
        const Seen &sd = seen[0][rd], &sh = seen[1][rh], &sw = seen[2][rw];
        for (size_t i = 0; i < sd.tap.size(); ++i)
          for (size_t j = 0; j < sh.tap.size(); ++j)
            for (size_t k = 0; k < sw.tap.size(); ++k) {
              part.taps.push_back((sd.tap[i] * s.kernel[1] + sh.tap[j]) * s.kernel[2] + sw.tap[k]);
              part.offsets.push_back(
                  (sd.shift[i] * layout.length[1] + sh.shift[j]) * layout.length[2] + sw.shift[k]);
            }
        plan.parts.push_back(std::move(part));
      }
  return plan;
}

// ---- outputs ------------------------------------------------------------------------------------

// The vectors of one image's part: where each begins in a plane, and the runs of its columns that are
// places of the output.
struct Tiling {
  int64_t pieces = 1;
  std::vector<int64_t> places;
  std::vector<ConvRun> runs;
  std::vector<int64_t> first_run;  // of each vector, and one more

  int64_t vectors() const { return static_cast<int64_t>(places.size()); }
};

// Rows of the output in pieces of width / pieces places.
Tiling tile_by_rows(const Layout& layout, const Part& part, int64_t width, int64_t pieces) {
  Tiling tiling;
  tiling.pieces = pieces;
  const int64_t piece = width / pieces, length = layout.length[2];
  for (int64_t d = 0; d < part.grid[0]; ++d)
    for (int64_t h = 0; h < part.grid[1]; h += pieces)
      for (int64_t w = 0; w < part.grid[2]; w += piece) {
        tiling.first_run.push_back(static_cast<int64_t>(tiling.runs.size()));
        tiling.places.push_back((d * layout.length[1] + h) * length + w);
        for (int64_t k = 0; k < std::min(pieces, part.grid[1] - h); ++k)
          tiling.runs.push_back({k * piece, piece,
                                 part.target + d * part.out_stride[0] +
                                     (h + k) * part.out_stride[1] + w * part.out_stride[2]});
      }
  tiling.first_run.push_back(static_cast<int64_t>(tiling.runs.size()));
  return tiling;
}

// Places numbered by the plane's rows.
Tiling tile_by_number(const Layout& layout, const Part& part, int64_t width) {
  Tiling tiling;
  const int64_t columns = part.columns(layout), length = layout.length[2];
  for (int64_t first = 0; first < columns; first += width) {
    const int64_t last = std::min(first + width, columns);
    tiling.first_run.push_back(static_cast<int64_t>(tiling.runs.size()));
    tiling.places.push_back(first);
    for (int64_t row = first / length; row * length < last; ++row) {
      const int64_t d = row / layout.length[1], h = row % layout.length[1];
      const int64_t begin = std::max(first, row * length);
      const int64_t end = std::min(last, row * length + part.grid[2]);
      if (d >= part.grid[0] || h >= part.grid[1] || begin >= end) continue;
      tiling.runs.push_back({begin - first, end - begin,
                             part.target + d * part.out_stride[0] + h * part.out_stride[1] +
                                 (begin - row * length) * part.out_stride[2]});
    }
  }
  tiling.first_run.push_back(static_cast<int64_t>(tiling.runs.size()));
  return tiling;
}

// The places that a tiling would compute, with the price of its pieces; 0 pieces means by number.
double cost_of(const Layout& layout, const Part& part, int64_t width, int64_t pieces) {
  if (pieces == 0) return double((part.columns(layout) + width - 1) / width * width);
  return double(part.grid[0]) * ((part.grid[1] + pieces - 1) / pieces) * part.grid[2] * pieces *
         kPieceCost[pieces];
}

struct Choice {
  int64_t pieces;
  double cost;
};

Choice best_choice(const Layout& layout, const Part& part, int64_t width) {
  Choice best{0, cost_of(layout, part, width, 0)};
  for (int64_t pieces : {1, 2, 4}) {
    if (width / pieces < 2 || part.grid[2] % (width / pieces) != 0) continue;
    const double cost = cost_of(layout, part, width, pieces);
    if (cost <= best.cost) best = {pieces, cost};
  }
  return best;
}

Tiling best_tiling(const Layout& layout, const Part& part, int64_t width) {
  const int64_t pieces = best_choice(layout, part, width).pieces;
  return pieces ? tile_by_rows(layout, part, width, pieces) : tile_by_number(layout, part, width);
}

// What is the same for every image: which weights make the rows of a part, where their elements meet
// the planes, and the tiling of its places.
struct Rows {
  const Part* part;
  int64_t row_stride, depth;  // of the weights; elements of a row
  Tiling tiling;
  std::vector<int64_t> weights, offsets;  // of each element of a row, in the weights and the planes
};

// Some images of one group, their planes one after the other.
template <class T>
struct Block {
  const T* weights;
  const T* planes;
  int64_t planes_size, images;
  const T* bias;
  T* out;
  int64_t out_channel, out_image;  // between output channels, and images
};

// A share of the panels of a part. Panels go on from one image to the next.
template <class T>
void run_panels(const Layout& layout, const Rows& rows, int64_t m, const Block<T>& block,
                int64_t share, int64_t shares, T* c) {
  const ConvKernels<T>& kernels = conv_kernels<T>();
  const Tiling& tiling = rows.tiling;
  const int64_t vectors = tiling.vectors() * block.images;
  const int64_t panels = (vectors + kernels.vectors - 1) / kernels.vectors;
  const int64_t c_stride = kernels.vectors * kernels.width;
  // Vectors in pieces are put together once, for all rows.
  const bool gathers = tiling.pieces > 1 && m >= kRowsToGather;
  T* panel_memory = c + m * c_stride;
  std::vector<int64_t> dense(gathers ? std::min(kDepthOfBlock, rows.depth) : 0);
  for (size_t k = 0; k < dense.size(); ++k) dense[k] = static_cast<int64_t>(k) * c_stride;
  int64_t whole[kMaxVectors];
  for (int64_t v = 0; v < kMaxVectors; ++v) whole[v] = v * kernels.width;
  ConvRun runs[kMaxRuns];
  int64_t places[kMaxVectors];
  for (int64_t panel = panels * share / shares; panel < panels * (share + 1) / shares; ++panel) {
    const int64_t first = vectors * panel / panels, last = vectors * (panel + 1) / panels;
    int64_t count = 0;
    for (int64_t k = first; k < last; ++k) {
      const int64_t image = k / tiling.vectors(), vector = k % tiling.vectors();
      places[k - first] = image * block.planes_size + tiling.places[vector];
      for (int64_t r = tiling.first_run[vector]; r < tiling.first_run[vector + 1]; ++r)
        runs[count++] = {tiling.runs[r].column + (k - first) * kernels.width, tiling.runs[r].length,
                         tiling.runs[r].target + image * block.out_image};
    }
    for (int64_t k = 0; k == 0 || k < rows.depth; k += kDepthOfBlock) {
      PlaneProduct<T> product{m,
                              std::min(kDepthOfBlock, rows.depth - k),
                              last - first,
                              block.weights,
                              rows.row_stride,
                              rows.weights.data() + k,
                              block.planes,
                              rows.offsets.data() + k,
                              places,
                              tiling.pieces,
                              layout.length[2],
                              c,
                              c_stride,
                              k > 0};
      if (gathers) {
        kernels.gather_panel(product, panel_memory, c_stride);
        product.b = panel_memory;
        product.offsets = dense.data();
        product.places = whole;
        product.pieces = 1;
      }
      kernels.plane_product(product);
    }
    kernels.store_runs(c, c_stride, m, runs, count, block.bias, block.out, block.out_channel,
                       rows.part->out_stride[2]);
  }
}

// Into how many shares an image's panels are cut, so that threads have equal work.
int64_t shares_of(int64_t units) {
  const int64_t threads = num_threads();
  if (units >= 8 * threads) return 1;
  int64_t shares = 1;
  while (units * shares % threads != 0) ++shares;
  return shares;
}

// The threads that a piece of work is worth, and body(worker, unit) for each unit.
template <class Body>
void share_units(int64_t units, double work, Body&& body, int64_t workers) {
  if (work * static_cast<double>(units) < 2.0 * kUnitGrain) workers = 1;
  workers = std::min(workers, units);
  parallel_for(0, workers, 1, [&](int64_t begin, int64_t end) {
    for (int64_t worker = begin; worker < end; ++worker)
      for (int64_t unit = units * worker / workers; unit < units * (worker + 1) / workers; ++unit)
        body(worker, unit);
  });
}

// Images that are treated together, so that panels are full and threads have equal work.
template <class T>
int64_t images_together(const ConvShape& s, const std::vector<Rows>& all, int64_t image_size) {
  int64_t vectors = 1;
  for (const Rows& rows : all) vectors = std::max(vectors, rows.tiling.vectors());
  const int64_t wanted = (kVectorsWanted + vectors - 1) / vectors;
  const int64_t fits = kBlockBytes / static_cast<int64_t>(image_size * sizeof(T));
  return std::clamp<int64_t>(std::min(wanted, fits), 1,
                             std::max<int64_t>(1, s.batch / num_threads()));
}

// `from` has `from_channels` per group and becomes planes; `out` has m per group.
template <class T>
void run_plan(const ConvShape& s, const Layout& layout, const std::vector<Rows>& all,
              const T* weights, const T* from, int64_t from_channels, int64_t from_places,
              const T* bias, T* out, int64_t m, int64_t out_places) {
  const ConvKernels<T>& kernels = conv_kernels<T>();
  const int64_t image_size = from_channels * layout.channel(), workers = num_threads();
  const int64_t together = images_together<T>(s, all, image_size);
  const int64_t blocks = (s.batch + together - 1) / together;
  const int64_t shares = shares_of(blocks * s.groups);
  const int64_t slack = kSlack + 3 * layout.length[2];
  const int64_t c_size = (m + kDepthOfBlock) * kernels.vectors * kernels.width;
  const int64_t scratch = (together * image_size + slack + c_size + 15) / 16 * 16;
  Workspace<T> memory(scratch * workers);
  BlockingSection blocking;
  const double work = double(m) * from_channels * s.taps() * volume(s.out) * together / shares;
  share_units(blocks * s.groups * shares, work, [&](int64_t worker, int64_t unit) {
    const int64_t number = unit / shares / s.groups, group = unit / shares % s.groups;
    const int64_t first = s.batch * number / blocks, last = s.batch * (number + 1) / blocks;
    T* planes = memory.get() + scratch * worker;
    T* c = planes + together * image_size + slack;
    for (int64_t n = first; n < last; ++n) {
      const T* source = from + (n * s.groups + group) * from_channels * from_places;
      for (int64_t k = 0; k < from_channels; ++k)
        pack_channel(layout, source + k * from_places,
                     planes + (n - first) * image_size + k * layout.channel());
    }
    std::fill_n(planes + (last - first) * image_size, slack, T(0));
    for (const Rows& rows : all) {
      const Block<T> block{weights + group * s.weights(),
                           planes,
                           image_size,
                           last - first,
                           bias ? bias + group * m : nullptr,
                           out + (first * s.groups + group) * m * out_places,
                           out_places,
                           s.groups * m * out_places};
      run_panels(layout, rows, m, block, unit % shares, shares, c);
    }
  }, workers);
}

// ---- one channel at a time: depthwise -------------------------------------------------------------

// from and out have one channel per group; weights are [groups][taps of the kernel].
template <class T>
void run_depthwise(const ConvShape& s, const Plan& plan, const T* from, int64_t from_places,
                   const T* weights, const T* bias, T* out, int64_t out_places) {
  const ConvKernels<T>& kernels = conv_kernels<T>();
  const Layout& layout = plan.layout;
  const int64_t workers = num_threads(), row_size = layout.length[2] + kSlack;
  const int64_t scratch = (layout.channel() + kSlack + row_size + s.taps() + 15) / 16 * 16;
  Workspace<T> memory(scratch * workers);
  BlockingSection blocking;
  share_units(s.batch * s.groups, double(s.taps()) * volume(s.out),
              [&](int64_t worker, int64_t unit) {
    const int64_t group = unit % s.groups;
    T* planes = memory.get() + scratch * worker;
    T* row = planes + layout.channel() + kSlack;
    T* seen = row + row_size;
    pack_channel(layout, from + unit * from_places, planes);
    std::fill_n(planes + layout.channel(), kSlack, T(0));
    for (const Part& part : plan.parts) {
      const int64_t taps = static_cast<int64_t>(part.taps.size()), step = part.out_stride[2];
      for (int64_t t = 0; t < taps; ++t) seen[t] = weights[group * s.taps() + part.taps[t]];
      for (int64_t d = 0; d < part.grid[0]; ++d) {
        const T* plane = planes + d * layout.length[1] * layout.length[2];
        T* to = out + unit * out_places + part.target + d * part.out_stride[0];
        DepthwiseRows rows{part.grid[1],
                           part.grid[2],
                           taps,
                           seen,
                           plane,
                           layout.length[2],
                           part.offsets.data(),
                           bias ? bias[group] : T(0),
                           to,
                           part.out_stride[1]};
        if (step == 1) {
          kernels.depthwise_rows(rows);
          continue;
        }
        rows.rows = 1;
        rows.out = row;
        for (int64_t h = 0; h < part.grid[1]; ++h) {
          rows.plane = plane + h * layout.length[2];
          kernels.depthwise_rows(rows);
          for (int64_t j = 0; j < part.grid[2]; ++j) to[h * part.out_stride[1] + j * step] = row[j];
        }
      }
    }
  }, workers);
}

template <class T>
void depthwise_grad_weight(const ConvShape& s, const Plan& plan, const T* x, const T* g, T* w) {
  const ConvKernels<T>& kernels = conv_kernels<T>();
  const Layout& layout = plan.layout;
  const Part& part = plan.parts[0];
  // Rows that are no whole vectors are taken with the gap behind them, filled with zeros.
  const bool whole = s.out[2] % kernels.width == 0 && s.out[0] == 1;
  const int64_t columns = part.columns(layout), workers = num_threads();
  const int64_t rows = s.out[0] * layout.length[1];
  const int64_t scratch = (layout.channel() + kSlack + rows * layout.length[2] + 15) / 16 * 16;
  Workspace<T> memory(scratch * workers);
  BlockingSection blocking;
  std::fill_n(memory.get(), scratch * workers, T(0));
  share_units(s.groups, double(s.taps()) * volume(s.out) * s.batch,
              [&](int64_t worker, int64_t group) {
    T* planes = memory.get() + scratch * worker;
    T* wide = planes + layout.channel() + kSlack;
    std::fill_n(w + group * s.taps(), s.taps(), T(0));
    for (int64_t n = 0; n < s.batch; ++n) {
      const int64_t image = n * s.groups + group;
      pack_channel(layout, x + image * volume(s.in), planes);
      const T* from = g + image * volume(s.out);
      if (whole) {
        kernels.depthwise_dots(s.taps(), planes, part.offsets.data(), from, s.out[1], s.out[2],
                               layout.length[2], w + group * s.taps());
        continue;
      }
      for (int64_t d = 0; d < s.out[0]; ++d, from += s.out[1] * s.out[2])
        kernels.pack_rows(from, s.out[2], s.out[1], s.out[2], 1, 0, layout.length[2],
                          wide + d * layout.length[1] * layout.length[2]);
      kernels.depthwise_dots(s.taps(), planes, part.offsets.data(), wide, 1, columns, 0,
                             w + group * s.taps());
    }
  }, workers);
}

// ---- weights ------------------------------------------------------------------------------------

// One group's images, some at a time: first all are packed, then threads share the taps.
template <class T>
class WeightGradient {
 public:
  WeightGradient(const ConvShape& s, const Plan& plan)
      : s(s),
        layout(plan.layout),
        part(plan.parts[0]),
        width((s.out_channels + kernels.width - 1) / kernels.width * kernels.width),
        image_size(s.in_channels * layout.channel() + volume(s.out) * width),
        block(std::clamp<int64_t>(kBlockBytes / (image_size * sizeof(T)), 1, s.batch)),
        memory(block * image_size + s.depth() * width) {
    for (int64_t k = 0; k < s.depth(); ++k)
      offsets.push_back(k / s.taps() * layout.channel() + part.offsets[k % s.taps()]);
    // Channels up to whole vectors stay zero.
    std::fill_n(memory.get(), block * image_size, T(0));
  }

  void run(const T* x, const T* g, T* w) {
    T* sums = memory.get() + block * image_size;
    std::fill_n(sums, s.depth() * width, T(0));
    for (int64_t n = 0; n < s.batch; n += block) {
      const int64_t count = std::min(block, s.batch - n);
      pack(x + n * s.groups * s.image(), g + n * s.groups * s.result(), count);
      multiply(count, sums);
    }
    kernels.transpose(sums, width, s.depth(), s.out_channels, w, s.depth());
  }

 private:
  T* planes(int64_t n) const { return memory.get() + n * image_size; }
  T* grads(int64_t n) const { return planes(n) + s.in_channels * layout.channel(); }

  void pack(const T* x, const T* g, int64_t count) {
    const int64_t places = volume(s.out), parts = (places + kPlaces - 1) / kPlaces;
    const int64_t pieces = s.in_channels + parts;
    const int64_t grain =
        std::max<int64_t>(1, kUnitGrain / std::max(layout.channel(), kPlaces * width));
    parallel_for(0, count * pieces, grain, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t n = k / pieces, piece = k % pieces;
        if (piece < s.in_channels) {
          pack_channel(layout, x + n * s.groups * s.image() + piece * volume(s.in),
                       planes(n) + piece * layout.channel());
        } else {
          const int64_t first = (piece - s.in_channels) * kPlaces;
          kernels.transpose(g + n * s.groups * s.result() + first, places, s.out_channels,
                            std::min(kPlaces, places - first), grads(n) + first * width, width);
        }
      }
    });
  }

  void multiply(int64_t count, T* sums) {
    const double work = double(volume(s.out)) * width * count;
    const int64_t grain = std::max<int64_t>(8, static_cast<int64_t>(4 * kUnitGrain / work));
    parallel_for(0, s.depth(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t n = 0; n < count; ++n)
        for (int64_t d = 0; d < s.out[0]; ++d)
          kernels.tap_product({end - begin, width / kernels.width,
                               planes(n) + d * layout.length[1] * layout.length[2],
                               offsets.data() + begin, s.out[1], s.out[2], layout.length[2], 1,
                               grads(n) + d * s.out[1] * s.out[2] * width, width,
                               sums + begin * width, width});
    });
  }

  const ConvKernels<T>& kernels = conv_kernels<T>();
  const ConvShape& s;
  const Layout& layout;
  const Part& part;
  int64_t width, image_size, block;
  Workspace<T> memory;
  std::vector<int64_t> offsets;
};

}  // namespace

// A kernel that reaches far beyond the image would make planes of mostly zeros, whose places may be
// more than can be numbered.
bool are_sensible(const ConvShape& s) {
  double places = 1;
  for (int d = 0; d < 3; ++d)
    places *= double(std::max(s.in[d], s.out[d])) + double(s.kernel[d] - 1) * double(s.dilation[d]);
  return places <= 32.0 * double(volume(s.in) + volume(s.out)) + 65536;
}

// By columns, every run of a row is copied out, once for each element of a column.
template <class T>
bool prefers_planes(const ConvShape& s) {
  if (!are_sensible(s)) return false;
  const Plan plan = plan_forward(s);
  const double planes = best_choice(plan.layout, plan.parts[0], conv_kernels<T>().width).cost;
  const double row = kGatherCost / s.out_channels + s.out[2];
  return planes <= row * s.out[0] * s.out[1];
}

template <class T>
bool prefers_planes_for_input(const ConvShape& s) {
  if (!are_sensible(s)) return false;
  const Plan plan = plan_grad_input(s);
  double planes = 0;
  for (const Part& part : plan.parts)
    planes += best_choice(plan.layout, part, conv_kernels<T>().width).cost *
              static_cast<double>(part.taps.size());
  const double row = kScatterCost / s.out_channels + s.out[2];
  return planes <= row * s.out[0] * s.out[1] * s.taps();
}

// Every image adds to all the sums, so it must be worth it.
bool prefers_planes_for_weight(const ConvShape& s) {
  return are_sensible(s) && (volume(s.out) >= kPlacesOfImage || s.is_depthwise());
}

template <class T>
void conv_by_planes(const ConvShape& s, const T* x, const T* w, const T* bias, T* y) {
  const Plan plan = plan_forward(s);
  if (s.is_depthwise()) return run_depthwise(s, plan, x, volume(s.in), w, bias, y, volume(s.out));
  const Part& part = plan.parts[0];
  std::vector<Rows> all(1);
  all[0] = {&part, s.depth(), s.depth(), best_tiling(plan.layout, part, conv_kernels<T>().width),
            {},    {}};
  for (int64_t k = 0; k < s.depth(); ++k) {
    all[0].weights.push_back(k);
    all[0].offsets.push_back(k / s.taps() * plan.layout.channel() + part.offsets[k % s.taps()]);
  }
  run_plan(s, plan.layout, all, w, x, s.in_channels, volume(s.in), bias, y, s.out_channels,
           volume(s.out));
}

template <class T>
void conv_grad_input_by_planes(const ConvShape& s, const T* g, const T* w, const T* bias, T* x) {
  const Plan plan = plan_grad_input(s);
  if (s.is_depthwise()) return run_depthwise(s, plan, g, volume(s.out), w, bias, x, volume(s.in));
  std::vector<Rows> all;
  for (const Part& part : plan.parts) {
    const int64_t taps = static_cast<int64_t>(part.taps.size());
    Rows rows{&part,
              s.taps(),
              s.out_channels * taps,
              best_tiling(plan.layout, part, conv_kernels<T>().width),
              {},
              {}};
    for (int64_t o = 0; o < s.out_channels; ++o)
      for (int64_t t = 0; t < taps; ++t) {
        rows.weights.push_back(o * s.depth() + part.taps[t]);
        rows.offsets.push_back(o * plan.layout.channel() + part.offsets[t]);
      }
    all.push_back(std::move(rows));
  }
  run_plan(s, plan.layout, all, w, g, s.out_channels, volume(s.out), bias, x, s.in_channels,
           volume(s.in));
}

template <class T>
void conv_grad_weight_by_planes(const ConvShape& s, const T* x, const T* g, T* w) {
  const Plan plan = plan_forward(s);
  if (s.is_depthwise()) return depthwise_grad_weight(s, plan, x, g, w);
  WeightGradient<T> gradient(s, plan);
  BlockingSection blocking;
  for (int64_t group = 0; group < s.groups; ++group)
    gradient.run(x + group * s.image(), g + group * s.result(), w + group * s.weights());
}

#define TAPEGRAD_CONV(T)                                                                       \
  template bool prefers_planes<T>(const ConvShape&);                                           \
  template bool prefers_planes_for_input<T>(const ConvShape&);                                 \
  template void conv_by_planes(const ConvShape&, const T*, const T*, const T*, T*);            \
  template void conv_grad_input_by_planes(const ConvShape&, const T*, const T*, const T*, T*); \
  template void conv_grad_weight_by_planes(const ConvShape&, const T*, const T*, T*);
TAPEGRAD_CONV(float)
TAPEGRAD_CONV(double)
#undef TAPEGRAD_CONV

}  // namespace tapegrad::cpu
