// A whole layer at once. The product with the input is done for all steps before (x_gates); what is
// left is the recurrence. Sequences do not see each other, so each thread takes some of them and
// runs through all steps on its own, without waiting for the others.
//
// Steps are rows [offset, offset + count) of the packed layout; with padding, every count is the same.
// The state has a row per sequence. Where a step has fewer sequences than the state, the last rows
// rest: forward in time these have ended, backward they have not begun.
#include "cpu/recurrent.h"

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/conv_kernels.h"
#include "cpu/gemm.h"
#include "cpu/workspace.h"
#include "spec/recurrent.h"

namespace tapegrad::cpu {

namespace {

constexpr double kWorkGrain = 64 * 1024;  // multiply-adds of a step that make a second thread pay

template <class T>
const RecurrentKernels<T>& kernels() {
  if constexpr (sizeof(T) == 4) return best_recurrent_table().float32;
  else return best_recurrent_table().float64;
}

// Which sequences run at each step, and where their rows lie.
struct Schedule {
  explicit Schedule(const OpCall& call)
      : cell(static_cast<Cell>(call.integer(0))), reverse(call.integer(1) != 0) {
    int64_t offset = 0;
    for (size_t t = 2; t < call.attributes.size(); ++t) {
      counts.push_back(call.integer(t));
      offsets.push_back(offset);
      offset += counts.back();
    }
    if (reverse) {
      std::reverse(counts.begin(), counts.end());
      std::reverse(offsets.begin(), offsets.end());
    }
  }

  // Sequences [begin, end) of the thread that are running at a step.
  int64_t running(size_t step, int64_t begin, int64_t end) const {
    return std::clamp<int64_t>(counts[step] - begin, 0, end - begin);
  }
  size_t steps() const { return counts.size(); }

  Cell cell;
  bool reverse;
  std::vector<int64_t> counts, offsets;  // in the order in which time runs
};

// body(begin, end, worker) over the sequences.
template <class Body>
void share_sequences(int64_t sequences, double work_of_one, Body&& body) {
  const int64_t useful = static_cast<int64_t>(
      std::min(1e6, work_of_one * static_cast<double>(sequences) / kWorkGrain));
  const int64_t most = std::max<int64_t>(1, std::min<int64_t>(num_threads(), sequences));
  const int64_t workers = std::clamp<int64_t>(useful, 1, most);
  parallel_for(0, workers, 1, [&](int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k)
      body(sequences * k / workers, sequences * (k + 1) / workers);
  });
}

template <class T>
struct Forward {
  const Schedule& schedule;
  int64_t n, gates, memory_size;
  const T *x, *weight, *bias;  // the weight transposed
  T *out, *memory, *h, *c, *hg;

  void step(size_t t, int64_t begin, int64_t count) const {
    const int64_t row = schedule.offsets[t] + begin, wide = gates * n;
    T *state = h + begin * n, *sums = hg + begin * wide;
    gemm<T>(false, false, count, wide, n, T(1), state, n, weight, wide, T(0), sums, wide);
    for (int64_t k = 0; k < count; ++k) {
      const T *xk = x + (row + k) * wide, *hk = sums + k * wide;
      T *own = state + k * n, *kept = memory + (row + k) * memory_size * n;
      switch (schedule.cell) {
        case Cell::Lstm:
          kernels<T>().lstm(n, xk, hk, kept, c + (begin + k) * n, own);
          break;
        case Cell::Gru:
          kernels<T>().gru(n, xk, hk, bias, kept, own);
          break;
        case Cell::Tanh:
          kernels<T>().tanh(n, xk, hk, own);
          break;
        case Cell::Relu:
          kernels<T>().relu(n, xk, hk, own);
          break;
      }
      std::copy_n(own, n, out + (row + k) * n);
    }
  }
};

template <class T>
void forward(const OpCall& call) {
  const Schedule schedule(call);
  const bool lstm = schedule.cell == Cell::Lstm;
  const bool has_bias = schedule.cell == Cell::Gru && call.inputs.size() > 3;
  const int64_t sequences = call.in(2).size(0), n = call.in(2).size(1);
  const int64_t gates = gates_of(schedule.cell);
  Workspace<T> weight(gates * n * n), hg(sequences * gates * n);
  BlockingSection blocking;
  conv_kernels<T>().transpose(call.in(1).data_as<T>(), n, gates * n, n, weight.get(), gates * n);
  const Forward<T> pass{schedule,
                        n,
                        gates,
                        memory_of(schedule.cell),
                        call.in(0).data_as<T>(),
                        weight.get(),
                        has_bias ? call.in(3).data_as<T>() : nullptr,
                        call.out(0).data_as<T>(),
                        call.out(1).data_as<T>(),
                        call.out(2).data_as<T>(),
                        lstm ? call.out(3).data_as<T>() : nullptr,
                        hg.get()};
  std::copy_n(call.in(2).data_as<T>(), sequences * n, pass.h);
  if (lstm) std::copy_n(call.in(3).data_as<T>(), sequences * n, pass.c);
  share_sequences(sequences, double(gates) * n * n, [&](int64_t begin, int64_t end) {
    for (size_t t = 0; t < schedule.steps(); ++t)
      if (const int64_t count = schedule.running(t, begin, end)) pass.step(t, begin, count);
  });
}

// Per row of the packed layout: the hidden state before the step, and where its cell state stands.
template <class T>
struct Before {
  Before(const Schedule& schedule, int64_t n, const T* out, const T* h0, T* h) : row_of(0) {
    // The row of each sequence's latest step, or none.
    const int64_t sequences = *std::max_element(schedule.counts.begin(), schedule.counts.end());
    std::vector<int64_t> latest(sequences, -1);
    int64_t rows = 0;
    for (int64_t count : schedule.counts) rows += count;
    row_of.resize(rows);
    for (size_t t = 0; t < schedule.steps(); ++t)
      for (int64_t k = 0; k < schedule.counts[t]; ++k) {
        const int64_t row = schedule.offsets[t] + k;
        row_of[row] = latest[k];
        std::copy_n(latest[k] < 0 ? h0 + k * n : out + latest[k] * n, n, h + row * n);
        latest[k] = row;
      }
  }
  std::vector<int64_t> row_of;
};

template <class T>
struct Backward {
  const Schedule& schedule;
  int64_t n, gates, memory_size;
  const T *grad, *out, *memory, *weight, *c0, *h_before;
  const std::vector<int64_t>& row_before;
  T *grad_x, *grad_hg, *grad_h, *grad_c;

