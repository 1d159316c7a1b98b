// Live curves: one uPlot chart per plot. A single run has its measures in their own colours and its
// phases shaded; several runs have the colours of their arms, with mean, range and members.

import { brief, colour, h, isDark, percent, whole } from "./dom.js";
import { curves, details, frozen } from "./source.js";
import { change, state } from "./state.js";

const HEIGHT = 190;
const MARGIN = 100; // pixels outside of the window that are drawn already
const together = uPlot.sync("grokscope"); // cursors of all plots move as one

// `groups`: [{ label, colour, runs: [id] }], one entry per arm.
export function makePlots({ plots, others }, groups, onPick) {
  const runs = groups.flatMap((group) => group.runs);
  const known = new Set(plots.flatMap((plot) => plot.measures.map((measure) => measure.column)));
  const has = (column) => runs.some((run) => curves.get(run)?.columns[column]?.some((value) => value !== null && value.length === undefined));
  const listed = plots
    .map((plot) => ({ ...plot, measures: plot.measures.filter((measure) => has(measure.column)) }))
    .filter((plot) => plot.measures.length);
  return [...listed, ...ownPlots(runs, known, others)].map((plot) => new Plot(plot, groups, onPick));
}

// Measures that no plot names can be opened one by one; a user's own are called as their columns.
function ownPlots(runs, known, others) {
  if (!state.more) return [];
  const names = new Set(runs.flatMap((run) => Object.entries(curves.get(run)?.columns ?? {})
    .filter(([name, column]) => !known.has(name) && typeof column.find((value) => value !== null) === "number").map(([name]) => name)));
  return [...names].map((name) => others[name] ?? {
    title: name.replaceAll("_", " "), log: false, share: false,
    measures: [{ column: name, label: name.replaceAll("_", " "), colour: "#6B7280", help: "" }],
  });
}

class Plot {
  constructor(plot, groups, onPick) {
    this.plot = plot;
    this.groups = groups;
    this.onPick = onPick;
    this.single = groups.length === 1 && groups[0].runs.length === 1;
    this.log = plot.log !== state.flipped.includes(plot.title);
    this.words = h("span", { class: "reading soft small" });
    this.dropped = h("span", { class: "dropped soft small" });
    this.place = h("div", { class: "canvas", style: { "min-height": `${HEIGHT}px` } }); // drawn or not
    const flip = () => change({
      flipped: state.flipped.includes(plot.title) ? state.flipped.filter((t) => t !== plot.title) : [...state.flipped, plot.title],
    }, true);
    this.element = h("figure", { class: "plot" },
      h("figcaption", {},
        h("strong", { title: plot.measures.map((m) => m.help).join(" ") }, plot.title),
        h("button", { class: "toggle small", onclick: flip, "aria-pressed": String(this.log), "aria-label": `${plot.title}: log axis`, title: "Log axis" }, "log"),
        this.words, this.dropped, this.legend()),
      this.place);
    // What nobody sees is drawn when it comes into view: the processor belongs to the training.
    this.seen = frozen ? true : null; // null until the browser says; a shared file has nothing else to do
    if (!frozen) new IntersectionObserver(([entry]) => {
      this.seen = entry.isIntersecting;
      if (this.seen && this.stale) this.draw();
    }, { rootMargin: `${MARGIN}px` }).observe(this.element);
  }

  legend() {
    const { measures } = this.plot;
    if (!this.single && measures.length < 2) return null;
    return h("span", { class: "legend small" }, measures.map((measure, i) => h("span", {
      class: `key ${!this.single && i < measures.length - 1 ? "dashed" : ""}`,
      style: { "--key": this.single ? measure.colour : colour("soft") },
    }, measure.label)));
  }

