"""What is known of one kind of inference server: how to recognise its page, and where on it things are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from diagnostics import names
from diagnostics.wire.exposition import SeriesLayout
from diagnostics.wire.json_body import decimal

# What a histogram or counter measures of an engine's tokens: seconds to the first one and between two, observed at each
# token or as the mean of each request, how many tokens there are, and how many each request has.
FIRST_TOKEN, NEXT_TOKEN, TOKEN_OF_REQUEST = "first_token", "next_token", "token_of_request"
GENERATED, PROMPTED = "generated", "prompted"
PROMPT_TOKENS, ANSWER_TOKENS = "prompt_tokens", "answer_tokens"
_REQUEST_SECONDS, _SUM = "request_seconds", "_sum"
# A status from here on is the server's failure; below, it is the caller's request that was wrong.
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOption:
    """How a user sets one limit of an engine.

    Attributes:
        flag: the command-line option.
        key: the same in an options file, nested keys joined by dots; empty without such a file.
        elsewhere: what it is called in other engines that such a server may hold.

    """

    flag: str
    key: str = ""
    elsewhere: str = ""

    def setting(self, value: int) -> str:
        """Return the option with a value, on the command line and in the file."""
        *outer, inner = self.key.split(".")
        written = f"{inner}: {value}"
        for key in reversed(outer):
            written = f"{key}: {{{written}}}"
        return f"{self.flag} {value}" + self._also(written)

    def __str__(self) -> str:
        return self.flag + self._also(self.key)

    def _also(self, written: str) -> str:
        also = f"in its YAML options: {written}" if self.key else self.elsewhere
        return f" ({also})" if also else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKind:
    """One kind of server. What a kind does not state is not read of it.

    Attributes:
        name: what its users call it.
        restarts: what to restart where one of its options changes; by default itself.
        page: port and path of its page, unless it is configured otherwise.
        model_label: the label that names the model: `model_name` or `model`, as signals look for no other.
        prefixes: how names of families begin that no other kind exports.
        marks: whole names of series that no other kind exports, where it has no prefix of its own.
        never: names of series that show that a page with its marks is another kind's.
        gauges: family -> what it means in an `EngineSample` (`diagnostics.wire.engine`), of series with `model_label`.
        typed_gauges: family -> the label that says what a series is, and its values -> what they mean.
        limits: info family -> label -> what it means in an `EngineSample`.
        constants: what is the same for every server of this kind.
        behind: of a server in front of others, gauges of a limit of one of them -> what it means in an `EngineSample`.
        shows_behind: of such a server, a family and the label by which it has a series for each server behind it.
        requests: series -> which `Counter` (`diagnostics.window.points`) it adds to; without `success`, no model is
            found.
        tokens_seen: series, or family of a histogram -> what it measures of tokens, as `FIRST_TOKEN`.
        errors: series of failed requests -> the label with the HTTP status; empty where all are failures.
        failed: values of that label that mean a failure of the server, where it is no HTTP status.
        stored: patterns of the names that are read from a store; of a kind that is not read, one that shows it.
        labels: labels by which it splits one server's series.
        encloses: whether a server whose families stand beside its own has no port of its own.
        has_api: whether its statistics and configuration can be read from an API of its own.
        slots, tokens, memory: how to set its slots, its token budget and the memory of its KV cache.
        scheduler: how its engine admits requests to the KV cache, unless it is configured otherwise: `preemption`,
            `retraction` or `guaranteed_no_evict`.
        chunks: whether its engine reads long prompts in parts, unless it is configured otherwise.
        counts: what to set so that its page counts requests, where it does not by itself.
        unread: what its page does not show, or what is not read of it.
        seen: the real server that it was tried with, in words.
        instead: what to name instead, where nothing of it is read.

    """

    name: str
    restarts: str = ""
    page: str = ":8000/metrics"
    model_label: str = names.SERVE_MODEL
    prefixes: tuple[str, ...] = ()
    marks: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()
    gauges: Mapping[str, str] = field(default_factory=dict)
    typed_gauges: Mapping[str, tuple[str, Mapping[str, str]]] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)
    behind: Mapping[str, str] = field(default_factory=dict)
    shows_behind: tuple[str, str] = ("", "")
    requests: Mapping[str, str] = field(default_factory=dict)
    tokens_seen: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    failed: frozenset[str] = frozenset()
    stored: tuple[str, ...] = ()
    labels: frozenset[str] = frozenset()
    encloses: bool = False
    has_api: bool = False
    slots: ServerOption | None = None
    tokens: ServerOption | None = None
    memory: ServerOption | None = None
    scheduler: str = "preemption"
    chunks: bool = True
    counts: str = ""
    unread: tuple[str, ...] = ()
    seen: str = "pages written from its sources"
    instead: str = ""

    @property
    def is_read(self) -> bool:
        """Whether anything of its pages is read."""
        return not self.instead

    @property
    def shows_time(self) -> bool:
        """Whether its page shows how long requests are in the engine."""
        return _REQUEST_SECONDS in self.requests.values()

    @property
    def latencies(self) -> tuple[str, ...]:
        """The histograms of the whole time of a request."""
        return tuple(name.removesuffix(_SUM) for name, counter in self.requests.items() if counter == _REQUEST_SECONDS)

    @property
    def restarted(self) -> str:
        """What is restarted to change an option."""
        return self.restarts or self.name

    def family(self, meaning: str) -> str:
        """Return the family that its page has for what an `EngineSample` means; empty where it has none."""
        return next((name for name, stated in {**self.gauges, **self.behind}.items() if stated == meaning), "")

    @property
    def counted_by(self) -> str:
        """The family that counts its requests."""
        return next((name for name, counter in self.requests.items() if counter == "success"), "").removesuffix(
            "_count"
        )

    @property
    def compare_limits(self) -> str:
        """What to compare to see which limit makes requests wait, in its own words."""
        running = self.family("scheduled") or f"{self.family('active')} less {self.family('waiting')}"
        limit = self.slots.flag if self.slots else self.family("slots")
        share, used = self.family("kv_share"), self.family("kv_used")
        held = f"{share} with 1" if share else f"{used} with {self.family('kv_blocks')}" if used else ""
        return f"compare {running} with {limit}" + (f", and {held}" if held else "")

    def stands_before_one(self, layout: SeriesLayout) -> bool:
        """Return whether a page shows that this server has exactly one other behind it."""
        family, label = self.shows_behind
        return len({layout.series[slot].labels.get(label) for slot in layout.by_name.get(family, ())}) == 1

    def is_failure(self, value: str) -> bool:
        """Return whether a value of the label in `errors` means a failure of the server; a caller's mistake is none."""
        return value in self.failed or (decimal(value) or 0) >= _SERVER_ERROR

    def shown_on(self, layout: SeriesLayout) -> bool:
        """Return whether a page is of this kind."""
        found = layout.by_name.keys()
        if self.never & found:
            return False
        if self.marks & found and any(
            self.model_label in layout.series[slot].labels
            for name in self.marks & found
            for slot in layout.by_name[name]
        ):
            return True
        return bool(self.prefixes) and any(name.startswith(self.prefixes) for name in found)

    def version_on(self, layout: SeriesLayout) -> str:
        """Return the version that the page gives in an info family of its own; empty where none does."""
        for name, slots in layout.by_name.items():
            if self.prefixes and name.startswith(self.prefixes) and name.endswith("_info"):
                version = layout.series[slots[0]].labels.get(names.VERSION, "")
                if version:
                    return version
        return ""

    def served_on(self, layout: SeriesLayout, model: str) -> bool:
        """Return whether the page counts requests of this model in the server's own words."""
        return any(
            layout.series[slot].labels.get(self.model_label) == model
            for name in self.requests.keys() & layout.by_name.keys()
            for slot in layout.by_name[name]
        )


def token_series(prefix: str, per_token: str = NEXT_TOKEN) -> Mapping[str, str]:
    """Return what vLLM and the servers that took over its names report of tokens.

    `per_token` is what the time per output token is: vLLM's older name of the time between two, at each token; or the
    mean of each request.
    """
    return {
        f"{prefix}time_to_first_token_seconds": FIRST_TOKEN,
        f"{prefix}inter_token_latency_seconds": NEXT_TOKEN,
        f"{prefix}time_per_output_token_seconds": per_token,
        f"{prefix}generation_tokens_total": GENERATED,
        f"{prefix}prompt_tokens_total": PROMPTED,
    }
