"""Bad calls raise what they raise in PyTorch, and say what was expected."""

import pytest

# name, a call, the error, what it says
CALLS = [
    ("linear", lambda t: t.nn.Linear(2, 3)(t.ones(4, 5)), RuntimeError, None),
    ("call", lambda t: t.nn.Module()(3), NotImplementedError, "missing the required"),
    ("init args", lambda t: t.nn.Module(3), TypeError, "takes 1 positional argument"),
    ("init kwargs", lambda t: t.nn.Module(a=3), TypeError, "unexpected keyword argument 'a'"),
    ("train", lambda t: t.nn.Linear(2, 3).train(3), ValueError, "boolean"),
    ("to", lambda t: t.nn.Linear(2, 3).to(t.int32), TypeError, "floating point"),
    ("buffer dot", lambda t: t.nn.Module().register_buffer("a.b", None), KeyError, "contain"),
    ("buffer empty", lambda t: t.nn.Module().register_buffer("", None), KeyError, "empty"),
    ("buffer name", lambda t: t.nn.Module().register_buffer(3, None), TypeError, "string"),
    ("buffer taken", lambda t: t.nn.Module().register_buffer("forward", None), KeyError, "exists"),
    ("buffer int", lambda t: t.nn.Module().register_buffer("x", 3), TypeError, "cannot assign"),
    ("parameter dot", lambda t: t.nn.Module().register_parameter("a.b", None), KeyError, "contain"),
    (
        "parameter tensor",
        lambda t: t.nn.Module().register_parameter("x", t.ones(2)),
        TypeError,
        "cannot assign 'torch.FloatTensor' object to parameter 'x'",
    ),
    ("module dot", lambda t: t.nn.Module().add_module("a.b", None), KeyError, "contain"),
    ("module int", lambda t: t.nn.Module().add_module("x", 3), TypeError, "int is not a Module"),
    ("module taken", lambda t: t.nn.Module().add_module("forward", None), KeyError, "exists"),
    (
        "assign tensor",
        lambda t: setattr(t.nn.Linear(2, 2), "weight", t.ones(2)),
        TypeError,
        "cannot assign 'torch.FloatTensor' as parameter 'weight'",
    ),
    (
        "assign to module",
        lambda t: setattr(t.nn.Sequential(t.nn.ReLU()), "0", 3),
        TypeError,
        "cannot assign 'int' as child module '0'",
    ),
    (
        "assign to buffer",
        lambda t: setattr(t.nn.BatchNorm1d(2), "running_mean", 3),
        TypeError,
        "cannot assign 'int' as buffer 'running_mean'",
    ),
    ("attribute", lambda t: t.nn.Linear(2, 3).foo, AttributeError, "no attribute 'foo'"),
    ("delete", lambda t: delattr(t.nn.Linear(2, 3), "foo"), AttributeError, None),
    ("load", lambda t: t.nn.Linear(2, 3).load_state_dict(3), TypeError, "dict-like"),
    (
        "load int",
        lambda t: t.nn.Linear(1, 1, bias=False).load_state_dict({"weight": 1}),
        RuntimeError,
        "but received <class 'int'>",
    ),
    ("sequential", lambda t: t.nn.Sequential(3), TypeError, "not a Module subclass"),
    ("sequential index", lambda t: t.nn.Sequential(t.nn.ReLU())[2], IndexError, "out of range"),
    ("sequential +", lambda t: t.nn.Sequential() + 3, ValueError, None),
    ("sequential *", lambda t: t.nn.Sequential() * 0, ValueError, None),
    ("list", lambda t: t.nn.ModuleList(3), TypeError, "iterable"),
    ("list call", lambda t: t.nn.ModuleList()(3), NotImplementedError, "ModuleList"),
    ("list index", lambda t: t.nn.ModuleList([t.nn.ReLU()])[5], IndexError, "out of range"),
    ("dict", lambda t: t.nn.ModuleDict([3]), TypeError, "Iterable"),
    ("dict int", lambda t: t.nn.ModuleDict(3), TypeError, "key/value pairs"),
    ("dict key", lambda t: t.nn.ModuleDict()["x"], KeyError, "x"),
    ("parameters", lambda t: t.nn.ParameterList(3), TypeError, "iterable"),
    ("parameter key", lambda t: t.nn.ParameterDict({3: t.ones(1)}), TypeError, "not a string"),
    ("unflatten", lambda t: t.nn.Unflatten(1, 3), TypeError, "tuple of ints"),
    ("unflatten str", lambda t: t.nn.Unflatten(1, ("a",)), TypeError, "element of type str"),
    ("batch 1d", lambda t: t.nn.BatchNorm1d(3)(t.ones(3)), ValueError, "expected 2D or 3D input"),
    ("batch one", lambda t: t.nn.BatchNorm1d(3)(t.ones(1, 3)), ValueError, "more than 1 value"),
    ("batch channels", lambda t: t.nn.BatchNorm1d(3)(t.ones(2, 4)), RuntimeError, "4 elements"),
    ("batch 2d", lambda t: t.nn.BatchNorm2d(3)(t.ones(3, 3)), ValueError, "expected 4D input"),
    ("instance", lambda t: t.nn.InstanceNorm1d(3)(t.ones(2, 3, 1)), ValueError, "spatial element"),
    ("layer", lambda t: t.nn.LayerNorm(3)(t.ones(2, 4)), RuntimeError, "normalized_shape"),
    ("rms", lambda t: t.nn.RMSNorm(3)(t.ones(2, 4)), RuntimeError, "normalized_shape"),
    ("group", lambda t: t.nn.GroupNorm(2, 3), ValueError, "divisible"),
    ("group f", lambda t: t.nn.functional.group_norm(t.ones(2, 3), 2), RuntimeError, "divisible"),
    ("dropout", lambda t: t.nn.Dropout(2), ValueError, "between 0 and 1"),
    ("dropout f", lambda t: t.nn.functional.dropout(t.ones(2), -1), ValueError, "between 0 and 1"),
    ("dropout1d", lambda t: t.nn.functional.dropout1d(t.ones(2)), RuntimeError, "2D or 3D"),
    ("padding", lambda t: t.nn.Embedding(3, 3, padding_idx=4), AssertionError, "num_embeddings"),
    ("float index", lambda t: t.nn.Embedding(3, 3)(t.ones(2)), RuntimeError, "Long, Int"),
    ("high index", lambda t: t.nn.Embedding(3, 3)(t.tensor([3])), IndexError, "out of range"),
    ("low index", lambda t: t.nn.Embedding(3, 3)(t.tensor([-1])), IndexError, "out of range"),
    ("prelu", lambda t: t.nn.PReLU(3)(t.ones(2, 4)), RuntimeError, "channel size = 4"),
    ("glu", lambda t: t.nn.GLU()(t.ones(3)), RuntimeError, "even"),
    ("rrelu", lambda t: t.nn.functional.rrelu(t.ones(3), 0.5, 0.1), RuntimeError, "ower bound"),
    (
        "bilinear",
        lambda t: t.nn.functional.bilinear(t.ones(2, 3), t.ones(2, 4), t.ones(5, 3, 3)),
        RuntimeError,
        "input2 size does not match",
    ),
    ("one_hot", lambda t: t.nn.functional.one_hot(t.tensor([0, 2]), 2), RuntimeError, "smaller"),
    ("one_hot -", lambda t: t.nn.functional.one_hot(t.tensor([-1])), RuntimeError, "non-negative"),
    ("one_hot f", lambda t: t.nn.functional.one_hot(t.tensor([0.0])), RuntimeError, "LongTensor"),
    ("gain", lambda t: t.nn.init.calculate_gain("x"), ValueError, "Unsupported nonlinearity x"),
    ("orthogonal", lambda t: t.nn.init.orthogonal_(t.ones(3)), ValueError, "2 or more"),
    ("xavier", lambda t: t.nn.init.xavier_uniform_(t.ones(3)), ValueError, "fewer than 2"),
    ("dirac", lambda t: t.nn.init.dirac_(t.ones(3)), ValueError, "3, 4, or 5"),
    ("sparse", lambda t: t.nn.init.sparse_(t.ones(3), 0.5), ValueError, "2 dimensions"),
    ("eye", lambda t: t.nn.init.eye_(t.ones(3)), ValueError, "2 dimensions"),
    ("mode", lambda t: t.nn.init.kaiming_uniform_(t.ones(3, 3), mode="x"), ValueError, "Mode x"),
    (
        "vector",
        lambda t: t.nn.utils.vector_to_parameters(1, []),
        TypeError,
        "expected torch.Tensor",
    ),
    ("no vector", lambda t: t.nn.utils.parameters_to_vector([]), ValueError, None),
]