  // Lines of this plot over the union of all epochs: uPlot wants one shared axis.
  gather() {
    const everything = this.groups.flatMap((group) => group.runs).map((run) => curves.get(run)).filter((curve) => curve?.rows);
    const xs = sharedEpochs(everything);
    const data = [xs];
    const series = [{}];
    const bands = [];
    const dark = isDark();
    this.groups.forEach((group, place) => {
      const many = group.runs.length > 1;
      this.plot.measures.forEach((measure, index) => {
        const main = index === this.plot.measures.length - 1;
        const stroke = this.single ? measure.colour : group.colour;
        const dash = this.single || main ? undefined : [5, 4];
        const members = group.runs.map((run) => spread(curves.get(run), measure.column, xs, this.log));
        members.forEach((values, member) => {
          const focus = !many && group.runs[member] === state.focus && !this.single;
          series.push({
            label: this.single ? measure.label : `${group.label}, seed ${details.get(group.runs[member])?.seed ?? "?"}`,
            run: group.runs[member], measure, stroke: many ? `${stroke}${dark ? "77" : "66"}` : stroke,
            width: many ? 1 : focus ? 2.6 : 1.8, dash, points: { show: xs.length < 3 }, spanGaps: true,
          });
          data.push(values);
        });
        if (many) {
          const [mean, low, high] = summarise(members);
          const first = series.length;
          const thin = { stroke: "transparent", width: 0, points: { show: false }, measure, band: true };
          series.push({ ...thin, label: "low" }, { ...thin, label: "high" },
            { label: `${group.label}, mean of ${members.length}`, measure, group: place, stroke, width: 2.4, dash, points: { show: false }, spanGaps: true });
          data.push(low, high, mean);
          if (main) bands.push({ series: [first + 1, first], fill: `${stroke}26` });
        }
      });
    });
    return { data, series, bands };
  }

  isNear() {
    const { top, bottom } = this.element.getBoundingClientRect();
    return top < innerHeight + MARGIN && bottom > -MARGIN;
  }

  hasZeros() {
    const columns = this.groups.flatMap((group) => group.runs).flatMap((run) => this.plot.measures.map((measure) => curves.get(run)?.columns[measure.column] ?? []));
    return columns.some((column) => column.some((value) => value !== null && value <= 0));
  }

  draw() {
    this.stale = !(this.seen ?? this.isNear());
    if (this.stale) return;
    const { data, series, bands } = this.gather();
    if (data[0].length === 0) return;
    this.dropped.textContent = this.log && this.hasZeros() ? "log: values of 0 and below are left out" : "";
    const shape = `${series.length} ${this.place.clientWidth} ${series.map((s) => s.run).join()}`;
    if (this.chart && shape === this.shape) {
      this.chart.setData(data);
      this.read(this.chart);
      return;
    }
    this.shape = shape;
    this.chart?.destroy();
    this.series = series;
    const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    // The edges of a band lie on its members' lines; the members are what one points at.
    const dist = (_, index, __, line, cursor) => (series[index].band ? Infinity : line - cursor);
    this.chart = new uPlot({
      width: Math.max(this.place.clientWidth, 200), height: HEIGHT, padding: [8, 16, 0, 0],
      series, bands, legend: { show: false },
      scales: {
        // Up to the last row, as in the maps below; a log axis would go on to the next power of ten.
        x: { time: false, distr: state.x === "log" ? 3 : 1, ...(state.x === "log" ? { range: (_, low, high) => [low, Math.max(high, low * 1.1)] } : {}) },
        y: { distr: this.log ? 3 : 1, ...(this.plot.share && !this.log ? { range: [0, 1.03] } : {}) },
      },
      axes: [
        { ...axis, size: 26, values: (_, ticks) => ticks.map((tick) => (tick === null ? null : whole(tick))) },
        { ...axis, size: 44, values: (_, ticks) => ticks.map((tick) => (tick === null ? null : this.plot.share ? percent(tick) : brief(tick))) },
      ],
      cursor: { sync: { key: together.key }, focus: { prox: this.single ? -1 : 18, dist }, points: { size: 6 }, drag: { x: true, y: false } },
      focus: { alpha: this.single ? 1 : 0.3 },
      hooks: {
        drawClear: [(chart) => this.drawUnder(chart)],
        draw: [(chart) => this.drawOver(chart)],
        setCursor: [(chart) => this.read(chart)],
        setSeries: [(_, index) => { this.near = index; }],
      },
    }, data, this.place);
    this.chart.over.addEventListener("click", () => {
      const run = this.near ? this.series[this.near]?.run : null;
      if (run && !this.single) this.onPick(run);
    });
  }

