"""The conformance vectors, through the extension module: every case of every folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oncebox import InvalidArgumentException, _core

ROOT = Path(__file__).resolve().parents[3] / "conformance"
COUNTS: dict[str, int] = json.loads((ROOT / "counts.json").read_text())

COUNTERS = ("retries", "connection_retries", "free_repeats", "backoffs", "lookups")


def load(folder: str) -> list[dict[str, Any]]:
    """The folder's cases. Names are unique in a file."""
    cases: list[dict[str, Any]] = []
    for file in sorted((ROOT / folder).glob("*.json")):
        document = json.loads(file.read_text())
        found = document.get("vectors") or document["cases"]
        cases += [{**case, "name": f"{file.stem}: {case['name']}"} for case in found]
    return cases


def every(folder: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", load(folder), ids=lambda case: case["name"])


def run(folder: str, case: dict[str, Any]) -> Any:
    return json.loads(_core.run_vector(folder, json.dumps(case)))


def close(expected: Any, tolerance: float) -> Any:
    """Equal to what is expected; numbers with a fraction, which are sums, nearly."""
    if isinstance(expected, dict):
        return {key: close(value, tolerance) for key, value in expected.items()}
    if isinstance(expected, list):
        return [close(value, tolerance) for value in expected]
    is_number = isinstance(expected, (int, float)) and not isinstance(expected, bool)
    return pytest.approx(expected, abs=tolerance) if is_number else expected


def test_every_case_of_every_folder_is_here() -> None:
    assert {path.name for path in ROOT.iterdir() if path.is_dir()} == set(COUNTS)
    for folder, count in COUNTS.items():
        cases = load(folder)
        assert len(cases) == count
        assert len({case["name"] for case in cases}) == count


@every("policy")
def test_policy(case: dict[str, Any]) -> None:
    decided = run("policy", case)
    assert len(decided) == len(case["steps"])
    for step, told in zip(case["steps"], decided, strict=True):
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


@every("create")
def test_create(case: dict[str, Any]) -> None:
    told = run("create", case)
    assert told["steps"] == [close(step["expect"], 1e-6) for step in case["steps"]]
    for name, expected in case.get("after", {}).items():
        assert told["after"][name] == expected, name


@every("operations")
def test_operations(case: dict[str, Any]) -> None:
    told = run("operations", case)
    assert told == {
        "operation": case["operation"],
        "permit": case["permit"],
        "mints": case.get("mints", False),
        "idempotency_key": case.get("idempotency_key", False),
    }
    if case["plane"] == "control_plane":
        # The table that goes beneath the official SDK.
        table = _core.OperationTable.control_plane("/base")
        assert table.permit(case["method"], "/base" + case["path"]) == case["permit"]


@every("runtime-errors")
def test_runtime_errors(case: dict[str, Any]) -> None:
    expected = {key: case[key] for key in ("outcome", "phase") if key in case}
    assert run("runtime-errors", case) == expected


def test_what_is_no_vector_is_refused() -> None:
    for folder, text in (("policy", "{"), ("none", "{}"), ("create", "{}"), ("operations", "{}")):
        with pytest.raises(InvalidArgumentException):
            _core.run_vector(folder, text)
