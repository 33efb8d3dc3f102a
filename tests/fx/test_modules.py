"""Modules of graphs: changed, replaced in parts, copied, written, compiled."""

import copy
import importlib
import io
import pickle
import sys

import pytest
from library import IS_TORCH, torch

nn = torch.nn
functional = torch.nn.functional
fx = torch.fx


def module_of(name):
    return importlib.import_module(f"{fx.__name__}.{name}")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)
        self.head = nn.Linear(3, 2)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        y = functional.relu(self.bn(self.conv(x))) * self.scale
        return self.head(torch.relu(y.mean(dim=(2, 3))))


def test_a_function_is_replaced_by_another():
    module = fx.symbolic_trace(Block())
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target in (torch.relu, functional.relu):
            node.target, node.kwargs = functional.gelu, {}
    module.graph.lint()
    module.recompile()
    x = torch.randn(2, 2, 4, 4)
    y = functional.gelu(module.bn(module.conv(x))) * 2
    expected = module.head(functional.gelu(y.mean(dim=(2, 3))))
    assert torch.allclose(module(x), expected)


def test_convolutions_take_up_batch_norms():
    block = Block().eval()
    block.bn.running_mean.uniform_(-1, 1)
    block.bn.running_var.uniform_(0.5, 2)
    x = torch.randn(2, 2, 4, 4)
    expected = block(x)
    module = fx.symbolic_trace(copy.deepcopy(block))
    modules = dict(module.named_modules())
    for node in module.graph.nodes:
        if node.op != "call_module" or not isinstance(modules[node.target], nn.BatchNorm2d):
            continue
        before = node.args[0]
        conv, bn = modules[before.target], modules[node.target]
        factor = bn.weight / torch.sqrt(bn.running_var + bn.eps)
        conv.weight = nn.Parameter(conv.weight * factor.reshape(-1, 1, 1, 1))
        conv.bias = nn.Parameter((conv.bias - bn.running_mean) * factor + bn.bias)
        node.replace_all_uses_with(before)
        module.graph.erase_node(node)
    module.delete_all_unused_submodules()
    module.recompile()
    assert not any(isinstance(m, nn.BatchNorm2d) for m in module.modules())
    assert torch.allclose(module(x), expected, atol=1e-5)


def test_patterns_are_replaced():
    def function(x, w1, w2):
        m1 = torch.cat([w1, w2]).sum()
        m2 = torch.cat([w2, w1]).sum()
        return x + torch.max(m1) + torch.max(m2)

    def pattern(a, b):
        return torch.cat([a, b]).sum()

    def replacement(a, b):
        return torch.stack([a, b]).mean()

    module = fx.symbolic_trace(function)
    found = fx.replace_pattern(module, pattern, replacement)
    assert len(found) == 2 and all(match.anchor.name.startswith("sum") for match in found)
    module.graph.lint()
    x, a, b = torch.ones(2), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 6.0])
    assert module(x, a, b).tolist() == [7, 7]
    assert "cat" not in module.code and module.code.count("torch.stack") == 2


def test_patterns_that_chain_and_that_leak():
    chain = fx.symbolic_trace(lambda x: torch.relu(torch.relu(torch.relu(x))))
    assert len(fx.replace_pattern(chain, lambda x: torch.relu(x), lambda x: torch.neg(x))) == 3
    assert chain(torch.tensor(2.0)) == -2

    def leaks(x):
        y = torch.relu(x)
        return torch.neg(y) + y

    module = fx.symbolic_trace(leaks)
    inner = fx.replace_pattern(module, lambda x: torch.neg(torch.relu(x)), lambda x: x * 2)
    assert inner == [] and module(torch.tensor(2.0)) == 0


def test_patterns_with_several_results_constants_and_filters():
    rewriter = module_of("subgraph_rewriter")

    def function(x):
        a, b = torch.sin(x), torch.cos(x)
        return a * 2 + b * 3

    module = fx.symbolic_trace(function)
    found = rewriter.replace_pattern_with_filters(
        module, lambda v: v * 2, lambda v: v - 1, ignore_literals=True
    )
    assert len(found) == 2
    module = fx.symbolic_trace(function)
    found = rewriter.replace_pattern_with_filters(
        module,
        lambda v: v * 2,
        lambda v: v - 1,
        [lambda match, graph, pattern: True, lambda match, graph, pattern: False],
    )
    assert found == []
    pair = fx.replace_pattern(
        module,
        lambda x: (torch.sin(x), torch.cos(x)),
        lambda x: (torch.exp(x), torch.neg(x)),
    )
    assert len(pair) == 1
    assert module(torch.tensor(0.0)) == 2


