// Linear algebra: factorizations, systems of equations, spectra. Leading dimensions are a batch.
//
// `name` is the public function, for messages. With `check` a factorization that fails raises LinAlgError, which
// names the matrix; without, the outcomes tell.
//
// Results that LAPACK writes have contiguous columns, as in PyTorch.
#pragma once

#include <optional>
#include <utility>

#include "core/tensor.h"
#include "spec/linalg.h"

namespace tapegrad {

// ---- ops/linalg_factor.cpp

struct Factored {
  Tensor factors, info;
};
Factored linalg_cholesky(const char* name, const Tensor& a, bool upper, bool check);

struct LuFactors {
  Tensor factors, pivots, info;
};
LuFactors linalg_lu_factor(const char* name, const Tensor& a, bool check);
// The rows of A in the order of those of L U, or with `inverse` the places where they went.
Tensor lu_permutation(const Tensor& pivots, int64_t rows, bool inverse);

struct QrFactors {
  Tensor q, r;
};
QrFactors linalg_qr(const char* name, const Tensor& a, QrMode mode);
// R and reflectors in one matrix, and their scales.
std::pair<Tensor, Tensor> geqrf(const Tensor& a);
// Not recorded: tapegrad/linalg/_householder.py multiplies reflectors where a derivative is wanted.
Tensor linalg_householder_product(const Tensor& a, const Tensor& tau);
Tensor ormqr(const Tensor& a, const Tensor& tau, const Tensor& other, bool left, bool transposed);

// Complex matrices are symmetric, or with `hermitian` their own adjoints.
LuFactors linalg_ldl_factor(const char* name, const Tensor& a, bool hermitian, bool check);
Tensor linalg_ldl_solve(const Tensor& factors, const Tensor& pivots, const Tensor& b,
                        bool hermitian);

// ---- ops/linalg_solve.cpp

struct Solved {
  Tensor result, factors, pivots, info;
};
// Batch dimensions broadcast.
Solved linalg_solve(const char* name, const Tensor& a, const Tensor& b, bool check);
Factored linalg_inv(const char* name, const Tensor& a, bool check);
Tensor linalg_det(const Tensor& a);
struct LogDeterminant {
  Tensor sign, logabsdet;
};
LogDeterminant linalg_slogdet(const Tensor& a);
Tensor linalg_solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left,
                               bool unitriangular);
// Not recorded: see tapegrad/linalg.
Tensor linalg_lu_solve(const Tensor& factors, const Tensor& pivots, const Tensor& b,
                       bool transposed);
struct LeastSquaresResult {
  Tensor solution, rank, singular_values;  // the rest stands below the solution
};
LeastSquaresResult linalg_lstsq(const Tensor& a, const Tensor& b, LeastSquares driver, double rcond,
                                bool check);

// ---- ops/linalg_spectrum.cpp

struct Eigen {
  Tensor values, vectors;  // without vectors: undefined
};
Eigen linalg_eig(const char* name, const Tensor& a, bool vectors);
Eigen linalg_eigh(const char* name, const Tensor& a, bool upper, bool vectors);
struct SingularValues {
  Tensor u, s, vh;  // u and vh are undefined if not asked for
};
SingularValues linalg_svd(const char* name, const Tensor& a, bool full_matrices, bool vectors);
// Singular values, or absolute eigenvalues, up to the larger tolerance count as zero.
Tensor linalg_pinv(const Tensor& a, const Tensor& atol, const Tensor& rtol, bool hermitian);
Tensor linalg_matrix_exp(const Tensor& a);

// ---- what these files share: ops/linalg_checks.cpp

void check_matrices(const char* name, const Tensor& a, const char* argument = "A");
void check_square(const char* name, const Tensor& a);
void check_linalg_dtype(const char* name, const Tensor& a);
// The dimensions before the last `own` ones.
Sizes batch_of(const Tensor& x, int64_t own);
// An uninitialised result whose columns are contiguous.
Tensor empty_columns(const char* name, const Tensor& like, Sizes batch, int64_t rows,
                     int64_t columns, std::optional<DType> dtype = {});
Tensor empty_batch(const char* name, const Tensor& like, Sizes batch, std::optional<int64_t> length,
                   DType dtype);
Tensor expand_batch(const Tensor& x, Sizes batch, int64_t own = 2);
// The conjugate of the transpose.
Tensor adjoint(const Tensor& x);
// Rows in another order.
Tensor take_rows(const Tensor& x, const Tensor& order);
int64_t check_attribute(const char* name, bool check);

}  // namespace tapegrad
