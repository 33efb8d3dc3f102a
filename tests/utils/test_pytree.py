"""Nested containers: the names of PyTorch's ``torch.utils._pytree``, which other packages call."""

import copy
import dataclasses
import importlib
import pickle
import time
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest
from library import torch

pytree = importlib.import_module(f"{torch.__name__}.utils._pytree")
Point = namedtuple("Point", ["x", "y"])


def named_leaf_tree():
    return {
        "a": [1, (2, None)],
        "b": OrderedDict(z=Point(3, 4), y=defaultdict(list, {5: 6})),
        "c": deque([7, 8], maxlen=3),
        "d": (),
    }


@pytest.fixture
def register():
    """Register classes for one test."""
    registered = []

    def register(cls, *functions, **options):
        pytree.register_pytree_node(cls, *functions, **options)
        registered.append(cls)
        return cls

    yield register
    for cls in registered:
        pytree._deregister_pytree_node(cls)


class Pair:
    def __init__(self, a, b, tag=None):
        self.a, self.b, self.tag = a, b, tag


def open_pair(pair):
    return [pair.a, pair.b], pair.tag


def close_pair(children, tag):
    return Pair(*children, tag)


def test_every_container_of_python_comes_back_as_it_was():
    tree = named_leaf_tree()
    leaves, spec = pytree.tree_flatten(tree)
    assert leaves == [1, 2, None, 3, 4, 6, 7, 8]
    again = pytree.tree_unflatten([str(each) for each in leaves], spec)
    assert again == {
        "a": ["1", ("2", "None")],
        "b": {"z": Point("3", "4"), "y": {5: "6"}},
        "c": deque(["7", "8"]),
        "d": (),
    }
    assert type(again["b"]) is OrderedDict
    assert again["b"]["y"].default_factory is list
    assert again["c"].maxlen == 3
    assert (spec.num_leaves, spec.num_children, spec.num_nodes) == (8, 4, 16)


def test_a_structure_says_what_it_is_of():
    spec = pytree.tree_structure(named_leaf_tree())
    assert (spec.type, spec.context) == (dict, ["a", "b", "c", "d"])
    point = spec.child(1).child(0)
    assert (point.type, point.context) == (namedtuple, Point)
    table = spec.child(1).child(1)
    assert (table.type, table.context) == (defaultdict, [list, [5]])
    assert (spec.child(2).type, spec.child(2).context) == (deque, 3)
    assert not spec.child(3).is_leaf() and spec.child(0).child(0).is_leaf()
    assert [each.num_leaves for each in spec.children()] == [3, 3, 2, 0]
    assert repr(pytree.tree_structure([1, {"k": 2}])) == (
        "TreeSpec(list, None, [*,\n  TreeSpec(dict, ['k'], [*])])"
    )
    assert pytree.treespec_pprint(pytree.tree_structure(([1], {"k": 2}))) == "([*], {'k': *})"


@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec")  # PyTorch's copies warn
def test_structures_are_made_compared_and_copied():
    spec = pytree.tree_structure([1, {"k": (2, 3)}])
    leaf = pytree.treespec_leaf()
    inner = pytree.treespec_dict(k=pytree.treespec_tuple([leaf, leaf]))
    made = pytree.TreeSpec(list, None, [leaf, inner])
    assert made == spec and hash(made) == hash(spec)
    assert made != pytree.tree_structure([1, {"k": [2, 3]}])
    assert made != pytree.tree_structure([1, {"j": (2, 3)}])
    assert made != [1]
    assert copy.deepcopy(spec) == spec
    assert pickle.loads(pickle.dumps(spec)).unflatten("abc") == ["a", {"k": ("b", "c")}]
    assert pytree.tree_unflatten(spec, [1, 2, 3]) == [1, {"k": (2, 3)}]
    assert pytree.tree_leaves(spec) == [spec]
    with pytest.warns(FutureWarning, match="LeafSpec"):
        assert pytree.LeafSpec() == leaf
    assert isinstance(leaf, pytree.LeafSpec)
    with pytest.warns(FutureWarning, match="children_specs"):
        assert spec.children_specs == spec.children()
    with pytest.raises(ValueError, match="`leaves` has length 2 but the spec refers to"):
        spec.unflatten([1, 2])
    with pytest.raises(TypeError, match="to be an instance of PyTreeSpec but got"):
        pytree.tree_unflatten([1, 2], None)
    with pytest.raises(ValueError, match="Expected a tuple of TreeSpec values"):
        pytree.treespec_tuple([1])


