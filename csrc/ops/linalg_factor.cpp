// Cholesky, LU, QR and LDL factorizations.
#include "core/error.h"
#include "core/op.h"
#include "graph/record.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/join.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/pointwise.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const Op cholesky_op("linalg_cholesky_ex", {"upper", "check"}, kLeadingDims | kComplex);
const Op lu_factor_op("linalg_lu_factor_ex", {"check"}, kLeadingDims | kHolomorphic);
const Op lu_permutation_op("lu_permutation", {"inverse"}, kLeadingDims | kNoDerivative);
const Op qr_op("linalg_qr", {"mode"}, kLeadingDims | kComplex);
const Op geqrf_op("geqrf", {}, kLeadingDims | kComplex);
const Op householder_op("linalg_householder_product", {}, kLeadingDims | kComplex | kUnrecorded);
const Op ormqr_op("ormqr", {"left", "transpose"}, kLeadingDims | kComplex | kUnrecorded);
const Op ldl_factor_op("linalg_ldl_factor_ex", {"hermitian", "check"}, kLeadingDims | kComplex);
const Op ldl_solve_op("linalg_ldl_solve", {"hermitian"}, kLeadingDims | kComplex);

const EntryKind cholesky_entry(cholesky_op, {"L"});
const EntryKind lu_factor_entry(lu_factor_op, {"LU", "pivots"});
const EntryKind qr_entry(qr_op, {"Q", "R"});
const EntryKind geqrf_entry(geqrf_op);
const EntryKind ldl_factor_entry(ldl_factor_op);
const EntryKind ldl_solve_entry(ldl_solve_op);

int64_t rows_of(const Tensor& a) { return a.size(a.dim() - 2); }
int64_t columns_of(const Tensor& a) { return a.size(a.dim() - 1); }

// x with half its diagonal, and nothing above it.
Tensor lower_with_half_diagonal(const Tensor& x) { return 0.5 * (tril(x, 0) + tril(x, -1)); }
// With the gradient of a factor's triangle: x + x^H, the real diagonal once.
Tensor symmetric_of_upper(const Tensor& x) {
  if (!is_complex(x.dtype())) return triu(x, 0) + matrix_transpose(triu(x, 1));
  Tensor doubled = triu(x, 0) + triu(x, 1);
  return 0.5 * (doubled + adjoint(doubled));
}

struct CholeskyBackward final : Entry<cholesky_entry> {
  explicit CholeskyBackward(bool upper) : upper(upper) {}
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (!grads[0].defined()) return;
    Tensor factor = saved(0), g = grads[0];
    if (upper) {
      factor = adjoint(factor);
      g = adjoint(g);
    }
    // Its own adjoint, since only one triangle of A was read, which stands for both.
    Tensor phi = lower_with_half_diagonal(matmul(adjoint(factor), g));
    phi = 0.5 * (phi + adjoint(phi));
    Tensor half = linalg_solve_triangular(adjoint(factor), phi, true, true, false);
    grad_inputs[0] = linalg_solve_triangular(factor, half, false, false, false);
  }
  bool upper;
};

