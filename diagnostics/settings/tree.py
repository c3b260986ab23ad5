"""Every setting, with its default, its unit and what it is for. `diag serve --check-config` prints them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork, ValidationInfo, field_validator, model_validator

from diagnostics.settings.values import Address, Bytes, Name, Posted, Seconds, Share, Shown


class Section(BaseModel):
    """A table of settings. A key that is not known is an error: a typing mistake must not pass as a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_number(cls, value: object, about: ValidationInfo) -> object:
        if isinstance(value, str) and "\0" in value:
            raise ValueError("holds a null character")
        if isinstance(value, bool) and cls.model_fields[about.field_name or ""].annotation is not bool:
            raise ValueError("cannot be true or false")
        return value


class WebSettings(Section):
    """Where the page, the API, `/metrics` and OTLP over HTTP are served."""

    listen_address: str = Field(default="127.0.0.1:9177", description="host:port to listen on.")
    config_file: Path | None = Field(default=None, description="TLS and users, in the Prometheus web-config format.")
    bearer_token_file: Path | None = Field(
        default=None, description="A token that clients may present instead of a password."
    )
    allow_unauthenticated: bool = Field(default=False, description="Listen beyond this machine without authentication.")
    external_url: Shown = Field(default="", description="How people reach the page; links in alerts begin with it.")
    route_prefix: str | None = Field(
        default=None, description="The path all else is below; that of external_url unless a proxy strips it."
    )
    allowed_hosts: tuple[str, ...] = Field(default=(), description="Further names that a Host header may carry.")
    max_body: Bytes = Field(default=4 * 2**20, gt=0, description="The largest request body, unpacked.")


class CollectSettings(Section):
    """How servers are read, where a server does not say otherwise."""

    interval: Seconds = Field(
        default=15.0, ge=1, le=3600, description="Between the beginnings of two rounds of a server."
    )
    timeout: Seconds = Field(default=5.0, gt=0, le=3600, description="After which one read counts as failed.")
    max_body: Bytes = Field(default=16 * 2**20, gt=0, description="The largest answer, unpacked; more is given up.")
    window: Seconds = Field(default=300.0, ge=10, le=3600, description="How much of the past a verdict is about.")
    threads: int = Field(default=32, ge=1, le=512, description="Rounds that are under way at once.")
    max_spans: int = Field(default=60_000, ge=0, description="Spans that are kept at once, over all deployments.")


class ServerSettings(Section):
    """One Triton."""

    url: Address = Field(description="Any endpoint of it: the others are found.")
    interval: Seconds | None = Field(default=None, ge=1, le=3600, description="Instead of collect.interval.")
    timeout: Seconds | None = Field(default=None, gt=0, le=3600, description="Instead of collect.timeout.")
    metrics_url: Address | None = Field(
        default=None, description="The metrics page, where it is not two ports above HTTP."
    )
    grpc_url: Address | None = Field(
        default=None, description="The gRPC endpoint, where it is not one port above HTTP."
    )
    dcgm_url: Address | None = Field(default=None, description="A dcgm-exporter's page, for GPUs of another machine.")
    bearer_token_file: Path | None = Field(default=None, description="File with a bearer token.")
    basic_auth_file: Path | None = Field(default=None, description="File with user:password.")
    ca_file: Path | None = Field(default=None, description="Authorities to trust instead of the system's, as PEM.")
    cert_file: Path | None = Field(default=None, description="Client certificate, as PEM.")
    key_file: Path | None = Field(default=None, description="Its key, where the certificate's file does not hold it.")
    insecure: bool = Field(default=False, description="Do not verify the server's certificate.")
    repository: Path | None = Field(
        default=None, description="Its model repository: patches are then diffs of its files."
    )


class DeploymentSettings(Section):
    """Servers that hold the same models and are judged together."""

    name: Name = Field(max_length=200, description="As incidents and alerts call it: no spaces and slashes.")
    servers: tuple[Address, ...] = Field(min_length=1, description="URLs, as in [[server]].")
    objective: str = Field(default="", description="What latency must be, as in 'p95 < 200ms'.")


class SloSettings(Section):
    """What is promised to those who call a model or ensemble."""

    name: str = Field(description="As metrics, alerts and reports call it.")
    objective: Share = Field(description="The share of requests that must be good, as in 0.99.")
    model: str | None = Field(default=None, description="The model that is called, all its versions.")
    ensemble: str | None = Field(default=None, description="The ensemble that is called, instead of a model.")
    availability: bool = Field(default=False, description="Good is a request that does not fail.")
    latency: Seconds | None = Field(default=None, description="Good is a request that takes no longer.")
    time_to_first_token: Seconds | None = Field(default=None, description="Good is one whose answer begins by then.")
    period: Seconds = Field(default=30 * 86400.0, description="Over which the promise is kept or broken.")
    tenant: dict[str, str] = Field(default={}, description="Labels that the model's metrics carry (metric_tags).")
    deployment: str | None = Field(default=None, description="Whose servers; all by default.")
    description: str = Field(default="", description="What it is for.")
    labels: dict[str, str] = Field(default={}, description="Added to its alerts.")


