// The steps of optimizers: many parameters in one launch. What is known of each lies in the arguments, and
// a block takes a piece of one parameter.
//
// An optimizer is one struct: `update` is the formula for one element, with g the gradient, p the
// parameter, s its states, and c the coefficients. The same as csrc/cpu/optimizer_kernels.cpp. Where the
// counts of steps are on the host, csrc/spec/optimizer.cpp prepares the coefficients there; where they or
// options are on the device, `prepare` does the same here, in a launch of its own.

__device__ inline double as_kept(double value, bool narrow) {
  return narrow ? static_cast<double>(static_cast<float>(value)) : value;
}

__device__ inline double sign_of(double maximize) { return maximize != 0 ? -1.0 : 1.0; }

// m moved towards g by a share: exact at both ends.
template <class T>
__device__ inline T lerp(T m, T g, T share) {
  const T way = g - m;
  return share < T(0.5) ? m + share * way : g - way * (T(1) - share);
}

// A NaN wins.
template <class T>
__device__ inline T greater(T a, T b) {
  const T larger = b > a ? b : a;
  return b != b ? b : larger;
}

// The gradient to descend along, with weight decay.
template <class T>
__device__ inline T direction(T g, T p, T sign, T decay) {
  const T turned = sign * g;
  return decay != T(0) ? turned + decay * p : turned;
}

struct Sgd {
  static constexpr int kStates = 0, kCounts = 0;
  __device__ static void prepare(const double* o, double*, bool, double* c) {
    c[0] = -o[0];
    c[1] = o[3];
    c[2] = sign_of(o[5]);
  }
  template <class T>
  __device__ static void update(const T* c, T g, T& p, T*) {
    p += c[0] * direction(g, p, c[2], c[1]);
  }
};

struct SgdMomentum {
  static constexpr int kStates = 1, kCounts = 0;
  __device__ static void prepare(const double* o, double* counts, bool narrow, double* c) {
    Sgd::prepare(o, counts, narrow, c);
    c[3] = o[1];
    c[4] = 1 - o[2];
    c[5] = o[4];
  }
  template <class T>
  __device__ static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[2], c[1]);
    s[0] = c[3] * s[0] + c[4] * g;
    p += c[0] * (c[5] != T(0) ? g + c[3] * s[0] : s[0]);
  }
};

template <bool kAmsgrad>
struct Adam {
  static constexpr int kStates = kAmsgrad ? 3 : 2, kCounts = 1;
  __device__ static void prepare(const double* o, double* counts, bool, double* c) {
    const double t = counts[0] += 1;
    c[0] = -o[0] / (1 - ::pow(o[1], t));
    c[1] = 1 / ::sqrt(1 - ::pow(o[2], t));
    c[2] = 1 - o[1];
    c[3] = o[2];
    c[8] = 1 - o[2];
    c[4] = o[3];
    c[5] = o[6] != 0 ? 0 : o[4];
    c[6] = sign_of(o[5]);
    c[7] = o[6] != 0 ? 1 - o[0] * o[4] : 1;
  }
  template <class T>
  __device__ static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[6], c[5]);
    s[0] = lerp(s[0], g, c[2]);
    s[1] = c[3] * s[1] + c[8] * g * g;
    T v = s[1];
    if constexpr (kAmsgrad) v = s[2] = greater(s[2], v);
    p = p * c[7] + c[0] * s[0] / (math::sqrt(v) * c[1] + c[4]);
  }
};

template <bool kCentered, bool kMomentum>
struct RmsProp {
  static constexpr int kStates = 1 + kCentered + kMomentum, kCounts = 1;
  __device__ static void prepare(const double* o, double* counts, bool, double* c) {
    counts[0] += 1;
    c[0] = -o[0];
    c[1] = o[1];
    c[2] = 1 - o[1];
    c[3] = o[2];
    c[4] = o[3];
    c[5] = sign_of(o[5]);
    c[6] = o[4];
  }
  template <class T>
  __device__ static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[5], c[4]);
    s[0] = c[1] * s[0] + c[2] * g * g;
    T v = s[0];
    if constexpr (kCentered) {
      s[1] = lerp(s[1], g, c[2]);
      v -= s[1] * s[1];
    }
    T step = g / (math::sqrt(v) + c[3]);
    if constexpr (kMomentum) {
      T& velocity = s[kStates - 1];
      velocity = c[6] * velocity + step;
      step = velocity;
    }
    p += c[0] * step;
  }
};

