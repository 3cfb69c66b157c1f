"""Two SDKs from PyPI, unmodified, on our transport: what the server refuses or drops, they never hear of."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import groq
import httpx
import openai
import pytest

import oncebox.httpx

if TYPE_CHECKING:
    from .conftest import MakePeer, Peer

CHAT = {
    "id": "chat-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
}
EVENTS = "".join(
    "data: "
    + json.dumps({**CHAT, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": word}}]})
    + "\n\n"
    for word in ("one", "two", "three")
)


def answering(body: str, content_type: str) -> dict[str, Any]:
    """Refuses three streams, retires each connection after the fourth, and answers so."""
    return {
        "answer": {"headers": {"content-type": content_type}, "body": {"text": body}},
        "rules": [
            {"at": "request", "when": {"count": [1, 5, 9]}, "do": ["refuse"]},
            {"at": "request", "when": {"nth": 4}, "do": [{"goaway": {"debug": "max_age"}}]},
        ],
    }


SDKS = [pytest.param(openai, id="openai"), pytest.param(groq, id="groq")]
MESSAGES: Any = [{"role": "user", "content": "hello"}]


def made(sdk: Any, name: str, server: Peer, http_client: Any) -> Any:
    make = getattr(sdk, name)
    # Their own retries are off: all that is repeated is repeated below them.
    return make(api_key="key", base_url=f"{server.url}/v1", http_client=http_client, max_retries=0)


@pytest.mark.parametrize("sdk", SDKS)
def test_calls_in_threads(peer: MakePeer, sdk: Any) -> None:
    server = peer(answering(json.dumps(CHAT), "application/json"))
    http_client = httpx.Client(transport=oncebox.httpx.Transport(http_version="2"))
    client = made(sdk, sdk.__name__.title().replace("Openai", "OpenAI"), server, http_client)
    for _ in range(20):
        answer = client.chat.completions.create(model="m", messages=MESSAGES)
        assert answer.choices[0].message.content == "hello"
    totals = server.report()["totals"]
    assert totals["processed"] == 20
    assert totals["refused"] > 0


@pytest.mark.parametrize("sdk", SDKS)
def test_streams_in_a_loop(peer: MakePeer, sdk: Any) -> None:
    server = peer(answering(EVENTS + "data: [DONE]\n\n", "text/event-stream"))

    async def one(client: Any) -> list[str]:
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        return [event.choices[0].delta.content async for event in stream]

    async def work() -> list[list[str]]:
        http_client = httpx.AsyncClient(transport=oncebox.httpx.AsyncTransport(http_version="2"))
        client = made(sdk, "Async" + sdk.__name__.title().replace("Openai", "OpenAI"), server, http_client)
        return await asyncio.gather(*(one(client) for _ in range(50)))

    assert asyncio.run(work()) == [["one", "two", "three"]] * 50
    assert server.report()["totals"]["processed"] == 50