# loss, arguments, keyword arguments, the error, what it says
LOSSES = [
    ("cross_entropy", ([2, 3], [3, 0]), {}, IndexError, "Target 3 is out of bounds"),
    ("cross_entropy", ([2, 3], [3]), {}, ValueError, r"batch_size \(2\)"),
    ("cross_entropy", ([2, 3], [1, 0]), {"reduction": "x"}, ValueError, "x is not a valid value"),
    ("cross_entropy", ([2, 3], [1.0, 0.0]), {}, RuntimeError, "Long"),
    ("cross_entropy", ([2, 3], [1, 0]), {"label_smoothing": 2.0}, RuntimeError, "between 0.0 and"),
    ("nll_loss", ([2, 3], [1, 0, 1]), {}, ValueError, r"batch_size \(2\)"),
    ("nll_loss", ([2, 3], [5, 0]), {}, IndexError, "Target 5 is out of bounds"),
    ("nll_loss", ([2, 3], [-1, 0]), {}, IndexError, "Target -1 is out of bounds"),
    ("binary_cross_entropy", ([2], [1.0, 1.0, 1.0]), {}, ValueError, "target size"),
    ("binary_cross_entropy", ([2], [1.0, 1.0]), {}, RuntimeError, "between 0 and 1"),
    ("binary_cross_entropy_with_logits", ([2], [1.0] * 3), {}, ValueError, "Target size"),
    ("gaussian_nll_loss", ([2], [1.0, 1.0], [-1.0, 1.0]), {}, ValueError, "negative entry"),
    ("gaussian_nll_loss", ([2], [1.0, 1.0], [1.0] * 3), {}, ValueError, "incorrect size"),
    ("cosine_embedding_loss", ([2], [1.0, 1.0], [1.0, 1.0]), {}, RuntimeError, "expects 2D"),
    ("margin_ranking_loss", ([2, 1], [1.0, 1.0], [1.0, 1.0]), {}, RuntimeError, "same dimension"),
    ("triplet_margin_loss", ([2, 1], [1.0, 1.0], [1.0, 1.0]), {}, RuntimeError, "same number"),
    ("multi_margin_loss", ([2, 3], [0, 4]), {}, RuntimeError, "target out of range"),
    ("multi_margin_loss", ([2, 3], [0]), {}, RuntimeError, "Expected target size"),
    ("multi_margin_loss", ([2, 3], [0, 1]), {"p": 3}, ValueError, "only p == 1"),
    ("huber_loss", ([2], [1.0, 1.0]), {"delta": -1}, RuntimeError, "non-positive"),
    ("smooth_l1_loss", ([2], [1.0, 1.0]), {"beta": -1.0}, RuntimeError, "negative values"),
]


