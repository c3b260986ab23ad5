"""Servers that run as pods of a Kubernetes cluster: listed once, then watched, as its API asks of clients.

A watch ends every few minutes and goes on where it ended. Where the API server no longer knows that place (410 Gone),
pods are listed again. Source: Kubernetes, "API concepts", efficient detection of changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnostics.errors import CollectError, MalformedBody, UsageError, not_installed
from diagnostics.units import parse_whole
from diagnostics.wire.json_body import JsonFields, json_value
from exporters.sources.access import DEFAULT_TIMEOUT
from exporters.sources.address import safe
from exporters.sources.target_list import (
    LONGEST_LABEL,
    MOST_TARGETS,
    FoundTarget,
    TargetList,
    checked_labels,
    targets_of,
)

PREFIX = "k8s://"
_FORM = "give k8s://namespace/service, or k8s://namespace/service:port"
WATCH_SECONDS = 120
"""After which the API server is asked to end a watch. One that is silent for longer is dead, and is begun again."""
PAGE = 500
"""Pods of one answer, as kubectl asks for."""
MOST_BYTES, MOST_LINE = 64 * 2**20, 4 * 2**20
"""Of one answer and of one event: etcd keeps objects of at most 1.5 MiB, and a page of usual pods is 5 MB."""
_GONE, _DENIED = 410, (401, 403)
_DNS_LABEL, _PORT = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"), re.compile(r"[a-z0-9-]{1,15}")
_NO_LABEL_NAME = re.compile(r"[^a-zA-Z0-9_]")
_META = "__meta_kubernetes_"
# Labels that the controllers of a Deployment, and of a StatefulSet or DaemonSet, give the pods of one revision.
_REVISIONS = ("pod-template-hash", "controller-revision-hash")
# Between two watches, and until a Service that is not there is sought again, in seconds.
_PAUSE, _NO_SERVICE = 1.0, 15.0
_Targets = dict[str, "FoundTarget | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodQuery:
    """Which pods are servers.

    Attributes:
        namespace: theirs.
        selector: of their labels, as `app=triton,tier!=test`; empty for all.
        service: the name of a Service whose pods are meant; empty for none.
        port: the number of a port, or its name in the pod.
        scheme: of the servers.

    """

    namespace: str
    selector: str = ""
    service: str = ""
    port: str = "8000"
    scheme: str = "http"

    def __str__(self) -> str:
        what = f"service/{self.service}" if self.service else "pods"
        return f"{self.namespace}/{what}{f' {self.selector}' if self.selector else ''} port {self.port}"


class _ExpiredError(Exception):
    """The API server no longer knows the version from which pods are watched, or the rest of a list."""


class KubernetesTargets:
    """The ready pods of a query. `find` returns the first time at once, and then with each change of a pod."""

    def __init__(self, query: PodQuery, *, kubeconfig: Path | None, context: str, timeout: float) -> None:
        """Read how the cluster is reached; nothing is asked yet.

        Raises:
            UsageError: the client is not installed, or there is no cluster to reach.

        """
        self.name = f"kubernetes {query}"
        self.refresh = 0.0
        self._query, self._timeout = query, timeout
        self._api = _api(kubeconfig, context)
        self._pods: _Targets = {}
        self._refused: dict[str, str] = {}
        self._selector = ""
        self._version = ""
        self._events: Iterator[JsonFields] | None = None

    def find(self) -> TargetList:
        """Return the ready pods, after the next change except the first time.

        Raises:
            CollectError: the API server cannot be asked, or refuses.

        """
        self.refresh = 0.0
        try:
            self._step()
        except _ExpiredError:
            self._version, self._events, self.refresh = "", None, _PAUSE
        except BaseException:
            # What was missed meanwhile is in the next list.
            self._version, self._events = "", None
            raise
        return self._found()

    def _step(self) -> None:
        """List and begin to watch, or wait for the next event."""
        if self._events is None:
            self._begin()
        elif (event := next(self._events, None)) is None:
            self._events, self.refresh = None, _PAUSE
        else:
            self._apply(event)

    def _found(self) -> TargetList:
        found = TargetList(targets=[one for _, one in sorted(self._pods.items()) if one is not None][:MOST_TARGETS])
        for entry, reason in self._refused.items():
            found.refuse(entry, reason)
        return found

    def _begin(self) -> None:
        """List where that is due, and begin to watch."""
        selector = self._whole_selector()
        if selector is None:
            self._pods, self._version, self.refresh = {}, "", _NO_SERVICE
            return
        if not self._version or selector != self._selector:
            self._selector = selector
            self._list()
        self._events = self._watch()

    def _whole_selector(self) -> str | None:
        """Return the selector with the Service's own; None where there is no such Service."""
        service, self._refused = self._query.service, {}
        if not service:
            return self._query.selector
        listed = self._ask("service", field_selector=f"metadata.name={service}").children("items")
        if not listed:
            self._refused[f"{self._query.namespace}/{service}"] = "there is no service of this name"
            return None
        own = listed[0].child("spec").text_map("selector")
        if not own:
            self._refused[f"{self._query.namespace}/{service}"] = "this service selects no pods"
            return None
        return ",".join(
            [*(f"{name}={value}" for name, value in sorted(own.items())), *filter(None, [self._query.selector])]
        )

    def _list(self) -> None:
        pods: _Targets = {}
        more: dict[str, str] = {}
        for _ in range(2 * MOST_TARGETS // PAGE):  # pages that hold nothing may go on without end
            page = self._ask("pod", label_selector=self._selector, limit=PAGE, **more)
            for pod in page.children("items"):
                self._note(pods, pod)
            about = page.child("metadata")
            if not about.text("continue") or len(pods) >= MOST_TARGETS:
                break
            more = {"_continue": about.text("continue")}
        self._pods, self._version = pods, about.text("resource_version")

    def _apply(self, event: JsonFields) -> None:
        kind, pod = event.text("type"), event.child("object")
        if kind == "ERROR":
            if pod.integer("code") == _GONE:
                raise _ExpiredError
            raise CollectError(f"the watch ended: {safe(pod.text('message'))}", where=self.name)
        self._version = pod.child("metadata").text("resource_version", self._version)
        if kind == "DELETED":
            self._pods.pop(_name(pod), None)
            self._refused.pop(_name(pod), None)
        elif kind in ("ADDED", "MODIFIED"):
            self._note(self._pods, pod)

    def _note(self, pods: _Targets, pod: JsonFields) -> None:
        name = _name(pod)
        try:
            target = _target(pod, self._query)
        except (MalformedBody, UsageError) as error:
            target = None
            if name in self._refused or len(self._refused) < MOST_TARGETS:
                self._refused[name] = error.what
        else:
            self._refused.pop(name, None)
        if name in pods or len(pods) < MOST_TARGETS:
            pods[name] = target

    def _watch(self) -> Iterator[JsonFields]:
        """Yield events until the API server ends the watch, or says nothing for too long."""
        from urllib3 import exceptions

        options = {"watch": True, "allow_watch_bookmarks": True, "timeout_seconds": WATCH_SECONDS}
        answer = self._request(
            "pod",
            WATCH_SECONDS + self._timeout,
            label_selector=self._selector,
            resource_version=self._version,
            **options,
        )
        kept = b""
        try:
            for part in answer.stream(2**16, decode_content=True):
                *lines, kept = (kept + part).split(b"\n")
                if len(kept) > MOST_LINE:
                    raise CollectError("an event is larger than 4 MiB", where=self.name)
                for line in filter(None, lines):
                    yield _object(line, self.name)
        except (exceptions.ReadTimeoutError, exceptions.ProtocolError):
            return  # it goes on where it ended
        finally:
            answer.close()

    def _ask(self, kind: str, **options: Any) -> JsonFields:
        answer = self._request(kind, self._timeout, **options)
        try:
            body = answer.read(MOST_BYTES + 1, decode_content=True)
        finally:
            answer.close()
        if len(body) > MOST_BYTES:
            raise CollectError("an answer is larger than 64 MiB", where=self.name)
        return _object(body, self.name)

    def _request(self, kind: str, timeout: float, **options: Any) -> Any:
        from kubernetes.client import ApiException
        from urllib3 import exceptions

        ask = getattr(self._api, f"list_namespaced_{kind}")
        try:
            return ask(
                self._query.namespace,
                _preload_content=False,
                _request_timeout=(self._timeout, timeout),
                **{name: value for name, value in options.items() if value != ""},
            )
        except ApiException as error:
            if error.status == _GONE:
                raise _ExpiredError from None
            hint = f"let its account list and watch {kind}s" if error.status in _DENIED else ""
            raise CollectError(f"the API server answers HTTP {error.status}", where=self.name, hint=hint) from None
        except exceptions.HTTPError as error:
            reason = type(getattr(error, "reason", None) or error).__name__
            raise CollectError(f"the API server does not answer ({reason})", where=self.name) from None


def _object(body: bytes, where: str) -> JsonFields:
    try:
        value = json_value(body)
    except ValueError:
        raise MalformedBody("the API server's answer is not JSON", where=where) from None
    if not isinstance(value, dict):
        raise MalformedBody("the API server's answer is no object", where=where)
    return JsonFields(value, "the answer")


def _name(pod: JsonFields) -> str:
    about = pod.child("metadata")
    return f"{about.text('namespace')}/{about.text('name')}"


def _target(pod: JsonFields, query: PodQuery) -> FoundTarget | None:
    """Return a pod as a target; None for one that is not ready, or about to end."""
    about, status = pod.child("metadata"), pod.child("status")
    ready = {one.text("type"): one.text("status") for one in status.children("conditions")}.get("Ready") == "True"
    if not ready or about.has("deletion_timestamp") or not status.text("podIP"):
        return None
    address = status.text("podIP")
    place = f"[{address}]:{_port(pod, query.port)}" if ":" in address else f"{address}:{_port(pod, query.port)}"
    found = targets_of([place], checked_labels(_labels(pod, query.port)), query.namespace, query.scheme)
    for reason in found.refused.values():
        raise UsageError(reason)
    return found.targets[0]


def _port(pod: JsonFields, port: str) -> int:
    if (number := parse_whole(port)) is not None:
        return number
    for container in pod.child("spec").children("containers"):
        for one in container.children("ports"):
            if one.text("name") == port:
                return one.integer("container_port")
    raise UsageError(f"has no port {port!r}")


def _labels(pod: JsonFields, port: str) -> Mapping[str, str]:
    """Return the labels that Prometheus gives a pod, and those that are shown.

    These are `namespace`, `pod`, `image` of the container that has the port, and `revision`: which state of its
    ReplicaSet, StatefulSet or DaemonSet the pod is of. They change with a rollout.
    """
    about = pod.child("metadata")
    own = {
        f"{_META}pod_label_{_NO_LABEL_NAME.sub('_', name)}": value for name, value in about.text_map("labels").items()
    }
    namespace, name, node = about.text("namespace"), about.text("name"), pod.child("spec").text("node_name")
    revision = next((found for label in _REVISIONS if (found := about.text_map("labels").get(label))), "")
    shown = {"namespace": namespace, "pod": name, "image": _image(pod, port), "revision": revision}
    return {**own, f"{_META}pod_node_name": node, **{label: value for label, value in shown.items() if value}}


def _image(pod: JsonFields, port: str) -> str:
    """Return the image of the container that has a port, else of the first one."""
    containers = pod.child("spec").children("containers")
    named = [one for one in containers if any(_is_port(each, port) for each in one.children("ports"))]
    return next((one.text("image")[:LONGEST_LABEL] for one in (*named, *containers)), "")


def _is_port(port: JsonFields, wanted: str) -> bool:
    return wanted in (port.text("name"), str(port.integer("container_port")))


def _api(kubeconfig: Path | None, context: str) -> Any:
    try:
        from kubernetes import client, config
    except ModuleNotFoundError as error:
        raise not_installed(error, "kubernetes", where="discovery.kubernetes") from None
    try:
        if kubeconfig is not None or context:
            named = str(kubeconfig) if kubeconfig else None
            return client.CoreV1Api(config.new_client_from_config(named, context or None))
        made = client.Configuration()
        try:
            config.load_incluster_config(client_configuration=made)
        except config.ConfigException:
            return client.CoreV1Api(config.new_client_from_config())
        return client.CoreV1Api(client.ApiClient(made))
    except (config.ConfigException, OSError, ValueError) as error:
        hint = "run it in the cluster, or name a kubeconfig"
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"no cluster can be reached: {reason}", where="discovery.kubernetes", hint=hint) from None


def service_urls(source: str) -> list[str]:
    """Return the addresses of the ready pods of `k8s://namespace/service`, with `:port` behind it unless it is 8000.

    Raises:
        UsageError: it is no such address, the client is not installed, or there is no cluster to reach.
        CollectError: the API server cannot be asked, or the service has no ready pod.

    """
    namespace, _, rest = source.removeprefix(PREFIX).partition("/")
    service, _, port = rest.partition(":")
    if not (_DNS_LABEL.fullmatch(namespace) and _DNS_LABEL.fullmatch(service) and _PORT.fullmatch(port or "8000")):
        raise UsageError("names no service", where=safe(source), hint=_FORM)
    query = PodQuery(namespace=namespace, service=service, port=port or "8000")
    found = KubernetesTargets(query, kubeconfig=None, context="", timeout=DEFAULT_TIMEOUT).find()
    if not found.targets:
        reason = next(iter(found.refused.values()), "none of its pods is ready")
        raise CollectError(reason, where=safe(source), hint=f"look at kubectl -n {namespace} get pods")
    return [one.url for one in found.targets]
