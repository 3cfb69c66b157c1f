"""What decides about repeats, as data. The decisions themselves are the Rust policy's."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from . import _core
from ._checks import flag, fraction, whole_number
from .exceptions import InvalidArgumentException

#: What `repeat_unknown` may be.
_REPEAT_UNKNOWN = ("never", "safe", "permitted")


@dataclass(frozen=True)
class RetryPolicy:
    """When a request is sent again.

    A *replay* resends what was provably not processed: nothing of it was sent, or the server refused it. It is counted on
    ``connection_retries``. A *retry* follows an answer or an unknown outcome and is counted on ``retries``; after an unknown
    outcome it needs a permit: a safe or idempotent method, or the operation table. All layers share one count: the server sees
    at most ``1 + retries + connection_retries`` attempts of a call.

    :param retries: retries of a call. Default 3.
    :param connection_retries: repeats after failed connects and refusals. Default 3.
    :param trust_service_unavailable: 503 is a rejection and retried for every operation (RFC 9110 §15.6.4). Off: like 502.
    :param trust_bad_gateway: 502 is treated like 503. Off: retried with a permit only.
    :param retry_gateway_timeout: 504 is retried with a permit. Off: returned.
    :param retry_request_timeout_status: 408 is retried with a permit (RFC 9110 §15.5.9). Off: returned.
    :param replay_misdirected_and_early: 421 and 425 are refusals, each replayed once (RFC 9110 §15.5.20, RFC 8470 §5.2).
    :param retry_rate_limit_without_hint: 429 is retried also without a usable ``Retry-After``.
    :param honor_should_retry: ``Should-Retry`` is obeyed.
    :param retry_budget: retries cost tokens of a budget that all calls to an origin share.
    :param repeat_unknown: which unknown outcomes may be repeated: ``"never"``, ``"safe"`` or ``"permitted"``.
    :param retry_after_jitter: the largest fraction of a ``Retry-After`` that is added at random, from 0 to 1.
    :raises InvalidArgumentException: for a value that breaks its rule. ``True`` is no number here.
    """

    retries: int = 3
    connection_retries: int = 3
    trust_service_unavailable: bool = True
    trust_bad_gateway: bool = False
    retry_gateway_timeout: bool = False
    retry_request_timeout_status: bool = True
    replay_misdirected_and_early: bool = True
    retry_rate_limit_without_hint: bool = False
    honor_should_retry: bool = True
    retry_budget: bool = True
    repeat_unknown: str = "permitted"
    retry_after_jitter: float = 0.0

    def __post_init__(self) -> None:
        for name in ("retries", "connection_retries"):
            whole_number(name, getattr(self, name), most=1000)
        for field in fields(self):
            if field.type == "bool":
                flag(field.name, getattr(self, field.name))
        if self.repeat_unknown not in _REPEAT_UNKNOWN:
            given = json.dumps(self.repeat_unknown, ensure_ascii=False, default=repr)
            known = ", ".join(f'"{name}"' for name in _REPEAT_UNKNOWN)
            raise InvalidArgumentException(f"repeat_unknown: {given} is none of {known}")
        fraction("retry_after_jitter", self.retry_after_jitter)

    @classmethod
    def e2b_2_52(cls, **changes: Any) -> RetryPolicy:
        """What version 2.52.0 of the official SDK retries: 429 with ``Retry-After``, 502 and 503 for every operation, and
        unknown outcomes by the operation table. ``changes`` are options in place of the preset's."""
        return cls._preset("e2b_2_52", changes)

    @classmethod
    def e2b_2_63(cls, **changes: Any) -> RetryPolicy:
        """The statuses that version 2.63.0 of the official SDK retries (429, 502, 503, 504, and what ``Should-Retry`` says),
        but with our permits where the outcome is unknown. ``changes`` are options in place of the preset's."""
        return cls._preset("e2b_2_63", changes)

    @classmethod
    def _preset(cls, name: str, changes: dict[str, Any]) -> RetryPolicy:
        known = {field.name for field in fields(cls)}
        preset = {key: value for key, value in json.loads(_core.policy_preset(name)).items() if key in known}
        return cls(**{**preset, **changes})

    def _json(self) -> str:
        return json.dumps(asdict(self))
