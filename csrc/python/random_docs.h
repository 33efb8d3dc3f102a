// Docstrings of the random functions.
#pragma once

namespace tapegrad::python {

inline constexpr const char* kRandDoc =
    "rand(*size, generator=None, out=None, dtype=None, layout=None, device=None, "
    "pin_memory=False, requires_grad=False) -> Tensor\n\n"
    R"(Random numbers, uniform on [0, 1).

Args:
    size: ints, or one tuple of ints.
    generator: where the numbers come from; the default generator if not given.
    out: a tensor to write to.
    dtype: the type of the elements; the default dtype if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.rand(2, 3).shape
    torch.Size([2, 3])
)";

inline constexpr const char* kRandnDoc =
    "randn(*size, generator=None, out=None, dtype=None, layout=None, device=None, "
    "pin_memory=False, requires_grad=False) -> Tensor\n\n"
    R"(Random numbers, normal with mean 0 and standard deviation 1.

Args:
    size: ints, or one tuple of ints.
    generator: where the numbers come from; the default generator if not given.
    out: a tensor to write to.
    dtype: the type of the elements; the default dtype if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.randn(2, 3).shape
    torch.Size([2, 3])
)";

inline constexpr const char* kRandLikeDoc =
    "rand_like(input, *, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False, memory_format=None, generator=None) -> Tensor\n\n"
    R"(Random numbers, uniform on [0, 1), in the shape of another tensor.

Args:
    input: the other tensor.
    dtype: the type of the elements; that of input if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> torch.rand_like(torch.zeros(4)).shape
    torch.Size([4])
)";

inline constexpr const char* kRandnLikeDoc =
    "randn_like(input, *, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False, memory_format=None, generator=None) -> Tensor\n\n"
    R"(Standard normal random numbers, in the shape of another tensor.

Args:
    input: the other tensor.
    dtype: the type of the elements; that of input if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> torch.randn_like(torch.zeros(4)).shape
    torch.Size([4])
)";

inline constexpr const char* kRandintDoc =
    "randint(low=0, high, size, *, generator=None, out=None, dtype=None, layout=None, "
    "device=None, pin_memory=False, requires_grad=False) -> Tensor\n\n"
    R"(Random integers from low up to but without high, all equally likely.

Args:
    low: the smallest, 0 if not given.
    high: one more than the largest.
    size: a tuple of ints.
    generator: where the numbers come from; the default generator if not given.
    out: a tensor to write to.
    dtype: the type of the elements; int64 if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> x = torch.randint(3, 5, (100,))
    >>> sorted(set(x.tolist()))
    [3, 4]
)";

inline constexpr const char* kRandintLikeDoc =
    "randint_like(input, low=0, high, *, dtype=None, layout=None, device=None, "
    "pin_memory=False, requires_grad=False, memory_format=None, generator=None) -> Tensor\n\n"
    R"(Random integers from low up to but without high, in the shape of another tensor.

Args:
    input: the other tensor.
    low: the smallest, 0 if not given.
    high: one more than the largest.
    dtype: the type of the elements; that of input if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> torch.randint_like(torch.zeros(4), 10).shape
    torch.Size([4])
)";

inline constexpr const char* kRandpermDoc =
    "randperm(n, *, generator=None, out=None, dtype=None, layout=None, device=None, "
    "pin_memory=False, requires_grad=False) -> Tensor\n\n"
    R"(The integers from 0 up to but without n, in random order.

Args:
    n: how many.
    generator: where the numbers come from; the default generator if not given.
    out: a tensor to write to.
    dtype: the type of the elements; int64 if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> sorted(torch.randperm(4).tolist())
    [0, 1, 2, 3]
)";

inline constexpr const char* kNormalDoc =
    "normal(mean, std=1.0, size=None, *, generator=None, out=None, dtype=None, layout=None, "
    "device=None, pin_memory=False, requires_grad=False) -> Tensor\n\n"
    R"(Normal random numbers.

With tensors for mean or std, each element has its own; their shapes are broadcast. Sampling is not
differentiable: gradients of mean and std are zero.

Args:
    mean: a tensor or a number.
    std: a tensor or a number, not negative.
    size: a tuple of ints, when mean and std are numbers.
    generator: where the numbers come from; the default generator if not given.
    out: a tensor to write to.
    dtype: the type of the elements; the default dtype if not given. Only with size.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.normal(torch.zeros(3), 1.0).shape
    torch.Size([3])
    >>> torch.normal(2.0, 0.5, (2, 2)).shape
    torch.Size([2, 2])
)";

inline constexpr const char* kBernoulliDoc =
    "bernoulli(input, p=None, *, generator=None, out=None) -> Tensor\n\n"
    R"(Ones with given probabilities, else zeros. Not differentiable: the gradient is zero.

