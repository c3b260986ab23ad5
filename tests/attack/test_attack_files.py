"""Pipes that nobody writes to and devices without end, named where a file is meant."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.attack.measuring import diag, with_certificate


def test_a_standard_input_that_is_closed_is_one_line():
    ended = diag("explain", "-", before=lambda: os.close(0)).is_bounded()
    assert ended.code == 2
    assert ended.errors == "diag: standard input: is closed; pipe a saved page into it, or name a file\n"


WHERE = (
    ("explain",),
    ("serve", "--check-config", "--config.file"),
    ("explain", "127.0.0.1:1", "--bearer-token-file"),
    ("explain", "https://127.0.0.1:1", "--ca-file"),
)


@pytest.mark.attack
@pytest.mark.parametrize("arguments", WHERE)
@pytest.mark.parametrize("file", ["pipe", "/dev/zero"])
def test_what_is_no_file_is_given_up(tmp_path: Path, arguments: Sequence[str], file: str):
    os.mkfifo(tmp_path / "pipe")
    ended = diag(*arguments, tmp_path / file).is_bounded()
    assert ended.code == 2
    assert ended.errors.startswith("diag: ")


@pytest.mark.attack
@pytest.mark.parametrize("setting", ["cert_file", "key_file", "client_ca_file"])
@pytest.mark.parametrize("file", ["pipe", "/dev/zero", "large"])
def test_certificates_that_are_no_files_are_refused(tmp_path: Path, setting: str, file: str):
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(2**40)
    with_certificate(tmp_path)
    names = {"cert_file": "cert.pem", "key_file": "key.pem", "client_ca_file": "cert.pem", setting: file}
    lines = [f"  {name}: {value}\n" for name, value in names.items()]
    (tmp_path / "web.yml").write_text(
        f"tls_server_config:\n{''.join(lines)}  client_auth_type: RequireAndVerifyClientCert\n"
    )
    settings = tmp_path / "diag.toml"
    settings.write_text(f'[web]\nconfig_file = "{tmp_path}/web.yml"\n')
    ended = diag("serve", "--check-config", "--config.file", settings).is_bounded()
    assert ended.code == 2
    assert f"{tmp_path / file}: is " in ended.errors
