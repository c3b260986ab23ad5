"""What an incident of a drawn kind is: models and ensembles of any topology, clients, and what happens meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.benchmark.deployment import EngineSpec

SECONDS = 40.0
# What Triton and the backend add to an execution, and a call from inside a model to what is called.
_DISPATCH_MS = 0.6
_CALL_MS = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model. Times in milliseconds; `delay_us` None means no dynamic batching.

    Attributes:
        calls: models that it calls itself, one group after another, those of a group at once.
        traced: calls carry the trace of the request that makes them.
        unit: the rate limiter's resource of which an execution takes one; empty for none.
        cache: answers may come from the response cache.
        versions: version folders; more than one is served side by side.
        version_ms: base times of single versions, where they differ.
        joins: it takes a second input.
        locked: for this last part of its time, one instance executes at a time; 1 is all of it.
        lanes: above 0 it answers from so many threads of its own.
        parts: above 0 it is decoupled and sends so many responses.
        broken: why it cannot be loaded; empty for a model that can.
        ordered: with dynamic batching, responses leave in the order of their requests.
        oddities: parameters of `models/odd_model.py`, which is its code if there are any.
        further: more lines of its configuration.
    """

    name: str
    base_ms: float
    per_item_ms: float = 0.0
    jitter: float = 0.05
    instances: int = 1
    max_batch: int = 1
    delay_us: int | None = None
    ordered: bool = False
    oddities: Mapping[str, object] = field(default_factory=dict)
    further: str = ""
    queue_limit: int = 0
    queue_timeout_ms: int = 0
    priorities: bool = False
    sequence_idle_ms: int = 0
    calls: tuple[tuple[str, ...], ...] = ()
    traced: bool = False
    unit: str = ""
    cache: bool = False
    versions: tuple[int, ...] = (1,)
    version_ms: Mapping[int, float] = field(default_factory=dict)
    joins: bool = False
    width: int = 4
    out_values: int = 0
    locked: float = 0.0
    lanes: int = 0
    parts: int = 0
    mode: str = "sleep"
    first_ms: float = 0.0
    load_ms: float = 0.0
    broken: str = ""

    def seconds(self, items: float = 1.0) -> float:
        """Return the time of an execution of its own, without the models it calls."""
        return (self.base_ms + self.per_item_ms * items + _DISPATCH_MS) / 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of an ensemble: which tensors it takes, and which it gives."""

    model: str
    takes: tuple[str, ...]
    gives: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble:
    """An ensemble; the tensor that clients send is `IN`, the one they get is `OUT`."""

    name: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What one server serves."""

    models: tuple[Model, ...]
    ensembles: tuple[Ensemble, ...] = ()
    engine: EngineSpec | None = None

    def model(self, name: str) -> Model:
        """Return a model by name."""
        return next(model for model in self.models if model.name == name)

    def changed(self, name: str, **values: object) -> World:
        """Return the world with other settings of one model."""
        models = tuple(replace(m, **values) if m.name == name else m for m in self.models)  # type: ignore[arg-type]
        return replace(self, models=models)

    def path_ms(self, name: str) -> float:
        """Return what a request to `name` takes when nothing waits, over its longest way."""
        for ensemble in self.ensembles:
            if ensemble.name == name:
                return self._through(ensemble)
        if self.engine is not None and self.engine.name == name:
            return 9.0 + 26 * self.engine.decode_ms
        model = self.model(name)
        own = model.seconds() * 1e3 + (model.delay_us or 0) / 1e3
        return own + sum(max(self.path_ms(one) + _CALL_MS for one in group) for group in model.calls)

    def _through(self, ensemble: Ensemble) -> float:
        ready = {"IN": 0.0}
        for step in ensemble.steps:
            ready[step.gives] = max(ready[tensor] for tensor in step.takes) + self.path_ms(step.model)
        return max(ready.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One stream of clients.

    Attributes:
        rate: requests a second of an open loop, Poisson; with `burst` above 1 that many at once, evenly.
        clients: above 0, a closed loop of so many, each of which thinks `think` seconds.
        start, end: seconds of the recording between which it lasts; an end of 0 is the recording's.
        rises: from the middle on so many times as many arrive.
        high: share of requests with priority 1, others have 2; None where none has any.
        turns: requests of a sequence, 0 where requests belong to none; `pause` seconds between two.
        left_open: the share of sequences that never end.
        distinct: requests are so many different ones; 0 for all the same.
        patience: seconds after which the client hangs up.
        version: the version that is asked; 0 for none in particular.
        version_later: from the middle on.
        by_hand: models that it calls one after another instead.
        hop_ms: what each way between client and server takes.
        stream: asks through `generate_stream`, as decoupled models need it.
    """

    model: str
    rate: float = 0.0
    clients: int = 0
    think: float = 0.0
    burst: int = 1
    start: float = 0.0
    end: float = 0.0
    rises: float = 1.0
    rows: int = 1
    values: int = 4
    high: float | None = None
    turns: int = 0
    pause: float = 0.0
    left_open: float = 0.0
    distinct: int = 0
    patience: float = 15.0
    version: int = 0
    version_later: int = 0
    by_hand: tuple[str, ...] = ()
    hop_ms: float = 0.0
    stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happens `at` a share of the recording.

    Attributes:
        do: `set` (other settings of a model, then a load), `unload`, `load` (as it is in the repository), `release`
            (version 2 with other settings), `control` (the model misbehaves from now on), `kill` (an instance's
            process), `hog` (processes that take the server's processors for `seconds`),
            `throttle` (for `seconds` the server's processes run only for 60 ms of each `period` seconds),
            `rewire` (an ensemble gets other steps), `restart` (the server is killed, and starts anew).
        model: whom it happens to.
        values: the settings, or what the model's control file says.
    """

    at: float
    do: str
    model: str = ""
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One incident of a kind before it is recorded.

    Attributes:
        causes: the checks that may be named; empty for a healthy one. `healthy` among them allows that too.
        targets: the models, or ensembles, of which one may be named; empty for any.
        also: what may be named besides.
        fault_at: share of the recording at which the fault begins; 0 for one that was there all the time.
        abstain_ok: what is visible does not suffice to know, so saying so is right.
        no_gain: models whose instance count cannot help.
        repairs: by the check that suggests it, what a single change makes of this, where causes compete.
        options: further options of the server.
        cores: processors that the server may use; 0 for all.
        sight: what can be seen; one of `SIGHTS`.
        refused: a model cannot be loaded at the start, and the server starts nevertheless.
    """

    world: World
    loads: tuple[Load, ...]
    events: tuple[Event, ...] = ()
    causes: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    fault_at: float = 0.0
    abstain_ok: bool = False
    no_gain: tuple[str, ...] = ()
    repairs: Mapping[str, Incident] | None = None
    options: tuple[str, ...] = ()
    cores: int = 0
    seconds: float = SECONDS
    sight: str = "full"
    refused: bool = False
    version: str = ""

    def changed(self, model: str, **values: object) -> Incident:
        """Return the incident with other settings of one model."""
        return replace(self, world=self.world.changed(model, **values))
