"""Blocks of autocast: nesting, threads, decorators, casts that are kept, warnings and errors."""

import gc
import re
import threading

import pytest
from library import IS_TORCH, torch

FULL, LOWER, HALF = torch.float32, torch.bfloat16, torch.float16
linear = torch.nn.functional.linear
better = pytest.mark.skipif(IS_TORCH, reason="PyTorch does not do this right")


@pytest.fixture
def x():
    return torch.randn(2, 2)


@pytest.fixture(autouse=True)
def clean_state():
    yield
    assert torch.get_autocast_dtype("cpu") is LOWER, "a test left another dtype of autocast"
    assert torch.is_autocast_cache_enabled(), "a test left the cache off"


# ---- blocks


def test_default_dtypes(x):
    with torch.autocast("cpu") as block:
        assert torch.is_autocast_enabled("cpu") and not torch.is_autocast_enabled("cuda")
        assert (x @ x).dtype is LOWER
    assert block.fast_dtype is LOWER and block.device == "cpu"
    assert (x @ x).dtype is FULL
    assert torch.get_autocast_dtype("cuda") is HALF


def test_both_names_are_one():
    assert torch.autocast is torch.amp.autocast is torch.amp.autocast_mode.autocast


def test_islands_and_other_dtypes_inside(x):
    with torch.autocast("cpu"):
        with torch.autocast("cpu", enabled=False):
            assert not torch.is_autocast_enabled("cpu")
            assert (x @ x).dtype is FULL
            with torch.autocast("cpu", HALF):
                assert (x @ x).dtype is HALF
            assert (x @ x).dtype is FULL
        with torch.autocast("cpu", HALF):
            assert (x @ x).dtype is HALF and torch.get_autocast_dtype("cpu") is HALF
        assert (x @ x).dtype is LOWER


def test_an_exception_leaves_the_block(x):
    with pytest.raises(ZeroDivisionError), torch.autocast("cpu"), torch.autocast("cpu", HALF):
        raise ZeroDivisionError
    assert (x @ x).dtype is FULL


@better
def test_one_block_is_entered_again_inside_of_itself(x):
    block = torch.autocast("cpu")
    with block:
        with block:
            assert (x @ x).dtype is LOWER
        assert (x @ x).dtype is LOWER
    assert (x @ x).dtype is FULL


@better
def test_a_decorated_function_calls_itself(x):
    @torch.autocast("cpu")
    def product(depth):
        """Multiply."""
        return product(depth - 1) if depth else x @ x

    assert product(3).dtype is LOWER
    assert product.__name__ == "product" and product.__doc__ == "Multiply."
    assert (x @ x).dtype is FULL


def test_a_decorated_method(x):
    class Layer(torch.nn.Linear):
        @torch.autocast("cpu", HALF)
        def forward(self, x):
            return super().forward(x)

    assert Layer(2, 2)(x).dtype is HALF


def test_the_state_belongs_to_a_thread(x):
    found = {}

    def run():
        found["outside"] = (x @ x).dtype
        with torch.autocast("cpu", HALF):
            found["inside"] = (x @ x).dtype
            found["nesting"] = torch.autocast_increment_nesting()
            torch.autocast_decrement_nesting()

    with torch.autocast("cpu"):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert (x @ x).dtype is LOWER
    assert found == {"outside": FULL, "inside": HALF, "nesting": 2}


@better
def test_one_decorated_function_on_many_threads(x):
    barrier = threading.Barrier(4)
    found = []

    @torch.autocast("cpu")
    def product():
        barrier.wait()
        result = x @ x
        barrier.wait()
        return result.dtype

    def run():
        inside = product()
        found.append((inside, (x @ x).dtype))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(LOWER, FULL)] * 4


# ---- what is not cast


def test_given_memory_is_not_cast(x):
    out, half = torch.empty(2, 2), torch.empty(2, 2, dtype=LOWER)
    with torch.autocast("cpu"):
        assert torch.mm(x, x, out=out) is out and torch.equal(out, out.clone())
        expected = out.clone()
        for product in (torch.matmul, torch.mm):
            out.zero_()
            product(x, x, out=out)
            assert torch.equal(out, expected)
        torch.bmm(x[None], x[None], out=out[None])
        torch.addmm(x, x, x, out=out)
        torch.cat([x, x[:0]], out=half)
        assert x.clone().addmm_(x, x).dtype is FULL
        with pytest.raises(RuntimeError):
            half.addmm_(x, x)
    with torch.autocast("cpu", enabled=False):
        assert torch.equal(expected, x @ x) and torch.equal(out, x + x @ x)


