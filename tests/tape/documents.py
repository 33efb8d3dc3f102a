"""Documents of made-up tapes: a GPT, random graphs, small ones with odd texts.

They follow the format ``tapegrad.tape/1`` and are as large as a test asks for.
"""

import math
import random

SIZES = {"float32": 4, "float16": 2, "int64": 8, "bool": 1}
SOURCE = {
    "model.py:14": "        return self.wte(tokens) + self.wpe(places)",
    "model.py:31": "        q, k, v = self.qkv(x).split(self.width, dim=2)",
    "model.py:36": "        weights = (q @ k.transpose(-2, -1) * scale).masked_fill(mask, -inf)",
    "model.py:37": "        return self.out(self.drop(weights.softmax(-1)) @ v)",
    "model.py:52": "        return self.drop(self.down(gelu(self.up(x))))",
    "model.py:66": "        x = x + self.attn(self.ln1(x))",
    "model.py:67": "        return x + self.mlp(self.ln2(x))",
    "train.py:40": "    loss = cross_entropy(model(tokens).flatten(0, 1), targets.flatten())",
}


class Builder:
    """Records entries one after the other, as a tape would."""

    def __init__(self, title="a tape", *, times=True, seed=0):
        self.title = title
        self.entries = []
        self.storages = 0
        self.paid = set()
        self.times = times
        self.random = random.Random(seed)
        self.storage_of = {}  # (entry, output) to storage

    def value(self, shape, dtype="float32"):
        """A new storage: what ``save`` takes."""
        self.storages += 1
        return {"shape": list(shape), "dtype": dtype, "storage": self.storages, "leaf": False}

    def leaf(self, name, shape, module=""):
        index = self._append("accumulate_grad", "AccumulateGrad", "", module, [], [shape], [], name)
        value = self.value(shape) | {"leaf": True}
        self.storage_of[index, 0] = value
        return index

    def op(self, op, inputs, shapes, *, save=(), line="", module="", outputs_from=None):
        """Append an entry.

        Args:
            op: its name.
            inputs: (producer, output) pairs; -1 for an input without history.
            shapes: of its outputs.
            save: (name, role, value) of what it saves; an int as value means that output.
            line: its source line.
            module: its module's path.
            outputs_from: the value whose storage its outputs share, as views do.
        """
        index = len(self.entries)
        for number, shape in enumerate(shapes):
            value = self.value(shape)
            if outputs_from is not None:
                value["storage"] = outputs_from["storage"]
            self.storage_of[index, number] = value
        saved = []
        for name, role, value in save:
            saved.append(
                self._saved(name, role, self.storage_of[index, value] if value == 0 else value)
            )
        name = "".join(part.capitalize() for part in op.split("_")) + "Backward0"
        self._append(op, name, line, module, inputs, shapes, saved, None)
        return index

    def _saved(self, name, role, value):
        shape, dtype = value["shape"], value["dtype"]
        bytes_, state = math.prod(shape) * SIZES[dtype], "held"
        if value["leaf"]:
            bytes_, state = 0, "leaf"
        elif value["storage"] in self.paid:
            bytes_, state = 0, "shared"
        self.paid.add(value["storage"])
        fields = {"name": name, "role": role, "shape": shape, "dtype": dtype, "bytes": bytes_}
        return fields | {"storage": value["storage"], "state": state}

    def _append(self, op, name, line, module, inputs, shapes, saved, leaf):
        index = len(self.entries)
        work = sum(math.prod(shape) for shape in shapes) * 1e-4 + 1
        time = (
            (lambda: round(work * self.random.uniform(0.5, 2), 3)) if self.times else lambda: None
        )
        self.entries.append(
            {
                "index": index,
                "op": op,
                "name": name,
                "sequence": 1000 + 2 * index,
                "line": line,
                "module": module,
                "inputs": [list(pair) for pair in inputs],
                "outputs": [{"shape": list(shape), "dtype": "float32"} for shape in shapes],
                "saved": saved,
                "bytes": sum(value["bytes"] for value in saved),
                "leaf": leaf,
                "forward_us": None if leaf is not None else time(),
                "backward_us": time(),
            }
        )
        return index

    def document(self, source=None):
        total = sum(entry["bytes"] for entry in self.entries)
        return {
            "format": "tapegrad.tape/1",
            "title": self.title,
            "total_bytes": total,
            "memory": {"live_bytes": total + 4096, "saved_bytes": total, "peak_saved_bytes": total},
            "entries": self.entries,
            "source": source or {},
        }


