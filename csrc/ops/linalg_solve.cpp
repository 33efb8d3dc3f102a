// Linear systems, inverses, determinants, least squares.
#include "core/error.h"
#include "core/op.h"
#include "graph/record.h"
#include "ops/complex.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/join.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const Op solve_op("linalg_solve_ex", {"check"}, kLeadingDims | kHolomorphic);
const Op lu_solve_op("linalg_lu_solve", {"transpose"}, kLeadingDims | kComplex | kUnrecorded);
const Op inv_op("linalg_inv_ex", {"check"}, kLeadingDims | kHolomorphic);
const Op det_op("linalg_det", {}, kLeadingDims | kHolomorphic);
const Op slogdet_op("linalg_slogdet", {}, kLeadingDims | kComplex);
const Op triangular_op("linalg_solve_triangular", {"upper", "left", "unitriangular"},
                       kLeadingDims | kHolomorphic);
const Op lstsq_op("linalg_lstsq", {"driver", "rcond", "check"},
                  kLeadingDims | kComplex | kUnrecorded);

const EntryKind solve_entry(solve_op, {"A", "LU", "pivots", "result"});
const EntryKind inv_entry(inv_op, {"inverse"});
const EntryKind det_entry(det_op, {"A", "LU", "pivots", "result"});
const EntryKind slogdet_entry(slogdet_op, {"A", "LU", "pivots", "sign"});
const EntryKind triangular_entry(triangular_op, {"self", "result"});

int64_t rows_of(const Tensor& a) { return a.size(a.dim() - 2); }
int64_t columns_of(const Tensor& a) { return a.size(a.dim() - 1); }

// A^T x = b, by the factors of A where nothing else is recorded.
Tensor solve_transposed(const Tensor& a, const Tensor& lu, const Tensor& pivots, const Tensor& b) {
  if (is_differentiating())
    return linalg_solve("linalg.solve", matrix_transpose(a), b, false).result;
  return linalg_lu_solve(lu, pivots, b, true);
}

struct SolveBackward final : Entry<solve_entry> {
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (!grads[0].defined()) return;
    Tensor grad_b = solve_transposed(saved(0), saved(1), saved(2), grads[0]);
    if (needs(0)) grad_inputs[0] = -matmul(grad_b, matrix_transpose(saved(3)));
    if (needs(1)) grad_inputs[1] = grad_b;
  }
};

struct InvBackward final : Entry<inv_entry> {
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (!grads[0].defined()) return;
    Tensor turned = matrix_transpose(saved(0));
    grad_inputs[0] = -matmul(turned, matmul(grads[0], turned));
  }
};

// A vector as the diagonals of matrices, zero elsewhere.
Tensor as_diagonal(const Tensor& x) {
  const int64_t n = x.size(x.dim() - 1);
  Tensor on_diagonal = eye(n, n, DType::Bool, x->device());
  return where(on_diagonal, unsqueeze(x, -1), 0.0);
}
Tensor multiples_of_identity(const Tensor& x, int64_t n) {
  Tensor on_diagonal = eye(n, n, DType::Bool, x->device());
  return where(on_diagonal, unsqueeze(unsqueeze(x, -1), -1), 0.0);
}

