// Note [Products by columns]
// cuBLASLt has matrices by columns, and we have them by rows. A matrix by rows is its transpose by columns,
// so instead of c = a b the library is asked for c^T = b^T a^T: the factors change places, and nothing is
// moved. The bias, a row of c, is then a column, as the library's epilogue has it.
//
// What it takes to find an algorithm is kept for each kind of product, which is everything but the addresses:
// see Plan.
#include "cuda/blas.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "core/error.h"
#include "core/tensor.h"
#include "cuda/capturing.h"
#include "cuda/context.h"
#include "cuda/settings.h"
#include "cuda/stream.h"

namespace tapegrad::cuda {

namespace {

// ---- what is used of the library's interface; see its documentation for the numbers

using Status = int;
using Handle = struct BlasTag*;
using ProductHandle = struct BlasProductTag*;
using LayoutHandle = struct BlasLayoutTag*;
using PreferenceHandle = struct BlasPreferenceTag*;

struct Algorithm {
  uint64_t data[8];
};
struct Candidate {
  Algorithm algorithm;
  size_t workspace;
  Status status;
  float waves;
  int reserved[4];
};

#define TAPEGRAD_BLAS_FUNCTIONS(F)                                                                 \
  F(cublasLtGetVersion, size_t, get_version, ())                                                   \
  F(cublasLtCreate, Status, create, (Handle * handle))                                             \
  F(cublasLtMatmulDescCreate, Status, create_product,                                              \
    (ProductHandle * product, int compute_type, int scale_type))                                   \
  F(cublasLtMatmulDescSetAttribute, Status, set_product,                                           \
    (ProductHandle product, int attribute, const void* value, size_t nbytes))                      \
  F(cublasLtMatrixLayoutCreate, Status, create_layout,                                             \
    (LayoutHandle * layout, int type, uint64_t rows, uint64_t columns, int64_t leading))           \
  F(cublasLtMatrixLayoutSetAttribute, Status, set_layout,                                          \
    (LayoutHandle layout, int attribute, const void* value, size_t nbytes))                        \
  F(cublasLtMatmulPreferenceCreate, Status, create_preference, (PreferenceHandle * preference))    \
  F(cublasLtMatmulPreferenceSetAttribute, Status, set_preference,                                  \
    (PreferenceHandle preference, int attribute, const void* value, size_t nbytes))                \
  F(cublasLtMatmulPreferenceDestroy, Status, destroy_preference, (PreferenceHandle preference))    \
  F(cublasLtMatmulAlgoGetHeuristic, Status, find_algorithms,                                       \
    (Handle handle, ProductHandle product, LayoutHandle a, LayoutHandle b, LayoutHandle c,         \
     LayoutHandle d, PreferenceHandle preference, int wanted, Candidate* found, int* count))       \
  F(cublasLtMatmul, Status, multiply,                                                              \
    (Handle handle, ProductHandle product, const void* alpha, const void* a,                       \
     LayoutHandle a_layout, const void* b, LayoutHandle b_layout, const void* beta, const void* c, \
     LayoutHandle c_layout, void* d, LayoutHandle d_layout, const Algorithm* algorithm,            \
     void* workspace, size_t nbytes, StreamHandle stream))

struct Functions {
#define TAPEGRAD_BLAS_MEMBER(SYMBOL, RETURN, NAME, PARAMETERS) RETURN(*NAME) PARAMETERS = nullptr;
  TAPEGRAD_BLAS_FUNCTIONS(TAPEGRAD_BLAS_MEMBER)
#undef TAPEGRAD_BLAS_MEMBER
};

enum ElementType { kReal32 = 0, kReal64 = 1, kReal16 = 2, kRealBrain16 = 14 };
enum ComputeType { kCompute32 = 68, kCompute64 = 70, kComputeTensor32 = 77 };
enum ProductAttribute {
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kAsidePointer = 11,
  kAsideLeading = 12
};
enum LayoutAttribute { kBatchCount = 5, kBatchStride = 6 };
enum PreferenceAttribute { kWorkspaceBytes = 1, kReductionSchemes = 3, kAlignmentOfA = 5 };
constexpr int kTransposed = 1;
constexpr int kEpilogueBias = 4, kEpilogueSumsOfSecond = 512;
constexpr int kEpilogueGelu = 160, kEpilogueGeluBackward = 192;  // with the values aside
constexpr uint32_t kReductionsInComputeType = 2;

constexpr uint64_t kMostWorkspace = uint64_t{32} << 20;

// ---- loading

class Library {
 public:
  Library() {
    if (!find_blas) return;
    for (const std::string& path : find_blas()) {
      reason_ = load(path);
      if (reason_.empty()) return;
    }
    TAPEGRAD_CHECK(reason_.empty(),
                   "cuda: cuBLASLt, which multiplies matrices, cannot be used: ", reason_,
                   "; pip install --upgrade tapegrad[cuda]");
  }

