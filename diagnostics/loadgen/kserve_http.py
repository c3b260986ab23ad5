"""KServe's HTTP protocol: tritonclient makes the bodies and reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

import aiohttp
import tritonclient.http as triton

from diagnostics.loadgen.http_answers import FAILURES, refusal, unanswered, whole_body
from diagnostics.loadgen.tensors import input_tensors, of_model, read_result
from diagnostics.loadgen.transport import Endpoint, Reads, Reply, Values, refused, unusable
from exporters.sources.access import SourceOptions

_HEADER_LENGTH = "Inference-Header-Content-Length"
_Prepared = tuple[bytes, Mapping[str, str]]


class HttpTransport:
    """A client of `POST /v2/models/<model>/infer`; to be made in a running event loop.

    Args:
        endpoint: where requests go.
        options: credentials and TLS files.

    Raises:
        UsageError: a certificate or key file cannot be used.

    """

    verb = "infer"

    def __init__(self, endpoint: Endpoint, options: SourceOptions) -> None:
        self._endpoint, self._scrub, self._patience = endpoint, options.scrub, options.read_timeout
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=options.tls() if endpoint.secure else True, limit=endpoint.connections),
            timeout=aiohttp.ClientTimeout(total=endpoint.timeout),
            headers=options.request_headers(),
            # Each request stands for a user of its own, which no gateway shall know again.
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._model, self._url, self._reads = "", "", Reads()
        self._requests: list[_Prepared] = []

    def prepare(self, model: str, requests: Sequence[Values], kinds: Mapping[str, str], reads: Reads) -> None:
        self._model, self._reads = model, reads
        self._url = f"{self._endpoint.url}/v2/models/{quote(model, safe='')}/{self.verb}"
        self._requests = [self._prepared(values, kinds) for values in requests]

    def _prepared(self, values: Values, kinds: Mapping[str, str]) -> _Prepared:
        body, length = triton.InferenceServerClient.generate_request_body(input_tensors(triton, values, kinds))
        return bytes(body), {} if length is None else {_HEADER_LENGTH: str(length)}

    async def ask(self, index: int) -> Reply:
        body, headers = self._requests[index]
        try:
            async with self._session.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
                if answer.status != 200:
                    return refused(self._scrub(await refusal(answer)), answer.status)
                return await self._reply(answer)
        except FAILURES as error:
            return refused(self._scrub(unanswered(error, self._endpoint.timeout)), 0)
        except Exception as error:  # noqa: BLE001 - whatever a server sends, the load goes on
            return unusable(error)

    async def _reply(self, answer: aiohttp.ClientResponse) -> Reply:
        body, length = await whole_body(answer), answer.headers.get(_HEADER_LENGTH)
        result = triton.InferResult.from_response_body(body, header_length=int(length) if length else None)
        of_model(self._model, result.get_response().get("model_name"))
        counts, text = read_result(result, self._reads)
        return Reply(counts=counts, text=text)

    async def alive(self) -> bool:
        limit = aiohttp.ClientTimeout(total=self._patience)
        try:
            async with self._session.get(f"{self._endpoint.url}/v2/health/live", timeout=limit, allow_redirects=False):
                return True
        except (aiohttp.ClientError, OSError):
            return False

    async def close(self) -> None:
        await self._session.close()
