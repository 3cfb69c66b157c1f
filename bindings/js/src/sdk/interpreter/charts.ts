/** Charts as the code interpreter takes them apart; names of fields are the protocol's. */

/** The kind of a chart. */
export enum ChartType {
  LINE = 'line',
  SCATTER = 'scatter',
  BAR = 'bar',
  PIE = 'pie',
  BOX_AND_WHISKER = 'box_and_whisker',
  SUPERCHART = 'superchart',
  UNKNOWN = 'unknown',
}

/** How an axis is divided. */
export enum ScaleType {
  LINEAR = 'linear',
  DATETIME = 'datetime',
  CATEGORICAL = 'categorical',
  LOG = 'log',
  SYMLOG = 'symlog',
  LOGIT = 'logit',
  FUNCTION = 'function',
  FUNCTIONLOG = 'functionlog',
  ASINH = 'asinh',
}

/** Any chart. */
export interface Chart {
  type: ChartType;
  title: string;
  // biome-ignore lint/suspicious/noExplicitAny: as the official type has it; each kind of chart has its own below
  elements: any[];
}

/** A chart with two axes. */
export type Chart2D = Chart & {
  x_label?: string;
  y_label?: string;
  x_unit?: string;
  y_unit?: string;
};

/** Points of one name. */
export interface PointData {
  label: string;
  points: [number | string, number | string][];
}

/** A chart of points. */
export type PointChart = Chart2D & {
  x_ticks: (number | string)[];
  x_scale: ScaleType;
  x_tick_labels: string[];
  y_ticks: (number | string)[];
  y_scale: ScaleType;
  y_tick_labels: string[];
  elements: PointData[];
};

/** Lines. */
export type LineChart = PointChart & { type: ChartType.LINE };

/** Scattered points. */
export type ScatterChart = PointChart & { type: ChartType.SCATTER };

/** One bar. */
export interface BarData {
  label: string;
  value: string;
  group: string;
}

/** Bars. */
export type BarChart = Chart2D & { type: ChartType.BAR; elements: BarData[] };

/** One slice. */
export interface PieData {
  label: string;
  angle: number;
  radius: number;
}

/** A pie. */
export type PieChart = Chart & { type: ChartType.PIE; elements: PieData[] };

/** One box. */
export interface BoxAndWhiskerData {
  label: string;
  min: number;
  first_quartile: number;
  median: number;
  third_quartile: number;
  max: number;
  outliers: number[];
}

/** Boxes and whiskers. */
export type BoxAndWhiskerChart = Chart2D & { type: ChartType.BOX_AND_WHISKER; elements: BoxAndWhiskerData[] };

/** Several charts in one picture. */
export type SuperChart = Chart & { type: ChartType.SUPERCHART; elements: Chart[] };

/** The charts that are known. */
export type ChartTypes = LineChart | ScatterChart | BarChart | PieChart | BoxAndWhiskerChart | SuperChart;
