"""In-place ops that read a view of what they write: gradients, hooks, refusals, every kind of op.

PyTorch gives the same answers where it does not refuse. It refuses to sweep back over an op that
overwrote what it saved (``mul_`` by a view of its target), where tapegrad kept a copy: there it
runs under ``allow_mutation_on_saved_tensors``.
"""

import contextlib

import pytest

from .values import constant, leaf, near

VALUES = [0.3, -0.7, 1.1, 0.5]
WEIGHTS = [1.0, -2.0, 3.0, 0.5]


def lenient(torch):
    """Return a context in which PyTorch, too, keeps what it saved apart from later writes."""
    if torch.__name__ == "torch":
        return torch.autograd.graph.allow_mutation_on_saved_tensors()
    return contextlib.nullcontext()


def mask(torch):
    return torch.tensor([True, False, True, True])


# A write to s that reads v, a view of s, and what comes out in terms of the old value.
WRITES = {
    "add_": (lambda torch, s, v: s.add_(v), lambda torch, a: a + a),
    "sub_": (lambda torch, s, v: s.sub_(v, alpha=3), lambda torch, a: a - 3 * a),
    "mul_": (lambda torch, s, v: s.mul_(v), lambda torch, a: a * a),
    "div_": (lambda torch, s, v: s.div_(v + 1), lambda torch, a: a / (a + 1)),
    "pow_": (lambda torch, s, v: s.pow_(v), lambda torch, a: a**a),
    "atan2_": (lambda torch, s, v: s.atan2_(v), lambda torch, a: torch.atan2(a, a)),
    "lerp_": (lambda torch, s, v: s.lerp_(v, 0.25), lambda torch, a: torch.lerp(a, a, 0.25)),
    "addcmul_": (lambda torch, s, v: s.addcmul_(v, v), lambda torch, a: a + a * a),
    "addcdiv_": (lambda torch, s, v: s.addcdiv_(v, v), lambda torch, a: a + a / a),
    "copy_": (lambda torch, s, v: s.copy_(v), lambda torch, a: a),
    "assign": (lambda torch, s, v: v.__setitem__(..., s), lambda torch, a: a),
    "fill_": (lambda torch, s, v: s.fill_(v[1]), lambda torch, a: a[1].expand(4)),
    "assign element": (
        lambda torch, s, v: s.__setitem__(slice(1, None), v[0]),
        lambda torch, a: torch.stack([a[0]] * 4),
    ),
    "masked_fill_": (
        lambda torch, s, v: s.masked_fill_(mask(torch), v[1]),
        lambda torch, a: a[1].expand(4),
    ),
    "masked_scatter_": (
        lambda torch, s, v: s.masked_scatter_(torch.tensor([False, False, True, True]), v),
        lambda torch, a: torch.stack([a[0], a[1], a[0], a[1]]),
    ),
    "index_fill_": (
        lambda torch, s, v: s.index_fill_(0, torch.tensor([2, 3]), v[0]),
        lambda torch, a: torch.stack([a[0], a[1], a[0], a[0]]),
    ),
    "write to the view": (lambda torch, s, v: v.mul_(s), lambda torch, a: a * a),
    "write to a part": (
        lambda torch, s, v: s[:2].add_(v[2:]),
        lambda torch, a: torch.cat([a[:2] + a[2:], a[2:]]),
    ),
    "transposed and apart": (
        lambda torch, s, v: s.view(2, 2)[:, :1].copy_(v.view(2, 2)[:, 1:]),
        lambda torch, a: torch.stack([a[1], a[1], a[3], a[3]]),
    ),
    "one of several outputs": (
        lambda torch, s, v: s[:2].mul_(v.chunk(2)[1]),
        lambda torch, a: torch.cat([a[:2] * a[2:], a[2:]]),
    ),
    "a custom function": (lambda torch, s, v: add_to(torch).apply(s, v), lambda torch, a: a + a),
    "out of the way": (
        lambda torch, s, v: s.addmv_(torch.eye(4).double(), v),
        lambda torch, a: a + a,
    ),
}


def add_to(torch):
    class AddTo(torch.autograd.Function):
        @staticmethod
        def forward(context, target, other):
            context.mark_dirty(target)
            return target.add_(other)

        @staticmethod
        def backward(context, grad):
            return grad, grad

    return AddTo


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("seen", ["view", "base", "another view"])
def test_an_op_that_writes_a_base_and_reads_a_view_of_it(torch, name, seen):
    write, plain = WRITES[name]
    weights = constant(torch, WEIGHTS)
    with lenient(torch):
        x = leaf(torch, VALUES)
        s = x * x + 2
        v, other = s.view(-1), s.view(2, 2)
        write(torch, s, v)
        result = {"view": v, "base": s, "another view": other.reshape(-1)}[seen]
        expected = plain(torch, x * x + 2)
        assert near(result, expected)
        grads = [
            torch.autograd.grad((y * weights).sum(), x, create_graph=True)[0]
            for y in (result, expected)
        ]
        assert near(grads[0], grads[1])
        second = [torch.autograd.grad((grad * weights).sum() + 0 * x.sum(), x)[0] for grad in grads]
        assert near(second[0], second[1])


def test_a_held_view_shows_a_sum_of_its_base_and_itself(torch):
    x = leaf(torch, VALUES)
    s = x * 2
    v = s.view(-1)
    s.add_(v)
    assert near(torch.autograd.grad(v.sum(), x)[0], [4.0] * 4)


def test_a_hook_on_the_base_sees_what_a_write_from_its_own_view_sends(torch):
    x, log = leaf(torch, VALUES), []
    s = x * 2
    v = s.view(-1)
    s.register_hook(lambda grad: log.append(grad.clone()))
    v[...] = v
    (v * constant(torch, WEIGHTS)).sum().backward()
    assert len(log) == 1 and near(log[0], WEIGHTS)
    assert near(x.grad, [2 * weight for weight in WEIGHTS])


