// Matrix products in Python.
#include "ops/matmul.h"

#include "graph/autocast.h"
#include "ops/complex.h"
#include "ops/copy.h"
#include "python/factor.h"
#include "python/function_ops.h"
#include "python/out.h"

namespace tapegrad::python {

namespace {

using Out = std::optional<Tensor>;

// input and other, function and method, with out=. The outer product multiplies and does not add: it
// promotes as mul does.
template <Tensor (*kProduct)(const Tensor&, const Tensor&), bool kPromotes = false>
void bind_product(Binder& b, const char* name, const char* second, const char* doc) {
  b.both(name, [name](const Tensor& input, const Tensor& other, const Out& out) {
    const WithoutAutocast lifted(out.has_value());
    return (kPromotes ? into_castable_out(name, kProduct(input, other), out)
                      : into_out(name, kProduct(input, other), out));
  }, nb::arg(second), nb::kw_only(), "out"_a.none() = nb::none(), doc);
}

template <Tensor (*kProduct)(const Tensor&, const Tensor&, const Tensor&, Scalar, Scalar)>
void bind_added(Binder& b, const char* name, const char* first, const char* second,
                const char* doc) {
  b.both(name,
         [name](Tensor input, Tensor x, const Tensor& y, const Factor& beta, const Factor& alpha,
                const Out& out) {
    const WithoutAutocast lifted(out.has_value());
    const Scalar of_input = beta.apply(name, input), of_product = alpha.apply(name, x);
    return into_out(name, kProduct(input, x, y, of_input, of_product), out);
  },
         nb::arg(first), nb::arg(second), nb::kw_only(), "beta"_a = Factor(), "alpha"_a = Factor(),
         "out"_a.none() = nb::none(), doc);
  b.method((std::string(name) + "_").c_str(),
           [name](Tensor self, Tensor x, const Tensor& y, const Factor& beta, const Factor& alpha) {
    const WithoutAutocast lifted;
    Tensor input = self;
    const Scalar of_input = beta.apply(name, input), of_product = alpha.apply(name, x);
    copy_(self, kProduct(input, x, y, of_input, of_product));
    return self;
  }, nb::arg(first), nb::arg(second), nb::kw_only(), "beta"_a = Factor(), "alpha"_a = Factor(),
           "The same in place.");
}

Tensor conjugate_dot(const Tensor& a, const Tensor& b) { return dot(conj(a), b); }

}  // namespace

void bind_matmul(Binder& b) {
  bind_product<mm>(b, "mm", "mat2",
                   "The product of two matrices.\n\nExample:\n"
                   "    >>> torch.mm(torch.eye(2), torch.ones(2, 3)).shape\n"
                   "    torch.Size([2, 3])\n");
  bind_product<bmm>(b, "bmm", "mat2", "The products of two batches of matrices.");
  bind_product<mv>(b, "mv", "vec", "The product of a matrix and a vector.");
  bind_product<dot>(b, "dot", "tensor", "The inner product of two vectors.");
  bind_product<conjugate_dot>(
      b, "vdot", "other", "The inner product of two vectors, of which the first is conjugated.");
  bind_product<outer, true>(b, "outer", "vec2", "The outer product of two vectors.");
  bind_product<outer, true>(b, "ger", "vec2", "The outer product of two vectors.");
  runs("vdot", {"matmul"});
  runs("outer", {"mul"});
  runs("ger", {"mul"});
  bind_product<matmul>(b, "matmul", "other",
                       "The matrix product of the last two dimensions, other dimensions broadcast; "
                       "vectors are treated as rows or columns.");
  bind_added<addmm>(b, "addmm", "mat1", "mat2", "beta * input + alpha * (mat1 @ mat2).");
  bind_added<baddbmm>(b, "baddbmm", "batch1", "batch2",
                      "beta * input + alpha * (batch1 @ batch2), for batches.");
  bind_added<addmv>(b, "addmv", "mat", "vec", "beta * input + alpha * (mat @ vec).");
  b.function("linear", [](const Tensor& input, const Tensor& weight, const Out& bias) {
    return linear(input, weight, bias.value_or(Tensor()));
  }, "input"_a, "weight"_a, "bias"_a.none() = nb::none(), "input @ weight.T + bias.");
  runs("linear", {"matmul"});
}

}  // namespace tapegrad::python
