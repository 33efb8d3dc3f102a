"""Steps of optimizers: many tensors, where memory counts, and a small model, where calls count."""

from __future__ import annotations

from benchmarks.case import Benchmark, Case

_KINDS = {
    "sgd": "SGD(params, lr=1e-3)",
    "sgd_momentum": "SGD(params, lr=1e-3, momentum=0.9)",
    "adam": "Adam(params)",
    "adamw_amsgrad": "AdamW(params, amsgrad=True)",
    "rmsprop": "RMSprop(params)",
    "adagrad": "Adagrad(params)",
}

_SHAPES = {
    "200x10k": "[(10000,)] * 200",
    "mlp": "[(98, 64), (64,), (64, 64), (64,), (64, 10), (10,)]",
}

_SETUP = """
params = [uniform(*shape).requires_grad_() for shape in {shapes}]
for param in params:
    param.grad = uniform(*param.shape)
optimizer = torch.optim.{made}
"""


def cases(table: object) -> list[Benchmark]:
    found: list[Benchmark] = []
    for label, shapes in _SHAPES.items():
        for name, made in _KINDS.items():
            setup = _SETUP.format(shapes=shapes, made=made)
            # The sides take different numbers of steps: what they agree on must not move.
            found.append(
                Case("optimizer", f"{name}.{label}", "optimizer.step()", setup, "params[0].grad")
            )
    setup = _SETUP.format(shapes=_SHAPES["mlp"], made=_KINDS["sgd"])
    found.append(Case("optimizer", "zero_grad.mlp", "optimizer.zero_grad()", setup, "params[0]"))
    for label, shapes in _SHAPES.items():
        setup = _SETUP.format(shapes=shapes, made=_KINDS["sgd"])
        clip = "torch.nn.utils.clip_grad_norm_(params, {})"
        found.append(Case("optimizer", f"clip.{label}", clip.format("1e-3"), setup, "params[0]"))
        found.append(Case("optimizer", f"no_clip.{label}", clip.format("1e9"), setup, "params[0]"))
    return found
