// Norms over many tensors, their scaling and casts: all elements of all tensors in one parallel loop.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/clip_kernels.h"
#include "cpu/convert.h"
#include "spec/clip.h"

namespace tapegrad::cpu {

namespace {

// Pieces are always cut at the same places, so results do not depend on the number of threads.
constexpr int64_t kPiece = 4096;
constexpr int64_t kGrain = 8;  // pieces

struct Piece {
  char* data;
  int64_t numel;
};

std::vector<Piece> pieces_of(std::span<TensorImpl* const> tensors) {
  std::vector<Piece> pieces;
  for (const TensorImpl* x : tensors) {
    auto* data = static_cast<char*>(x->data());
    const auto item = static_cast<int64_t>(itemsize(x->dtype()));
    for (int64_t i = 0; i < x->numel(); i += kPiece)
      pieces.push_back({data + i * item, std::min(kPiece, x->numel() - i)});
  }
  return pieces;
}

const ClipKernels& kernels_for(const OpCall& call) {
  const DType dtype = call.out().dtype();
  if (dtype != DType::Float32 && dtype != DType::Float64)
    fail_unsupported_dtype(call.op.name, dtype);
  return best_clip_table().kernels[dtype == DType::Float64];
}

template <class Body>
void for_pieces(const std::vector<Piece>& pieces, Body&& body) {
  const auto count = static_cast<int64_t>(pieces.size());
  if (count <= kGrain) return body(int64_t{0}, count);
  BlockingSection blocking;
  parallel_for(0, count, kGrain, body);
}

void total_norm(const OpCall& call) {
  const auto kind = static_cast<TotalNorm>(call.integer(0));
  auto* part = kernels_for(call).part[static_cast<int>(kind)];
  const std::vector<Piece> pieces = pieces_of(call.inputs);
  std::vector<double> parts(pieces.size());
  for_pieces(pieces, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Piece& piece = pieces[static_cast<size_t>(i)];
      parts[static_cast<size_t>(i)] = part(piece.data, piece.numel);
    }
  });
  double result = 0;
  for (double each : parts) {
    if (kind != TotalNorm::Infinity) result += each;
    else if (each > result || each != each) result = each;
  }
  if (kind == TotalNorm::Two) result = std::sqrt(result);
  const TensorImpl& out = call.out();
  if (out.dtype() == DType::Float64) *out.data_as<double>() = result;
  else *out.data_as<float>() = static_cast<float>(result);
}

void scale_tensors(const OpCall& call) {
  const TensorImpl& by = call.in(0);
  const double factor = by.dtype() == DType::Float64 ? *by.data_as<double>() : *by.data_as<float>();
  if (factor == 1) return;
  const ClipKernels& kernels = kernels_for(call);
  const std::vector<Piece> pieces = pieces_of(call.outputs);
  for_pieces(pieces, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Piece& piece = pieces[static_cast<size_t>(i)];
      kernels.scale(piece.data, piece.numel, factor);
    }
  });
}

// All inputs are of one dtype, and so are all outputs; each is contiguous.
void cast_tensors(const OpCall& call) {
  const Convert convert = converter(call.in(0).dtype(), call.out().dtype());
  const std::vector<Piece> from = pieces_of(call.inputs), to = pieces_of(call.outputs);
  for_pieces(from, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      convert(from[i].data, 1, to[i].data, 1, from[i].numel);
  });
}

auto* unscale_kernel(DType dtype) {
  const ClipTable& table = best_clip_table();
  if (is_reduced_float(dtype)) return table.unscale_half[dtype == DType::BFloat16];
  return table.kernels[dtype == DType::Float64].unscale;
}

// Inputs the factor, what was found before, and the tensors; outputs what is found, and the tensors.
void unscale(const OpCall& call) {
  const float factor = *call.in(0).data_as<float>();
  const std::span<TensorImpl* const> tensors = call.outputs.subspan(1);
  auto* kernel = unscale_kernel(tensors[0]->dtype());
  const std::vector<Piece> pieces = pieces_of(tensors);
  std::atomic<bool> finite = true;
  for_pieces(pieces, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Piece& piece = pieces[static_cast<size_t>(i)];
      if (!kernel(piece.data, piece.numel, factor)) finite = false;
    }
  });
  if (!finite) *call.out(0).data_as<float>() = 1;
}

void update_scale(const OpCall& call) {
  auto& scale = *call.out(0).data_as<float>();
  auto& tracker = *call.out(1).data_as<int32_t>();
  if (*call.in(2).data_as<float>() != 0) {
    scale = static_cast<float>(scale * call.real(1));
    tracker = 0;
  } else if (tracker + 1 == call.integer(2)) {
    // One that would be infinite stays as it is.
    const auto larger = static_cast<float>(scale * call.real(0));
    if (std::isfinite(larger)) scale = larger;
    tracker = 0;
  } else {
    ++tracker;
  }
}

const KernelList<DeviceType::CPU> kKernels = {
    {"total_norm", total_norm}, {"scale_tensors", scale_tensors}, {"cast_tensors", cast_tensors},
    {"unscale", unscale},       {"update_scale", update_scale},
};

}  // namespace

}  // namespace tapegrad::cpu
