// Linear algebra in Python: the native part of tapegrad.linalg, which checks arguments and names results.
#include "ops/linalg.h"

#include "core/error.h"
#include "graph/record.h"
#include "python/function_ops.h"
#include "python/out.h"

namespace tapegrad::python {

namespace {

using Name = const std::string&;

QrMode qr_mode(const std::string& mode) {
  if (mode == "reduced") return QrMode::Reduced;
  if (mode == "complete") return QrMode::Complete;
  TAPEGRAD_CHECK(mode == "r", "qr received unrecognized mode '", mode,
                 "' but expected one of 'reduced' (default), 'r', or 'complete'");
  return QrMode::R;
}

LeastSquares driver_of(const std::string& driver) {
  const char* names[] = {"gels", "gelsy", "gelsd", "gelss"};
  for (int i = 0; i < 4; ++i)
    if (driver == names[i]) return static_cast<LeastSquares>(i);
  fail("torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
}

void bind_factorizations(Binder& b) {
  b.function("_linalg_cholesky", [](Name name, const Tensor& a, bool upper, bool check) {
    Factored result = linalg_cholesky(name.c_str(), a, upper, check);
    return std::pair(result.factors, result.info);
  });
  b.function("_linalg_lu_factor", [](Name name, const Tensor& a, bool check) {
    LuFactors result = linalg_lu_factor(name.c_str(), a, check);
    return std::tuple(result.factors, result.pivots, result.info);
  });
  b.function("_lu_permutation", lu_permutation);
  b.function("_linalg_qr", [](Name name, const Tensor& a, Name mode) {
    QrFactors result = linalg_qr(name.c_str(), a, qr_mode(mode));
    return std::pair(result.q, result.r);
  });
  b.function("_geqrf", geqrf);
  b.function("_linalg_householder_product", linalg_householder_product);
  b.function("_ormqr", ormqr);
  b.function("_linalg_ldl_factor", [](Name name, const Tensor& a, bool hermitian, bool check) {
    LuFactors result = linalg_ldl_factor(name.c_str(), a, hermitian, check);
    return std::tuple(result.factors, result.pivots, result.info);
  });
  b.function("_linalg_ldl_solve", linalg_ldl_solve);
}

void bind_solutions(Binder& b) {
  b.function("_linalg_solve", [](Name name, const Tensor& a, const Tensor& right, bool check) {
    Solved result = linalg_solve(name.c_str(), a, right, check);
    return std::pair(result.result, result.info);
  });
  b.function("_linalg_inv", [](Name name, const Tensor& a, bool check) {
    Factored result = linalg_inv(name.c_str(), a, check);
    return std::pair(result.factors, result.info);
  });
  b.function("_linalg_det", linalg_det);
  b.function("_linalg_slogdet", [](const Tensor& a) {
    LogDeterminant result = linalg_slogdet(a);
    return std::pair(result.sign, result.logabsdet);
  });
  b.function("_linalg_solve_triangular", linalg_solve_triangular);
  b.function("_linalg_lu_solve", linalg_lu_solve);
  b.function("_linalg_lstsq",
             [](const Tensor& a, const Tensor& right, Name driver, double rcond, bool check) {
    LeastSquaresResult result = linalg_lstsq(a, right, driver_of(driver), rcond, check);
    return std::tuple(result.solution, result.rank, result.singular_values);
  });
}

void bind_spectra(Binder& b) {
  b.function("_linalg_eig", [](Name name, const Tensor& a, bool vectors) {
    Eigen result = linalg_eig(name.c_str(), a, vectors);
    return std::pair(result.values, result.vectors);
  });
  b.function("_linalg_eigh", [](Name name, const Tensor& a, bool upper, bool vectors) {
    Eigen result = linalg_eigh(name.c_str(), a, upper, vectors);
    return std::pair(result.values, result.vectors);
  });
  b.function("_linalg_svd", [](Name name, const Tensor& a, bool full_matrices, bool vectors) {
    SingularValues result = linalg_svd(name.c_str(), a, full_matrices, vectors);
    return std::tuple(result.u, result.s, result.vh);
  });
  b.function("_linalg_pinv", linalg_pinv);
  b.function("_linalg_matrix_exp", linalg_matrix_exp);
}

}  // namespace

void bind_linalg(Binder& b) {
  bind_factorizations(b);
  bind_solutions(b);
  bind_spectra(b);
  // Whether a derivative by the tensor is wanted, in either mode.
  b.function("_is_recorded", [](const Tensor& x) { return should_record(x); });
  b.function("_into_out", [](Name name, const Tensor& result, const Tensor& out) {
    return into_out(name.c_str(), result, out);
  });
}

}  // namespace tapegrad::python
