"""Code in sandboxes: against real kernels where this Python has them, and against answers that are cut."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import oncebox
from oncebox import code_interpreter
from oncebox.code_interpreter import Context, Execution, ExecutionError, OutputMessage, Result, charts
from oncebox.testing import LocalServer
from sides import Side, do

KERNELS = importlib.util.find_spec("ipykernel") is not None


@pytest.fixture(scope="module")
def kernels() -> Iterator[LocalServer]:
    if not KERNELS:
        pytest.skip("this Python has no ipykernel")
    with LocalServer(faults={}, code_interpreter=os.path.normpath(sys.executable)) as server:
        yield server


async def sandbox_of(side: Side, server: LocalServer) -> Any:
    return await do(side.of(code_interpreter, "Sandbox").create(**server.options))


async def test_code_runs_and_is_remembered(side: Side, kernels: LocalServer) -> None:
    sandbox = await sandbox_of(side, kernels)
    assert (await do(sandbox.run_code("x = 20"))).results == []
    told: list[Any] = []
    execution = await do(
        sandbox.run_code(
            "import sys, os\nprint('out', os.environ['WHO'])\nprint('err', file=sys.stderr)\nx + 22",
            envs={"WHO": "me"},
            on_stdout=told.append,
            on_stderr=told.append,
            on_result=told.append,
        )
    )
    assert isinstance(execution, Execution)
    assert execution.text == "42"
    assert execution.execution_count == 2
    assert "".join(execution.logs.stdout) == "out me\n"
    assert "".join(execution.logs.stderr) == "err\n"
    assert [output.error for output in told if isinstance(output, OutputMessage)] == [False, True]
    assert [result.text for result in told if isinstance(result, Result)] == ["42"]
    assert json.loads(execution.to_json())["results"] == [{"text": "42"}]
    assert (await do(sandbox.commands.run("echo also a sandbox"))).stdout == "also a sandbox\n"
    await do(sandbox.kill())


async def test_an_exception_in_the_code_is_a_value(side: Side, kernels: LocalServer) -> None:
    sandbox = await sandbox_of(side, kernels)
    told: list[ExecutionError] = []
    execution = await do(sandbox.run_code("1 / 0", on_error=told.append))
    assert execution.error is not None
    assert (execution.error.name, execution.error.value) == ("ZeroDivisionError", "division by zero")
    assert told == [execution.error]
    await do(sandbox.kill())


async def test_contexts(side: Side, kernels: LocalServer) -> None:
    sandbox = await sandbox_of(side, kernels)
    context = await do(sandbox.create_code_context(cwd="/tmp"))
    assert isinstance(context, Context)
    assert context in await do(sandbox.list_code_contexts())
    await do(sandbox.run_code("x = 1", context=context))
    assert (await do(sandbox.run_code("x", context=context))).text == "1"
    assert (await do(sandbox.run_code("x"))).error.name == "NameError"
    await do(sandbox.restart_code_context(context))
    assert (await do(sandbox.run_code("x", context=context))).error.name == "NameError"
    await do(sandbox.remove_code_context(context.id))
    assert context not in await do(sandbox.list_code_contexts())
    with pytest.raises(oncebox.InvalidArgumentException, match="language"):
        await do(sandbox.run_code("x", language="python", context=context))
    await do(sandbox.kill())


async def test_code_that_takes_too_long(side: Side, kernels: LocalServer) -> None:
    sandbox = await sandbox_of(side, kernels)
    with pytest.raises(oncebox.TimeoutException, match=r"timeout.*may go on"):
        await do(sandbox.run_code("import time\ntime.sleep(60)", timeout=0.5))
    await do(sandbox.kill())


CHART = {
    "type": "line",
    "title": "t",
    "x_label": "x",
    "y_label": None,
    "x_unit": None,
    "y_unit": None,
    "x_ticks": [0.0, 1.0],
    "x_tick_labels": ["0", "1"],
    "x_scale": "linear",
    "y_ticks": [0.0],
    "y_tick_labels": ["0"],
    "y_scale": "odd",
    "elements": [{"label": "a", "points": [[0, 1.5], ["b", 2]]}],
}


class Scripted(BaseHTTPRequestHandler):
    """A control plane and a code interpreter of a few lines: `lines` are told, and then the connection ends as `cut` says."""

    protocol_version = "HTTP/1.1"
    lines: tuple[dict[str, Any], ...] = ()
    cut = False
    executed: list[dict[str, Any]] = []  # noqa: RUF012

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if not self.path.endswith("/execute"):
            made = {
                "sandboxID": "abc",
                "templateID": "t",
                "envdVersion": "0.6.13",
                "envdAccessToken": "t",
                "clientID": "c",
            }
            return self.answer(201, json.dumps(made).encode())
        Scripted.executed.append(json.loads(body))
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for line in self.lines:
            text = json.dumps(line).encode() + b"\n"
            self.wfile.write(b"%x\r\n%b\r\n" % (len(text), text))
        if not self.cut:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True
        return None

    def do_DELETE(self) -> None:
        self.answer(204, b"")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def scripted() -> Iterator[dict[str, Any]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Scripted) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        Scripted.lines, Scripted.cut, Scripted.executed = (), False, []
        url = f"http://127.0.0.1:{server.server_port}"
        yield {"api_key": "k", "api_url": url, "sandbox_url": url, "http_version": "1.1"}
        server.shutdown()


async def test_an_answer_that_is_cut_is_no_result(side: Side, scripted: dict[str, Any]) -> None:
    Scripted.lines = ({"type": "stdout", "text": "before\n", "timestamp": 7},)
    Scripted.cut = True
    sandbox = await do(side.of(code_interpreter, "Sandbox").create(**scripted))
    told: list[OutputMessage] = []
    with pytest.raises(oncebox.SandboxUnreachableException, match="the result is unknown") as caught:
        await do(sandbox.run_code("launch()", on_stdout=told.append))
    assert caught.value.may_have_been_processed
    assert told == [OutputMessage("before\n", 7, False)]
    assert [run["code"] for run in Scripted.executed] == ["launch()"], "code is sent at most once"


async def test_values_come_in_all_forms(side: Side, scripted: dict[str, Any]) -> None:
    Scripted.lines = (
        {"type": "result", "text": "1", "png": "AA==", "extra": {"a/b": 1}, "is_main_result": True},
        {"type": "result", "text": "c", "chart": CHART, "data": {"a": [1]}},
        {"type": "of tomorrow"},
        {"type": "number_of_executions", "execution_count": 5},
    )
    sandbox = await do(side.of(code_interpreter, "Sandbox").create(**scripted))
    execution = await do(sandbox.run_code("x", language="r", envs={"A": "1"}, request_timeout=5))
    assert Scripted.executed == [{"code": "x", "language": "r", "env_vars": {"A": "1"}}]
    first, second = execution.results
    assert [*first.formats()] == ["text", "png", "a/b"]
    assert (first["png"], first["a/b"], first._repr_png_(), execution.text) == ("AA==", 1, "AA==", "1")
    chart = second.chart
    assert isinstance(chart, charts.LineChart)
    assert (chart.type, chart.x_scale, chart.y_scale) == (
        charts.ChartType.LINE,
        charts.ScaleType.LINEAR,
        charts.ScaleType.UNKNOWN,
    )
    assert chart.elements[0].points == [(0, 1.5), ("b", 2)]
    assert chart.to_dict() == CHART
    assert (second.data, execution.execution_count) == ({"a": [1]}, 5)


async def test_what_a_listener_raises_ends_the_following(side: Side, scripted: dict[str, Any]) -> None:
    def listener(_: OutputMessage) -> None:
        raise ZeroDivisionError

    Scripted.lines = ({"type": "stdout", "text": "x", "timestamp": 7},)
    sandbox = await do(side.of(code_interpreter, "Sandbox").create(**scripted))
    with pytest.raises(ZeroDivisionError):
        await do(sandbox.run_code("x", on_stdout=listener))


async def test_wrong_arguments_are_refused_before_anything_is_sent(side: Side, scripted: dict[str, Any]) -> None:
    sandbox = await do(side.of(code_interpreter, "Sandbox").create(**scripted))
    for wrong in [{"timeout": -1}, {"timeout": True}, {"envs": {"A": 1}}, {"language": 1}, {"request_timeout": "1"}]:
        with pytest.raises(oncebox.InvalidArgumentException, match=next(iter(wrong))):
            await do(sandbox.run_code("x", **wrong))
    with pytest.raises(oncebox.InvalidArgumentException, match="env"):
        await do(sandbox.run_code("x", envs={"A=B": "1"}))
    assert Scripted.executed == []


def test_charts_of_all_kinds() -> None:
    bar = {"type": "bar", "title": None, "elements": [{"label": "a", "group": "g", "value": "7"}]}
    pie = {"type": "pie", "title": "p", "elements": [{"label": "a", "angle": 90.0, "radius": 1.0}]}
    box = {"label": "a", "min": 1, "first_quartile": 2, "median": 3, "third_quartile": 4, "max": 5, "outliers": [9]}
    boxes = {"type": "box_and_whisker", "title": "b", "elements": [box]}
    odd = {"type": "radar", "title": "o"}
    broken = {"type": "pie", "title": "p", "elements": [{"slice": 1}]}
    elements = [CHART, {**CHART, "type": "scatter"}, bar, pie, boxes, odd, broken]
    chart = charts.chart_of({"type": "superchart", "title": "all", "elements": elements})
    assert isinstance(chart, charts.SuperChart)
    kinds = [charts.LineChart, charts.ScatterChart, charts.BarChart, charts.PieChart, charts.BoxAndWhiskerChart]
    assert [type(element) for element in chart.elements] == [*kinds, charts.Chart, charts.Chart]
    assert chart.elements[4].elements[0].outliers == [9]
    assert [element.to_dict() for element in chart.elements] == elements


def test_the_import_is_all_that_changes() -> None:
    official = pytest.importorskip("e2b_code_interpreter")
    missing = [
        name for name in ("Sandbox", "AsyncSandbox", "Execution", "Result") if not hasattr(code_interpreter, name)
    ]
    assert missing == []
    assert code_interpreter.Sandbox.default_template == official.Sandbox.default_template
    assert issubclass(code_interpreter.Sandbox, oncebox.Sandbox)
    assert code_interpreter.TimeoutException is oncebox.TimeoutException
    client = code_interpreter.E2B(api_key="k", domain="example.com")
    assert issubclass(client.Sandbox, code_interpreter.Sandbox)
    assert issubclass(client.AsyncSandbox, code_interpreter.AsyncSandbox)
    assert issubclass(client.Template, oncebox.Template)
