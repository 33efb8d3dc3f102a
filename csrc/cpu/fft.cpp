// The driver of Fourier transforms: one dimension after the other, each a set of lines.
//
// Lines are transformed one by one, or as lanes, several at once, where that is faster or where they do not lie
// contiguously. Forward and backward transforms differ in the sign of imaginary parts that come in and go out.
#include <algorithm>
#include <cmath>
#include <memory>

#include "core/error.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/fft_transform.h"
#include "cpu/workspace.h"

namespace tapegrad::cpu {

namespace {

constexpr double kWorthThread = 400000;     // operations that make a second thread pay
constexpr double kWorthRelease = 400000;    // ... and the release of the lock
constexpr int64_t kLanesBytes = 24 * 1024;  // of records, up to which lanes are faster than lines

enum class Kind {
  Full,      // complex to complex
  ToHalf,    // real, to the first half of its spectrum
  FromHalf,  // and back
};

// One operand, in numbers, of which a complex element has two.
template <class T>
struct Side {
  T* base = nullptr;
  int64_t step = 0;   // along the lines
  DimVector strides;  // from line to line
  bool is_complex = true;

  Side() = default;
  Side(T* data, Sizes all_strides, int64_t dim, bool is_complex)
      : base(data), is_complex(is_complex) {
    const int64_t numbers = is_complex ? 2 : 1;
    for (size_t d = 0; d < all_strides.size(); ++d) {
      if (static_cast<int64_t>(d) == dim) step = all_strides[d] * numbers;
      else strides.push_back(all_strides[d] * numbers);
    }
  }
  bool is_contiguous() const { return step == (is_complex ? 2 : 1); }
};

double cost_of_line(int64_t n) {
  return static_cast<double>(n) * (8 + 2 * std::log2(static_cast<double>(n) + 1));
}

int64_t parts_for(int64_t count, double cost) {
  const double worth = static_cast<double>(count) * cost / kWorthThread;
  return std::clamp<int64_t>(static_cast<int64_t>(worth), 1,
                             std::min<int64_t>(num_threads(), std::max<int64_t>(count, 1)));
}

template <class Run>
void with_lock_released(double cost, Run&& run) {
  if (cost < kWorthRelease) return run();
  const BlockingSection blocking;
  run();
}

template <class T>
class Lines {
 public:
  // `length` is that of the line as numbers in time: of a half spectrum, not its own.
  Lines(Kind kind, int64_t length, bool forward, double scale, T inner, const DimVector& sizes,
        const Side<const T>& in, const Side<T>& out)
      : kind_(kind),
        n_(length),
        m_(length / 2),
        by_half_(kind != Kind::Full && length % 2 == 0),
        sign_(forward ? 1 : -1),
        scale_(static_cast<T>(scale)),
        inner_(inner),
        sizes_(sizes),
        in_(in),
        out_(out) {
    for (int64_t size : sizes) count_ *= size;
    if (count_ == 0) return;
    if (by_half_) {
      whole_ = fft_plan<T>(n_);
      plan_ = fft_plan<T>(m_);
    } else {
      plan_ = fft_plan<T>(n_);
    }
  }

  void run() const {
    if (count_ == 0) return;
    if (prefers_lines()) run_lines();
    else run_lanes();
  }

 private:
  const FftKernels<T>& kernels_ = fft_kernels<T>();

  bool prefers_lines() const;
  void run_lanes() const;
  void run_lines() const;
  void offsets(int64_t first, int64_t count, int64_t* in, int64_t* out) const;
  void lanes(int64_t first, int64_t count, T* records, T* spare, T* memory) const;
  void line(const T* from, T* to, T* packed, T* memory, int64_t threads) const;
  void pack(const T* from, int64_t count, bool keeps_parts, T* to) const;
  void unpack(const T* from, int64_t count, int64_t apart, T* to) const;
  const T* roots() const { return whole_->half_roots.get(); }
  int64_t half_length() const { return n_ / 2 + 1; }

