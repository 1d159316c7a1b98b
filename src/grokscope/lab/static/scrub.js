// One slider over training time. It moves the mark in every curve and map, and shows the kept
// weights of the run in focus: attention on examples, the embedding, right and wrong pairs.

import { fill, h, percent, whole } from "./dom.js";
import { PAIRS, drawOverTime, drawPairs, drawPlane, heatScale, heatText, strongest } from "./maps.js";
import { curves, details, picture } from "./source.js";
import { change, state } from "./state.js";

let playing = null;

// Where the slider can stand: at kept weights, or at rows where none were kept.
export function stops(run) {
  const about = details.get(run);
  const epochs = curves.get(run)?.epoch ?? [];
  const kept = (about?.snapshots ?? []).filter((epoch) => epoch <= (epochs.at(-1) ?? 0));
  const last = epochs.at(-1);
  if (!kept.length) return epochs;
  return kept.at(-1) === last || last === undefined ? kept : [...kept, last];
}

const standing = (places) => {
  if (state.at === "") return places.length - 1;
  const later = places.findIndex((epoch) => epoch > Number(state.at));
  return later < 0 ? places.length - 1 : Math.max(later - 1, 0);
};

export function move(by) {
  const places = stops(state.focus);
  if (!places.length) return;
  const next = Math.min(Math.max(standing(places) + by, 0), places.length - 1);
  change({ at: next === places.length - 1 ? "" : String(places[next]) }, true);
}

export function play() {
  if (playing) {
    clearInterval(playing);
    playing = null;
  } else {
    if (state.at === "") change({ at: String(stops(state.focus)[0] ?? 0) }, true);
    playing = setInterval(() => (state.at === "" ? play() : move(1)), 220);
  }
  document.getElementById("play")?.replaceChildren(playing ? "❚❚" : "▶");
}

export function makeSlider() {
  const range = h("input", { type: "range", id: "time", min: "0", "aria-label": "Training time" });
  const words = h("output", { class: "small", for: "time" });
  const note = h("span", { class: "soft small" });
  range.addEventListener("input", () => {
    const places = stops(state.focus);
    const index = Number(range.value);
    change({ at: index >= places.length - 1 ? "" : String(places[index]) }, true);
  });
  const element = h("div", { class: "slider" },
    h("button", { id: "play", class: "quiet", onclick: play, title: "Play (space)", "aria-label": "Play" }, playing ? "❚❚" : "▶"), range, words, note);
  const draw = () => {
    const about = details.get(state.focus);
    const places = stops(state.focus);
    const index = standing(places);
    range.max = String(Math.max(places.length - 1, 0));
    range.value = String(index);
    words.textContent = places.length ? `${about?.unit ?? "epoch"} ${whole(places[index])}${state.at === "" ? " (latest)" : ""}` : "";
    note.textContent = about?.trained && !about.fields["training.snapshots"] ? "no snapshots are kept" : "";
    element.hidden = !places.length;
  };
  return { element, draw };
}

// Attention and heads over time, from the rows.
export function makeTimeMaps() {
  const element = h("div", { class: "maps" });
  const draw = () => {
    const about = details.get(state.focus);
    const curve = curves.get(state.focus);
    const attention = curve?.columns.attention;
    if (!about || !attention?.length) return fill(element);
    const width = attention.find(Boolean)?.length ?? 0;
    const names = about.positions.length === width ? about.positions : Array.from({ length: width }, (_, i) => ({ name: String(i) }));
    const heads = curve.columns.mass_by_head;
    const many = heads?.find(Boolean)?.length > 1;
    const canvases = [h("canvas", { class: "wide", "aria-label": "Attention at each position over time" })];
    if (many) canvases.push(h("canvas", { class: "wide", "aria-label": "Attention of each head on what matters, over time" }));
    fill(element,
      figure("Attention at each position over time", "Mean over inputs and heads, and over the rows that share a pixel. Framed: the positions that determine the answer.", canvases[0]),
      many && figure("Weight of each head on what matters", "Mean over inputs, and over the rows that share a pixel.", canvases[1]));
    const choices = { at: state.at, log: state.x === "log" };
    drawOverTime(canvases[0], curve.epoch, attention, names, choices);
    if (many) drawOverTime(canvases[1], curve.epoch, heads, Array.from({ length: heads.find(Boolean).length }, (_, i) => ({ name: `head ${i}` })), choices);
    return element;
  };
  return { element, draw };
}

function figure(title, note, ...content) {
  return h("figure", { class: "plot" }, h("figcaption", {}, h("strong", {}, title), note && h("span", { class: "soft small" }, note)), content);
}

// The kept weights nearest before the slider.
export function makePictures() {
  const element = h("div", { class: "pictures", "aria-live": "off" });
  let asked = 0;
  const draw = async () => {
    const about = details.get(state.focus);
    const ended = about && (about.status === "finished" || about.status === "failed");
    if (!about?.trained || about.kind !== "routing" || (!about.snapshots.length && !ended)) {
      const words = about?.fields["training.snapshots"] ? "No weights are kept yet."
        : "This run keeps its final weights only. With training.snapshots the slider also shows attention on examples, the embedding, and which pairs are right.";
      return fill(element, about?.trained && about.kind === "routing" && h("p", { class: "soft" }, words));
    }
    const turn = ++asked;
    const kept = about.snapshots.filter((epoch) => state.at === "" || epoch <= Number(state.at));
    const epoch = state.at === "" && ended ? "final" : String(kept.at(-1) ?? about.snapshots[0] ?? "final");
    if (!element.children.length) fill(element, h("p", { class: "soft" }, "Reading the kept weights …"));
    let found;
    try {
      found = await picture(state.focus, epoch, state.examples);
    } catch (error) {
      return turn === asked && fill(element, h("p", { class: "soft" }, error.message));
    }
    if (turn !== asked) return null; // the slider has moved on
    element.dataset.epoch = epoch;
    const when = epoch === "final" ? `${about.unit} ${whole(about.epochs)}, final` : `${about.unit} ${whole(Number(epoch))}`;
    fill(element, examplesFigure(found.examples, about, when), planeFigure(found.plane, when), gridFigure(found.grid, when));
    for (const finish of element.querySelectorAll("canvas")) finish.dispatchEvent(new Event("shown"));
    return element;
  };
  return { element, draw };
}

