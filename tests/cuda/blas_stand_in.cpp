// cuBLASLt's part that the library uses, computed on the host as work of a stream of the emulator: it
// shows that products are described to cuBLASLt as its documentation has it. Statuses are those of cuBLAS.
#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

constexpr int kSuccess = 0, kInvalidValue = 7, kNotSupported = 15;
constexpr int kBias = 4, kSumsOfB = 512, kGelu = 160, kGeluBackward = 192;
enum { kReal32 = 0, kReal64 = 1, kReal16 = 2, kRealBrain16 = 14 };

struct ProductOf {
  int compute, scale, transpose_a = 0, transpose_b = 0, epilogue = 1;
  const void* bias = nullptr;
  void* aside = nullptr;  // EPILOGUE_AUX_POINTER
  int64_t aside_leading = 0;
  bool has_gelu() const { return epilogue == kGelu || epilogue == (kGelu | kBias); }
  bool adds_bias() const { return epilogue == kBias || epilogue == (kGelu | kBias); }
};
struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t batch = 1;
  int64_t stride = 0;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256}, schemes = 7;
};
struct Candidate {
  uint64_t algorithm[8];
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

template <class T>
int put(T& to, const void* value, size_t nbytes) {
  if (nbytes != sizeof(T)) return kInvalidValue;
  std::memcpy(&to, value, nbytes);
  return kSuccess;
}

double load(const void* data, int64_t at, int type) {
  switch (type) {
    case kReal32:
      return static_cast<const float*>(data)[at];
    case kReal64:
      return static_cast<const double*>(data)[at];
    case kReal16:
      return static_cast<double>(static_cast<const _Float16*>(data)[at]);
    default: {
      const uint32_t bits = uint32_t{static_cast<const uint16_t*>(data)[at]} << 16;
      float value;
      std::memcpy(&value, &bits, 4);
      return value;
    }
  }
}

void store(void* data, int64_t at, int type, double value) {
  switch (type) {
    case kReal32:
      static_cast<float*>(data)[at] = static_cast<float>(value);
      return;
    case kReal64:
      static_cast<double*>(data)[at] = value;
      return;
    case kReal16:
      static_cast<_Float16*>(data)[at] = static_cast<_Float16>(value);
      return;
    default: {
      const auto narrow = static_cast<float>(value);
      uint32_t bits;
      std::memcpy(&bits, &narrow, 4);
      static_cast<uint16_t*>(data)[at] =
          static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
  }
}

// Whether sizes fit as the documentation asks.
bool fits(const ProductOf& p, const Layout& a, const Layout& b, const Layout& d) {
  const uint64_t m = p.transpose_a ? a.columns : a.rows, k = p.transpose_a ? a.rows : a.columns;
  const uint64_t n = p.transpose_b ? b.rows : b.columns, inner = p.transpose_b ? b.columns : b.rows;
  const bool wide = a.type == kReal64;
  const bool types = p.compute == (wide              ? 70
                                   : p.compute == 77 ? 77
                                                     : 68) &&
                     p.scale == (wide ? kReal64 : kReal32);
  for (const Layout* each : {&a, &b, &d})
    if (each->leading < static_cast<int64_t>(each->rows) || each->batch != d.batch) return false;
  const bool widens = d.type == kReal32 && (a.type == kReal16 || a.type == kRealBrain16);
  if (a.type != b.type || (a.type != d.type && !widens)) return false;
  if (p.epilogue == kSumsOfB && d.columns == 5) return false;
  if (p.has_gelu() || p.epilogue == kGeluBackward) {
    const bool is_half = d.type == kReal16 || d.type == kRealBrain16;
    if (!is_half || d.batch != 1 || !p.aside || p.aside_leading % 8 || d.columns == 7 ||
        p.aside_leading < static_cast<int64_t>(d.rows))
      return false;
  }
  return types && m == d.rows && n == d.columns && k == inner && k > 0 && m > 0 && n > 0;
}

// Much, so that a test can see it missing.
constexpr size_t kWorkspace = size_t{1} << 22;
bool needs_workspace(const Layout& d) { return d.rows % 2 || d.rows == 24; }

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
double gelu_derivative(double x) {
  const double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

// A product that waits in a stream.
struct Task {
  ProductOf product;
  Layout a_layout, b_layout, d_layout;
  double by, kept;
  const void *a, *b;
  void* d;
  void* workspace;
  size_t nbytes;
};

void multiply(const Task& t) {
  const ProductOf& product = t.product;
  const Layout &a = t.a_layout, &b = t.b_layout, &d = t.d_layout;
  if (t.workspace) std::memset(t.workspace, 0xab, t.nbytes);
  const auto depth = static_cast<int64_t>(product.transpose_a ? a.rows : a.columns);
  for (int64_t batch = 0; batch < d.batch; ++batch)
    for (int64_t column = 0; column < static_cast<int64_t>(d.columns); ++column)
      for (int64_t row = 0; row < static_cast<int64_t>(d.rows); ++row) {
        double sum = 0, sum_of_b = 0;
        for (int64_t i = 0; i < depth; ++i) {
          const int64_t left = product.transpose_a ? i + row * a.leading : row + i * a.leading;
          const int64_t right =
              product.transpose_b ? column + i * b.leading : i + column * b.leading;
          sum_of_b += load(t.b, right, b.type);
          sum += load(t.a, batch * a.stride + left, a.type) *
                 load(t.b, batch * b.stride + right, b.type);
        }
        if (product.epilogue == kSumsOfB && row == 0)
          store(const_cast<void*>(product.bias), column, d.type, sum_of_b);
        const int64_t at = batch * d.stride + row + column * d.leading;
        double value = t.by * sum;
        if (t.kept != 0) value += t.kept * load(t.d, at, d.type);
        if (product.adds_bias()) value += load(product.bias, row, d.type);
        const int64_t there = row + column * product.aside_leading;
        if (product.has_gelu()) {
          store(product.aside, there, d.type, value);
          value = gelu(value);
        }
        if (product.epilogue == kGeluBackward)
          value *= gelu_derivative(load(product.aside, there, d.type));
        store(t.d, at, d.type, value);
      }
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return 1; }
int cublasLtCreate(void** handle) {
  *handle = handle;
  return kSuccess;
}
int cublasLtMatmulDescCreate(ProductOf** product, int compute, int scale) {
  *product = new ProductOf{compute, scale};
  return kSuccess;
}
int cublasLtMatmulDescSetAttribute(ProductOf* product, int attribute, const void* value,
                                   size_t nbytes) {
  switch (attribute) {
    case 3:
      return put(product->transpose_a, value, nbytes);
    case 4:
      return put(product->transpose_b, value, nbytes);
    case 7:
      return put(product->epilogue, value, nbytes);
    case 8:
      return put(product->bias, value, nbytes);
    case 11:
      return put(product->aside, value, nbytes);
    case 12:
      return put(product->aside_leading, value, nbytes);
    default:
      return kInvalidValue;
  }
}
int cublasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows, uint64_t columns,
                               int64_t leading) {
  *layout = new Layout{type, rows, columns, leading};
  return kSuccess;
}
int cublasLtMatrixLayoutSetAttribute(Layout* layout, int attribute, const void* value,
                                     size_t nbytes) {
  if (attribute == 5) return put(layout->batch, value, nbytes);
  if (attribute == 6) return put(layout->stride, value, nbytes);
  return kInvalidValue;
}
int cublasLtMatmulPreferenceCreate(Preference** preference) {
  *preference = new Preference;
  return kSuccess;
}
int cublasLtMatmulPreferenceSetAttribute(Preference* preference, int attribute, const void* value,
                                         size_t nbytes) {
  if (attribute == 1) return put(preference->workspace, value, nbytes);
  if (attribute == 3) return put(preference->schemes, value, nbytes);
  if (attribute >= 5 && attribute <= 8)
    return put(preference->alignment[attribute - 5], value, nbytes);
  return kInvalidValue;
}
int cublasLtMatmulPreferenceDestroy(Preference* preference) {
  delete preference;
  return kSuccess;
}
// Some products need a workspace here, of matrices of 13 columns there is no product, of 5 none with sums, and of 7 rows
// none with GELU.
int cublasLtMatmulAlgoGetHeuristic(void*, ProductOf* product, Layout* a, Layout* b, Layout* c,
                                   Layout* d, Preference* preference, int wanted, Candidate* found,
                                   int* count) {
  *count = 0;
  if (!fits(*product, *a, *b, *d) || c != d || wanted < 1 || preference->workspace < kWorkspace)
    return kInvalidValue;
  if (d->rows == 13) return kNotSupported;
  *found = {};
  found->algorithm[0] = 42;
  found->workspace = needs_workspace(*d) ? kWorkspace : 0;
  *count = 1;
  return kSuccess;
}

int cublasLtMatmul(void*, ProductOf* product, const void* alpha, const void* a, Layout* a_layout,
                   const void* b, Layout* b_layout, const void* beta, const void* c,
                   Layout* c_layout, void* d, Layout* d_layout, const uint64_t* algorithm,
                   void* workspace, size_t nbytes, void* stream) {
  if (algorithm[0] != 42 || c != d || c_layout != d_layout ||
      !fits(*product, *a_layout, *b_layout, *d_layout) ||
      (needs_workspace(*d_layout) && (!workspace || nbytes < kWorkspace)))
    return kInvalidValue;
  using Enqueue =
      void (*)(void* stream, void (*run)(void*), void* argument, void (*free_argument)(void*));
  static void* driver = dlopen(std::getenv("TAPEGRAD_CUDA_DRIVER"), RTLD_NOW);
  static auto enqueue = reinterpret_cast<Enqueue>(dlsym(driver, "tapegrad_emulator_enqueue_work"));
  const double by = load(alpha, 0, product->scale), kept = load(beta, 0, product->scale);
  auto* task =
      new Task{*product, *a_layout, *b_layout, *d_layout, by, kept, a, b, d, workspace, nbytes};
  enqueue(stream, [](void* argument) { multiply(*static_cast<Task*>(argument)); }, task,
          [](void* argument) { delete static_cast<Task*>(argument); });
  return kSuccess;
}

}  // extern "C"
