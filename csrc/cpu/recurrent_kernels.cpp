// Compiled once per instruction set.
#include "cpu/math.h"
#include "cpu/recurrent.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

// Remembers i, f, g, o and the new c.
template <class T>
void lstm(int64_t n, const T* __restrict x, const T* __restrict hg, T* __restrict memory,
          T* __restrict c, T* __restrict h) {
  for (int64_t k = 0; k < n; ++k) {
    const T i = math::sigmoid(x[k] + hg[k]), f = math::sigmoid(x[n + k] + hg[n + k]);
    const T g = math::tanh(x[2 * n + k] + hg[2 * n + k]);
    const T o = math::sigmoid(x[3 * n + k] + hg[3 * n + k]);
    const T next = f * c[k] + i * g;
    memory[k] = i;
    memory[n + k] = f;
    memory[2 * n + k] = g;
    memory[3 * n + k] = o;
    memory[4 * n + k] = next;
    c[k] = next;
    h[k] = o * math::tanh(next);
  }
}

template <class T>
void lstm_backward(int64_t n, const T* __restrict memory, const T* __restrict c,
                   const T* __restrict grad_h, T* __restrict grad_c, T* __restrict grad_x) {
  for (int64_t k = 0; k < n; ++k) {
    const T i = memory[k], f = memory[n + k], g = memory[2 * n + k], o = memory[3 * n + k];
    const T level = math::tanh(memory[4 * n + k]);
    const T gc = grad_c[k] + grad_h[k] * o * (1 - level * level);
    grad_x[k] = gc * g * i * (1 - i);
    grad_x[n + k] = gc * c[k] * f * (1 - f);
    grad_x[2 * n + k] = gc * i * (1 - g * g);
    grad_x[3 * n + k] = grad_h[k] * level * o * (1 - o);
    grad_c[k] = gc * f;
  }
}

// Remembers r, z, n and what r multiplies.
template <class T, bool kBias>
void gru_row(int64_t n, const T* __restrict x, const T* __restrict hg, const T* __restrict bias,
             T* __restrict memory, T* __restrict h) {
  for (int64_t k = 0; k < n; ++k) {
    const T br = kBias ? bias[k] : T(0), bz = kBias ? bias[n + k] : T(0),
            bn = kBias ? bias[2 * n + k] : T(0);
    const T r = math::sigmoid(x[k] + (hg[k] + br)), z = math::sigmoid(x[n + k] + (hg[n + k] + bz));
    const T inner = hg[2 * n + k] + bn;
    const T fresh = math::tanh(x[2 * n + k] + r * inner);
    memory[k] = r;
    memory[n + k] = z;
    memory[2 * n + k] = fresh;
    memory[3 * n + k] = inner;
    h[k] = (h[k] - fresh) * z + fresh;
  }
}

template <class T>
void gru(int64_t n, const T* __restrict x, const T* __restrict hg, const T* __restrict bias,
         T* __restrict memory, T* __restrict h) {
  if (bias) gru_row<T, true>(n, x, hg, bias, memory, h);
  else gru_row<T, false>(n, x, hg, bias, memory, h);
}

template <class T>
void gru_backward(int64_t n, const T* __restrict memory, const T* __restrict h,
                  T* __restrict grad_h, T* __restrict grad_x, T* __restrict grad_hg) {
  for (int64_t k = 0; k < n; ++k) {
    const T r = memory[k], z = memory[n + k], fresh = memory[2 * n + k], inner = memory[3 * n + k];
    const T gn = grad_h[k] * (1 - z) * (1 - fresh * fresh);
    const T gz = grad_h[k] * (h[k] - fresh) * z * (1 - z), gr = gn * inner * r * (1 - r);
    grad_x[k] = grad_hg[k] = gr;
    grad_x[n + k] = grad_hg[n + k] = gz;
    grad_x[2 * n + k] = gn;
    grad_hg[2 * n + k] = gn * r;
    grad_h[k] *= z;
  }
}

template <class T>
void tanh(int64_t n, const T* __restrict x, const T* __restrict hg, T* __restrict h) {
  for (int64_t k = 0; k < n; ++k) h[k] = math::tanh(x[k] + hg[k]);
}

template <class T>
void relu(int64_t n, const T* __restrict x, const T* __restrict hg, T* __restrict h) {
  for (int64_t k = 0; k < n; ++k) {
    const T value = x[k] + hg[k];
    h[k] = value < T(0) ? T(0) : value;
  }
}

template <class T>
void tanh_backward(int64_t n, const T* __restrict out, const T* __restrict grad_h,
                   T* __restrict grad_x) {
  for (int64_t k = 0; k < n; ++k) grad_x[k] = grad_h[k] * (1 - out[k] * out[k]);
}

template <class T>
void relu_backward(int64_t n, const T* __restrict out, const T* __restrict grad_h,
                   T* __restrict grad_x) {
  for (int64_t k = 0; k < n; ++k) grad_x[k] = out[k] <= T(0) ? T(0) : grad_h[k];
}

template <class T>
void add(int64_t n, const T* __restrict x, T* __restrict sum) {
  for (int64_t k = 0; k < n; ++k) sum[k] += x[k];
}

template <class T>
constexpr RecurrentKernels<T> kernels_of() {
  return {lstm<T>,         gru<T>,           tanh<T>,          relu<T>, lstm_backward<T>,
          gru_backward<T>, tanh_backward<T>, relu_backward<T>, add<T>};
}

}  // namespace

extern const RecurrentTable recurrent_table;
constinit const RecurrentTable recurrent_table = {kernels_of<float>(), kernels_of<double>()};

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
