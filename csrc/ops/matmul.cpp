// Matrix products. All forms are views of one kernel, a batched product with any strides of its
// operands that BLAS can read; what it cannot read is made contiguous first.
#include "ops/matmul.h"

#include <algorithm>

#include "core/error.h"
#include "core/op.h"
#include "core/torch_names.h"
#include "graph/record.h"
#include "intercept/batch.h"
#include "ops/autocast.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

// Inputs a (..., m, k) and b (..., k, n), output (..., m, n); attributes alpha and beta. One product may
// have a row to be added as its third input, and on CUDA a second output for the sums of a's rows. Its
// outputs may be of float32 there where its inputs are of a half type.
const Op matmul_op("matmul", {"alpha", "beta"}, kAnyRank | kContracts | kHolomorphic);

// One factor is kept for the gradient of the other.
const EntryKind mm_entry("mm", matmul_op, {{"self", {1}}, {"mat2", {0}}});
const EntryKind bmm_entry("bmm", matmul_op, {{"self", {1}}, {"mat2", {0}}});
const EntryKind mv_entry("mv", matmul_op, {{"self", {1}}, {"vec", {0}}});
const EntryKind dot_entry("dot", matmul_op, {{"self", {1}}, {"tensor", {0}}});
const EntryKind addmm_entry("addmm", matmul_op, {{"mat1", {2}}, {"mat2", {1}}});
const EntryKind baddbmm_entry("baddbmm", matmul_op, {{"batch1", {2}}, {"batch2", {1}}});
const EntryKind addmv_entry("addmv", matmul_op, {{"mat", {2}}, {"vec", {1}}});

const CastRule mm_rule("mm", Cast::Lower, Cast::Lower);
const CastRule bmm_rule("bmm", Cast::Lower, Cast::Lower);
const CastRule matmul_rule("matmul", Cast::Lower, Cast::Lower);
const CastRule linear_rule("linear", Cast::Lower, Cast::Lower);
const CastRule addmm_rule("addmm", Cast::Lower, Cast::Lower);
const CastRule baddbmm_rule("baddbmm", Cast::Lower, Cast::Lower);
const CastRule mv_rule("mv", Cast::None, Cast::Lower);
const CastRule addmv_rule("addmv", Cast::None, Cast::Lower);
const CastRule dot_rule("dot", Cast::None, Cast::Widest);

void check_dtypes(const char* op, const Tensor& a, const Tensor& b) {
  TAPEGRAD_CHECK(a.dtype() == b.dtype(), op,
                 ": expected m1 and m2 to have the same dtype, but got: ", name(a.dtype()),
                 " != ", name(b.dtype()), "; cast one with .to()");
  // An empty product has no elements to multiply.
  if (a.dtype() == DType::Bool && a.numel() > 0 && b.numel() > 0)
    fail_unsupported_dtype(op, a.dtype());
}

void check_inner(const char* op, const Tensor& a, const Tensor& b) {
  TAPEGRAD_CHECK(a.size(a.dim() - 1) == b.size(b.dim() - 2), op,
                 ": mat1 and mat2 shapes cannot be multiplied (", joined(a.sizes(), "x"), " and ",
                 joined(b.sizes(), "x"), ")");
}

void check_rank(const char* op, const char* operand, const Tensor& x, int64_t rank) {
  TAPEGRAD_CHECK(x.dim() == rank, op, ": ", operand, " must be a ",
                 rank == 2 ? "matrix" : std::to_string(rank) + "D tensor", ", got ", x.dim(), "D");
}

// The kernel reads a matrix if one of its two dimensions has stride one.
Tensor readable(const Tensor& x) {
  int64_t rows = x.size(x.dim() - 2), columns = x.size(x.dim() - 1);
  int64_t row_stride = x.stride(x.dim() - 2), column_stride = x.stride(x.dim() - 1);
  bool by_rows = (column_stride == 1 || columns == 1) &&
                 (row_stride >= std::max<int64_t>(columns, 1) || rows == 1);
  bool by_columns = (row_stride == 1 || rows == 1) &&
                    (column_stride >= std::max<int64_t>(rows, 1) || columns == 1);
  if (by_rows || by_columns) return x;
  Tensor copy = empty_like(x);
  copy_into(copy, x);
  return copy;
}

