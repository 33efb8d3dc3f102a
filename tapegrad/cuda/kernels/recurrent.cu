// One step of a recurrent layer, after the product of the hidden state and the weights. A thread has one unit of
// one sequence. csrc/cpu/recurrent.cpp tells what is remembered, and where.

struct CellArguments {
  int64 count, n;  // sequences that run, units
  // Rows of this step: gates from the input, gates from the hidden state, what is remembered, results.
  const void *x, *hidden_gates, *bias;
  void *memory, *out;
  void *h, *c;  // the state, a row per sequence
};

struct CellBackwardArguments {
  int64 count, n;
  const void *grad, *memory, *out;  // rows of this step
  // The step before: how many of the sequences ran, their results and what they remember; then the state at the start.
  int64 count_before;
  const void *out_before, *memory_before, *h_start, *c_start;
  void *grad_x, *grad_hidden_gates;  // of a GRU the two differ
  void *h_before;                    // written: the hidden state before the step
  void *grad_h, *grad_c;             // of the state, a row per sequence
};

// Where a thread is: unit `k` of sequence `row`.
struct Unit {
  int64 row, k;
  bool exists;

  __device__ Unit(int64 count, int64 n) {
    const int64 thread = int64(blockIdx.x) * blockDim.x + threadIdx.x;
    row = thread / n;
    k = thread % n;
    exists = row < count;
  }
};

template <class T>
__device__ const T* row_of(const void* data, int64 row, int64 width) {
  return static_cast<const T*>(data) + row * width;
}
template <class T>
__device__ T* row_of(void* data, int64 row, int64 width) {
  return static_cast<T*>(data) + row * width;
}

template <class T>
__device__ void store_state(const CellArguments& a, const Unit& u, T value) {
  row_of<T>(a.h, u.row, a.n)[u.k] = value;
  row_of<T>(a.out, u.row, a.n)[u.k] = value;
}

template <class T>
__device__ void lstm_cell(const CellArguments& a) {
  const Unit u(a.count, a.n);
  if (!u.exists) return;
  const int64 n = a.n, k = u.k;
  const T *x = row_of<T>(a.x, u.row, 4 * n), *hg = row_of<T>(a.hidden_gates, u.row, 4 * n);
  T *memory = row_of<T>(a.memory, u.row, 5 * n), *c = row_of<T>(a.c, u.row, n);
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
  store_state(a, u, o * math::tanh(next));
}

template <class T>
__device__ void gru_cell(const CellArguments& a) {
  const Unit u(a.count, a.n);
  if (!u.exists) return;
  const int64 n = a.n, k = u.k;
  const T *x = row_of<T>(a.x, u.row, 3 * n), *hg = row_of<T>(a.hidden_gates, u.row, 3 * n);
  const T* bias = static_cast<const T*>(a.bias);
  T* memory = row_of<T>(a.memory, u.row, 4 * n);
  const T br = bias ? bias[k] : T(0), bz = bias ? bias[n + k] : T(0);
  const T bn = bias ? bias[2 * n + k] : T(0);
  const T r = math::sigmoid(x[k] + (hg[k] + br)), z = math::sigmoid(x[n + k] + (hg[n + k] + bz));
  const T inner = hg[2 * n + k] + bn;
  const T fresh = math::tanh(x[2 * n + k] + r * inner);
  memory[k] = r;
  memory[n + k] = z;
  memory[2 * n + k] = fresh;
  memory[3 * n + k] = inner;
  store_state(a, u, (row_of<T>(a.h, u.row, n)[k] - fresh) * z + fresh);
}

template <class T>
__device__ void tanh_cell(const CellArguments& a) {
  const Unit u(a.count, a.n);
  if (!u.exists) return;
  const T sum = row_of<T>(a.x, u.row, a.n)[u.k] + row_of<T>(a.hidden_gates, u.row, a.n)[u.k];
  store_state(a, u, math::tanh(sum));
}

template <class T>
__device__ void relu_cell(const CellArguments& a) {
  const Unit u(a.count, a.n);
  if (!u.exists) return;
  const T sum = row_of<T>(a.x, u.row, a.n)[u.k] + row_of<T>(a.hidden_gates, u.row, a.n)[u.k];
  store_state(a, u, sum < 0 ? T(0) : sum);
}

// The gradient that reaches the state, and what the state was; noted for the gradient of the weights.
template <class T>
struct StateBefore {
  T grad, h;

