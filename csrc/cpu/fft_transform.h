// Transforms of one group of lanes and of one line, by a plan, in memory that the caller has.
#pragma once

#include "core/parallel.h"
#include "cpu/fft_plan.h"

namespace tapegrad::cpu {

// How many numbers transform_records() needs beside the records, and transform_line() on so many threads.
template <class T>
int64_t records_memory(const FftPlan<T>& plan);
template <class T>
int64_t line_memory(const FftPlan<T>& plan, int64_t threads);

// Where element j has to be before: null if at j.
template <class T>
const int32_t* places_of(const FftPlan<T>& plan) {
  return plan.lanes ? plan.lanes->chain.place : nullptr;
}

template <class T>
void transform_records(const FftPlan<T>& plan, T* records, T* memory);

// Of contiguous complex numbers; `from` and `to` may be the same. Several threads may share the work.
template <class T>
void transform_line(const FftPlan<T>& plan, const T* from, const FftScale<T>& scale, T* to,
                    T* memory, int64_t threads);

// The same as lanes of which one is used, for lengths that do not take lines.
std::vector<double> transform_once(const FftPlan<double>& plan, const std::vector<double>& line);

// body(first, last, thread) for `count` items, in as many parts as there are threads to have memory of their own.
template <class Body>
void share_out(int64_t count, int64_t threads, Body&& body) {
  if (threads == 1) return body(int64_t{0}, count, int64_t{0});
  parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) body(count * t / threads, count * (t + 1) / threads, t);
  });
}

}  // namespace tapegrad::cpu
