"""Graphs made and changed by hand: nodes, order, checks, code."""

import operator

import pytest
from library import IS_TORCH, torch

nn = torch.nn
fx = torch.fx
functional = torch.nn.functional


def small_graph():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.relu, (x,))
    z = graph.call_method("add", (y, 1))
    graph.output(z)
    return graph


def names(graph):
    return [node.name for node in graph.nodes]


def test_a_graph_by_hand():
    graph = fx.Graph()
    x = graph.placeholder("x", torch.Tensor)
    k = graph.placeholder("k", default_value=2)
    weight = graph.get_attr("layer.weight")
    y = graph.call_module("layer", (x,))
    z = graph.call_function(operator.mul, (y, k), name="scaled")
    w = graph.call_function(torch.clamp, (z,), {"min": 0.0})
    graph.output({"y": (w, weight)})
    owner = nn.Module()
    owner.layer = nn.Linear(2, 2)
    module = fx.GraphModule(owner, graph, "Named")
    assert type(module).__name__ == "Named" and isinstance(module, fx.GraphModule)
    assert module.graph is graph and graph.owning_module is module
    value = torch.randn(3, 2)
    out = module(value, 3)
    assert torch.equal(out["y"][0], torch.clamp(owner.layer(value) * 3, min=0.0))
    assert out["y"][1] is owner.layer.weight
    assert str(graph).splitlines() == [
        "graph():",
        "    %x : torch.Tensor [num_users=1] = placeholder[target=x]",
        "    %k : [num_users=1] = placeholder[target=k](default=2)",
        "    %layer_weight : [num_users=1] = get_attr[target=layer.weight]",
        "    %layer : [num_users=1] = call_module[target=layer](args = (%x,), kwargs = {})",
        "    %scaled : [num_users=1] = call_function[target=operator.mul]"
        "(args = (%layer, %k), kwargs = {})",
        "    %clamp : [num_users=1] = call_function[target=torch.clamp]"
        "(args = (%scaled,), kwargs = {min: 0.0})",
        "    return {'y': (clamp, layer_weight)}",
    ]


def test_where_new_nodes_go():
    graph = small_graph()
    x, relu, add, output = graph.nodes
    with graph.inserting_after(x):
        first = graph.call_function(torch.neg, (x,))
        second = graph.call_function(torch.neg, (first,))
    with graph.inserting_before(add):
        graph.call_method("abs", (relu,))
    assert {first, second} == {node for node in graph.nodes if node.target is torch.neg}
    with graph.inserting_before():
        graph.placeholder("w")
    graph.call_function(torch.sin, (x,))
    order = names(graph)
    assert order[:2] == ["w", "x"] and order.index("abs_1") == order.index("add") - 1
    assert order[-1] == "sin" and order[-2] == "output"
    assert x < relu < add and not add < x and output > x


def test_nodes_are_moved():
    graph = small_graph()
    x, relu, add, _ = graph.nodes
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        x.prepend(relu)
        graph.lint()
    x.append(relu)
    graph.lint()
    assert names(graph) == ["x", "relu", "add", "output"]
    assert relu.next is add and relu.prev is x


def test_arguments_and_users():
    graph = small_graph()
    x, relu, add, output = graph.nodes
    assert list(x.users) == [relu] and add.all_input_nodes == [relu]
    add.args = (x, [relu, {"k": x}], slice(None, relu))
    assert list(x.users) == [relu, add] and add.all_input_nodes == [x, relu]
    add.update_arg(0, relu)
    assert add.args[0] is relu and add in x.users
    add.replace_input_with(x, relu)
    assert add not in x.users
    add.kwargs = {"alpha": x}
    add.update_kwarg("beta", 3)
    assert add.kwargs == {"alpha": x, "beta": 3} and add in x.users
    add.insert_arg(1, 5)
    assert add.args[1] == 5 and add.args[2][0] is relu
    with pytest.raises((TypeError, NotImplementedError), match="does not support mutation"):
        add.args[2].append(1)
    with pytest.raises((TypeError, NotImplementedError), match="does not support mutation"):
        add.kwargs["alpha"] = 1
    assert relu.replace_all_uses_with(x) == [add]
    assert not relu.users and x in add.all_input_nodes and output.args == (add,)


