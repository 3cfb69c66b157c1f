"""One function over many sandboxes, each of its own.

Creates are paced: the rate is learnt from what the server says of its limits, and all creates share it. Each sandbox is
killed when its function is done. What fails is a value in the report, and the others go on::

    def work(sandbox: Sandbox, number: int) -> str:
        return sandbox.commands.run(f"echo {number}").stdout

    report = run_fleet(100, work, concurrency=20, template="base")
    print(report)
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from typing_extensions import Unpack

from ._async.sandbox import AsyncSandbox
from ._fleet import FleetParams, FleetProgress, FleetReport, FleetRun
from ._run import Background, run_async, run_sync
from ._sync.sandbox import Sandbox

__all__ = ["FleetParams", "FleetProgress", "FleetReport", "run_async_fleet", "run_fleet"]

T = TypeVar("T")


def run_fleet(
    count: int,
    work: Callable[[Sandbox, int], T],
    *,
    concurrency: int = 50,
    sandbox_class: type[Sandbox] = Sandbox,
    on_progress: Callable[[FleetProgress], object] | None = None,
    on_result: Callable[[int, T | Exception], object] | None = None,
    **params: Unpack[FleetParams],
) -> FleetReport[T]:
    """Runs ``work(sandbox, number)`` over ``count`` sandboxes, in a thread each, ``concurrency`` of them at a time.

    :param sandbox_class: the class of the sandboxes, such as ``oncebox.code_interpreter.Sandbox``
    :param on_progress: called with how far it is, in the calling thread
    :param on_result: called with each number and what its function returned or raised, in the function's thread
    :raises InvalidArgumentException: an option makes no sense; nothing was made
    """
    run: FleetRun[T] = FleetRun(sandbox_class, count, concurrency, on_progress, params)

    def one(number: int, token: int, sandbox: Any) -> None:
        succeeded = False
        try:
            run.results[number] = work(sandbox, number)
            succeeded = True
        except Exception as error:
            run.results[number] = error
        finally:
            run.core.done(token, succeeded)
        if on_result is not None:
            on_result(number, run.results[number])

    with ThreadPoolExecutor(max(1, min(concurrency, count)), "oncebox-fleet") as threads:
        try:
            calls: list[Future[None]] = []
            while (told := run_sync(run.core.next())) is not None:
                progress, given = told
                calls += [threads.submit(one, number, token, run.sandbox(core)) for number, token, core in given]
                run.tell(progress)
            for call in calls:
                call.result()
        except BaseException:
            run.core.cancel()
            raise
    return run.report()


async def run_async_fleet(
    count: int,
    work: Callable[[AsyncSandbox, int], Awaitable[T]],
    *,
    concurrency: int = 50,
    sandbox_class: type[AsyncSandbox] = AsyncSandbox,
    on_progress: Callable[[FleetProgress], object] | None = None,
    on_result: Callable[[int, T | Exception], object] | None = None,
    **params: Unpack[FleetParams],
) -> FleetReport[T]:
    """As :func:`run_fleet`, with a coroutine function, in a task each.

    Cancelling it cancels the tasks, and has all sandboxes killed.
    """
    run: FleetRun[T] = FleetRun(sandbox_class, count, concurrency, on_progress, params)

    async def one(number: int, token: int, sandbox: Any) -> None:
        succeeded = False
        try:
            run.results[number] = await work(sandbox, number)
            succeeded = True
        except Exception as error:
            run.results[number] = error
        finally:
            run.core.done(token, succeeded)
        if on_result is not None:
            on_result(number, run.results[number])

    tasks: list[Background] = []
    try:
        while (told := await run_async(run.core.next())) is not None:
            progress, given = told
            for number, token, core in given:
                tasks.append(Background(functools.partial(one, number, token, run.sandbox(core))))
            run.tell(progress)
        for task in tasks:
            await task.join()
    except BaseException:
        run.core.cancel()
        for task in tasks:
            task.cancel()
        raise
    return run.report()