  void step(size_t t, int64_t begin, int64_t count) const {
    const int64_t row = schedule.offsets[t] + begin, wide = gates * n;
    T* states = grad_h + begin * n;
    const RecurrentKernels<T>& rows = kernels<T>();
    for (int64_t k = 0; k < count; ++k) {
      const int64_t at = row + k;
      T *gh = states + k * n, *gx = grad_x + at * wide;
      const T* kept = memory + at * memory_size * n;
      rows.add(n, grad + at * n, gh);
      switch (schedule.cell) {
        case Cell::Lstm: {
          const int64_t before = row_before[at];
          const T* c = before < 0 ? c0 + (begin + k) * n : memory + (before * memory_size + 4) * n;
          rows.lstm_backward(n, kept, c, gh, grad_c + (begin + k) * n, gx);
          break;
        }
        case Cell::Gru:
          rows.gru_backward(n, kept, h_before + at * n, gh, gx, grad_hg + at * wide);
          break;
        case Cell::Tanh:
          rows.tanh_backward(n, out + at * n, gh, gx);
          break;
        case Cell::Relu:
          rows.relu_backward(n, out + at * n, gh, gx);
          break;
      }
    }
    // What goes back through the weights; a GRU's also goes straight.
    gemm<T>(false, false, count, n, wide, T(1), grad_hg + row * wide, wide, weight, n,
            schedule.cell == Cell::Gru ? T(1) : T(0), states, n);
  }
};

template <class T>
void backward(const OpCall& call) {
  const Schedule schedule(call);
  const bool lstm = schedule.cell == Cell::Lstm, gru = schedule.cell == Cell::Gru;
  const size_t next = lstm ? 3 : 2;  // behind the gradients
  const TensorImpl& h0 = call.in(next + 3);
  const int64_t sequences = h0.size(0), n = h0.size(1), gates = gates_of(schedule.cell);
  const int64_t rows = call.in(0).size(0), wide = gates * n;
  Workspace<T> h_before(rows * n), hg(gru ? rows * wide : 0);
  BlockingSection blocking;
  T *grad_x = call.out(0).data_as<T>(), *grad_h = call.out(2).data_as<T>();
  const Before<T> before(schedule, n, call.in(next).data_as<T>(), h0.data_as<T>(), h_before.get());
  const Backward<T> pass{schedule,
                         n,
                         gates,
                         memory_of(schedule.cell),
                         call.in(0).data_as<T>(),
                         call.in(next).data_as<T>(),
                         call.in(next + 1).data_as<T>(),
                         call.in(next + 2).data_as<T>(),
                         lstm ? call.in(next + 4).data_as<T>() : nullptr,
                         h_before.get(),
                         before.row_of,
                         grad_x,
                         gru ? hg.get() : grad_x,
                         grad_h,
                         lstm ? call.out(3).data_as<T>() : nullptr};
  std::copy_n(call.in(1).data_as<T>(), sequences * n, grad_h);
  if (lstm) std::copy_n(call.in(2).data_as<T>(), sequences * n, pass.grad_c);
  share_sequences(sequences, double(wide) * n, [&](int64_t begin, int64_t end) {
    for (size_t t = schedule.steps(); t-- > 0;)
      if (const int64_t count = schedule.running(t, begin, end)) pass.step(t, begin, count);
  });
  gemm<T>(true, false, wide, n, rows, T(1), pass.grad_hg, wide, h_before.get(), n, T(0),
          call.out(1).data_as<T>(), n);
  if (gru && call.outputs.size() > 3) {
    T* grad_bias = call.out(3).data_as<T>();
    std::fill_n(grad_bias, wide, T(0));
    for (int64_t row = 0; row < rows; ++row)
      kernels<T>().add(wide, pass.grad_hg + row * wide, grad_bias);
  }
}

void recurrent(const OpCall& call) {
  with_float_type(call.out().dtype(), [&]<class T>(T) { forward<T>(call); });
}

void recurrent_backward(const OpCall& call) {
  with_float_type(call.out().dtype(), [&]<class T>(T) { backward<T>(call); });
}

const KernelList<DeviceType::CPU> kKernels = {
    {"recurrent", recurrent},
    {"recurrent_backward", recurrent_backward},
};

}  // namespace

}  // namespace tapegrad::cpu
