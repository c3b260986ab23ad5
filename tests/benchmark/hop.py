"""A way between clients and a server that takes time."""

from __future__ import annotations

import asyncio
import threading
from urllib.parse import urlsplit


class Hop:
    """A context in which `url` leads to the server, each way `ms` milliseconds later."""

    def __init__(self, url: str, ms: float) -> None:
        self._to, self._delay = urlsplit(url), ms / 1e3
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.url = ""

    def __enter__(self) -> Hop:
        self._thread.start()
        serving = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._accept, "127.0.0.1", 0), self._loop)
        self.url = f"http://127.0.0.1:{serving.result().sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._to.hostname, self._to.port)
        await asyncio.gather(self._carry(reader, back), self._carry(there, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(2**20):
                await asyncio.sleep(self._delay)
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            return
        finally:
            writer.close()