  // Phases, below the lines.
  drawUnder(chart) {
    if (!this.single) return;
    const about = details.get(this.groups[0].runs[0]);
    const { ctx, bbox } = chart;
    const last = chart.data[0].at(-1);
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const phase of about?.phases ?? []) {
      const from = chart.valToPos(Math.max(phase.start, chart.scales.x.min), "x", true);
      const to = chart.valToPos(phase.end ?? last, "x", true);
      ctx.fillStyle = `${phase.colour}33`;
      ctx.fillRect(from, bbox.top, to - from, bbox.height);
    }
    ctx.restore();
  }

  // Thresholds, and the moment that the slider stands at.
  drawOver(chart) {
    const { ctx, bbox } = chart;
    const thresholds = this.single ? (details.get(this.groups[0].runs[0])?.thresholds ?? {}) : {};
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.lineWidth = devicePixelRatio;
    for (const { column, colour: stroke } of this.plot.measures) {
      if (!(column in thresholds)) continue;
      const y = chart.valToPos(thresholds[column], "y", true);
      ctx.strokeStyle = stroke;
      ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      strokeLine(ctx, bbox.left, y, bbox.left + bbox.width, y);
    }
    if (state.at !== "") {
      const x = chart.valToPos(Number(state.at), "x", true);
      ctx.setLineDash([]);
      ctx.strokeStyle = colour("accent");
      ctx.lineWidth = 2 * devicePixelRatio;
      strokeLine(ctx, x, bbox.top, x, bbox.top + bbox.height);
    }
    ctx.restore();
  }

  // What the cursor points at, or else what stands at the slider or at the end.
  read(chart) {
    const index = chart.cursor.idx ?? rowAt(chart.data[0], state.at);
    const shown = this.single ? this.series.map((_, i) => i).slice(1) : this.near ? [this.near] : [];
    const value = (i) => (this.plot.share ? percent(chart.data[i][index]) : brief(chart.data[i][index]));
    const words = shown.map((i) => (this.single ? value(i) : `${this.series[i].label}: ${value(i)}`));
    this.words.textContent = words.length ? `${whole(chart.data[0][index])}: ${words.join(", ")}` : "";
  }

  mark() {
    if (!this.chart) return;
    this.chart.redraw(false);
    this.read(this.chart);
  }
}

function strokeLine(ctx, x1, y1, x2, y2) {
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
}

export function rowAt(epochs, at) {
  if (at === "" || at === undefined) return epochs.length - 1;
  let row = epochs.findIndex((epoch) => epoch > Number(at));
  row = row < 0 ? epochs.length : row;
  return Math.max(row - 1, 0);
}

function sharedEpochs(found) {
  if (!found.length) return [];
  const longest = found.reduce((a, b) => (b.rows > a.rows ? b : a));
  const prefix = (curve) => curve === longest || (curve.epoch[1] === longest.epoch[1] && curve.epoch.at(-1) === longest.epoch[curve.rows - 1]);
  let xs = longest.epoch;
  if (!found.every(prefix)) xs = [...new Set(found.flatMap((curve) => curve.epoch))].sort((a, b) => a - b);
  return state.x === "log" ? xs.filter((x) => x > 0) : xs.slice();
}

// The values of a column at the shared epochs; nothing where the run has no such row. Curves that
// have the same rows, which is nearly all of them, are taken as they are.
function spread(curve, column, xs, log) {
  const from = curve?.columns[column];
  if (!from) return Array(xs.length).fill(null);
  const first = curve.rows - xs.length;
  let values = null;
  if (first >= 0 && curve.epoch[first] === xs[0] && curve.epoch.at(-1) === xs.at(-1)) values = first ? from.slice(first) : from;
  else {
    values = Array(xs.length).fill(null);
    let row = 0;
    for (let i = 0; i < xs.length && row < curve.rows; i++) {
      while (row < curve.rows && curve.epoch[row] < xs[i]) row++;
      if (curve.epoch[row] === xs[i]) values[i] = from[row];
    }
  }
  return log && values.some((value) => !(value > 0)) ? values.map((value) => (value > 0 ? value : null)) : values;
}

// Mean, lowest and highest, where every member has a value: beyond, the mean would jump.
function summarise(members) {
  const length = members[0].length;
  const [sum, least, most] = [new Float64Array(length), new Float64Array(length).fill(Infinity), new Float64Array(length).fill(-Infinity)];
  for (const values of members) {
    for (let i = 0; i < length; i++) {
      const value = values[i] ?? NaN;
      sum[i] += value;
      if (value < least[i]) least[i] = value;
      if (value > most[i]) most[i] = value;
    }
  }
  const plain = (numbers) => Array.from(numbers, (value, i) => (Number.isNaN(sum[i]) ? null : value));
  return [plain(sum.map((value) => value / members.length)), plain(least), plain(most)];
}
