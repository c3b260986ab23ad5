"""The reference deployment: it parses, faults differ only where they say, the engine stand-in counts right."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from string import Template
from types import ModuleType

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc.model_config_pb2 import ModelConfig

from diagnostics.demo.environment import reference_root
from diagnostics.demo.faults import fault_names, load_fault, make_release, materialise
from diagnostics.errors import UsageError

ROOT = reference_root()
LOCAL = ROOT / "model_repository"
REAL = ROOT / "tensorrt-llm"
STAGES = ["preprocessing", "embedder", "safety", "tensorrt_llm", "postprocessing"]
FAULTS = fault_names()


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = loaded
    spec.loader.exec_module(loaded)
    return loaded


batcher = module(LOCAL / "tensorrt_llm" / "1" / "batcher.py")
builder = module(REAL / "build_engines.py")


def parse(path: Path) -> ModelConfig:
    return text_format.Parse(path.read_text("utf-8"), ModelConfig())


def configs(repository: Path) -> dict[str, ModelConfig]:
    return {path.parent.name: parse(path) for path in sorted(repository.glob("*/config.pbtxt"))}


def differences(before: dict[str, ModelConfig], after: dict[str, ModelConfig]) -> set[str]:
    assert before.keys() == after.keys()
    fields = [field.name for field in ModelConfig.DESCRIPTOR.fields]
    return {
        f"{model}.{field}"
        for model in before
        for field in fields
        if getattr(before[model], field) != getattr(after[model], field)
        or _present(before[model], field) != _present(after[model], field)
    }


def _present(config: ModelConfig, field: str) -> bool:
    return field in {descriptor.name for descriptor, _ in config.ListFields()}


def check_ensemble(models: dict[str, ModelConfig]) -> None:
    """Every step's model exists and has the tensors that are mapped; data flows forward only."""
    ensemble = models["ensemble"]
    known = {field.name for field in ensemble.input}
    for step in ensemble.ensemble_scheduling.step:
        member = models[step.model_name]
        assert set(step.input_map) <= {field.name for field in member.input}
        required = {field.name for field in member.input if not field.optional}
        assert required <= set(step.input_map)
        assert set(step.output_map) <= {field.name for field in member.output}
        assert set(step.input_map.values()) <= known
        known |= set(step.output_map.values())
    assert {field.name for field in ensemble.output} <= known


def check_batch_limits(models: dict[str, ModelConfig]) -> None:
    members = [models[step.model_name] for step in models["ensemble"].ensemble_scheduling.step]
    assert models["ensemble"].max_batch_size <= min(member.max_batch_size for member in members)


def test_the_ensemble_passes_its_five_stages_in_order() -> None:
    models = configs(LOCAL)
    assert [step.model_name for step in models["ensemble"].ensemble_scheduling.step] == STAGES
    assert sorted(models) == sorted([*STAGES, "ensemble"])
    check_ensemble(models)


def test_each_folder_is_named_like_its_model() -> None:
    assert {name: config.name for name, config in configs(LOCAL).items()} == {
        name: name for name in [*STAGES, "ensemble"]
    }


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_changes_what_it_says_and_nothing_else(name: str, tmp_path: Path) -> None:
    fault = load_fault(name)
    healthy = configs(materialise(load_fault("healthy"), tmp_path / "healthy"))
    faulty = configs(materialise(fault, tmp_path / "faulty"))
    assert differences(healthy, faulty) == set(fault.changes)
    check_ensemble(faulty)
    check_batch_limits(faulty)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_keeps_every_comment_of_the_files_it_replaces(name: str) -> None:
    for path in load_fault(name).folder.rglob("config.pbtxt"):
        healthy = (LOCAL / path.parent.name / "config.pbtxt").read_text("utf-8")
        comments = {line for line in healthy.splitlines() if line.startswith("#")}
        assert comments <= set(path.read_text("utf-8").splitlines())


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_its_check_and_a_model_that_exists(name: str) -> None:
    fault = load_fault(name)
    assert (fault.check is None) == (name == "healthy") == (fault.model is None) == (fault.layer is None)
    assert fault.model is None or fault.model in STAGES
    assert fault.load.model in [*STAGES, "ensemble"]
    assert fault.title
    assert fault.does.endswith(".")


def test_a_release_makes_the_new_version_and_changes_what_it_says(tmp_path: Path) -> None:
    fault = load_fault("cold-start")
    repository = materialise(fault, tmp_path / "repository")
    before = configs(repository)
    release = make_release(fault, repository)
    assert differences(before, configs(repository)) == set(release.changes)
    new, old = repository / release.model / release.version, repository / release.model / "1"
    assert sorted(path.name for path in new.iterdir()) == sorted(path.name for path in old.iterdir())