  __device__ StateBefore(const CellBackwardArguments& a, const Unit& u) {
    grad = row_of<T>(a.grad_h, u.row, a.n)[u.k] + row_of<T>(a.grad, u.row, a.n)[u.k];
    h = row_of<T>(u.row < a.count_before ? a.out_before : a.h_start, u.row, a.n)[u.k];
    row_of<T>(a.h_before, u.row, a.n)[u.k] = h;
  }
};

template <class T>
__device__ void lstm_cell_backward(const CellBackwardArguments& a) {
  const Unit u(a.count, a.n);
  if (!u.exists) return;
  const int64 n = a.n, k = u.k;
  const T gh = StateBefore<T>(a, u).grad;
  const T* memory = row_of<T>(a.memory, u.row, 5 * n);
  const T c = u.row < a.count_before ? row_of<T>(a.memory_before, u.row, 5 * n)[4 * n + k]
                                     : row_of<T>(a.c_start, u.row, n)[k];
  T *grad_x = row_of<T>(a.grad_x, u.row, 4 * n), *grad_c = row_of<T>(a.grad_c, u.row, n);
  const T i = memory[k], f = memory[n + k], g = memory[2 * n + k], o = memory[3 * n + k];
  const T level = math::tanh(memory[4 * n + k]);
  const T gc = grad_c[k] + gh * o * (1 - level * level);
  grad_x[k] = gc * g * i * (1 - i);
  grad_x[n + k] = gc * c * f * (1 - f);
  grad_x[2 * n + k] = gc * i * (1 - g * g);
  grad_x[3 * n + k] = gh * level * o * (1 - o);
  grad_c[k] = gc * f;
}

template <class T>
__device__ void gru_cell_backward(const CellBackwardArguments& a) {
  const Unit u(a.count, a.n);
  if (!u.exists) return;
  const int64 n = a.n, k = u.k;
  const StateBefore<T> before(a, u);
  const T* memory = row_of<T>(a.memory, u.row, 4 * n);
  T* grad_x = row_of<T>(a.grad_x, u.row, 3 * n);
  T* grad_hg = row_of<T>(a.grad_hidden_gates, u.row, 3 * n);
  const T r = memory[k], z = memory[n + k], fresh = memory[2 * n + k], inner = memory[3 * n + k];
  const T gn = before.grad * (1 - z) * (1 - fresh * fresh);
  const T gz = before.grad * (before.h - fresh) * z * (1 - z), gr = gn * inner * r * (1 - r);
  grad_x[k] = grad_hg[k] = gr;
  grad_x[n + k] = grad_hg[n + k] = gz;
  grad_x[2 * n + k] = gn;
  grad_hg[2 * n + k] = gn * r;
  // What goes straight to the state before; the product adds what goes through the weights.
  row_of<T>(a.grad_h, u.row, n)[k] = before.grad * z;
}

template <class T>
__device__ void tanh_cell_backward(const CellBackwardArguments& a) {
  const Unit u(a.count, a.n);
  if (!u.exists) return;
  const T out = row_of<T>(a.out, u.row, a.n)[u.k];
  row_of<T>(a.grad_x, u.row, a.n)[u.k] = StateBefore<T>(a, u).grad * (1 - out * out);
}

template <class T>
__device__ void relu_cell_backward(const CellBackwardArguments& a) {
  const Unit u(a.count, a.n);
  if (!u.exists) return;
  const T grad = StateBefore<T>(a, u).grad;
  row_of<T>(a.grad_x, u.row, a.n)[u.k] = row_of<T>(a.out, u.row, a.n)[u.k] <= 0 ? T(0) : grad;
}

// ---- the sum of rows

struct ColumnSumArguments {
  int64 rows, columns;
  const void* x;
  void* y;
};

constexpr int kSumColumns = 32, kSumRows = 8;  // threads of a block

template <class T>
__device__ void column_sum(const ColumnSumArguments& a) {
  __shared__ T parts[kSumRows][kSumColumns];
  const int column = threadIdx.x % kSumColumns, part = threadIdx.x / kSumColumns;
  const int64 own = int64(blockIdx.x) * kSumColumns + column;
  T sum = 0;
  if (own < a.columns)
    for (int64 row = part; row < a.rows; row += kSumRows) sum += row_of<T>(a.x, row, a.columns)[own];
  parts[part][column] = sum;
  __syncthreads();
  for (int half = kSumRows / 2; half > 0; half /= 2) {
    if (part < half) parts[part][column] += parts[part + half][column];
    __syncthreads();
  }
  if (part == 0 && own < a.columns) static_cast<T*>(a.y)[own] = parts[0][column];
}