def test_pattern_modules_bring_their_parameters():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(torch.tensor(3.0))

        def forward(self, x):
            return x * self.factor

    module = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    fx.replace_pattern(module, lambda x: torch.relu(x), fx.symbolic_trace(Scaled()))
    assert module(torch.tensor(2.0)) == 7 and "factor" in dict(module.named_parameters())


def test_transformers_and_interpreters_of_ones_own():
    class Swap(fx.Transformer):
        def call_function(self, target, args, kwargs):
            if target is torch.relu:
                return args[0].tanh() + 1
            return super().call_function(target, args, kwargs)

    class Count(fx.Interpreter):
        def run_node(self, n):
            counts[n.op] = counts.get(n.op, 0) + 1
            return super().run_node(n)

    counts = {}
    block = Block()
    module = Swap(fx.symbolic_trace(block)).transform()
    x = torch.randn(1, 2, 4, 4)
    result = Count(module).run(x)
    assert torch.allclose(result, module(x)) and counts["call_module"] == 3
    assert "tanh" in module.code
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        fx.Interpreter(module).run()
    with pytest.raises(RuntimeError, match=r"While executing %conv "):
        fx.Interpreter(module).run(torch.ones(1))
    values = [x]
    assert torch.allclose(fx.Interpreter(module).boxed_run(values), result) and values == []


def test_modules_are_added_and_taken_out():
    module = fx.symbolic_trace(Block())
    assert module.add_submodule("extra.inner", nn.Tanh())
    conv = module.graph.find_nodes(op="call_module", target="conv")[0]
    with module.graph.inserting_after(conv):
        tanh = module.graph.call_module("extra.inner", (conv,))
    conv.replace_all_uses_with(tanh, lambda user: user is not tanh)
    module.recompile()
    x = torch.randn(1, 2, 4, 4)
    module.eval()
    y = functional.relu(module.bn(torch.tanh(module.conv(x)))) * 2
    assert torch.allclose(module(x), module.head(torch.relu(y.mean(dim=(2, 3)))))
    assert module.delete_submodule("extra.inner") and not module.delete_submodule("extra.inner")
    assert not module.delete_submodule("nothing.there")


def test_roots():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("deep.layer", (graph.call_function(torch.neg, (x,)),)))
    layer = nn.Linear(2, 2)
    module = fx.GraphModule({"deep.layer": layer, "unused": nn.ReLU()}, graph)
    assert module.deep.layer is layer and not hasattr(module, "unused")
    with pytest.raises(RuntimeError, match="but that target was not provided in ``root``"):
        fx.GraphModule({}, graph)
    with pytest.raises(RuntimeError, match="Unsupported type 3 passed for root"):
        fx.GraphModule(3, graph)
    with pytest.raises(AssertionError, match="Expected a Graph instance"):
        module.graph = 3


def test_state_training_and_copies():
    block = Block().eval()
    module = fx.symbolic_trace(block)
    assert not module.training and module.conv is block.conv
    assert set(module.state_dict()) == set(block.state_dict())
    module.load_state_dict(block.state_dict())
    module.meta["said"] = [1]
    deep, shallow = copy.deepcopy(module), copy.copy(module)
    assert deep.conv is not module.conv and shallow.conv is module.conv
    assert deep.meta == {"said": [1]} and deep.meta["said"] is not module.meta["said"]
    next(iter(deep.graph.nodes)).meta["k"] = 1
    assert "k" not in next(iter(module.graph.nodes)).meta
    shared = copy.deepcopy([module, module.conv])
    assert shared[0].conv is shared[1]
    for node in deep.graph.nodes:
        if node.op == "output":
            node.args = ((node.args[0], 1),)
    deep.recompile()
    x = torch.randn(1, 2, 4, 4)
    assert torch.equal(deep(x)[0], module(x)) and torch.is_tensor(module(x))


def test_files():
    module = fx.symbolic_trace(Block())
    x = torch.randn(1, 2, 4, 4)
    module.eval()
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert loaded.code == module.code and torch.equal(loaded(x), module(x))
    assert not loaded.training
    again = pickle.loads(pickle.dumps(loaded))
    assert torch.equal(again(x), module(x))
    assert type(again).__name__ == ("GraphModule" if IS_TORCH else "Block")