// out = alpha * a @ b + beta * out, where a, b and out have the same rank.
void multiply_into(const Tensor& out, const Tensor& a, const Tensor& b, Scalar alpha, Scalar beta) {
  if (a.dtype() == DType::Bool) {
    if (beta.as_double() == 0) fill_into(out, false);
    return;
  }
  dispatch(matmul_op, {readable(a), readable(b)}, {alpha, beta}, {out});
}

// Whether a matrix is the transpose of one that lies without gaps, such as the weight of a linear layer.
bool is_by_columns(const Tensor& x) {
  return x.dim() == 2 && x.stride(0) == 1 && x.stride(1) == x.size(0) && x.size(0) > 1 &&
         x.size(1) > 1;
}

// Whether the gradient of an input, for which the incoming one is g, is better written in float32 than in the half
// type of g: it goes to a parameter that was cast. See Note [Dtypes of gradients].
bool is_wide(const Node& node, size_t input, const Tensor& g) {
  return is_reduced_float(g.dtype()) && g->device().type == DeviceType::CUDA && g.dim() == 2 &&
         g.numel() > 0 && !is_differentiating() && !batched_storages && !is_vmap_running() &&
         node.leaf_dtype(input) == DType::Float32;
}

// a @ b, of float32 where that is asked for.
Tensor product(const Tensor& a, const Tensor& b, bool wide) {
  if (!wide || a.numel() == 0) return matmul(a, b);
  const Tensor out = empty_like(a, DimVector{a.size(0), b.size(1)}, DType::Float32);
  multiply_into(out, a, b, 1, 0);
  return out;
}

// a^T @ g, for b's gradient, in the order in which b lies: where it goes to the weight that b is the transpose
// of, it is kept as it is.
Tensor grad_of_second(const Tensor& a, const Tensor& g, bool by_columns, bool wide) {
  return by_columns ? matrix_transpose(product(matrix_transpose(g), a, wide))
                    : product(matrix_transpose(a), g, wide);
}

// The product's gradients: g @ b^T and a^T @ g, for matrices and batches alike.
struct MatmulBackward final : VariantEntry {
  MatmulBackward(const EntryKind& kind, bool by_columns)
      : VariantEntry(kind), by_columns(by_columns) {
    set_gradient_dtypes(GradientDtypes::Widens);
  }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (needs(0)) grad_inputs[0] = matmul(grads[0], matrix_transpose(saved(1)));
    if (needs(1))
      grad_inputs[1] = grad_of_second(saved(0), grads[0], by_columns, is_wide(*this, 1, grads[0]));
  }
  bool by_columns;  // b
};

// beta * x + alpha * (a @ b)
struct AddmmBackward final : VariantEntry {
  AddmmBackward(const EntryKind& kind, Scalar beta, Scalar alpha, bool has_bias, bool by_columns)
      : VariantEntry(kind), beta(beta), alpha(alpha), has_bias(has_bias), by_columns(by_columns) {
    set_gradient_dtypes(GradientDtypes::Widens);
  }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    const Tensor& g = grads[0];
    if (g->device().type == DeviceType::CUDA) [[unlikely]]
      sum_first(g, grad_inputs);
    if (needs(1)) grad_inputs[1] = scaled(matmul(g, matrix_transpose(saved(1))), alpha);
    const bool wide_bias = has_bias && needs(0) && is_wide(*this, 0, g);
    const bool wide = needs(2) && is_wide(*this, 2, g);
    if (sums_with_product(g) && wide_bias == wide) return multiply_and_sum(g, wide, grad_inputs);
    if (needs(0) && !grad_inputs[0].defined())
      grad_inputs[0] = wide_bias ? sum(g, DimVector{0}, false, DType::Float32) : scaled(g, beta);
    if (needs(2)) grad_inputs[2] = scaled(grad_of_second(saved(0), g, by_columns, wide), alpha);
  }
  // On CUDA rows of g are added up for the bias before anything else reads g, so that it may be done by the kernel that
  // makes g (cuda/merge.cpp), unless the product does it. The sweep would do it later.
  [[gnu::noinline]] void sum_first(const Tensor& g, Gradients grad_inputs) {
    if (!has_bias || !needs(0) || g.dim() != 2 || g.numel() == 0 || is_differentiating() ||
        batched_storages || is_vmap_running())
      return;
    const bool wide = is_wide(*this, 0, g);
    if (sums_with_product(g) && wide == is_wide(*this, 2, g)) return;
    grad_inputs[0] = sum(g, DimVector{0}, false, wide ? DType::Float32 : g.dtype());
  }
  // Whether the product for b's gradient gives the bias's as well.
  bool sums_with_product(const Tensor& g) const {
    constexpr int64_t kWorthALaunch = int64_t{1} << 21;  // elements, which a sum reads faster
    return has_bias && by_columns && needs(0) && needs(2) && g->device().type == DeviceType::CUDA &&
           g.numel() > 0 && g.numel() < kWorthALaunch && !is_differentiating() &&
           !batched_storages && !is_vmap_running();
  }
  void multiply_and_sum(const Tensor& g, bool wide, Gradients grad_inputs) {
    const Tensor a = saved(0), factor = matrix_transpose(g);
    const DType dtype = wide ? DType::Float32 : g.dtype();
    const Tensor product = empty_like(g, DimVector{g.size(1), a.size(1)}, dtype);
    const Tensor sums = empty_like(g, DimVector{g.size(1)}, dtype);
    dispatch(matmul_op, {readable(factor), readable(a)}, {1, 0}, {product, sums});
    grad_inputs[0] = sums;
    grad_inputs[2] = matrix_transpose(product);
  }
  static Tensor scaled(const Tensor& x, Scalar factor) {
    return factor.as_double() == 1 ? x : mul(x, factor.as_double());
  }
  Scalar beta, alpha;
  bool has_bias;    // x is a row, and beta and alpha are 1
  bool by_columns;  // b
};

