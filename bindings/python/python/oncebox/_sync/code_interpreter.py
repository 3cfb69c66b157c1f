# Written by tools/twin.py from _async/code_interpreter.py: change it there.
"""Sandboxes that run code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, overload

from .._options import timed
from .._run import call_sync, run_sync
from ..code_interpreter.models import (
    Context,
    Execution,
    ExecutionError,
    Logs,
    OutputMessage,
    Result,
    RunCodeLanguage,
    result_of,
)
from .sandbox import Sandbox as Base


class Sandbox(Base):
    """A sandbox with a code interpreter. Its kernels remember what earlier code did."""

    default_template = "code-interpreter-v1"

    @overload
    def run_code(
        self,
        code: str,
        language: RunCodeLanguage | None = None,
        *,
        on_stdout: Callable[[OutputMessage], Awaitable[Any] | Any] | None = None,
        on_stderr: Callable[[OutputMessage], Awaitable[Any] | Any] | None = None,
        on_result: Callable[[Result], Awaitable[Any] | Any] | None = None,
        on_error: Callable[[ExecutionError], Awaitable[Any] | Any] | None = None,
        envs: dict[str, str] | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> Execution: ...
    @overload
    def run_code(
        self,
        code: str,
        *,
        context: Context | None = None,
        on_stdout: Callable[[OutputMessage], Awaitable[Any] | Any] | None = None,
        on_stderr: Callable[[OutputMessage], Awaitable[Any] | Any] | None = None,
        on_result: Callable[[Result], Awaitable[Any] | Any] | None = None,
        on_error: Callable[[ExecutionError], Awaitable[Any] | Any] | None = None,
        envs: dict[str, str] | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> Execution: ...
    def run_code(
        self,
        code: str,
        language: RunCodeLanguage | None = None,
        context: Context | None = None,
        on_stdout: Callable[[OutputMessage], Awaitable[Any] | Any] | None = None,
        on_stderr: Callable[[OutputMessage], Awaitable[Any] | Any] | None = None,
        on_result: Callable[[Result], Awaitable[Any] | Any] | None = None,
        on_error: Callable[[ExecutionError], Awaitable[Any] | Any] | None = None,
        envs: dict[str, str] | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> Execution:
        """Runs code in the default kernel of a language (Python by default), or in that of a context.

        An exception in the code is none of this call: see :attr:`Execution.error`. The code is sent at most once: what is
        repeated is only a request that provably did not arrive.

        :param on_stdout: called with what the code writes, as it comes; the other callbacks likewise
        :param envs: environment variables for this run
        :param timeout: seconds that all of it may take; 0 is for ever. Default 300. The code may go on after it
        :param request_timeout: has no effect: ``timeout`` is the one limit of a run
        :raises SandboxUnreachableException: the answer was cut: the result is unknown, and the code may go on
        :raises TimeoutException: it did not end within ``timeout``
        """
        core = timed(self._core, request_timeout)
        options = {"language": language, "context": context and context.id, "envs": envs, "timeout": timeout}
        run, execution = core.run_code(code, options), Execution([], Logs([], []))
        try:
            while told := run_sync(run.next()):
                for kind, what in told:
                    if kind == "failed":
                        raise what
                    if kind == "end":
                        execution.execution_count = what
                    elif kind == "result":
                        result = result_of(what)
                        execution.results.append(result)
                        if on_result is not None:
                            call_sync(on_result, result)
                    elif kind == "error":
                        execution.error = ExecutionError(*what)
                        if on_error is not None:
                            call_sync(on_error, execution.error)
                    else:
                        is_error = kind == "stderr"
                        (execution.logs.stderr if is_error else execution.logs.stdout).append(what[0])
                        listener = on_stderr if is_error else on_stdout
                        if listener is not None:
                            call_sync(listener, OutputMessage(what[0], what[1], is_error))
        except BaseException:
            # Cancelled, or a callback failed: nobody follows it any more.
            run.give_up()
            raise
        return execution

    def create_code_context(
        self,
        cwd: str | None = None,
        language: RunCodeLanguage | None = None,
        request_timeout: float | None = None,
    ) -> Context:
        """Starts a kernel of its own, of a language (Python by default), in a working directory (the user's home).

        :raises OutcomeUnknownException: the answer was lost; contexts that appeared meanwhile are its ``candidates``
        """
        core = timed(self._core, request_timeout)
        return Context.from_json(run_sync(core.create_code_context({"language": language, "cwd": cwd})))

    def list_code_contexts(self) -> list[Context]:
        """All kernels."""
        return [Context.from_json(told) for told in run_sync(self._core.code_contexts())]

    def remove_code_context(self, context: Context | str) -> None:
        """Ends a kernel. One that is gone already is fine."""
        run_sync(self._core.remove_code_context(context.id if isinstance(context, Context) else context))

    def restart_code_context(self, context: Context | str) -> None:
        """Starts a kernel afresh: what it remembered is gone.

        :raises NotFoundException: there is no such one
        """
        run_sync(self._core.restart_code_context(context.id if isinstance(context, Context) else context))
