"""How a loop learns of what has ended: everything once, in order, and not all at a time where it is very much."""

from __future__ import annotations

import asyncio
import itertools
import select
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from oncebox import _core
from oncebox._async.commands import AsyncCommands
from oncebox._run import run_async, run_sync

#: More than are taken at a time.
COUNT = 1000


@contextmanager
def standing_still() -> Iterator[None]:
    """The IO thread stands still meanwhile."""
    _core.before_fork()
    try:
        yield
    finally:
        _core.after_fork_in_parent()


def is_readable(completions: _core.Completions) -> bool:
    return bool(select.select([completions.fileno()], [], [], 0)[0])


def test_many_are_taken_in_order_and_in_lots(client: _core.Client) -> None:
    completions = _core.Completions()
    assert completions.take() == []
    run_sync(client.close())
    with standing_still():
        operations = [client.close() for _ in range(COUNT)]
        assert not any(operation.notify(completions, token) for token, operation in enumerate(operations))
        assert not is_readable(completions)
    # Begun later, and so ended later.
    run_sync(client.close())
    lots = []
    while is_readable(completions):
        lots.append(completions.take())
    assert [token for lot in lots for token in lot] == list(range(COUNT))
    assert all(len(lot) < COUNT / 4 for lot in lots)
    assert completions.take() == []
    assert [operation.take() for operation in operations] == [[]] * COUNT
    # It is told of the next one as of the first.
    with standing_still():
        last = client.close()
        assert last.notify(completions, 7) is False
    select.select([completions.fileno()], [], [], 10)
    assert completions.take() == [7]


def test_a_loop_has_turns_while_very_many_end(client: _core.Client) -> None:
    """Between two lots, whatever else a loop has to do is done."""

    async def work() -> list[int]:
        done, seen = 0, []

        async def one() -> None:
            nonlocal done
            await run_async(client.close())
            done += 1

        async def look() -> None:
            while done < COUNT:
                seen.append(done)
                await asyncio.sleep(0)
            seen.append(done)

        run_sync(client.close())
        with standing_still():
            tasks = [asyncio.ensure_future(one()) for _ in range(COUNT)]
            # Each has its first turn, and waits.
            await asyncio.sleep(0)
        # All have ended, before the loop has seen any of it.
        run_sync(client.close())
        await asyncio.gather(look(), *tasks)
        return seen

    seen = asyncio.run(work())
    assert max(after - before for before, after in itertools.pairwise(seen)) < COUNT / 4


def test_a_loop_has_turns_while_very_many_commands_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = 0

    class Core:
        def run(self, line: str, options: object) -> None:
            nonlocal begun
            begun += 1
            raise LookupError(line)

    monkeypatch.setattr("oncebox._async.commands.timed", lambda _core, _timeout: Core())

    async def work() -> list[int]:
        commands, seen = AsyncCommands(None), []  # type: ignore[arg-type]
        tasks = [asyncio.ensure_future(commands.run(str(number))) for number in range(COUNT)]
        # One that gave up before its turn came.
        await asyncio.sleep(0)
        tasks[-1].cancel()
        while begun < COUNT - 1:
            seen.append(begun)
            await asyncio.sleep(0)
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        # Each once, those before it first.
        assert [str(end) for end in ends[:-1]] == [str(number) for number in range(COUNT - 1)]
        assert isinstance(ends[-1], asyncio.CancelledError)
        return [0, *seen, begun]

    for _ in range(2):
        begun = 0
        seen = asyncio.run(work())
        assert max(after - before for before, after in itertools.pairwise(seen)) < COUNT / 4
    assert begun == COUNT - 1