  const Kind kind_;
  const int64_t n_, m_;
  const bool by_half_;
  const T sign_, scale_, inner_;
  const DimVector sizes_;
  const Side<const T> in_;
  const Side<T> out_;
  int64_t count_ = 1;
  std::shared_ptr<const FftPlan<T>> plan_, whole_;
};

// Where lines begin, counted as the output's dimensions are.
template <class T>
void Lines<T>::offsets(int64_t first, int64_t count, int64_t* in, int64_t* out) const {
  const size_t rank = sizes_.size();
  int64_t index[kMaxRank];
  int64_t at_in = 0, at_out = 0;
  for (size_t d = rank; d-- > 0; first /= sizes_[d]) {
    index[d] = first % sizes_[d];
    at_in += index[d] * in_.strides[d];
    at_out += index[d] * out_.strides[d];
  }
  for (int64_t l = 0; l < count; ++l) {
    in[l] = at_in;
    out[l] = at_out;
    for (size_t d = rank; d-- > 0;) {
      at_in += in_.strides[d];
      at_out += out_.strides[d];
      if (++index[d] < sizes_[d]) break;
      at_in -= sizes_[d] * in_.strides[d];
      at_out -= sizes_[d] * out_.strides[d];
      index[d] = 0;
    }
  }
}

// ---- lanes

// A group of up to `width` lines.
template <class T>
void Lines<T>::lanes(int64_t first, int64_t count, T* records, T* spare, T* memory) const {
  constexpr int64_t kMostLanes = 64;
  int64_t in_offsets[kMostLanes], out_offsets[kMostLanes];
  offsets(first, count, in_offsets, out_offsets);
  FftLanes<const T> from{in_.base, in_offsets, count, in_.step, 1, in_.is_complex};
  FftLanes<T> to{out_.base, out_offsets, count, out_.step, 1, out_.is_complex};
  const int32_t* places = places_of(*plan_);
  const int64_t width = kernels_.width, half = half_length();
  if (kind_ == Kind::Full) {
    kernels_.load(from, n_, places, sign_, records);
    transform_records(*plan_, records, memory);
    return kernels_.store(records, n_, scale_, scale_ * sign_, to);
  }
  if (kind_ == Kind::ToHalf) {
    if (by_half_) {  // pairs of real numbers as one complex number
      from.imag = from.step;
      from.step *= 2;
      from.has_imag = true;
      kernels_.load(from, m_, places, 1, records);
      transform_records(*plan_, records, memory);
      kernels_.to_half_records(records, m_, roots(), inner_);
    } else {
      kernels_.load(from, n_, places, 1, records);
      transform_records(*plan_, records, memory);
      if (inner_ != 1)
        for (int64_t i = 2 * width; i < 2 * width * half; ++i) records[i] *= inner_;
    }
    return kernels_.store(records, half, scale_, scale_ * sign_, to);
  }
  if (by_half_) {
    kernels_.load(from, half, nullptr, -sign_, spare);
    kernels_.from_half_records(spare, m_, roots(), inner_, places, records);
    transform_records(*plan_, records, memory);
    to.imag = to.step;
    to.step *= 2;
    to.has_imag = true;
    return kernels_.store(records, m_, scale_, -scale_, to);
  }
  // The other half are conjugates, and a transform back is one of conjugates.
  kernels_.load(from, half, nullptr, -sign_, spare);
  auto place = [&](int64_t k) { return records + (places ? places[k] : k) * 2 * width; };
  for (int64_t k = 0; k < half; ++k) {
    const T* source = spare + k * 2 * width;
    T *low = place(k), *high = place(k ? n_ - k : 0);
    for (int64_t l = 0; l < width; ++l) {
      low[l] = high[l] = k ? source[l] * inner_ : source[l];
      high[width + l] = k ? source[width + l] * inner_ : T(0);
      low[width + l] = -high[width + l];
    }
  }
  transform_records(*plan_, records, memory);
  kernels_.store(records, n_, scale_, scale_, to);
}

template <class T>
void Lines<T>::run_lanes() const {
  const int64_t width = kernels_.width, groups = (count_ + width - 1) / width;
  const int64_t parts = parts_for(groups, cost_of_line(n_) * static_cast<double>(width));
  const int64_t records = (n_ + 1) * 2 * width, spare = kind_ == Kind::FromHalf ? records : 0;
  const int64_t own = records + spare + records_memory(*plan_);
  const Workspace<T> memory(parts * own);
  auto part = [&](int64_t begin, int64_t end, int64_t number) {
    T* mine = memory.get() + number * own;
    for (int64_t group = begin; group < end; ++group)
      lanes(group * width, std::min(width, count_ - group * width), mine, mine + records,
            mine + records + spare);
  };
  with_lock_released(cost_of_line(n_) * static_cast<double>(count_),
                     [&] { share_out(groups, parts, part); });
}

// ---- lines

template <class T>
void Lines<T>::pack(const T* from, int64_t count, bool pads, T* to) const {
  for (int64_t j = 0; j < count; ++j, from += in_.step) {
    if (!in_.is_complex && !pads) {
      to[j] = *from;
      continue;
    }
    to[2 * j] = *from;
    to[2 * j + 1] = in_.is_complex ? from[1] : T(0);
  }
}

// Numbers that are `apart` in the packed line: the parts of complex elements lie side by side.
template <class T>
void Lines<T>::unpack(const T* from, int64_t count, int64_t apart, T* to) const {
  for (int64_t j = 0; j < count; ++j, from += apart, to += out_.step) {
    *to = *from;
    if (out_.is_complex) to[1] = from[1];
  }
}

template <class T>
void Lines<T>::line(const T* from, T* to, T* packed, T* memory, int64_t threads) const {
  const int64_t half = half_length();
  const bool reads = in_.is_contiguous(), writes = out_.is_contiguous();
  if (kind_ == Kind::Full) {
    if (!reads) pack(from, n_, false, packed);
    T* target = writes ? to : packed;
    transform_line(*plan_, reads ? from : packed, {sign_, scale_, scale_ * sign_}, target, memory,
                   threads);
    if (!writes) unpack(packed, n_, 2, to);
  } else if (kind_ == Kind::ToHalf && by_half_) {
    if (!reads) pack(from, n_, false, packed);
    T* target = writes ? to : packed;
    transform_line(*plan_, reads ? from : packed, {1, scale_, scale_}, target, memory, threads);
    kernels_.to_half_line(target, m_, roots(), inner_, sign_);
    if (!writes) unpack(packed, half, 2, to);
  } else if (kind_ == Kind::ToHalf) {
    pack(from, n_, true, packed);
    transform_line(*plan_, packed, {1, scale_, scale_ * sign_}, packed, memory, threads);
    if (inner_ != 1)
      for (int64_t i = 2; i < 2 * half; ++i) packed[i] *= inner_;
    unpack(packed, half, 2, to);
  } else if (by_half_) {
    if (!reads) pack(from, half, false, packed);
    T* target = writes ? to : packed;
    kernels_.from_half_line(reads ? from : packed, m_, roots(), inner_, -sign_, target);
    transform_line(*plan_, target, {1, scale_, -scale_}, target, memory, threads);
    if (!writes) unpack(packed, n_, 1, to);
  } else {
    pack(from, half, false, packed);
    packed[1] = 0;
    for (int64_t k = 1; k < half; ++k) {
      const T re = packed[2 * k] * inner_, im = packed[2 * k + 1] * inner_ * -sign_;
      packed[2 * k] = packed[2 * (n_ - k)] = re;
      packed[2 * k + 1] = -im;
      packed[2 * (n_ - k) + 1] = im;
    }
    transform_line(*plan_, packed, {1, scale_, scale_}, packed, memory, threads);
    unpack(packed, n_, 2, to);
  }
}

template <class T>
void Lines<T>::run_lines() const {
  // Several threads take lines of their own, or share each.
  const double cost = cost_of_line(n_);
  const bool is_shared = count_ < num_threads();
  const int64_t parts = is_shared ? 1 : parts_for(count_, cost);
  const int64_t threads = is_shared ? parts_for(n_, cost / static_cast<double>(n_)) : 1;
  const int64_t packed = (2 * (n_ + 2) / kernels_.width + 1) * kernels_.width;
  const int64_t own = packed + line_memory(*plan_, threads);
  const Workspace<T> memory(parts * own);
  with_lock_released(cost * static_cast<double>(count_), [&] {
    share_out(count_, parts, [&](int64_t begin, int64_t end, int64_t number) {
      T* mine = memory.get() + number * own;
      for (int64_t each = begin; each < end; ++each) {
        int64_t at_in, at_out;
        offsets(each, 1, &at_in, &at_out);
        line(in_.base + at_in, out_.base + at_out, mine, mine + packed, threads);
      }
    });
  });
}

template <class T>
bool Lines<T>::prefers_lines() const {
  if (!plan_->takes_lines() || !plan_->takes_lanes()) return plan_->takes_lines();
  // Lanes that stay empty cost as much as full ones; in short lines a grid leaves some empty too.
  const int64_t width = kernels_.width;
  const bool is_contiguous = in_.is_contiguous() && out_.is_contiguous();
  const bool is_short = plan_->length < width * width;
  if (count_ < (is_contiguous && !is_short ? width : width / 4)) return true;
  const int64_t bytes = plan_->length * 2 * width * static_cast<int64_t>(sizeof(T));
  return is_contiguous && bytes > kLanesBytes;
}

// ---- dimensions

// Strides of a contiguous tensor; a dimension of size one is repeated.
DimVector contiguous_strides(Sizes sizes) {
  DimVector strides(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0; step *= sizes[d]) strides[d] = sizes[d] == 1 ? 0 : step;
  return strides;
}

DimVector without(Sizes sizes, int64_t dim) {
  DimVector rest(sizes);
  rest.erase(static_cast<size_t>(dim));
  return rest;
}

// A call: attributes "forward", for half spectra "twice", "scale", and the dimensions, counted from the end.
struct Call {
  Call(const OpCall& call, bool is_half) : forward(call.attributes[0].as_bool()) {
    size_t next = 1;
    if (is_half) twice = call.attributes[next++].as_bool();
    scale = call.real(next++);
    for (; next < call.attributes.size(); ++next)
      dims.push_back(call.integer(next) + call.out().dim());
  }
  bool forward, twice = false;
  double scale;
  DimVector dims;
};

// A tensor that is transformed, or memory that is laid out as one.
template <class T>
struct Whole {
  T* data;
  Sizes sizes, strides;
  Side<T> side(int64_t dim, bool is_complex) const { return {data, strides, dim, is_complex}; }
  static Whole of(const TensorImpl& x) {
    return {static_cast<T*>(x.data()), x.sizes(), x.strides()};
  }
};

// Complex to complex along some dimensions, the first time with the scale.
template <class T>
void transform_dims(Whole<const T> from, const Whole<T>& to, Sizes dims, bool forward,
                    double scale) {
  for (int64_t dim : dims) {
    Lines<T>(Kind::Full, to.sizes[dim], forward, scale, T(1), without(to.sizes, dim),
             from.side(dim, true), to.side(dim, true))
        .run();
    from = {to.data, to.sizes, to.strides};
    scale = 1;
  }
}

template <class Run>
void with_type(DType dtype, Run&& run) {
  if (dtype == DType::Complex64 || dtype == DType::Float32) run(float());
  else run(double());
}

// The other half of the spectrum of real numbers, along the last of the dimensions: element k of it is the conjugate of
// element -k, along all of them.
template <class T>
void fill_conjugates(const Whole<T>& whole, Sizes dims) {
  const size_t rank = whole.sizes.size(), inner = rank - 1;
  const auto last = static_cast<size_t>(dims.back());
  DimVector counts(whole.sizes);
  counts[last] = (whole.sizes[last] - 1) / 2;
  bool is_mirrored[kMaxRank] = {};
  for (int64_t dim : dims) is_mirrored[dim] = true;
  auto stride = [&](size_t d) { return 2 * whole.strides[d]; };
  // Where an index along a dimension is written, and which element it is the conjugate of.
  auto target = [&](size_t d, int64_t i) { return d == last ? whole.sizes[d] / 2 + 1 + i : i; };
  auto source = [&](size_t d, int64_t i) {
    const int64_t at = target(d, i);
    return is_mirrored[d] && at ? whole.sizes[d] - at : at;
  };
  int64_t runs = 1;
  for (size_t d = 0; d < inner; ++d) runs *= counts[d];
  parallel_for(0, runs, std::max<int64_t>(1, 8192 / std::max<int64_t>(counts[inner], 1)),
               [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) {
      int64_t to = 0, from = 0, rest = run;
      for (size_t d = inner; d-- > 0; rest /= counts[d]) {
        to += target(d, rest % counts[d]) * stride(d);
        from += source(d, rest % counts[d]) * stride(d);
      }
      // Along a mirrored dimension the first element is its own mirror image, unless it is of the other half.
      int64_t done = 0;
      const int64_t step = is_mirrored[inner] ? -stride(inner) : stride(inner);
      auto conjugate = [&](int64_t first, int64_t count) {
        fft_kernels<T>().conjugate(whole.data + from + source(inner, first) * stride(inner), step,
                                   count, whole.data + to + target(inner, first) * stride(inner),
                                   stride(inner));
      };
      if (is_mirrored[inner] && inner != last && counts[inner] > 0) conjugate(done++, 1);
      conjugate(done, counts[inner] - done);
    }
  });
}

template <class T>
void transform_real(const Whole<const T>& from, const Whole<T>& to, const Call& call) {
  const int64_t last = call.dims[call.dims.size() - 1];
  DimVector sizes(to.sizes);
  sizes[last] = sizes[last] / 2 + 1;
  const Whole<T> half{to.data, sizes, to.strides};
  Lines<T>(Kind::ToHalf, from.sizes[last], call.forward, call.scale, call.twice ? T(2) : T(1),
           without(to.sizes, last), from.side(last, false), half.side(last, true))
      .run();
  transform_dims<T>({half.data, half.sizes, half.strides}, half,
                    Sizes(call.dims).first(call.dims.size() - 1), call.forward, 1);
}

// Of real numbers half of the work is left out.
void c2c(const OpCall& op_call) {
  const Call call(op_call, false);
  if (op_call.out().numel() == 0) return;
  with_type(op_call.out().dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto from = Whole<const T>::of(op_call.in(0));
    const auto to = Whole<T>::of(op_call.out());
    if (is_complex(op_call.in(0).dtype()))
      return transform_dims<T>(from, to, call.dims, call.forward, call.scale);
    transform_real(from, to, call);
    fill_conjugates(to, call.dims);
  });
}