def test_is_leaf_keeps_containers_shut():
    def is_pair(value):
        return isinstance(value, tuple) and len(value) == 2

    assert pytree.tree_leaves([(1, 2), (3,), 4], is_leaf=is_pair) == [(1, 2), 3, 4]
    assert list(pytree.tree_iter([(1, 2), (3,)], is_pair)) == [(1, 2), 3]
    assert pytree.tree_map(len, [(1, 2), ["ab"]], is_leaf=is_pair) == [2, [2]]
    assert pytree.tree_is_leaf((1, 2), is_pair) and not pytree.tree_is_leaf((1, 2))
    assert pytree.tree_is_leaf(None) and pytree.tree_is_leaf(time.gmtime(0))


def test_tree_map_takes_several_trees_that_begin_alike():
    assert pytree.tree_map(lambda x, y: [x, *y], [5, 6], [[7, 9], [1, 2]]) == [[5, 7, 9], [6, 1, 2]]
    by_key = pytree.tree_map(lambda x, y: x - y, {"a": 1, "b": 2}, OrderedDict(b=10, a=20))
    assert by_key == {"a": -19, "b": -8} and type(by_key) is dict
    assert pytree.tree_map(max, deque([1, 5]), deque([2, 4], maxlen=9)) == deque([2, 5])


@pytest.mark.parametrize(
    ("tree", "other", "text"),
    [
        ([1, 2], (1, 2), "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>"),
        ([1, 2], [1], "Node arity mismatch; expected 2, but got 1"),
        ({"a": 1}, {"b": 1}, "Node keys mismatch; missing key.s.: {'a'}; extra key.s.: {'b'}"),
        ([1, [2]], [1, 2], "Node type mismatch; expected <class 'list'>, but got <class 'int'>"),
        (Point(1, 2), namedtuple("Other", "x y")(1, 2), "Node context mismatch for node type"),
    ],
)
def test_tree_map_refuses_trees_that_differ(tree, other, text):
    with pytest.raises(ValueError, match=text):
        pytree.tree_map(lambda x, y: x, tree, other)


def test_leaves_of_some_types():
    tree = [1, "a", (2.0, None)]
    assert pytree.tree_map_only(int, lambda x: -x, tree) == [-1, "a", (2.0, None)]
    assert pytree.tree_map_only((int, float), lambda x: -x, tree) == [-1, "a", (-2.0, None)]
    assert pytree.tree_map_only(int | str, lambda x: x * 2, tree) == [2, "aa", (2.0, None)]
    assert pytree.tree_map_only(lambda x: x is None, lambda x: 0, tree) == [1, "a", (2.0, 0)]
    seen = []
    assert pytree.tree_map_only_(str, seen.append, tree) is tree
    assert pytree.tree_map_(seen.append, tree) is tree
    assert seen == ["a", 1, "a", 2.0, None]
    with pytest.raises(TypeError, match="Argument must be a type, a tuple of types, or a callable"):
        pytree.tree_map_only(3, abs, tree)
    assert pytree.tree_any(lambda x: x == 2, tree) and not pytree.tree_all(lambda x: x, tree)
    assert pytree.tree_all_only(int, lambda x: x == 1, tree)
    assert not pytree.tree_any_only(str, lambda x: x == "b", tree)
    assert pytree.arg_tree_leaves([1, 2], 3, k=(4,)) == [1, 2, 3, 4]


def test_paths_lead_to_leaves():
    tree = named_leaf_tree()
    pairs, spec = pytree.tree_flatten_with_path(tree)
    assert spec == pytree.tree_structure(tree)
    assert [pytree.keystr(path) for path, _ in pairs] == [
        "['a'][0]",
        "['a'][1][0]",
        "['a'][1][1]",
        "['b']['z'].x",
        "['b']['z'].y",
        "['b']['y'][5]",
        "['c'][0]",
        "['c'][1]",
    ]
    assert all(pytree.key_get(tree, path) is leaf for path, leaf in pairs)
    assert pairs == pytree.tree_leaves_with_path(tree)
    keys = (pytree.MappingKey("b"), pytree.MappingKey("z"), pytree.GetAttrKey("x"))
    assert pairs[3] == (keys, 3) and hash(pairs[3][0]) == hash(keys)
    assert repr(pytree.SequenceKey(2)) == "SequenceKey(idx=2)" != repr(pytree.MappingKey(2))
    named = pytree.tree_map_with_path(
        lambda path, x, y: f"{pytree.keystr(path)}={x}{y}",
        {"k": [1, 2]},
        {"k": "ab"},
        is_leaf=lambda x: x == [1, 2],
    )
    assert named == {"k": "['k']=[1, 2]ab"}


