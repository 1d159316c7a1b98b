// The page: views, keys, light and dark, and the stream of news.

import { fill, h, later, notify } from "./dom.js";
import { showForm } from "./form.js";
import { showPapers } from "./papers.js";
import { allLines, step } from "./runs.js";
import { move, play } from "./scrub.js";
import { ask, frozen, listen } from "./source.js";
import { change, onChange, state } from "./state.js";
import { makeWatch } from "./watch.js";

const VIEWS = { runs: "Runs", new: "New run", papers: "Papers" };
const KEYS = {
  "/": ["filter the runs", () => document.getElementById("filter")?.focus()],
  j: ["next run", () => step(1)],
  k: ["previous run", () => step(-1)],
  n: ["new run", () => change({ view: "new", from: "", fork: "" })],
  c: ["clone the run in focus", () => state.focus && change({ view: "new", from: state.focus, fork: "" })],
  r: ["back to the runs", () => change({ view: "runs" })],
  p: ["papers", () => change({ view: "papers" })],
  ArrowLeft: ["earlier in training", () => move(-1)],
  ArrowRight: ["later in training", () => move(1)],
  " ": ["play", play],
  l: ["time: linear or log", () => change({ x: state.x === "log" ? "" : "log" }, true)],
  t: ["light or dark", () => switchTheme()],
  "?": ["these keys", () => document.getElementById("keys").showModal()],
};

const [REST, MOST_REST] = [120, 5000]; // times as long as it took to draw; milliseconds
const place = document.getElementById("view");
let watch = null;
let about = null;

function drawTabs() {
  fill(document.getElementById("tabs"), !frozen && Object.entries(VIEWS).map(([name, title]) =>
    h("a", { href: `#view=${name}`, "aria-current": state.view === name ? "page" : null, onclick: (event) => {
      event.preventDefault(); // the choice of runs stays while one looks elsewhere
      change({ view: name, from: "", fork: "", set: "" });
    } }, title)));
}

async function show() {
  drawTabs();
  document.body.dataset.view = state.view;
  if (state.view === "runs") {
    watch = makeWatch(place, about);
    await watch.show();
  } else {
    watch = null;
    await (state.view === "papers" ? showPapers(place) : showForm(place, about));
  }
}

function switchTheme() {
  const dark = getComputedStyle(document.documentElement).getPropertyValue("--dark").trim() === "1";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("theme", document.documentElement.dataset.theme);
  } catch { /* a shared file may have no storage */ }
  watch?.redraw();
}

async function begin() {
  try {
    document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "";
  } catch { /* as above */ }
  if (frozen) change(Object.fromEntries(Object.entries(readFrozen())), true);
  try {
    about = await ask("about");
  } catch (error) {
    return notify(error.message);
  }
  onChange(async (now, before) => {
    const differs = (name) => now[name] !== before[name];
    if (["view", "from", "fork", "paper"].some(differs)) { // another page: it begins at its top
      scrollTo(0, 0);
      place.focus();
      await show();
    } else if (differs("recipe")) {
      await show();
      document.getElementById("recipe")?.focus();
    }
    else if (watch) await watch.react(now, before);
  });
  await show();
  let waiting = null; // news that came while older news was drawn
  let drawing = false;
  // The processor belongs to the training: after each drawing the page rests.
  let wakeUp = () => {};
  addEventListener("ordered", () => wakeUp()); // whoever has pressed a button waits for an answer
  const rest = (milliseconds) => new Promise((wake) => {
    wakeUp = wake;
    setTimeout(wake, Math.min(REST * milliseconds, MOST_REST));
  });
  const hear = async (news) => {
    waiting = { changed: [...(waiting?.changed ?? []), ...news.changed] };
    if (drawing) return null;
    drawing = true;
    while (waiting) {
      const now = waiting;
      waiting = null;
      const began = performance.now();
      await watch?.news(now);
      await rest(performance.now() - began);
    }
    drawing = false;
    return null;
  };
  listen(hear, (words) => {
    document.getElementById("link").textContent = words;
  });
  // A run that is trained elsewhere tells nobody when it is interrupted.
  if (!frozen) setInterval(() => hear({ changed: allLines().filter((line) => line.status === "running").map((line) => line.run) }), 10000);
  return null;
}

function readFrozen() {
  const found = {};
  for (const [name, value] of new URLSearchParams(frozen.hash.replace(/^#/, ""))) found[name] = ["runs", "examples", "flipped"].includes(name) ? value.split(",") : value;
  return found;
}

document.getElementById("theme").addEventListener("click", switchTheme);
document.getElementById("help").addEventListener("click", () => document.getElementById("keys").showModal());
fill(document.getElementById("keys"), h("h2", {}, "Keys"),
  h("dl", {}, Object.entries(KEYS).map(([key, [words]]) => [h("dt", {}, h("kbd", {}, key === " " ? "space" : key.replace("Arrow", ""))), h("dd", {}, words)])),
  h("form", { method: "dialog" }, h("button", {}, "Close")));
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog[open]")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === " " && event.target.closest("button, summary, a")) return;
  const known = KEYS[event.key];
  if (known) {
    event.preventDefault();
    known[1]();
  }
});
addEventListener("resize", later(() => watch?.redraw(), 150));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => watch?.redraw());
begin();