def gpt(layers=12, *, batch=8, tokens=256, width=384, heads=6, vocabulary=512, times=True):
    """The tape of a GPT's loss; a layer has 58 entries."""
    b = Builder(f"GPT, {layers} layers", times=times)
    x_shape = [batch, tokens, width]

    def linear(x, name, size_in, size_out, module, line):
        path = f"{module}.{name}"
        weight = b.leaf(f"{path}.weight", [size_out, size_in], path)
        bias = b.leaf(f"{path}.bias", [size_out], path)
        at = {"line": line, "module": path}
        turned = b.op(
            "t", [(weight, 0)], [[size_in, size_out]], outputs_from=b.storage_of[weight, 0], **at
        )
        flat = b.op(
            "view", [(x, 0)], [[batch * tokens, size_in]], outputs_from=b.storage_of[x, 0], **at
        )
        save = [
            ("self", "input", b.storage_of[flat, 0]),
            ("mat2", "input", b.storage_of[weight, 0]),
        ]
        made = b.op("mm", [(flat, 0), (turned, 0)], [[batch * tokens, size_out]], save=save, **at)
        summed = b.op("add", [(made, 0), (bias, 0)], [[batch * tokens, size_out]], **at)
        return b.op(
            "view",
            [(summed, 0)],
            [[batch, tokens, size_out]],
            outputs_from=b.storage_of[summed, 0],
            **at,
        )

    def norm(x, name, module, line):
        path = f"{module}.{name}" if module else name
        weight = b.leaf(f"{path}.weight", [width], path)
        bias = b.leaf(f"{path}.bias", [width], path)
        statistics = b.value([batch, tokens, 2])
        save = [("input", "input", b.storage_of[x, 0]), ("statistics", "value", statistics)]
        inputs = [(x, 0), (weight, 0), (bias, 0)]
        return b.op("layer_norm", inputs, [x_shape], save=save, line=line, module=path)

    def dropout(x, module, line):
        shape = b.entries[x]["outputs"][0]["shape"]
        mask = b.value(shape, "bool")
        return b.op(
            "dropout",
            [(x, 0)],
            [shape],
            save=[("mask", "value", mask)],
            line=line,
            module=f"{module}.drop",
        )

    wte = b.leaf("wte.weight", [vocabulary, width], "wte")
    indices = b.value([batch, tokens], "int64")
    first = "model.py:14, in forward"
    x = b.op(
        "embedding",
        [(wte, 0)],
        [x_shape],
        save=[("indices", "input", indices)],
        line=first,
        module="wte",
    )
    wpe = b.leaf("wpe.weight", [tokens, width], "wpe")
    places = b.value([tokens], "int64")
    p = b.op(
        "embedding",
        [(wpe, 0)],
        [[tokens, width]],
        save=[("indices", "input", places)],
        line=first,
        module="wpe",
    )
    x = b.op("add", [(x, 0), (p, 0)], [x_shape], line=first)
    for layer in range(layers):
        x = _block(b, x, f"blocks.{layer}", linear, norm, dropout, batch, tokens, width, heads)
    x = norm(x, "ln_f", "", "model.py:80, in forward")
    last = "train.py:40, in step"
    head = b.leaf("head.weight", [vocabulary, width], "head")
    turned = b.op(
        "t",
        [(head, 0)],
        [[width, vocabulary]],
        outputs_from=b.storage_of[head, 0],
        line="model.py:81, in forward",
        module="head",
    )
    save = [("self", "input", b.storage_of[x, 0]), ("mat2", "input", b.storage_of[head, 0])]
    logits = b.op(
        "matmul",
        [(x, 0), (turned, 0)],
        [[batch, tokens, vocabulary]],
        save=save,
        line="model.py:81, in forward",
        module="head",
    )
    flat = b.op(
        "view",
        [(logits, 0)],
        [[batch * tokens, vocabulary]],
        outputs_from=b.storage_of[logits, 0],
        line=last,
    )
    logs = b.op(
        "log_softmax",
        [(flat, 0)],
        [[batch * tokens, vocabulary]],
        save=[("result", "output", 0)],
        line=last,
    )
    targets = b.value([batch * tokens], "int64")
    b.op("nll_loss", [(logs, 0)], [[]], save=[("target", "input", targets)], line=last)
    return b.document(SOURCE)


