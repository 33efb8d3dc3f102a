// Eigenvalues, singular values, and what is made of them: pseudoinverses; the exponential.
//
// Eigenvectors and singular vectors are determined up to their sign, complex ones up to their phase, and those of equal
// values up to a rotation: a loss that does not depend on that choice has a gradient, others have none. As in PyTorch,
// the derivatives divide by differences of values, and refuse a loss that depends on phases. That they compare
// numbers for that is the work of an op, so that batches, captures and forward mode need to know nothing of it.
#include "core/error.h"
#include "core/op.h"
#include "graph/record.h"
#include "ops/complex.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/join.h"
#include "ops/linalg.h"
#include "ops/mask.h"
#include "ops/matmul.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

const Op eig_op("linalg_eig", {"vectors", "check"}, kLeadingDims | kComplex);
const Op eigh_op("linalg_eigh", {"upper", "vectors", "check"}, kLeadingDims | kComplex);
const Op svd_op("linalg_svd", {"full_matrices", "vectors", "check"}, kLeadingDims | kComplex);
const Op matrix_exp_op("linalg_matrix_exp", {}, kLeadingDims | kHolomorphic);
const Op phase_check_op("linalg_phase_check", {"of"}, kLeadingDims | kNoDerivative);

const EntryKind eig_entry(eig_op, {"eigenvalues", "eigenvectors"});
const EntryKind eigh_entry(eigh_op, {"eigenvalues", "eigenvectors"});
const EntryKind svd_entry(svd_op, {"U", "S", "Vh"});
const EntryKind pinv_entry("linalg_pinv", svd_op, {"self", "result"});
const EntryKind hermitian_pinv_entry("linalg_pinv_hermitian", &eigh_op, EntryKind::Role::Derivative,
                                     {"self", "result"}, "LinalgPinvBackward0");
const EntryKind matrix_exp_entry(matrix_exp_op, {"self"});

int64_t rows_of(const Tensor& a) { return a.size(a.dim() - 2); }
int64_t columns_of(const Tensor& a) { return a.size(a.dim() - 1); }

Tensor on_diagonal(const Tensor& like) {
  return eye(rows_of(like), columns_of(like), DType::Bool, like->device());
}
// x_j - x_i at (i, j), one on the diagonal.
Tensor differences(const Tensor& x) {
  Tensor differ = unsqueeze(x, -2) - unsqueeze(x, -1);
  return where(on_diagonal(differ), 1.0, differ);
}
Tensor without_diagonal(const Tensor& x) { return where(on_diagonal(x), 0.0, x); }
Tensor diagonal_of(const Tensor& x) { return diagonal(x, 0, -2, -1); }
Tensor skew(const Tensor& x) { return x - adjoint(x); }
// The diagonal of a skew matrix is imaginary: there is none where numbers are real.
Tensor off_diagonal_of_skew(const Tensor& x) {
  return is_complex(x.dtype()) ? without_diagonal(x) : x;
}

// Fails if a loss with these derivatives along the phases of vectors, which should cancel, depends on the phases.
void check_phases(const Tensor& a, const Tensor& b, PhaseCheck of) {
  Tensor outcome = empty_batch("linalg", a, batch_of(a, 1), {}, DType::Int32);
  dispatch(phase_check_op, {a, b}, {static_cast<int64_t>(of)}, {outcome});
}
void check_phases(const Tensor& a, PhaseCheck of) {
  check_phases(a, zeros(a.sizes(), a.dtype(), a->device()), of);
}
Tensor as_diagonal(const Tensor& x) {
  const int64_t n = x.size(x.dim() - 1);
  return where(eye(n, n, DType::Bool, x->device()), unsqueeze(x, -1), 0.0);
}

