// What the ops of linear algebra and their kernels agree on.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tapegrad {

// The public functions that may raise LinAlgError. A call's attribute "check" is the place of the one that asked
// for it, 0 where nobody did: the outcome is then an output only.
inline constexpr std::array<const char*, 21> kLinalgCallers = {
    "",
    "linalg.cholesky",
    "linalg.cholesky_ex",
    "cholesky",
    "torch.linalg.lu_factor",
    "torch.linalg.lu_factor_ex",
    "torch.lu",
    "linalg.inv",
    "linalg.inv_ex",
    "torch.linalg.solve",
    "torch.linalg.solve_ex",
    "linalg.eigh",
    "linalg.eigvalsh",
    "linalg.svd",
    "linalg.svdvals",
    "torch.linalg.lstsq",
    "torch.linalg.ldl_factor",
    "torch.linalg.ldl_factor_ex",
    "linalg.pinv",
    "linalg.eig",
    "linalg.eigvals",
};

constexpr int64_t linalg_caller(std::string_view name) {
  for (size_t i = 0; i < kLinalgCallers.size(); ++i)
    if (kLinalgCallers[i] == name) return static_cast<int64_t>(i);
  return 0;
}

enum class QrMode : int64_t { Reduced, Complete, R };
// Whose derivative asks whether a loss depends on phases.
enum class PhaseCheck : int64_t { Eig, Eigh, Svd };
// LAPACK's routines for least squares.
enum class LeastSquares : int64_t { gels, gelsy, gelsd, gelss };

}  // namespace tapegrad
