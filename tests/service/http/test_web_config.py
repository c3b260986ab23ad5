from __future__ import annotations

from pathlib import Path

import pytest

from diagnostics.errors import UsageError
from diagnostics.service.http.credentials import read_web_config
from tests.service.http.door import HASHED


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("tls_server_config:\n  cert_fil: x\n", r":2: tls_server_config has no key 'cert_fil' here"),
        ("tls:\n  a: 1\n", r":1: the file has no key 'tls' here"),
        ("tls_server_config:\n  cert_file: c.pem\n", r"has no key_file"),
        ("tls_server_config:\n  cert_file: c.pem\n  key_file: k.pem\n", r"c\.pem: cannot be read"),
        ("tls_server_config:\n  cert_file: c\n  key_file: k\n  min_version: TLS10\n", r"it can be TLS12, TLS13"),
        ("tls_server_config:\n  cert_file: c\n  key_file: k\n  client_ca_file: a\n", r"come together"),
        ("http_server_config:\n  http2: yes\n", r":2: http2 is true or false"),
        ("http_server_config:\n  headers:\n    X-Mine: a\n", r":3: headers has no key 'X-Mine' here"),
        ('http_server_config:\n  headers:\n    X-Frame-Options: "a\\r\\nb"\n', r":3: X-Frame-Options cannot be"),
        ("basic_auth_users:\n  bob: secret\n", r":2: the password of 'bob' is not hashed by bcrypt"),
        ("basic_auth_users: [a]\n", r"is no mapping"),
        (f"basic_auth_users:\n  bob: {HASHED}\n  bob: {HASHED}\n", r":3: a key is there twice"),
        ("a: &x [1, 1]\nb: [*x, *x]\n", r":1: anchors and aliases are not allowed"),
        ("a: [\n", r"web\.yml:2: "),
        ("a: " + "[" * 500, r":1: is nested too deeply"),
        ("!!python/object:os.system {}\n", r":1: tags are not allowed"),
    ],
)
def test_what_the_file_may_not_say_is_reported_with_its_line(tmp_path: Path, text: str, reported: str) -> None:
    file = tmp_path / "web.yml"
    file.write_text(text)
    with pytest.raises(UsageError, match=reported) as error:
        read_web_config(file)
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_or_is_no_text_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"web\.yml: cannot be read: no such file"):
        read_web_config(tmp_path / "web.yml")
    (tmp_path / "web.yml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read_web_config(tmp_path / "web.yml")
    (tmp_path / "web.yml").write_bytes(b"a" * (2**20 + 1))
    with pytest.raises(UsageError, match="is larger than 1 MiB"):
        read_web_config(tmp_path / "web.yml")


def test_an_empty_file_asks_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text("# nothing yet\n")
    config = read_web_config(tmp_path / "web.yml")
    assert (config.tls, dict(config.headers), dict(config.users)) == (None, {}, {})


def test_hashes_are_not_in_the_configurations_repr(tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text(f"basic_auth_users:\n  bob: {HASHED}\n")
    config = read_web_config(tmp_path / "web.yml")
    assert config.users == {"bob": HASHED.encode()}
    assert HASHED not in repr(config)
