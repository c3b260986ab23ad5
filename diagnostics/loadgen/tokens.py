"""How the tokens of an answer are counted: by the server, else by its tokenizer; words are no tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from diagnostics.errors import UsageError, not_installed
from diagnostics.loadgen.sampling import COUNTS
from diagnostics.loadgen.transport import Reads, Reply
from exporters.sources.given_file import read_given


def reads_of(config: Mapping[str, Any], tokens_from: str | None, tokenizer: Path | None) -> Reads:
    """Return what to read of answers for their tokens.

    Args:
        config: the model's configuration.
        tokens_from: the output that holds a response's number of tokens; None takes `num_output_tokens` if it is there.
        tokenizer: whose count of the text is wanted instead.

    Raises:
        UsageError: the model has no such output, or no text for the tokenizer, or both are wanted.

    """
    if tokenizer is not None and tokens_from is not None:
        where = "--tokenizer, --tokens-from"
        raise UsageError("tokens are counted in one way", where=where, hint="give one of them")
    outputs = {field["name"]: field["data_type"] for field in config.get("output", ())}
    if tokenizer is not None:
        texts = [name for name, kind in outputs.items() if kind == "TYPE_STRING"]
        if not texts:
            raise UsageError("the model has no text to count tokens of", where="--tokenizer")
        return Reads(text=texts[0])
    if tokens_from is not None and tokens_from not in outputs:
        hint = f"its outputs are {', '.join(outputs)}"
        raise UsageError(f"the model has no output {tokens_from!r}", where="--tokens-from", hint=hint)
    return Reads(counts=tokens_from or (COUNTS if COUNTS in outputs else ""))


def counter(tokenizer: Path | None) -> Callable[[Reply], int | None]:
    """Return what counts a reply's tokens; it returns None where nothing tells.

    Raises:
        UsageError: the package `tokenizers` is missing, or the file is no tokenizer.

    """
    if tokenizer is None:
        return lambda reply: sum(reply.counts) if reply.counts else None
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise not_installed(error, "bench", where="--tokenizer") from error
    body = read_given(tokenizer)
    try:
        read = Tokenizer.from_buffer(body)
    # Its Rust side ends what it did not think of by a panic, which is no Exception.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        hint = "give the model's tokenizer.json"
        raise UsageError("is no tokenizer", where=str(tokenizer), hint=hint) from error
    return partial(_counted, read)


def _counted(tokenizer: Any, reply: Reply) -> int | None:
    try:
        return len(tokenizer.encode(reply.text, add_special_tokens=False).ids)
    except Exception:  # noqa: BLE001 - its errors are no more than that; a text that it does not take has no known number
        return None