// Note [The gradient of a determinant]
// It is g det(A) A^-T, the transposed adjugate, which exists for singular matrices too. The first derivative solves
// with the factors, in which a zero of U's diagonal is replaced by a tiny number: the determinant divided by it is
// the product of the others. A derivative that is itself to be differentiated follows A. It solves with A where that
// is regular. Where one pivot is no more than rounding, the solution would be rounding too, multiplied by a huge
// number: there A is made regular by what it lacks. Where A lacks more, what is left of the singular values without
// each of them is multiplied, which has a derivative if they differ.
struct DetBackward final : Entry<det_entry> {
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (!grads[0].defined()) return;
    Tensor a = saved(0), lu = saved(1), det = saved(3);
    if (a.numel() == 0) {
      grad_inputs[0] = zeros(a.sizes(), a.dtype(), a->device());
      return;
    }
    grad_inputs[0] = is_differentiating() ? recorded(a, lu, det, grads[0]) : quick(lu, grads[0]);
  }
  static double epsilon(const Tensor& lu) {
    const bool is_single = real_dtype(lu.dtype()) == DType::Float32;
    return is_single ? 1.1920929e-07 : 2.220446049250313e-16;
  }
  // grad * (product of the diagonal without element k) for each k, after which the triangles are solved with 1 / u_kk
  // taken out: sums of products, no division by zero.
  Tensor quick(const Tensor& lu, const Tensor& g) {
    Tensor diagonal_of_u = diagonal(lu, 0, -2, -1);
    int64_t last = -1;
    Tensor size = amax(tapegrad::abs(lu), DimVector{-2, -1}, true);
    Tensor scale = maximum(squeeze(size, {&last, 1}), 1e-30) * epsilon(lu);
    Tensor fixed = where(diagonal_of_u == 0.0, scale, diagonal_of_u);
    Tensor det = prod(fixed, -1, false);
    const Tensor sign = sign_of_pivots();
    Tensor factors = lu + as_diagonal(fixed - diagonal_of_u);
    return linalg_lu_solve(factors, saved(2), multiples_of_identity(g * det * sign, rows_of(lu)),
                           true);
  }
  Tensor sign_of_pivots() {
    Tensor pivots = saved(2);
    Tensor places = steps_from(1, 1, pivots.size(pivots.dim() - 1), DType::Int32, pivots->device());
    const DType dtype = real_dtype(saved(1).dtype());
    Tensor signs = where(pivots == places, 1.0, ones({}, dtype, pivots->device()) * -1.0);
    return prod(signs, -1, false);
  }
  static Tensor recorded(const Tensor& a, const Tensor& lu, const Tensor& det, const Tensor& g) {
    const int64_t n = rows_of(a), last = -1;
    Tensor sizes = tapegrad::abs(detach(diagonal(lu, 0, -2, -1)));
    Tensor limit = amax(sizes, {&last, 1}, true) * (100 * epsilon(lu));
    Tensor lost = sum(cast(sizes <= limit, DType::Int64), {&last, 1}, false);
    Tensor lacks_one = of_matrices(lost == 1.0);
    Tensor lacks_more = of_matrices((det == 0.0) & (lost != 1.0));
    Tensor identity = eye(n, n, a.dtype(), a->device());
    Tensor regular = where(lacks_one | lacks_more, identity, a);
    Tensor of_regular = linalg_solve("linalg.det", matrix_transpose(regular),
                                     multiples_of_identity(g * det, n), false)
                            .result;
    Tensor result = where(lacks_one, of_rank_less_one(a, lacks_one) * of_matrices(g), of_regular);
    return where(lacks_more, of_smaller_rank(a, lacks_more) * of_matrices(g), result);
  }
  // In the place of matrices that are not meant: one whose singular values differ.
  static Tensor meant(const Tensor& a, const Tensor& which) {
    const DType dtype = real_dtype(a.dtype());
    return where(which, a, as_diagonal(steps_from(1, 1, rows_of(a), dtype, a->device())));
  }
  static Tensor of_matrices(const Tensor& x) { return unsqueeze(unsqueeze(x, -1), -1); }
  static Tensor of_smaller_rank(const Tensor& a, const Tensor& which) {
    SingularValues parts = linalg_svd("linalg.det", meant(a, which), false, true);
    Tensor others = exclusive_cumprod(parts.s, -1, false) * exclusive_cumprod(parts.s, -1, true);
    Tensor sign = linalg_det(parts.u) * linalg_det(parts.vh);
    return matmul(conj(parts.u) * unsqueeze(others, -2), conj(parts.vh)) * of_matrices(sign);
  }
  // With a direction that A lacks put in, M = A + s u v is regular, and det(A) = det(M) (1 - s v M^-1 u) for constant
  // s, u, v: the derivative by M of that.
  static Tensor of_rank_less_one(const Tensor& given, const Tensor& which) {
    Tensor a = meant(given, which);
    const int64_t n = rows_of(a);
    SingularValues parts = linalg_svd("linalg.det", detach(a), false, true);
    Tensor scaled = narrow(parts.u, -1, n - 1, 1) * unsqueeze(narrow(parts.s, -1, 0, 1), -1);
    Tensor row = narrow(parts.vh, -2, n - 1, 1);
    Tensor inverse = linalg_inv("linalg.det", a + matmul(scaled, row), false).factors;
    Tensor left = matmul(inverse, scaled), right = matmul(row, inverse);
    Tensor rest = 1.0 - matmul(row, left);
    Tensor adjugate = inverse * rest + matmul(left, right);
    return matrix_transpose(adjugate) * of_matrices(linalg_det(a + matmul(scaled, row)));
  }
};