def test_a_fault_without_a_release_has_none_to_make(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no release"):
        make_release(load_fault("healthy"), tmp_path)


def test_an_unknown_fault_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no fault 'no-such'; choose one of .*single-instance"):
        load_fault("no-such")


def test_a_name_that_leads_out_of_the_folder_is_no_fault() -> None:
    with pytest.raises(UsageError, match="there is no fault"):
        load_fault("../faults/healthy")


def test_a_written_repository_gives_each_model_the_modules_it_imports(tmp_path: Path) -> None:
    repository = materialise(load_fault("healthy"), tmp_path / "repository")
    own = {"numpy", "triton_python_backend_utils"}
    for script in repository.glob("*/1/*.py"):
        local = imported(script) - own - set(sys.stdlib_module_names)
        assert {f"{name}.py" for name in local} <= {path.name for path in script.parent.iterdir()}
    assert (repository / "ensemble" / "1").is_dir()
    assert not list(repository.rglob("__pycache__"))


def imported(script: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(script.read_text("utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def limits(**changes: float) -> object:
    values: dict[str, float] = {
        "max_batch": 4,
        "kv_blocks": 100,
        "tokens_per_block": 64,
        "prefill_base": 0.005,
        "prefill_per_token": 0.0001,
        "decode_base": 0.004,
        "decode_per_request": 0.0001,
    }
    return batcher.Limits(**(values | changes))


def test_an_engine_reserves_blocks_for_the_longest_possible_sequence() -> None:
    engine = batcher.InflightBatcher(limits(kv_blocks=5))
    for _ in range(3):
        engine.add(batcher.Sequence(None, prompt_tokens=64, output_tokens=65))
    iteration = engine.step()
    assert (iteration.context, iteration.waiting, iteration.used_blocks) == (1, 2, 3)


def test_an_engine_without_a_free_slot_lets_requests_wait_beside_free_blocks() -> None:
    engine = batcher.InflightBatcher(limits(max_batch=2))
    for _ in range(5):
        engine.add(batcher.Sequence(None, prompt_tokens=10, output_tokens=4))
    engine.step()
    iteration = engine.step()
    assert (iteration.scheduled, iteration.waiting, iteration.used_blocks) == (2, 3, 2)


def test_an_iteration_takes_longer_the_more_it_decodes_and_prefills() -> None:
    engine = batcher.InflightBatcher(limits())
    for _ in range(2):
        engine.add(batcher.Sequence(None, prompt_tokens=20, output_tokens=3))
    assert engine.step().seconds == pytest.approx(0.005 + 40 * 0.0001)
    assert engine.step().seconds == pytest.approx(0.004 + 2 * 0.0001)


@given(
    st.lists(st.tuples(st.integers(1, 200), st.integers(1, 40)), min_size=1, max_size=30),
    st.integers(1, 8),
    st.integers(4, 40),
)
def test_an_engine_finishes_every_request_in_order_of_admission_within_its_limits(
    requests: list[tuple[int, int]], slots: int, blocks: int
) -> None:
    engine = batcher.InflightBatcher(limits(max_batch=slots, kv_blocks=blocks))
    for index, (prompt, output) in enumerate(requests):
        engine.add(batcher.Sequence(index, prompt, output))
    finished = []
    while not engine.idle:
        iteration = engine.step()
        assert iteration.scheduled <= slots
        assert 0 < iteration.used_blocks <= blocks
        assert iteration.seconds > 0
        finished += iteration.finished
    assert sorted(sequence.owner for sequence in finished) == list(range(len(requests)))
    assert all(sequence.generated == sequence.output_tokens for sequence in finished)
    assert engine.used_blocks == 0


@pytest.mark.parametrize("form", builder.FORMS)
def test_a_filled_real_form_parses_and_fits_together(form: str, tmp_path: Path) -> None:
    options = builder.parse_arguments(["--form", form, "--repository", str(tmp_path / "chat")])
    builder.write_repository(form, options.repository, builder.template_values(options))
    models = configs(options.repository)
    check_ensemble(models)
    check_batch_limits(models)
    assert sorted(models) == sorted({*builder.stages(form), "tensorrt_llm", "ensemble"})
    assert all((options.repository / name / "1").is_dir() for name in models)


def test_the_engine_form_is_what_the_backend_reads(tmp_path: Path) -> None:
    options = builder.parse_arguments(
        ["--form", "engine", "--repository", str(tmp_path / "chat"), "--max-batch-size", "48"]
    )
    builder.write_repository("engine", options.repository, builder.template_values(options))
    engine = configs(options.repository)["tensorrt_llm"]
    parameters = {key: value.string_value for key, value in engine.parameters.items()}
    assert (engine.backend, engine.max_batch_size) == ("tensorrtllm", 48)
    assert parameters["gpt_model_type"] == "inflight_fused_batching"
    assert parameters["gpt_model_path"] == str(tmp_path / "chat" / "tensorrt_llm" / "1")
    assert parameters["kv_cache_free_gpu_mem_fraction"] == "0.9"
    assert parameters["max_tokens_in_paged_kv_cache"] == "${max_tokens_in_paged_kv_cache}"


def test_the_llm_api_form_has_the_engines_arguments_in_its_yaml(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    options = builder.parse_arguments(["--form", "llm-api", "--repository", str(tmp_path / "chat"), "--model", "m"])
    builder.write_repository("llm-api", options.repository, builder.template_values(options))
    settings = yaml.safe_load((options.repository / "tensorrt_llm" / "1" / "model.yaml").read_text("utf-8"))
    assert settings["model"] == "m"
    assert settings["kv_cache_config"] == {"free_gpu_memory_fraction": 0.9, "enable_block_reuse": True}
    assert settings["triton_config"] == {"max_batch_size": 0, "decoupled": False}


def test_no_template_field_lacks_a_value_but_those_left_to_the_backend(tmp_path: Path) -> None:
    options = builder.parse_arguments(["--form", "engine", "--repository", str(tmp_path / "chat")])
    given_values = builder.template_values(options)
    templates = [path for path in REAL.rglob("*") if path.suffix in builder.TEMPLATES]
    fields = {name for path in templates for name in Template(path.read_text("utf-8")).get_identifiers()}
    assert fields - given_values.keys() == {
        "gpu_device_ids",
        "iter_stats_max_iterations",
        "max_tokens_in_paged_kv_cache",
        "request_stats_max_iterations",
        "stats_check_period_ms",
    }


@pytest.mark.parametrize("script", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_script_of_the_deployment_parses(script: Path) -> None:
    ast.parse(script.read_text("utf-8"))


@pytest.mark.skipif(importlib.util.find_spec("tensorrt_llm") is not None, reason="here it could really build")
def test_building_without_tensorrt_llm_says_so_in_one_line_and_makes_nothing(tmp_path: Path) -> None:
    command = [sys.executable, REAL / "build_engines.py", "--form", "engine", "--repository", tmp_path / "chat"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "build_engines: tensorrt_llm is not installed; see requirements-tensorrt-llm.txt\n"
    assert not (tmp_path / "chat").exists()


def test_building_on_a_machine_without_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "class cuda:\n    @staticmethod\n    def is_available():\n        return False\n"
    )
    (tmp_path / "tensorrt_llm.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(builder.CannotBuild, match="no GPU"):
        builder.require_tensorrt_llm()


def test_a_release_without_tensorrt_engines_is_distinguished(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tensorrt_llm.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tensorrt_llm", raising=False)
    options = builder.parse_arguments(["--form", "engine", "--repository", str(tmp_path / "chat")])
    with pytest.raises(builder.CannotBuild, match="builds no TensorRT engines any more"):
        builder.build_engine(options)
    sys.modules.pop("tensorrt_llm", None)


def test_building_refuses_to_write_over_a_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        builder.parse_arguments(["--form", "engine", "--repository", str(tmp_path)])
    assert ended.value.code == 2
    assert "exists already" in capsys.readouterr().err


def test_tensorrt_llm_stands_in_its_own_requirements_and_nowhere_else() -> None:
    text = (REAL / "requirements-tensorrt-llm.txt").read_text("utf-8")
    assert any(line.startswith("tensorrt-llm") for line in text.splitlines())
    project = ROOT.parents[1] / "pyproject.toml"
    assert not project.exists() or "tensorrt-llm>" not in project.read_text("utf-8")


def test_the_gauges_are_the_backends_own() -> None:
    tree = ast.parse((LOCAL / "tensorrt_llm" / "1" / "gauges.py").read_text("utf-8"))
    families = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "FAMILIES"
    )
    assert {name: labels for name, (_, labels, _) in families.items()} == {
        "nv_trt_llm_request_metrics": "request_type",
        "nv_trt_llm_kv_cache_block_metrics": "kv_cache_block_type",
        "nv_trt_llm_inflight_batcher_metrics": "inflight_batcher_specific_metric",
        "nv_trt_llm_general_metrics": "general_type",
    }
    assert json.dumps(families)
