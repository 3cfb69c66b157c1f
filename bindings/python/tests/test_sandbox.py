"""Sandboxes, on both sides."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
import trio

import oncebox
from oncebox._network import network_json
from oncebox.testing import LocalServer
from sides import Side, do

pytestmark = pytest.mark.usefixtures("local_server")


async def test_a_life(side: Side) -> None:
    sandbox = await do(side.Sandbox.create(timeout=120, metadata={"task": "42"}, envs={"COLOUR": "blue"}))
    info = await do(sandbox.get_info())
    assert isinstance(info, oncebox.SandboxInfo)
    assert (info.sandbox_id, info.metadata, info.state) == (sandbox.sandbox_id, {"task": "42"}, "running")
    assert info.end_at - info.started_at == pytest.approx(datetime.timedelta(seconds=120), abs=datetime.timedelta(1))
    assert info.lifecycle == {"on_timeout": "kill", "auto_resume": False}
    assert await do(sandbox.is_running()) is True
    result = await do(sandbox.commands.run("echo $COLOUR"))
    assert result.stdout == "blue\n"
    await do(sandbox.set_timeout(600))
    later = await do(side.Sandbox.get_info(sandbox.sandbox_id))
    assert later.end_at > info.end_at
    assert await do(sandbox.kill()) is True
    assert await do(sandbox.kill()) is False
    assert await do(sandbox.is_running()) is False
    with pytest.raises(oncebox.SandboxNotFoundException) as caught:
        await do(sandbox.get_info())
    assert caught.value.status_code == 404
    assert not caught.value.may_have_been_processed
    with pytest.raises(oncebox.SandboxNotRunningException):
        await do(sandbox.commands.run("true"))


async def test_methods_of_the_class_take_an_id(side: Side) -> None:
    sandbox = await do(side.Sandbox.create())
    connected = await do(side.Sandbox.connect(sandbox.sandbox_id, timeout=60))
    assert type(connected) is side.Sandbox
    assert (await do(connected.commands.run("echo same"))).stdout == "same\n"
    assert await do(sandbox.connect()) is not sandbox
    assert await do(side.Sandbox.pause(sandbox.sandbox_id)) is True
    assert await do(side.Sandbox.pause(sandbox.sandbox_id)) is False
    assert (await do(side.Sandbox.get_info(sandbox.sandbox_id))).state is oncebox.SandboxState.PAUSED
    await do(side.Sandbox.connect(sandbox.sandbox_id, on_resume="reboot"))
    await do(side.Sandbox.set_timeout(sandbox.sandbox_id, 90))
    await do(side.Sandbox.update_network(sandbox.sandbox_id, {"deny_out": [oncebox.ALL_TRAFFIC]}))
    assert isinstance(await do(side.Sandbox.get_metrics(sandbox.sandbox_id)), list)
    assert await do(side.Sandbox.kill(sandbox.sandbox_id)) is True
    assert await do(side.Sandbox.kill(sandbox.sandbox_id)) is False


async def test_a_class_of_ones_own_stays(side: Side) -> None:
    class Own(side.Sandbox):  # type: ignore[name-defined,misc]
        pass

    sandbox = await do(Own.create())
    assert type(sandbox) is Own
    assert type(await do(Own.connect(sandbox.sandbox_id))) is Own
    await do(sandbox.kill())


async def test_lists_come_in_pages(side: Side) -> None:
    label = {"list": side.name}
    made = [await do(side.Sandbox.create(metadata=label)) for _ in range(3)]
    pages = side.Sandbox.list(oncebox.SandboxQuery(metadata=label), limit=2, order="asc")
    assert (pages.has_next, pages.next_token) == (True, None)
    first = await do(pages.next_items())
    assert pages.has_next
    assert pages.next_token
    second = await do(pages.next_items(request_timeout=30))
    assert [info.sandbox_id for info in first + second] == [sandbox.sandbox_id for sandbox in made]
    assert not pages.has_next
    with pytest.raises(oncebox.InvalidArgumentException, match="has_next"):
        await do(pages.next_items())
    for sandbox in made:
        await do(sandbox.kill())


async def test_forks_and_snapshots(side: Side) -> None:
    sandbox = await do(side.Sandbox.create())
    await do(sandbox.files.write("here", "1"))
    forks = await do(sandbox.fork(timeout=60, count=2))
    assert [await do(fork.files.read("here")) for fork in forks] == ["1", "1"]
    snapshot = await do(sandbox.create_snapshot(mode="filesystem"))
    listed = await do(sandbox.list_snapshots().next_items())
    assert [one.snapshot_id for one in listed] == [snapshot.snapshot_id]
    everywhere = await do(side.Sandbox.list_snapshots(sandbox.sandbox_id).next_items())
    assert everywhere == listed
    assert snapshot.snapshot_id in [one.snapshot_id for one in await do(side.Sandbox.list_snapshots().next_items())]
    copy = await do(side.Sandbox.create(snapshot.snapshot_id))
    assert await do(copy.files.read("here")) == "1"
    assert await do(side.Sandbox.delete_snapshot(snapshot.snapshot_id)) is True
    assert await do(side.Sandbox.delete_snapshot(snapshot.snapshot_id)) is False
    for one in [sandbox, copy, *forks]:
        await do(one.kill())


async def test_a_context_ends_it(side: Side, local_server: LocalServer) -> None:
    if side.is_async:
        async with await side.Sandbox.create() as sandbox:
            pass
    else:
        with side.Sandbox.create() as sandbox:
            pass
    assert await do(side.Sandbox.kill(sandbox.sandbox_id)) is False


def test_a_context_in_a_cancelled_scope_of_trio_ends_it() -> None:
    async def main() -> None:
        sandbox = await oncebox.AsyncSandbox.create()
        with trio.CancelScope() as scope:
            async with sandbox:
                scope.cancel()
                await trio.sleep_forever()
        assert await sandbox.kill() is False

    trio.run(main)


async def test_addresses(side: Side, local_server: LocalServer) -> None:
    sandbox = await do(side.Sandbox.create())
    assert sandbox.get_host(8000).startswith(f"8000-{sandbox.sandbox_id}.")
    assert sandbox.envd_api_url == local_server.url
    assert "signature=v1_" in sandbox.download_url("a b.txt", user="root", use_signature_expiration=60)
    assert "username=root" in sandbox.upload_url("a", user="root")
    assert sandbox.get_mcp_url().startswith(f"https://50005-{sandbox.sandbox_id}.")
    await do(sandbox.kill())


CUT = {"on": ["create"], "times": 1, "fault": {"cut": {"when": "after", "how": "reset"}}}


async def test_a_lost_answer_makes_one_sandbox(side: Side, local_server: LocalServer) -> None:
    local_server.set_faults({"rules": [CUT]})
    sandbox = await do(side.Sandbox.create(metadata={"lost": side.name}, settle=0.5))
    listed = await do(side.Sandbox.list(oncebox.SandboxQuery(metadata={"lost": side.name})).next_items())
    assert [info.sandbox_id for info in listed] == [sandbox.sandbox_id]
    assert local_server.effects()["counts"]["createSandbox"] == 1
    assert local_server.faults()["fired"][0] == 1
    await do(sandbox.kill())


async def test_an_unknown_create_is_resolved_by_its_intent(side: Side, local_server: LocalServer) -> None:
    lost_for_good = {"rules": [{**CUT, "times": 100}, {"on": ["list"], "fault": {"status": {"code": 500}}}]}
    local_server.set_faults(lost_for_good)
    with pytest.raises(oncebox.OutcomeUnknownException) as caught:
        await do(side.Sandbox.create(request_timeout=2, settle=0.5))
    assert caught.value.may_have_been_processed
    assert caught.value.outcome is not None
    assert len(caught.value.attempts) >= 2
    local_server.clear_faults()
    found = await do(side.Sandbox.resolve(caught.value.intent, settle=0.5))
    assert (await do(found.commands.run("echo alive"))).stdout == "alive\n"
    assert await do(found.kill()) is True
    assert await do(side.Sandbox.resolve("0" * 32, settle=0.2)) is None


async def test_one_intent_makes_one_sandbox(side: Side) -> None:
    intent = f"{hash(side.name) % 2**64:032x}"
    one = await do(side.Sandbox.create(intent=intent, settle=0.2))
    other = await do(side.Sandbox.create(intent=intent, settle=0.2))
    assert one.sandbox_id == other.sandbox_id
    assert one.intent == intent
    await do(one.kill())


async def test_busy_tells_when_to_come_again(side: Side, local_server: LocalServer) -> None:
    busy = {"code": 503, "headers": {"Retry-After": "3600"}}
    local_server.set_faults({"rules": [{"on": ["getSandbox"], "fault": {"status": busy}}]})
    with pytest.raises(oncebox.ServiceBusyException) as caught:
        await do(side.Sandbox.get_info("i1"))
    assert (caught.value.status_code, caught.value.retry_after) == (503, 3600)
    assert len(caught.value.attempts) == 1


WRONG: list[tuple[str, dict[str, Any], str]] = [
    *(("retries", {"retries": wrong}, "retries") for wrong in (True, -1, 1.0, "3")),
    *(("connection_retries", {"connection_retries": wrong}, "connection_retries") for wrong in (False, -1, 0.5, "")),
    *(("request_timeout", {"request_timeout": wrong}, "request_timeout") for wrong in (True, -1, "1", float("nan"))),
    ("timeout", {"timeout": "60"}, "timeout"),
    ("timeout", {"timeout": 0}, "longer than zero"),
    ("metadata", {"metadata": {"a": 1}}, "metadata"),
    ("metadata", {"metadata": {"oncebox.x": "1"}}, "oncebox"),
    ("envs", {"envs": ["A"]}, "envs"),
    ("api_key", {"api_key": 5}, "api_key"),
    ("intent", {"intent": "xyz"}, "intent"),
    ("idempotency_key", {"idempotency_key": "A B"}, "idempotency_key"),
    ("http_version", {"http_version": "3"}, "http_version"),
    ("lifecycle", {"lifecycle": {"on_timeout": "explode"}}, "lifecycle"),
    ("network", {"network": {"allow_outt": []}}, "allow_outt"),
    ("api_url", {"api_url": "nowhere"}, "api_url"),
    ("proxy", {"proxy": "ftp://x"}, "proxy"),
    ("proxy", {"proxy": True}, "proxy: a URL"),
]


@pytest.mark.parametrize(("option", "options", "words"), WRONG)
async def test_options_that_make_no_sense(
    side: Side, local_server: LocalServer, option: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(oncebox.InvalidArgumentException, match=words) as caught:
        await do(side.Sandbox.create(**options))
    assert caught.value.attempts == ()
    assert local_server.effects()["counts"] == {}


async def test_without_a_key_nothing_is_asked(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("E2B_API_KEY")
    with pytest.raises(oncebox.AuthenticationException, match="E2B_API_KEY"):
        await do(side.Sandbox.create())


@pytest.mark.parametrize("by_option", [True, False])
async def test_debug_is_this_machine_and_asks_nobody(
    side: Side, local_server: LocalServer, monkeypatch: pytest.MonkeyPatch, by_option: bool
) -> None:
    for name in ("E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL"):
        monkeypatch.delenv(name)
    options: dict[str, Any] = {"debug": True} if by_option else {}
    if not by_option:
        monkeypatch.setenv("E2B_DEBUG", "true")
    sandbox = await do(side.Sandbox.create(**options))
    assert sandbox.get_host(80) == "localhost:80"
    assert sandbox.envd_api_url == "http://localhost:49983"
    assert await do(sandbox.kill()) is True
    await do(sandbox.set_timeout(5))


async def test_lifecycle_and_network_are_passed_on(side: Side) -> None:
    sandbox = await do(
        side.Sandbox.create(
            lifecycle={"on_timeout": "pause", "auto_resume": True},
            network={
                "allow_out": lambda context: ["example.com", *context.rules],
                "deny_out": lambda context: [context.all_traffic],
                "rules": {"api.example": [{"transform": {"headers": {"T": "1"}}}]},
            },
        )
    )
    info = await do(sandbox.get_info())
    assert info.lifecycle == {"on_timeout": "pause", "auto_resume": True}
    assert info.network["allow_out"] == ["example.com", "api.example"]
    assert info.network["deny_out"] == ["0.0.0.0/0"]
    assert info.network["rules"] == {"api.example": [{"transform": {"headers": {"T": "1"}}}]}
    await do(sandbox.kill())


def test_a_rule_may_be_made_of_identities() -> None:
    network = {"rules": {"api": [{"transform": lambda context: {"headers": {"T": context.iam.tokens["a"]}}}]}}
    told = network_json(network, {"tokens": {"a": {"audience": "x", "token_type": "JWT-SVID"}}})  # type: ignore[arg-type]
    headers = {"T": "${e2b.identity.tokens.a}"}
    assert json.loads(told) == {"rules": {"api": [{"transform": {"headers": headers}}]}}
    proxy = {"address": "p:1", "tls": {"server_name": "p"}}
    told = network_json({"egress_proxy": proxy})  # type: ignore[typeddict-item]
    assert json.loads(told) == {"egressProxy": {"address": "p:1", "tls": {"enabled": True, "serverName": "p"}}}