def test_wide_and_integer_tensors_are_not_cast(x):
    wide, integers = x.double(), torch.ones(2, 2, dtype=torch.int64)
    with torch.autocast("cpu"):
        assert (wide @ wide).dtype is torch.float64
        assert (integers @ integers).dtype is torch.int64
        assert torch.zeros(2).dtype is torch.randn(2).dtype is FULL
        assert linear(x, x, None).dtype is LOWER


def test_other_devices_are_not_cast(x):
    meta = torch.empty(2, 2, device="meta")
    with torch.autocast("cpu"):
        assert (meta @ meta).dtype is FULL


# ---- gradients and casts that are kept


def test_gradients_have_the_dtype_of_the_parameter(x):
    layer = torch.nn.Linear(2, 2)
    with torch.autocast("cpu"):
        y = layer(x)
    y.float().sum().backward()
    assert layer.weight.grad.dtype is layer.bias.grad.dtype is FULL
    expected = torch.ones(2, 2) @ x.to(LOWER).float()
    assert torch.allclose(layer.weight.grad, expected, rtol=1e-2)


def casts_of(function):
    """Return how many casts a call records, counted by following its graph."""
    seen, casts = set(), 0
    waiting = [function().grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        casts += node.name().startswith("ToCopy")
        waiting += [each for each, _ in node.next_functions]
    return casts


@pytest.mark.parametrize(("cache", "expected"), [(True, 2), (False, 6)])
def test_a_parameter_is_cast_once_in_a_block(x, cache, expected):
    layer = torch.nn.Linear(2, 2)

    def model():
        with torch.autocast("cpu", cache_enabled=cache):
            h = x
            for _ in range(3):
                with torch.autocast("cpu", cache_enabled=cache):
                    h = layer(h)
        return h

    assert casts_of(model) == expected
    model().float().sum().backward()
    once = layer.weight.grad.clone()
    with torch.autocast("cpu", cache_enabled=not cache):
        h = layer(layer(layer(x)))
    layer.zero_grad()
    h.float().sum().backward()
    # Of one cast, the gradients add up in its dtype.
    assert torch.allclose(layer.weight.grad, once, rtol=2**-6)


def test_a_kept_cast_goes_with_the_outermost_block():
    weight = torch.randn(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        with torch.autocast("cpu"):
            first = (weight @ weight).grad_fn.next_functions[0][0]
        again = (weight @ weight).grad_fn.next_functions[0][0]
        assert first is again
        torch.clear_autocast_cache()
        assert (weight @ weight).grad_fn.next_functions[0][0] is not first
    with torch.autocast("cpu"):
        assert (weight @ weight).grad_fn.next_functions[0][0] is not again


@better
def test_a_kept_cast_is_not_used_after_a_step(x):
    """Here PyTorch multiplies with what the weight was before the step."""
    layer = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    with torch.autocast("cpu"):
        layer(x).float().sum().backward()
        optimizer.step()
        y = layer(x)
    expected = linear(x.to(LOWER), layer.weight.to(LOWER), layer.bias.to(LOWER))
    assert torch.equal(y, expected)


@better
def test_a_kept_cast_is_not_used_for_other_data(x):
    weight = torch.randn(2, 2, requires_grad=True)
    others = torch.randn(4, 2)
    with torch.autocast("cpu"):
        x @ weight
        for other in (torch.randn(2, 2), others[:2], others[2:], others[2:].t()):
            weight.data = other
            assert torch.equal(x @ weight, x.to(LOWER) @ other.to(LOWER))


@better
def test_a_cast_made_without_recording_has_no_part_in_a_recorded_one(x):
    """Here PyTorch forgets the gradient of the weight."""
    weight = torch.randn(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        with torch.no_grad():
            (x @ weight).sum()
        y = x @ weight
        with torch.no_grad():
            assert not (x @ weight).requires_grad
        with torch.inference_mode():
            (x @ weight).sum()
        z = x @ weight
    assert y.requires_grad and z.requires_grad
    (y + z).float().sum().backward()
    assert weight.grad is not None


@better
def test_casts_of_one_parameter_to_two_dtypes():
    weight = torch.randn(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        assert (weight @ weight).dtype is LOWER
        with torch.autocast("cpu", HALF):
            assert (weight @ weight).dtype is HALF
        assert (weight @ weight).dtype is LOWER


def test_two_backwards_in_one_block_add_up(x):
    weight = torch.randn(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        (x @ weight).float().sum().backward()
        first = weight.grad.clone()
        (x @ weight).float().sum().backward()
    assert torch.equal(weight.grad, 2 * first)


@pytest.mark.skipif(IS_TORCH, reason="counts tapegrad's tensors")
def test_nothing_is_kept_after_the_block(x):
    gc.collect()
    before = torch._C.live_counts()
    weight = torch.randn(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        (x @ weight).float().sum().backward()
    del weight
    gc.collect()
    assert torch._C.live_counts() == before


@better
def test_backward_inside_of_a_block_is_not_cast():
    """The derivative of a product outside of autocast is one of float32."""
    a = torch.randn(2, 2, requires_grad=True)
    y = a @ a
    with torch.autocast("cpu"):
        (grad,) = torch.autograd.grad(y.sum(), a)
    (expected,) = torch.autograd.grad((a @ a).sum(), a)
    assert torch.equal(grad, expected)


# ---- the state


def test_setting_the_state_by_hand(x):
    torch.set_autocast_enabled("cpu", True)
    try:
        torch.set_autocast_dtype("cpu", HALF)
        assert torch.autocast_increment_nesting() == 1
        assert (x @ x).dtype is HALF
    finally:
        assert torch.autocast_decrement_nesting() == 0
        torch.clear_autocast_cache()
        torch.set_autocast_dtype("cpu", LOWER)
        torch.set_autocast_enabled("cpu", False)


def test_the_state_without_a_device_type_is_that_of_cuda():
    torch.set_autocast_enabled(True)
    try:
        assert torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
        assert not torch.is_autocast_enabled("cpu")
    finally:
        torch.set_autocast_enabled(False)


def test_the_cache_is_set_by_a_block():
    with torch.autocast("cpu", cache_enabled=False):
        assert not torch.is_autocast_cache_enabled()
        with torch.autocast("cpu"):
            assert not torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    assert not torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(True)


@pytest.mark.parametrize(
    ("name", "arguments", "instead"),
    [
        ("is_autocast_cpu_enabled", (), "is_autocast_enabled"),
        ("set_autocast_cpu_enabled", (False,), "set_autocast_enabled"),
        ("get_autocast_cpu_dtype", (), "get_autocast_dtype"),
        ("get_autocast_gpu_dtype", (), "get_autocast_dtype"),
        ("set_autocast_cpu_dtype", (LOWER,), "set_autocast_dtype"),
        ("set_autocast_gpu_dtype", (HALF,), "set_autocast_dtype"),
    ],
)
@pytest.mark.skipif(IS_TORCH, reason="PyTorch warns once in a process")
def test_old_names_of_the_state(name, arguments, instead):
    words = rf"torch.{name}\(\w*\) is deprecated. Please use torch.{instead}"
    with pytest.warns(DeprecationWarning, match=words):
        found = getattr(torch, name)(*arguments)
    assert found in {"is": (False,), "ge": (LOWER, HALF), "se": (None,)}[name[:2]]


# ---- warnings and errors


def test_a_dtype_that_is_not_lower_turns_it_off(x):
    for dtype in (FULL, torch.float64, torch.int32):
        with pytest.warns(UserWarning, match="In CPU autocast, but the target dtype is not suppo"):
            block = torch.autocast("cpu", dtype)
        with block:
            assert (x @ x).dtype is FULL
    torch.autocast("cpu", FULL, enabled=False)


@pytest.mark.parametrize("device_type", ["meta", "toaster"])
def test_an_unknown_device_type_is_refused(device_type):
    with pytest.raises(RuntimeError):
        torch.autocast(device_type)
    with pytest.raises(RuntimeError):
        torch.is_autocast_enabled(device_type)
    with pytest.raises(RuntimeError):
        torch.get_autocast_dtype(device_type)


def test_a_device_type_is_a_string():
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        torch.autocast(torch.device("cpu"))
    with pytest.raises(TypeError):
        torch.is_autocast_enabled(3)
    with pytest.raises(TypeError):
        torch.set_autocast_enabled("cpu", "yes")


def test_decorating_what_cannot_be_called():
    with pytest.raises(TypeError, match="requires a callable, but got int"):
        torch.autocast("cpu")(3)


def test_is_autocast_available():
    available = torch.amp.is_autocast_available
    assert available("cpu") and available("cuda") and not available("meta")


@pytest.mark.skipif(IS_TORCH, reason="of tapegrad's rules")
def test_operands_of_another_half_precision_are_refused_where_the_widest_counts():
    half = torch.ones(2, dtype=HALF)
    words = "cat: expected operands of float32 or bfloat16, the dtype of autocast, got float16"
    with torch.autocast("cpu"), pytest.raises(RuntimeError, match=words):
        torch.cat([half, half])


# ---- custom functions


def functions(**options):
    class Product(torch.autograd.Function):
        seen: list = []  # noqa: RUF012

        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", **options)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            Product.seen.append((a.dtype, torch.is_autocast_enabled("cpu")))
            return a @ b

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            Product.seen.append((g.dtype, torch.is_autocast_enabled("cpu")))
            return g @ b.t(), a.t() @ g

    return Product


def test_a_custom_function_runs_in_the_autocast_of_its_forward():
    a, b = (torch.randn(2, 2, requires_grad=True) for _ in range(2))
    product = functions()
    with torch.autocast("cpu", HALF):
        y = product.apply(a, b)
    assert y.dtype is HALF
    y.float().sum().backward()
    assert product.seen == [(FULL, True), (HALF, True)]
    assert a.grad.dtype is FULL and torch.allclose(a.grad, b.sum(1).expand(2, 2), atol=1e-2)


def test_a_custom_function_that_casts_its_inputs():
    a, b = (torch.randn(2, 2, requires_grad=True) for _ in range(2))
    product = functions(cast_inputs=FULL)
    with torch.autocast("cpu"):
        y = product.apply(a.to(LOWER), b)
    assert y.dtype is FULL
    y.sum().backward()
    assert product.seen == [(FULL, False), (FULL, False)]
    product.seen.clear()
    product.apply(a.to(LOWER), b.to(LOWER))
    assert product.seen == [(LOWER, False)]


def test_inputs_in_containers_are_cast():
    cast = torch.amp.autocast_mode._cast
    tensors = torch.ones(1), torch.ones(1, dtype=torch.float64), torch.ones(1, dtype=torch.int64)
    found = cast({"a": list(tensors), "b": (tensors[0], "text", 3)}, "cpu", HALF)
    assert [each.dtype for each in found["a"]] == [HALF, torch.float64, torch.int64]
    assert found["b"][0].dtype is HALF and found["b"][1:] == ("text", 3)
    assert cast(tensors[0], "cuda", HALF) is tensors[0]


def test_custom_functions_want_a_device_type():
    for decorate in (torch.amp.custom_fwd, torch.amp.custom_bwd):
        with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
            decorate(device_type=0)


# ---- old names


def test_old_names_warn():
    with pytest.warns(FutureWarning, match=r"`torch.cpu.amp.autocast\(args...\)` is deprecated"):
        block = torch.cpu.amp.autocast()
    with block:
        assert torch.is_autocast_enabled("cpu")
    assert isinstance(block, torch.autocast)
    with pytest.warns(FutureWarning, match=r"`torch.cuda.amp.autocast\(args...\)` is deprecated"):
        torch.cuda.amp.autocast(enabled=False)
    with pytest.warns(FutureWarning, match=r"custom_fwd\(args..., device_type='cuda'\)"):
        torch.cuda.amp.custom_fwd(lambda ctx: None)
    with pytest.warns(FutureWarning, match=r"custom_bwd\(args..., device_type='cuda'\)"):
        torch.cuda.amp.custom_bwd(lambda ctx: None)
    with pytest.warns(FutureWarning, match=r"`torch.amp.GradScaler\('cuda', args...\)`"):
        torch.cuda.amp.GradScaler(enabled=False)
    with pytest.warns(FutureWarning, match=r"`torch.amp.GradScaler\('cpu', args...\)`"):
        assert torch.cpu.amp.GradScaler().is_enabled()


@pytest.mark.skipif(IS_TORCH, reason="of tapegrad's list")
def test_warnings_name_the_line_of_the_caller():
    x = torch.rand(2, 3)
    functional = torch.nn.functional
    for enabled in (False, True):
        with pytest.warns(UserWarning) as found, torch.autocast("cpu", enabled=enabled):
            functional.mse_loss(x, x[:1])
            functional.kl_div(x, x)
            functional.grid_sample(torch.rand(1, 1, 3, 3), torch.rand(1, 3, 3, 2))
        assert [each.filename for each in found] == [__file__] * 3


@pytest.mark.skipif(IS_TORCH, reason="of tapegrad's list")
def test_the_list_of_rules():
    from tapegrad._casts import cast_rules

    rules = {rule.function: (rule.cpu, rule.cuda) for rule in cast_rules()}
    assert rules["mm"] == ("lower", "lower")
    assert rules["exp"] == ("none", "float32")
    assert rules["cat"] == ("widest", "none")
    assert rules["binary_cross_entropy"] == ("float32", "refused")
    assert rules["einsum"] == ("lower", "lower")
    assert "nansum" not in rules and "add" not in rules


@pytest.mark.skipif(IS_TORCH, reason="of tapegrad's page")
def test_the_page_lists_the_rules():
    from pathlib import Path

    from tapegrad._casts import cast_rules

    text = (Path(__file__).parents[2] / "docs" / "amp.md").read_text(encoding="utf-8")
    listed = set()
    for rule, device, names in re.findall(r"- `(\w+)` on `(\w+)`: ([^.]*)\.", text):
        listed |= {(name, device, rule) for name in re.split(r",\s+", names)}
    known = {
        (rule.function, device, getattr(rule, device))
        for rule in cast_rules()
        for device in ("cpu", "cuda")
        if getattr(rule, device) != "none"
    }
    assert listed == known
