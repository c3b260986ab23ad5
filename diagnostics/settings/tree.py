"""Every setting, with its default, its unit and what it is for. `diag serve --check-config` prints them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    IPvAnyNetwork,
    ValidationInfo,
    field_validator,
    model_validator,
)

from diagnostics.settings.values import Address, Bytes, Name, Posted, Queried, Seconds, Share, Shown


class SettingsSection(BaseModel):
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


class WebSettings(SettingsSection):
    """The listener of the page, the API, `/metrics` and OTLP over HTTP."""

    listen_address: str = Field(default="127.0.0.1:9177", description="Address to listen on, as host:port.")
    config_file: Path | None = Field(
        default=None, description="TLS and users, in Prometheus' web configuration format."
    )
    bearer_token_file: Path | None = Field(
        default=None, description="File with a token that clients may send instead of a password."
    )
    allow_unauthenticated: bool = Field(
        default=False, description="Allow a listener beyond loopback without authentication."
    )
    operators: tuple[str, ...] = Field(
        default=(),
        description="Users who may write, not only read. bearer-token stands for the token.",
    )
    external_url: Shown = Field(
        default="", description="URL at which people reach the page. Links in alerts begin with it."
    )
    runbooks_url: Shown = Field(
        default="",
        description="URL of published runbooks, as in diag gen --runbooks. Alerts link there, not to the service.",
    )
    route_prefix: str | None = Field(
        default=None,
        description="Path that all routes begin with. Default: the path of external_url. Set / if a proxy strips it.",
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="Further host names that requests may use (Host header)."
    )
    max_body: Bytes = Field(default=4 * 2**20, gt=0, description="Largest request body, unpacked.")
    mcp: bool = Field(
        default=False, description="Offer tools to agents (Model Context Protocol) at /mcp. Needs the extra mcp."
    )


class CollectSettings(SettingsSection):
    """How servers are read. A `[[server]]` may override interval and timeout."""

    interval: Seconds = Field(
        default=15.0, ge=1, le=3600, description="Time from the start of one round of reads to the next."
    )
    timeout: Seconds = Field(default=5.0, gt=0, le=3600, description="Time after which one read fails.")
    max_body: Bytes = Field(default=16 * 2**20, gt=0, description="Largest answer, unpacked. Larger ones fail.")
    window: Seconds = Field(default=300.0, ge=10, le=3600, description="Length of the window that a verdict covers.")
    threads: int = Field(default=32, ge=1, le=512, description="Rounds of reads that may run at once.")
    max_spans: int = Field(default=60_000, ge=0, description="Spans kept in memory, over all deployments.")


class ServerSettings(SettingsSection):
    """One Triton."""

    url: Address = Field(description="Any of its endpoints. The others are found.")
    interval: Seconds | None = Field(default=None, ge=1, le=3600, description="Overrides collect.interval.")
    timeout: Seconds | None = Field(default=None, gt=0, le=3600, description="Overrides collect.timeout.")
    metrics_url: Address | None = Field(default=None, description="Metrics page, if it is not two ports above HTTP.")
    grpc_url: Address | None = Field(default=None, description="gRPC endpoint, if it is not one port above HTTP.")
    dcgm_url: Address | None = Field(
        default=None, description="Metrics page of a dcgm-exporter, for GPUs of another machine."
    )
    bearer_token_file: Path | None = Field(default=None, description="File with a bearer token.")
    basic_auth_file: Path | None = Field(default=None, description="File with user:password.")
    ca_file: Path | None = Field(default=None, description="CA certificates to trust instead of the system's, as PEM.")
    cert_file: Path | None = Field(default=None, description="Client certificate, as PEM.")
    key_file: Path | None = Field(
        default=None, description="Key of the client certificate, if it is not in the same file."
    )
    insecure: bool = Field(default=False, description="Do not verify the server's certificate.")
    repository: Path | None = Field(
        default=None, description="Its model repository. Patches are then diffs of its files."
    )


class DeploymentSettings(SettingsSection):
    """Servers that hold the same models and are judged together."""

    name: Name = Field(max_length=200, description="Name in incidents and alerts, without spaces and slashes.")
    servers: tuple[Address, ...] = Field(min_length=1, description="URLs of its servers, as in [[server]].")
    objective: str = Field(default="", description="Latency objective, as in 'p95 < 200ms'.")


class FoundSettings(SettingsSection):
    """How the servers that one source of discovery names are read."""

    server_bearer_token_file: Path | None = Field(
        default=None, description="File with a bearer token for each server that is found."
    )
    server_basic_auth_file: Path | None = Field(
        default=None, description="File with user:password for each server that is found."
    )
    server_ca_file: Path | None = Field(
        default=None, description="CA certificates to trust for these servers instead of the system's, as PEM."
    )
    server_cert_file: Path | None = Field(default=None, description="Client certificate for these servers, as PEM.")
    server_key_file: Path | None = Field(
        default=None, description="Key of that certificate, if it is not in the same file."
    )
    server_insecure: bool = Field(default=False, description="Do not verify the certificates of these servers.")


class ListedSettings(FoundSettings):
    """As `FoundSettings`, of a source that names servers as host:port."""

    scheme: Literal["http", "https"] = Field(
        default="http", description="Scheme of servers that are found without one, as host:port."
    )


class FileDiscoverySettings(ListedSettings):
    """Files that list servers with labels, in Prometheus' format (`file_sd`)."""

    files: tuple[str, ...] = Field(
        min_length=1, description="Paths of JSON or YAML files. `*` in a file's name stands for any text."
    )
    refresh: Seconds = Field(
        default=5.0, ge=1, le=3600, description="How often files are looked at. Only changed ones are read."
    )


