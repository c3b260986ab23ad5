"""A development server is deployed as an endpoint.

## Looks for
Compose files and Kubernetes manifests whose commands start a development server: `flask run`, Django's `runserver`,
`fastapi dev`, `uvicorn --reload`, `python -m http.server`, vLLM's demo `api_server`, `npm run dev`. Also `FLASK_DEBUG`
or `FLASK_ENV=development`.

## Means
Such servers handle one or few requests at a time, restart when a file changes, and show errors to clients. Their queue
limits the model, and no metric of the model server shows it.

## Do
Run the application under a production server (gunicorn, uvicorn with workers), or let clients call Triton directly.

## Sources
Flask, "Deploying to Production"; Django, `runserver` ("do not use this server in a production setting"); FastAPI,
"FastAPI CLI"; Uvicorn, "Settings" (`--reload`); Python, `http.server` ("not recommended for production").
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.deployment_files import Container, containers_of
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import FileView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.DEPLOYMENT_FILE, severity=LintSeverity.WARNING, question=LintTopic.DEPLOYMENT)

# Words that follow one another; the last word is what is shown and looked for in the file.
_COMMANDS = (
    ("flask", "run"),
    ("manage.py", "runserver"),
    ("fastapi", "dev"),
    ("-m", "http.server"),
    ("-m", "SimpleHTTPServer"),
    ("-m", "vllm.entrypoints.api_server"),
    ("npm", "run", "dev"),
    ("yarn", "dev"),
)
_RELOADING = ("uvicorn", "gunicorn", "hypercorn")


def lint(view: FileView) -> Iterator[LintProblem]:
    """Report each container that runs one."""
    for container in containers_of(view.documents):
        found = _command(container)
        if found:
            yield view.problem(
                f"{container.name or container.image} runs {found!r}, a server made for development",
                at=view.find(found.split()[-1], after=max(view.file.text.find(container.name), 0)),
                help="run a server made for load",
            )
        setting = _debugs(container)
        if setting:
            message = f"{container.name or container.image} runs in debug mode ({setting})"
            yield view.problem(message, at=view.find(setting), help="leave it out where users are served")


def _command(container: Container) -> str:
    words = tuple(word.rsplit("/", 1)[-1] for word in container.words)
    for command in _COMMANDS:
        if any(words[at : at + len(command)] == command for at in range(len(words))):
            return " ".join(command)
    server = next((name for name in _RELOADING if name in words), "")
    return f"{server} --reload" if server and "--reload" in words else ""


def _debugs(container: Container) -> str:
    if container.environment.get("FLASK_DEBUG", "").lower() in ("1", "true"):
        return "FLASK_DEBUG"
    return "FLASK_ENV" if container.environment.get("FLASK_ENV") == "development" else ""


_COMPOSE = """services:
  gateway:
    image: gateway:1
    command: flask run --host 0.0.0.0
    environment:
      - FLASK_DEBUG=1
"""
_MANIFEST = """apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: gateway
          image: gateway:1
          command: ["sh", "-c", "exec uvicorn app:app --reload"]
"""
CASES = (
    RuleCase.fires("for the command and the debug mode of a compose file", {"compose.yaml": _COMPOSE}, "4:20", "6:9"),
    RuleCase.fires("for a manifest", {"gateway.yaml": _MANIFEST}, "9:55"),
    RuleCase.quiet(
        "about a production server",
        {
            "compose.yaml": _COMPOSE.replace("flask run", "gunicorn app:app").replace("=1", "=0"),
            "gateway.yaml": _MANIFEST.replace("--reload", "--workers 4"),
        },
    ),
)
