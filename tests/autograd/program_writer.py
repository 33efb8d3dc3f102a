"""What random programs are made of: draws one statement that fits the tensors there are.

A statement is one line of Python over variables ``v0, v1, ...``, the library under the name
``torch``, and a list ``log`` that hooks append to. Guards keep operands away from jumps and kinks,
where a difference in the last bit between two libraries would become a difference in the first.
"""

import numpy as np

from autograd.program_terms import MARGIN, NAME, NUMBERS, is_expanded, places, require
from autograd.program_writes import WriteStatements

UNARY = (
    "sin",
    "cos",
    "tan",
    "tanh",
    "sigmoid",
    "exp",
    "expm1",
    "atan",
    "asinh",
    "erf",
    "square",
    "neg",
    "sinh",
    "cosh",
    "exp2",
    "sinc",
    "log1p",
    "sqrt",
    "rsqrt",
    "log",
    "reciprocal",
    "lgamma",
)
UNARY_WITH_KINK = (
    "abs",
    "relu",
    "frac",
    "floor",
    "round",
    "sign",
)
ACTIVATIONS = (
    "silu",
    "gelu",
    "softplus",
    "elu",
    "selu",
    "mish",
    "leaky_relu",
    "softsign",
)
KINKED_AT_ZERO = {"relu", "abs", "sign", "leaky_relu", "elu", "selu", "log", "sqrt", "rsqrt"}
BINARY = (
    "add",
    "sub",
    "mul",
    "div",
)
FLOAT_BINARY = ("atan2", "hypot", "logaddexp")
BINARY_WITH_KINK = (
    "maximum",
    "minimum",
)
INTEGER_BINARY = (
    "add",
    "sub",
    "mul",
    "maximum",
    "minimum",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
)
COMPARISONS = (
    "lt",
    "le",
    "gt",
    "ge",
)


# A number that comes of a sweep, to be run inside another one.
INNER_SWEEP = (
    "torch.enable_grad()(lambda x: torch.autograd.grad(torch.tanh(x * 0.3 * y).sum(), x)[0].sum())"
    "(torch.ones((), requires_grad=True)).detach()"
)


