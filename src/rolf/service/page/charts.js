/** Charts of Chart.js in the colours of the page. */

import {
  briefly,
  count,
  dateAndTime,
  interval,
  nameOf,
  number,
  short,
  shortened,
  timeOfDay,
} from "./format.js";

/* global Chart */

/** Pixels of a row: as in the table beside it, or less where it stands above. */
const ROW = { wide: 33, narrow: 26 };
/** Pixels from which the table has its place beside the chart. */
export const WIDE = 1200;
const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

Chart.defaults.animation = false;
Chart.defaults.maintainAspectRatio = false;
Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
Chart.defaults.font.size = 12;
Chart.defaults.plugins.legend.display = false;

function paint() {
  Chart.defaults.color = colour("--soft");
  Chart.defaults.borderColor = colour("--line");
  Object.assign(Chart.defaults.plugins.tooltip, {
    backgroundColor: colour("--ink"),
    titleColor: colour("--paper"),
    bodyColor: colour("--paper"),
    padding: 10,
    displayColors: false,
  });
}
paint();

/** A chart that is made again when the page changes between light and dark. */
class Drawing {
  #canvas;
  #options;
  #chart = null;
  #data = null;
  #repaint = () => {
    paint();
    this.#chart?.destroy();
    this.#chart = null;
    if (this.#data) this.draw(this.#data);
  };

  constructor(canvas, options) {
    this.#canvas = canvas;
    this.#options = options;
    dark.addEventListener("change", this.#repaint);
  }

  draw(data) {
    this.#data = data;
    const { datasets, labels, scales, options } = this.#options(data);
    if (!this.#chart) {
      this.#chart = new Chart(this.#canvas, {
        data: { datasets, labels },
        options: { ...options, scales },
      });
      return;
    }
    const chart = this.#chart;
    chart.data.labels = labels;
    datasets.forEach((dataset, i) => {
      chart.data.datasets[i] = Object.assign(chart.data.datasets[i] ?? {}, dataset);
    });
    chart.data.datasets.length = datasets.length;
    Object.assign(chart.options, options);
    chart.options.scales = scales;
    chart.update("none");
  }

  close() {
    dark.removeEventListener("change", this.#repaint);
    this.#chart?.destroy();
  }
}

const axis = (title, more = {}) => ({
  type: "linear",
  grid: { color: colour("--line") },
  border: { display: false },
  title: { display: true, text: title },
  ...more,
  ticks: { maxTicksLimit: 6, maxRotation: 0, includeBounds: false, callback: short, ...more.ticks },
});

/** Estimates with intervals, and beside them plays, of the arms in `rows`. */
export class ArmsChart {
  #box;
  #canvas;
  #drawing;

  constructor(box, canvas) {
    this.#box = box;
    this.#canvas = canvas;
    this.#drawing = new Drawing(canvas, (data) => this.#options(data));
  }

  /** `value` gives the point of an arm, which lies within its interval if it has one. */
  draw(rows, { value, label, decimals }) {
    this.#box.style.height = `${ROW[innerWidth > WIDE ? "wide" : "narrow"] * rows.length + 64}px`;
    const described = rows.map(
      (arm) =>
        `${briefly(arm.arm)}: ${number(value(arm), decimals)}` +
        (arm.low === null ? "" : ` (${interval(arm.low, arm.high, decimals)})`) +
        `, ${count(arm.plays)} plays`,
    );
    this.#canvas.setAttribute("aria-label", `${label} and plays by arm. ${described.join("; ")}`);
    this.#drawing.draw({ rows, value, label, described });
  }

