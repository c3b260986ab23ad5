"""What was sent, told so that two load tests can be held against each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The requests of a load test.

    Attributes:
        digest: of what is in the requests, the names of tensors left out; equal digests are equal contents.
        variants: how many different requests there are.
        text: whether they are prompts.
        length: words of a prompt, or the size of variable dimensions; None where there are none, or a file gave the
            requests.
        max_tokens: tokens that each answer may have; None where the model takes no such limit.
        asked: what of `max_tokens`, `min_tokens`, `ignore_eos` and `greedy` the requests ask for.
        streaming: whether responses come one by one.
        counted_by: what counts the tokens of answers; empty where nothing does.

    """

    digest: str
    variants: int
    text: bool
    length: int | None
    max_tokens: int | None = None
    asked: tuple[str, ...] = ()
    streaming: bool = False
    counted_by: str = ""

    @property
    def generates(self) -> bool:
        """Whether answers have a length that is asked for."""
        return self.max_tokens is not None

    @property
    def unasked(self) -> tuple[str, ...]:
        """What would make answers equally long and is not asked, as the model takes no such input."""
        return tuple(
            name for name in ("min_tokens", "ignore_eos", "greedy") if self.generates and name not in self.asked
        )


def differences(one: Workload, other: Workload) -> Iterator[str]:
    """Yield how two workloads differ, a few words each; nothing where they match."""
    for what, a, b in (
        ("kind", _kind(one), _kind(other)),
        ("responses", _responses(one), _responses(other)),
        ("max_tokens", one.max_tokens, other.max_tokens),
        ("asked for", ", ".join(one.asked) or "nothing", ", ".join(other.asked) or "nothing"),
        ("length of inputs", one.length, other.length),
    ):
        if a != b:
            yield f"{what}: {_word(a)} against {_word(b)}"
    if one.digest != other.digest and one.length == other.length:
        yield "contents of the requests (seed, or --input)"


def _responses(workload: Workload) -> str:
    return "one by one" if workload.streaming else "whole"


def _kind(workload: Workload) -> str:
    return "prompts" if workload.text else "tensors"


def _word(value: object) -> str:
    return "unknown" if value is None else str(value)