class Writer(WriteStatements):
    """Draws statements over a dictionary of PyTorch tensors by name.

    Attributes:
        random: NumPy's generator, the only source of chance.
        values: the tensors that exist, by variable name, in order of creation.
        count: how many variable names were given out.
        hooked_views: the names of views with hooks.
        hooked: the versions at which tensors, by name, got their first hook.
        higher_order: whether sweeps may be recorded. What a hook on an intermediate result sees of
            the sweep of a sweep depends on whether a derivative is written in terms of that result,
            which is nobody's promise; so these programs have hooks on leaves only.
    """

    def __init__(self, random, values):
        self.random = random
        self.values = values
        self.count = 0
        self.hooked_views = set()
        self.hooked = {}
        self.kinds = {}
        self.higher_order = self.chance(0.5)

    # ---- choices

    def new(self):
        """Return a variable name that was never used."""
        self.count += 1
        return f"v{self.count - 1}"

    def choice(self, items):
        return items[int(self.random.integers(len(items)))]

    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, test=None):
        """Return the name of a random tensor that passes a test, later ones more often."""
        names = [name for name, value in self.values.items() if test is None or test(value)]
        require(names)
        place = max(self.random.random(), self.random.random())
        return names[int(place * len(names))]

    def floating(self):
        return self.pick(lambda value: value.is_floating_point())

    def recorded(self):
        return self.pick(lambda value: value.requires_grad)

    def dim(self, name):
        rank = self.values[name].dim()
        return int(self.random.integers(-rank, rank)) if rank else 0

    def place(self, name, dim):
        """Return a valid index in a dimension."""
        value = self.values[name]
        size = value.shape[dim] if value.dim() else 1
        require(size > 0)
        return int(self.random.integers(size))

    # ---- guards

    def array(self, name):
        return self.values[name].detach().double().numpy()

    def is_floating(self, name):
        return self.values[name].is_floating_point()

    def away(self, name, *levels):
        """Require that no element is close to one of some levels."""
        if self.is_floating(name):
            array = self.array(name)
            require(all((np.abs(array - level) > MARGIN).all() for level in levels))

    def away_from_halves(self, name):
        if self.is_floating(name):
            halves = self.array(name) * 2
            require((np.abs(halves - np.round(halves)) > MARGIN).all())

    def away_from_multiples(self, first, second):
        """Require that no element of one is close to a multiple of that of the other."""
        try:
            with np.errstate(divide="ignore", invalid="ignore"):
                quotient = self.array(first) / self.array(second)
                clear = np.abs(quotient - np.round(quotient)) > MARGIN
        except ValueError:
            return  # Refused by the libraries too, whatever the values.
        require(clear.all())

    def apart(self, first, second):
        """Require that no element of one is close to that of the other; broadcasts."""
        if not (self.is_floating(first) or self.is_floating(second)):
            return
        try:
            gap = np.abs(self.array(first) - self.array(second))
        except ValueError:
            return  # Refused by the libraries too, whatever the values.
        require((gap > MARGIN).all())

    def spaced(self, name):
        """Require that no two elements are close."""
        if self.is_floating(name):
            require((np.diff(np.sort(self.array(name).reshape(-1))) > MARGIN).all())

    # ---- expressions

    def unary(self):
        name = self.floating()
        if self.chance(0.08):
            self.away(name, -1.0, 1.0)
            # PyTorch's logsigmoid lays its result out anew; see Generator.in_usual_layout.
            return self.choice(
                [
                    f"torch.nn.functional.hardtanh({name})",
                    f"torch.nn.functional.logsigmoid({name}.contiguous())",
                ]
            )
        if self.chance(0.25):
            function = self.choice(ACTIVATIONS)
            text = f"torch.nn.functional.{function}({name})"
        else:
            function = self.choice(UNARY_WITH_KINK if self.chance(0.2) else UNARY)
            text = f"torch.{function}({name})"
        if function in ("floor", "round", "frac", "sinc"):
            self.away_from_halves(name)  # sinc is 0 at integers, or nearly so.
        if function in KINKED_AT_ZERO:
            self.away(name, 0.0)
        return text

    def binary(self):
        draw = self.random.random()
        if draw < 0.15:
            first = self.pick(lambda value: not value.is_floating_point())
            function = self.choice(INTEGER_BINARY)
            if function.startswith("bitwise"):
                second = self.pick(lambda value: not value.is_floating_point())
            else:
                second = self.pick()
            if function in BINARY_WITH_KINK:
                self.apart(first, second)
            return f"torch.{function}({first}, {second})"
        if draw < 0.4:
            name, number = self.pick(), self.choice(NUMBERS)
            operator = self.choice("+-*/")
            return self.choice([f"{number} {operator} {name}", f"{name} {operator} {number}"])
        first, second = self.floating(), self.pick()
        if draw < 0.5:
            self.apart(first, second)
            return f"torch.{self.choice(BINARY_WITH_KINK)}({first}, {second})"
        if draw < 0.54:
            self.away_from_multiples(first, second)
            return f"torch.{self.choice(['fmod', 'remainder'])}({first}, {second})"
        if draw < 0.64:
            self.away(first, 0.0)
            return f"torch.{self.choice(FLOAT_BINARY)}({first}, {self.floating()})"
        return f"torch.{self.choice(BINARY)}({first}, {second})"

    def ternary(self):
        a, b, c = self.floating(), self.pick(), self.floating()
        kind = self.choice(["where", "lerp", "addcmul", "clamp", "masked_fill"])
        if kind == "where":
            self.apart(a, b)
            return f"torch.where({a} > {b}, {a}, {c})"
        if kind == "lerp":
            return f"torch.lerp({a}, {c}, 0.25)"
        if kind == "addcmul":
            return f"torch.addcmul({a}, {c}, {a}, value=0.5)"
        if kind == "clamp":
            self.away(a, -0.75, 0.8)
            return f"torch.clamp({a}, -0.75, 0.8)"
        self.away(b, 0.1)
        return f"{a}.masked_fill({b} > 0.1, 0.5)"

    def compare(self):
        first, second = self.pick(), self.pick()
        self.apart(first, second)
        return f"torch.{self.choice(COMPARISONS)}({first}, {second})"

    def reduce(self):
        name = self.pick()
        dim, keep = self.dim(name), self.chance(0.5)
        kind = self.random.random()
        if kind < 0.2:
            self.spaced(name)
            return self.choice(
                [f"{name}.amax(dim={dim}, keepdim={keep})", f"{name}.max(dim={dim}).values"]
            )
        if kind < 0.25:
            self.away(name, 0.0)
            return f"{name}.norm()"
        return self.choice(
            [
                f"{name}.sum()",
                f"{name}.sum(dim={dim}, keepdim={keep})",
                f"{name}.mean(dim={dim}, keepdim={keep})",
                f"torch.logsumexp({name}, dim={dim}, keepdim={keep})",
                f"torch.softmax({name}, dim={dim})",
                f"torch.log_softmax({name}, dim={dim})",
                f"torch.cumsum({name}, dim={dim})",
                f"torch.var({name}, dim={dim}, correction=0)",
                f"{name}.prod(dim={dim})",
            ]
        )

    def view(self):
        """Return an expression that shares memory with its operand, or may."""
        name = self.pick()
        value = self.values[name]
        first, second = self.dim(name), self.dim(name)
        start = self.place(name, first)
        order = self.random.permutation(value.dim()).tolist()
        size = value.shape[first] if value.dim() else 1
        minus_ones = ", ".join(["-1"] * value.dim())
        if self.chance(0.04):
            # Not of a view: what it reaches outside has no gradient, or has one after a write.
            require(value._base is None and not is_expanded(value))
            require(len(np.unique(places(value))) == value.numel())
            return f"{name}.as_strided((2,), (1,), {value.storage_offset()})"
        return self.choice(
            [
                f"{name}.transpose({first}, {second})",
                f"{name}.permute({order})",
                f"{name}.reshape(-1)",
                f"{name}.view(-1)",
                f"{name}.view({tuple(value.shape)})",
                f"{name}.unsqueeze({self.choice([0, -1])})",
                f"{name}.squeeze()",
                f"{name}.flatten()",
                f"{name}.expand(2, {minus_ones})",
                f"{name}.narrow({first}, {start}, {size - start})",
                f"{name}.select({first}, {start})",
                f"{name}[..., ::2]",
                f"{name}[{start}:]",
                f"{name}[{start}]",
                f"{name}[None, ...]",
                f"{name}.diagonal()",
                f"{name}.unfold({first}, 2, 1)",
                f"{name}.t()",
                f"{name}.unbind({first})[{start}]",
                f"{name}.chunk(2, {first})[-1]",
                f"{name}.split(1, {first})[0]",
                f"{name}.contiguous()",
                f"{name}.view_as({name})",
                f"{name}.movedim({first}, {second})",
            ]
        )

    def copy(self):
        """Return an expression that moves elements into new memory."""
        name = self.pick()
        dim = self.dim(name)
        ones = ", ".join(["1"] * self.values[name].dim())
        return self.choice(
            [
                f"torch.flip({name}, ({dim},))",
                f"torch.roll({name}, 1, {dim})",
                f"{name}.repeat(2, {ones})",
                f"{name}.clone()",
                f"{name}.tril()",
            ]
        )

    def join(self):
        name = self.pick()
        shape = self.values[name].shape
        other = self.pick(lambda value: value.shape == shape)
        function = self.choice(["cat", "stack"])
        return f"torch.{function}([{name}, {other}], dim={self.dim(name)})"

    def index(self):
        name = self.pick(lambda value: value.dim() > 0)
        dim = self.dim(name)
        value = self.values[name]
        require(value.numel() > 0)
        places = self.random.integers(0, value.shape[dim], 3).tolist()
        rows = self.random.integers(0, value.shape[0], 2).tolist()
        kind = self.choice(["select", "rows", "mask", "sort", "take", "gather"])
        if kind == "select":
            return f"torch.index_select({name}, {dim}, torch.tensor({places}))"
        if kind == "rows":
            return f"{name}[torch.tensor({rows})]"
        if kind == "mask":
            self.away(name, 0.05)
            return f"{name}[{name} > 0.05]"
        if kind == "sort":
            self.spaced(name)
            return f"torch.sort({name}, dim={dim}).values"
        if kind == "take":
            return f"torch.take({name}, torch.tensor({rows}))"
        return f"torch.gather({name}, {dim}, torch.zeros_like({name}, dtype=torch.int64))"

    def matmul(self):
        first, second = self.floating(), self.floating()
        product = self.choice(
            [
                self.product(first, second),
                f"torch.matmul({first}, {first}.transpose(-1, -2))",
                f"torch.einsum('...i,...i->...', {first}, {second}.to({first}.dtype))",
                f"torch.outer({first}.reshape(-1), {second}.reshape(-1))",
            ]
        )
        # PyTorch squeezes some of these in place, which shows in their version.
        return f"{product}.clone()"

    def product(self, first, second):
        """Return a product; of a batch and a single matrix or vector, one that nobody overwrites.

        PyTorch folds such a batch, which copies it or does not: what is saved is its own affair.
        """
        dims = {name: self.values[name].dim() for name in (first, second)}
        if dims[first] != dims[second] and max(dims.values()) > 2:
            first, second = (f"{name}.clone()" if dims[name] > 2 else name for name in dims)
        return f"torch.matmul({first}, {second})"

    def convert(self):
        name = self.pick()
        kind = self.choice(["double", "single", "integer", "bool", "detach"])
        if kind == "double":
            return f"{name}.to(torch.float64)"
        if kind == "single":
            return f"{name}.to(torch.float32)"
        if kind == "integer":
            self.away_from_halves(name)
            return f"{name}.to(torch.int64)"
        if kind == "bool":
            self.away(name, 0.05)
            return f"{name} > 0.05"
        return f"{name}.detach()"  # Not .data: a write through it counts in _version here.

    # ---- statements

    def assign(self, expression):
        """Return a statement that gives an expression a name, now and then unrecorded."""
        statement = f"{self.new()} = {expression}"
        if self.chance(0.06) and self.may_be_unrecorded(expression):
            return f"with torch.no_grad(): {statement}"
        return statement

    def may_be_unrecorded(self, expression):
        """Whether an expression is fit for no_grad: views of what is, or will be, recorded are not.

        PyTorch says of such a view that it requires grad and is a leaf, but no gradient reaches it.
        """
        names = [name for name in NAME.findall(expression) if name in self.values]
        return expression.startswith("torch.") or not any(
            self.values[name].is_floating_point() for name in names
        )

    def parts(self):
        """Return a statement that names several views of one tensor."""
        name = self.pick(lambda value: value.dim() > 0)
        dim = self.dim(name)
        size = self.values[name].shape[dim]
        require(1 < size <= 4)
        targets = ", ".join(self.new() for _ in range(size))
        return f"{targets} = {name}.{self.choice([f'unbind({dim})', f'split(1, {dim})'])}"

    def reshape_in_place(self):
        # A gradient goes on to be retained in the former shape in PyTorch.
        name = self.pick(lambda value: value.dim() > 0 and not value.retains_grad)
        return self.choice(
            [
                f"{name}.unsqueeze_(0)",
                f"{name}.squeeze_()",
                f"{name}.transpose_({self.dim(name)}, {self.dim(name)})",
                f"{name}.t_()",
            ]
        )

    def flags(self):
        """Return a statement that changes what is recorded."""
        name = self.pick()
        value = self.values[name]
        if self.chance(0.5):
            # A view of what begins to require grad later, or a view that does so alone, has no
            # history in PyTorch, or has it, until the next write of any kind.
            related = value._base is not None or self.has_views(value)
            # And whether a gradient that is zero is recorded or None is nobody's promise.
            require(value.requires_grad or not (related or self.higher_order))
            return self.choice([f"{name}.requires_grad_()", f"{name}.requires_grad = True"])
        if self.chance(0.3):
            require(value.is_leaf or not self.higher_order)
            return f"{name}.retain_grad()"
        # The same for a view of what is detached in place, and a gradient goes on to be retained.
        # Lenient programs detach a variable, not the tensor that another one is a name of too.
        require(not self.has_views(value) and not value.retains_grad)
        require(sum(other is value for other in self.values.values()) == 1)
        return f"{name}.{self.choice(['requires_grad_(False)', 'detach_()'])}"

    def drop(self):
        """Return a statement that lets go of a tensor; its views, or its base, live on."""
        name = self.pick(lambda value: value._base is not None or self.has_views(value))
        require(name not in self.hooked_views)
        return f"del {name}"

    def has_views(self, value):
        return any(other._base is value for other in self.values.values())

    def hook(self):
        name = self.recorded() if self.chance(0.9) else self.pick()
        value = self.values[name]
        require(value.is_leaf or not self.higher_order)
        # In PyTorch a second hook joins the first, at the history from before a write.
        require(self.hooked.setdefault(name, value._version) == value._version)
        if value._base is not None:
            require(value._version == 0)  # PyTorch may give it a new history only now.
            self.hooked_views.add(name)
        result, more = self.choice(
            [
                ("grad * 2", ""),
                ("grad.sin()", ""),
                ("log.append(grad.clone())", ""),
                (f"grad * {INNER_SWEEP}", f", y={self.floating()}.detach()"),
            ]
        )
        # PyTorch crashes at a view whose base was written to, unless it is asked for its grad_fn,
        # and for one of several outputs it calls hooks with None when no gradient arrives.
        hook = f"lambda grad{more}: None if grad is None else {result}"
        return f"{name}.grad_fn; {name}.register_hook({hook})"

    def sweep(self):
        """Return a statement that runs backward in the middle of the program."""
        name = self.recorded() if self.chance(0.9) else self.pick()
        keep = self.choice(["retain_graph=True", "retain_graph=True", ""])
        loss = f"torch.tanh({name} * 0.1).sum()"
        draw = self.random.random()
        if draw < 0.6:
            if self.higher_order and self.chance(0.4):
                keep = "create_graph=True"
            return f"{loss}.backward({keep})"
        # What a recorded gradient owes to an intermediate result depends on whether a derivative is
        # written in terms of it, which is nobody's promise.
        # And PyTorch gives a view a new history, which nothing was computed from, after a write.
        other = self.pick(
            lambda value: (
                value.requires_grad
                and (value.is_leaf or not (self.higher_order or value._base is not None))
            )
        )
        result = f"g{self.new()[1:]}"
        if draw < 0.7 or not self.higher_order:
            return f"{result} = torch.autograd.grad({loss}, {other}, allow_unused=True, {keep})"
        # Whether a gradient that is constant counts as recorded is nobody's promise: make it so.
        made = f"torch.autograd.grad({loss}, {other}, create_graph=True)[0]"
        return f"{self.new()} = ({made} + {other} * 0).contiguous()"

    def statement(self, without=()):
        """Return a new statement of a random kind, and the name of the kind."""
        if without not in self.kinds:
            names = [name for name in KINDS if name not in without]
            self.kinds[without] = names, np.cumsum([KINDS[name] for name in names])
        names, weights = self.kinds[without]
        name = names[int(np.searchsorted(weights, self.random.random() * weights[-1], "right"))]
        drawn = getattr(self, name)()
        return (self.assign(drawn) if name in EXPRESSIONS else drawn), name


EXPRESSIONS = {
    "unary": 4,
    "binary": 5,
    "ternary": 1.5,
    "reduce": 2,
    "view": 6,
    "copy": 1.5,
    "join": 1,
    "index": 1.2,
    "matmul": 1,
    "convert": 1.5,
    "compare": 0.4,
}
KINDS = EXPRESSIONS | {
    "parts": 1,
    "write_statement": 7,
    "reshape_in_place": 0.3,
    "flags": 0.8,
    "hook": 0.8,
    "sweep": 0.8,
    "drop": 0.3,
}