  bool is_there() const { return functions.multiply != nullptr; }
  Functions functions;

 private:
  // Returns why it cannot be used, or nothing.
  std::string load(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return dlerror();
    Functions found;
#define TAPEGRAD_BLAS_LOAD(SYMBOL, RETURN, NAME, PARAMETERS)                    \
  found.NAME = reinterpret_cast<decltype(found.NAME)>(dlsym(library, #SYMBOL)); \
  if (!found.NAME) return concat(path, " has no function " #SYMBOL);
    TAPEGRAD_BLAS_FUNCTIONS(TAPEGRAD_BLAS_LOAD)
#undef TAPEGRAD_BLAS_LOAD
    // One that is too new for the driver shows it here.
    Handle handle;
    if (const Status status = found.create(&handle))
      return concat(path, " fails to start with status ", status);
    functions = found;
    return {};
  }

  std::string reason_;
};

const Library& library() {
  static const Library& only = *new Library;
  return only;
}

void check_status(Status status, const char* what) {
  TAPEGRAD_CHECK(status == 0, "matmul: cuBLASLt failed with status ", status, " in ", what);
}

Handle handle_of(int device) {
  static Handle handles[kMostDevices] = {};
  if (!handles[device])
    check_status(library().functions.create(&handles[device]), "cublasLtCreate");
  return handles[device];
}

// ---- plans

int element_type(DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return kReal32;
    case DType::Float64:
      return kReal64;
    case DType::Float16:
      return kReal16;
    default:
      return kRealBrain16;
  }
}

int compute_type(DType dtype) {
  if (dtype == DType::Float64) return kCompute64;
  if (dtype == DType::Float32 && matmul_settings.allows_tf32()) return kComputeTensor32;
  return kCompute32;
}

bool allows_narrow_reduction(DType dtype) {
  return (dtype == DType::Float16 && matmul_settings.allow_float16_reduction) ||
         (dtype == DType::BFloat16 && matmul_settings.allow_bfloat16_reduction);
}

// Of an address, as far as it makes a difference: a power of two up to 256.
uint32_t alignment_of(const void* data) {
  return uint32_t{1} << std::min(8, std::countr_zero(reinterpret_cast<uintptr_t>(data)));
}

// Everything that an algorithm is chosen by.
struct Kind {
  explicit Kind(const Product& p)
      : numbers{p.m,
                p.n,
                p.k,
                p.a.leading,
                p.b.leading,
                p.c_leading,
                p.batch,
                p.a.batch_stride,
                p.b.batch_stride,
                p.c_batch_stride,
                flags(p)} {}
  bool operator==(const Kind&) const = default;

  static int64_t flags(const Product& p) {
    int64_t flags = static_cast<int64_t>(p.dtype) << 8 | compute_type(p.dtype);
    for (bool flag : {p.a.transposed, p.b.transposed, p.bias != nullptr, p.row_sums != nullptr,
                      allows_narrow_reduction(p.dtype), p.is_wide})
      flags = flags << 1 | flag;
    flags = flags << 2 | static_cast<int64_t>(p.epilogue);
    for (const void* data :
         {p.a.data, p.b.data, static_cast<const void*>(p.c), static_cast<const void*>(p.aside)})
      flags = flags << 4 | std::countr_zero(alignment_of(data));
    return flags;
  }

  int64_t numbers[11];
};

struct KindHash {
  size_t operator()(const Kind& kind) const {
    uint64_t hash = 0x9e3779b97f4a7c15;
    for (int64_t number : kind.numbers) {
      hash = (hash ^ static_cast<uint64_t>(number)) * 0xff51afd7ed558ccd;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

struct Plan {
  bool is_usable = false;  // else the library has no such product
  ProductHandle product = nullptr;
  LayoutHandle first = nullptr, second = nullptr, result = nullptr;
  Algorithm algorithm;
  size_t workspace = 0;
};

template <class T>
void set_product(ProductHandle product, int attribute, T value) {
  check_status(library().functions.set_product(product, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
}
template <class T>
void set_layout(LayoutHandle layout, int attribute, T value) {
  check_status(library().functions.set_layout(layout, attribute, &value, sizeof value),
               "cublasLtMatrixLayoutSetAttribute");
}
template <class T>
void set_preference(PreferenceHandle preference, int attribute, T value) {
  check_status(library().functions.set_preference(preference, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
}

// Of a matrix of rows x columns that is seen by columns.
LayoutHandle create_layout(const Product& p, DType dtype, int64_t rows, int64_t columns,
                           int64_t leading, int64_t batch_stride) {
  LayoutHandle layout;
  check_status(
      library().functions.create_layout(&layout, element_type(dtype), static_cast<uint64_t>(rows),
                                        static_cast<uint64_t>(columns), leading),
      "cublasLtMatrixLayoutCreate");
  if (p.batch > 1) {
    set_layout(layout, kBatchCount, static_cast<int32_t>(p.batch));
    set_layout(layout, kBatchStride, batch_stride);
  }
  return layout;
}

// A factor of rows x columns; see Note [Products by columns].
LayoutHandle create_layout(const Product& p, const Factor& factor, int64_t rows, int64_t columns) {
  return create_layout(p, p.dtype, factor.transposed ? rows : columns,
                       factor.transposed ? columns : rows, factor.leading, factor.batch_stride);
}

PreferenceHandle create_preference(const Product& p) {
  PreferenceHandle preference;
  check_status(library().functions.create_preference(&preference),
               "cublasLtMatmulPreferenceCreate");
  set_preference(preference, kWorkspaceBytes, kMostWorkspace);
  if (!allows_narrow_reduction(p.dtype))
    set_preference(preference, kReductionSchemes, kReductionsInComputeType);
  const void* addresses[] = {p.b.data, p.a.data, p.c, p.c};
  for (int i = 0; i < 4; ++i)
    set_preference(preference, kAlignmentOfA + i, alignment_of(addresses[i]));
  return preference;
}

// What is added to each row of the result, or takes the sums of the rows of a.
const void* row_of_epilogue(const Product& p) { return p.bias ? p.bias : p.row_sums; }

int epilogue_of(const Product& p) {
  if (p.epilogue == Epilogue::Gelu) return kEpilogueGelu | (p.bias ? kEpilogueBias : 0);
  if (p.epilogue == Epilogue::GeluBackward) return kEpilogueGeluBackward;
  return p.bias ? kEpilogueBias : kEpilogueSumsOfSecond;
}

Plan make_plan(const Product& p, int device) {
  const Functions& functions = library().functions;
  const bool wide = p.dtype == DType::Float64;
  Plan plan;
  check_status(
      functions.create_product(&plan.product, compute_type(p.dtype), wide ? kReal64 : kReal32),
      "cublasLtMatmulDescCreate");
  if (p.b.transposed) set_product(plan.product, kTransposeA, int32_t{kTransposed});
  if (p.a.transposed) set_product(plan.product, kTransposeB, int32_t{kTransposed});
  const void* const row = row_of_epilogue(p);
  if (row || p.aside) set_product(plan.product, kEpilogue, epilogue_of(p));
  if (row) set_product(plan.product, kBiasPointer, row);
  if (p.aside) {
    set_product(plan.product, kAsidePointer, static_cast<const void*>(p.aside));
    set_product(plan.product, kAsideLeading, p.c_leading);
  }
  plan.first = create_layout(p, p.b, p.k, p.n);
  plan.second = create_layout(p, p.a, p.m, p.k);
  plan.result = create_layout(p, p.is_wide ? DType::Float32 : p.dtype, p.n, p.m, p.c_leading,
                              p.c_batch_stride);
  const PreferenceHandle preference = create_preference(p);
  Candidate found;
  int count = 0;
  const Status status =
      functions.find_algorithms(handle_of(device), plan.product, plan.first, plan.second,
                                plan.result, plan.result, preference, 1, &found, &count);
  check_status(functions.destroy_preference(preference), "cublasLtMatmulPreferenceDestroy");
  plan.is_usable = status == 0 && count > 0 && found.status == 0;
  if (!plan.is_usable) return plan;
  plan.algorithm = found.algorithm;
  plan.workspace = found.workspace;
  return plan;
}

const Plan& plan_of(const Product& p, int device) {
  static auto* const plans = new std::unordered_map<Kind, Plan, KindHash>[kMostDevices];
  const Kind kind(p);
  auto found = plans[device].find(kind);
  if (found != plans[device].end()) [[likely]]
    return found->second;
  return plans[device].emplace(kind, make_plan(p, device)).first->second;
}

bool has_kind(const Product& p) {
  // More than the library counts in 32 bits is left to it to refuse.
  return is_floating(p.dtype) && p.k > 0 && p.batch <= INT32_MAX;
}

}  // namespace

bool has_blas() { return library().is_there(); }

size_t blas_version() { return has_blas() ? library().functions.get_version() : 0; }

bool multiply_with_blas(const Product& p, int device) {
  if (!uses_blas || !has_kind(p)) return false;
  const DeviceGuard guard(device);
  const RelaxedCapture relaxed;  // the library may load kernels
  if (!has_blas()) return false;
  const Plan& plan = plan_of(p, device);
  if (!plan.is_usable) return false;
  if (const void* row = row_of_epilogue(p)) set_product(plan.product, kBiasPointer, row);
  if (p.aside) set_product(plan.product, kAsidePointer, static_cast<const void*>(p.aside));
  // Freed when this returns, and handed out again behind the product: memory is in the order of the stream.
  Tensor workspace;
  if (plan.workspace)
    workspace = empty("matmul", DimVector{static_cast<int64_t>(plan.workspace)}, DType::UInt8,
                      Device{DeviceType::CUDA, static_cast<uint8_t>(device)});
  const double alpha = p.alpha.as_double(), beta = p.beta.as_double();
  const float narrow_alpha = static_cast<float>(alpha), narrow_beta = static_cast<float>(beta);
  const bool wide = p.dtype == DType::Float64;
  check_status(library().functions.multiply(handle_of(device), plan.product,
                                            wide ? static_cast<const void*>(&alpha) : &narrow_alpha,
                                            p.b.data, plan.first, p.a.data, plan.second,
                                            wide ? static_cast<const void*>(&beta) : &narrow_beta,
                                            p.c, plan.result, p.c, plan.result, &plan.algorithm,
                                            workspace.defined() ? workspace->data() : nullptr,
                                            plan.workspace, current_stream(device)),
               "cublasLtMatmul");
  return true;
}

}  // namespace tapegrad::cuda
