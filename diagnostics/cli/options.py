"""Near matches for a name that does not exist."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from diagnostics.errors import UsageError
from diagnostics.spelling import meant
from diagnostics.units import parse_duration
from exporters.sources.access import DEFAULT_TIMEOUT, STORE_TIMEOUT, SourceOptions, clean_secret, read_secret


def nearest(name: str, existing: Iterable[str], command: str) -> str:
    """Return a hint that names what was probably meant, or the command that lists what exists."""
    return meant(name, existing) or f"`{command}` lists them"


def coloured(text: str, colour: str) -> str:
    """Return the text in a colour of `click.style`; as it is where `colour` is empty."""
    return click.style(text, fg=colour) if colour else text


BEARER_VARIABLE = "DIAG_BEARER_TOKEN"
BASIC_VARIABLE = "DIAG_BASIC_AUTH"
# Beyond, clocks of systems overflow.
LONGEST_SECONDS = 100 * 365 * 86_400.0
Decorator = Callable[[Callable[..., object]], Callable[..., object]]
_FLAGS = {"iterations": "--engine-iterations", "headers": "--header"}
_SECRET_HEADERS = {"authorization", "proxy-authorization", "cookie"}


# Generic since Click 8.4 only.
class Duration(click.ParamType):  # type: ignore[type-arg]
    """A duration such as `500ms`, `60s`, `2m` or `1h30m`, as seconds; a bare number is seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        seconds = parse_duration(str(value))
        if seconds is None or seconds <= 0:
            self.fail(f"{value!r} is not a duration such as 500ms, 60s, 2m or 1h30m", param, ctx)
        if seconds > LONGEST_SECONDS:
            self.fail("a duration has a hundred years at most", param, ctx)
        return seconds


DURATION = Duration()
_FILE = click.Path(path_type=Path, dir_okay=False)
_PLACES = (
    click.option("--metrics-url", metavar="URL", help="The metrics page, where it is not two ports above HTTP."),
    click.option("--grpc-url", metavar="URL", help="The gRPC endpoint, where it is not one port above HTTP."),
    click.option("--dcgm-url", metavar="URL", help="A dcgm-exporter's page, for GPUs of another machine."),
    click.option(
        "--engine-iterations",
        "iterations",
        is_flag=True,
        help="Read trtllm-serve's list of iterations too: what is read is gone for other collectors.",
    ),
)
_CONNECTION = (
    click.option(
        "--timeout",
        type=DURATION,
        help=f"For one read.  [default: {DEFAULT_TIMEOUT:g}s; of a Prometheus {STORE_TIMEOUT:g}s]",
    ),
    click.option("--bearer-token-file", type=_FILE, help=f"File with a bearer token (or ${BEARER_VARIABLE})."),
    click.option("--basic-auth-file", type=_FILE, help=f"File with user:password (or ${BASIC_VARIABLE})."),
    click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="A further request header."),
    click.option("--ca-file", type=_FILE, help="Authorities to trust instead of the system's, as PEM."),
    click.option("--cert-file", type=_FILE, help="Client certificate, as PEM."),
    click.option("--key-file", type=_FILE, help="Its key, where the certificate's file does not hold it."),
    click.option("--insecure", is_flag=True, help="Do not verify the server's certificate."),
)
_NAMES = frozenset(
    {
        "metrics_url",
        "grpc_url",
        "dcgm_url",
        "iterations",
        "timeout",
        "bearer_token_file",
        "basic_auth_file",
        "headers",
        "ca_file",
        "cert_file",
        "key_file",
        "insecure",
    }
)


def source_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give `command` the options for reaching servers, as its one argument `options: SourceOptions`."""
    return _with((*_PLACES, *_CONNECTION), command)


def connection_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give `command` those of `source_options` that also a Prometheus or a running service needs."""
    return _with(_CONNECTION, command)


def is_given(ctx: click.Context, name: str) -> bool:
    """Return whether the command line itself names a parameter: neither its default nor the environment does."""
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


def places_given(options: SourceOptions) -> list[str]:
    """Return the options that say where a server's parts are, of those that were given."""
    return _given(options, ("metrics_url", "grpc_url", "dcgm_url", "iterations"))


def connecting_given(options: SourceOptions) -> list[str]:
    """Return the options that say how something is reached, of those that were given; credentials are left out."""
    return _given(options, ("timeout", "headers", "ca_file", "cert_file", "key_file", "insecure"))


def _given(options: SourceOptions, names: Sequence[str]) -> list[str]:
    return [_FLAGS.get(name, f"--{name.replace('_', '-')}") for name in names if getattr(options, name)]


def _with(options: Sequence[Decorator], command: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(command)
    def with_options(*arguments: object, **values: object) -> object:
        given = {name: values.pop(name) for name in _NAMES & values.keys()}
        return command(*arguments, options=_gathered(given), **values)

    wrapped: Callable[..., object] = with_options
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def _gathered(given: dict[str, object]) -> SourceOptions:
    headers = given.pop("headers")
    assert isinstance(headers, tuple)
    bearer, basic = _credentials(given.pop("bearer_token_file"), given.pop("basic_auth_file"))
    return SourceOptions(
        bearer_token=bearer,
        basic=basic,
        headers=dict(_header(text) for text in headers),
        **given,  # type: ignore[arg-type]  # click has made each what its option's type says
    )


def _credentials(bearer_file: object, basic_file: object) -> tuple[str | None, str | None]:
    """Return token and user with password; a file wins over the environment."""
    files = bearer_file is not None or basic_file is not None
    bearer = _secret(bearer_file, BEARER_VARIABLE, "bearer token", use_environment=not files)
    basic = _secret(basic_file, BASIC_VARIABLE, "user and password", use_environment=not files)
    if basic is not None and ":" not in basic:
        where = str(basic_file) if basic_file else BASIC_VARIABLE
        raise UsageError("is not of the form user:password", where=where, hint="write both, with a colon between")
    return bearer, basic


def _secret(file: object, variable: str, what: str, *, use_environment: bool) -> str | None:
    if isinstance(file, Path):
        return read_secret(file, what)
    value = os.environ.get(variable) if use_environment else None
    return clean_secret(value, what, variable) if value else None


def _header(text: str) -> tuple[str, str]:
    name, colon, value = (part.strip() for part in text.partition(":"))
    if not (colon and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) and value.isprintable()):
        raise UsageError("a header is given as NAME:VALUE", where="--header", hint="write it like X-Scope-OrgID:chat")
    if not value.isascii():
        raise UsageError(f"the value of {name} is not ASCII", where="--header", hint="encode it as its reader expects")
    if name.lower() in _SECRET_HEADERS:
        hint = f"use ${BEARER_VARIABLE}, ${BASIC_VARIABLE} or their files"
        raise UsageError(f"{name} would show a secret in the list of processes", where="--header", hint=hint)
    return name, value