def test_users_that_are_not_changed():
    graph = small_graph()
    x, relu, add, _ = graph.nodes
    x.meta["said"] = 1
    with graph.inserting_after(x):
        other = graph.call_function(torch.neg, (x,))
    x.replace_all_uses_with(other, lambda user: user is not other, propagate_meta=True)
    assert relu.args == (other,) and other.args == (x,) and other.meta == {"said": 1}
    assert add.args == (relu, 1)


def test_nodes_are_erased():
    graph = small_graph()
    x, relu, add, output = graph.nodes
    with pytest.raises(RuntimeError, match="Tried to erase Node relu but it still had 1 users"):
        graph.erase_node(relu)
    add.replace_all_uses_with(x)
    for node in (add, relu):
        graph.erase_node(node)
    assert names(graph) == ["x", "output"] and len(graph.nodes) == 2 and output.args == (x,)
    with pytest.raises(RuntimeError, match="wrong graph"):
        fx.Graph().erase_node(x if not x.users else relu) if not x.users else graph.erase_node(
            fx.Graph().placeholder("y")
        )


def test_nodes_are_erased_and_added_while_they_are_listed():
    graph = small_graph()
    for node in graph.nodes:
        if node.target is torch.relu:
            with graph.inserting_after(node):
                new = graph.call_function(torch.tanh, node.args)
            node.replace_all_uses_with(new)
            graph.erase_node(node)
    assert names(graph) == ["x", "tanh", "add", "output"]
    assert [node.name for node in reversed(graph.nodes)] == ["output", "add", "tanh", "x"]


def test_names_are_given_once_and_are_no_words_of_python():
    graph = fx.Graph()
    x = graph.placeholder("input")
    for target in (torch.add, torch.add, torch.sum, operator.pow, getattr):
        graph.call_function(target, (x, 1))
    graph.call_method("to", (x,))
    graph.call_module("features.0.conv", (x,))
    graph.call_function(torch.add, (x, 1), name="add_1")
    graph.call_method("__getitem__", (x, 0))
    graph.create_node("call_function", torch.neg, (x,), name="class")
    assert names(graph) == [
        *("input_1", "add", "add_1", "sum_1", "pow_1", "getattr_1", "to", "features_0_conv"),
        *("add_2", "getitem", "class_1"),
    ]


def test_lint():
    graph = small_graph()
    graph.lint()
    other = small_graph()
    list(graph.nodes)[1].args = (next(iter(other.nodes)),)
    with pytest.raises(RuntimeError, match="Argument 'x' of Node 'relu' does not belong to this"):
        graph.lint()
    module = fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    with pytest.raises(AttributeError, match="no attribute `missing`"):
        module.graph.call_module("missing")
    with pytest.warns(UserWarning, match="no underlying reference in the owning GraphModule"):
        module.graph.get_attr("missing")
    with pytest.raises(RuntimeError, match="missing"):
        module.graph.lint()
    graph = small_graph()
    list(graph.nodes)[1].name = "x"
    with pytest.raises(RuntimeError, match="Node redefined name x"):
        graph.lint()


def test_bad_nodes():
    graph = fx.Graph()
    with pytest.raises(AssertionError, match="op 'call' is not in _legal_ops"):
        graph.create_node("call", "x")
    with pytest.raises(ValueError, match="a Callable is expected"):
        graph.call_function("relu")
    with pytest.raises(ValueError, match="a str is expected"):
        graph.call_method(torch.relu)
    with pytest.raises(AssertionError, match="args must be a tuple"):
        graph.call_function(torch.relu, [1])
    with pytest.raises(AssertionError, match="target must not be None"):
        graph.find_nodes(op="call_function")


def test_nodes_are_found():
    graph = small_graph()
    relu = list(graph.nodes)[1]
    assert graph.find_nodes(op="call_function", target=torch.relu) == [relu]
    assert [n.name for n in graph.find_nodes(op="call_method", target="add")] == ["add"]
    assert len(graph.find_nodes(op="placeholder")) == 1
    assert graph.output_node().op == "output"