  #options({ rows, value, label, described }) {
    const longest = this.#box.clientWidth < 480 ? 14 : 26;
    const bar = { type: "bar", grouped: false, borderSkipped: false, borderRadius: 3 };
    return {
      labels: rows.map((_, position) => position),
      datasets: [
        {
          type: "line",
          showLine: false,
          data: rows.map(value),
          pointRadius: 4.5,
          pointHoverRadius: 6,
          backgroundColor: colour("--accent"),
          borderColor: colour("--paper"),
          borderWidth: 1,
        },
        {
          ...bar,
          data: rows.map((arm) => (arm.low === null ? null : [arm.low, arm.high])),
          barThickness: 6,
          backgroundColor: colour("--band"),
        },
        {
          ...bar,
          xAxisID: "plays",
          data: rows.map((arm) => arm.plays),
          barThickness: 10,
          backgroundColor: colour("--quiet"),
        },
      ],
      scales: {
        y: {
          type: "category",
          offset: true,
          grid: { display: false },
          border: { display: false },
          ticks: {
            autoSkip: false,
            color: colour("--ink"),
            callback: (position) =>
              rows[position] && shortened(nameOf(rows[position].arm), longest),
          },
        },
        x: axis(label, {
          position: "bottom",
          stack: "both",
          stackWeight: 3,
          beginAtZero: false,
          grace: "4%",
          ticks: { align: "inner" },
        }),
        plays: axis("plays", {
          axis: "x",
          position: "bottom",
          stack: "both",
          stackWeight: 1,
          beginAtZero: true,
          ticks: {
            align: "inner",
            maxTicksLimit: 3,
            precision: 0,
            callback: (plays) => (plays ? short(plays) : ""),
          },
        }),
      },
      options: {
        indexAxis: "y",
        interaction: { mode: "index", axis: "y", intersect: false },
        plugins: {
          tooltip: {
            filter: ({ datasetIndex }) => datasetIndex === 0,
            callbacks: { title: () => "", label: ({ dataIndex }) => described[dataIndex] },
          },
        },
      },
    };
  }

  close() {
    this.#drawing.close();
  }
}

/** Mean rewards of consecutive decisions, with a band of one standard error to both sides. */
export class TimelineChart {
  #canvas;
  #drawing;

  constructor(canvas) {
    this.#canvas = canvas;
    this.#drawing = new Drawing(canvas, timelineOptions);
  }

  draw(periods, baseline) {
    const known = periods.filter(({ mean }) => mean !== null);
    const last = known.at(-1);
    this.#canvas.setAttribute(
      "aria-label",
      last
        ? `Mean reward over time: ${number(known[0].mean)} at first, ${number(last.mean)} most recently`
        : "No rewards yet",
    );
    this.#drawing.draw({ periods, baseline });
  }

  close() {
    this.#drawing.close();
  }
}

function timelineOptions({ periods, baseline }) {
  const middle = ({ first, last }) => (first + last) / 2;
  const points = (y) => periods.map((period) => ({ x: middle(period), y: y(period) }));
  const edge = (sign) =>
    points(({ mean, stderr }) => (mean === null ? null : mean + sign * (stderr ?? 0)));
  const line = { type: "line", pointRadius: 0, borderWidth: 0 };
  const level = [
    { x: periods[0]?.first, y: baseline },
    { x: periods.at(-1)?.last, y: baseline },
  ];
  return {
    datasets: [
      {
        ...line,
        data: points(({ mean }) => mean),
        borderColor: colour("--accent"),
        backgroundColor: colour("--accent"),
        borderWidth: 2,
        pointRadius: 3,
        pointHoverRadius: 5,
      },
      { ...line, data: edge(-1), backgroundColor: colour("--band"), fill: "+1" },
      { ...line, data: edge(1) },
      {
        ...line,
        data: baseline === null ? [] : level,
        borderColor: colour("--soft"),
        borderDash: [5, 5],
        borderWidth: 1.5,
      },
    ],
    scales: {
      x: axis("decisions", {
        min: periods[0]?.first,
        max: periods.at(-1)?.last,
        grid: { display: false },
      }),
      y: axis("mean reward", { grace: "5%" }),
    },
    options: {
      interaction: { mode: "nearest", axis: "x", intersect: false },
      plugins: {
        tooltip: {
          filter: ({ datasetIndex }) => datasetIndex === 0,
          callbacks: {
            title: () => "",
            label: ({ dataIndex }) => describePeriod(periods[dataIndex]),
          },
        },
      },
    },
  };
}

function describePeriod({ first, last, start, end, rewards, mean, stderr }) {
  const error = stderr === null ? "" : ` ± ${number(stderr)}`;
  return [
    `${number(mean)}${error}`,
    `decisions ${count(first)} to ${count(last)}, ${count(rewards)} rewards`,
    `${dateAndTime(start)} to ${timeOfDay(end)}`,
  ];
}
