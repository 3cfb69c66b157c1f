"""What comes of code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .charts import Chart, chart_of

RunCodeLanguage = Literal["python", "javascript", "typescript", "r", "java", "bash"] | str
"""A language that kernels may have."""


class MIMEType(str):
    """A media type, such as ``image/png``."""


@dataclass
class OutputMessage:
    """A piece of what code wrote."""

    line: str
    """The text; it may hold several lines, or a part of one."""
    timestamp: int
    """When, in nanoseconds since 1970 by the sandbox's clock; 0 where it was not told."""
    error: bool = False
    """Whether it was written to standard error."""

    def __str__(self) -> str:
        return self.line


@dataclass
class ExecutionError:
    """An exception in the code."""

    name: str
    """Its class, such as ``ZeroDivisionError``."""
    value: str
    """What it says."""
    traceback: str
    """The traceback as the kernel shows it, perhaps with terminal colours."""

    def __init__(self, name: str, value: str, traceback: str, **kwargs: Any) -> None:
        self.name, self.value, self.traceback = name, value, traceback

    def to_json(self) -> str:
        """As JSON."""
        return json.dumps({"name": self.name, "value": self.value, "traceback": self.traceback})


#: The forms of a value, in the order in which they are told.
_FORMS = ("text", "html", "markdown", "svg", "png", "jpeg", "pdf", "latex", "json", "javascript", "data", "chart")


@dataclass(repr=False)
class Result:
    """A value, in all forms that the kernel gives it."""

    text: str | None = None
    """Plain text."""
    html: str | None = None
    """HTML."""
    markdown: str | None = None
    """Markdown."""
    svg: str | None = None
    """SVG."""
    png: str | None = None
    """A PNG picture, in base64."""
    jpeg: str | None = None
    """A JPEG picture, in base64."""
    pdf: str | None = None
    """A PDF document, in base64."""
    latex: str | None = None
    """LaTeX."""
    json: dict[str, Any] | None = None
    """JSON."""
    javascript: str | None = None
    """JavaScript."""
    data: dict[str, Any] | None = None
    """Tabular data, such as a data frame's."""
    chart: Chart | None = None
    """A chart as data."""
    is_main_result: bool = False
    """Whether it is the value of the last expression, rather than something that was shown."""
    extra: dict[str, Any] | None = None
    """Other forms, by their media type."""

    def __init__(
        self,
        text: str | None = None,
        html: str | None = None,
        markdown: str | None = None,
        svg: str | None = None,
        png: str | None = None,
        jpeg: str | None = None,
        pdf: str | None = None,
        latex: str | None = None,
        json: dict[str, Any] | None = None,
        javascript: str | None = None,
        data: dict[str, Any] | None = None,
        chart: dict[str, Any] | None = None,
        is_main_result: bool = False,
        extra: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.text, self.html, self.markdown, self.svg = text, html, markdown, svg
        self.png, self.jpeg, self.pdf, self.latex = png, jpeg, pdf, latex
        self.json, self.javascript, self.data = json, javascript, data
        self.chart = None if chart is None else chart_of(chart)
        self.is_main_result, self.extra = is_main_result, extra

    def formats(self) -> Iterable[str]:
        """The names of the forms that there are, such as ``text`` and ``png``, and media types."""
        return [name for name in _FORMS if getattr(self, name)] + list(self.extra or ())

    def __getitem__(self, item: str) -> Any:
        return (self.extra or {})[item] if item in (self.extra or {}) else getattr(self, item)

    def __str__(self) -> str:
        return self.__repr__()

    def __repr__(self) -> str:
        return f"Result({self.text})" if self.text else f"Result(Formats: {', '.join(self.formats())})"

    def _repr_html_(self) -> str | None:
        return self.html

    def _repr_markdown_(self) -> str | None:
        return self.markdown

    def _repr_svg_(self) -> str | None:
        return self.svg

    def _repr_png_(self) -> str | None:
        return self.png

    def _repr_jpeg_(self) -> str | None:
        return self.jpeg

    def _repr_pdf_(self) -> str | None:
        return self.pdf

    def _repr_latex_(self) -> str | None:
        return self.latex

    def _repr_json_(self) -> dict[str, Any] | None:
        return self.json

    def _repr_javascript_(self) -> str | None:
        return self.javascript


@dataclass(repr=False)
class Logs:
    """What code wrote, in the pieces that it came in."""

    stdout: list[str] = field(default_factory=list[str])
    """To standard output."""
    stderr: list[str] = field(default_factory=list[str])
    """To standard error."""

    def __init__(self, stdout: list[str] | None = None, stderr: list[str] | None = None, **kwargs: Any) -> None:
        self.stdout, self.stderr = stdout or [], stderr or []

    def __repr__(self) -> str:
        return f"Logs(stdout: {self.stdout}, stderr: {self.stderr})"

    def to_json(self) -> str:
        """As JSON."""
        return json.dumps({"stdout": self.stdout, "stderr": self.stderr})


@dataclass(repr=False)
class Execution:
    """All that came of a run of code."""

    results: list[Result] = field(default_factory=list[Result])
    """Its results, in order: the last expression's value, and what was shown before."""
    logs: Logs = field(default_factory=Logs)
    """What it wrote."""
    error: ExecutionError | None = None
    """The exception that ended it."""
    execution_count: int | None = None
    """The number of this run in its kernel."""

    def __init__(
        self,
        results: list[Result] | None = None,
        logs: Logs | None = None,
        error: ExecutionError | None = None,
        execution_count: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.results, self.logs = results or [], logs or Logs()
        self.error, self.execution_count = error, execution_count

    @property
    def text(self) -> str | None:
        """The text of the last expression's value."""
        return next((result.text for result in self.results if result.is_main_result), None)

    def __repr__(self) -> str:
        return f"Execution(Results: {self.results}, Logs: {self.logs}, Error: {self.error})"

    def to_json(self) -> str:
        """As JSON."""
        error = None if self.error is None else json.loads(self.error.to_json())
        results = [{name: _plain(result[name]) for name in result.formats()} for result in self.results]
        return json.dumps({"results": results, "logs": json.loads(self.logs.to_json()), "error": error})


@dataclass
class Context:
    """A kernel, which remembers what earlier code did."""

    id: str
    """Its id."""
    language: str
    """Its language."""
    cwd: str
    """Its working directory."""

    def __init__(self, context_id: str, language: str, cwd: str, **kwargs: Any) -> None:
        self.id, self.language, self.cwd = context_id, language, cwd

    @classmethod
    def from_json(cls, data: Mapping[str, str]) -> Context:
        """A context as the interpreter tells of it."""
        return cls(data["id"], data["language"], data["cwd"])


def result_of(told: Mapping[str, Any]) -> Result:
    """A value, as the extension module tells of it: what is structured is JSON there."""
    structured = ("json", "data", "chart", "extra")
    forms: dict[str, Any] = {
        name: json.loads(of) if of is not None and name in structured else of for name, of in told.items()
    }
    return Result(**forms)


def _plain(value: Any) -> Any:
    return value.to_dict() if isinstance(value, Chart) else value
