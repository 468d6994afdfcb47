/** The arms of an experiment: search, order, chart and table. */

import { ArmsChart, WIDE } from "./charts.js";
import {
  announce,
  element,
  fillChildren,
  fillOptions,
  setAttribute,
  setHidden,
  setText,
} from "./dom.js";
import {
  briefly,
  compareNames,
  count,
  counted,
  decimalsWithin,
  interval,
  nameOf,
  number,
  percent,
} from "./format.js";

/** Columns: what is shown, by what they are sorted, and whether large values come first. */
const COLUMNS = [
  { key: "arm", title: "Arm", order: "name", value: ({ arm }) => nameOf(arm), falling: false },
  { key: "estimate", title: "Estimate", order: "estimate", value: ({ estimate }) => estimate },
  { key: "posterior_mean", title: "", order: "posterior mean", value: (arm) => arm.posterior_mean },
  {
    key: "low",
    title: "90% interval",
    order: "lower end of the interval",
    value: ({ low }) => low,
    show: (_, decimals, { low, high }) => interval(low, high, decimals),
  },
  {
    key: "best",
    title: "Best",
    order: "chance of being the best",
    value: ({ best }) => best,
    show: percent,
  },
  { key: "plays", title: "Plays", order: "plays", value: ({ plays }) => plays, show: count },
  { key: "told", title: "Rewards", order: "rewards", value: ({ told }) => told, show: count },
  { key: "mean", title: "Mean so far", order: "mean so far", value: ({ mean }) => mean },
];

const KINDS = {
  all: () => true,
  active: ({ active }) => active,
  retired: ({ active }) => !active,
  played: ({ plays }) => plays > 0,
};

export class Arms {
  #parts;
  #chart;
  #arms = [];
  #columns = COLUMNS;
  #sort = null;
  #falling = true;
  #page = 0;
  #borrowed = false;
  #source = "";