// Saves only what the gradients of the inputs that need one read.
void save_factors(Node& node, const Tensor& a, const Tensor& b) {
  size_t first = node.edges().size() - 2;
  if (node.needs(first + 1)) node.save_input(0, a);
  if (node.needs(first)) node.save_input(1, b);
}

// a and b of equal rank >= 2; batch dimensions broadcast. `by_columns` is whether b's gradient is to be in the order
// of a transposed weight.
Tensor multiply(const char* op, const EntryKind& kind, const Tensor& a, const Tensor& b,
                bool by_columns = false) {
  check_dtypes(op, a, b);
  check_inner(op, a, b);
  DimVector sizes;
  if (a.dim() > 2)
    sizes = broadcast_sizes(op, a.sizes().first(a.dim() - 2), b.sizes().first(b.dim() - 2));
  sizes.push_back(a.size(a.dim() - 2));
  sizes.push_back(b.size(b.dim() - 1));
  Tensor out = empty(op, sizes, a.dtype(), a->device());
  multiply_into(out, a, b, 1, 0);
  if (should_record(a, b))
    save_factors(record<MatmulBackward>({&a, &b}, out, 2, kind, by_columns), a, b);
  return out;
}

// Whether x is a row that the product's kernel can add by itself: the CPU's of float32 and float64 only.
bool is_bias(const Tensor& x, const Tensor& out, Scalar beta, Scalar alpha) {
  return out.dim() == 2 && x.dim() == 1 && x.size(0) == out.size(1) && x.is_contiguous() &&
         beta.as_double() == 1 && alpha.as_double() == 1 && !batched_storages &&
         !is_vmap_running() &&
         (x.dtype() == DType::Float32 || x.dtype() == DType::Float64 ||
          (is_floating(x.dtype()) && x->device().type == DeviceType::CUDA));
}

Tensor add_product(const char* op, const EntryKind& kind, const Tensor& x, const Tensor& a,
                   const Tensor& b, Scalar beta, Scalar alpha, bool by_columns = false) {
  check_dtypes(op, a, b);
  check_dtypes(op, x, a);
  check_inner(op, a, b);
  if (is_integral(x.dtype())) {
    // Integers take factors without their fractions.
    for (Scalar* factor : {&beta, &alpha}) {
      check_fits(op, *factor, x.dtype());
      *factor = factor->as_int();
    }
  }
  DimVector sizes;
  if (a.dim() == 3) sizes.push_back(a.size(0));
  sizes.push_back(a.size(a.dim() - 2));
  sizes.push_back(b.size(b.dim() - 1));
  TAPEGRAD_CHECK(can_expand(x.sizes(), sizes), op,
                 ": The expanded size of the tensor must match: the input of shape ",
                 to_string(x.sizes()), " cannot be broadcast to the product's shape ",
                 to_string(sizes));
  Tensor out = empty(op, sizes, a.dtype(), a->device());
  const bool has_bias = is_bias(x, out, beta, alpha);
  if (has_bias) {
    dispatch(matmul_op, {readable(a), readable(b), x}, {1, 0}, {out});
  } else {
    if (beta.as_double() != 0) copy_into(out, x);
    multiply_into(out, a, b, alpha, beta);
  }
  if (should_record(x, a, b))
    save_factors(
        record<AddmmBackward>({&x, &a, &b}, out, 2, kind, beta, alpha, has_bias, by_columns), a, b);
  return out;
}