class UrlDiscoverySettings(FoundSettings):
    """How the URL of a source of discovery is read."""

    refresh: Seconds = Field(default=60.0, ge=1, le=86400, description="Time from one request to the next.")
    timeout: Seconds = Field(default=10.0, gt=0, le=3600, description="Time after which a request fails.")
    bearer_token_file: Path | None = Field(default=None, description="File with a bearer token for this URL.")
    basic_auth_file: Path | None = Field(default=None, description="File with user:password for this URL.")
    ca_file: Path | None = Field(
        default=None, description="CA certificates to trust for this URL instead of the system's, as PEM."
    )
    insecure: bool = Field(default=False, description="Do not verify the certificate of this URL.")


class HttpDiscoverySettings(UrlDiscoverySettings, ListedSettings):
    """A URL that lists servers with labels, in Prometheus' format (`http_sd`)."""

    url: Queried = Field(description="URL that answers with the list, as JSON.")


class PrometheusDiscoverySettings(UrlDiscoverySettings):
    """A Prometheus, whose active targets of some jobs are servers."""

    url: Address = Field(description="Its URL, before `/api/v1`.")
    jobs: tuple[str, ...] = Field(min_length=1, description="Values of the label `job`: those that scrape Triton.")


class DnsDiscoverySettings(ListedSettings):
    """Names in DNS that stand for servers. Needs the extra `dns`."""

    names: tuple[str, ...] = Field(min_length=1, description="Domain names. One that does not exist has no server.")
    type: Literal["A", "AAAA", "SRV"] = Field(
        default="SRV", description="Kind of record. SRV holds ports too, as for `_http._tcp.triton.example.org`."
    )
    port: int = Field(default=8000, ge=1, le=65535, description="Port of servers that A or AAAA name.")
    nameserver: str = Field(
        default="", description="Who is asked, as 10.0.0.10:53. Empty: the nameservers of the system."
    )
    refresh: Seconds = Field(default=30.0, ge=1, le=86400, description="Time from one look to the next.")
    timeout: Seconds = Field(default=5.0, gt=0, le=60, description="Time after which the look at one name fails.")


class KubernetesDiscoverySettings(ListedSettings):
    """Ready pods of a namespace of Kubernetes. Needs the extra `kubernetes`."""

    namespace: Name = Field(description="Namespace of the pods.")
    selector: str = Field(default="", description="Labels of the pods, as in `app=triton,tier!=test`. Empty: all.")
    service: str = Field(default="", description="Service whose pods are meant, as it selects them.")
    port: str = Field(default="8000", description="Number of the port, or its name in the pod.")
    kubeconfig: Path | None = Field(
        default=None, description="File that says how the cluster is reached. Default: the pod's own account."
    )
    context: str = Field(default="", description="Which context of the kubeconfig. Empty: its current one.")
    timeout: Seconds = Field(default=10.0, gt=0, le=3600, description="Time after which a request fails.")


