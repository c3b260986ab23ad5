"""The results in Markdown, as the documentation quotes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.prediction.comparing import QUANTITIES, STEADY_BUSY_SHARE, Held, coverage, median_error, order

_HEAD = ("measurements", "mean", "p95", "throughput")


def machine_line(machine: Mapping[str, str]) -> str:
    """Return what the measurements came from."""
    gpu = f", {machine['gpu']}" if machine.get("gpu") else ""
    return f"{machine['cpu']}, {machine['cores']} cores{gpu}, Linux {machine['kernel']}, Triton {machine['triton']}"


def prediction_lines(held: Sequence[Held]) -> Iterator[str]:
    """Yield the tables of prediction errors: of all points, of each group, and of those that compute on a GPU."""
    sleeping, computing = ([one for one in held if one.on_card is wanted] for wanted in (False, True))
    if sleeping:
        yield from _all_lines(sleeping)
        yield from _groups(sleeping)
    if computing:
        yield from ("", "Stages that compute on that GPU, which their processes share in turn:", "")
        yield from _all_lines(computing)
        yield from _groups(computing)


def _groups(held: Sequence[Held]) -> Iterator[str]:
    yield ""
    yield from _table("group", (*_HEAD, "inside (mean)", "busiest stage"))
    for group in dict.fromkeys(one.group for one in held):
        yield _group_row(group, [one for one in held if one.group == group])


def _all_lines(held: Sequence[Held]) -> Iterator[str]:
    steady, busy = ([one for one in held if one.steady is wanted] for wanted in (True, False))
    yield from _table("", _HEAD)
    yield _row(f"median error, busiest stage ≤ {STEADY_BUSY_SHARE:.0%}", [str(len(steady)), *_errors(steady)])
    yield _row("aimed at", ["", *(f"≤ {quantity.goal:.0%}" for quantity in QUANTITIES)])
    yield _row("inside the 90 % interval, busiest ≤ 85 %", [str(len(steady)), *_inside(steady)])
    yield _row("inside the 90 % interval, busiest > 85 %", [str(len(busy)), *_inside(busy)])
    right, pairs = order(held)
    yield _row("alternatives in the right order", [f"{pairs} pairs", f"{right} of {pairs}", "", ""])


def _group_row(group: str, held: Sequence[Held]) -> str:
    inside, intervals = coverage(held, QUANTITIES[0])
    shares = [one.measured.busy_share for one in held]
    between = f"{min(shares):.0%} to {max(shares):.0%}"
    return _row(group, [str(len(held)), *_errors(held), f"{inside} of {intervals}", between])


def _errors(held: Sequence[Held]) -> Iterator[str]:
    for quantity in QUANTITIES:
        error = median_error(held, quantity)
        yield "" if error is None else "none" if error == float("inf") else f"{error:.1%}"


def _inside(held: Sequence[Held]) -> Iterator[str]:
    for quantity in QUANTITIES:
        inside, intervals = coverage(held, quantity)
        yield f"{inside} of {intervals}"


def each_line(one: Held) -> str:
    """Return a measurement beside its prediction."""
    text = f"{one.measured.name:<28} busy {one.measured.busy_share:>4.0%}"
    if one.predicted is None:
        return f"{text}  {one.refused}"
    for quantity, unit in zip(QUANTITIES, (1e3, 1e3, 1.0), strict=True):
        estimate = quantity.predicted(one.predicted)
        stated = "not stable" if estimate is None else f"{estimate.value * unit:8.1f} [{estimate.low * unit:.1f}, "
        stated += "" if estimate is None else f"{'∞' if estimate.high is None else f'{estimate.high * unit:.1f}'}]"
        error = one.error(quantity)
        off = "" if error is None else f" {error:.1%}"
        text += f"  {quantity.name} {quantity.measured(one.measured) * unit:.1f} as {stated}{off}"
    return text


def meets_goals(held: Sequence[Held]) -> bool:
    """Return whether all that is aimed at was reached on the points whose stages sleep."""
    sleeping = [one for one in held if not one.on_card]
    if not sleeping:
        return True
    steady, busy = ([one for one in sleeping if one.steady is wanted] for wanted in (True, False))
    errors = [(median_error(steady, quantity), quantity.goal) for quantity in QUANTITIES]
    counts = [coverage(busy, quantity) for quantity in QUANTITIES]
    right, pairs = order(sleeping)
    return (
        all(error is not None and error <= goal for error, goal in errors)
        and all(inside >= 0.9 * intervals for inside, intervals in counts)
        and right == pairs
    )


def _table(first: str, heads: Sequence[str]) -> Iterator[str]:
    yield _row(first, heads)
    yield _row("---", ["---:"] * len(heads))


def _row(first: str, cells: Sequence[str]) -> str:
    return f"| {' | '.join((first, *cells))} |"
