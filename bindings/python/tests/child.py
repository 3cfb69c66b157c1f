"""What is tried in a process of its own: forks, and the end of the interpreter. `child.py CASE URL` prints `ok`."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading

from oncebox import _core
from oncebox._run import run_sync

CASE, URL = sys.argv[1:]


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


{
    "fork": fork,
    "fork_busy": fork_busy,
    "fork_imported": fork_imported,
    "multiprocessing": multiprocessing_pool,
    "exit": exit_under_way,
    "exit_in_thread": exit_in_thread,
}[CASE]()
print("ok", flush=True)