class DiscoverySettings(SettingsSection):
    """Servers that are found instead of written down. A server that is in `[[server]]` too is read as it says there."""

    group_by: str = Field(
        default="",
        description="Label whose value names a server's deployment. Empty: servers with the same ensembles, "
        "or the same models, are one deployment.",
    )
    max_servers: int = Field(
        default=1000, ge=1, le=10_000, description="Servers taken from all sources together. Others are left out."
    )
    file: tuple[FileDiscoverySettings, ...] = ()
    http: tuple[HttpDiscoverySettings, ...] = ()
    dns: tuple[DnsDiscoverySettings, ...] = ()
    kubernetes: tuple[KubernetesDiscoverySettings, ...] = ()
    prometheus: tuple[PrometheusDiscoverySettings, ...] = ()

    @property
    def sources(self) -> tuple[FoundSettings, ...]:
        """What finds servers, in the order of precedence."""
        return (*self.file, *self.http, *self.dns, *self.kubernetes, *self.prometheus)


class SloSettings(SettingsSection):
    """A service level objective of a model or ensemble."""

    name: str = Field(description="Name in metrics, alerts and reports.")
    objective: Share = Field(description="Share of requests that must be good, as in 0.99.")
    model: str | None = Field(default=None, description="Model that clients call, with all its versions.")
    ensemble: str | None = Field(default=None, description="Ensemble that clients call, instead of a model.")
    availability: bool = Field(default=False, description="A request is good if it does not fail.")
    latency: Seconds | None = Field(default=None, description="A request is good if it takes no longer.")
    time_to_first_token: Seconds | None = Field(
        default=None, description="A request is good if its answer begins by then."
    )
    period: Seconds = Field(default=30 * 86400.0, description="Period of the error budget.")
    tenant: dict[str, str] = Field(
        default={}, description="Count only series with these labels (Triton's metric_tags)."
    )
    deployment: str | None = Field(default=None, description="Count only servers of this deployment.")
    description: str = Field(default="", description="Text for people.")
    labels: dict[str, str] = Field(default={}, description="Labels to add to its alerts.")


class OtlpSettings(SettingsSection):
    """Receiving spans."""

    http: bool = Field(default=True, description="Receive OTLP over HTTP: POST /v1/traces at web.listen_address.")
    grpc_listen_address: str = Field(
        default="", description="Address for OTLP over gRPC, as host:port. Empty: no gRPC."
    )
    max_spans_per_second: int = Field(
        default=50_000,
        ge=1,
        description="Spans accepted per second. Beyond, senders that used more than an equal share must retry later.",
    )
    max_kept_spans_per_second: int = Field(
        default=200,
        ge=1,
        description="Spans kept per second (1 kB of memory, 0.7 kB of disk each). Beyond, whole traces are dropped.",
    )


class ProbeSettings(SettingsSection):
    """Explaining other servers on demand: GET /probe?target=…."""

    allowed_networks: tuple[IPvAnyNetwork, ...] = Field(
        default=(), description="Networks whose servers may be probed, as in 10.1.0.0/16. Empty: none."
    )


class HistorySettings(SettingsSection):
    """What is stored, and for how long."""

    directory: Path = Field(
        default=Path("data"), description="Folder of recorded bodies and, by default, of the database."
    )
    database: str = Field(default="", description="SQLAlchemy URL of a PostgreSQL. Empty: SQLite in the directory.")
    database_password_file: Path | None = Field(default=None, description="File with the database's password.")
    keep_raw: Seconds = Field(default=7 * 86400.0, gt=0, description="Age at which recorded bodies are deleted.")
    keep_raw_bytes: Bytes = Field(
        default=10 * 10**9, gt=0, description="Size beyond which the oldest recorded bodies are deleted."
    )
    keep_signals: Seconds = Field(
        default=90 * 86400.0, gt=0, description="Age at which incidents and signals are deleted."
    )
    segment: Seconds = Field(default=600.0, ge=10, description="Time that one file of recorded bodies covers.")


class IncidentSettings(SettingsSection):
    """When a finding is an incident."""

    open_after: int = Field(default=2, ge=1, description="Consecutive verdicts with a finding that open an incident.")
    close_after: Seconds = Field(default=300.0, gt=0, description="Time without the finding that closes the incident.")


class AlertmanagerSettings(SettingsSection):
    """Alertmanagers. Incidents go to each of them."""

    urls: tuple[Address, ...] = Field(default=(), description="Base URLs. Empty: nothing is sent.")
    basic_auth_file: Path | None = Field(default=None, description="File with user:password.")
    bearer_token_file: Path | None = Field(default=None, description="File with a bearer token.")
    ca_file: Path | None = Field(default=None, description="CA certificates to trust instead of the system's, as PEM.")
    resend: Seconds = Field(default=60.0, ge=1, description="Interval at which firing alerts are repeated.")
    timeout: Seconds = Field(default=10.0, gt=0, le=3600, description="Time after which one delivery fails.")
    min_severity: Literal["info", "warning", "critical"] = Field(
        default="warning", description="Lowest severity that is sent."
    )
    labels: dict[str, str] = Field(default={}, description="Labels to add to every alert.")


