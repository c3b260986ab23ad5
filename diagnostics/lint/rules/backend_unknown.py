"""A model names a platform that no server has or that does not match its backend, or misspells its backend.

## Looks for
Any of these:
- A `platform` without `backend` that Triton does not have.
- A `platform` that belongs to another backend than the `backend` next to it.
- A `backend` that differs from a known one by a letter or two, or by case.
- A `runtime` that leads out of the backend's folder.
- A Python model whose version lacks the file to load.

## Means
The server refuses the model at load: "unexpected platform type", "unexpected 'platform' and 'backend' pair", "unable to
find backend library". If a Python model's file is missing, the load never ends.

## Do
Set `backend`, and let the server set `platform`. An ensemble has `platform: "ensemble"` and no backend.

## Sources
Triton core, `model_config_utils.cc` (`AutoCompleteBackendFields`, `ValidateModelConfig`) and `backend_model.cc`. Each
was seen on Triton 2.51.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from diagnostics import names
from diagnostics.lint.model_folder import ENSEMBLE, PLATFORMS, served
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.spelling import close_to

RULE = Rule(scope=RuleScope.ANY_MODEL, severity=LintSeverity.ERROR, question=LintTopic.FITS)

_BACKENDS = frozenset(
    {names.PYTHON_BACKEND, "dali", "fil", "openvino", "vllm", "identity", "repeat", "square", "dlpack", "tritontrtllm"}
    | {"tensorrtllm", "fastertransformer", *PLATFORMS.values()}
)
# Of these, a letter or two of ten differ: closer names are misspelled, others a backend of one's own.
_ALIKE = 0.8
_DEFAULT_FILES = {"tensorflow_savedmodel": "model.savedmodel", "tensorflow_graphdef": "model.graphdef"}


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each name that the server refuses."""
    backend, platform = view.config.text("backend"), view.config.text("platform")
    if backend is None or platform is None:
        return
    if platform and not backend:
        yield from _of_platform(view, platform)
    elif backend:
        yield from _of_backend(view, backend, platform)
    if ".." in (view.config.text("runtime") or "").split("/"):
        yield view.problem(
            "runtime leads out of the backend's folder: the model does not load", at=view.config.at("runtime")
        )


def _of_platform(view: ConfiguredModelView, platform: str) -> Iterator[LintProblem]:
    if platform in PLATFORMS or platform == ENSEMBLE:
        return
    near = (
        platform.lower() if platform.lower() in _BACKENDS else next(iter(_near(platform, [*PLATFORMS, ENSEMBLE])), "")
    )
    field = "backend" if near in _BACKENDS else "platform"
    yield view.problem(
        f"there is no platform {platform!r}: the model does not load",
        at=view.config.at("platform"),
        help=f'write {field}: "{near}"' if near else "write its backend instead",
    )


def _of_backend(view: ConfiguredModelView, backend: str, platform: str) -> Iterator[LintProblem]:
    owner = PLATFORMS.get(platform)
    if platform and backend in PLATFORMS.values() and owner != backend:
        message = f"{platform!r} is no platform of the backend {backend}: the model does not load"
        yield view.problem(message, at=view.config.at("platform"), help="leave platform out")
    near = [] if backend in _BACKENDS else _near(backend, _BACKENDS)
    if near and not any(name.startswith("libtriton_") for name in view.model.entries):
        yield view.problem(
            f"there is no backend {backend!r}: the model does not load",
            at=view.config.at("backend"),
            help=f"did you mean {near[0]}?",
        )
    if backend == names.PYTHON_BACKEND:
        yield from _of_files(view, platform)


def _of_files(view: ConfiguredModelView, platform: str) -> Iterator[LintProblem]:
    name = view.config.text("default_model_filename", _DEFAULT_FILES.get(platform, "model.py"))
    for version in sorted(served(view.model) or ()) if name else ():
        held = view.model.version_files(version)
        if held and name not in held:
            message = f"version {version} has no {name}, which the Python backend loads: the load does not end"
            yield view.problem(message, at=view.config.at("default_model_filename"))


def _near(name: str, known: Iterable[str]) -> list[str]:
    return close_to(name, sorted(known), most=1, least=_ALIKE)


def _model(head: str, *more: str) -> dict[str, str]:
    return {"models/a/config.pbtxt": f"{head}\n", "models/a/1/model.py": "", **dict.fromkeys(more, "")}


_AT = ("models/a/config.pbtxt:1:1",)
CASES = (
    RuleCase(title="fires when a platform is a backend's name", files=_model('platform: "onnxruntime"'), places=_AT),
    RuleCase(
        title="fires when platform and backend differ",
        files=_model('platform: "tensorrt_plan" backend: "onnxruntime"'),
        places=_AT,
    ),
    RuleCase(title="fires when a backend is misspelled", files=_model('backend: "Python"'), places=_AT),
    RuleCase(
        title="fires when a Python model's file has another name",
        files=_model('default_model_filename: "main.py" backend: "python"'),
        places=_AT,
    ),
    RuleCase.quiet(
        "about backends of one's own, and platforms that stand for one",
        {
            **_model('backend: "ranker"'),
            "models/b/config.pbtxt": 'platform: "tensorrt_plan"\n',
            "models/c/config.pbtxt": 'backend: "onnxruntime" platform: "onnxruntime_onnx"\n',
        },
    ),
    RuleCase.quiet("about templates", _model('backend: "${backend}" platform: "${platform}"')),
)