DimVector without(Sizes sizes, size_t position) {
  DimVector out(sizes);
  out.erase(position);
  return out;
}

// Leading dimensions of a fold into its rows when b is one matrix: one large product, and one for
// each gradient, which is worth a copy of a.
Tensor fold_rows(const Tensor& a, const Tensor& b, bool by_columns = false) {
  DimVector sizes(a.sizes());
  sizes.back() = b.size(1);
  Tensor rows = reshape(a, DimVector{-1, a.size(a.dim() - 1)});
  return unsafe_view(multiply("matmul", mm_entry, rows, b, by_columns), sizes);
}

Tensor align_rank(const Tensor& x, int64_t rank) {
  if (x.dim() == rank) return x;
  DimVector sizes(rank - x.dim(), 1);
  for (int64_t size : x.sizes()) sizes.push_back(size);
  return view(x, sizes);
}

}  // namespace

Tensor mm(const Tensor& a, const Tensor& b) {
  if (autocast_devices) [[unlikely]]
    return run_cast(mm_rule, mm, a, b);
  check_rank("mm", "self", a, 2);
  check_rank("mm", "mat2", b, 2);
  return multiply("mm", mm_entry, a, b);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  if (autocast_devices) [[unlikely]]
    return run_cast(bmm_rule, bmm, a, b);
  check_rank("bmm", "batch1", a, 3);
  check_rank("bmm", "batch2", b, 3);
  TAPEGRAD_CHECK(a.size(0) == b.size(0) && a.size(2) == b.size(1),
                 "bmm: Expected size for first two dimensions of batch2 tensor to be: [", a.size(0),
                 ", ", a.size(2), "] but got: [", b.size(0), ", ", b.size(1), "].");
  return multiply("bmm", bmm_entry, a, b);
}

Tensor mv(const Tensor& a, const Tensor& x) {
  if (autocast_devices) [[unlikely]]
    return run_cast(mv_rule, mv, a, x);
  check_rank("mv", "self", a, 2);
  check_rank("mv", "vec", x, 1);
  TAPEGRAD_CHECK(a.size(1) == x.size(0), "mv: size mismatch, got input (", a.size(0), "), mat (",
                 a.size(0), "x", a.size(1), "), vec (", x.size(0), ")");
  return unsafe_view(multiply("mv", mv_entry, a, unsqueeze(x, 1)), DimVector{a.size(0)});
}

Tensor dot(const Tensor& a, const Tensor& b) {
  if (autocast_devices) [[unlikely]]
    return run_cast(dot_rule, dot, a, b);
  if (a.dtype() == DType::Bool) fail_unsupported_dtype("dot", a.dtype());
  TAPEGRAD_CHECK(a.dtype() == b.dtype(),
                 "dot : expected both vectors to have same dtype, but found ", type_name(a.dtype()),
                 " and ", type_name(b.dtype()));
  TAPEGRAD_CHECK(a.dim() == 1 && b.dim() == 1, "dot: 1D tensors expected, but got ", a.dim(),
                 "D and ", b.dim(), "D tensors");
  TAPEGRAD_CHECK(a.size(0) == b.size(0), "dot: inconsistent tensor size, expected tensor [",
                 a.size(0), "] and src [", b.size(0),
                 "] to have the same number of elements, but got ", a.size(0), " and ", b.size(0),
                 " elements respectively");
  return unsafe_view(multiply("dot", dot_entry, unsqueeze(a, 0), unsqueeze(b, 1)), {});
}