def test_classes_are_registered(register):
    register(Pair, open_pair, close_pair)
    tree = [Pair(1, (2, 3), "t"), 4]
    assert pytree.tree_leaves(tree) == [1, 2, 3, 4]
    doubled = pytree.tree_map(lambda x: 2 * x, tree)[0]
    assert (doubled.a, doubled.b, doubled.tag) == (2, (4, 6), "t")
    assert (pytree.SUPPORTED_NODES[Pair].flatten_fn, Pair in pytree.SUPPORTED_NODES) == (
        open_pair,
        True,
    )
    with pytest.raises(ValueError, match="is already registered as pytree node"):
        register(Pair, open_pair, close_pair)
    with pytest.raises(ValueError, match="Node context mismatch for custom node type"):
        pytree.tree_map(lambda x, y: x, Pair(1, 2, "t"), Pair(1, 2, "u"))
    with pytest.raises(ValueError, match="Did not find a flatten_with_keys_fn for type"):
        pytree.tree_leaves_with_path(tree)
    with pytest.raises(ValueError, match="must be None or registered"):
        pytree.register_pytree_node(
            type("C", (), {}), open_pair, close_pair, to_dumpable_context=str
        )
    subclass = type("Subclass", (Pair,), {})(1, 2)
    assert pytree.tree_leaves(subclass) == [subclass]


def test_a_registered_class_passes_through_transforms(register):
    register(Pair, open_pair, close_pair)
    x, y = torch.arange(3.0), torch.ones(3)
    out = torch.func.vmap(lambda pair: Pair(pair.a + 1, pair.a * pair.b))(Pair(x, y))
    assert isinstance(out, Pair)
    assert out.a.tolist() == [1, 2, 3] and out.b.tolist() == [0, 1, 2]
    grads = torch.func.grad(lambda pair: (pair.a * pair.b).sum())(Pair(x, y))
    assert grads.a.tolist() == [1, 1, 1] and grads.b.tolist() == [0, 1, 2]


@pytest.mark.parametrize("deque_too", [False, True])
def test_dims_of_vmap_are_found_by_key(deque_too):
    x, y = torch.arange(6.0).view(2, 3), torch.arange(2.0)
    tree, dims = {"x": x, "y": (y, y)}, {"x": 1, "y": None}
    f = lambda tree: tree["x"] + tree["y"][0]  # noqa: E731
    if deque_too:
        f = lambda tree, f=f: f(tree[0])  # noqa: E731
        tree, dims = deque([tree]), deque([dims])
    out = torch.func.vmap(f, in_dims=(dims,))(tree)
    assert out.tolist() == [[0.0, 4.0], [1.0, 5.0], [2.0, 6.0]]


def test_dataclasses_are_registered():
    @dataclasses.dataclass
    class Output:
        loss: object = None
        logits: object = None
        note: object = dataclasses.field(default=None, init=False)

    with pytest.raises(ValueError, match=r"Missing fields in `field_names`: {'logits'}"):
        pytree.register_dataclass(Output, field_names=["loss"])
    with pytest.raises(ValueError, match="field_names must be specified with a list of all"):
        pytree.register_dataclass(Pair)
    pytree.register_dataclass(Output)
    try:
        assert pytree.tree_leaves(Output(1)) == [1]
        assert pytree.tree_map(str, Output(logits=(2, 3))) == Output(None, ("2", "3"))
        (path, _), _ = pytree.tree_leaves_with_path(Output(logits=(2, 3)))
        assert pytree.keystr(path) == ".logits[0]"
    finally:
        pytree._deregister_pytree_node(Output)


def test_a_structure_spreads_a_prefix_over_its_leaves():
    spread = pytree._broadcast_to_and_flatten
    spec = pytree.tree_structure([1, (2, 3)])
    assert spread(0, spec) == [0, 0, 0]
    assert spread([0, 1], spec) == [0, 1, 1]
    assert spread([0, (1, 2)], spec) == [0, 1, 2]
    assert spread([0, [1, 2]], spec) is None and spread([(0,), 1], spec) is None


def test_old_name_warns(register):
    cls = type("Old", (Pair,), {})
    with pytest.warns(FutureWarning, match="_register_pytree_node` is deprecated"):
        pytree._register_pytree_node(cls, open_pair, close_pair)
    assert pytree.tree_leaves(cls(1, 2)) == [1, 2]
    pytree._deregister_pytree_node(cls)
    assert cls not in pytree.SUPPORTED_NODES


def test_named_tuples():
    assert pytree.is_namedtuple(Point) and pytree.is_namedtuple(Point(1, 2))
    assert pytree.is_namedtuple_class(Point) and not pytree.is_namedtuple_class(tuple)
    assert pytree.is_namedtuple_instance(Point(1, 2)) and not pytree.is_namedtuple_instance(Point)
    assert pytree.is_structseq(time.gmtime(0)) and pytree.is_structseq_class(time.struct_time)
    assert not pytree.is_structseq_instance((1, 2))
    assert pytree._get_node_type(Point(1, 2)) is namedtuple and pytree._get_node_type(3) is int