struct Adagrad {
  static constexpr int kStates = 1, kCounts = 1;
  __device__ static void prepare(const double* o, double* counts, bool, double* c) {
    const double t = counts[0] += 1;
    c[0] = -o[0] / (1 + (t - 1) * o[1]);
    c[1] = o[2];
    c[2] = o[3];
    c[3] = sign_of(o[4]);
  }
  template <class T>
  __device__ static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[3], c[2]);
    s[0] += g * g;
    p += c[0] * g / (math::sqrt(s[0]) + c[1]);
  }
};

struct Adadelta {
  static constexpr int kStates = 2, kCounts = 1;
  __device__ static void prepare(const double* o, double* counts, bool, double* c) {
    counts[0] += 1;
    c[0] = -o[0];
    c[1] = o[1];
    c[2] = 1 - o[1];
    c[3] = o[2];
    c[4] = o[3];
    c[5] = sign_of(o[4]);
  }
  template <class T>
  __device__ static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[5], c[4]);
    s[0] = c[1] * s[0] + c[2] * g * g;
    const T delta = math::sqrt(s[1] + c[3]) / math::sqrt(s[0] + c[3]) * g;
    s[1] = c[1] * s[1] + c[2] * delta * delta;
    p += c[0] * delta;
  }
};

struct Adamax {
  static constexpr int kStates = 2, kCounts = 1;
  __device__ static void prepare(const double* o, double* counts, bool, double* c) {
    const double t = counts[0] += 1;
    c[0] = -o[0] / (1 - ::pow(o[1], t));
    c[1] = 1 - o[1];
    c[2] = o[2];
    c[3] = o[3];
    c[4] = o[4];
    c[5] = sign_of(o[5]);
  }
  template <class T>
  __device__ static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[5], c[4]);
    s[0] = lerp(s[0], g, c[1]);
    const T before = c[2] * s[1], now = math::fabs(g) + c[3];
    s[1] = greater(before, now);
    p += c[0] * s[0] / s[1];
  }
};

struct NAdam {
  static constexpr int kStates = 2, kCounts = 2;
  __device__ static void prepare(const double* o, double* counts, bool narrow, double* c) {
    const double t = counts[0] += 1;
    auto momentum = [&](double at) { return o[1] * (1 - 0.5 * ::pow(0.96, at * o[5])); };
    const double mu = momentum(t), next = momentum(t + 1);
    // The product is kept in its tensor's precision from step to step.
    const double product = counts[1] = as_kept(counts[1] * as_kept(mu, narrow), narrow);
    c[0] = -o[0] * (1 - mu) / (1 - product);
    c[1] = -o[0] * next / (1 - product * next);
    c[2] = 1 - o[1];
    c[3] = o[2];
    c[8] = 1 - o[2];
    c[4] = 1 / (1 - ::pow(o[2], t));
    c[5] = o[3];
    c[6] = sign_of(o[6]);
    c[7] = o[7] != 0 ? 0 : o[4];
    c[9] = o[7] != 0 ? 1 - o[0] * o[4] : 1;
  }
  template <class T>
  __device__ static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[6], c[7]);
    s[0] = lerp(s[0], g, c[2]);
    s[1] = c[3] * s[1] + c[8] * g * g;
    const T root = math::sqrt(s[1] * c[4]) + c[5];
    p = p * c[9] + (c[0] * g + c[1] * s[0]) / root;
  }
};

struct RAdam {
  static constexpr int kStates = 2, kCounts = 1;
  __device__ static void prepare(const double* o, double* counts, bool, double* c) {
    const double t = counts[0] += 1, correction = 1 - ::pow(o[2], t);
    const double longest = 2 / (1 - o[2]) - 1;
    const double length = longest - 2 * t * ::pow(o[2], t) / correction;
    c[0] = -o[0] / (1 - ::pow(o[1], t));
    // As long as the average of squares rests on too few gradients it is left out.
    c[1] = length > 5 ? 1 : 0;
    if (length > 5) {
      const double now = (length - 4) * (length - 2) / length;
      const double finally = (longest - 4) * (longest - 2) / longest;
      c[0] *= ::sqrt(now / finally) * ::sqrt(correction);
    }
    c[2] = 1 - o[1];
    c[3] = o[2];
    c[8] = 1 - o[2];
    c[4] = o[3];
    c[5] = o[6] != 0 ? 0 : o[4];
    c[6] = sign_of(o[5]);
    c[7] = o[6] != 0 ? 1 - o[0] * o[4] : 1;
  }
  template <class T>
  __device__ static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[6], c[5]);
    s[0] = lerp(s[0], g, c[2]);
    s[1] = c[3] * s[1] + c[8] * g * g;
    const T root = math::sqrt(s[1]) + c[4];
    p = p * c[7] + c[0] * s[0] / (c[1] != T(0) ? root : T(1));
  }
};