def _block(b, x, module, linear, norm, dropout, batch, tokens, width, heads):
    attn, mlp = f"{module}.attn", f"{module}.mlp"
    one, two, three = (f"model.py:{line}, in forward" for line in (31, 36, 37))
    here = {"module": attn}
    x_shape, size = [batch, tokens, width], width // heads
    shape = [batch, heads, tokens, size]
    y = norm(x, "ln1", module, "model.py:66, in forward")
    y = linear(y, "qkv", width, 3 * width, attn, one)
    whole = b.storage_of[y, 0]
    parts = b.op("split", [(y, 0)], [x_shape] * 3, outputs_from=whole, line=one, **here)
    q, k, v = (
        b.op(
            "transpose",
            [
                (
                    b.op(
                        "view",
                        [(parts, number)],
                        [[batch, tokens, heads, size]],
                        outputs_from=whole,
                        line=one,
                        **here,
                    ),
                    0,
                )
            ],
            [shape],
            outputs_from=whole,
            line=one,
            **here,
        )
        for number in range(3)
    )
    turned = b.op(
        "transpose", [(k, 0)], [[batch, heads, size, tokens]], outputs_from=whole, line=two, **here
    )
    scores = [batch, heads, tokens, tokens]
    save = [("self", "input", b.storage_of[q, 0]), ("mat2", "input", b.storage_of[turned, 0])]
    w = b.op("matmul", [(q, 0), (turned, 0)], [scores], save=save, line=two, **here)
    w = b.op("mul", [(w, 0), (-1, 0)], [scores], line=two, **here)
    mask = b.value([tokens, tokens], "bool")
    w = b.op("masked_fill", [(w, 0)], [scores], save=[("mask", "input", mask)], line=two, **here)
    w = b.op("softmax", [(w, 0)], [scores], save=[("result", "output", 0)], line=three, **here)
    w = dropout(w, attn, three)
    save = [("self", "input", b.storage_of[w, 0]), ("mat2", "input", b.storage_of[v, 0])]
    y = b.op("matmul", [(w, 0), (v, 0)], [shape], save=save, line=three, **here)
    y = b.op(
        "transpose",
        [(y, 0)],
        [[batch, tokens, heads, size]],
        outputs_from=b.storage_of[y, 0],
        line=three,
        **here,
    )
    y = b.op("clone", [(y, 0)], [x_shape], line=three, **here)
    y = linear(y, "out", width, width, attn, three)
    x = b.op("add", [(x, 0), (y, 0)], [x_shape], line="model.py:66, in forward", module=module)
    y = norm(x, "ln2", module, "model.py:67, in forward")
    four = "model.py:52, in forward"
    y = linear(y, "up", width, 4 * width, mlp, four)
    save = [("self", "input", b.storage_of[y, 0])]
    y = b.op("gelu", [(y, 0)], [[batch, tokens, 4 * width]], save=save, line=four, module=mlp)
    y = linear(y, "down", 4 * width, width, mlp, four)
    y = dropout(y, mlp, four)
    return b.op("add", [(x, 0), (y, 0)], [x_shape], line="model.py:67, in forward", module=module)


def random_graph(count, *, seed=0, modules=0, times=False):
    """A random graph whose entries share storages and, if asked for, sit in random modules."""
    b = Builder(f"random graph, {count:,} entries", times=times, seed=seed)
    choose = b.random
    paths = [f"part{k % 7}.layer{k // 7}" for k in range(modules)] or [""]
    values = [b.value([choose.randint(1, 64), choose.randint(1, 64)]) for _ in range(8)]
    for index in range(count):
        if index < 3 or choose.random() < 0.1:
            b.leaf(f"weight{index}", [4, 4], paths[index * len(paths) // count])
            continue
        near = range(max(0, index - 40), index)
        inputs = [(choose.choice(near), 0) for _ in range(choose.randint(1, 3))]
        save = []
        for number in range(choose.randint(0, 2)):
            if choose.random() < 0.7:
                values.append(b.value([choose.randint(1, 64), choose.randint(1, 64)]))
            save.append((f"value{number}", "value", choose.choice(values[-20:])))
        path = paths[min(len(paths) - 1, index * len(paths) // count + choose.randint(0, 1))]
        op = choose.choice(["mm", "add", "mul", "exp", "sum", "relu", "conv2d", "cat", "index"])
        line = f"random.py:{choose.randint(1, 60)}, in step"
        b.op(op, inputs, [[8, 8]], save=save, line=line, module=path)
    return b.document()


def small(title="two layers", *, hostile=""):
    """Seven entries whose bytes one can count by hand; texts carry what is hostile."""
    b = Builder(title)
    first, second = f"net.first{hostile}", "net.second"
    weight = b.leaf(f"{first}.weight", [4, 4], first)
    x = b.value([8, 4])
    at = {"line": "step.py:3, in step", "module": first}
    h = b.op(
        f"mm{hostile}",
        [(-1, 0), (weight, 0)],
        [[8, 4]],
        save=[("self", "input", x), ("mat2", "input", b.storage_of[weight, 0])],
        **at,
    )
    h = b.op("tanh", [(h, 0)], [[8, 4]], save=[("result", "output", 0)], **at)
    other = b.leaf(f"{second}.weight", [4, 2], second)
    at = {"line": "step.py:4, in step", "module": second}
    y = b.op(
        "mm",
        [(h, 0), (other, 0)],
        [[8, 2]],
        save=[("self", "input", b.storage_of[h, 0]), ("mat2", "input", b.storage_of[other, 0])],
        **at,
    )
    y = b.op("exp", [(y, 0)], [[8, 2]], save=[("result", "output", 0)], line="step.py:5, in step")
    b.op("sum", [(y, 0)], [[]], line="step.py:5, in step")
    return b.document(
        {"step.py:3": f"    h = torch.tanh(x @ first){hostile}", "step.py:4": "    y = h @ second"}
    )
