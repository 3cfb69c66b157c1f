"""The policy's options and presets."""

from __future__ import annotations

from typing import Any

import pytest

from oncebox import InvalidArgumentException
from oncebox.httpx import RetryPolicy

WRONG: list[dict[str, Any]] = [
    {"retries": True},
    {"retries": -1},
    {"retries": 1.0},
    {"retries": "3"},
    {"retries": None},
    {"retries": 1001},
    {"connection_retries": False},
    {"connection_retries": -3},
    {"trust_bad_gateway": 1},
    {"honor_should_retry": "yes"},
    {"retry_budget": None},
    {"repeat_unknown": "always"},
    {"retry_after_jitter": 1.5},
    {"retry_after_jitter": True},
    {"retry_after_jitter": float("nan")},
]


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_a_wrong_value_is_refused_and_named(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(InvalidArgumentException, match=name):
        RetryPolicy(**options)


def test_the_defaults_are_those_of_every_front() -> None:
    assert RetryPolicy._preset("default", {}) == RetryPolicy()


def test_the_presets_take_changes() -> None:
    newest = RetryPolicy.e2b_2_63(retries=1)
    assert (newest.retries, newest.retry_gateway_timeout, newest.trust_bad_gateway) == (1, True, False)
    oldest = RetryPolicy.e2b_2_52()
    assert (oldest.honor_should_retry, oldest.trust_bad_gateway, oldest.retry_budget) == (False, True, False)
    with pytest.raises(InvalidArgumentException, match="retries"):
        RetryPolicy.e2b_2_63(retries=True)