struct Asgd {
  static constexpr int kStates = 1, kCounts = 3;
  __device__ static void prepare(const double* o, double* counts, bool, double* c) {
    const double t = counts[0] += 1, eta = counts[1], mu = counts[2];
    c[0] = 1 - o[1] * eta;
    c[1] = -eta;
    c[2] = mu;
    c[3] = o[4];
    c[4] = sign_of(o[5]);
    counts[1] = o[0] / ::pow(1 + o[1] * o[0] * t, o[2]);
    counts[2] = 1 / (t - o[3] > 1 ? t - o[3] : 1);
  }
  template <class T>
  __device__ static void update(const T* c, T g, T& p, T* s) {
    g = direction(g, p, c[4], c[3]);
    p = p * c[0] + c[1] * g;
    s[0] = c[2] == T(1) ? p : s[0] + c[2] * (p - s[0]);
  }
};

struct Rprop {
  static constexpr int kStates = 2, kCounts = 1;
  __device__ static void prepare(const double* o, double* counts, bool, double* c) {
    counts[0] += 1;
    for (int i = 0; i < 4; ++i) c[i] = o[i];
    c[4] = sign_of(o[4]);
  }
  template <class T>
  __device__ static void update(const T* c, T g, T& p, T* s) {
    g = c[4] * g;
    const T agreement = g * s[0];
    T size = s[1];
    size *= agreement > T(0) ? c[1] : T(1);
    size *= agreement < T(0) ? c[0] : T(1);
    size = size < c[2] ? c[2] : size;
    size = size > c[3] ? c[3] : size;
    g = agreement < T(0) ? T(0) : g;
    p -= g > T(0) ? size : g < T(0) ? -size : T(0);
    s[0] = g;
    s[1] = size;
  }
};

// ---- launches

constexpr int kCoefficients = 10;
constexpr int kStepThreads = 256;
constexpr int kVectorsPerThread = 2;

// csrc/cuda/optimizer.cpp fills it. T is what is computed in.
template <class T, int kOperands, int kMost>
struct StepArguments {
  T coefficients[kCoefficients];
  int tensors;
  unsigned first_blocks[kMost];
  int64 counts[kMost];
  void* operands[kOperands][kMost];  // gradients, parameters, states
};

// The parameter that a block belongs to: the last one that does not begin after it.
template <class Arguments>
__device__ inline int find_tensor(const Arguments& a, unsigned block) {
  int low = 0, high = a.tensors;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (a.first_blocks[middle] <= block) low = middle;
    else high = middle;
  }
  return low;
}

// One element: x is its gradient, its parameter and its states, which are changed.
template <class F, class S>
__device__ inline void update_element(const typename Storage<S>::Compute* c,
                                      S (&x)[2 + F::kStates]) {
  using T = typename Storage<S>::Compute;
  T s[F::kStates + 1];
#pragma unroll
  for (int k = 0; k < F::kStates; ++k) s[k] = Storage<S>::load(x[2 + k]);
  T p = Storage<S>::load(x[1]);
  F::update(c, Storage<S>::load(x[0]), p, s);
  x[1] = Storage<S>::store(p);
#pragma unroll
  for (int k = 0; k < F::kStates; ++k) x[2 + k] = Storage<S>::store(s[k]);
}

// A whole piece of aligned operands: everything is loaded first, then computed and stored.
template <class F, class S>
__device__ inline void update_vectors(const typename Storage<S>::Compute* c,
                                      S* const (&operands)[2 + F::kStates], int64 begin) {
  constexpr int kOperands = 2 + F::kStates, kWidth = 16 / sizeof(S);
  using Together = Vector<S, kWidth>;
  Together held[kVectorsPerThread][kOperands];
  const int64 first = begin / kWidth + threadIdx.x;
#pragma unroll
  for (int v = 0; v < kVectorsPerThread; ++v)
#pragma unroll
    for (int k = 0; k < kOperands; ++k)
      held[v][k] = reinterpret_cast<const Together*>(operands[k])[first + v * kStepThreads];
#pragma unroll
  for (int v = 0; v < kVectorsPerThread; ++v) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      S x[kOperands];
#pragma unroll
      for (int k = 0; k < kOperands; ++k) x[k] = held[v][k].elements[i];
      update_element<F, S>(c, x);
#pragma unroll
      for (int k = 1; k < kOperands; ++k) held[v][k].elements[i] = x[k];
    }
