"""What is tried in a process of its own: forks, and the end of the interpreter. `child.py CASE URL` prints `ok`."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import urllib.request
from typing import Any

CASE, URL = sys.argv[1:]
if CASE == "without_hooks":
    os.register_at_fork = lambda **_: None

# In development mode a loop tells of each step that took more than a tenth of a second, which is a matter of what else the
# machine does. All else that it has to say would be a finding.
logging.getLogger("asyncio").addFilter(lambda record: not record.getMessage().endswith(" seconds"))

from oncebox import _core  # noqa: E402
from oncebox._run import run_sync  # noqa: E402


def client() -> _core.Client:
    return _core.Client({"api_key": "local", "api_url": URL, "sandbox_url": URL, "http_version": "1.1"})


def make_and_kill(client: _core.Client) -> bool:
    return run_sync(run_sync(client.create()).kill())


def in_child(work: object) -> int:
    """The exit code of a forked child that does this and ends as programs do."""
    pid = os.fork()
    if pid == 0:
        try:
            assert callable(work)
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fork() -> None:
    """The parent used a client, and both go on with it."""
    one = client()
    kept = run_sync(one.create())
    assert make_and_kill(one)
    assert in_child(lambda: make_and_kill(one)) == 0
    assert in_child(lambda: run_sync(kept.kill())) == 0
    assert run_sync(kept.kill()) is False
    assert make_and_kill(one)


def fork_busy() -> None:
    """Other threads are in the middle of calls while the process forks, again and again."""
    one = client()
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not stop.is_set():
                make_and_kill(one)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    codes = [in_child(lambda: make_and_kill(one)) for _ in range(5)]
    stop.set()
    for thread in threads:
        thread.join()
    assert codes == [0] * 5, codes
    assert not failures, failures


def fork_imported() -> None:
    """The parent only imported the package, or only built a client."""
    assert in_child(lambda: make_and_kill(client())) == 0
    built = client()
    assert in_child(lambda: make_and_kill(built)) == 0


def of_pool(_: int) -> bool:
    return make_and_kill(client())


def multiprocessing_pool() -> None:
    assert make_and_kill(client())
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(of_pool, range(4)) == [True] * 4


def exit_under_way() -> None:
    """The interpreter ends while something is under way: no hang, no message."""
    pending = _core.Server.start({"port": 70_000 % 65_536, "isolation": False, "helper": "/does/not/exist"})
    del pending
    globals()["kept"] = client().create()


def exit_in_thread() -> None:
    """A daemon thread waits when the interpreter ends."""
    one = client()
    threading.Thread(target=lambda: [make_and_kill(one) for _ in range(10_000)], daemon=True).start()
    make_and_kill(one)


def exit_after_cancel(others: int = 0) -> None:
    """What a create that was given up made is cleared away before the interpreter ends, also where its client is one that is no
    longer kept, since so many others came after it."""
    import asyncio

    import oncebox

    options = {"api_key": "local", "api_url": URL, "sandbox_url": URL, "http_version": "1.1", "settle": 0.5}

    def is_made() -> bool:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"{URL}/oncebox/effects") as answer:
            return bool(json.load(answer)["counts"])

    async def give_up() -> None:
        task = asyncio.ensure_future(oncebox.AsyncSandbox.create(metadata={"given": "up"}, **options))
        # The server keeps its answer back.
        while not task.done() and not await asyncio.to_thread(is_made):
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for number in range(others):
            oncebox.E2B(api_key=f"other-{number}")

    asyncio.run(give_up())


async def run_commands(count: int) -> list[object]:
    """Tasks that wait for commands that do not end by themselves, half of them with a callback."""
    import asyncio

    import oncebox

    options = {"api_key": "local", "api_url": URL, "sandbox_url": URL, "http_version": "2"}
    sandbox = await oncebox.AsyncSandbox.create(**options)
    handles = await asyncio.gather(
        *(
            sandbox.commands.run("sleep 600", background=True, on_stdout=None if number % 2 else print)
            for number in range(count)
        )
    )
    return [asyncio.ensure_future(handle.wait()) for handle in handles]


def exit_with_commands() -> None:
    """The interpreter ends from within a loop that has commands under way."""
    import asyncio

    async def work() -> None:
        globals()["kept"] = await run_commands(20)
        print("ok", flush=True)
        sys.exit(0)

    asyncio.run(work())


def exit_with_commands_in_thread() -> None:
    """The interpreter ends while another thread's loop has commands under way."""
    import asyncio

    under_way = threading.Event()

    async def work() -> None:
        tasks = await run_commands(20)
        under_way.set()
        await asyncio.gather(*tasks)

    threading.Thread(target=lambda: asyncio.run(work()), daemon=True).start()
    assert under_way.wait(30)


