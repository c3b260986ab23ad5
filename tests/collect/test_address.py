from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.errors import DiagError, UsageError
from exporters.sources.address import parse_address


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port", "path"),
    [
        ("triton:8000", "http", "triton", 8000, ""),
        ("triton", "http", "triton", None, ""),
        ("http://triton", "http", "triton", 80, ""),
        ("https://gateway/llm/", "https", "gateway", 443, "/llm"),
        ("grpc://triton", "grpc", "triton", 8001, ""),
        ("10.0.0.7:8002/metrics", "http", "10.0.0.7", 8002, "/metrics"),
        ("http://[::1]:8000", "http", "::1", 8000, ""),
    ],
)
def test_every_form_of_address_is_taken_apart(text, scheme, host, port, path):
    address = parse_address(text)
    assert (address.scheme, address.host, address.port, address.path) == (scheme, host, port, path)


def test_ipv6_is_shown_in_brackets_as_prometheus_shows_it():
    assert parse_address("http://[::1]:8002/metrics").netloc() == "[::1]:8002"


def test_user_and_password_of_a_url_are_kept_apart_and_never_shown():
    address = parse_address("http://ann:s3%40cret@triton:8000")
    assert address.user == "ann:s3@cret"
    assert "s3" not in f"{address} {address!r}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://",
        "ftp://triton",
        "http://triton:99999",
        "http://triton:x",
        "a b:8000",
        "triton:0",
        "\x1b[1m",
    ],
)
def test_what_is_no_address_is_refused_with_the_forms_that_are(text):
    with pytest.raises(UsageError):
        parse_address(text)


def test_a_refused_url_does_not_show_its_password():
    with pytest.raises(UsageError) as caught:
        parse_address("ftp://ann:s3cret@triton:8000")
    assert "s3cret" not in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_a_usage_error(text):
    try:
        shown = str(parse_address(text))
    except DiagError as error:
        shown = str(error)
    assert shown.isprintable()
