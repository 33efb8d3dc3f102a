// Matrix products.
#pragma once

#include "core/tensor.h"

namespace tapegrad {

Tensor mm(const Tensor& a, const Tensor& b);      // (m, k) (k, n)
Tensor bmm(const Tensor& a, const Tensor& b);     // (b, m, k) (b, k, n)
Tensor mv(const Tensor& a, const Tensor& x);      // (m, k) (k)
Tensor dot(const Tensor& a, const Tensor& b);     // (k) (k)
Tensor outer(const Tensor& a, const Tensor& b);   // (m) (n)
Tensor matmul(const Tensor& a, const Tensor& b);  // all of the above, with batch broadcasting
// beta * x + alpha * (a @ b)
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha);
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha);
Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& v, Scalar beta, Scalar alpha);
// x @ weight^T + bias; bias may be undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

}  // namespace tapegrad
