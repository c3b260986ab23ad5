"""What a service remembered, explained from its directory: no service need run, and nothing is written."""

from __future__ import annotations

import os
from pathlib import Path

from diagnostics.cli.sources import WindowOptions, moment, nothing_then
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.errors import CollectError, UsageError, not_installed
from diagnostics.store import raw
from diagnostics.store.replay import explain_at
from diagnostics.window.rolling import WINDOW_SECONDS

DIRECTORY_VARIABLE = "DIAG_HISTORY__DIRECTORY"


def history_directory(given: Path | None, config_file: Path | None) -> Path | None:
    """Return where a history lies: as given, as the settings say, else as the environment says; None for nowhere.

    Raises:
        UsageError: the settings cannot be used.

    """
    if given is not None:
        return given
    if config_file is not None:
        return _of_settings(config_file)
    named = os.environ.get(DIRECTORY_VARIABLE)
    return Path(named) if named else None


def explain_history(directory: Path, deployment: str | None, question: WindowOptions) -> Explanation:
    """Return the explanation of a moment that a service recorded; without one, of the newest.

    Raises:
        CollectError: there is no history, or nothing was recorded then.
        UsageError: there are several deployments and none was named, or there is none of that name.

    """
    name = _chosen(directory, deployment)
    newest = raw.newest_end(directory, name)
    if newest is None:
        hint = "let the service read a few rounds; its page shows what it cannot read"
        raise CollectError(f"nothing was recorded of {name} yet", where=str(directory), hint=hint)
    at = moment(question.at, newest) if question.at is not None else newest
    explanation = explain_at(directory, name, at, question.since or WINDOW_SECONDS, question.objective)
    if explanation.window.end <= 0:
        raise nothing_then(f"the history of {name}", raw.oldest_start(directory, name) or newest, newest)
    return explanation


def _of_settings(file: Path) -> Path:
    try:
        from diagnostics.cli.service_settings import loaded_from
    except ModuleNotFoundError as error:
        raise not_installed(error, "serve", where="--config.file", otherwise=", or give --history") from None
    return loaded_from(file).settings.history.directory


def _chosen(directory: Path, deployment: str | None) -> str:
    names = raw.deployments(directory)
    if not names:
        hint = "give history.directory of `diag serve`"
        raise CollectError("holds no history", where=str(directory), hint=hint)
    if deployment is None and len(names) == 1:
        return names[0]
    if deployment not in names:
        what = f"there is no deployment {deployment!r}" if deployment else "there are several deployments"
        shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        raise UsageError(what, where="--deployment", hint=f"name one of {shown}")
    return deployment