// Of vectors of length one.
struct EigBackward final : Entry<eig_entry> {
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor values = saved(0), v = saved(1), g_values = grads[0], g_v = grads[1];
    if (!g_values.defined() && !g_v.defined()) return;
    Tensor turned = adjoint(v), inner;
    if (g_v.defined()) {
      Tensor along = matmul(turned, g_v), own = diagonal_of(along);
      check_phases(imag(own), PhaseCheck::Eig);
      // What would change the lengths is taken out.
      Tensor scaled = v * unsqueeze(real(own), -2);
      inner = (along - matmul(turned, scaled)) / conj(differences(values));
      inner = g_values.defined() ? where(on_diagonal(inner), unsqueeze(g_values, -1), inner)
                                 : without_diagonal(inner);
      inner = matmul(inner, turned);
    } else {
      inner = unsqueeze(g_values, -1) * turned;
    }
    grad_inputs[0] = linalg_solve("linalg.eig", turned, inner, false).result;
  }
};

struct EighBackward final : Entry<eigh_entry> {
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    Tensor values = saved(0), v = saved(1), g_values = grads[0], g_v = grads[1];
    if (!g_values.defined() && !g_v.defined()) return;
    Tensor turned = adjoint(v);
    if (!g_v.defined()) {
      grad_inputs[0] = matmul(v * unsqueeze(g_values, -2), turned);
      return;
    }
    // Only its skew part moves the vectors along the orthogonal matrices.
    Tensor along = matmul(turned, g_v);
    if (is_complex(along.dtype())) check_phases(imag(diagonal_of(along)), PhaseCheck::Eigh);
    Tensor inner = 0.5 * skew(along) / differences(values);
    if (g_values.defined()) inner = where(on_diagonal(inner), unsqueeze(g_values, -1), inner);
    else inner = without_diagonal(inner);
    grad_inputs[0] = matmul(v, matmul(inner, turned));
  }
};

struct SvdBackward final : Entry<svd_entry> {
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (!grads[0].defined() && !grads[1].defined() && !grads[2].defined()) return;
    const Tensor s = saved(1);
    const int64_t k = s.size(s.dim() - 1);
    // Of complete bases the vectors beyond the rank have no gradient.
    Tensor u = narrow(saved(0), -1, 0, k), vh = narrow(saved(2), -2, 0, k);
    Tensor g_u = grads[0].defined() ? narrow(grads[0], -1, 0, k) : Tensor();
    Tensor g_vh = grads[2].defined() ? narrow(grads[2], -2, 0, k) : Tensor();
    const Tensor& g_s = grads[1];
    if (!g_u.defined() && !g_vh.defined()) {
      grad_inputs[0] = rows_of(u) >= columns_of(vh) ? matmul(u, unsqueeze(g_s, -1) * vh)
                                                    : matmul(u * unsqueeze(g_s, -2), vh);
      return;
    }
    grad_inputs[0] = through_vectors(u, s, vh, g_u, g_s, g_vh);
  }
  static Tensor through_vectors(const Tensor& u, const Tensor& s, const Tensor& vh,
                                const Tensor& g_u, const Tensor& g_s, const Tensor& g_vh) {
    const int64_t m = rows_of(u), n = columns_of(vh), k = s.size(s.dim() - 1);
    Tensor apart = differences(s * s), inner = zeros(apart.sizes(), s.dtype(), s->device());
    Tensor along_u, along_v;
    if (g_u.defined()) {
      along_u = skew(matmul(adjoint(u), g_u));
      inner = inner + off_diagonal_of_skew(along_u) / apart * unsqueeze(s, -2);
    }
    if (g_vh.defined()) {
      along_v = skew(matmul(vh, adjoint(g_vh)));
      inner = inner + unsqueeze(s, -1) * (off_diagonal_of_skew(along_v) / apart);
    }
    if (is_complex(u.dtype())) inner = inner + through_phases(s, along_u, along_v);
    if (g_s.defined()) inner = inner + as_diagonal(g_s);
    Tensor result = matmul(matmul(u, inner), vh);
    if (m > k && g_u.defined()) {
      Tensor scaled = g_u / unsqueeze(s, -2);
      result = result + matmul(scaled - matmul(u, matmul(adjoint(u), scaled)), vh);
    }
    if (n > k && g_vh.defined()) {
      Tensor scaled = g_vh / unsqueeze(s, -1);
      result = result + matmul(u, scaled - matmul(matmul(scaled, adjoint(vh)), vh));
    }
    return result;
  }
  // A pair of vectors may turn together; what turns one against the other is half with each.
  static Tensor through_phases(const Tensor& s, const Tensor& along_u, const Tensor& along_v) {
    Tensor of_u, of_v;
    if (along_u.defined()) of_u = diagonal_of(along_u);
    if (along_v.defined()) of_v = diagonal_of(along_v);
    if (!of_u.defined()) check_phases(0.5 * imag(of_v), PhaseCheck::Svd);
    else if (!of_v.defined()) check_phases(0.5 * imag(of_u), PhaseCheck::Svd);
    else check_phases(0.5 * imag(of_u), 0.5 * imag(of_v), PhaseCheck::Svd);
    Tensor against = !of_u.defined() ? -of_v : !of_v.defined() ? of_u : of_u - of_v;
    return as_diagonal(against / (4.0 * s));
  }
};

