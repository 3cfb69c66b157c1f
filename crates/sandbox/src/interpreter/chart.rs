//! Charts as data: what a plot shows, rather than its picture.

use serde::de::{DeserializeOwned, Deserializer};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A chart that code drew.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Chart {
    /// Lines.
    Line(PointChart),
    /// Points.
    Scatter(PointChart),
    /// Bars.
    Bar(BarChart),
    /// A pie.
    Pie(PieChart),
    /// Boxes and whiskers.
    BoxAndWhisker(BoxAndWhiskerChart),
    /// Several charts in one figure.
    Super(SuperChart),
    /// A kind, or a form of one, that this version does not know, as it came.
    Other(Value),
}

/// The two axes of a chart.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ChartAxes {
    /// What the x axis is called.
    pub x_label: Option<String>,
    /// What the y axis is called.
    pub y_label: Option<String>,
    /// The x axis's unit.
    pub x_unit: Option<String>,
    /// The y axis's unit.
    pub y_unit: Option<String>,
}

/// Lines or points.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct PointChart {
    /// The chart's title.
    pub title: Option<String>,
    /// Its axes.
    #[serde(flatten)]
    pub axes: ChartAxes,
    /// Ticks of the x axis: numbers, or texts such as dates.
    #[serde(default)]
    pub x_ticks: Vec<Value>,
    /// What stands at them.
    #[serde(default)]
    pub x_tick_labels: Vec<String>,
    /// The x axis's scale, such as "linear", "log", "datetime", "categorical".
    pub x_scale: Option<String>,
    /// Ticks of the y axis.
    #[serde(default)]
    pub y_ticks: Vec<Value>,
    /// What stands at them.
    #[serde(default)]
    pub y_tick_labels: Vec<String>,
    /// The y axis's scale.
    pub y_scale: Option<String>,
    /// The lines, or clouds of points.
    pub elements: Vec<PointSeries>,
}

/// A line, or a cloud of points.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct PointSeries {
    /// What it is called.
    pub label: String,
    /// Its points, x and y: numbers, or texts such as dates.
    pub points: Vec<(Value, Value)>,
}

/// Bars.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct BarChart {
    /// The chart's title.
    pub title: Option<String>,
    /// Its axes.
    #[serde(flatten)]
    pub axes: ChartAxes,
    /// The bars.
    pub elements: Vec<LabeledValue>,
}

/// A bar.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct LabeledValue {
    /// What it is called.
    pub label: String,
    /// The group that it belongs to.
    #[serde(default)]
    pub group: String,
    /// How high it is.
    pub value: Value,
}

/// A pie.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct PieChart {
    /// The chart's title.
    pub title: Option<String>,
    /// Its pieces.
    pub elements: Vec<PieElement>,
}

/// A piece of a pie.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct PieElement {
    /// What it is called.
    pub label: String,
    /// How wide it is, in degrees.
    pub angle: f64,
    /// How long it is.
    pub radius: f64,
}

/// Boxes and whiskers.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct BoxAndWhiskerChart {
    /// The chart's title.
    pub title: Option<String>,
    /// Its axes.
    #[serde(flatten)]
    pub axes: ChartAxes,
    /// The boxes.
    pub elements: Vec<BoxElement>,
}

/// A box with its whiskers.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct BoxElement {
    /// What it is called.
    pub label: String,
    /// The lower whisker.
    pub min: f64,
    /// The first quartile.
    pub first_quartile: f64,
    /// The median.
    pub median: f64,
    /// The third quartile.
    pub third_quartile: f64,
    /// The upper whisker.
    pub max: f64,
    /// What lies outside.
    #[serde(default)]
    pub outliers: Vec<f64>,
}

/// Several charts in one figure.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct SuperChart {
    /// The figure's title.
    pub title: Option<String>,
    /// Its charts.
    pub elements: Vec<Chart>,
}

impl Chart {
    /// Its title.
    pub fn title(&self) -> Option<&str> {
        match self {
            Self::Line(chart) | Self::Scatter(chart) => chart.title.as_deref(),
            Self::Bar(chart) => chart.title.as_deref(),
            Self::Pie(chart) => chart.title.as_deref(),
            Self::BoxAndWhisker(chart) => chart.title.as_deref(),
            Self::Super(chart) => chart.title.as_deref(),
            Self::Other(chart) => chart.get("title")?.as_str(),
        }
    }