def test_graphs_are_copied():
    import copy

    graph = small_graph()
    copied = copy.deepcopy(graph)
    assert str(copied) == str(graph) and not set(copied.nodes) & set(graph.nodes)
    into = fx.Graph()
    values = {}
    result = into.graph_copy(graph, values)
    into.output((result, values[next(iter(graph.nodes))]))
    into.lint()
    module = fx.GraphModule({}, into)
    assert [v.item() for v in module(torch.tensor(-2.0))] == [1, -2]
    twice = fx.Graph()
    x = twice.placeholder("x")
    for _ in range(2):
        for node in graph.nodes:
            if node.op == "call_function":
                x = twice.node_copy(node, lambda n, x=x: x)
    assert names(twice) == ["x", "relu", "relu_1"]


def test_calls_that_nothing_uses_go():
    class Program(nn.Module):
        def __init__(self):
            super().__init__()
            self.unused, self.used = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            y = self.unused(x) + 1
            y = torch.cat([y, y])
            return self.used(x)

    module = fx.symbolic_trace(Program())
    assert module.graph.eliminate_dead_code() and not module.graph.eliminate_dead_code()
    assert names(module.graph) == ["x", "used", "output"]
    module.delete_all_unused_submodules()
    module.recompile()
    assert [name for name, _ in module.named_children()] == ["used"]


@pytest.mark.skipif(IS_TORCH, reason="PyTorch drops writes whose results nothing uses")
def test_writes_stay():
    def function(x, y):
        x.add_(1)
        torch.relu_(x)
        torch.add(y, 1, out=x)
        functional.relu(x, inplace=True)
        x.add(2)
        return x * 2

    module = fx.symbolic_trace(function)
    assert module.graph.eliminate_dead_code()
    assert names(module.graph) == ["x", "y", "add_", "relu_", "add", "relu", "mul", "output"]


@fx.has_side_effect
def report(x):
    return x


def test_functions_with_effects_stay():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(report, (x,))
    graph.call_function(torch._assert, (x, "positive"))
    graph.call_function(torch.neg, (x,))
    graph.output(x)
    assert graph.eliminate_dead_code()
    assert names(graph) == ["x", "report", "_assert", "output"]
    assert not graph.eliminate_dead_code(lambda node: True)


def test_in_place_operators_and_odd_calls_as_code():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(operator.iadd, (x, 1))
    z = graph.call_function(operator.getitem, (y, slice(None, 2)))
    v = graph.call_function(torch.zeros, ((2,),), {"dtype": torch.float64})
    w = graph.call_function(getattr, (z, "dtype"))
    graph.output([z, v, w, torch.device("cpu"), float("inf"), None, "text", 1e-5])
    module = fx.GraphModule({}, graph)
    assert "x += 1;  iadd = x" in module.code
    value = torch.tensor([1.0, 2.0, 3.0])
    out = module(value)
    assert out[0].tolist() == [2, 3] and out[1].dtype is torch.float64
    assert out[2:] == [torch.float32, torch.device("cpu"), float("inf"), None, "text", 1e-5]
    assert value.tolist() == [2, 3, 4]


def test_lines_are_changed_before_they_become_code():
    module = fx.symbolic_trace(nn.Sequential(nn.ReLU()))

    def add_line(before):
        return lambda lines: ["seen.append(1)\n", *(before(lines) if before else lines)]

    with module.graph.on_generate_code(add_line):
        assert "seen.append(1)" in module.graph.python_code("self").src
    assert "seen" not in module.graph.python_code("self").src


def test_code_of_ones_own():
    class Doubled(fx.CodeGen):
        def process_outputs(self, outputs):
            return outputs * 2

        def gen_fn_def(self, free_vars, maybe_return_annotation):
            return super().gen_fn_def(free_vars, " -> torch.Tensor")

    module = fx.symbolic_trace(lambda x: torch.relu(x))
    module.graph.set_codegen(Doubled())
    module.recompile()
    assert "def forward(self, x) -> torch.Tensor:" in module.code
    assert fx.Interpreter(module).run(torch.tensor(3.0)) == 6


def test_a_table(capsys):
    if IS_TORCH:
        pytest.importorskip("tabulate")
    small_graph().print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"]
    assert lines[2].split()[:3] == ["placeholder", "x", "x"] and len(lines) == 6


def test_arguments_are_mapped():
    graph = small_graph()
    x = next(iter(graph.nodes))
    mapped = fx.map_arg(([x, 1], {"k": (x,)}, slice(x, None)), lambda node: node.name)
    assert mapped == (["x", 1], {"k": ("x",)}, slice("x", None))
    assert fx.node.map_aggregate([1, (2,)], lambda v: v * 2) == [2, (4,)]