// Of A = P L U, whichever of its sides is longer.
struct LuFactorBackward final : Entry<lu_factor_entry> {
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (!grads[0].defined()) return;
    Tensor lu = saved(0), g = grads[0];
    const int64_t m = rows_of(lu), n = columns_of(lu), k = std::min(m, n);
    Tensor square = narrow(narrow(lu, -2, 0, k), -1, 0, k);
    Tensor upper_turned = matrix_transpose(square), lower_turned = upper_turned;
    // What is common: (L1^T gL1 below the diagonal + gU1 U1^T on and above it), and the parts that stick out.
    Tensor l = tril(narrow(lu, -1, 0, k), -1), u = triu(narrow(lu, -2, 0, k), 0);
    Tensor l_full = l + expand(eye(m, k, lu.dtype(), lu->device()), l.sizes());
    Tensor g_l = tril(narrow(g, -1, 0, k), -1), g_u = triu(narrow(g, -2, 0, k), 0);
    Tensor result;
    if (m == n) {
      Tensor phi = tril(matmul(matrix_transpose(l_full), g_l), -1) +
                   triu(matmul(g_u, matrix_transpose(u)), 0);
      phi = linalg_solve_triangular(upper_turned, phi, false, false, false);
      result = linalg_solve_triangular(lower_turned, phi, true, true, true);
    } else if (m < n) {
      Tensor phi =
          tril(matmul(matrix_transpose(l_full), g_l) - matmul(g_u, matrix_transpose(u)), -1);
      phi = linalg_solve_triangular(upper_turned, phi, false, false, false);
      Tensor parts[] = {phi, zeros_beside(phi, m, n - m)};
      result =
          linalg_solve_triangular(lower_turned, cat(parts, phi.dim() - 1) + g_u, true, true, true);
    } else {
      Tensor phi =
          triu(matmul(g_u, matrix_transpose(u)) - matmul(matrix_transpose(l_full), g_l), 0);
      phi = linalg_solve_triangular(lower_turned, phi, true, true, true);
      Tensor parts[] = {phi, zeros_beside(phi, m - n, n)};
      result = linalg_solve_triangular(upper_turned, cat(parts, phi.dim() - 2) + g_l, false, false,
                                       false);
    }
    grad_inputs[0] = take_rows(result, lu_permutation(saved(1), m, true));
  }
  static Tensor zeros_beside(const Tensor& x, int64_t rows, int64_t columns) {
    DimVector sizes(batch_of(x, 2));
    sizes.push_back(rows);
    sizes.push_back(columns);
    return zeros(sizes, x.dtype(), x->device());
  }
};

// Of the reduced form, or the complete one of a matrix with as many columns as rows or more.
struct QrBackward final : Entry<qr_entry> {
  explicit QrBackward(QrMode mode) : mode(mode) {}
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    TAPEGRAD_CHECK(
        mode != QrMode::R,
        "linalg.qr: The derivative depends on Q, which is not computed when mode='r'. Please use "
        "linalg.qr(A, mode='reduced') if you are going to require gradients; recorded at ",
        line());
    Tensor q = saved(0), r = saved(1), g_q = grads[0], g_r = grads[1];
    const int64_t m = rows_of(q), n = columns_of(r);
    TAPEGRAD_CHECK(
        mode != QrMode::Complete || m <= n,
        "linalg.qr: The QR decomposition is not differentiable when mode='complete' and nrows > ncols; "
        "recorded at ",
        line());
    if (!g_q.defined() && !g_r.defined()) return;
    if (m >= n) {
      grad_inputs[0] = of_tall(q, r, g_q, g_r);
      return;
    }
    // A = [X | Y] = Q [U | V]: X = Q U, and V = Q^H Y.
    Tensor u = narrow(r, -1, 0, m), v = narrow(r, -1, m, n - m), g_u;
    Tensor g_y = zeros(v.sizes(), v.dtype(), v->device());
    if (g_r.defined()) {
      Tensor g_v = narrow(g_r, -1, m, n - m);
      g_u = narrow(g_r, -1, 0, m);
      g_y = matmul(q, g_v);
      Tensor through_v = matmul(matmul(q, v), adjoint(g_v));
      g_q = g_q.defined() ? g_q + through_v : through_v;
    }
    Tensor parts[] = {of_tall(q, u, g_q, g_u), g_y};
    grad_inputs[0] = cat(parts, q.dim() - 1);
  }
  static Tensor of_tall(const Tensor& q, const Tensor& r, const Tensor& g_q, const Tensor& g_r) {
    Tensor inner;
    if (g_r.defined()) inner = matmul(g_r, adjoint(r));
    if (g_q.defined()) {
      Tensor along = matmul(adjoint(q), g_q);
      inner = inner.defined() ? inner - along : -along;
    }
    Tensor result = matmul(q, symmetric_of_upper(inner));
    if (g_q.defined()) result = result + g_q;
    return linalg_solve_triangular(adjoint(r), result, false, false, false);
  }
  QrMode mode;
};

