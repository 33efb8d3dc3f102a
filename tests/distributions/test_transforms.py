"""Transforms and the registries of constraints."""

import pickle

import numpy as np
import pytest
from library import pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
if pytorch is None:
    pytest.skip(REASON, allow_module_level=True)


def transforms(library):
    """Return every transform with an argument of it."""
    t = library.distributions.transforms
    d = library.distributions

    def x(*values):
        return library.tensor(values, dtype=library.float64)

    matrix = library.tensor([[0.3, -0.2], [1.1, 0.7]], dtype=library.float64)
    return [
        (t.ExpTransform(), x(-1.0, 0.5)),
        (t.PowerTransform(x(2.0, -1.5)), x(0.7, 1.9)),
        (t.SigmoidTransform(), x(-1.0, 0.5)),
        (t.SoftplusTransform(), x(-1.0, 0.5)),
        (t.TanhTransform(), x(-1.0, 0.5)),
        (t.AffineTransform(0.5, -2.0), x(-1.0, 0.5)),
        (t.AffineTransform(x(0.5, 1.0), x(2.0, -3.0), event_dim=1), x(-1.0, 0.5)),
        (t.StickBreakingTransform(), x(-1.0, 0.5, 0.2)),
        (t.CorrCholeskyTransform(), x(-1.0, 0.5, 0.2)),
        (t.ReshapeTransform((2, 2), (4,)), matrix),
        (t.IndependentTransform(t.ExpTransform(), 1), x(-1.0, 0.5)),
        (t.ComposeTransform([t.AffineTransform(1.0, 2.0), t.TanhTransform()]), x(-1.0, 0.5)),
        (t.ComposeTransform([t.ExpTransform(), t.StickBreakingTransform()]), x(-1.0, 0.5)),
        (t.CatTransform([t.ExpTransform(), t.TanhTransform()], lengths=[2, 1]), x(-1.0, 0.5, 0.2)),
        (t.StackTransform([t.ExpTransform(), t.TanhTransform()], dim=-1), x(-1.0, 0.5)),
        (t.CumulativeDistributionTransform(d.Normal(x(0.0), x(2.0))), x(-1.0, 0.5)),
        (t.ExpTransform().inv, x(1.0, 0.5)),
        (t.AbsTransform(), x(-1.0, 0.5)),
        (t.SoftmaxTransform(), x(-1.0, 0.5)),
        (t.LowerCholeskyTransform(), matrix),
        (t.PositiveDefiniteTransform(), matrix),
    ]


COUNT = len(transforms(torch))
IDS = [type(t).__name__ for t, _ in transforms(torch)]
each = pytest.mark.parametrize("index", range(COUNT), ids=IDS)


@each
def test_beside_pytorch(index):
    (ours, x), (theirs, other) = transforms(torch)[index], transforms(pytorch)[index]
    x.requires_grad_()
    other.requires_grad_()
    results = []
    for transform, value in ((ours, x), (theirs, other)):
        y = transform(value)
        found = {"forward": y, "inverse": transform.inv(y)}
        if transform.bijective:
            found["jacobian"] = transform.log_abs_det_jacobian(value, y)
        (y * y).sum().backward()
        found["gradient"] = value.grad
        facts = [transform.bijective, repr(transform), repr(transform.domain)]
        facts += [repr(transform.codomain), tuple(transform.forward_shape(value.shape))]
        facts += [tuple(transform.inverse_shape(y.shape))]
        results.append((found, facts))
    (mine, my_facts), (others, their_facts) = results
    assert my_facts == their_facts
    assert mine.keys() == others.keys()
    for key, value in mine.items():
        np.testing.assert_allclose(
            value.detach().numpy(), others[key].detach().numpy(), rtol=1e-9, atol=1e-9, err_msg=key
        )


@each
def test_jacobians(index):
    transform, x = transforms(torch)[index]
    t = torch.distributions
    # a matrix has more elements than arguments; a stack tells the volume of each slice
    if not transform.bijective or isinstance(
        transform, (t.CorrCholeskyTransform, t.StackTransform)
    ):
        return
    y = transform(x)
    jacobian = torch.autograd.functional.jacobian(transform, x)
    if transform.domain.event_dim == 0:
        expected = jacobian.diagonal().abs().log()
    else:
        rows = jacobian.reshape(-1, x.numel())[: x.numel()]  # a simplex has one less
        expected = torch.linalg.slogdet(rows).logabsdet
    found = transform.log_abs_det_jacobian(x, y)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-9)


@each
def test_round_trip_and_regions(index):
    transform, x = transforms(torch)[index]
    y = transform(x)
    assert bool(transform.codomain.check(y).all())
    if transform.bijective:
        np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-9, atol=1e-9)
        assert bool(transform.domain.check(transform.inv(y)).all())
    assert transform.inv.inv is transform
    assert transform == transform


@each
def test_caches(index):
    transform, x = transforms(torch)[index]
    cached = transform.with_cache(1)
    y = cached(x)
    if not isinstance(cached, torch.distributions.ComposeTransform):
        assert cached(x) is y
        assert cached.inv(y) is x
    assert cached.with_cache(1) is cached
    np.testing.assert_allclose(y.numpy(), transform(x).numpy())


