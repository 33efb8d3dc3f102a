"""A line search for the strong Wolfe conditions, by bracketing and cubic interpolation.

Along a direction from a start where the loss is ``f`` and its slope is ``s < 0``, a step ``t`` is
sought that lowers the loss enough, ``f(t) <= f + c1 * t * s``, and flattens it enough,
``|f'(t)| <= c2 * |s|``. Steps first grow until two points bracket such a ``t``; then the bracket
shrinks around it. A bracket is a list of two points in the order in which they were found.
"""

from collections.abc import Callable
from typing import NamedTuple

from tapegrad import Tensor

SUFFICIENT_DECREASE = 1e-4
CURVATURE = 0.9


class Point(NamedTuple):
    """A place along the line: its distance, the loss and gradient there, and the slope."""

    t: float
    loss: float
    grad: Tensor
    slope: float


class _Conditions(NamedTuple):
    """The strong Wolfe conditions, as seen from the start of the line."""

    start: Point

    def too_high(self, point: Point) -> bool:
        """Return whether the loss has not decreased enough."""
        allowed = self.start.loss + SUFFICIENT_DECREASE * point.t * self.start.slope
        return point.loss > allowed

    def flat(self, point: Point) -> bool:
        """Return whether the slope is small enough."""
        return abs(point.slope) <= -CURVATURE * self.start.slope


def strong_wolfe(
    evaluate: Callable[[float], Point],
    start: Point,
    t: float,
    direction_size: float,
    tolerance_change: float,
    most: int,
) -> tuple[Point, int]:
    """Search along a line.

    Args:
        evaluate: returns the point at a distance.
        start: the point at distance 0.
        t: the distance to try first.
        direction_size: the largest element of the direction, in absolute value.
        tolerance_change: stop when the bracket's ends differ by less than this in all elements.
        most: how many further evaluations to spend.

    Returns:
        The point found, and how many evaluations it took.
    """
    conditions = _Conditions(start)
    bracket, spent = _bracket(evaluate, conditions, t, most)
    if len(bracket) == 1 or spent >= most:
        return min(bracket, key=lambda point: point.loss), spent + 1

    def narrow() -> bool:
        return abs(bracket[1].t - bracket[0].t) * direction_size < tolerance_change

    point, spent = _zoom(evaluate, conditions, bracket, narrow, spent, most)
    return point, spent + 1


def _bracket(
    evaluate: Callable[[float], Point], conditions: _Conditions, t: float, most: int
) -> tuple[list[Point], int]:
    """Return one point that fulfils the conditions, or two around one, and the steps taken."""
    previous, point = conditions.start, evaluate(t)
    for spent in range(most):
        rising = spent > 1 and point.loss >= previous.loss
        if conditions.too_high(point) or rising:
            return [previous, point], spent
        if conditions.flat(point):
            return [point], spent
        if point.slope >= 0:
            return [previous, point], spent
        bounds = (point.t + 0.01 * (point.t - previous.t), point.t * 10)
        t = _minimum_of_cubic(previous, point, bounds)
        previous, point = point, evaluate(t)
    return [conditions.start, point], most


def _zoom(
    evaluate: Callable[[float], Point],
    conditions: _Conditions,
    bracket: list[Point],
    narrow: Callable[[], bool],
    spent: int,
    most: int,
) -> tuple[Point, int]:
    """Shrink a bracket until its better end fulfils the conditions; return that end."""
    stalled = False
    low = 0 if bracket[0].loss <= bracket[1].loss else 1
    while spent < most and not narrow():
        t = _minimum_of_cubic(bracket[0], bracket[1])
        t, stalled = _away_from_ends(t, bracket, stalled)
        point = evaluate(t)
        spent += 1
        if conditions.too_high(point) or point.loss >= bracket[low].loss:
            bracket[1 - low] = point
            low = 0 if bracket[0].loss <= bracket[1].loss else 1
            continue
        if conditions.flat(point):
            return point, spent
        if point.slope * (bracket[1 - low].t - bracket[low].t) >= 0:
            bracket[1 - low] = bracket[low]
        bracket[low] = point
    return bracket[low], spent


def _away_from_ends(t: float, bracket: list[Point], stalled: bool) -> tuple[float, bool]:
    """Move a trial that is close to an end of the bracket inwards, if it was so before as well.

    Returns:
        The trial, and whether the next one is to be moved if it is close again.
    """
    left, right = sorted((bracket[0].t, bracket[1].t))
    margin = 0.1 * (right - left)
    if min(right - t, t - left) >= margin:
        return t, False
    if not (stalled or t >= right or t <= left):
        return t, True
    return (right - margin if abs(t - right) < abs(t - left) else left + margin), False


def _minimum_of_cubic(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Return where the cubic with two points' losses and slopes is least, within bounds."""
    left, right = (a, b) if a.t <= b.t else (b, a)
    low, high = bounds or (left.t, right.t)
    width = right.t - left.t
    if width == 0:
        return (low + high) / 2
    d1 = left.slope + right.slope - 3 * (right.loss - left.loss) / width
    discriminant = d1 * d1 - left.slope * right.slope
    if not discriminant >= 0:
        return (low + high) / 2
    d2 = discriminant**0.5
    denominator = right.slope - left.slope + 2 * d2
    if denominator == 0:
        return (low + high) / 2
    t = right.t - width * (right.slope + d2 - d1) / denominator
    return min(max(t, low), high)
