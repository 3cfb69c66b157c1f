"""The conformance vectors of the policy, through the extension module."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oncebox import _core

FOLDER = Path(__file__).resolve().parents[3] / "conformance" / "policy"
VECTORS = [vector for file in sorted(FOLDER.glob("*.json")) for vector in json.loads(file.read_text())["vectors"]]

COUNTERS = ("retries", "connection_retries", "free_repeats", "backoffs", "lookups")


def test_they_are_all_there() -> None:
    counts: dict[str, int] = json.loads((FOLDER.parent / "counts.json").read_text())
    assert len(VECTORS) == counts["policy"]
    assert len({vector["name"] for vector in VECTORS}) == len(VECTORS)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_vector(vector: dict[str, Any]) -> None:
    decided = json.loads(_core.judge_vector(json.dumps(vector)))
    assert len(decided) == len(vector["steps"])
    for step, told in zip(vector["steps"], decided, strict=True):
        expect = dict(step["expect"])
        assert told["rule"] == expect.pop("rule", None)
        assert told["counters"] == {**dict.fromkeys(COUNTERS, 0), **expect.pop("counters", {})}
        if "tokens" in expect:
            assert told["tokens"] == expect.pop("tokens")
        verdict = {key: value for key, value in told.items() if key not in ("rule", "counters", "tokens")}
        if "return" in expect:
            expect.setdefault("retry_after", None)
        if "retry" in expect:
            expect["retry"] = {**expect["retry"], "after_ms": pytest.approx(expect["retry"]["after_ms"], abs=0.001)}
        assert verdict == expect
