"""`spec/options.json` against the package: the names it has, the defaults, and what a wrong value says."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import httpx
import pytest

import oncebox.httpx
from oncebox import E2B, InvalidArgumentException, RetryPolicy
from oncebox._async._retry import AsyncRetryTransport
from oncebox._params import ApiParams
from oncebox._sync._retry import RetryTransport

TABLE = json.loads((Path(__file__).parents[3] / "spec" / "options.json").read_text())
SECTIONS = {section["id"]: section["options"] for section in TABLE["sections"]}


def names(option: dict[str, Any]) -> list[str]:
    """What an option is called here."""
    given = option.get("python", option["name"])
    return [] if given is False else [given] if isinstance(given, str) else given


def listed(section: str) -> list[str]:
    return [name for option in SECTIONS[section] for name in names(option)]


def named_arguments(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters
    return {name: each for name, each in parameters.items() if each.kind is inspect.Parameter.KEYWORD_ONLY}


TRANSPORTS = [oncebox.httpx.Transport, oncebox.httpx.AsyncTransport]
RETRIERS = [RetryTransport, AsyncRetryTransport]


def test_clients_have_the_tables_options() -> None:
    # What decides about repeats has a section of its own.
    assert set(get_type_hints(ApiParams)) == set(listed("client")) | set(listed("policy"))


def test_the_policy_has_the_tables_options_and_defaults() -> None:
    assert {field.name for field in fields(RetryPolicy)} == set(listed("policy"))
    defaults = {option["name"]: option["default"] for option in SECTIONS["policy"] if names(option)}
    assert {field.name: field.default for field in fields(RetryPolicy)} == defaults


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_transports_have_the_tables_options(transport: type) -> None:
    assert set(named_arguments(transport.__init__)) == set(listed("transport"))


@pytest.mark.parametrize("transport", RETRIERS)
def test_retry_transports_have_the_tables_options(transport: type) -> None:
    assert set(named_arguments(transport.__init__)) == set(listed("retry"))


@pytest.mark.parametrize("transport", [*TRANSPORTS, *RETRIERS])
def test_a_default_that_is_written_here_is_the_tables(transport: type) -> None:
    """What is `None` here is left to the Rust transport, whose defaults a test there holds against the table."""
    options = {
        name: option for section in ("transport", "retry") for option in SECTIONS[section] for name in names(option)
    }
    for name, parameter in named_arguments(transport.__init__).items():
        if isinstance(parameter.default, (int, float)) and not isinstance(parameter.default, bool):
            assert parameter.default == options[name]["default"], name
        elif name == "verify":
            # The other way round.
            assert parameter.default is not options[name]["default"]
        else:
            assert parameter.default is None or name == "trust_env" or callable(parameter.default), name


def test_a_default_of_clients_is_left_to_rust() -> None:
    """Nothing that was not given is handed on, so that the defaults are those of Rust, which a test there holds."""
    assert oncebox._params.given(dict.fromkeys(get_type_hints(ApiParams))) == {}


def wrong(section: str) -> Iterator[Any]:
    for option in SECTIONS[section]:
        kind = TABLE["kinds"][option["kind"]]
        case = option["wrong"].get("python") if "wrong" in option else kind.get("python")
        for name in names(option) if case else []:
            yield pytest.param(name, case["value"], case["error"].replace("{name}", name), id=name)


@pytest.mark.parametrize(("name", "value", "error"), [*wrong("client"), *wrong("policy")])
def test_a_wrong_value_of_a_client_says_what_the_table_says(name: str, value: Any, error: str) -> None:
    options: dict[str, Any] = {"api_key": "k", name: value}
    with pytest.raises(InvalidArgumentException) as caught:
        E2B(**options)
    assert str(caught.value) == error


@pytest.mark.parametrize(("name", "value", "error"), [*wrong("policy")])
def test_a_wrong_value_of_a_policy_says_what_the_table_says(name: str, value: Any, error: str) -> None:
    with pytest.raises(InvalidArgumentException) as caught:
        RetryPolicy(**{name: value})
    assert str(caught.value) == error


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("name", "value", "error"), [*wrong("transport")])
def test_a_wrong_value_of_a_transport_says_what_the_table_says(
    transport: Callable[..., Any], name: str, value: Any, error: str
) -> None:
    with pytest.raises(InvalidArgumentException) as caught:
        transport(**{name: value})
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("transport", "inner"), [*zip(RETRIERS, [httpx.HTTPTransport, httpx.AsyncHTTPTransport], strict=True)]
)
@pytest.mark.parametrize(("name", "value", "error"), [*wrong("retry")])
def test_a_wrong_value_of_a_retry_transport_says_what_the_table_says(
    transport: Callable[..., Any], inner: Callable[[], Any], name: str, value: Any, error: str
) -> None:
    with pytest.raises(InvalidArgumentException) as caught:
        transport(inner(), **{name: value})
    assert str(caught.value) == error