  constructor(parts) {
    this.#parts = parts;
    this.#chart = new ArmsChart(parts.chartBox, parts.chart);
    if (innerWidth > WIDE) parts.top.value = "20";
    const first = () => {
      this.#page = 0;
      announce(`${counted(this.#show(), "arm")} found`);
    };
    parts.search.addEventListener("input", first);
    parts.kind.addEventListener("change", first);
    parts.size.addEventListener("change", first);
    parts.top.addEventListener("change", () => this.#show());
    parts.order.addEventListener("change", () => this.#sortBy(parts.order.value));
    parts.previous.addEventListener("click", () => this.#turn(-1));
    parts.next.addEventListener("click", () => this.#turn(1));
  }

  update(status) {
    this.#arms = status.arms;
    this.#borrowed = ![null, status.policy].includes(status.posterior_of);
    this.#source = status.posterior_of ?? "";
    const known = (key) => status.arms.some((arm) => arm[key] !== null);
    this.#columns = COLUMNS.filter(
      ({ key }) =>
        !(key === "posterior_mean" && !this.#borrowed) &&
        !(key === "estimate" && !known("estimate")) &&
        !(["low", "best"].includes(key) && !known("best")),
    );
    if (!this.#columns.some(({ key }) => key === this.#sort)) {
      this.#sort = known("estimate") ? "estimate" : "mean";
      this.#falling = true;
    }
    this.#show();
  }

  close() {
    this.#chart.close();
  }

  #sortBy(key) {
    const column = COLUMNS.find((each) => each.key === key);
    this.#falling = key === this.#sort ? !this.#falling : (column.falling ?? true);
    this.#sort = key;
    this.#page = 0;
    this.#show();
    announce(`Sorted by ${column.order}, ${this.#falling ? "falling" : "rising"}`);
  }

  #turn(step) {
    const pages = Math.ceil(this.#chosen().length / Number(this.#parts.size.value));
    const page = Math.min(Math.max(this.#page + step, 0), pages - 1);
    if (page === this.#page) return;
    this.#page = page;
    this.#show();
    announce(this.#parts.range.textContent);
  }

  /** The arms that match, in order: retired and unknown ones last. */
  #chosen() {
    const wanted = this.#parts.search.value.trim().toLowerCase();
    const kind = KINDS[this.#parts.kind.value];
    const { value } = COLUMNS.find(({ key }) => key === this.#sort);
    const sign = this.#falling ? -1 : 1;
    const compare = this.#sort === "arm" ? compareNames : (one, other) => one - other;
    return this.#arms
      .filter((arm) => kind(arm) && nameOf(arm.arm).toLowerCase().includes(wanted))
      .sort((one, other) => {
        const [left, right] = [value(one), value(other)];
        return (
          other.active - one.active ||
          (left === null) - (right === null) ||
          (left === null ? 0 : sign * compare(left, right)) ||
          other.plays - one.plays
        );
      });
  }

  #show() {
    const parts = this.#parts;
    const chosen = this.#chosen();
    const size = Number(parts.size.value);
    this.#page = Math.max(0, Math.min(this.#page, Math.ceil(chosen.length / size) - 1));
    const start = this.#page * size;
    const rows = chosen.slice(start, start + size);
    const all = count(this.#arms.length);
    setText(
      parts.armsSummary,
      chosen.length === this.#arms.length
        ? counted(chosen.length, "arm")
        : `${count(chosen.length)} of ${all} arms`,
    );
    setHidden(parts.noArms, chosen.length > 0);
    setHidden(parts.armsContent, !chosen.length);
    setText(
      parts.range,
      `${count(start + 1)} to ${count(start + rows.length)} of ${count(chosen.length)}`,
    );
    setAttribute(parts.previous, "aria-disabled", String(start === 0));
    setAttribute(parts.next, "aria-disabled", String(start + size >= chosen.length));
    fillOptions(
      parts.order,
      this.#columns.map(({ key, order }) => [key, order]),
    );
    if (parts.order.value !== this.#sort) parts.order.value = this.#sort;
    this.#showTable(rows);
    this.#showChart(chosen.slice(0, Number(parts.top.value)));
    return chosen.length;
  }

  #decimals(arms) {
    return decimalsWithin(
      arms.flatMap((arm) => [arm.estimate, arm.posterior_mean, arm.mean]),
      arms.map(({ low, high }) => high - low),
    );
  }

  #showTable(rows) {
    const decimals = this.#decimals(rows);
    fillChildren(
      this.#parts.head,
      this.#columns,
      makeHeader.bind(null, (key) => this.#sortBy(key)),
      (cell, column) => {
        const [button] = cell.children;
        button.dataset.key = column.key;
        setText(button, column.title || this.#source);
        const order = this.#falling ? "descending" : "ascending";
        setAttribute(cell, "aria-sort", column.key === this.#sort ? order : "none");
        cell.className = column.key === "arm" ? "name" : "";
      },
    );
    fillChildren(
      this.#parts.rows,
      rows,
      () => element("tr"),
      (row, arm) => {
        row.classList.toggle("retired", !arm.active);
        if (row.childElementCount !== this.#columns.length) row.replaceChildren();
        this.#columns.forEach((column, position) => {
          let cell = row.children[position];
          if (!cell) {
            cell = position ? element("td") : element("th", { scope: "row", className: "name" });
            row.append(cell);
          }
          setText(cell, textOf(column, arm, decimals));
          if (!position && cell.title !== nameOf(arm.arm)) cell.title = nameOf(arm.arm);
        });
      },
    );
  }

  #showChart(rows) {
    if (!rows.length) return;
    const known = rows.some(({ low }) => low !== null);
    const estimated = rows.some(({ estimate }) => estimate !== null);
    const source = this.#borrowed ? ` of ${this.#source}` : "";
    const label = known ? `estimate${source}` : estimated ? "estimate" : "mean so far";
    const value = known
      ? (arm) => arm.posterior_mean
      : (arm) => (estimated ? arm.estimate : arm.mean);
    setText(
      this.#parts.chartWords,
      known ? `Dots: the ${label}; bars: its 90% interval.` : `Dots: the ${label} of each arm.`,
    );
    this.#chart.draw(rows, { value, label, decimals: this.#decimals(rows) });
  }
}

function makeHeader(sortBy) {
  const button = element("button", { type: "button" });
  button.addEventListener("click", () => sortBy(button.dataset.key));
  return element("th", { scope: "col" }, button);
}

function textOf({ key, value, show = number }, arm, decimals) {
  if (key === "arm") return briefly(arm.arm) + (arm.active ? "" : " (retired)");
  return show(value(arm), decimals, arm);
}
