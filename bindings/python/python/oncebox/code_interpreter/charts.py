"""Charts as data: what a plot shows, rather than its picture."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any


class ChartType(str, Enum):
    """The kind of a chart."""

    LINE = "line"
    SCATTER = "scatter"
    BAR = "bar"
    PIE = "pie"
    BOX_AND_WHISKER = "box_and_whisker"
    SUPERCHART = "superchart"
    UNKNOWN = "unknown"


class ScaleType(str, Enum):
    """How an axis is scaled."""

    LINEAR = "linear"
    DATETIME = "datetime"
    CATEGORICAL = "categorical"
    LOG = "log"
    SYMLOG = "symlog"
    LOGIT = "logit"
    FUNCTION = "function"
    FUNCTIONLOG = "functionlog"
    ASINH = "asinh"
    UNKNOWN = "unknown"


class Chart:
    """A chart of a kind that has no class of its own, with its elements as they came."""

    type: ChartType = ChartType.UNKNOWN
    """Its kind."""
    title: str | None
    """Its title."""
    elements: list[Any]
    """What it shows."""

    def __init__(self, **kwargs: Any) -> None:
        self._told = kwargs
        self.title = kwargs.get("title")
        self.elements = list(kwargs.get("elements") or ())

    def to_dict(self) -> dict[str, Any]:
        """As the interpreter told it."""
        return self._told

    def __repr__(self) -> str:
        return f"{type(self).__name__}(title={self.title!r}, {len(self.elements)} elements)"


class Chart2D(Chart):
    """A chart with two axes."""

    x_label: str | None
    """What the x axis is called."""
    y_label: str | None
    """What the y axis is called."""
    x_unit: str | None
    """The x axis's unit."""
    y_unit: str | None
    """The y axis's unit."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.x_label, self.y_label = kwargs.get("x_label"), kwargs.get("y_label")
        self.x_unit, self.y_unit = kwargs.get("x_unit"), kwargs.get("y_unit")


class PointData:
    """A line, or a cloud of points."""

    label: str
    """What it is called."""
    points: list[tuple[str | float, str | float]]
    """Its points, x and y: numbers, or texts such as dates."""

    def __init__(self, **kwargs: Any) -> None:
        self.label = kwargs["label"]
        self.points = [(x, y) for x, y in kwargs["points"]]


class PointChart(Chart2D):
    """Lines or points."""

    elements: list[PointData]
    x_ticks: list[str | float]
    """Ticks of the x axis."""
    x_tick_labels: list[str]
    """What stands at them."""
    x_scale: ScaleType
    """The x axis's scale."""
    y_ticks: list[str | float]
    """Ticks of the y axis."""
    y_tick_labels: list[str]
    """What stands at them."""
    y_scale: ScaleType
    """The y axis's scale."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.elements = [PointData(**element) for element in kwargs["elements"]]
        self.x_ticks, self.y_ticks = kwargs.get("x_ticks") or [], kwargs.get("y_ticks") or []
        self.x_tick_labels, self.y_tick_labels = kwargs.get("x_tick_labels") or [], kwargs.get("y_tick_labels") or []
        self.x_scale, self.y_scale = _scale(kwargs.get("x_scale")), _scale(kwargs.get("y_scale"))


class LineChart(PointChart):
    """Lines."""

    type = ChartType.LINE


class ScatterChart(PointChart):
    """Points."""

    type = ChartType.SCATTER


class BarData:
    """A bar."""

    label: str
    """What it is called."""
    group: str
    """The group it belongs to."""
    value: str
    """Its length."""

    def __init__(self, **kwargs: Any) -> None:
        self.label, self.group, self.value = kwargs["label"], kwargs.get("group", ""), kwargs["value"]


class BarChart(Chart2D):
    """Bars."""

    type = ChartType.BAR
    elements: list[BarData]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.elements = [BarData(**element) for element in kwargs["elements"]]


class PieData:
    """A piece of a pie."""

    label: str
    """What it is called."""
    angle: float
    """Its angle in degrees."""
    radius: float
    """Its radius."""

    def __init__(self, **kwargs: Any) -> None:
        self.label, self.angle, self.radius = kwargs["label"], kwargs["angle"], kwargs["radius"]


class PieChart(Chart):
    """A pie."""

    type = ChartType.PIE
    elements: list[PieData]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.elements = [PieData(**element) for element in kwargs["elements"]]


class BoxAndWhiskerData:
    """A box with its whiskers."""

    label: str
    """What it is called."""
    min: float
    """Where the lower whisker ends."""
    first_quartile: float
    """Where the box begins."""
    median: float
    """The line in the box."""
    third_quartile: float
    """Where the box ends."""
    max: float
    """Where the upper whisker ends."""
    outliers: list[float]
    """What lies beyond."""

    def __init__(self, **kwargs: Any) -> None:
        self.label, self.min, self.max = kwargs["label"], kwargs["min"], kwargs["max"]
        self.first_quartile, self.median = kwargs["first_quartile"], kwargs["median"]
        self.third_quartile, self.outliers = kwargs["third_quartile"], kwargs.get("outliers") or []


class BoxAndWhiskerChart(Chart2D):
    """Boxes and whiskers."""

    type = ChartType.BOX_AND_WHISKER
    elements: list[BoxAndWhiskerData]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.elements = [BoxAndWhiskerData(**element) for element in kwargs["elements"]]


class SuperChart(Chart):
    """Several charts in one figure."""

    type = ChartType.SUPERCHART
    elements: list[Chart]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.elements = [chart_of(element) for element in kwargs["elements"]]


_KINDS: tuple[type[Chart], ...] = (LineChart, ScatterChart, BarChart, PieChart, BoxAndWhiskerChart, SuperChart)


def chart_of(told: Mapping[str, Any]) -> Chart:
    """The chart of what the interpreter told. One of a kind or form that is not known is a plain :class:`Chart`."""
    for kind in _KINDS:
        if kind.type.value == told.get("type"):
            try:
                return kind(**told)
            except (KeyError, TypeError, ValueError):
                break
    return Chart(**told)


def _scale(told: Any) -> ScaleType:
    try:
        return ScaleType(told)
    except ValueError:
        return ScaleType.UNKNOWN
