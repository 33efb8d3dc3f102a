"""Short ways to make and compare the small float64 tensors of these tests."""


def leaf(torch, values):
    """Return a float64 tensor that requires grad."""
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def constant(torch, values):
    """Return a float64 tensor that requires no grad."""
    return torch.tensor(values, dtype=torch.float64)


def near(actual, expected, tolerance=1e-10):
    """Say whether a tensor has the shape and, to rounding, the values of another or of a list."""
    actual = actual.detach()
    if isinstance(expected, (list, tuple, int, float)):
        expected = actual.new_tensor(expected)
    expected = expected.detach()
    if actual.shape != expected.shape:
        return False
    return bool(((actual - expected).abs() <= tolerance * (1 + expected.abs())).all())