@pytest.mark.skipif(IS_TORCH, reason="the folder's code imports torch, which here is tapegrad")
def test_a_folder(tmp_path, monkeypatch):
    module = fx.symbolic_trace(Block()).eval()
    module.to_folder(tmp_path / "written", "Written")
    text = (tmp_path / "written" / "module.py").read_text()
    (tmp_path / "written" / "module.py").write_text(
        text.replace("import torch\n", "import tapegrad as torch\n")
        .replace("from torch ", "from tapegrad ")
        .replace("import torch.", "import tapegrad.")
    )
    monkeypatch.syspath_prepend(tmp_path)
    written = importlib.import_module("written").Written().eval()
    x = torch.randn(1, 2, 4, 4)
    assert torch.equal(written(x), module(x))
    del sys.modules["written"], sys.modules["written.module"]


def test_readable_text():
    module = fx.symbolic_trace(Block())
    text = module.print_readable(print_output=False)
    assert text.startswith("class Block(torch.nn.Module):\n    def forward(self, x")
    assert "self.conv(x)" in text and "return head" in text
    assert str(module).endswith("`graph_module.print_readable()`")


def test_gradients_of_higher_order_and_transforms():
    def function(x):
        return functional.softplus(x).pow(3).sum()

    module = fx.symbolic_trace(function)
    x = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(module, x) and torch.autograd.gradgradcheck(module, x)
    rows = torch.randn(3, 2)
    assert torch.allclose(torch.vmap(module)(rows), torch.stack([function(row) for row in rows]))
    _, tangent = torch.func.jvp(module, (rows,), (torch.ones(3, 2),))
    assert torch.allclose(tangent, torch.func.grad(function)(rows).sum())


@pytest.mark.skipif(IS_TORCH, reason="PyTorch's compiler needs a C++ compiler")
def test_compiled_and_traced():
    module = fx.symbolic_trace(Block()).eval()
    x, other = torch.randn(2, 2, 4, 4), torch.randn(2, 2, 4, 4)
    compiled = torch.compile(module)
    for value in (x, other, x):
        assert torch.allclose(compiled(value), module(value), atol=1e-6)
    traced = torch.jit.trace(module, x)
    assert torch.allclose(traced(other), module(other), atol=1e-6)
    checkpointed = torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False)
    checkpointed.sum().backward()
    assert module.conv.weight.grad is not None
    for node in module.graph.nodes:  # changed after it was compiled
        if node.op == "call_function" and node.target is torch.relu:
            node.target = torch.neg
    module.recompile()
    assert torch.allclose(compiled(x), module(x), atol=1e-6)


def test_sizes_are_noted():
    shape_prop = module_of("passes.shape_prop")
    module = fx.symbolic_trace(Block())
    shape_prop.ShapeProp(module).propagate(torch.randn(2, 2, 4, 4))
    noted = {node.name: node.meta["tensor_meta"] for node in module.graph.nodes}
    assert noted["conv"].shape == (2, 3, 2, 2) and noted["x"].stride == (32, 16, 4, 1)
    assert noted["output"].shape == (2, 2) and noted["head"].dtype is torch.float32
    assert noted["conv"].requires_grad and not noted["x"].requires_grad
    assert noted["x"].memory_format is torch.contiguous_format


def test_graphs_are_cut():
    split = module_of("passes.split_module")
    block = Block().eval()
    module = fx.symbolic_trace(block)
    first = {"conv", "bn"}
    names = {}
    parts = split.split_module(module, block, lambda n: 0 if n.name in first else 1, names)
    assert [name for name, _ in parts.named_children()][:2] == ["submod_0", "submod_1"]
    assert names["submod_0.conv"] == "conv"
    x = torch.randn(1, 2, 4, 4)
    assert torch.allclose(parts(x), module(x))
    with pytest.raises(RuntimeError, match="cycle exists between partitions"):
        split.split_module(module, block, lambda n: int(n.name == "bn"))


def test_hand_made_names_are_imported():
    for place, wanted in {
        "node": "Node Target Argument map_aggregate base_types",
        "graph": "Graph CodeGen PythonCode _Namespace magic_methods inplace_methods",
        "proxy": "Proxy Attribute GraphAppendingTracer TraceError TracerBase ParameterProxy",
        "graph_module": "GraphModule _CodeOnlyModule _USER_PRESERVED_ATTRIBUTES_KEY _copy_attr",
        "_symbolic_trace": "Tracer symbolic_trace wrap is_fx_tracing PHBase PHWithMeta",
        "_compatibility": "compatibility",
        "immutable_collections": "immutable_list immutable_dict",
        "subgraph_rewriter": "Match replace_pattern replace_pattern_with_filters",
    }.items():
        module = module_of(place)
        assert [name for name in wanted.split() if not hasattr(module, name)] == []