@each
def test_pickle(index):
    transform, x = transforms(torch)[index]
    assert transform.inv is not None  # there is a weak reference, which is not pickled
    again = pickle.loads(pickle.dumps(transform))
    np.testing.assert_array_equal(again(x).numpy(), transform(x).numpy())


def test_volume_of_an_affine_event_with_one_scale():
    """One scale for all elements counts once for each; in PyTorch it counts once."""
    x = torch.ones(3)
    transform = torch.distributions.AffineTransform(0.0, torch.tensor(2.0), event_dim=1)
    torch_like = torch.distributions.AffineTransform(0.0, 2.0, event_dim=1)
    volume = transform.log_abs_det_jacobian(x, transform(x))
    assert torch.equal(volume, torch_like.log_abs_det_jacobian(x, transform(x)))


def regions(library):
    c = library.distributions.constraints
    return [
        c.real,
        c.positive,
        c.greater_than(3),
        c.greater_than_eq(3),
        c.less_than(2),
        c.interval(0, 1),
        c.interval(1, 3),
        c.half_open_interval(0, 2),
        c.simplex,
        c.corr_cholesky,
        c.real_vector,
        c.independent(c.positive, 1),
        c.cat([c.positive, c.real], 0, [2, 1]),
        c.stack([c.positive, c.real, c.simplex][:2], -1),
        c.unit_interval,
        c.nonnegative,
        c.lower_cholesky,
        c.positive_definite,
    ]


@pytest.mark.parametrize("index", range(len(regions(torch))))
@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_registries(index, registry):
    found = []
    for library in (torch, pytorch):
        region = regions(library)[index]
        try:
            transform = getattr(library.distributions, registry)(region)
        except NotImplementedError as error:
            found.append(str(error))
            continue
        size = 2 if "Stack" in repr(region) else 3
        shape = (3, 3) if transform.domain.event_dim == 2 else (size,)
        y = transform(library.linspace(-1, 1, shape[0] ** len(shape)).reshape(shape))
        assert bool(region.check(y).all())
        found.append((repr(transform), y.tolist()))
    if isinstance(found[0], str):
        assert found[0] == found[1]
    else:
        assert found[0][0] == found[1][0]
        np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-5, atol=1e-6)


CHECKS = """
c.simplex.check(t([0.5, 0.5000009]))
c.simplex.check(t([0.5, 0.500002]))
c.corr_cholesky.check(L.eye(3))
c.corr_cholesky.check(2 * L.eye(3))
c.symmetric.check(t([[1.0, 1.000001], [1.0, 1.0]]))
c.symmetric.check(t([[1.0, 1.1], [1.0, 1.0]]))
c.square.check(L.ones(2, 3))
c.square.check(L.ones(4, 2, 2))
c.one_hot.check(t([[0, 1.0], [1, 1]]))
c.boolean.check(t([[0, 1.0], [1, 2]]))
c.multinomial(3).check(t([[1, 2.0], [1, 1], [4, -1]]))
c.real_vector.check(t([1.0, float("nan")]))
c.cat([c.positive, c.real], 0, [1, 1]).check(t([1.0, -1.0]))
c.stack([c.positive, c.real]).check(t([1.0, -1.0]))
c.stack([c.positive, c.real]).check(t([-1.0, -1.0]))
c.interval(0, 1).check(t([0.0, 1.0, 2.0]))
c.half_open_interval(0, 1).check(t([0.0, 1.0]))
c.integer_interval(0, 1).check(t([0.5, 1.0]))
c.nonnegative_integer.check(t([0.5, 1.0, -1.0]))
c.lower_cholesky.check(t([[1.0, 0], [1, -1]]))
c.lower_triangular.check(t([[1.0, 1], [1, -1]]))
c.positive_semidefinite.check(t([[1.0, 0], [0, 0]]))
c.positive_definite.check(t([[1.0, 0], [0, 0]]))
c.positive_definite.check(t([[[2.0, 1], [1, 2]], [[1.0, 2], [2, 1]]]))
c.MixtureSameFamilyConstraint(c.positive).check(t([1.0, -1]))
c.MixtureSameFamilyConstraint(c.simplex).check(t([[0.5, 0.5], [1.0, 1.0]]))
c.is_dependent(D.Binomial.support)
""".strip().splitlines()


@pytest.mark.parametrize("check", CHECKS)
def test_constraints(check):
    found = []
    for library in (torch, pytorch):
        d = library.distributions
        names = {"L": library, "D": d, "t": library.tensor, "c": d.constraints}
        result = eval(check, names)
        found.append(result if isinstance(result, bool) else (str(result.dtype), result.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("diag", [-1, 0])
def test_triangles(diag):
    utils, theirs = torch.distributions.utils, pytorch.distributions.utils
    vector = torch.arange(12.0).reshape(2, 6)
    matrix = utils.vec_to_tril_matrix(vector, diag)
    expected = theirs.vec_to_tril_matrix(pytorch.arange(12.0).reshape(2, 6), diag)
    np.testing.assert_array_equal(matrix.numpy(), expected.numpy())
    assert torch.equal(utils.tril_matrix_to_vec(matrix, diag), vector)
