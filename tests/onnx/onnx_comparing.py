"""Exported graphs beside the models that they come from.

This folder is no package: as one it would hide the package onnx.
"""

import warnings

import numpy as np
import onnx
import onnxruntime
from library import torch

from tapegrad.utils._pytree import tree_flatten, tree_unflatten

onnxruntime.set_default_logger_severity(4)


def tensors_of(tree):
    """Return the tensors of nested containers."""
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def copied(tree):
    """Return nested containers with copies of their tensors."""
    leaves, structure = tree_flatten(tree)
    leaves = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    return tree_unflatten(leaves, structure)


def checked(program):
    """Check a graph with ONNX's checker, which infers all shapes and compares them."""
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def answers(model, args, kwargs=None):
    """Return what a model gives in eval mode, without changing the arguments."""
    if isinstance(model, torch.nn.Module):
        model.eval()
    with torch.no_grad():
        args = copied(args if isinstance(args, tuple | list) else (args,))
        return [each.detach() for each in tensors_of(model(*args, **copied(kwargs or {})))]


def assert_agrees(program, model, args, kwargs=None, tolerance=2e-5):
    """Compare a graph with the model on some arguments: values, shapes and dtypes."""
    wanted = answers(model, args, kwargs)
    found = program(*tensors_of((args, kwargs or {})))
    program.release()
    assert len(found) == len(wanted)
    for number, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        assert (tuple(ours.shape), ours.dtype) == (tuple(theirs.shape), theirs.dtype), number
        scale = np.abs(theirs.double().numpy()).max(initial=1.0, where=np.isfinite(theirs.numpy()))
        np.testing.assert_allclose(
            ours.double().numpy(),
            theirs.double().numpy(),
            rtol=tolerance,
            atol=tolerance * scale,
            err_msg=f"output {number}",
        )


def exported(model, args, tolerance=2e-5, **options):
    """Export a model, check the graph, compare it with the model, and return it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = checked(torch.onnx.export(model, args, **options))
    assert_agrees(program, model, args, options.get("kwargs"), tolerance)
    return program


def resized(tree, shapes, sizes):
    """Return arguments whose dynamic axes have other sizes, made of their elements."""
    if isinstance(tree, tuple | list):
        return tuple(resized(*each, sizes) for each in zip(tree, shapes, strict=True))
    for axis, name in (shapes or {}).items():
        places = torch.arange(sizes[name]) % tree.shape[axis]
        tree = tree.index_select(axis, places)
    return tree


def exported_dynamic(model, args, shapes, *others, tolerance=2e-5):
    """Export a model with dynamic axes and compare it on other sizes of them."""
    program = checked(torch.onnx.export(model, args, dynamic_shapes=shapes))
    for sizes in others:
        assert_agrees(program, model, resized(args, shapes, sizes), tolerance=tolerance)
    return program


class Calls(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        """Call it."""
        return self.function(*args)