struct SlogdetBackward final : Entry<slogdet_entry> {
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    // The sign of a real determinant is constant where it has a derivative. That of a complex one turns by the
    // imaginary part of trace(A^-1 dA), whose real part is what the logarithm grows by.
    Tensor a = saved(0), g = grads[1];
    if (is_complex(a.dtype()) && grads[0].defined()) {
      Tensor product = grads[0] * conj(saved(3)), turn = 0.5 * (product - conj(product));
      g = g.defined() ? g + turn : turn;
    }
    if (!g.defined()) {
      grad_inputs[0] = zeros(a.sizes(), a.dtype(), a->device());
      return;
    }
    // A^H x = b is A^T conj(x) = conj(b).
    Tensor right = cast(multiples_of_identity(conj(g), rows_of(a)), a.dtype());
    grad_inputs[0] = conj(solve_transposed(a, saved(1), saved(2), right));
  }
};

struct TriangularBackward final : Entry<triangular_entry> {
  TriangularBackward(bool upper, bool left, bool unitriangular)
      : upper(upper), left(left), unitriangular(unitriangular) {}
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (!grads[0].defined()) return;
    Tensor grad_b =
        linalg_solve_triangular(matrix_transpose(saved(0)), grads[0], !upper, left, unitriangular);
    if (needs(1)) grad_inputs[1] = grad_b;
    if (!needs(0)) return;
    Tensor turned = matrix_transpose(saved(1));
    Tensor grad_a = -(left ? matmul(grad_b, turned) : matmul(turned, grad_b));
    grad_inputs[0] =
        upper ? triu(grad_a, unitriangular) : tril(grad_a, -static_cast<int64_t>(unitriangular));
  }
  bool upper, left, unitriangular;
};

void check_systems(const char* name, const Tensor& a, const Tensor& b, bool left) {
  check_square(name, a);
  check_matrices(name, b, "B");
  TAPEGRAD_CHECK(a.dtype() == b.dtype(), name,
                 ": Expected A and B to have the same dtype, but found A of type ",
                 tapegrad::name(a.dtype()), " and B of type ", tapegrad::name(b.dtype()),
                 " instead");
  TAPEGRAD_CHECK(columns_of(a) == (left ? rows_of(b) : columns_of(b)), name,
                 ": Incompatible shapes of A and B for the equation ", left ? "AX = B" : "XA = B",
                 " (", rows_of(a), "x", columns_of(a), " and ", rows_of(b), "x", columns_of(b),
                 ")");
}

}  // namespace

Solved linalg_solve(const char* name, const Tensor& a_given, const Tensor& b_given, bool check) {
  // As in PyTorch, only what LinAlgError says begins with the module.
  constexpr std::string_view kModule = "torch.";
  check_systems(std::string_view(name).starts_with(kModule) ? name + kModule.size() : name, a_given,
                b_given, true);
  const DimVector batch = broadcast_sizes(name, batch_of(a_given, 2), batch_of(b_given, 2));
  const Tensor a = expand_batch(a_given, batch), b = expand_batch(b_given, batch);
  const int64_t n = rows_of(a);
  Solved solved{empty_columns(name, a, batch, n, columns_of(b)),
                empty_columns(name, a, batch, n, n), empty_batch(name, a, batch, n, DType::Int32),
                empty_batch(name, a, batch, {}, DType::Int32)};
  dispatch(solve_op, {a, b}, {check_attribute(name, check)},
           {solved.result, solved.factors, solved.pivots, solved.info});
  if (should_record(a, b)) {
    auto& node = record<SolveBackward>({&a, &b}, solved.result, 4);
    node.save_input(0, a);
    node.save_input(1, solved.factors);
    node.save_input(2, solved.pivots);
    node.save_output(3, solved.result);
  }
  return solved;
}

Tensor linalg_lu_solve(const Tensor& factors, const Tensor& pivots, const Tensor& b,
                       bool transposed) {
  const char* name = "linalg.lu_solve";
  check_systems(name, factors, b, true);
  TAPEGRAD_CHECK(pivots.dtype() == DType::Int32, name,
                 ": pivots should be a Tensor of scalar type torch.int32, got ",
                 tapegrad::name(pivots.dtype()));
  TAPEGRAD_CHECK(
      pivots.dim() == factors.dim() - 1 && pivots.size(pivots.dim() - 1) == rows_of(factors) &&
          same_sizes(batch_of(pivots, 1), batch_of(factors, 2)),
      name, ": Number of pivots per batch should be same as the dimension of the matrix");
  const DimVector batch = broadcast_sizes(name, batch_of(factors, 2), batch_of(b, 2));
  Tensor out = empty_columns(name, b, batch, rows_of(b), columns_of(b));
  dispatch(lu_solve_op,
           {expand_batch(detach(factors), batch), expand_batch(pivots, batch, 1),
            expand_batch(detach(b), batch)},
           {transposed}, {out});
  return out;
}

