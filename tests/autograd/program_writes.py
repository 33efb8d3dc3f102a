"""What random programs write: in-place statements, and operands that show what is being written.

An operand may be a view of the target. PyTorch refuses what it can tell at a glance, that two dense
tensors share some of their memory, and both libraries must. What it cannot tell it runs, and where
an element is read after it was written the result depends on the order of its loops, while tapegrad
copies such an operand first. There the program says ``apart(v3)``, which is ``v3`` itself in
tapegrad and a clone in PyTorch: the same gradient, without the dependence on order.
"""

import numpy as np

from autograd.program_terms import (
    NAME,
    NUMBERS,
    address,
    base_of,
    is_dense,
    is_expanded,
    places,
    require,
)

IN_PLACE_UNARY = (
    "sin_",
    "cos_",
    "tanh_",
    "sigmoid_",
    "exp_",
    "square_",
    "neg_",
    "sqrt_",
    "erf_",
    "atan_",
    "reciprocal_",
    "expm1_",
    "log1p_",
    "rsqrt_",
)
IN_PLACE_BINARY = ("add_", "sub_", "mul_", "div_", "copy_")
# These save nothing, so that PyTorch can sweep back over them when they overwrite what they read.
SAVES_NOTHING = ("add_", "sub_", "copy_")


def overlap(target, operand):
    """Return how two tensors share memory: "apart", "seen" at a glance, "aligned" or "crossed".

    Aligned means that every element is read before, or when, it is written, in any order.
    """
    if address(target) != address(operand):
        return "apart"
    written, read = places(target), places(operand)
    if not np.intersect1d(written, read).size:
        return "apart"
    if is_dense(target) and is_dense(operand):
        return "seen"
    try:
        read = np.broadcast_to(read, written.shape)
    except ValueError:
        return "crossed"
    order = np.argsort(written, axis=None)
    found = np.searchsorted(written.reshape(-1), read.reshape(-1), sorter=order)
    found = np.minimum(found, written.size - 1)
    writer = order[found]
    hit = written.reshape(-1)[writer] == read.reshape(-1)
    return "crossed" if (hit & (writer != np.arange(written.size))).any() else "aligned"