// The last of the dimensions is the one that is halved. With "twice", elements that stand for two count twice.
void r2c(const OpCall& op_call) {
  const Call call(op_call, true);
  with_type(op_call.in(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    const TensorImpl &x = op_call.in(0), &out = op_call.out();
    DimVector sizes(out.sizes());
    const int64_t last = call.dims[call.dims.size() - 1];
    sizes[last] = x.size(last);
    transform_real<T>(Whole<const T>::of(x), {static_cast<T*>(out.data()), sizes, out.strides()},
                      call);
  });
}

void c2r(const OpCall& op_call) {
  const Call call(op_call, true);
  const int64_t last = call.dims[call.dims.size() - 1];
  with_type(op_call.out().dtype(), [&](auto zero) {
    using T = decltype(zero);
    auto from = Whole<const T>::of(op_call.in(0));
    const auto to = Whole<T>::of(op_call.out());
    const Sizes others = Sizes(call.dims).first(call.dims.size() - 1);
    const DimVector strides = contiguous_strides(from.sizes);
    const Workspace<T> memory(others.empty() ? 0 : 2 * op_call.in(0).numel());
    if (!others.empty()) {
      transform_dims<T>(from, {memory.get(), from.sizes, strides}, others, call.forward, 1);
      from = {memory.get(), from.sizes, strides};
    }
    Lines<T>(Kind::FromHalf, to.sizes[last], call.forward, call.scale, call.twice ? T(1) : T(0.5),
             without(to.sizes, last), from.side(last, true), to.side(last, false))
        .run();
  });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"fft_c2c", c2c},
    {"fft_r2c", r2c},
    {"fft_c2r", c2r},
};

}  // namespace

}  // namespace tapegrad::cpu