Factored linalg_inv(const char* name, const Tensor& a, bool check) {
  check_square(name, a);
  Factored result{empty_columns(name, a, batch_of(a, 2), rows_of(a), rows_of(a)),
                  empty_batch(name, a, batch_of(a, 2), {}, DType::Int32)};
  dispatch(inv_op, {a}, {check_attribute(name, check)}, {result.factors, result.info});
  if (should_record(a)) record<InvBackward>({&a}, result.factors, 1).save_output(0, result.factors);
  return result;
}

Tensor linalg_det(const Tensor& a) {
  const char* name = "linalg.det";
  check_square(name, a);
  const Sizes batch = batch_of(a, 2);
  Tensor result = empty_batch(name, a, batch, {}, a.dtype());
  Tensor factors = empty_columns(name, a, batch, rows_of(a), rows_of(a));
  Tensor pivots = empty_batch(name, a, batch, rows_of(a), DType::Int32);
  dispatch(det_op, {a}, {}, {result, factors, pivots});
  if (should_record(a)) {
    auto& node = record<DetBackward>({&a}, result, 4);
    node.save_input(0, a);
    node.save_input(1, factors);
    node.save_input(2, pivots);
    node.save_output(3, result);
  }
  return result;
}

LogDeterminant linalg_slogdet(const Tensor& a) {
  const char* name = "linalg.slogdet";
  check_square(name, a);
  const Sizes batch = batch_of(a, 2);
  LogDeterminant result{empty_batch(name, a, batch, {}, a.dtype()),
                        empty_batch(name, a, batch, {}, real_dtype(a.dtype()))};
  Tensor factors = empty_columns(name, a, batch, rows_of(a), rows_of(a));
  Tensor pivots = empty_batch(name, a, batch, rows_of(a), DType::Int32);
  dispatch(slogdet_op, {a}, {}, {result.sign, result.logabsdet, factors, pivots});
  if (should_record(a)) {
    const Tensor outputs[] = {result.sign, result.logabsdet};
    auto& node = record<SlogdetBackward>({&a}, outputs, 4);
    node.save_input(0, a);
    node.save_input(1, factors);
    node.save_input(2, pivots);
    node.save_output(3, result.sign);
  }
  return result;
}

Tensor linalg_solve_triangular(const Tensor& a_given, const Tensor& b_given, bool upper, bool left,
                               bool unitriangular) {
  const char* name = "linalg.solve_triangular";
  check_systems(name, a_given, b_given, left);
  const DimVector batch = broadcast_sizes(name, batch_of(a_given, 2), batch_of(b_given, 2));
  const Tensor a = expand_batch(a_given, batch), b = expand_batch(b_given, batch);
  Tensor result = empty_columns(name, b, batch, rows_of(b), columns_of(b));
  dispatch(triangular_op, {a, b}, {upper, left, unitriangular}, {result});
  if (should_record(a, b)) {
    auto& node = record<TriangularBackward>({&a, &b}, result, 2, upper, left, unitriangular);
    node.save_input(0, a);
    node.save_output(1, result);
  }
  return result;
}

LeastSquaresResult linalg_lstsq(const Tensor& a_given, const Tensor& b_given, LeastSquares driver,
                                double rcond, bool check) {
  const char* name = "torch.linalg.lstsq";
  check_matrices(name, a_given, "input");
  check_matrices(name, b_given, "other");
  TAPEGRAD_CHECK(rows_of(a_given) == rows_of(b_given), name,
                 ": input.size(-2) should match other.size(-2)");
  TAPEGRAD_CHECK(a_given.dtype() == b_given.dtype(), name,
                 ": Expected input and other to have the same dtype, but "
                 "found input of type ",
                 tapegrad::name(a_given.dtype()), " and other of type ",
                 tapegrad::name(b_given.dtype()), " instead");
  const DimVector batch = broadcast_sizes(name, batch_of(a_given, 2), batch_of(b_given, 2));
  const Tensor a = expand_batch(detach(a_given), batch), b = expand_batch(detach(b_given), batch);
  const int64_t m = rows_of(a), n = columns_of(a);
  LeastSquaresResult result{empty_columns(name, b, batch, std::max(m, n), columns_of(b)),
                            empty_batch(name, a, batch, {}, DType::Int64),
                            empty_batch(name, a, batch, std::min(m, n), real_dtype(a.dtype()))};
  dispatch(lstsq_op, {a, b}, {static_cast<int64_t>(driver), rcond, check_attribute(name, check)},
           {result.solution, result.rank, result.singular_values});
  return result;
}

}  // namespace tapegrad