function examplesFigure(examples, about, when) {
  const heat = heatScale();
  const heads = examples[0]?.attention.length ?? 1;
  const head = state.head === "" || Number(state.head) >= heads ? null : Number(state.head);
  const weights = (example) => (head === null ? example.attention[0].map((_, i) => example.attention.reduce((sum, one) => sum + one[i], 0) / heads) : example.attention[head]);
  const choose = heads > 1 && h("select", { "aria-label": "Head", onchange: (event) => change({ head: event.target.value }, true) },
    h("option", { value: "" }, "mean over heads"),
    Array.from({ length: heads }, (_, i) => h("option", { value: String(i), selected: head === i }, `head ${i}`)));
  const rows = examples.map((example) => h("tr", {},
    weights(example).map((weight, i) => h("td", {
      class: "weight", title: `${percent(weight)} on position ${about.positions[i]?.name ?? i}`,
      style: { background: `rgb(${heat(weight)})`, color: heatText(weight) },
    }, String(example.tokens[i]))),
    h("td", { class: `verdict ${example.right ? "right" : "wrong"}` }, example.right ? `= ${example.label}` : `${example.answer} ≠ ${example.label}`),
    h("td", { class: "soft small" }, example.trained ? "trained" : "unseen")));
  const reset = state.examples.length > 0 && h("button", { class: "quiet small", onclick: () => change({ examples: [] }, true) }, "reset");
  return figure("Attention on examples", `${when}. The ${strongest()} positions have most weight. Click pairs in the grid to choose others.`, choose, reset,
    h("div", { class: "scroll" }, h("table", { class: "examples" }, h("tbody", {}, rows))));
}

function planeFigure(plane, when) {
  if (!plane) return figure("Embedding", "No Fourier plane: the task has no cyclic order, or the weights are no numbers.");
  const index = Math.min(Number(state.plane || 0), plane.planes.length - 1);
  const shown = plane.planes[index];
  const canvas = h("canvas", { class: "square", "aria-label": "Embedding in its Fourier plane" });
  canvas.addEventListener("shown", () => drawPlane(canvas, shown, plane.values));
  const choose = h("select", { "aria-label": "Frequency", onchange: (event) => change({ plane: event.target.value }, true) },
    plane.planes.map((one, i) => h("option", { value: String(i), selected: i === index }, `frequency ${one.frequency}: ${percent(one.share)} of the power`)));
  return figure("Embedding in its Fourier plane", `${when}. A circle, once around: it adds by angles.`, choose, canvas);
}

let cursor = null; // the pair that the keyboard stands at
let held = false; // was it chosen with the keyboard, so that the next picture gets the focus?
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function gridFigure(grid, when) {
  if (!grid) return figure("Pairs", "The task has no pairs of operands to lay out.");
  const canvas = h("canvas", { class: "square", id: "grid", tabindex: "0", role: "application", "aria-label": "Which pairs of operands are right: arrows move, Enter shows the example" });
  const words = h("span", { class: "soft small", role: "status" }, `${when}. First operand downwards, second to the right.`);
  canvas.addEventListener("shown", () => {
    const draw = () => drawPairs(canvas, grid, state.examples, document.activeElement === canvas && cursor);
    const find = draw();
    const tell = (pair) => {
      const digit = pair && grid.cells[pair.first * grid.values + pair.second];
      words.textContent = pair ? `(${pair.first}, ${pair.second}): ${PAIRS[digit]?.[0] ?? "not asked"}` : when;
    };
    const choose = (pair) => {
      const example = pair ? grid.examples[pair.first * grid.values + pair.second] : -1;
      if (example < 0) return false;
      const others = state.examples.filter((name) => name !== String(example));
      change({ examples: others.length < state.examples.length ? others : [...others, String(example)].slice(-12) }, true);
      return true;
    };
    const within = (place) => Math.min(Math.max(place, 0), grid.values - 1);
    canvas.addEventListener("mousemove", (event) => tell(find(event)));
    canvas.addEventListener("click", (event) => choose(find(event)));
    for (const name of ["focus", "blur"]) canvas.addEventListener(name, draw);
    canvas.addEventListener("keydown", (event) => {
      const step = ARROWS[event.key];
      if (!step && event.key !== "Enter") return;
      event.preventDefault();
      event.stopPropagation(); // here arrows do not move the slider
      if (step) {
        cursor = cursor ? { first: within(cursor.first + step[0]), second: within(cursor.second + step[1]) } : { first: 0, second: 0 };
        tell(cursor);
        draw();
      } else held = choose(cursor); // the new picture comes later
    });
    if (held) canvas.focus({ preventScroll: true });
    held = false;
  });
  const counts = {};
  for (const cell of grid.cells) counts[cell] = (counts[cell] ?? 0) + 1;
  const legend = h("span", { class: "legend small" }, Object.entries(PAIRS).filter(([digit]) => counts[digit])
    .map(([digit, [name, key]]) => h("span", { class: "key box", style: { "--key": `var(--${key})` } }, `${name} ${whole(counts[digit])}`)));
  return h("figure", { class: "plot" }, h("figcaption", {}, h("strong", {}, "Which pairs are right"), words), canvas, legend);
}