Tensor outer(const Tensor& a, const Tensor& b) {
  check_rank("outer", "input", a, 1);
  check_rank("outer", "vec2", b, 1);
  return mul(unsqueeze(a, 1), b);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (autocast_devices) [[unlikely]]
    return run_cast(matmul_rule, matmul, a, b);
  TAPEGRAD_CHECK(a.dim() > 0 && b.dim() > 0,
                 "matmul: both arguments to matmul need to be at least 1D, but "
                 "they are ",
                 a.dim(), "D and ", b.dim(), "D");
  if (a.dim() == 2 && b.dim() == 2) return multiply("matmul", mm_entry, a, b);
  if (a.dim() == 1 && b.dim() == 1) return dot(a, b);
  if (a.dim() == 2 && b.dim() == 1) return mv(a, b);
  if (a.dim() == 1) {
    Tensor y = matmul(unsqueeze(a, 0), b);
    return unsafe_view(y, without(y.sizes(), y.dim() - 2));
  }
  if (b.dim() == 1) {
    Tensor y = matmul(a, unsqueeze(b, 1));
    return unsafe_view(y, without(y.sizes(), y.dim() - 1));
  }
  if (b.dim() == 2 && a.numel() > 0) {
    check_inner("matmul", a, b);
    return fold_rows(a, b);
  }
  int64_t rank = std::max(a.dim(), b.dim());
  return multiply("matmul", bmm_entry, align_rank(a, rank), align_rank(b, rank));
}

Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  if (autocast_devices) [[unlikely]]
    return run_cast(addmm_rule, [&](auto&... operands) { return addmm(operands..., beta, alpha); },
                    x, a, b);
  check_rank("addmm", "mat1", a, 2);
  check_rank("addmm", "mat2", b, 2);
  check_dtypes("addmm", a, b);
  TAPEGRAD_CHECK(x.dtype() != DType::Bool || beta.as_double() == 0,
                 "addmm: result type int64 can't be cast to the desired output type bool");
  return add_product("addmm", addmm_entry, x, a, b, beta, alpha);
}

Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  if (autocast_devices) [[unlikely]]
    return run_cast(baddbmm_rule,
                    [&](auto&... operands) { return baddbmm(operands..., beta, alpha); }, x, a, b);
  check_rank("baddbmm", "batch1", a, 3);
  check_rank("baddbmm", "batch2", b, 3);
  TAPEGRAD_CHECK(a.size(0) == b.size(0),
                 "baddbmm: expected both batches to have the same number, "
                 "got ",
                 to_string(a.sizes()), " and ", to_string(b.sizes()));
  return add_product("baddbmm", baddbmm_entry, x, a, b, beta, alpha);
}

Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& v, Scalar beta, Scalar alpha) {
  if (autocast_devices) [[unlikely]]
    return run_cast(addmv_rule, [&](auto&... operands) { return addmv(operands..., beta, alpha); },
                    x, a, v);
  check_rank("addmv", "mat", a, 2);
  check_rank("addmv", "vec", v, 1);
  Tensor column = x.dim() == 0 ? x : unsqueeze(x, 1);
  Tensor y = add_product("addmv", addmv_entry, column, a, unsqueeze(v, 1), beta, alpha);
  return unsafe_view(y, DimVector{y.size(0)});
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (autocast_devices) [[unlikely]]
    return run_cast(linear_rule, linear, x, weight, bias);
  TAPEGRAD_CHECK(weight.dim() == 2 || weight.dim() == 1, "linear: weight must be 1D or 2D, got ",
                 weight.dim(), "D");
  if (weight.dim() == 1) {
    Tensor y = matmul(x, weight);
    return bias.defined() ? add(y, bias) : y;
  }
  const Tensor transposed = transpose(weight, 0, 1);
  const bool is_folded = x.dim() > 2 && x.numel() > 0, by_columns = is_by_columns(transposed);
  if (is_folded) check_inner("linear", x, transposed);
  if (!bias.defined()) {
    if (x.dim() == 2) return multiply("matmul", mm_entry, x, transposed, by_columns);
    return is_folded ? fold_rows(x, transposed, by_columns) : matmul(x, transposed);
  }
  const auto add_to_bias = [&](const Tensor& rows) {
    check_dtypes("addmm", rows, transposed);
    return add_product("addmm", addmm_entry, bias, rows, transposed, 1, 1, by_columns);
  };
  if (x.dim() == 2) return add_to_bias(x);
  if (!is_folded) return add(matmul(x, transposed), bias);
  DimVector sizes(x.sizes());
  sizes.back() = weight.size(0);
  return unsafe_view(add_to_bias(reshape(x, DimVector{-1, x.size(x.dim() - 1)})), sizes);
}

}  // namespace tapegrad