class OtlpSettings(Section):
    """Receiving spans."""

    http: bool = Field(default=True, description="Take POST /v1/traces at web.listen_address.")
    grpc_listen_address: str = Field(default="", description="host:port for OTLP over gRPC; empty for none.")
    max_spans_per_second: int = Field(
        default=50_000, ge=1, description="Beyond, exporters are told to come back later."
    )
    max_kept_spans_per_second: int = Field(
        default=200,
        ge=1,
        description="Beyond, whole traces are left out by their ids; a span takes 1 kB of memory and 0.7 kB of disk.",
    )


class ProbeSettings(Section):
    """Explaining a server that is not watched, on demand: GET /probe?target=…."""

    allowed_networks: tuple[IPvAnyNetwork, ...] = Field(
        default=(), description="Networks whose servers may be asked for, as in 10.1.0.0/16; none by default."
    )


class HistorySettings(Section):
    """What is remembered, and for how long."""

    directory: Path = Field(
        default=Path("data"), description="Where recorded bodies and, unless told otherwise, the database lie."
    )
    database: str = Field(default="", description="SQLAlchemy URL; empty for SQLite in the directory.")
    database_password_file: Path | None = Field(default=None, description="Password for the database's URL.")
    keep_raw: Seconds = Field(default=7 * 86400.0, gt=0, description="Age at which recorded bodies are deleted.")
    keep_raw_bytes: Bytes = Field(
        default=10 * 10**9, gt=0, description="Size beyond which the oldest bodies are deleted."
    )
    keep_signals: Seconds = Field(
        default=90 * 86400.0, gt=0, description="Age at which incidents and signals are deleted."
    )
    segment: Seconds = Field(default=600.0, ge=10, description="Length of one file of recorded bodies.")


class IncidentSettings(Section):
    """When a finding is an incident."""

    open_after: int = Field(default=2, ge=1, description="Verdicts in a row that must show it.")
    close_after: Seconds = Field(default=300.0, gt=0, description="How long it must be gone.")


class AlertmanagerSettings(Section):
    """Alertmanagers that incidents are sent to, all of them."""

    urls: tuple[Address, ...] = Field(default=(), description="Base URLs; none sends nothing.")
    basic_auth_file: Path | None = Field(default=None, description="File with user:password.")
    bearer_token_file: Path | None = Field(default=None, description="File with a bearer token.")
    ca_file: Path | None = Field(default=None, description="Authorities to trust instead of the system's, as PEM.")
    resend: Seconds = Field(default=60.0, ge=1, description="How often a firing alert is repeated.")
    timeout: Seconds = Field(default=10.0, gt=0, le=3600, description="After which one delivery counts as failed.")
    min_severity: Literal["info", "warning", "critical"] = Field(
        default="warning", description="The least that is sent."
    )
    labels: dict[str, str] = Field(default={}, description="Added to every alert.")


class WebhookSettings(Section):
    """One address that is told when incidents open and close."""

    url: Posted = Field(default="", description="Where JSON is posted to.")
    url_file: Path | None = Field(default=None, description="File with the URL instead, where the URL is a secret.")
    bearer_token_file: Path | None = Field(default=None, description="File with a bearer token.")
    secret_file: Path | None = Field(default=None, description="File with a secret that signs each message.")
    ca_file: Path | None = Field(default=None, description="Authorities to trust instead of the system's, as PEM.")
    timeout: Seconds = Field(default=10.0, gt=0, le=3600, description="After which one delivery counts as failed.")


class FleetSettings(Section):
    """Several workers that share the deployments of the same settings; their history is one PostgreSQL."""

    workers: int = Field(default=1, ge=1, le=1000, description="How many there are.")
    worker: int = Field(default=0, ge=0, description="Which one this is, from 0 on.")

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Self:
        if self.worker >= self.workers:
            raise ValueError(f"there is no worker {self.worker} of {self.workers}: they are numbered from 0 on")
        return self


class LogSettings(Section):
    """The service's own log, on standard error."""

    level: Literal["debug", "info", "warn", "error"] = Field(default="info", description="The least that is logged.")
    format: Literal["logfmt", "json"] = Field(default="logfmt", description="How a line is written.")


class Settings(Section):
    """The whole tree."""

    web: WebSettings = WebSettings()
    collect: CollectSettings = CollectSettings()
    server: tuple[ServerSettings, ...] = ()
    deployment: tuple[DeploymentSettings, ...] = ()
    slo: tuple[SloSettings, ...] = ()
    slo_files: tuple[Path, ...] = Field(default=(), description="Files of objectives: OpenSLO, Sloth, or a list slo:.")
    otlp: OtlpSettings = OtlpSettings()
    probe: ProbeSettings = ProbeSettings()
    history: HistorySettings = HistorySettings()
    incidents: IncidentSettings = IncidentSettings()
    alertmanager: AlertmanagerSettings = AlertmanagerSettings()
    webhook: tuple[WebhookSettings, ...] = ()
    fleet: FleetSettings = FleetSettings()
    log: LogSettings = LogSettings()
