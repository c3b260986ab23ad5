from __future__ import annotations

import pytest

from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.packing import GpuMemory, Tenant, gpu_memory, packed, tenants_of
from diagnostics.forecast.predict import performance
from diagnostics.tuning.simulation.scenario import Model
from tests.builders import Stage, SyntheticTriton, model_config
from tests.builders_machine import machine_window
from tests.forecast.deployments import service
from tests.forecast.tunable import tunable


def tenant(model: str, share: float, held: float | None = 1e9, *, engine: bool = False) -> Tenant:
    return Tenant(model=model, share=share, held=held, engine=engine)


def models(*tenants: Tenant, card: float | None = 24e9) -> list[set[str]]:
    return [set(one.models) for one in packed(tenants, card).cards]


def test_models_share_a_card_up_to_half_of_its_time() -> None:
    assert models(tenant("a", 0.3), tenant("b", 0.2), tenant("c", 0.1)) == [{"a", "b"}, {"c"}]


def test_models_whose_memory_does_not_fit_together_get_cards_of_their_own() -> None:
    assert models(tenant("a", 0.1, 20e9), tenant("b", 0.05, 20e9)) == [{"a"}, {"b"}]


def test_without_a_cards_size_only_its_time_counts() -> None:
    assert models(tenant("a", 0.1, 20e9), tenant("b", 0.05, 20e9), card=None) == [{"a", "b"}]


def test_an_engine_stands_alone_as_it_takes_the_memory_that_is_free() -> None:
    assert models(tenant("llm", 0.1, engine=True), tenant("a", 0.05)) == [{"llm"}, {"a"}]


def test_what_is_not_known_and_what_overfills_a_card_is_reported() -> None:
    found = packed([tenant("a", 0.7), tenant("b", 0.1, None)], 24e9)

    assert found.overfull == ("a",)
    assert found.unread == ("b",)
    assert [one.held for one in found.cards] == [1e9, None]


def test_a_model_takes_the_work_that_its_requests_bring_and_the_memory_of_its_instances() -> None:
    fitted = tunable(Model(name="safety", service=service(0.02), instances=2, demand={"GPU": 0.5}), gpu=True)
    memory = GpuMemory(free=1e9, total=24e9, held={"safety": 2e9})

    (found,) = tenants_of(fitted, performance(fitted, draws=0, visits=2000), memory)

    # 20 requests per second × 20 ms × half of the card meanwhile.
    assert found.share == pytest.approx(0.2, rel=0.02)
    assert found.held == 4e9


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        ({"a": 1}, True),
        ({"a": 3}, False),
        ({"a": -1, "b": 1}, True),
        ({"b": 2}, None),
        ({"c": 1}, None),
        ({"a": 3, "c": 1}, False),
        ({"elsewhere": 9}, True),
    ],
)
def test_more_instances_fit_where_all_that_they_hold_is_known_to(more: dict[str, float], fits: bool | None) -> None:
    memory = GpuMemory(free=5e9, total=24e9, held={"a": 2e9}, at_most={"b": 3e9}, unknown=frozenset({"c"}))

    assert memory.fits(more) is fits


def test_memory_is_read_per_stub_where_the_recorder_knows_whose_it_is() -> None:
    stages = [Stage(name, rate=10, execution=0.01, config=on_gpu(name)) for name in ("safety", "embedder")]
    window = machine_window(SyntheticTriton(models=tuple(stages)), gpus=lambda _: [card()], hosts=lambda _: tree())

    fitted = tunable(*(Model(name=one.name, service=service(0.01)) for one in stages))
    found = gpu_memory(WindowEvidence(window), fitted)

    assert found is not None
    assert found.held == {"safety": 3 * 2**30}
    assert found.at_most == {"embedder": 3 * 2**30}
    assert found.free == pytest.approx(18 * 2**30)
    assert found.total == pytest.approx(24 * 2**30)


def on_gpu(name: str) -> dict[str, object]:
    return model_config(name, groups=({"kind": "KIND_GPU", "count": 1, "gpus": [0]},))


def card() -> dict[str, object]:
    processes = [{"pid": pid, "used_memory_bytes": size * 2**30} for pid, size in ((101, 3), (102, 2), (999, 1))]
    return {"processes": processes, "memory_used_bytes": 6 * 2**30, "memory_total_bytes": 24 * 2**30}


def tree() -> dict[str, object]:
    stubs = [(101, "safety"), (102, None)]
    return {
        "server_processes": [
            {"pid": pid, "ppid": 100, "comm": "triton_python_b", "cpu_seconds": 1.0, **({"model": m} if m else {})}
            for pid, m in stubs
        ]
    }
