"""Exceptions reach other processes whole: what is known of a call goes with them."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import oncebox
import oncebox.code_interpreter
import oncebox.desktop
import oncebox.exceptions
import oncebox.fleet
import oncebox.httpx
from oncebox import Attempt, CommandExitException, Outcome
from oncebox._command_result import result

MODULES = (oncebox, oncebox.exceptions, oncebox.code_interpreter, oncebox.desktop, oncebox.fleet)

CLASSES = sorted(
    {
        found
        for module in MODULES
        for found in vars(module).values()
        if inspect.isclass(found) and issubclass(found, Exception) and found.__module__.startswith("oncebox")
    },
    key=lambda found: found.__name__,
)

EVIDENCE = {
    "outcome": Outcome.SENT_UNKNOWN,
    "attempts": (Attempt(Outcome.SENT_UNKNOWN, "call", 0.0, 1.5, 7, None, "sent, and lost"),),
    "retry_after": 2.5,
    "status_code": 503,
    "error_code": "busy",
    "may_have_been_processed": True,
    "intent": "an intent",
    "candidates": ("one", "two"),
}

WAYS: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    *(lambda error, protocol=protocol: pickle.loads(pickle.dumps(error, protocol)) for protocol in range(6)),
]


def made(of: type[Exception]) -> Exception:
    if issubclass(of, CommandExitException):
        return of("out", "err", 3, "killed")
    return of("in words")


@pytest.mark.parametrize("of", CLASSES)
def test_an_exception_could_not_be_pickled_or_copied(of: type[Exception]) -> None:
    error = made(of)
    for name, value in EVIDENCE.items():
        setattr(error, name, value)
    for way in WAYS:
        again = way(error)
        assert (type(again), str(again), again.args) == (of, str(error), error.args)
        assert vars(again) == vars(error)
        assert {name: getattr(again, name) for name in EVIDENCE} == EVIDENCE


def test_every_exception_is_among_them() -> None:
    defined = [found for found in vars(oncebox.exceptions).values() if inspect.isclass(found)]
    assert {found for found in defined if issubclass(found, Exception)} <= set(CLASSES)
    assert CommandExitException in CLASSES


def test_a_command_that_failed_in_a_pool_hung_it() -> None:
    ended = {"stdout": "out", "stderr": "err", "exit_code": 3, "error": None}
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        with pytest.raises(CommandExitException) as caught:
            pool.map_async(result, [ended]).get(60)
        assert (caught.value.stdout, caught.value.stderr, caught.value.exit_code) == ("out", "err", 3)


def test_what_the_http_layer_tells_goes_with_httpx_own_exceptions() -> None:
    once = oncebox.httpx.RetryPolicy(retries=0, connection_retries=0)
    with (
        httpx.Client(transport=oncebox.httpx.Transport(policy=once)) as client,
        pytest.raises(httpx.ConnectError) as caught,
    ):
        client.get("http://127.0.0.1:1/")
    for way in WAYS:
        again = way(caught.value)
        assert str(again) == str(caught.value)
        assert again.outcome is Outcome.NOT_SENT
        assert again.attempts == caught.value.attempts  # type: ignore[attr-defined]
        assert again.may_have_been_processed is False
