from __future__ import annotations

from pathlib import Path

import pytest

from diagnostics.errors import UsageError
from exporters.sources.access import SourceOptions, read_secret


def test_credentials_do_not_show_in_the_repr():
    options = SourceOptions(basic="ann:s3cret", headers={"X-Key": "k3y"})
    assert "s3cret" not in repr(options)
    assert "k3y" not in repr(options)


def test_a_token_and_a_password_together_are_refused():
    with pytest.raises(UsageError):
        SourceOptions(bearer_token="t", basic="a:b")


def test_a_user_in_the_url_replaces_other_credentials():
    options = SourceOptions(bearer_token="t").for_user("ann:pw")
    assert options.request_headers()["Authorization"].startswith("Basic ")


def test_echoed_credentials_are_scrubbed():
    options = SourceOptions(basic="ann:s3cret")
    header = options.request_headers()["Authorization"]
    assert options.scrub(f"bad {header} of ann:s3cret, s3cret") == "bad [REDACTED] of [REDACTED], [REDACTED]"


@pytest.mark.parametrize("content", [b"", b"  \n", b"one\ntwo\n", b"\xff\xfe", b"a\x00b"])
def test_a_secret_file_must_hold_one_line(tmp_path: Path, content: bytes):
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_secret(file, "bearer token")
    assert "two" not in str(caught.value)


def test_a_missing_secret_file_is_named(tmp_path: Path):
    with pytest.raises(UsageError, match="token: cannot read the bearer token: no such file"):
        read_secret(tmp_path / "token", "bearer token")


def test_a_ca_file_without_certificates_is_refused(tmp_path: Path):
    file = tmp_path / "ca.pem"
    file.write_text("nothing")
    with pytest.raises(UsageError, match="holds no certificate"):
        SourceOptions(ca_file=file).tls()


def test_a_missing_client_certificate_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="cannot read it: no such file"):
        SourceOptions(cert_file=tmp_path / "none.pem").tls()


def test_servers_that_are_reached_alike_share_the_systems_authorities():
    assert SourceOptions(bearer_token="a").tls() is SourceOptions(bearer_token="b").tls()
    assert SourceOptions(insecure=True).tls() is not SourceOptions().tls()
