// The list of runs: filter, arms (all fields equal but the seed), choice.

import { armColour, fill, h, later, notify, percent, plural, renew, whole } from "./dom.js";
import { ask, frozen } from "./source.js";
import { change, state } from "./state.js";

const MOST_ARMS = 150; // of one page of the list
const MOST_SEEDS = 200; // of an arm that is open
let listed = [];
let shown = MOST_ARMS;
const opened = new Set();
let trouble = "";
let complete = true; // a list of thousands is shown before all of it was read

// All of it, or only the lines that have changed where that tells the same.
export async function loadList(changed = null) {
  try {
    const some = !state.where && changed?.length < 20 && changed.every(lineOf);
    const query = frozen ? "" : some ? `?only=${[...new Set(changed)].join()}` : state.where ? `?where=${encodeURIComponent(state.where)}` : "";
    const found = await ask(`runs${query}`);
    const fresh = new Map(found.runs.map((line) => [line.run, line]));
    if (some) listed = listed.map((line) => (fresh.has(line.run) ? { ...fresh.get(line.run), label: line.label } : line));
    else {
      const places = new Map(listed.map((line, place) => [line.run, place]));
      const place = ({ run }) => places.get(run) ?? -1; // what is new stands above
      listed = found.runs;
      if (changed && complete) listed.sort((a, b) => place(a) - place(b)); // nothing moves from under the finger
    }
    trouble = "";
    complete = found.whole ?? true;
    if (found.errors?.length) notify(found.errors.at(-1));
  } catch (error) {
    trouble = error.message;
  }
  return listed;
}

// Arms that are compared are called by what sets them apart from each other, not from all the others.
let named = { runs: "", labels: new Map() };
export async function nameArms() {
  const runs = state.runs.join();
  if (frozen || runs === named.runs || state.runs.length < 2) return;
  const found = await ask(`runs?only=${runs}`);
  named = { runs, labels: new Map(found.runs.map((line) => [line.arm, line.label])) };
}
export const nameOf = ({ arm, label }) => (named.runs === state.runs.join() && named.labels.get(arm)) || label;

export const lineOf = (run) => listed.find((line) => line.run === run);
export const allLines = () => listed;

export function armsOf(lines) {
  const arms = new Map();
  for (const line of lines) {
    if (!arms.has(line.arm)) arms.set(line.arm, []);
    arms.get(line.arm).push(line);
  }
  for (const members of arms.values()) members.sort((a, b) => a.seed - b.seed);
  return [...arms.values()];
}

export function makeList() {
  const filter = h("input", {
    id: "filter", type: "search", placeholder: "prior_kind = 'oracle'", value: state.where,
    "aria-label": "Filter, as in grokscope runs --where", spellcheck: "false", autocomplete: "off", maxlength: "500",
    disabled: Boolean(frozen), oninput: later((event) => change({ where: event.target.value }, true), 300),
  });
  const place = h("div", { class: "arms" });
  const words = h("p", { class: "soft small", role: "status" });
  const element = h("aside", { class: "list", "aria-label": "Runs" },
    h("button", { class: "skip", onclick: () => document.getElementById("run").focus() }, "Skip the list"),
    h("details", { class: "drawer", open: matchMedia("(min-width: 821px)").matches },
      h("summary", {}, "Runs"), filter, words, place));
  return { element, draw: () => drawList(place, words) };
}

function drawList(place, words) {
  renew(place, [listed.map((line) => ({ ...line, changed: 0 })), state.runs, state.focus, state.where, [...opened], shown, trouble, complete], () => lines(place, words));
}

function lines(place, words) {
  const arms = armsOf(listed);
  const chosen = state.runs.length ? ` · ${state.runs.length} chosen` : "";
  fill(words, trouble || `${plural(listed.length, "run")} in ${plural(arms.length, "arm")}${complete ? "" : ", reading more"}${chosen}`,
    !trouble && state.runs.length > 1 && h("button", { class: "quiet", title: "Leave all others but the first", onclick: () => change({ runs: state.runs.slice(0, 1) }) }, "keep one"));
  words.classList.toggle("wrong", Boolean(trouble));
  if (!listed.length && !trouble) {
    return h("p", { class: "soft" }, state.where ? "No run fits." : "No runs yet. ", !state.where && h("a", { href: "#view=new" }, "Start one."));
  }
  const colours = armColours();
  return [arms.slice(0, shown).map((members) => drawArm(members, colours)),
    arms.length > shown && h("button", { onclick: () => { shown += MOST_ARMS; drawList(place, words); } }, `Show more of ${arms.length}`)];
}

