"""Evidence from a window: its subjects, its graph, and readings that are computed once."""

from __future__ import annotations

from diagnostics.evidence.evidence import WindowEvidence, WindowLru
from diagnostics.signals.signal import Reading, Scope, Signal, Subject
from diagnostics.signals.triton import QUEUE_SECONDS, REQUEST_RATE, REQUESTS
from diagnostics.units import Unit
from diagnostics.window.view import ModelView
from diagnostics.window.window import Window
from tests.builders import SERVER, START, Stage, SyntheticTriton, chain, model_config, on

CHAT = Stage("chat", rate=10, config=chain("chat", "pre", "llm"))
PRE = Stage("pre", rate=10, execution=0.01, config=model_config("pre"))
LLM = Stage("llm", rate=10, execution=0.05, queue=0.1, config=model_config("llm", backend="tensorrtllm"))
SECOND = Stage("llm", rate=5, execution=0.05, queue=0.4, version="2")


def evidence() -> WindowEvidence:
    return SyntheticTriton(models=(CHAT, PRE, LLM, SECOND), gpu={}).evidence()


def test_ensembles_are_subjects_of_their_own_and_no_models() -> None:
    see = evidence()

    assert see.subjects(Scope.MODEL) == [on("llm", "1"), on("llm", "2"), on("pre", "1")]
    assert see.subjects(Scope.ENSEMBLE) == [Subject(server=SERVER, ensemble="chat")]
    assert see.subjects(Scope.SERVER) == [Subject(server=SERVER)]
    assert see.subjects(Scope.GPU) == [Subject(server=SERVER, gpu="GPU-0")]


def test_an_ensemble_is_read_from_its_own_row() -> None:
    assert evidence().read(REQUESTS, Subject(server=SERVER, ensemble="chat")).value == 600


def test_each_of_several_ensembles_is_read_from_its_own_row() -> None:
    other = Stage("search", rate=3, config=chain("search", "pre"))
    see = SyntheticTriton(models=(CHAT, other, PRE, LLM)).evidence()

    assert see.read(REQUESTS, Subject(server=SERVER, ensemble="chat")).value == 600
    assert see.read(REQUESTS, Subject(server=SERVER, ensemble="search")).value == 180


def test_a_subject_reads_the_same_from_inside_an_ensemble() -> None:
    see = evidence()

    assert see.read(QUEUE_SECONDS, on("pre").within("chat")) == see.read(QUEUE_SECONDS, on("pre"))


def test_a_span_reads_that_span_only() -> None:
    see = SyntheticTriton(models=(PRE,), times=(0, 10, 20, 60)).evidence()
    part = see.read(REQUESTS, on("pre"), (START, START + 20))

    assert (part.value, part.span) == (200, 20)
    assert see.read(REQUEST_RATE, on("pre")).span == 60


def test_a_reading_is_computed_once_per_subject_and_span() -> None:
    calls = []

    def count(view: ModelView) -> Reading:
        calls.append(view.model)
        return Reading.of(len(calls), Unit.COUNT, "test")

    signal = Signal(name="calls", unit=Unit.COUNT, scope=Scope.MODEL, doc="", readers=(count,))
    see = evidence()
    values = [see.read(signal, on(name)).value for name in ("pre", "pre", "llm", "pre")]

    assert values == [1, 1, 2, 1]


def test_an_engine_is_known_by_its_configuration() -> None:
    see = evidence()

    assert see.is_engine(on("llm"))
    assert see.shows_engine_time(on("llm"))
    assert not see.is_engine(on("pre"))


def test_the_graph_and_the_configurations_are_those_that_were_read() -> None:
    see = evidence()
    config = see.config(on("pre"))

    assert [ensemble.name for ensemble in see.graph(SERVER).callers("llm")] == ["chat"]
    assert config is not None
    assert config.backend == "python"
    assert see.config(on("unheard-of")) is None
    assert see.config_file(on("pre")) is None


def test_evidence_that_rests_says_the_same_when_it_is_requested_again() -> None:
    triton = SyntheticTriton(models=(CHAT, PRE, LLM, SECOND), gpu={})
    made, awake = [], WindowLru(1)

    def again() -> Window:
        made.append(triton.window())
        return made[-1]

    see = WindowEvidence(triton.window(), again, awake)
    before = (see.read(QUEUE_SECONDS, on("llm", "2")), see.subjects(Scope.MODEL), see.moments(SERVER))
    other = WindowEvidence(triton.window(), triton.window, awake)
    assert see.subjects(Scope.MODEL) == before[1]
    assert not made, "who is there is known without the window"
    assert (see.read(QUEUE_SECONDS, on("llm", "2")), see.subjects(Scope.MODEL), see.moments(SERVER)) == before
    assert len(made) == 1
    assert other.read(REQUESTS, on("pre")).value == 600, "made again in its turn"


def test_only_evidence_that_somebody_holds_takes_up_room() -> None:
    made: list[Window] = []
    triton, awake = SyntheticTriton(models=(PRE,)), WindowLru(2)
    kept = WindowEvidence(triton.window(), lambda: made.append(triton.window()) or made[-1], awake)
    for _ in range(5):
        WindowEvidence(triton.window(), triton.window, awake)
    assert kept.read(REQUESTS, on("pre")).value == 600
    assert not made


def test_evidence_whose_window_cannot_be_made_again_keeps_it() -> None:
    see = evidence()
    see.evict()
    assert see.read(REQUESTS, on("pre")).value == 600
