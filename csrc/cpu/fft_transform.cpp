#include "cpu/fft_transform.h"

#include <algorithm>

namespace tapegrad::cpu {

namespace {

// The parts of a grid: numbers of groups, memory for all threads and for each.
template <class T>
struct GridParts {
  explicit GridParts(const FftGrid<T>& grid)
      : column_groups((grid.across.length + width() - 1) / width()),
        row_groups((grid.down.length + width() - 1) / width()),
        shared(column_groups * grid.down.length * 2 * width()),
        own(grid.across.length * 2 * width()) {}
  static int64_t width() { return fft_kernels<T>().width; }
  int64_t column_groups, row_groups, shared, own;
};

}  // namespace

template <class T>
int64_t records_memory(const FftPlan<T>& plan) {
  return plan.convolution ? 2 * plan.convolution->size * 2 * fft_kernels<T>().width : 0;
}

template <class T>
int64_t line_memory(const FftPlan<T>& plan, int64_t threads) {
  if (plan.grid) {
    const GridParts<T> parts(plan.grid->grid);
    return parts.shared + threads * parts.own;
  }
  const int64_t width = fft_kernels<T>().width;
  const int64_t line = (2 * plan.convolution->size + width - 1) / width * width;
  return line + line_memory(*plan.convolution->plan, threads);
}

template <class T>
void transform_records(const FftPlan<T>& plan, T* records, T* memory) {
  const FftKernels<T>& kernels = fft_kernels<T>();
  if (plan.lanes) return kernels.run(plan.lanes->chain, records);
  const FftConvolution<T>& convolution = *plan.convolution;
  const FftChain<T>& chain = convolution.plan->lanes->chain;
  const int64_t numbers = convolution.size * 2 * kernels.width;
  T *wave = memory, *product = memory + numbers;
  std::fill_n(wave, numbers, T(0));
  kernels.multiply_records(records, convolution.chirp.get(), plan.length, 1, 1, chain.place, wave);
  kernels.run(chain, wave);
  // The transform back is one of conjugates.
  kernels.multiply_records(wave, convolution.spectrum.get(), convolution.size, 1, -1, chain.place,
                           product);
  kernels.run(chain, product);
  kernels.multiply_records(product, convolution.chirp.get(), plan.length, -1, 1, nullptr, records);
}

template <class T>
void transform_line(const FftPlan<T>& plan, const T* from, const FftScale<T>& scale, T* to,
                    T* memory, int64_t threads) {
  const FftKernels<T>& kernels = fft_kernels<T>();
  if (plan.grid) {
    const FftGrid<T>& grid = plan.grid->grid;
    const GridParts<T> parts(grid);
    share_out(parts.column_groups, threads, [&](int64_t begin, int64_t end, int64_t) {
      kernels.columns(grid, from, scale.in_imag, memory, begin, end);
    });
    share_out(parts.row_groups, threads, [&](int64_t begin, int64_t end, int64_t thread) {
      T* records = memory + parts.shared + thread * parts.own;
      kernels.rows(grid, memory, records, scale, to, begin, end);
    });
    return;
  }
  const FftConvolution<T>& convolution = *plan.convolution;
  const int64_t n = plan.length, size = convolution.size;
  T *line = memory, *rest = memory + (2 * size + kernels.width - 1) / kernels.width * kernels.width;
  kernels.multiply_line(from, convolution.chirp.get(), n, scale.in_imag, 1, 1, line);
  std::fill(line + 2 * n, line + 2 * size, T(0));
  transform_line(*convolution.plan, line, {1, 1, 1}, line, rest, threads);
  kernels.multiply_line(line, convolution.spectrum.get(), size, 1, 1, -1, line);
  transform_line(*convolution.plan, line, {1, 1, 1}, line, rest, threads);
  kernels.multiply_line(line, convolution.chirp.get(), n, -1, scale.real, scale.imag, to);
}

std::vector<double> transform_once(const FftPlan<double>& plan, const std::vector<double>& line) {
  std::vector<double> result(line.size());
  if (plan.takes_lines()) {
    const FftNumbers<double> memory(line_memory(plan, 1));
    transform_line(plan, line.data(), {1, 1, 1}, result.data(), memory.get(), 1);
    return result;
  }
  const FftKernels<double>& kernels = fft_kernels<double>();
  const FftNumbers<double> records(plan.length * 2 * kernels.width), memory(records_memory(plan));
  const int64_t nowhere = 0;
  kernels.load({line.data(), &nowhere, 1, 2, 1, true}, plan.length, places_of(plan), 1,
               records.get());
  transform_records(plan, records.get(), memory.get());
  kernels.store(records.get(), plan.length, 1, 1, {result.data(), &nowhere, 1, 2, 1, true});
  return result;
}

template int64_t records_memory(const FftPlan<float>& plan);
template int64_t records_memory(const FftPlan<double>& plan);
template int64_t line_memory(const FftPlan<float>& plan, int64_t threads);
template int64_t line_memory(const FftPlan<double>& plan, int64_t threads);
template void transform_records(const FftPlan<float>& plan, float* records, float* memory);
template void transform_records(const FftPlan<double>& plan, double* records, double* memory);
template void transform_line(const FftPlan<float>& plan, const float* from,
                             const FftScale<float>& scale, float* to, float* memory,
                             int64_t threads);
template void transform_line(const FftPlan<double>& plan, const double* from,
                             const FftScale<double>& scale, double* to, double* memory,
                             int64_t threads);

}  // namespace tapegrad::cpu