#pragma unroll
    for (int k = 1; k < kOperands; ++k)
      reinterpret_cast<Together*>(operands[k])[first + v * kStepThreads] = held[v][k];
  }
}

template <class F, class S, class Arguments>
__device__ inline void take_step(const Arguments& a, const typename Storage<S>::Compute* c) {
  constexpr int kOperands = 2 + F::kStates;
  constexpr int kPiece = kStepThreads * kVectorsPerThread * (16 / sizeof(S));
  const int tensor = find_tensor(a, blockIdx.x);
  const int64 begin = static_cast<int64>(blockIdx.x - a.first_blocks[tensor]) * kPiece;
  const int64 end = min(begin + kPiece, a.counts[tensor]);
  S* operands[kOperands];
  uint64 places = 0;
#pragma unroll
  for (int k = 0; k < kOperands; ++k) {
    operands[k] = static_cast<S*>(a.operands[k][tensor]);
    places |= reinterpret_cast<uint64>(operands[k]);
  }
  if (end - begin == kPiece && places % 16 == 0) return update_vectors<F, S>(c, operands, begin);
  for (int64 i = begin + threadIdx.x; i < end; i += kStepThreads) {
    S x[kOperands];
#pragma unroll
    for (int k = 0; k < kOperands; ++k) x[k] = operands[k][i];
    update_element<F, S>(c, x);
#pragma unroll
    for (int k = 1; k < kOperands; ++k) operands[k][i] = x[k];
  }
}

template <class F, class S, int kMost>
__device__ void optimizer_step(
    const StepArguments<typename Storage<S>::Compute, 2 + F::kStates, kMost>& a) {
  take_step<F, S>(a, a.coefficients);
}

// ---- counts and options on the device

constexpr int kMostOptions = 16, kMostCounts = 3;

struct PrepareArguments {
  static constexpr int kMost = 128;
  double options[kMostOptions];
  const void* option_tensors[kMostOptions];  // null where the option is the number above
  void* counts[kMostCounts][kMost];
  double* coefficients;  // of the first parameter here
  const float* found_inf;  // not zero: the step is left out; may be null
  int tensors;
  unsigned wide_options;            // a bit for each in float64; others are in float32
  unsigned char wide_counts[kMost];  // of a parameter, in the same way
};

__device__ inline double read_number(const void* from, bool wide) {
  return wide ? *static_cast<const double*>(from) : *static_cast<const float*>(from);
}

__device__ inline bool is_left_out(const float* found_inf) {
  return found_inf && *found_inf != 0.0f;
}

// A thread takes a parameter.
template <class F>
__device__ void prepare_step(const PrepareArguments& a) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= a.tensors || is_left_out(a.found_inf)) return;
  double options[kMostOptions], counts[kMostCounts] = {};
  for (int k = 0; k < kMostOptions; ++k) {
    const void* tensor = a.option_tensors[k];
    options[k] = tensor ? read_number(tensor, a.wide_options >> k & 1) : a.options[k];
  }
  const unsigned wide = a.wide_counts[i];
  for (int k = 0; k < F::kCounts; ++k) counts[k] = read_number(a.counts[k][i], wide >> k & 1);
  const bool narrow = F::kCounts > 0 && !(wide >> (F::kCounts - 1) & 1);
  F::prepare(options, counts, narrow, a.coefficients + i * kCoefficients);
  for (int k = 0; k < F::kCounts; ++k) {
    if (wide >> k & 1) *static_cast<double*>(a.counts[k][i]) = counts[k];
    else *static_cast<float*>(a.counts[k][i]) = static_cast<float>(counts[k]);
  }
}

template <int kOperands, int kMost>
struct PreparedArguments {
  const double* coefficients;
  const float* found_inf;
  int tensors;
  unsigned first_blocks[kMost];
  int rows[kMost];  // which coefficients are a parameter's
  int64 counts[kMost];
  void* operands[kOperands][kMost];
};

template <class F, class S, int kMost>
__device__ void prepared_step(const PreparedArguments<2 + F::kStates, kMost>& a) {
  using T = typename Storage<S>::Compute;
  if (is_left_out(a.found_inf)) return;
  const double* prepared = a.coefficients + a.rows[find_tensor(a, blockIdx.x)] * kCoefficients;
  T c[kCoefficients];
#pragma unroll
  for (int k = 0; k < kCoefficients; ++k) c[k] = static_cast<T>(prepared[k]);
  take_step<F, S>(a, c);
}