def fork_in_loop() -> None:
    """The parent's loop runs while the process forks; the child has loops of its own."""
    import asyncio

    import oncebox

    options = {"api_key": "local", "api_url": URL, "sandbox_url": URL, "http_version": "1.1"}

    async def work() -> bool:
        return await (await oncebox.AsyncSandbox.create(**options)).kill()

    async def main() -> list[bool]:
        others = [asyncio.ensure_future(work()) for _ in range(3)]
        await asyncio.sleep(0)

        def in_child_loop() -> None:
            # The parent's loop is not this process's: asyncio itself says so.
            assert asyncio._get_running_loop() is None
            assert asyncio.run(work())
            # Not through the parent's frames, which would run the parent's loop on.
            os._exit(0)

        assert in_child(in_child_loop) == 0
        return await asyncio.gather(*others)

    assert asyncio.run(main()) == [True] * 3


def loops() -> None:
    """Loops that have ended leave no descriptor and no port behind."""
    import asyncio
    import gc

    import trio

    from oncebox import _run

    one = client()

    async def work() -> None:
        await _run.run_async(one.close())

    def held() -> tuple[int, int]:
        gc.collect()
        ports = sum(isinstance(held, (_run._AsyncioPort, _run._TrioPort)) for held in gc.get_objects())
        return len(os.listdir("/proc/self/fd")), ports

    def run_both() -> None:
        asyncio.run(work())
        trio.run(work)

    # What is made once for all loops: the IO thread's own descriptors.
    run_both()
    before = held()
    assert before[1] == 0
    for _ in range(20):
        run_both()
    assert held() == before


def options() -> dict[str, Any]:
    return {"api_key": "local", "api_url": URL, "sandbox_url": URL, "http_version": "1.1"}


def of_sync() -> None:
    """All that a program does, on the synchronous side."""
    import oncebox

    with oncebox.Sandbox.create(**options()) as sandbox:
        assert sandbox.commands.run("echo sync").stdout == "sync\n"


def of_async() -> None:
    """The same in a loop of its own, of either kind."""
    import asyncio

    import trio

    import oncebox

    async def work() -> None:
        async with await oncebox.AsyncSandbox.create(**options()) as sandbox:
            assert (await sandbox.commands.run("echo async")).stdout == "async\n"

    asyncio.run(work())
    trio.run(work)


def of_both() -> None:
    of_sync()
    of_async()


def children(way: str) -> None:
    """Children of a parent that imported the package, that also built a client, and that also used it: each works."""
    import oncebox

    context = None if way == "os.fork" else multiprocessing.get_context(way)
    if way == "forkserver":
        # The process that forks has the package, too.
        multiprocessing.set_forkserver_preload(["oncebox"])

    def child() -> int | None:
        if context is None:
            return in_child(of_both)
        process = context.Process(target=of_both)
        process.start()
        process.join(50)
        return process.exitcode

    assert child() == 0, "imported"
    built = oncebox.E2B(**options())
    assert child() == 0, "built"
    of_both()
    kept = built.Sandbox.create()
    assert child() == 0, "used"
    if context is None:
        # What the parent made is the child's, too.
        assert in_child(lambda: kept.files.write("/tmp/a", "of the child")) == 0
        assert kept.files.read("/tmp/a") == "of the child"
    kept.kill()
    of_both()


def without_hooks() -> None:
    """Were the package not told of forks, a child would wait for a thread that it does not have."""
    of_sync()

    def given_up() -> None:
        signal.setitimer(signal.ITIMER_REAL, 2)
        of_sync()

    assert in_child(given_up) == -signal.SIGALRM


CASES = {
    "exit_after_cancel": exit_after_cancel,
    "exit_after_cancel_and_others": lambda: exit_after_cancel(100),
    "exit_with_commands": exit_with_commands,
    "exit_with_commands_in_thread": exit_with_commands_in_thread,
    "fork_in_loop": fork_in_loop,
    "fork": fork,
    "fork_busy": fork_busy,
    "fork_imported": fork_imported,
    "loops": loops,
    "multiprocessing": multiprocessing_pool,
    "os.fork": lambda: children("os.fork"),
    "fork_process": lambda: children("fork"),
    "spawn": lambda: children("spawn"),
    "forkserver": lambda: children("forkserver"),
    "without_hooks": without_hooks,
    "exit": exit_under_way,
    "exit_in_thread": exit_in_thread,
}

# Not in the children that run this file anew.
if __name__ == "__main__":
    CASES[CASE]()
    print("ok", flush=True)
