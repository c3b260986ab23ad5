"""PromQL as a text: on one line, without comments, and with brackets and quotes that close.

Only a store can tell whether a query means something; what never can is told with its line in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from diagnostics.slo.fields import YamlFields

_STRING = r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`]*`"
_TOKEN = re.compile(
    rf"(?P<string>{_STRING})|(?P<space>(?:\s|#[^\n]*)+)|(?P<sign>[()\[\]{{}}\"'`])|[^()\[\]{{}}\"'`\s#]+"
)
_QUOTES = "\"'`"
_CLOSES = {")": "(", "]": "[", "}": "{"}
_BINARY = frozenset("+-*/%^") | {"and", "or", "unless", "==", "!=", ">", "<", ">=", "<=", "atan2"}


def promql(fields: YamlFields, key: str) -> str:
    """Return the query below a key on one line, without comments.

    Raises:
        UsageError: it is not there, or no store could read it.

    """
    text = fields.text(key)
    fault = fault_in(text)
    if fault:
        raise fields.wrong(f"{key} is no PromQL: {fault}", "mend the query", key)
    return "".join(_plain(text)).strip()


def fault_in(query: str) -> str:
    """Return what makes a query unreadable for any store: brackets, quotes, or an operator that nothing follows.

    Empty where nothing of this is wrong, which does not say that a store can read it.
    """
    opened, last = list[str](), ""
    for found in _TOKEN.finditer(query):
        token = found[0]
        if found["space"]:
            continue
        if found["sign"] and token in _QUOTES:
            return f"a quote {token} is not closed"
        if found["sign"] and token in _CLOSES.values():
            opened.append(token)
        elif found["sign"] and (not opened or opened.pop() != _CLOSES[token]):
            return f"a {token!r} closes nothing"
        last = token
    if opened:
        return f"a {opened[-1]!r} is not closed"
    return f"nothing follows {last!r}" if last.lower() in _BINARY else "" if last else "it is empty"


def _plain(query: str) -> Iterator[str]:
    for found in _TOKEN.finditer(query):
        yield " " if found["space"] else found[0]
