"""Every distribution with parameters of several batch shapes, the same for both libraries."""

import numpy as np

BATCHES = [((), ()), ((3,), ()), ((2, 1), (3,)), ((2, 3), (2, 3))]


class Draws:
    """Parameters of both libraries from one seed."""

    def __init__(self, library, seed):
        self.library = library
        self.random = np.random.default_rng(seed)

    def tensor(self, array):
        return self.library.tensor(np.asarray(array).tolist(), dtype=self.library.float64)

    def positive(self, *shape):
        return self.tensor(self.random.uniform(0.3, 3, shape))

    def real(self, *shape):
        return self.tensor(self.random.normal(size=shape))

    def probs(self, *shape):
        return self.tensor(self.random.uniform(0.05, 0.95, shape))

    def factor(self, *shape):
        n = shape[-1]
        a = self.random.normal(size=(*shape, n))
        return np.linalg.cholesky(a @ np.swapaxes(a, -1, -2) + n * np.eye(n))

    def tril(self, *shape):
        return self.tensor(self.factor(*shape))

    def definite(self, *shape):
        factor = self.factor(*shape)
        return self.tensor(factor @ np.swapaxes(factor, -1, -2))


def families(library, a, b):
    """Return pairs of a name and arguments, for parameters of batch shapes `a` and `b`."""
    d = Draws(library, seed=1)
    four = library.tensor(4.0, dtype=library.float64)
    return [
        ("Bernoulli", {"probs": d.probs(*a)}),
        ("Bernoulli", {"logits": d.real(*a)}),
        ("Beta", {"concentration1": d.positive(*a), "concentration0": d.positive(*b)}),
        ("Binomial", {"total_count": four, "probs": d.probs(*a)}),
        ("Binomial", {"total_count": 4, "logits": d.real(*a)}),
        ("Categorical", {"probs": d.probs(*a, 4)}),
        ("Categorical", {"logits": d.real(*a, 4)}),
        ("Cauchy", {"loc": d.real(*a), "scale": d.positive(*b)}),
        ("Chi2", {"df": d.positive(*a)}),
        ("ContinuousBernoulli", {"probs": d.probs(*a)}),
        ("ContinuousBernoulli", {"logits": d.real(*a) * 0.001}),
        ("Dirichlet", {"concentration": d.positive(*a, 3)}),
        ("Exponential", {"rate": d.positive(*a)}),
        ("FisherSnedecor", {"df1": d.positive(*a) + 2.1, "df2": d.positive(*b) + 4.1}),
        ("Gamma", {"concentration": d.positive(*a), "rate": d.positive(*b)}),
        (
            "GeneralizedPareto",
            {
                "loc": d.real(*a, 1),
                "scale": d.positive(*b, 1),
                "concentration": 0.3 * d.real(*a, 1),
            },
        ),
        ("Geometric", {"probs": d.probs(*a)}),
        ("Geometric", {"logits": d.real(*a)}),
        ("Gumbel", {"loc": d.real(*a), "scale": d.positive(*b)}),
        ("HalfCauchy", {"scale": d.positive(*a)}),
        ("HalfNormal", {"scale": d.positive(*a)}),
        ("InverseGamma", {"concentration": d.positive(*a) + 2, "rate": d.positive(*b)}),
        ("Kumaraswamy", {"concentration1": d.positive(*a), "concentration0": d.positive(*b)}),
        ("LKJCholesky", {"dim": 3, "concentration": d.positive(*a)}),
        ("Laplace", {"loc": d.real(*a), "scale": d.positive(*b)}),
        ("LogNormal", {"loc": d.real(*a), "scale": d.positive(*b)}),
        ("LogisticNormal", {"loc": d.real(*a, 3), "scale": d.positive(3)}),
        (
            "LowRankMultivariateNormal",
            {"loc": d.real(*a, 3), "cov_factor": d.real(*b, 3, 2), "cov_diag": d.positive(3)},
        ),
        ("Multinomial", {"total_count": 4, "probs": d.probs(*a, 3)}),
        ("Multinomial", {"total_count": 4, "logits": d.real(*a, 3)}),
        ("MultivariateNormal", {"loc": d.real(*a, 3), "covariance_matrix": d.definite(*b, 3)}),
        ("MultivariateNormal", {"loc": d.real(*a, 3), "precision_matrix": d.definite(*b, 3)}),
        ("MultivariateNormal", {"loc": d.real(*a, 3), "scale_tril": d.tril(*b, 3)}),
        ("NegativeBinomial", {"total_count": d.positive(*a), "probs": d.probs(*a)}),
        ("NegativeBinomial", {"total_count": d.positive(*a), "logits": d.real(*a)}),
        ("Normal", {"loc": d.real(*a), "scale": d.positive(*b)}),
        ("OneHotCategorical", {"probs": d.probs(*a, 4)}),
        ("OneHotCategoricalStraightThrough", {"logits": d.real(*a, 4)}),
        ("Pareto", {"scale": d.positive(*a), "alpha": d.positive(*b) + 2}),
        ("Poisson", {"rate": d.positive(*a)}),
        ("RelaxedBernoulli", {"temperature": d.positive(), "probs": d.probs(*a)}),
        ("RelaxedBernoulli", {"temperature": d.positive(), "logits": d.real(*a)}),
        ("RelaxedOneHotCategorical", {"temperature": d.positive(), "probs": d.probs(*a, 4)}),
        ("RelaxedOneHotCategorical", {"temperature": d.positive(), "logits": d.real(*a, 4)}),
        ("StudentT", {"df": d.positive(*a) + 2, "loc": d.real(*b), "scale": d.positive()}),
        ("Uniform", {"low": d.real(*a), "high": d.positive(*b) + 3}),
        ("VonMises", {"loc": d.real(*a), "concentration": d.positive(*b)}),
        ("Weibull", {"scale": d.positive(*a), "concentration": d.positive(*b) + 1}),
        ("Wishart", {"df": d.positive(*a) + 3, "covariance_matrix": d.definite(*b, 3)}),
        ("Wishart", {"df": d.positive(*a) + 3, "precision_matrix": d.definite(*b, 3)}),
        ("Wishart", {"df": d.positive(*a) + 3, "scale_tril": d.tril(*b, 3)}),
    ]


def label(index):
    """Return the name of a family for the ids of tests."""
    names = [f"{name}-{'-'.join(arguments)}" for name, arguments in families(np_library(), (), ())]
    return names[index]


def np_library():
    """Return the library under test; parameters are only named."""
    from library import torch

    return torch


COUNT = len(families(np_library(), (), ()))
IDS = [label(i) for i in range(COUNT)]