// For matrices whose rank does not change nearby.
struct PinvBackward final : VariantEntry {
  using VariantEntry::VariantEntry;
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (!grads[0].defined()) return;
    Tensor a = saved(0), p = saved(1), g = adjoint(grads[0]), turned = adjoint(p);
    Tensor outside_rows = g - matmul(a, matmul(p, g)),
           outside_columns = g - matmul(matmul(g, p), a);
    grad_inputs[0] = matmul(matmul(outside_rows, p), turned) +
                     matmul(turned, matmul(p, outside_columns)) -
                     matmul(matmul(turned, grads[0]), turned);
  }
};

// The derivative in a direction is the upper right part of the exponential of [[A, G], [0, A]]; the transposed one is
// that of the transpose.
struct MatrixExpBackward final : Entry<matrix_exp_entry> {
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Exact}; }
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (!grads[0].defined()) return;
    Tensor turned = matrix_transpose(saved(0));
    const int64_t n = rows_of(turned), d = turned.dim();
    Tensor nothing = zeros(turned.sizes(), turned.dtype(), turned->device());
    Tensor upper[] = {turned, grads[0]}, lower[] = {nothing, turned};
    Tensor halves[] = {cat(upper, d - 1), cat(lower, d - 1)};
    Tensor both = linalg_matrix_exp(cat(halves, d - 2));
    grad_inputs[0] = narrow(narrow(both, -2, 0, n), -1, n, n);
  }
};

}  // namespace

Eigen linalg_eig(const char* name, const Tensor& a, bool wants_vectors) {
  check_square(name, a);
  // The derivative of the values needs the vectors.
  const bool recording = should_record(a), vectors = wants_vectors || recording;
  const int64_t n = rows_of(a);
  const Sizes batch = batch_of(a, 2);
  const DType dtype = complex_dtype(a.dtype());
  Eigen result{empty_batch(name, a, batch, n, dtype),
               empty_columns(name, a, batch, vectors ? n : 0, vectors ? n : 0, dtype)};
  Tensor info = empty_batch(name, a, batch, {}, DType::Int32);
  dispatch(eig_op, {a}, {vectors, check_attribute(name, true)},
           {result.values, result.vectors, info});
  if (recording) {
    const Tensor outputs[] = {result.values, result.vectors};
    auto& node = record<EigBackward>({&a}, outputs, 2);
    node.save_output(0, result.values);
    node.save_output(1, result.vectors);
  }
  if (!wants_vectors) result.vectors = {};
  return result;
}

Eigen linalg_eigh(const char* name, const Tensor& a, bool upper, bool wants_vectors) {
  check_square(name, a);
  // The derivative of the values needs the vectors.
  const bool recording = should_record(a), vectors = wants_vectors || recording;
  const int64_t n = rows_of(a);
  const Sizes batch = batch_of(a, 2);
  Eigen result{empty_batch(name, a, batch, n, real_dtype(a.dtype())),
               empty_columns(name, a, batch, vectors ? n : 0, vectors ? n : 0)};
  Tensor info = empty_batch(name, a, batch, {}, DType::Int32);
  dispatch(eigh_op, {a}, {upper, vectors, check_attribute(name, true)},
           {result.values, result.vectors, info});
  if (recording) {
    const Tensor outputs[] = {result.values, result.vectors};
    auto& node = record<EighBackward>({&a}, outputs, 2);
    node.save_output(0, result.values);
    node.save_output(1, result.vectors);
  }
  if (!wants_vectors) result.vectors = {};
  return result;
}