// As in PyTorch, these have no derivative; what depends on the input says so.
template <const EntryKind& kKind>
struct NoDerivativeBackward final : Entry<kKind> {
  void vjp(Gradients, Gradients) override {
    fail<NotImplementedError>("the derivative for '", kKind.function,
                              "' is not implemented; it was recorded at ", this->line(),
                              "; pass it a .detach() tensor");
  }
};

LuFactors empty_factors(const char* name, const Tensor& a) {
  const int64_t m = rows_of(a), n = columns_of(a);
  const Sizes batch = batch_of(a, 2);
  return {empty_columns(name, a, batch, m, n),
          empty_batch(name, a, batch, std::min(m, n), DType::Int32),
          empty_batch(name, a, batch, {}, DType::Int32)};
}

}  // namespace

Factored linalg_cholesky(const char* name, const Tensor& a, bool upper, bool check) {
  check_square(name, a);
  const Sizes batch = batch_of(a, 2);
  Factored result{empty_columns(name, a, batch, rows_of(a), rows_of(a)),
                  empty_batch(name, a, batch, {}, DType::Int32)};
  dispatch(cholesky_op, {a}, {upper, check_attribute(name, check)}, {result.factors, result.info});
  if (should_record(a))
    record<CholeskyBackward>({&a}, result.factors, 1, upper).save_output(0, result.factors);
  return result;
}

LuFactors linalg_lu_factor(const char* name, const Tensor& a, bool check) {
  check_matrices(name, a);
  LuFactors result = empty_factors(name, a);
  dispatch(lu_factor_op, {a}, {check_attribute(name, check)},
           {result.factors, result.pivots, result.info});
  if (should_record(a)) {
    auto& node = record<LuFactorBackward>({&a}, result.factors, 2);
    node.save_output(0, result.factors);
    node.save_input(1, result.pivots);
  }
  return result;
}

Tensor lu_permutation(const Tensor& pivots, int64_t rows, bool inverse) {
  TAPEGRAD_CHECK(
      pivots.dim() >= 1 && pivots.dtype() == DType::Int32,
      "lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype, got ",
      name(pivots.dtype()));
  Tensor order = empty_batch("lu_unpack", pivots, batch_of(pivots, 1), rows, DType::Int64);
  dispatch(lu_permutation_op, {pivots}, {inverse}, {order});
  return order;
}

QrFactors linalg_qr(const char* name, const Tensor& a, QrMode mode) {
  check_matrices(name, a);
  const int64_t m = rows_of(a), n = columns_of(a), k = std::min(m, n);
  const Sizes batch = batch_of(a, 2);
  const int64_t q_columns = mode == QrMode::R ? 0 : mode == QrMode::Complete ? m : k;
  QrFactors result{empty_columns(name, a, batch, m, q_columns),
                   empty_columns(name, a, batch, mode == QrMode::Complete ? m : k, n)};
  dispatch(qr_op, {a}, {static_cast<int64_t>(mode)}, {result.q, result.r});
  if (should_record(a)) {
    const Tensor outputs[] = {result.q, result.r};
    auto& node = record<QrBackward>({&a}, outputs, 2, mode);
    node.save_output(0, result.q);
    node.save_output(1, result.r);
  }
  return result;
}

std::pair<Tensor, Tensor> geqrf(const Tensor& a) {
  check_matrices("geqrf", a, "input");
  const int64_t m = rows_of(a), n = columns_of(a);
  const Tensor outputs[] = {empty_columns("geqrf", a, batch_of(a, 2), m, n),
                            empty_batch("geqrf", a, batch_of(a, 2), std::min(m, n), a.dtype())};
  dispatch(geqrf_op, {a}, {}, {outputs[0], outputs[1]});
  if (should_record(a)) record<NoDerivativeBackward<geqrf_entry>>({&a}, outputs, 0);
  return {outputs[0], outputs[1]};
}

