// Values that are made from attributes alone, for contiguous outputs.

struct StepArguments {
  int64 count;
  void* out;
  double start, step;
  int64 whole_start, whole_step;
};

template <class S>
__device__ void arange(const StepArguments& a) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.count) return;
  S* out = static_cast<S*>(a.out);
  if constexpr (Storage<S>::kFloating) out[i] = convert<S>(a.start + static_cast<double>(i) * a.step);
  else
    out[i] = convert<S>(static_cast<int64>(static_cast<uint64>(a.whole_start) +
                                           static_cast<uint64>(i) * static_cast<uint64>(a.whole_step)));
}

struct LinspaceArguments {
  int64 count;
  void* out;
  double start, end, base;
};

template <class S>
__device__ void linspace(const LinspaceArguments& a) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.count) return;
  const double step = a.count > 1 ? (a.end - a.start) / static_cast<double>(a.count - 1) : 0;
  // From both ends, so that the last element is exact and the whole is symmetric.
  const double value = i < a.count / 2 || a.count == 1
                           ? a.start + step * static_cast<double>(i)
                           : a.end - step * static_cast<double>(a.count - 1 - i);
  const double result = a.base == 0 ? value : math::pow(a.base, value);
  S* out = static_cast<S*>(a.out);
  // Integers by way of int64, whatever their size.
  if constexpr (Storage<S>::kFloating || kIsBool<S>) out[i] = convert<S>(result);
  else out[i] = convert<S>(convert<int64>(result));
}

struct EyeArguments {
  int64 count;
  void* out;
  int64 columns;
};

template <class S>
__device__ void eye(const EyeArguments& a) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.count) return;
  const bool is_narrow = a.count <= 0xffffffffll;
  const int64 row = is_narrow ? static_cast<unsigned>(i) / static_cast<unsigned>(a.columns)
                              : i / a.columns;
  static_cast<S*>(a.out)[i] = convert<S>(i - row * a.columns == row);
}