    /// As the interpreter tells it.
    pub fn to_json(&self) -> Value {
        let (kind, chart) = match self {
            Self::Line(chart) => ("line", serde_json::to_value(chart)),
            Self::Scatter(chart) => ("scatter", serde_json::to_value(chart)),
            Self::Bar(chart) => ("bar", serde_json::to_value(chart)),
            Self::Pie(chart) => ("pie", serde_json::to_value(chart)),
            Self::BoxAndWhisker(chart) => ("box_and_whisker", serde_json::to_value(chart)),
            Self::Super(chart) => ("superchart", serde_json::to_value(chart)),
            Self::Other(chart) => return chart.clone(),
        };
        // What was read from JSON can be written as such.
        let mut chart = chart.unwrap_or_default();
        chart["type"] = kind.into();
        chart
    }
}

impl From<Value> for Chart {
    fn from(chart: Value) -> Self {
        fn read<T: DeserializeOwned>(chart: Value, kind: impl FnOnce(T) -> Chart) -> Chart {
            match T::deserialize(&chart) {
                Ok(known) => kind(known),
                Err(_) => Chart::Other(chart),
            }
        }
        match chart.get("type").and_then(Value::as_str) {
            Some("line") => read(chart, Self::Line),
            Some("scatter") => read(chart, Self::Scatter),
            Some("bar") => read(chart, Self::Bar),
            Some("pie") => read(chart, Self::Pie),
            Some("box_and_whisker") => read(chart, Self::BoxAndWhisker),
            Some("superchart") => read(chart, Self::Super),
            _ => Self::Other(chart),
        }
    }
}

impl Serialize for Chart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Chart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn charts_are_read_by_their_kind() {
        let line = json!({"type": "line", "title": "t", "x_label": "x", "y_label": null, "x_unit": null, "y_unit": "s",
            "x_ticks": [0.0, 1.0], "x_tick_labels": ["0", "1"], "x_scale": "linear", "y_ticks": ["2026-01-01"],
            "y_tick_labels": [], "y_scale": "datetime", "elements": [{"label": "a", "points": [[0, 1.5], ["b", 2]]}]});
        let bar = json!({"type": "bar", "title": null, "elements": [{"label": "a", "group": "g", "value": "7"}]});
        let pie = json!({"type": "pie", "title": "p", "elements": [{"label": "a", "angle": 90, "radius": 1}]});
        let boxes = json!({"type": "box_and_whisker", "title": "b", "elements": [{"label": "a", "min": 1, "first_quartile": 2,
            "median": 3, "third_quartile": 4, "max": 5, "outliers": [9]}]});
        let all = json!({"type": "superchart", "title": "all", "elements": [line, bar, pie, boxes, {"type": "radar"}]});
        let read = Chart::from(all.clone());
        assert_eq!(Chart::from(read.to_json()), read);
        assert_eq!(read.to_json()["elements"][0], all["elements"][0]);
        let Chart::Super(all) = read else { panic!() };
        let [Chart::Line(line), Chart::Bar(bar), Chart::Pie(pie), Chart::BoxAndWhisker(boxes), Chart::Other(other)] =
            &all.elements[..]
        else {
            panic!("{all:?}")
        };
        assert_eq!((line.axes.x_label.as_deref(), line.axes.y_unit.as_deref()), (Some("x"), Some("s")));
        assert_eq!(line.elements[0].points, [(json!(0), json!(1.5)), (json!("b"), json!(2))]);
        assert_eq!((bar.elements[0].group.as_str(), &bar.elements[0].value), ("g", &json!("7")));
        assert_eq!((pie.elements[0].angle, boxes.elements[0].median), (90.0, 3.0));
        assert_eq!(other, &json!({"type": "radar"}));
    }

    #[test]
    fn a_form_that_is_not_known_is_kept_as_it_came() {
        let odd = json!({"type": "pie", "title": "p", "elements": [{"slice": 1}]});
        assert_eq!(Chart::from(odd.clone()), Chart::Other(odd));
    }
}
