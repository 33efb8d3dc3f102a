"""What is refused, in PyTorch's words."""

import warnings

import pytest
from library import pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
if pytorch is None:
    pytest.skip(REASON, allow_module_level=True)

CALLS = """
D.Normal(t([0.0, 1.0]), t([1.0, -2.0]))
D.Normal(0.0, -2.0)
D.Normal(0.0, 1.0).log_prob(3.0)
D.Normal(t([0.0, 1.0]), 1.0).log_prob(t([1.0, 2.0, 3.0]))
D.Normal(0.0, 1.0).log_prob(t(float("nan")))
D.Bernoulli(t(0.5)).log_prob(t(0.5))
D.Bernoulli()
D.Bernoulli(0.5, 0.5)
D.Bernoulli(2.0)
D.Categorical(t(0.5))
D.Categorical(logits=t(0.5))
D.Categorical()
D.Categorical(t([0.5, -0.5]))
D.Categorical(t([0.5, 0.5])).log_prob(t([1, 2]))
D.OneHotCategorical(t([0.5, 0.5])).log_prob(t([0.5, 0.5]))
D.Multinomial(t([1]), t([0.5, 0.5]))
D.Multinomial(1, t(0.5))
D.Binomial(t([3, 4]), t([0.5, 0.5])).enumerate_support()
D.Binomial(t([3, 4]), t([0.5, 0.5])).entropy()
D.Binomial(t([3, 4]))
D.Geometric()
D.Geometric(0.0)
D.Geometric(t([0.0, 0.5]))
D.NegativeBinomial(3)
D.NegativeBinomial(3, 1.0)
D.ContinuousBernoulli()
D.ContinuousBernoulli(2.0, validate_args=True)
D.Uniform(1.0, 0.0)
D.Uniform(t([1.0, 0.0]), t([0.0, 1.0]))
D.Uniform(0.0, 1.0).log_prob(t(2.0))
D.Dirichlet(t(1.0))
D.Dirichlet(t([1.0, -1.0]))
D.Beta(-1.0, 1.0)
D.Gamma(1.0, t([-1.0]))
D.Poisson(-1.0)
D.MultivariateNormal(t(1.0), t(1.0))
D.MultivariateNormal(t([1.0]), t([1.0]))
D.MultivariateNormal(t([1.0, 2.0]))
D.MultivariateNormal(t([1.0, 2.0]), L.eye(2), L.eye(2))
D.MultivariateNormal(t([1.0, 2.0]), -L.ones(2, 2))
D.MultivariateNormal(t([1.0, 2.0]), precision_matrix=L.ones(2))
D.MultivariateNormal(t([1.0, 2.0]), scale_tril=L.ones(2))
D.MultivariateNormal(t([1.0, 2.0]), L.eye(2)).log_prob(t([1.0, 2.0, 3.0]))
D.LowRankMultivariateNormal(t(1.0), t(1.0), t(1.0))
D.LowRankMultivariateNormal(t([1.0]), t(1.0), t(1.0))
D.LowRankMultivariateNormal(t([1.0]), L.ones(2, 1), t([1.0]))
D.LowRankMultivariateNormal(t([1.0]), L.ones(1, 1), L.ones(2))
D.LowRankMultivariateNormal(L.ones(2), L.ones(3, 2, 1), L.ones(4, 2))
D.Independent(D.Normal(0.0, 1.0), 2)
D.Independent(D.Categorical(t([[0.5, 0.5]])), 1).enumerate_support()
D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0))
D.MixtureSameFamily(D.Categorical(t([0.5, 0.5])), 1)
D.MixtureSameFamily(D.Categorical(t([0.5, 0.5])), D.Normal(L.zeros(3), L.ones(3)))
D.MixtureSameFamily(D.Categorical(t([[0.5, 0.5]] * 4)), D.Normal(L.zeros(3, 2), L.ones(3, 2)))
D.TransformedDistribution(D.Normal(0.0, 1.0), 3)
D.TransformedDistribution(D.Normal(0.0, 1.0), [3])
D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform())
D.TransformedDistribution(D.Normal(0.0, 1.0), D.ExpTransform()).entropy()
D.TransformedDistribution(D.Normal(0.0, 1.0), D.AbsTransform()).log_prob(t(1.0))
D.LKJCholesky(1)
D.LKJCholesky(3, -1.0)
D.LKJCholesky(3).log_prob(L.eye(2))
D.LKJCholesky(3).log_prob(L.ones(3, 3))
D.Wishart(t([1.0]), L.eye(2))
D.Wishart(2.0)
D.Wishart(t(3.0), L.ones(2))
D.Wishart(t([3.5]), L.eye(2), L.eye(2))
D.kl_divergence(D.Gumbel(0.0, 1.0), D.Laplace(0.0, 1.0))
D.kl_divergence(D.Binomial(2, t(0.2)), D.Binomial(3, t(0.2)))
D.kl_divergence(*[D.Independent(D.Normal(t([0.0]), 1.0), n) for n in (0, 1)])
D.biject_to(3)
D.biject_to(c.dependent)
D.biject_to(c.boolean)
D.biject_to.register(3, 3)
D.biject_to(c.positive_definite)
D.utils.broadcast_all([1], t(1))
D.Distribution.set_default_validate_args(3)
D.Distribution(validate_args=False).mean
D.Distribution(validate_args=False).entropy()
D.Distribution(validate_args=False).expand((2,))
D.Normal(0.0, 1.0).enumerate_support()
D.Beta(1.0, 2.0).cdf(t(0.5))
x.Transform(2)
x.Transform()(t(1.0))
x.Transform().sign
x.ReshapeTransform((2, 3), (5,))
x.ReshapeTransform((2, 3), (6,)).forward_shape((3,))
x.ReshapeTransform((2, 3), (6,)).forward_shape((3, 2))
x.CorrCholeskyTransform().forward_shape(())
x.CorrCholeskyTransform().forward_shape((4,))
x.CorrCholeskyTransform().inverse_shape((4,))
x.CorrCholeskyTransform().inverse_shape((4, 3))
x.StickBreakingTransform().forward_shape(())
x.SoftmaxTransform().inverse_shape(())
x.IndependentTransform(x.ExpTransform(), 1)(t(1.0))
x.IndependentTransform(x.ExpTransform(), 1).inv(t(1.0))
x.CatTransform([1])
x.CatTransform([x.ExpTransform()], lengths=[1, 2])
x.CatTransform([x.ExpTransform()], lengths=[2])(t([1.0]))
x.CatTransform([x.ExpTransform()], lengths=[2], dim=3)(t([1.0]))
x.StackTransform([x.ExpTransform()])(t([1.0, 2.0]))
x.AbsTransform().log_abs_det_jacobian(1, 1)
hash(x.ExpTransform())
c.independent(c.real, 2).check(t([1.0]))
c.dependent.check(1)
c.dependent.event_dim
c.Constraint().check(1)
c.cat([1], 0)
c.cat([c.real], 0, [1, 1])
c.cat([c.real], 1, [1]).check(t([1.0]))
c.MixtureSameFamilyConstraint(3)
D.utils.vec_to_tril_matrix(L.arange(5.0), -1)
D.utils.tril_matrix_to_vec(L.arange(9.0).view(3, 3), 3)
""".strip().splitlines()