SingularValues linalg_svd(const char* name, const Tensor& a, bool full_matrices,
                          bool wants_vectors) {
  check_matrices(name, a);
  const bool recording = should_record(a), vectors = wants_vectors || recording;
  const bool full = full_matrices && wants_vectors;
  const int64_t m = rows_of(a), n = columns_of(a), k = std::min(m, n);
  const Sizes batch = batch_of(a, 2);
  SingularValues result{empty_columns(name, a, batch, vectors ? m : 0,
                                      !vectors ? 0
                                      : full   ? m
                                               : k),
                        empty_batch(name, a, batch, k, real_dtype(a.dtype())),
                        empty_columns(name, a, batch,
                                      !vectors ? 0
                                      : full   ? n
                                               : k,
                                      vectors ? n : 0)};
  Tensor info = empty_batch(name, a, batch, {}, DType::Int32);
  dispatch(svd_op, {a}, {full, vectors, check_attribute(name, true)},
           {result.u, result.s, result.vh, info});
  if (recording) {
    const Tensor outputs[] = {result.u, result.s, result.vh};
    auto& node = record<SvdBackward>({&a}, outputs, 3);
    node.save_output(0, result.u);
    node.save_output(1, result.s);
    node.save_output(2, result.vh);
  }
  if (!wants_vectors) result.u = result.vh = {};
  return result;
}

namespace {

Tensor reciprocals_above(const Tensor& values, const Tensor& atol, const Tensor& rtol) {
  const Tensor sizes = tapegrad::abs(values);
  int64_t last = -1;
  Tensor largest = amax(sizes, {&last, 1}, true);
  Tensor limit = maximum(unsqueeze(atol, -1), unsqueeze(rtol, -1) * largest);
  return where(sizes > limit, 1.0 / values, 0.0);
}

Tensor pinv_of(const Tensor& a, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  if (hermitian) {
    Eigen parts = linalg_eigh("linalg.eigh", a, false, true);
    Tensor inverses = reciprocals_above(parts.values, atol, rtol);
    return matmul(parts.vectors * unsqueeze(inverses, -2), adjoint(parts.vectors));
  }
  SingularValues parts = linalg_svd("linalg.svd", a, false, true);
  Tensor inverses = reciprocals_above(parts.s, atol, rtol);
  return matmul(adjoint(parts.vh) * unsqueeze(inverses, -2), adjoint(parts.u));
}

}  // namespace

Tensor linalg_pinv(const Tensor& a, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  check_matrices("linalg.pinv", a, "input");
  if (hermitian) check_square("linalg.pinv", a);
  Tensor result;
  if (a.numel() == 0) {
    DimVector sizes(batch_of(a, 2));
    sizes.push_back(columns_of(a));
    sizes.push_back(rows_of(a));
    result = zeros(sizes, a.dtype(), a->device());
  } else {
    GradMode off(false);
    result = pinv_of(detach(a), detach(atol), detach(rtol), hermitian);
  }
  if (should_record(a)) {
    auto& node =
        record<PinvBackward>({&a}, result, 2, hermitian ? hermitian_pinv_entry : pinv_entry);
    node.save_input(0, a);
    node.save_output(1, result);
  }
  return result;
}

Tensor linalg_matrix_exp(const Tensor& a) {
  const char* name = "linalg.matrix_exp";
  check_square(name, a);
  Tensor result = empty_like(a);
  dispatch(matrix_exp_op, {a}, {}, {result});
  if (should_record(a)) record<MatrixExpBackward>({&a}, result, 1).save_input(0, a);
  return result;
}

}  // namespace tapegrad
