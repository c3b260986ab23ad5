"""The HTTP server: uvicorn in a thread of its own, at `web.listen_address`."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

from uvicorn import Config, Server

from diagnostics.errors import CollectError
from diagnostics.service.http.app import application
from diagnostics.service.http.authentication import Authentication
from diagnostics.service.http.connection import BACKLOG, EXHAUSTED, Connection, ConnectionLimiter, fair_loop
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.credentials import Credentials
from diagnostics.service.http.guard import Hosts
from diagnostics.service.listening import LISTEN_SETTING, Listen, bound, parse_listen, require_auth_if_public
from diagnostics.settings.addresses import prefix_of
from diagnostics.settings.tree import WebSettings
from exporters.sources.access import read_secret

log = logging.getLogger(__name__)
LARGEST_HEADERS = 32 * 2**10
# Seconds a connection is kept for a next request: longer than Prometheus' and the page's pauses.
KEPT_FOR = 75
# Seconds that answers under way are waited for at the end.
PATIENCE = 5
_STARTED_WITHIN = 10.0


def validate_listener(web: WebSettings) -> None:
    """Check the settings of the listener without opening it.

    Raises:
        UsageError: they, or a file that they name, cannot be used, or strangers would be let in.

    """
    listen = parse_listen(web.listen_address, LISTEN_SETTING)
    Hosts(web, listen)
    prefix_of(web.external_url, web.route_prefix)
    requested = Credentials(web, read_secret).requested
    require_auth_if_public(listen, LISTEN_SETTING, requested=requested, allowed=web.allow_unauthenticated)


class WebServer:
    """A part of the daemon. Binds its address when made, so that what cannot be bound ends the start.

    Attributes:
        port: where it listens, also when the settings leave the choice to the system.
        authentication: who may come in; other listeners ask it too.

    """

    def __init__(self, context: WebContext) -> None:
        """Bind; nothing is answered before `start`.

        Raises:
            UsageError: the address is none, or lets strangers in, or a file that the settings name cannot be used.
            CollectError: it cannot be bound.

        """
        self._listen: Listen = parse_listen(context.settings.web.listen_address, LISTEN_SETTING)
        self._app = application(context)
        self.authentication: Authentication = self._app.state.authentication
        web, credentials = context.settings.web, self._app.state.credentials
        require_auth_if_public(
            self._listen, LISTEN_SETTING, requested=credentials.requested, allowed=web.allow_unauthenticated
        )
        self._socket = ConnectionLimiter(bound(self._listen, LISTEN_SETTING), context.metrics, self._app.state.peers)
        self.port: int = self._socket.getsockname()[1]
        self._server = Server(self._config())
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._up = threading.Event()

    def start(self) -> None:
        """Begin to answer.

        Raises:
            CollectError: the server did not come up.

        """
        self._thread.start()
        self._up.wait(_STARTED_WITHIN)
        if not self._server.started:
            raise CollectError("the server did not come up; the log says why", where=str(self._listen))
        log.info("listening on %s", Listen(host=self._listen.host, port=self.port))

    def stop(self) -> None:
        """Take no more connections, finish the answers under way, and end."""
        self._app.state.live.end()
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        self._socket.close()

    def _config(self) -> Config:
        config = Config(
            self._app,
            http=Connection,
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            log_level="error",
            access_log=False,
            backlog=BACKLOG,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=LARGEST_HEADERS,
            timeout_keep_alive=KEPT_FOR,
            timeout_graceful_shutdown=PATIENCE,
        )
        config.load()
        config.ssl = self._app.state.credentials.tls
        return config

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=fair_loop) as runner:
                runner.run(self._serve())
        except Exception:
            log.exception("the server ended")
        finally:
            self._up.set()

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_exception_handler(_log_error)
        serving = asyncio.create_task(self._server.serve([self._socket]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.005)
        self._up.set()
        await serving


def _log_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what asyncio could not do, except for what the faults report for as long as it lasts."""
    if getattr(context.get("exception"), "errno", None) not in EXHAUSTED:
        loop.default_exception_handler(context)