Args:
    input: the probability of each element; with p, only the shape and dtype.
    p: one probability for all.
    generator: where the numbers come from; the default generator if not given.
    out: a tensor to write to.

Example:
    >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
    tensor([0., 1.])
)";

inline constexpr const char* kMultinomialDoc =
    "multinomial(input, num_samples, replacement=False, *, generator=None, out=None) -> "
    "Tensor\n\n"
    R"(Indices drawn from each row, an index as often as its weight says.

Args:
    input: weights, not negative, in one or two dimensions; rows need not sum to one.
    num_samples: how many indices to draw from each row.
    replacement: whether an index may be drawn again.
    generator: where the numbers come from; the default generator if not given.
    out: a tensor to write to.

Example:
    >>> torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 2, replacement=True)
    tensor([1, 1])
)";

inline constexpr const char* kPoissonDoc =
    "poisson(input, generator=None) -> Tensor\n\n"
    R"(Poisson random numbers. Not differentiable: the gradient is zero.

Args:
    input: the rate of each element, not negative.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> torch.poisson(torch.zeros(3))
    tensor([0., 0., 0.])
)";

inline constexpr const char* kUniformInplaceDoc =
    "uniform_(from=0, to=1, *, generator=None) -> Tensor\n\n"
    R"(Fills the tensor with random numbers, uniform on [from, to).

Args:
    from: the lower end.
    to: the upper end.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> x = torch.empty(1000).uniform_(2, 3)
    >>> bool(((x >= 2) & (x < 3)).all())
    True
)";

inline constexpr const char* kNormalInplaceDoc =
    "normal_(mean=0, std=1, *, generator=None) -> Tensor\n\n"
    R"(Fills the tensor with normal random numbers.

Args:
    mean: the mean.
    std: the standard deviation.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> torch.empty(2).normal_().shape
    torch.Size([2])
)";

inline constexpr const char* kLogNormalInplaceDoc =
    "log_normal_(mean=1, std=2, *, generator=None) -> Tensor\n\n"
    R"(Fills the tensor with random numbers whose logarithm is normal.

Args:
    mean: the mean of the logarithm.
    std: the standard deviation of the logarithm.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> bool((torch.empty(100).log_normal_() > 0).all())
    True
)";

inline constexpr const char* kCauchyInplaceDoc =
    "cauchy_(median=0, sigma=1, *, generator=None) -> Tensor\n\n"
    R"(Fills the tensor with random numbers from a Cauchy distribution.

Args:
    median: the median.
    sigma: half the distance of the quartiles.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> torch.empty(2).cauchy_().shape
    torch.Size([2])
)";

inline constexpr const char* kExponentialInplaceDoc =
    "exponential_(lambd=1, *, generator=None) -> Tensor\n\n"
    R"(Fills the tensor with random numbers from an exponential distribution.

Args:
    lambd: the rate, one over the mean.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> bool((torch.empty(100).exponential_() > 0).all())
    True
)";

inline constexpr const char* kGeometricInplaceDoc =
    "geometric_(p, *, generator=None) -> Tensor\n\n"
    R"(Fills the tensor with numbers of trials up to and with the first success.

Args:
    p: the probability of a success, between 0 and 1.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> bool((torch.empty(100).geometric_(0.5) >= 1).all())
    True
)";

inline constexpr const char* kBernoulliInplaceDoc =
    "bernoulli_(p=0.5, *, generator=None) -> Tensor\n\n"
    R"(Fills the tensor with ones with probability p, else zeros.

Args:
    p: a number, or a tensor that broadcasts to this one.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> torch.empty(3).bernoulli_(1.0)
    tensor([1., 1., 1.])
)";

inline constexpr const char* kRandomInplaceDoc =
    "random_(from=0, to=None, *, generator=None) -> Tensor\n\n"
    R"(Fills the tensor with random integers from `from` up to but without `to`.

Args:
    from: the smallest. A single argument is `to`.
    to: one more than the largest; the largest the dtype can count to if not given.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> x = torch.empty(100).random_(3, 5)
    >>> sorted(set(x.tolist()))
    [3.0, 4.0]
)";

inline constexpr const char* kGeneratorDoc =
    R"(A stream of random numbers, given to random functions as `generator`.

Its numbers are a function of seed and position (Philox 4x32-10), so they are the same on every
machine and for every number of threads.

Args:
    device: "cpu".

Example:
    >>> generator = torch.Generator().manual_seed(0)
    >>> x = torch.rand(3, generator=generator)
    >>> generator.manual_seed(0) is generator
    True
    >>> bool((torch.rand(3, generator=generator) == x).all())
    True
)";

inline constexpr const char* kManualSeedDoc =
    R"(Seeds the default generator and returns it.

Args:
    seed: an int from -2**63 to 2**64 - 1; negative ones count from 2**64 down.

Example:
    >>> torch.manual_seed(1).initial_seed()
    1
)";

}  // namespace tapegrad::python
