// What complex numbers have that real ones have not.
//
// Note [Gradients of complex functions]
// As in PyTorch, the gradient of a real loss L with respect to z = x + iy is dL/dx + i dL/dy: the direction of
// steepest ascent. In this convention what a derivative computes is the adjoint of the differential under the
// inner product Re(conj(a) b). Three things follow.
// - Of a holomorphic function the gradient is g * conj(f'(z)). If D(g, z) = g * f'(z) is what the derivative of the
//   real function computes, from the table or in C++, then g * conj(f'(z)) is conj(D(conj(g), z)): no rule is
//   written twice. Lines of the table do so in their kernels and in PointwiseNode, and entries of ops with the
//   trait kHolomorphic in run_vjp(). Where D has real coefficients, as in sums, views and copies, the two
//   conjugations cancel, and such ops have the trait kComplex alone.
// - A real operand of a complex op gets the real part of that, which the cast at its edge takes (validated() in
//   engine/sweep.cpp), and a complex operand of an op with a real result, such as abs, has a derivative of its own here.
// - Forward mode, which transposes derivatives (graph/forward.h), transposes them under the same inner product,
//   so it needs no rule for complex numbers.
#pragma once

#include "core/tensor.h"
#include "graph/node.h"

namespace tapegrad {

// Runs an entry's derivative: node.vjp() for whoever runs entries.
void run_complex_vjp(Node& node, Gradients grads, Gradients grad_inputs);
inline void run_vjp(Node& node, Gradients grads, Gradients grad_inputs) {
  if (limited_tensors_exist()) [[unlikely]]
    return run_complex_vjp(node, grads, grad_inputs);
  node.vjp(grads, grad_inputs);
}

// The complex conjugate, computed at once; x itself if it is real.
Tensor conj(const Tensor& x);
// Views of the parts: x itself is the real part of a real x, which has no imaginary one.
Tensor real(const Tensor& x);
Tensor imag(const Tensor& x);
// Of complex x: magnitude, angle, and the number of that angle on the unit circle, zero for zero.
Tensor complex_abs(const Tensor& x);
Tensor complex_angle(const Tensor& x);
Tensor complex_sgn(const Tensor& x);

// The memory of a complex tensor as that of a real one with a last dimension of two, for kernels that treat the
// parts alike: no view, no history. x itself if it is real.
Tensor real_alias(const Tensor& x);
// The way back. A kernel that writes real_alias(empty(...)) is given the only handle of that memory, as vmap wants it.
Tensor complex_alias(const Tensor& parts);

}  // namespace tapegrad
