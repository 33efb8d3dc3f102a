"""vmap: dimensions, structures, randomness, chunks, nesting, errors, in-place ops, many ops."""

import pytest

from .values import constant, leaf, near


def test_the_first_dimension_is_mapped(torch):
    x = constant(torch, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    shapes = []
    out = torch.func.vmap(lambda row: shapes.append(tuple(row.shape)) or row.sum())(x)
    assert shapes == [(2,)] and out.tolist() == [3.0, 7.0, 11.0]


def test_torch_vmap_is_func_vmap(torch):
    out = torch.vmap(lambda row: row * 2)(constant(torch, [1.0, 2.0]))
    assert out.tolist() == [2.0, 4.0]


def test_inside_the_mapped_dimension_is_hidden(torch):
    seen = []

    def look(row):
        seen.append((row.dim(), row.numel(), tuple(row.size())))
        return row

    torch.func.vmap(look)(torch.ones(5, 2, 3))
    assert seen == [(2, 6, (2, 3))]


def test_in_dims_chooses_the_dimension(torch):
    x = constant(torch, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert torch.func.vmap(lambda column: column.sum(), in_dims=1)(x).tolist() == [9.0, 12.0]
    assert torch.func.vmap(lambda column: column.sum(), in_dims=-1)(x).tolist() == [9.0, 12.0]


def test_in_dims_per_argument(torch):
    x, y = constant(torch, [[1.0, 2.0]]), constant(torch, [[1.0], [10.0]])
    out = torch.func.vmap(lambda a, b: a * b, in_dims=(1, 0))(x, y)
    assert out.tolist() == [[1.0], [20.0]]


def test_in_dims_none_shares_an_argument(torch):
    x, y = constant(torch, [1.0, 2.0]), constant(torch, [10.0, 20.0, 30.0])
    out = torch.func.vmap(lambda a, b: a * b, in_dims=(0, None))(x, y)
    assert out.tolist() == [[10.0, 20.0, 30.0], [20.0, 40.0, 60.0]]


def test_in_dims_follow_the_structure_of_the_inputs(torch):
    inputs = {"x": constant(torch, [[1.0, 2.0]]), "y": constant(torch, 5.0)}
    out = torch.func.vmap(lambda d: d["x"] * d["y"], in_dims=({"x": 1, "y": None},))(inputs)
    assert out.tolist() == [[5.0], [10.0]]


def test_nested_inputs_and_outputs(torch):
    def function(pair):
        a, (b, c) = pair
        return {"sum": a + b, "rest": [c * 2]}

    x = constant(torch, [1.0, 2.0])
    out = torch.func.vmap(function)((x, (x * 10, x * 100)))
    assert out["sum"].tolist() == [11.0, 22.0] and out["rest"][0].tolist() == [200.0, 400.0]


def test_out_dims(torch):
    x = constant(torch, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    out = torch.func.vmap(lambda row: row * 2, out_dims=1)(x)
    assert out.shape == (3, 2) and out.tolist() == [[2.0, 8.0], [4.0, 10.0], [6.0, 12.0]]
    assert torch.func.vmap(lambda row: row, out_dims=-1)(x).shape == (3, 2)


def test_out_dims_per_output(torch):
    x = torch.ones(2, 3)
    first, second = torch.func.vmap(lambda row: (row, row), out_dims=(0, 1))(x)
    assert first.shape == (2, 3) and second.shape == (3, 2)


def test_out_dims_none_returns_what_does_not_depend_on_the_batch(torch):
    first, second = torch.func.vmap(lambda row: (row, torch.ones(4)), out_dims=(0, None))(
        torch.ones(2, 3)
    )
    assert first.shape == (2, 3) and second.shape == (4,)


def test_an_output_that_does_not_depend_on_the_batch_is_repeated(torch):
    out = torch.func.vmap(lambda row: constant(torch, [1.0, 2.0]))(torch.ones(3, 2))
    assert out.tolist() == [[1.0, 2.0]] * 3


def test_several_outputs_are_a_tuple(torch):
    x = constant(torch, [1.0, 2.0])
    out = torch.func.vmap(lambda v: (v, v * 2))(x)
    assert isinstance(out, tuple) and out[1].tolist() == [2.0, 4.0]


def test_keyword_arguments_are_shared(torch):
    x, y = constant(torch, [1.0, 2.0]), constant(torch, [10.0, 20.0])
    out = torch.func.vmap(lambda a, *, b: a * b)(x, b=y)
    assert out.tolist() == [[10.0, 20.0], [20.0, 40.0]]


def test_arguments_that_are_not_tensors_need_none(torch):
    x = constant(torch, [1.0, 2.0])
    assert torch.func.vmap(lambda a, n: a * n, in_dims=(0, None))(x, 3).tolist() == [3.0, 6.0]
    with pytest.raises(ValueError):
        torch.func.vmap(lambda a, n: a * n)(x, 3)


def test_a_number_as_output_is_refused(torch):
    with pytest.raises(ValueError):
        torch.func.vmap(lambda row: 3.0)(torch.ones(2, 3))


def test_sizes_that_differ_are_refused(torch):
    with pytest.raises(ValueError):
        torch.func.vmap(lambda a, b: a)(torch.ones(2), torch.ones(3))


def test_a_dimension_out_of_range_is_refused(torch):
    with pytest.raises(ValueError):
        torch.func.vmap(lambda a: a, in_dims=2)(torch.ones(2, 3))


def test_a_scalar_cannot_be_mapped(torch):
    with pytest.raises(ValueError):
        torch.func.vmap(lambda a: a)(torch.tensor(1.0))


def test_nothing_to_map_is_refused(torch):
    with pytest.raises(ValueError):
        torch.func.vmap(lambda a: a, in_dims=None)(torch.ones(2))
    with pytest.raises(ValueError):
        torch.func.vmap(lambda: torch.ones(2))()


def test_in_dims_of_another_structure_are_refused(torch):
    with pytest.raises(ValueError):
        torch.func.vmap(lambda a, b: a, in_dims=(0,))(torch.ones(2), torch.ones(2))


def test_item_inside_vmap_is_refused(torch):
    with pytest.raises(RuntimeError, match="vmap"):
        torch.func.vmap(lambda v: v * v.item())(torch.ones(2))


def test_data_dependent_control_flow_is_refused(torch):
    with pytest.raises(RuntimeError, match="vmap"):
        torch.func.vmap(lambda v: v if v.sum() > 0 else -v)(torch.ones(2, 3))


def test_a_result_of_unknown_size_is_refused(torch):
    with pytest.raises(RuntimeError, match="vmap"):
        torch.func.vmap(lambda row: row.nonzero())(torch.ones(2, 3))


def test_vmap_nests(torch):
    x, y = constant(torch, [1.0, 2.0]), constant(torch, [1.0, 10.0, 100.0])
    table = torch.func.vmap(
        lambda a: torch.func.vmap(lambda b: a * b)(y),
    )(x)
    assert table.tolist() == [[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]]


def test_nested_vmap_over_two_dimensions_of_one_tensor(torch):
    x = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4)
    out = torch.func.vmap(torch.func.vmap(lambda row: row.sum()), in_dims=1)(x)
    assert near(out, x.sum(2).t())


def test_three_levels(torch):
    x = torch.arange(8, dtype=torch.float64).reshape(2, 2, 2)
    double = torch.func.vmap(torch.func.vmap(torch.func.vmap(lambda v: v * 2)))
    assert near(double(x), x * 2)


def test_an_exception_inside_vmap_leaves_a_clean_state(torch):
    def fail(row):
        raise KeyError

    with pytest.raises(KeyError):
        torch.func.vmap(fail)(torch.ones(2, 3))
    assert torch.func.vmap(lambda v: v + 1)(torch.ones(2)).tolist() == [2.0, 2.0]


def test_broadcasting_aligns_the_inner_shapes(torch):
    x = torch.ones(4, 3, dtype=torch.float64)
    y = torch.ones(4, 2, 3, dtype=torch.float64)
    assert torch.func.vmap(lambda a, b: a + b)(x, y).shape == (4, 2, 3)


def test_a_captured_tensor_is_shared(torch):
    w = constant(torch, [[1.0, 2.0], [3.0, 4.0]])
    x = constant(torch, [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert torch.func.vmap(lambda row: w @ row)(x).tolist() == [[1.0, 3.0], [2.0, 4.0], [3.0, 7.0]]


def test_randomness_is_refused_by_default(torch):
    with pytest.raises(RuntimeError, match="random"):
        torch.func.vmap(lambda row: row + torch.rand(3))(torch.ones(2, 3))


def test_randomness_different(torch):
    out = torch.func.vmap(lambda row: torch.rand(3), randomness="different")(torch.ones(2, 3))
    assert out.shape == (2, 3) and not torch.equal(out[0], out[1])


def test_randomness_same(torch):
    out = torch.func.vmap(lambda row: row * 0 + torch.rand(3), randomness="same")(torch.ones(2, 3))
    assert torch.equal(out[0], out[1]) and out[0].std() > 0


def test_randomness_of_ops_that_follow_a_mapped_tensor(torch):
    x = torch.ones(2, 50)
    with pytest.raises(RuntimeError, match="random"):
        torch.func.vmap(torch.rand_like)(x)
    out = torch.func.vmap(torch.rand_like, randomness="different")(x)
    assert not torch.equal(out[0], out[1])
    out = torch.func.vmap(torch.rand_like, randomness="same")(x)
    assert torch.equal(out[0], out[1])


def test_an_unknown_randomness_is_refused(torch):
    with pytest.raises((RuntimeError, ValueError)):
        torch.func.vmap(lambda row: row, randomness="maybe")(torch.ones(2))


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 5, 100])
def test_chunks_give_the_same_result(torch, chunk_size):
    x = torch.arange(10, dtype=torch.float64).reshape(5, 2)
    out = torch.func.vmap(lambda row: row.cumsum(0), chunk_size=chunk_size)(x)
    assert near(out, x.cumsum(1))


def test_the_function_runs_once_per_chunk(torch):
    calls = []
    torch.func.vmap(lambda row: calls.append(1) or row, chunk_size=2)(torch.ones(5, 2))
    assert len(calls) == 3


def test_chunk_size_must_be_positive(torch):
    with pytest.raises(ValueError):
        torch.func.vmap(lambda row: row, chunk_size=0)(torch.ones(5, 2))


def test_in_place_on_a_mapped_tensor(torch):
    def function(row):
        row = row.clone()
        row.mul_(2)
        row[0] = 7.0
        return row

    out = torch.func.vmap(function)(constant(torch, [[1.0, 2.0], [3.0, 4.0]]))
    assert out.tolist() == [[7.0, 4.0], [7.0, 8.0]]


def test_in_place_on_an_input_changes_the_input(torch):
    x = constant(torch, [[1.0], [2.0]])
    torch.func.vmap(lambda row: row.add_(10))(x)
    assert x.tolist() == [[11.0], [12.0]]


def test_in_place_of_a_mapped_value_into_a_shared_tensor_is_refused(torch):
    shared = torch.zeros(2, dtype=torch.float64)
    with pytest.raises(RuntimeError):
        torch.func.vmap(lambda row: shared.add_(row))(torch.ones(3, 2, dtype=torch.float64))


def test_in_place_through_a_view_inside_vmap(torch):
    def function(matrix):
        matrix = matrix.clone()
        matrix.diagonal().mul_(10)
        return matrix

    x = torch.ones(2, 2, 2, dtype=torch.float64)
    assert torch.func.vmap(function)(x).tolist() == [[[10.0, 1.0], [1.0, 10.0]]] * 2


def test_new_zeros_makes_a_mapped_buffer(torch):
    def function(row):
        buffer = row.new_zeros(3)
        buffer[1] = row.sum()
        return buffer

    out = torch.func.vmap(function)(constant(torch, [[1.0, 2.0], [3.0, 4.0]]))
    assert out.tolist() == [[0.0, 3.0, 0.0], [0.0, 7.0, 0.0]]


def test_backward_through_vmap(torch):
    x = leaf(torch, [[1.0, 2.0], [3.0, 4.0]])
    torch.func.vmap(lambda row: (row**2).sum())(x).sum().backward()
    assert near(x.grad, [[2.0, 4.0], [6.0, 8.0]])


def test_backward_to_a_captured_leaf_sums_over_the_batch(torch):
    w = leaf(torch, [2.0])
    x = constant(torch, [[1.0], [2.0], [3.0]])
    torch.func.vmap(lambda row: row * w)(x).sum().backward()
    assert w.grad.tolist() == [6.0]


def test_per_sample_gradients(torch):
    w = torch.linspace(-1.0, 1.0, 6, dtype=torch.float64).reshape(3, 2)
    inputs = torch.linspace(0.0, 1.0, 12, dtype=torch.float64).reshape(4, 3)
    targets = torch.linspace(1.0, 2.0, 8, dtype=torch.float64).reshape(4, 2)

    def loss(weight, x, y):
        return ((torch.tanh(x @ weight) - y) ** 2).sum()

    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(w, inputs, targets)
    singles = [torch.func.grad(loss)(w, x, y) for x, y in zip(inputs, targets, strict=True)]
    assert per_sample.shape == (4, 3, 2) and near(per_sample, torch.stack(singles))


def test_per_sample_gradients_of_a_dictionary_of_parameters(torch):
    params = {"w": constant(torch, [2.0, 3.0]), "b": constant(torch, 1.0)}
    x = constant(torch, [[1.0, 2.0], [3.0, 4.0]])

    def loss(p, row):
        return ((p["w"] * row).sum() + p["b"]) ** 2

    grads = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(params, x)
    assert near(grads["w"], [[18.0, 36.0], [114.0, 152.0]]) and near(grads["b"], [18.0, 38.0])


def test_grad_of_vmap(torch):
    x = constant(torch, [[1.0, 2.0], [3.0, 4.0]])
    grad = torch.func.grad(lambda t: torch.func.vmap(lambda row: row.prod())(t).sum())(x)
    assert near(grad, [[2.0, 1.0], [4.0, 3.0]])


def test_vmap_of_a_second_derivative(torch):
    x = constant(torch, [1.0, 2.0, 3.0])
    second = torch.func.vmap(torch.func.grad(torch.func.grad(lambda v: v**4)))
    assert near(second(x), [12.0, 48.0, 108.0])


def test_vmap_over_jvp(torch):
    x, directions = constant(torch, [1.0, 2.0]), torch.eye(2, dtype=torch.float64)
    push = torch.func.vmap(lambda v: torch.func.jvp(lambda t: t**2, (x,), (v,))[1])
    assert near(push(directions), [[2.0, 0.0], [0.0, 4.0]])


def test_vmap_over_vjp(torch):
    _, pull = torch.func.vjp(lambda t: t**2, constant(torch, [1.0, 2.0]))
    (rows,) = torch.func.vmap(pull)(torch.eye(2, dtype=torch.float64))
    assert near(rows, [[2.0, 0.0], [0.0, 4.0]])


def test_vmap_over_hessian(torch):
    x = constant(torch, [[1.0, 2.0], [3.0, 4.0]])
    out = torch.func.vmap(torch.func.hessian(lambda v: v[0] ** 2 * v[1]))(x)
    assert near(out, [[[4.0, 2.0], [2.0, 0.0]], [[8.0, 6.0], [6.0, 0.0]]])


def test_an_ensemble_of_models(torch):
    weights = torch.linspace(-1.0, 1.0, 24, dtype=torch.float64).reshape(4, 3, 2)
    x = torch.linspace(0.0, 1.0, 15, dtype=torch.float64).reshape(5, 3)
    out = torch.func.vmap(lambda w, t: t @ w, in_dims=(0, None))(weights, x)
    assert near(out, torch.stack([x @ w for w in weights]))


def test_a_batched_dot_product(torch):
    x = torch.arange(6, dtype=torch.float64).reshape(3, 2)
    assert near(torch.func.vmap(torch.dot)(x, x), (x * x).sum(1))


UNARY = {
    "abs": lambda torch, t: t.abs(),
    "exp": lambda torch, t: t.exp(),
    "sum": lambda torch, t: t.sum(),
    "sum_dim": lambda torch, t: t.sum(0),
    "sum_negative_dim": lambda torch, t: t.sum(-1, keepdim=True),
    "mean": lambda torch, t: t.mean(1),
    "amax": lambda torch, t: t.amax(0),
    "max_dim": lambda torch, t: t.max(0).values,
    "argmax": lambda torch, t: t.argmax(1),
    "argmax_all": lambda torch, t: t.argmax(),
    "all": lambda torch, t: (t > -100).all(),
    "any": lambda torch, t: (t > 0).any(0),
    "var": lambda torch, t: t.var(1),
    "std": lambda torch, t: t.std(),
    "norm": lambda torch, t: t.norm(dim=0),
    "prod": lambda torch, t: t.prod(0),
    "cumsum": lambda torch, t: t.cumsum(1),
    "logsumexp": lambda torch, t: t.logsumexp(0),
    "softmax": lambda torch, t: t.softmax(-1),
    "log_softmax": lambda torch, t: t.log_softmax(0),
    "sort": lambda torch, t: t.sort(0).values,
    "topk": lambda torch, t: t.topk(2, 1).values,
    "transpose": lambda torch, t: t.t(),
    "permute": lambda torch, t: t.permute(1, 0),
    "movedim": lambda torch, t: t.movedim(0, 1),
    "reshape": lambda torch, t: t.reshape(-1),
    "view": lambda torch, t: t.view(4, 3),
    "flatten": lambda torch, t: t.flatten(),
    "unflatten": lambda torch, t: t.unflatten(1, (2, 2)),
    "unsqueeze": lambda torch, t: t.unsqueeze(-1),
    "squeeze": lambda torch, t: t.unsqueeze(0).squeeze(),
    "expand": lambda torch, t: t.unsqueeze(0).expand(2, 3, 4),
    "repeat": lambda torch, t: t.repeat(2, 1),
    "select": lambda torch, t: t[1],
    "slice": lambda torch, t: t[:, 1:3],
    "strided_slice": lambda torch, t: t[::2],
    "narrow": lambda torch, t: t.narrow(1, 1, 2),
    "index_tensor": lambda torch, t: t[torch.tensor([2, 0])],
    "index_two_tensors": lambda torch, t: t[torch.tensor([2, 0]), torch.tensor([1, 3])],
    "index_select": lambda torch, t: t.index_select(1, torch.tensor([3, 0])),
    "gather": lambda torch, t: t.gather(1, torch.tensor([[0], [2], [1]])),
    "diagonal": lambda torch, t: t.diagonal(),
    "tril": lambda torch, t: t.tril(),
    "flip": lambda torch, t: t.flip(0),
    "roll": lambda torch, t: t.roll(1, 1),
    "unbind": lambda torch, t: t.unbind(0)[1],
    "split": lambda torch, t: t.split(2, 1)[1],
    "chunk": lambda torch, t: t.chunk(3)[2],
    "cat": lambda torch, t: torch.cat([t, t * 2], 1),
    "stack": lambda torch, t: torch.stack([t, t * 2]),
    "where": lambda torch, t: torch.where(t > 0, t, t * 0),
    "clamp": lambda torch, t: t.clamp(-1, 1),
    "matmul": lambda torch, t: t @ t.t(),
    "mv": lambda torch, t: t @ t[0],
    "einsum": lambda torch, t: torch.einsum("ij,kj->ik", t, t),
    "outer": lambda torch, t: torch.outer(t[0], t[1]),
    "masked_fill": lambda torch, t: t.masked_fill(t > 0, 0.0),
    "scatter": lambda torch, t: t.scatter(1, torch.tensor([[0], [2], [1]]), 9.0),
    "index_add": lambda torch, t: t.index_add(0, torch.tensor([0, 0, 1]), t),
    "pow": lambda torch, t: t.abs() ** 1.5,
    "remainder": lambda torch, t: t % 2,
    "cast": lambda torch, t: t.float(),
    "zeros_like": lambda torch, t: torch.zeros_like(t) + t,
    "unfold": lambda torch, t: t.unfold(1, 2, 1),
    "tile": lambda torch, t: t.tile(2),
    "atan2": lambda torch, t: torch.atan2(t, t.flip(0)),
    "lerp": lambda torch, t: torch.lerp(t, t.flip(1), 0.3),
    "addmm": lambda torch, t: torch.addmm(t @ t.t(), t, t.t(), beta=0.5),
    "bmm": lambda torch, t: torch.bmm(t.unsqueeze(0), t.t().unsqueeze(0)),
}


@pytest.mark.parametrize("in_dim", [0, 1, 2])
@pytest.mark.parametrize("name", UNARY)
def test_an_op_under_vmap_is_the_op_in_a_loop(torch, name, in_dim):
    function = UNARY[name]
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    expected = torch.stack([function(torch, row) for row in x])
    given = x.movedim(0, in_dim)
    found = torch.func.vmap(lambda row: function(torch, row), in_dims=in_dim)(given)
    assert found.dtype is expected.dtype
    assert near(found.double(), expected.double())


BINARY = {
    "add": lambda torch, a, b: a + b,
    "mul": lambda torch, a, b: a * b,
    "sub_alpha": lambda torch, a, b: torch.sub(a, b, alpha=2),
    "div": lambda torch, a, b: a / (b.abs() + 1),
    "maximum": lambda torch, a, b: torch.maximum(a, b),
    "comparison": lambda torch, a, b: (a > b).double(),
    "matmul": lambda torch, a, b: a @ b.t(),
    "cat": lambda torch, a, b: torch.cat([a, b]),
    "stack": lambda torch, a, b: torch.stack([a, b], -1),
    "where": lambda torch, a, b: torch.where(a > b, a, b),
    "outer_broadcast": lambda torch, a, b: a.unsqueeze(0) * b.unsqueeze(1),
    "einsum": lambda torch, a, b: torch.einsum("ij,ij->i", a, b),
    "lerp": lambda torch, a, b: torch.lerp(a, b, 0.25),
    "addcmul": lambda torch, a, b: torch.addcmul(a, a, b, value=0.5),
}


@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0), (1, 2)])
@pytest.mark.parametrize("name", BINARY)
def test_two_operands_with_every_choice_of_dimensions(torch, name, in_dims):
    function = BINARY[name]
    a, b = torch.randn(5, 2, 3, dtype=torch.float64), torch.randn(5, 2, 3, dtype=torch.float64)
    rows = [
        (a[0] if in_dims[0] is None else a[i], b[0] if in_dims[1] is None else b[i])
        for i in range(5)
    ]
    expected = torch.stack([function(torch, *row) for row in rows])
    given = [
        t[0] if dim is None else t.movedim(0, dim) for t, dim in zip((a, b), in_dims, strict=True)
    ]
    found = torch.func.vmap(lambda x, y: function(torch, x, y), in_dims=in_dims)(*given)
    assert near(found, expected)


def test_a_mapped_index_takes_a_different_element_of_each_row(torch):
    x = constant(torch, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    index = torch.tensor([2, 0])
    assert torch.func.vmap(lambda row, i: row[i])(x, index).tolist() == [3.0, 4.0]


def test_a_mapped_index_into_a_shared_table(torch):
    table, index = constant(torch, [10.0, 20.0, 30.0]), torch.tensor([[0, 2], [1, 1]])
    out = torch.func.vmap(lambda i: table[i])(index)
    assert out.tolist() == [[10.0, 30.0], [20.0, 20.0]]


def test_a_batch_of_one_element(torch):
    assert torch.func.vmap(lambda row: row.sum())(torch.ones(1, 3)).tolist() == [3.0]


def test_integers_and_booleans_are_mapped_too(torch):
    x = torch.tensor([[1, 2], [3, 4]])
    assert torch.func.vmap(lambda row: row.sum())(x).tolist() == [3, 7]
    assert torch.func.vmap(lambda row: (row > 2).any())(x).tolist() == [False, True]