@pytest.mark.parametrize("case", CALLS, ids=lambda case: case[0])
def test_call(torch, case):
    _, call, error, text = case
    with pytest.raises(error, match=text):
        call(torch)


@pytest.mark.parametrize("case", LOSSES, ids=lambda case: f"{case[0]}-{case[4]}")
def test_loss(torch, case):
    name, (shape, *rest), kwargs, error, text = case
    args = [torch.full(shape, 2.0), *(torch.tensor(values) for values in rest)]
    with pytest.raises(error, match=text):
        getattr(torch.nn.functional, name)(*args, **kwargs)


def test_parts_before_init(torch):
    class Early(torch.nn.Module):
        def __init__(self, value):
            self.part = value

    with pytest.raises(AttributeError, match="cannot assign parameters before"):
        Early(torch.nn.Parameter(torch.ones(1)))
    with pytest.raises(AttributeError, match="cannot assign module before"):
        Early(torch.nn.ReLU())


def test_non_leaf_parameters_are_refused(torch):
    module = torch.nn.Module()
    result = torch.ones(1, requires_grad=True) * 2
    with pytest.raises(TypeError, match="cannot assign"):
        module.register_parameter("x", result)


def test_what_is_not_supported_says_so():
    import tapegrad as torch

    with pytest.raises(NotImplementedError, match="several processes"):
        torch.nn.SyncBatchNorm(3, process_group=object())
    with pytest.raises(TypeError, match="named dimensions"):
        torch.nn.Unflatten("channels", (2, 3))