// Arms of chosen runs have the colours that they have in the plots.
export function armColours() {
  const order = [...new Set(state.runs.map((run) => lineOf(run)?.arm).filter(Boolean))];
  return new Map(order.map((arm, index) => [arm, armColour(index)]));
}

function drawArm(members, colours) {
  const { arm, label } = members[0];
  const ids = members.map((line) => line.run);
  const all = ids.every((run) => state.runs.includes(run));
  const grokked = members.filter((line) => line.grokked !== null);
  const single = members.length === 1;
  const open = opened.has(arm) || (!single && ids.some((run) => state.runs.includes(run)) && !all);
  const others = ["running", "failed"].map((status) => [members.filter((line) => line.status === status).length, status === "running" ? "under way" : status]);
  const counts = [[`${grokked.length} of ${members.length}`, "grokked"], ...others.filter(([count]) => count)].map((pair) => pair.join(" "));
  const summary = single ? null : h("span", { class: "soft small" }, counts.join(", "));
  return h("section", { class: "arm", style: { "--arm": colours.get(arm) ?? "transparent" } },
    h("div", { class: "armhead" },
      h("input", { type: "checkbox", checked: all, "aria-label": `Compare ${label}`, onchange: () => toggle(ids, !all) }),
      h("button", { class: "plain", title: label, onclick: () => change({ runs: ids, focus: ids[0], at: "", view: "runs" }) },
        h("span", { class: "label" }, label), single ? statusOf(members[0]) : summary),
      !single && h("button", { class: "quiet", "aria-expanded": String(open), "aria-label": `Seeds of ${label}`,
        onclick: () => { opened.has(arm) ? opened.delete(arm) : opened.add(arm); change({}, true); } }, open ? "▾" : "▸")),
    open && !single && h("ul", {}, members.slice(0, MOST_SEEDS).map((line) => drawMember(line)),
      members.length > MOST_SEEDS && h("li", { class: "soft" }, `and ${plural(members.length - MOST_SEEDS, "more seed")}: filter them, as in seed > 500`)));
}

function drawMember(line) {
  const chosen = state.runs.includes(line.run);
  return h("li", { class: line.run === state.focus ? "focus" : "" },
    h("input", { type: "checkbox", checked: chosen, "aria-label": `Compare seed ${line.seed}`, onchange: () => toggle([line.run], !chosen) }),
    h("button", { class: "plain", onclick: () => change({ runs: [line.run], focus: line.run, at: "" }) }, `seed ${line.seed}`, statusOf(line)));
}

function toggle(ids, on) {
  const rest = state.runs.filter((run) => !ids.includes(run));
  const runs = on ? [...rest, ...ids] : rest;
  change({ runs, focus: runs.includes(state.focus) ? state.focus : (runs[0] ?? "") });
}

export function statusOf(line) {
  const words = {
    running: "under way", stopped: "stopped", failed: "failed",
    finished: line.grokked !== null && line.grokked !== undefined ? `grokked ${whole(line.grokked)}` : line.test === null ? "finished" : `test ${percent(line.test)}`,
  };
  const mark = line.status === "finished" && line.grokked !== null ? "grokked" : line.status;
  return h("span", { class: `status ${mark}` }, words[line.status] ?? line.status);
}

// The run above or below the one in focus, for the keyboard.
export function step(by) {
  const order = armsOf(listed).flat();
  const place = order.findIndex((line) => line.run === state.focus);
  const next = order[Math.min(Math.max(place + by, 0), order.length - 1)];
  if (next) change({ runs: [next.run], focus: next.run, at: "" });
}