def test_a_hook_on_a_view_sees_what_flows_through_it_as_an_operand(torch):
    x, log = leaf(torch, VALUES), []
    s = x * 2
    v = s.view(-1)
    v.register_hook(lambda grad: log.append(grad.clone()))
    s.add_(v * 3)
    s.sum().backward()
    assert len(log) == 1 and near(log[0], [3.0] * 4)
    assert near(x.grad, [8.0] * 4)


def test_outputs_of_unbind_may_be_read_by_the_op_that_writes_their_base(torch):
    """They may not be used afterwards: their base has another history then."""
    x = leaf(torch, [[1.0, 2.0], [3.0, 4.0]])
    s = x * 2
    first, second = s.unbind(0)
    s.index_copy_(0, torch.tensor([1]), (first + 2 * second).unsqueeze(0))
    s.sum().backward()
    assert near(x.grad, [[4.0, 4.0], [4.0, 4.0]])
    with pytest.raises(RuntimeError, match=r"modified in ?place"):
        first.sum().backward()


def test_outputs_of_unbind_keep_their_history_after_a_write_elsewhere(torch):
    x = leaf(torch, [[1.0, 2.0], [3.0, 4.0]])
    s = x * 2
    first, _ = s.unbind(0)
    (s.detach().clone().mul_(2) + first).sum().backward()
    assert near(x.grad, [[4.0, 4.0], [0.0, 0.0]])


# ---- memory that an op may not read while it writes

INDEX = [1, 0, 3, 2]


def index(torch):
    return torch.tensor(INDEX)


OVERLAPS = {
    "copy_ by one": lambda torch, s: s[1:].copy_(s[:-1]),
    "assign by one": lambda torch, s: s.__setitem__(slice(1, None), s[:-1]),
    "copy_ transposed": lambda torch, s: s.view(2, 2).copy_(s.view(2, 2).t()),
    "add_ transposed": lambda torch, s: s.view(2, 2).add_(s.view(2, 2).t()),
    "add_ by one": lambda torch, s: s[1:].add_(s[:-1]),
    "add_ element": lambda torch, s: s.add_(s[0]),
    "mul_ another order": lambda torch, s: s.view(2, 2).t().mul_(s.view(2, 2)),
    "index_copy_": lambda torch, s: s.index_copy_(0, index(torch), s.view(-1)),
    "index_add_": lambda torch, s: s.index_add_(0, index(torch), s),
    "scatter_": lambda torch, s: s.scatter_(0, index(torch), s.view(-1)),
    "scatter_add_": lambda torch, s: s.scatter_add_(0, index(torch), s.view(-1)),
    "scatter_reduce_": lambda torch, s: s.scatter_reduce_(0, index(torch), s.view(-1), "sum"),
    "put_": lambda torch, s: s.put_(index(torch), s.view(-1)),
    "index_put_": lambda torch, s: s.index_put_((index(torch),), s.view(-1)),
    "assign by index": lambda torch, s: s.__setitem__(index(torch), s.view(-1)),
    "expanded add_": lambda torch, s: s[:1].expand(3).add_(1),
    "expanded copy_": lambda torch, s: s[:1].expand(3).copy_(torch.ones(3)),
    "expanded index_copy_": lambda torch, s: (
        s[:1].expand(4).index_copy_(0, index(torch), s.clone())
    ),
    "expanded scatter_": lambda torch, s: s[:1].expand(4).scatter_(0, index(torch), s.clone()),
    "expanded cumsum_": lambda torch, s: s[:1].expand(4).cumsum_(0),
    "out= by one": lambda torch, s: torch.add(s[1:], 1, out=s[:-1]),
    "out= transposed": lambda torch, s: torch.exp(s.view(2, 2), out=s.view(2, 2).t()),
    "expanded out=": lambda torch, s: torch.add(s, 1, out=s[:1].clone().expand(4)),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_memory_that_is_read_and_written_in_another_order_is_refused(torch, name):
    s = constant(torch, VALUES)
    before = s.tolist()
    with pytest.raises(RuntimeError, match=r"unsupported operation.*single memory location"):
        OVERLAPS[name](torch, s)
    assert s.tolist() == before


APART = {
    "interleaved": (lambda s: s[::2].add_(s[1::2]), [-0.4, -0.7, 1.6, 0.5]),
    "halves": (lambda s: s[:2].copy_(s[2:]), [1.1, 0.5, 1.1, 0.5]),
    "itself": (lambda s: s.copy_(s), VALUES),
    "the same place": (lambda s: s[1:].mul_(s[1:]), [0.3, 0.49, 1.21, 0.25]),
    "columns": (lambda s: s.view(2, 2)[:, 0].add_(s.view(2, 2)[:, 1]), [-0.4, -0.7, 1.6, 0.5]),
}


@pytest.mark.parametrize("name", APART)
def test_memory_that_does_not_overlap_or_overlaps_in_full_is_written(torch, name):
    write, expected = APART[name]
    s = constant(torch, VALUES)
    write(s)
    assert near(s, expected)


def test_out_may_lie_between_the_elements_that_are_read(torch):
    s = constant(torch, VALUES)
    torch.mul(s[::2], 2, out=s[1::2])
    assert near(s, [0.3, 0.6, 1.1, 2.2])


def test_an_element_in_another_shape_is_not_the_element_itself(torch):
    """Assigned in its own shape nothing happens; in another one PyTorch calls it overlap."""
    x = torch.ones(1, 1)
    x[...] = x
    x.unsqueeze(0)[0] = x
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x.unsqueeze(0)[...] = x