class WriteStatements:
    """The part of a `Writer` that draws in-place statements."""

    def target(self):
        """Return what an in-place operation writes to: a tensor, or a view made on the spot."""
        name = self.pick(lambda value: value.is_floating_point() and not value.is_leaf)
        if self.chance(0.15):
            name = self.pick()  # Leaves and integers too.
        target = name if self.chance(0.5) else self.part_of(name)
        require(not self.overlaps_unseen(target))
        return target

    def part_of(self, name):
        """Return an expression that is a view of a variable."""
        value = self.values[name]
        first, second = self.dim(name), self.dim(name)
        start = self.place(name, first)
        order = self.random.permutation(value.dim()).tolist()
        return self.choice(
            [
                f"{name}[{start}]",
                f"{name}[..., {start}:]",
                f"{name}.select({first}, {start})",
                f"{name}.narrow({first}, {start}, 1)",
                f"{name}.transpose({first}, {second})",
                f"{name}.permute({order})",
                f"{name}.view(-1)",
                f"{name}.diagonal()",
                f"{name}[..., ::2]",
                f"{name}[..., 1::2]",
                f"{name}[1:]",
                f"{name}[:-1]",
                f"{name}[{start}:][..., :1]",
                f"{name}.unsqueeze(0)",
                f"{name}.squeeze()",
                f"{name}.view_as({name})",
                f"{name}.as_strided((2,), (1,), {value.storage_offset()})",
                f"{name}.expand({tuple(value.shape)})",
                f"{name}.expand(2, {', '.join(['-1'] * value.dim())})",
                f"{name}.unbind({first})[{start}]",
                f"{name}.chunk(2, {first})[-1]",
                f"{name}.split(1, {first})[0]",
                f"{name}.detach()",
            ]
        )

    def look(self, expression):
        """Return the tensor that an expression of views gives now."""
        name = base_of(expression)
        try:
            return eval(expression, {name: self.values[name].detach()})
        except (RuntimeError, IndexError, TypeError):
            return None

    def overlaps_unseen(self, expression):
        """Whether two indices lead to one element in a way that PyTorch does not look for."""
        value = self.look(expression)
        if value is None or is_expanded(value):
            return False
        memory = places(value)
        return len(np.unique(memory)) < memory.size

    def relatives(self, name):
        """Return a variable that shares memory with another one, which may be that itself."""
        memory = address(self.values[name])
        return self.pick(lambda value: address(value) == memory)

    def operand(self, target, moved=False):
        """Return an operand for an in-place operation on a target, often a view of the same memory.

        Args:
            target: the expression that is written to.
            moved: whether the operation reads in another order than it writes, for all it knows, or
                saves the operand, which PyTorch would find overwritten.
        """
        name = self.relatives(base_of(target)) if self.chance(0.3) else self.pick()
        written, value = self.values[base_of(target)], self.values[name]
        if value.is_floating_point() and not written.is_floating_point():
            self.away_from_halves(name)  # It may be rounded to an integer.
        if value.requires_grad and not written.is_floating_point():
            return f"{name}.detach()"  # PyTorch makes integers require grad here.
        operand = self.part_of(name) if self.chance(0.3) else name
        # PyTorch copies an expanded tensor to itself, and then cannot sweep back.
        require(operand != target or not (is_expanded(value) or ".expand(2" in target))
        return self.separate(target, operand, moved)

    def separate(self, target, operand, moved=False):
        """Return the operand such that PyTorch's order of reading and writing does not matter."""
        written, read = self.look(target), self.look(operand)
        if written is None or read is None or operand == target:
            return operand
        how = overlap(written, read)
        if how == "crossed" or (how == "aligned" and moved):
            return f"apart({operand})"
        return operand

    def write(self):
        """Return an in-place statement."""
        target = self.target()
        kind = self.random.random()
        if is_expanded(self.values[base_of(target)]) or ".expand(2" in target:
            kind *= 0.6  # The other operations write the same memory twice, in no fixed order.
        if kind < 0.22:
            return f"{target}.{self.choice(IN_PLACE_UNARY)}()"
        if kind < 0.6:
            function = self.choice(SAVES_NOTHING if self.chance(0.4) else IN_PLACE_BINARY)
            if function != "copy_" and self.chance(0.4):
                return f"{target}.{function}({self.choice(NUMBERS)})"
            saves = function not in SAVES_NOTHING
            return f"{target}.{function}({self.operand(target, moved=saves)})"
        if kind < 0.85:
            return self.write_family(target)
        return self.assignment(target)

    def write_family(self, target):
        """Return a statement of an in-place operation that is not element by element, or odd."""
        kind = self.choice(["fill", "index", "index", "mask", "scan", "three", "function"])
        return getattr(self, f"write_{kind}")(target)

    def write_fill(self, target):
        return self.choice(
            [
                f"{target}.zero_()",
                f"{target}.fill_(0.7)",
                f"{target}.tril_()",
                f"{target}.triu_(1)",
            ]
        )

    def write_index(self, target):
        value = self.look(target)
        require(value is not None and value.dim() > 0 and value.numel() > 0)
        rows = value.shape[0]
        order = f"torch.tensor({self.random.permutation(rows).tolist()})"
        same = self.pick(lambda other: other.shape == value.shape and other.dtype == value.dtype)
        source = self.separate(target, same, moved=True)
        one = int(self.random.integers(rows))
        zeros = f"torch.zeros({tuple(value.shape)}, dtype=torch.int64)"
        return self.choice(
            [
                f"{target}.index_fill_(0, torch.tensor([{one}]), 0.6)",
                f"{target}.index_add_(0, {order}, {source}, alpha=2)",
                f"{target}.index_copy_(0, {order}, {source})",
                f"{target}.index_put_(({order},), {source}, accumulate={self.chance(0.5)})",
                f"{target}.scatter_(0, {zeros}, 0.4)",
                f"{target}.scatter_add_(0, {zeros}, {source})",
                f"{target}.put_(torch.arange({value.numel()}).flip(0).view({tuple(value.shape)}), "
                f"{source}.contiguous())",
            ]
        )

    def write_mask(self, target):
        value = self.look(target)
        require(value is not None and value.numel() > 0)
        mask = self.random.integers(0, 2, tuple(value.shape)).astype(bool).tolist()
        same = self.pick(
            lambda other: other.numel() >= value.numel() and other.dtype == value.dtype
        )
        # It reads in an order of its own and PyTorch looks for no overlap.
        read = self.look(same)
        if overlap(value, read) != "apart":
            same = f"apart({same})"
        return self.choice(
            [
                f"{target}.masked_fill_(torch.tensor({mask}), 0.3)",
                f"{target}.masked_scatter_(torch.tensor({mask}), {same})",
            ]
        )

    def write_scan(self, target):
        require(self.values[base_of(target)].dtype.itemsize > 1)  # Not of bool: PyTorch has none.
        dim = 0 if self.chance(0.5) else -1
        return f"{target}.{self.choice(['cumsum_', 'cumprod_'])}({dim})"

    def write_three(self, target):
        if not self.is_floating(base_of(target)):
            return f"{target}.add_(1)"
        first, second = self.operand(target, moved=True), self.operand(target, moved=True)
        if self.is_floating(NAME.search(first).group()) and self.chance(0.3):
            return f"{target}.{self.choice(['atan2_', 'hypot_'])}({first})"
        return self.choice(
            [
                f"{target}.addcmul_({first}, {second}, value=0.5)",
                f"{target}.addcdiv_({first}, {second}.detach() * 0.01 + 1)",
                f"{target}.lerp_({first}, 0.25)",
            ]
        )

    def write_function(self, target):
        """Return a call of a custom function that marks its first argument as written."""
        value = self.look(target)
        require(value is not None and value.is_floating_point() and not is_expanded(value))
        other = self.pick(lambda other: other.shape == value.shape and other.dtype == value.dtype)
        how = overlap(value, self.look(other))
        require(how != "seen" or self.values[other] is self.values.get(target))
        return f"AddInPlace.apply({target}, {other if how == 'apart' else f'{other}.clone()'})"

    def assignment(self, target):
        """Return a statement that assigns to a part, by subscript."""
        if "(" in target.rsplit(".", maxsplit=1)[-1]:
            return f"{target}[...] = {self.assigned(target)}"
        if target.endswith("]"):
            operator = self.choice(["=", "+="])
            return f"{target} {operator} {self.assigned(target, operator)}"
        name = target
        start = self.place(name, 0)
        value = self.values[name]
        require(value.dim() > 0)
        if self.chance(0.6):
            part = self.choice(
                [f"{name}[{start}]", f"{name}[{start}:]", f"{name}[..., 0]", f"{name}[1:]"]
            )
            operator = self.choice(["=", "=", "*="])
            return f"{part} {operator} {self.assigned(part, operator)}"
        rows = self.random.permutation(value.shape[0])[:2].tolist()
        mask = self.random.integers(0, 2, value.shape[0]).astype(bool).tolist()
        key = self.choice([rows, mask])
        return f"{name}[torch.tensor({key})] = {self.assigned(name, moved=True)}"

    def assigned(self, target, operator="=", moved=False):
        """Return what is assigned to a target, or to some places in it (moved)."""
        if self.chance(0.4):
            return str(self.choice(NUMBERS))
        source = self.operand(target, moved or operator == "*=")
        written, read = self.look(target), self.look(source) if NAME.match(source) else None
        if written is None or read is None or moved or operator != "=":
            return source
        # PyTorch expands it before it looks for overlap, and then does not see it.
        hidden = read.dim() > 0 and read.numel() != written.numel()
        return f"apart({source})" if hidden and overlap(written, read) != "apart" else source

    def write_statement(self):
        statement = self.write()
        unrecorded = self.chance(0.15)
        target = statement.removeprefix("AddInPlace.apply(")
        if unrecorded or ".detach()" in target or not self.values[base_of(target)].requires_grad:
            self.require_no_hooks(base_of(target))
        return f"with torch.no_grad(): {statement}" if unrecorded else statement

    def require_no_hooks(self, name):
        """Require that no view of a tensor's memory has hooks.

        PyTorch takes them from the view when a write is not recorded.
        """
        memory = address(self.values[name])
        views = [self.values[view] for view in self.hooked_views if view in self.values]
        require(not any(address(view) == memory for view in views))
