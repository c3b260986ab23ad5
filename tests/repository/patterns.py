"""Whether a regular expression can take longer than linear time, decided by its syntax tree.

A pattern becomes a graph of atoms. Time grows faster than the text where two unbounded repeats can share one run of
characters (nothing between them stops the run) and what follows them may fail. A search that may begin anywhere counts
as a repeat of anything in front. It errs on the side of suspicion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

ALPHABET = frozenset(map(chr, range(128))) | frozenset("éÉ£–\u2003٣漢\x85ſ")
WORDS = frozenset(one for one in ALPHABET if re.match(r"\w", one))
LONG = 1000
"""Repeats of at most so many characters cost a constant, not a growth."""


@dataclass(eq=False)
class Atom:
    """One step of a pattern.

    Attributes:
        passes: whether a run of these characters can go through it.
        characters: what it takes, if it takes any.
        loops: whether it takes any number of them.
        gives_back: whether it can take fewer when what follows fails.
        inside: the atomic groups and the repeats of more than a character around it.
        free: whether it takes nothing and never fails.

    """

    passes: Callable[[frozenset[str]], bool] = lambda run: True
    characters: frozenset[str] = frozenset()
    loops: bool = False
    gives_back: bool = True
    free: bool = False
    inside: tuple[object, ...] = ()
    after: list[Atom] = field(default_factory=list)
    ends: Atom | None = None


def reasons(pattern: str | bytes, flags: int = 0, *, sought: bool = True, whole: bool = False) -> list[str]:
    """Return why a pattern may take superlinear time; empty if it cannot.

    `sought` where a match may begin anywhere, `whole` where it has to take all of the text.
    """
    graph = _Graph(pattern, flags)
    first, last = Atom(free=True), Atom(free=not whole)
    start = first
    if sought:
        start = graph.add(Atom(characters=ALPHABET, loops=True))
        start.after.append(first)
    graph.build(graph.tree, first, ()).after.append(last)
    return [*graph.pairs(last), *graph.overlapping]


class _Graph:
    def __init__(self, pattern: str | bytes, flags: int):
        text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
        flags = (flags & ~re.UNICODE) | re.ASCII if isinstance(pattern, bytes) else flags
        self.tree = parser.parse(text, flags & ~re.DEBUG)
        self.flags = self.tree.state.flags
        self.loops: list[Atom] = []
        self.overlapping: list[str] = []
        self.atomic: set[object] = set()

    def add(self, atom: Atom) -> Atom:
        if atom.loops:
            self.loops.append(atom)
        return atom

    def _group(self, *, atomic: bool) -> object:
        group = object()
        if atomic:
            self.atomic.add(group)
        return group

    def build(self, tree: Any, before: Atom, inside: tuple[object, ...]) -> Atom:
        """Append a sequence after an atom, and return its last."""
        for op, value in tree:
            before = self._one(op, value, before, inside)
        return before

    def _one(self, op: Any, value: Any, before: Atom, inside: tuple[object, ...]) -> Atom:
        if op in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            return self._then(before, self._character(op, value), inside)
        if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            return self._repeat(op, value, before, inside)
        if op is c.SUBPATTERN:
            return self._with_flags(value, before, inside)
        if op is c.ATOMIC_GROUP:
            return self.build(value, before, (*inside, self._group(atomic=True)))
        if op is c.BRANCH:
            return self._branch(value[1], before, inside)
        if op is c.AT:
            return self._guard(before, self._place(value), inside)
        if op in (c.ASSERT, c.ASSERT_NOT):
            return self._look(op, value, before, inside)
        assert op is c.GROUPREF, op
        return self._guard(before, lambda run: True, inside)

    def _with_flags(self, value: Any, before: Atom, inside: tuple[object, ...]) -> Atom:
        _, added, removed, body = value
        kept, self.flags = self.flags, (self.flags | added) & ~removed
        last = self.build(body, before, inside)
        self.flags = kept
        return last

    def _then(self, before: Atom, characters: frozenset[str], inside: tuple[object, ...], **more: Any) -> Atom:
        atom = self.add(Atom(lambda run: bool(run & characters), characters, inside=inside, **more))
        before.after.append(atom)
        return atom

    def _guard(self, before: Atom, passes: Callable[[frozenset[str]], bool], inside: tuple[object, ...]) -> Atom:
        atom = Atom(passes, inside=inside)
        before.after.append(atom)
        return atom

    def _repeat(self, op: Any, value: Any, before: Atom, inside: tuple[object, ...]) -> Atom:
        least, most, body = value
        gives, endless = op is not c.POSSESSIVE_REPEAT, most is c.MAXREPEAT or most > LONG
        last = Atom(free=True)
        if len(body) == 1 and body[0][0] in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            one = self._then(before, self._character(*body[0]), inside, loops=endless, gives_back=gives)
            one.passes = (lambda run: True) if endless and not least else one.passes
            one.after.append(last)
        else:
            entry = Atom(free=True)
            before.after.append(entry)
            around = (*inside, self._group(atomic=not gives))
            tail = self.build(body, entry, around)
            tail.after.append(last)
            if endless:
                taken = frozenset().union(*(one.characters for one in _reached(entry, last)))
                self.add(Atom(characters=taken, loops=True, gives_back=gives, inside=around, after=[entry], ends=last))
            if gives and most != 1:
                self._overlaps(body, endless)
                last.after.append(entry)
        if not least:
            before.after.append(last)
        return last

    def _branch(self, bodies: Sequence[Any], before: Atom, inside: tuple[object, ...]) -> Atom:
        last = Atom(free=True)
        for body in bodies:
            entry = Atom(free=True)
            before.after.append(entry)
            self.build(body, entry, inside).after.append(last)
        return last

    def _overlaps(self, body: Any, endless: bool) -> None:
        """Note where two alternatives of an endless repeat can begin alike."""
        while len(body) == 1 and body[0][0] is c.SUBPATTERN:
            body = body[0][1][3]
        if not (endless and len(body) == 1 and body[0][0] is c.BRANCH):
            return
        seen: frozenset[str] = frozenset()
        for one in body[0][1][1]:
            entry = Atom(free=True)
            kept, self.loops = self.loops, []
            self.build(one, entry, ())
            self.loops = kept
            begins = frozenset().union(*(atom.characters for atom in _first(entry)))
            if begins & seen:
                self.overlapping.append(f"alternatives in a repeat begin alike: {_shown(begins & seen)}")
            seen |= begins

    def _look(self, op: Any, value: Any, before: Atom, inside: tuple[object, ...]) -> Atom:
        body = value[1]
        if len(body) == 1 and body[0][0] in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            taken = self._character(*body[0])
            wanted = taken if op is c.ASSERT else ALPHABET - taken
            return self._guard(before, lambda run: bool(run & wanted), inside)
        last = self._guard(before, lambda run: True, inside)
        if value[0] > 0:  # what is looked for ahead is tried as a pattern of its own
            self.build(body, last, (*inside, self._group(atomic=True))).after.append(Atom())
        return last

    def _place(self, at: Any) -> Callable[[frozenset[str]], bool]:
        if at is c.AT_BOUNDARY:
            return lambda run: bool(run & WORDS) and bool(run - WORDS)
        if at is c.AT_END or (at is c.AT_BEGINNING and self.flags & re.MULTILINE):
            return lambda run: "\n" in run
        return lambda run: at is c.AT_NON_BOUNDARY

    def _character(self, op: Any, value: Any) -> frozenset[str]:
        if op is c.ANY:
            return ALPHABET if self.flags & re.DOTALL else ALPHABET - {"\n"}
        if op is c.NOT_LITERAL:
            return ALPHABET - self._cased({chr(value)})
        if op is c.LITERAL:
            return self._cased({chr(value)})
        taken: set[str] = set()
        for kind, one in value:
            if kind is c.LITERAL:
                taken.add(chr(one))
            elif kind is c.RANGE:
                taken |= {letter for letter in ALPHABET if one[0] <= ord(letter) <= one[1]}
            elif kind is c.CATEGORY:
                taken |= self._category(one)
        among = self._cased(taken)
        return ALPHABET - among if value[0][0] is c.NEGATE else among

    def _cased(self, taken: set[str]) -> frozenset[str]:
        if not self.flags & re.IGNORECASE:
            return frozenset(taken)
        return frozenset({one for each in taken for one in (each, each.lower(), each.upper())})

    def _category(self, category: Any) -> set[str]:
        _, negated, name = str(category).rpartition("_NOT_")
        name = name if negated else str(category).removeprefix("CATEGORY_")
        letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[name]
        wanted = re.compile(rf"\{letter.upper() if negated else letter}", self.flags & re.ASCII)
        return {one for one in ALPHABET if wanted.match(one)}

    def pairs(self, last: Atom) -> Iterator[str]:
        """Yield each pair of repeats that can share a run, where what follows may fail."""
        for one in self.loops:
            for two in self.loops if one.gives_back else ():
                run = one.characters & two.characters
                if run and self._meet(one, two, run) and last not in _free(two.ends or two):
                    yield f"two repeats share {_shown(run)}"

    def _meet(self, one: Atom, two: Atom, run: frozenset[str]) -> bool:
        if any(group in self.atomic and group not in two.inside for group in one.inside):
            return False
        composite = [each for each in (one, two) if each.ends]
        if one is two and composite:
            return False
        for each in composite:
            other = two if each is one else one
            if each.inside[-1] in other.inside or each.ends not in _reached(each.after[0], None, run):
                return False
        return (two.after[0] if two.ends else two) in _reached(one.ends or one, None, run, begun=True)


def _reached(start: Atom, end: Atom | None, run: frozenset[str] | None = None, *, begun: bool = False) -> set[Atom]:
    """Return all atoms that a run gets to, the ones behind `start` alone if it has begun there."""
    seen: set[Atom] = set() if begun else {start}
    todo = [start]
    while todo:
        for atom in todo.pop().after:
            if atom not in seen and atom is not end and (run is None or atom.passes(run)):
                seen.add(atom)
                todo.append(atom)
    return seen


def _free(start: Atom) -> set[Atom]:
    """Return what is reached without a character."""
    seen, todo = {start}, [start]
    while todo:
        for atom in todo.pop().after:
            if atom not in seen and atom.free:
                seen.add(atom)
                todo.append(atom)
    return seen


def _first(start: Atom) -> set[Atom]:
    """Return the atoms that can take the first character."""
    return {atom for free in _free(start) for atom in free.after}


def _shown(run: frozenset[str]) -> str:
    return repr("".join(sorted(run))[:20])
