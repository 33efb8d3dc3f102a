// Fourier transforms in Python: the native part of tapegrad.fft.
#include "ops/fft.h"

#include "core/error.h"
#include "graph/autocast.h"
#include "python/function_ops.h"
#include "python/out.h"

namespace tapegrad::python {

namespace {

using Out = std::optional<Tensor>;

// For autocast PyTorch has a rule for each function that it did not add later.
constexpr Cast kCast = Cast::Float32, kNone = Cast::None;
const FftFunction kFft("fft", Spectrum::Full, true, kCast);
const FftFunction kIfft("ifft", Spectrum::Full, false, kCast);
const FftFunction kRfft("rfft", Spectrum::ToHalf, true, kCast);
const FftFunction kIrfft("irfft", Spectrum::FromHalf, false, kCast);
const FftFunction kHfft("hfft", Spectrum::FromHalf, true, kCast);
const FftFunction kIhfft("ihfft", Spectrum::ToHalf, false, kCast);
const FftFunction kFft2("fft2", Spectrum::Full, true, kCast);
const FftFunction kIfft2("ifft2", Spectrum::Full, false, kCast);
const FftFunction kRfft2("rfft2", Spectrum::ToHalf, true, kCast);
const FftFunction kIrfft2("irfft2", Spectrum::FromHalf, false, kCast);
const FftFunction kHfft2("hfft2", Spectrum::FromHalf, true, kNone);
const FftFunction kIhfft2("ihfft2", Spectrum::ToHalf, false, kNone);
const FftFunction kFftn("fftn", Spectrum::Full, true, kCast);
const FftFunction kIfftn("ifftn", Spectrum::Full, false, kCast);
const FftFunction kRfftn("rfftn", Spectrum::ToHalf, true, kCast);
const FftFunction kIrfftn("irfftn", Spectrum::FromHalf, false, kCast);
const FftFunction kHfftn("hfftn", Spectrum::FromHalf, true, kNone);
const FftFunction kIhfftn("ihfftn", Spectrum::ToHalf, false, kNone);

void check_out(const FftFunction& function, const Out& out) {
  if (!out) return;
  const DType dtype = out->dtype();
  if (function.spectrum == Spectrum::FromHalf)
    TAPEGRAD_CHECK(is_floating(dtype), function.name,
                   ": expects a floating point output tensor, but got ", name(dtype));
  else
    TAPEGRAD_CHECK(is_complex(dtype), function.name, ": expects a complex output tensor, but got ",
                   name(dtype));
}

const char* op_of(const FftFunction& function) {
  switch (function.spectrum) {
    case Spectrum::Full:
      return "fft_c2c";
    case Spectrum::ToHalf:
      return "fft_r2c";
    default:
      return "fft_c2r";
  }
}

// The functions are defined in a module of their own, so that they and their errors have the names of torch.fft.
void publish(Binder& b, nb::module_& functions, const FftFunction& function) {
  b.module().attr(function.full_name.c_str()) = functions.attr(function.name);
  runs(function.name, {op_of(function)});
}

void bind_along(Binder& b, nb::module_& functions, const FftFunction& function, const char* doc) {
  functions.def(function.name,
                [&function](const Tensor& x, std::optional<int64_t> n, int64_t dim,
                            const Norm& norm, const Out& out) {
    check_out(function, out);
    const WithoutAutocast lifted(out.has_value());
    return into_castable_out(function.name, fft_along(function, x, n, dim, norm), out);
  },
                "input"_a, "n"_a.none() = nb::none(), "dim"_a = -1, "norm"_a.none() = nb::none(),
                nb::kw_only(), "out"_a.none() = nb::none(), doc);
  publish(b, functions, function);
}

std::optional<Sizes> sizes_of(const std::optional<IntList>& list) {
  if (!list) return std::nullopt;
  return Sizes(*list);
}

// `dim` is the default.
template <class Default>
void bind_over(Binder& b, nb::module_& functions, const FftFunction& function, Default dim,
               const char* doc) {
  functions.def(function.name,
                [&function](const Tensor& x, const std::optional<IntList>& sizes,
                            const std::optional<IntList>& dims, const Norm& norm, const Out& out) {
    check_out(function, out);
    const WithoutAutocast lifted(out.has_value());
    return into_castable_out(function.name,
                             fft_over(function, x, sizes_of(sizes), sizes_of(dims), norm), out);
  },
                "input"_a, "s"_a.none() = nb::none(), dim, "norm"_a.none() = nb::none(),
                nb::kw_only(), "out"_a.none() = nb::none(), doc);
  publish(b, functions, function);
}

void bind_lines(Binder& b, nb::module_& functions) {
  bind_along(b, functions, kFft,
             R"(The Fourier transform along a dimension: sums of x[j] exp(-2 pi i j k / n).

Args:
    input: real or complex numbers.
    n: how many of them are transformed; of fewer the rest are zeros. By default all.
    dim: the dimension.
    norm: what the result is divided by: "backward" (the default), nothing; "ortho", the root of
        n; "forward", n.
    out: where to put the result.

Example:
    >>> torch.fft.fft(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
)");
  bind_along(b, functions, kIfft, R"(The inverse of the Fourier transform along a dimension.

Args:
    input: real or complex numbers.
    n: how many of them are transformed; of fewer the rest are zeros. By default all.
    dim: the dimension.
    norm: what the result is divided by: "backward" (the default), n; "ortho", the root of n;
        "forward", nothing.
    out: where to put the result.

Example:
    >>> torch.fft.ifft(torch.tensor([10 + 0j, -2 + 2j, -2 + 0j, -2 - 2j]))
    tensor([1.+0.j, 2.+0.j, 3.+0.j, 4.+0.j])
)");
  bind_along(b, functions, kRfft, R"(The first half of the Fourier transform of real numbers.

The other elements are the conjugates of these.

Args:
    input: real numbers.
    n: how many of them are transformed; of fewer the rest are zeros. By default all.
    dim: the dimension, of size n // 2 + 1 in the result.
    norm: as of `fft`.
    out: where to put the result.

Example:
    >>> torch.fft.rfft(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j])
)");
  bind_along(b, functions, kIrfft,
             R"(The real numbers of which the input is the first half of the Fourier transform.

The imaginary part of the first element is not read, nor for an even n that of the last one.

Args:
    input: half a spectrum.
    n: how many numbers come back: by default 2 * (size - 1), an even number.
    dim: the dimension.
    norm: as of `ifft`.
    out: where to put the result.

Example:
    >>> torch.fft.irfft(torch.tensor([10 + 0j, -2 + 2j, -2 + 0j]))
    tensor([1., 2., 3., 4.])
)");
  bind_along(b, functions, kHfft,
             R"(The real Fourier transform of numbers of which only the first half is given.

The other numbers are the conjugates of these.

Args:
    input: half of the numbers.
    n: the length of the result: by default 2 * (size - 1), an even number.
    dim: the dimension.
    norm: as of `fft`.
    out: where to put the result.

Example:
    >>> torch.fft.hfft(torch.tensor([2.5 + 0j, -0.5 - 0.5j, -0.5 + 0j]))
    tensor([1., 2., 3., 4.])
)");
  bind_along(b, functions, kIhfft,
             R"(The first half of the inverse Fourier transform of real numbers.

Args:
    input: real numbers.
    n: how many of them are transformed; of fewer the rest are zeros. By default all.
    dim: the dimension, of size n // 2 + 1 in the result.
    norm: as of `ifft`.
    out: where to put the result.

Example:
    >>> torch.fft.ihfft(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([ 2.5000+0.0000j, -0.5000-0.5000j, -0.5000+0.0000j])
)");
}

constexpr const char* kOverArguments = R"(

Args:
    input: the numbers.
    s: how many of them are transformed along each dimension, of fewer the rest are zeros; -1 for
        all. By default all.
    dim: the dimensions.
    norm: "backward", "ortho" or "forward", as in one dimension.
    out: where to put the result.

Example:
    >>> )";

std::string over_doc(const char* summary, const char* example) {
  return std::string(summary) + kOverArguments + example + "\n";
}

struct OverDoc {
  const FftFunction& two;
  const FftFunction& many;
  const char *summary, *example_two, *example_many;
};

void bind_planes(Binder& b, nb::module_& functions) {
  const OverDoc docs[] = {
      {kFft2, kFftn, "The Fourier transform along ",
       "torch.fft.fft2(torch.eye(2))\n    tensor([[2.+0.j, 0.+0.j],\n            [0.+0.j, 2.+0.j]])",
       "torch.fft.fftn(torch.ones(2, 2))\n    tensor([[4.+0.j, 0.+0.j],\n            [0.+0.j, 0.+0.j]])"},
      {kIfft2, kIfftn, "The inverse of the Fourier transform along ",
       "torch.fft.ifft2(torch.eye(2) * 2)\n    tensor([[1.+0.j, 0.+0.j],\n            [0.+0.j, 1.+0.j]])",
       "torch.fft.ifftn(torch.ones(2, 2))\n    tensor([[1.+0.j, 0.+0.j],\n            [0.+0.j, 0.+0.j]])"},
      {kRfft2, kRfftn,
       "The first half, along the last dimension, of the Fourier transform of real numbers along ",
       "torch.fft.rfft2(torch.ones(2, 4)).shape\n    torch.Size([2, 3])",
       "torch.fft.rfftn(torch.ones(2, 2, 4)).shape\n    torch.Size([2, 2, 3])"},
      {kIrfft2, kIrfftn,
       "The real numbers of which the input is the first half, along the last dimension, of the transform along ",
       "torch.fft.irfft2(torch.fft.rfft2(torch.ones(2, 2)))\n    tensor([[1., 1.],\n            [1., 1.]])",
       "torch.fft.irfftn(torch.fft.rfftn(torch.ones(2, 3)), s=(2, 3)).shape\n    torch.Size([2, 3])"},
      {kHfft2, kHfftn, "The real Fourier transform, along ",
       "torch.fft.hfft2(torch.ones(2, 3)).shape\n    torch.Size([2, 4])",
       "torch.fft.hfftn(torch.ones(2, 2, 3)).shape\n    torch.Size([2, 2, 4])"},
      {kIhfft2, kIhfftn,
       "The first half, along the last dimension, of the inverse Fourier transform of real numbers along ",
       "torch.fft.ihfft2(torch.ones(2, 4)).shape\n    torch.Size([2, 3])",
       "torch.fft.ihfftn(torch.ones(2, 2, 4)).shape\n    torch.Size([2, 2, 3])"},
  };
  for (const OverDoc& doc : docs) {
    const bool is_hermitian = &doc.two == &kHfft2;
    const std::string given =
        is_hermitian ? ", of numbers of which only half along the last dimension is given." : ".";
    const std::string two = doc.summary + std::string("two dimensions") + given;
    const std::string many =
        doc.summary + std::string("several dimensions, by default all") + given;
    bind_over(b, functions, doc.two, "dim"_a.none() = nb::make_tuple(-2, -1),
              over_doc(two.c_str(), doc.example_two).c_str());
    bind_over(b, functions, doc.many, "dim"_a.none() = nb::none(),
              over_doc(many.c_str(), doc.example_many).c_str());
  }
}

}  // namespace

void bind_fft(Binder& b) {
  nb::module_ functions = b.module().def_submodule("_fft");
  bind_lines(b, functions);
  bind_planes(b, functions);
}

}  // namespace tapegrad::python
