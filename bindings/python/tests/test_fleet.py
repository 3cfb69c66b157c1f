"""Fleets, on both sides."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from typing import Any

import pytest
import trio

import oncebox
from oncebox import FleetProgress, run_async_fleet, run_fleet
from oncebox.testing import LocalServer
from sides import Side, do

pytestmark = pytest.mark.usefixtures("local_server")


async def run(side: Side, count: int, work: Any, **params: Any) -> Any:
    """A fleet of a function that is written once."""
    if side.is_async:
        return await run_async_fleet(count, work, **params)

    def sync_work(sandbox: Any, number: int) -> Any:
        coroutine = work(sandbox, number)
        try:
            coroutine.send(None)
        except StopIteration as ended:
            return ended.value
        raise AssertionError("it waits")

    return run_fleet(count, sync_work, **params)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    """A server of the test's own: what is killed for another one may be counted late."""
    with LocalServer() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


async def test_each_number_has_a_sandbox_of_its_own(side: Side, alone: LocalServer) -> None:
    told: list[FleetProgress] = []
    results: list[tuple[int, object]] = []

    async def work(sandbox: Any, number: int) -> str:
        assert type(sandbox) is side.Sandbox
        stdout: str = (await do(sandbox.commands.run(f"echo {number} $WHO"))).stdout
        if number == 2:
            raise ZeroDivisionError
        return stdout

    report = await run(
        side,
        5,
        work,
        concurrency=2,
        envs={"WHO": "me"},
        on_progress=told.append,
        on_result=lambda number, result: results.append((number, result)),
    )
    assert [*map(str, report.results)] == ["0 me\n", "1 me\n", "", "3 me\n", "4 me\n"]
    assert isinstance(report.failures[2], ZeroDivisionError)
    assert (report.succeeded, report.created, report.lost, report.unknown, report.left) == (4, 5, 0, [], [])
    assert "4 of 5 succeeded" in str(report)
    assert (told[-1].done, told[-1].failed, told[-1].waiting) == (4, 1, 0)
    assert max(progress.running + progress.creating for progress in told) == 2
    assert sorted(number for number, _ in results) == [0, 1, 2, 3, 4]
    counts = alone.effects()["counts"]
    assert (counts["createSandbox"], counts["killSandbox"]) == (5, 5)


async def test_a_lost_create_is_found_and_one_that_fails_is_a_value(side: Side, local_server: LocalServer) -> None:
    local_server.set_faults({"rules": [{"on": ["create"], "times": 1, "fault": {"cut": {"when": "after"}}}]})

    async def work(sandbox: Any, number: int) -> int:
        return number

    report = await run(side, 3, work)
    assert report.results == [0, 1, 2]
    assert (report.created + report.adopted, report.adopted) == (3, 1)
    local_server.set_faults({"rules": [{"on": ["create"], "fault": {"status": {"code": 400}}}]})
    report = await run(side, 2, work)
    assert [type(result) for result in report.results] == [oncebox.InvalidArgumentException] * 2


async def test_wrong_options_are_refused_before_anything_is_made(side: Side, local_server: LocalServer) -> None:
    async def work(sandbox: Any, number: int) -> None:
        raise AssertionError

    for wrong in [{"concurrency": 0}, {"timeout": -1}, {"retries": True}, {"envs": {"a": 1}}]:
        with pytest.raises(oncebox.InvalidArgumentException, match=next(iter(wrong))):
            await run(side, 2, work, **wrong)
    with pytest.raises(oncebox.InvalidArgumentException, match="count"):
        await run(side, -1, work)
    assert (await run(side, 0, work)).results == []
    assert "createSandbox" not in local_server.effects()["counts"]


def test_a_function_that_was_cancelled_from_within_has_its_place(local_server: LocalServer) -> None:
    async def work(sandbox: Any, number: int) -> int:
        if number == 1:
            other = asyncio.ensure_future(asyncio.sleep(1000))
            other.cancel()
            await other
        return number

    report = asyncio.run(run_async_fleet(3, work))
    assert (report.results[0], report.results[2], list(report.failures)) == (0, 2, [1])
    assert "2 of 3 succeeded" in str(report)


#: Other tests have sandboxes on the same server.
LEFT = {"case": "a fleet that ends early"}


async def none_is_left() -> bool:
    return await oncebox.AsyncSandbox.list(oncebox.SandboxQuery(metadata=LEFT)).next_items() == []


def test_a_cancelled_fleet_leaves_no_sandbox(local_server: LocalServer) -> None:
    async def forever(sandbox: Any, number: int) -> None:
        started.set()
        await asyncio.sleep(1000)

    async def main() -> None:
        task = asyncio.ensure_future(run_async_fleet(3, forever, metadata=LEFT))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not await none_is_left():
            await asyncio.sleep(0.05)

    started = asyncio.Event()
    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_cancelled_fleet_of_trio_leaves_no_sandbox(local_server: LocalServer) -> None:
    async def main() -> None:
        started = trio.Event()

        async def forever(sandbox: Any, number: int) -> None:
            started.set()
            await trio.sleep_forever()

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(functools.partial(run_async_fleet, 3, forever, metadata=LEFT))
                await started.wait()
                nursery.cancel_scope.cancel()
            while not await none_is_left():
                await trio.sleep(0.05)

    trio.run(main)


def test_what_a_listener_raises_ends_the_fleet(local_server: LocalServer) -> None:
    def listener(progress: FleetProgress) -> None:
        if progress.running:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_fleet(2, lambda sandbox, number: None, on_progress=listener, metadata=LEFT)

    async def cleared_away() -> None:
        while not await none_is_left():
            await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(cleared_away(), 60))