class WebhookSettings(SettingsSection):
    """A receiver of messages about incidents that open and close."""

    name: Name | None = Field(default=None, description="Name in logs and metrics, instead of the host.")
    url: Posted = Field(default="", description="URL that JSON is posted to.")
    url_file: Path | None = Field(default=None, description="File with the URL instead, if the URL is a secret.")
    bearer_token_file: Path | None = Field(default=None, description="File with a bearer token.")
    secret_file: Path | None = Field(default=None, description="File with a secret that signs each message.")
    ca_file: Path | None = Field(default=None, description="CA certificates to trust instead of the system's, as PEM.")
    timeout: Seconds = Field(default=10.0, gt=0, le=3600, description="Time after which one delivery fails.")


class NotificationSettings(SettingsSection):
    """A chat channel, pager or mailbox that people read. Needs the extra notify."""

    name: Name = Field(description="Name in logs and metrics.")
    url_file: Path | None = Field(default=None, description="File with the service's Apprise URL, which is a secret.")
    url_env: str = Field(default="", description="Environment variable with that URL instead.")
    min_severity: Literal["info", "warning", "critical"] = Field(
        default="warning", description="Lowest severity that is sent."
    )
    deployments: tuple[str, ...] = Field(default=(), description="Deployments to send. Empty: all.")
    events: tuple[Literal["opened", "severity_changed", "closed"], ...] = Field(
        default=("opened", "severity_changed", "closed"), description="What is sent."
    )
    consequences: bool = Field(default=False, description="Also send incidents that another one causes.")


_WEEKLY = r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]"


class MaintenanceSettings(SettingsSection):
    """Planned work: incidents are recorded meanwhile, and nobody is notified."""

    deployment: str = Field(default="", description="Name of the deployment. Empty: all.")
    start: AwareDatetime | None = Field(default=None, description="First moment, as 2026-12-01T02:00:00Z.")
    end: AwareDatetime | None = Field(default=None, description="Last moment.")
    weekly: str = Field(default="", description="Instead: day and hours of each week in UTC, as Sun 02:00-04:00.")

    @model_validator(mode="after")
    def _means_a_time(self) -> Self:
        if self.weekly:
            if self.start or self.end or not re.fullmatch(_WEEKLY, self.weekly):
                raise ValueError("write weekly alone, as in Sun 02:00-04:00, or start and end")
        elif self.start is None or self.end is None or self.end <= self.start:
            raise ValueError("give start and a later end, or weekly")
        return self


class FleetSettings(SettingsSection):
    """Workers that share the deployments of the same settings. Their history is one PostgreSQL."""

    workers: int = Field(default=1, ge=1, le=1000, description="Number of workers.")
    worker: int = Field(default=0, ge=0, description="Number of this worker, counted from 0.")

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Self:
        if self.worker >= self.workers:
            raise ValueError(f"there is no worker {self.worker} of {self.workers}: they are numbered from 0 on")
        return self


class LogSettings(SettingsSection):
    """The service's own log, on standard error."""

    level: Literal["debug", "info", "warn", "error"] = Field(default="info", description="Lowest level that is logged.")
    format: Literal["logfmt", "json"] = Field(default="logfmt", description="Format of a line.")


class Settings(SettingsSection):
    """The whole tree."""

    web: WebSettings = WebSettings()
    collect: CollectSettings = CollectSettings()
    server: tuple[ServerSettings, ...] = ()
    deployment: tuple[DeploymentSettings, ...] = ()
    discovery: DiscoverySettings = DiscoverySettings()
    slo: tuple[SloSettings, ...] = ()
    slo_files: tuple[Path, ...] = Field(
        default=(), description="Files of objectives: OpenSLO, Sloth, or the short form (a list slo:)."
    )
    otlp: OtlpSettings = OtlpSettings()
    probe: ProbeSettings = ProbeSettings()
    history: HistorySettings = HistorySettings()
    incidents: IncidentSettings = IncidentSettings()
    alertmanager: AlertmanagerSettings = AlertmanagerSettings()
    webhook: tuple[WebhookSettings, ...] = ()
    notification: tuple[NotificationSettings, ...] = ()
    maintenance: tuple[MaintenanceSettings, ...] = ()
    fleet: FleetSettings = FleetSettings()
    log: LogSettings = LogSettings()