def refusal(library, call):
    d = library.distributions
    names = {"L": library, "D": d, "t": library.tensor, "c": d.constraints, "x": d.transforms}
    with pytest.raises(Exception) as caught:
        eval(call, names)
    return caught.value


@pytest.mark.parametrize("call", CALLS)
def test_refusals(call):
    ours, theirs = refusal(torch, call), refusal(pytorch, call)
    assert isinstance(ours, type(theirs)), (ours, theirs)
    if "<class" not in str(theirs):
        assert str(ours) == str(theirs)


def test_warnings():
    def messages(library):
        d = library.distributions

        class Bare(d.Distribution):
            pass

        class Special(d.Normal):
            pass

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            Bare(validate_args=True)
            Bare.arg_constraints = {}
            Bare()._validate_sample(library.ones(1))
            d.Normal(0.0, 1.0).sample_n(2)
            d.Wishart(library.tensor([1.5]), library.eye(2))
            d.register_kl(d.Normal, Special)(lambda p, q: 1)
            d.register_kl(Special, d.Normal)(lambda p, q: 2)
            assert d.kl_divergence(Special(0.0, 1.0), Special(0.0, 1.0)) == 2
        for pair in ((d.Normal, Special), (Special, d.Normal)):
            del d.kl._KL_REGISTRY[pair]
        d.kl._KL_MEMOIZE.clear()
        return [
            (w.category, str(w.message).partition(" does not")[2] or str(w.message)) for w in caught
        ]

    assert messages(torch) == messages(pytorch)


def test_custom_init_needs_custom_expand():
    for library in (torch, pytorch):

        class Standard(library.distributions.Normal):
            def __init__(self):
                super().__init__(0.0, 1.0)

        with pytest.raises(NotImplementedError, match=r"must also define a custom \.expand"):
            Standard().expand((2,))


def test_register_kl_takes_classes_of_distributions():
    with pytest.raises(TypeError, match="Expected type_q to be a Distribution subclass but got 4"):
        torch.distributions.register_kl(torch.distributions.Normal, 4)