Tensor linalg_householder_product(const Tensor& a, const Tensor& tau) {
  check_matrices("linalg.householder_product", a, "input");
  TAPEGRAD_CHECK(tau.dim() == a.dim() - 1 && same_sizes(batch_of(tau, 1), batch_of(a, 2)) &&
                     tau.size(tau.dim() - 1) <= columns_of(a) && columns_of(a) <= rows_of(a) &&
                     tau.dtype() == a.dtype(),
                 "linalg.householder_product: expected one scale for each reflector, got shapes ",
                 to_string(a.sizes()), " and ", to_string(tau.sizes()));
  Tensor out =
      empty_columns("linalg.householder_product", a, batch_of(a, 2), rows_of(a), columns_of(a));
  dispatch(householder_op, {a, tau}, {}, {out});
  return out;
}

Tensor ormqr(const Tensor& a, const Tensor& tau, const Tensor& other, bool left, bool transposed) {
  check_matrices("ormqr", a, "input");
  check_matrices("ormqr", other, "other");
  const int64_t order = left ? rows_of(other) : columns_of(other);
  TAPEGRAD_CHECK(tau.dim() == a.dim() - 1 && same_sizes(batch_of(tau, 1), batch_of(a, 2)) &&
                     same_sizes(batch_of(other, 2), batch_of(a, 2)) && rows_of(a) == order &&
                     tau.size(tau.dim() - 1) <= std::min(columns_of(a), order) &&
                     tau.dtype() == a.dtype() && other.dtype() == a.dtype(),
                 "ormqr: expected reflectors of ", order, " rows with a scale each, got shapes ",
                 to_string(a.sizes()), ", ", to_string(tau.sizes()), " and ",
                 to_string(other.sizes()));
  Tensor out = empty_columns("ormqr", other, batch_of(other, 2), rows_of(other), columns_of(other));
  dispatch(ormqr_op, {a, tau, other}, {left, transposed}, {out});
  return out;
}

LuFactors linalg_ldl_factor(const char* name, const Tensor& a, bool hermitian, bool check) {
  check_square(name, a);
  LuFactors result = empty_factors(name, a);
  dispatch(ldl_factor_op, {a}, {hermitian, check_attribute(name, check)},
           {result.factors, result.pivots, result.info});
  if (should_record(a)) record<NoDerivativeBackward<ldl_factor_entry>>({&a}, result.factors, 0);
  return result;
}

Tensor linalg_ldl_solve(const Tensor& factors, const Tensor& pivots, const Tensor& b,
                        bool hermitian) {
  check_square("linalg.ldl_solve", factors);
  check_matrices("linalg.ldl_solve", b, "B");
  TAPEGRAD_CHECK(rows_of(b) == rows_of(factors) && b.dtype() == factors.dtype(),
                 "linalg.ldl_solve: expected B with ", rows_of(factors),
                 " rows and the dtype of LD, got shape ", to_string(b.sizes()), " and ",
                 name(b.dtype()));
  TAPEGRAD_CHECK(pivots.dtype() == DType::Int32 && pivots.dim() == factors.dim() - 1 &&
                     pivots.size(pivots.dim() - 1) == rows_of(factors),
                 "linalg.ldl_solve: expected pivots of dtype int32, one for each row, got shape ",
                 to_string(pivots.sizes()));
  const DimVector batch = broadcast_sizes("linalg.ldl_solve", batch_of(factors, 2), batch_of(b, 2));
  Tensor ld = expand_batch(factors, batch), right = expand_batch(b, batch);
  Tensor out = empty_columns("linalg.ldl_solve", b, batch, rows_of(b), columns_of(b));
  dispatch(ldl_solve_op, {ld, expand_batch(pivots, batch, 1), right}, {hermitian}, {out});
  if (should_record(ld, right))
    record<NoDerivativeBackward<ldl_solve_entry>>({&ld, &right}, out, 0);
  return out;
}

}  // namespace tapegrad
