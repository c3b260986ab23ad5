from __future__ import annotations

import ast
from collections.abc import Mapping

import pytest

from diagnostics.wire.servers.catalogue import server_kinds
from diagnostics.wire.servers.kind import ServerKind
from tests.repository.named import FOLDERS, duplicates, files_by_class, knowing, personal
from tests.repository.source import modules

# Public classes that may have one name in several files, each with the reason; none needs to today.
ALLOWED: Mapping[str, str] = {}


def test_a_public_class_has_a_name_of_its_own() -> None:
    assert not {name: paths for name, paths in duplicates().items() if name not in ALLOWED}


def test_only_duplicates_are_allowed_and_each_has_a_reason() -> None:
    assert set(ALLOWED) <= set(duplicates())
    assert all(len(why.split()) >= 5 for why in ALLOWED.values())


def test_no_identifier_makes_a_person_of_a_program() -> None:
    found = {path: personal(path, tree) for path, tree in modules(*FOLDERS).items()}
    assert {path: names for path, names in found.items() if names} == {}


# Triton's page holds vLLM's families where vLLM is its backend; the others are sources or ourselves.
KNOWN_WIDELY = {"Triton", "vLLM", "Prometheus", "diag serve"}
SERVERS = [kind for kind in server_kinds() if kind.prefixes and kind.name not in KNOWN_WIDELY]


@pytest.mark.parametrize("kind", SERVERS, ids=lambda kind: kind.name)
def test_a_server_is_known_to_modules_of_kinds_alone(kind: ServerKind) -> None:
    found = knowing(kind, modules(*FOLDERS))
    assert found
    assert [path for path in found if not path.startswith("diagnostics/wire/servers/")] == []


def test_a_duplicate_and_a_personal_name_are_noticed() -> None:
    tree = ast.parse("class Told:\n    def was_asked(self, asked): self.NOT_SAID = crowded(courtesy)\n")
    assert len(files_by_class({"a.py": tree, "b.py": tree})["Told"]) == 2
    assert personal("diagnostics/cli/a.py", tree) == ["NOT_SAID", "Told", "asked", "was_asked"]
    assert personal("diagnostics/bench/a.py", tree) == ["NOT_SAID", "Told", "was_asked"]
