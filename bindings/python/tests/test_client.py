"""The class that binds options."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import oncebox
from oncebox import E2B
from oncebox.testing import LocalServer
from sides import Side, do

SECRET = "hunter2-the-key"


async def test_all_classes_have_the_options(
    side: Side, oncebox_server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in oncebox_server.environment:
        monkeypatch.delenv(name, raising=False)
    client = E2B(**oncebox_server.options)
    own = {name: side.of(client, name) for name in ("Sandbox", "Template", "Volume", "Secret")}
    sandbox = await do(own["Sandbox"].create())
    assert isinstance(sandbox, side.Sandbox)
    assert (await do(sandbox.commands.run("echo bound"))).stdout == "bound\n"
    assert await do(own["Sandbox"].kill(sandbox.sandbox_id)) is True
    volume = await do(own["Volume"].create("bound"))
    await do(volume.write_file("/a", "x"))
    assert await do(volume.read_file("/a")) == "x"
    assert await do(own["Volume"].destroy(volume.volume_id)) is True
    assert await do(own["Template"].exists("none-of-this-name")) is False
    assert await do(own["Secret"].exists("none-of-this-name")) is False
    assert await do(own["Secret"].list().next_items()) is not None
    with pytest.raises(oncebox.AuthenticationException):
        await do(side.Secret.exists("a"))


def test_what_a_call_is_given_goes_before(oncebox_server: LocalServer) -> None:
    client = E2B(**{**oncebox_server.options, "api_url": "http://127.0.0.1:1", "connection_retries": 0})
    with pytest.raises(oncebox.NotDoneException):
        client.Secret.exists("a")
    assert client.Secret.exists("a", api_url=oncebox_server.url) is False


@pytest.mark.parametrize(
    "wrong",
    [
        {"retries": True},
        {"retries": -1},
        {"retries": 1.0},
        {"connection_retries": "3"},
        {"request_timeout": -0.5},
        {"request_timeout": True},
        {"http_version": "3"},
        {"api_headers": {"a": 1}},
        {"api_url": "no url"},
        {"retrise": 1},
    ],
)
def test_wrong_options_are_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(oncebox.InvalidArgumentException, match=next(iter(wrong))):
        E2B(api_key="k", **wrong)


def test_a_key_is_in_no_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = E2B(api_key=SECRET, api_headers={"x-secret": SECRET}, api_url="http://127.0.0.1:1", connection_retries=0)
    with pytest.raises(oncebox.NotDoneException) as caught:
        client.Secret.exists("a")
    texts = [repr(client), repr(client.Sandbox), str(caught.value), repr(caught.value), str(caught.value.attempts)]
    with pytest.raises(oncebox.InvalidArgumentException) as wrong:
        E2B(api_key=SECRET + "\n\x00")
    texts += [str(wrong.value), caplog.text]
    assert not [text for text in texts if SECRET in text]
