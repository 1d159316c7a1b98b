// The main view: the list, what has happened in words, curves, maps, the slider and its pictures.

import { compareArms } from "./compare.js";
import { makePlots, rowAt } from "./curves.js";
import { brief, clock, fill, h, notify, percent, plural, renew, whole } from "./dom.js";
import { allLines, armColours, armsOf, lineOf, loadList, makeList, nameArms, nameOf } from "./runs.js";
import { makePictures, makeSlider, makeTimeMaps, stops } from "./scrub.js";
import { shareView } from "./share.js";
import { ask, curves, details, frozen, grow, loadRun, send } from "./source.js";
import { change, state } from "./state.js";

const FIGURES = ["accuracy", "loss", "structure", "starvation", "norm", "attention", "comparison"];

export function makeWatch(place, about) {
  const list = makeList();
  const head = makeHead();
  const [plotPlace, comparePlace] = [h("div", { class: "plots" }), h("div")];
  const [slider, timeMaps, pictures] = [makeSlider(), makeTimeMaps(), makePictures()];
  const empty = h("div", { class: "hint" });
  const tools = h("div", { class: "tools" });
  const body = h("div", { class: "body", id: "run", tabindex: "-1" }, empty, head.element, slider.element, tools, plotPlace, timeMaps.element, pictures.element, comparePlace);
  fill(place, h("div", { class: "columns" }, list.element, body));
  let plots = [];
  let plotted = "";

  // The chosen runs in arms; what the filter hides is still shown if it was chosen.
  function groups() {
    const lines = state.runs.map((run) => lineOf(run) ?? { run, arm: details.get(run)?.arm?.[0] ?? run, label: details.get(run)?.label ?? run, seed: 0 });
    const colours = armColours();
    return armsOf(lines).map((members) => ({ label: nameOf(members[0]), colour: colours.get(members[0].arm) ?? "#6B7280", runs: members.map((line) => line.run) }));
  }

  async function load(changed = null) {
    const wanted = changed ? state.runs.filter((run) => changed.includes(run)) : state.runs;
    const naming = changed ? null : nameArms();
    await Promise.all([naming, ...wanted.map((run) => Promise.all([loadRun(run), grow(run)]))].map(async (waiting) => {
      try {
        await waiting;
      } catch (error) {
        if (!changed) notify(error.message);
      }
    }));
  }

  function draw() {
    list.draw();
    const some = state.runs.some((run) => details.has(run));
    body.classList.toggle("nothing", !some);
    fill(empty, !some && (allLines().length ? "Choose a run in the list; tick several to compare them." : welcome(about)));
    if (!some) return;
    head.draw();
    const found = groups();
    drawTools(tools, found);
    const now = JSON.stringify([found, state.x, state.flipped, state.more, state.focus && found.length > 1 ? state.focus : "", found.flatMap((g) => g.runs).map((run) => Object.keys(curves.get(run)?.columns ?? {}).length)]);
    const began = performance.now();
    if (now !== plotted) {
      plotted = now;
      plots = makePlots(about, found, (run) => change({ focus: run }));
      fill(plotPlace, plots.map((plot) => plot.element));
    }
    for (const plot of plots) plot.draw();
    requestAnimationFrame(() => { plotPlace.dataset.milliseconds = (performance.now() - began).toFixed(0); }); // what the benchmark reads
    plotPlace.dataset.rows = String(found.flatMap((g) => g.runs).reduce((sum, run) => sum + (curves.get(run)?.rows ?? 0), 0));
    slider.draw();
    timeMaps.draw();
    pictures.draw();
    const members = found.flatMap((group) => group.runs);
    renew(comparePlace, [found, members.map((run) => [details.get(run)?.times, details.get(run)?.best, lineOf(run)?.status])], () => compareArms(found, lineOf));
  }

  return {
    async show() {
      draw();
      await Promise.all([loadList().then(list.draw), load()]); // the list may come long before the runs
      if (!state.runs.length && allLines().length && !frozen) {
        const first = allLines()[0].run;
        return change({ runs: [first], focus: first }, true);
      }
      if (!state.runs.includes(state.focus)) return change({ focus: state.runs[0] ?? "" }, true);
      return draw();
    },
    async react(now, before) {
      const same = (name) => String(now[name]) === String(before[name]);
      if (["runs", "where", "focus"].every(same) && !same("at")) { // the slider
        slider.draw();
        timeMaps.draw();
        pictures.draw();
        for (const plot of plots) plot.mark();
        return;
      }
      if (!same("where")) await loadList();
      if (!same("runs")) {
        draw();
        await load();
        if (!state.runs.includes(state.focus)) return change({ focus: state.runs[0] ?? "" }, true);
      }
      draw();
    },
    async news({ changed }) {
      await Promise.all([loadList(changed), load(changed)]);
      draw();
    },
    redraw() {
      plotted = "";
      draw();
    },
  };
}

function makeHead() {
  const parts = Object.fromEntries(["title", "progress", "written", "actions", "events", "phases"].map((name) => [name, h("div", { class: name })]));
  const events = h("ol", { id: "events", class: "events", "aria-live": "polite", "aria-label": "What has happened" });
  const element = h("section", { class: "head" }, parts.title, parts.progress, parts.written, parts.actions, h("div", { id: "finding" }), events, parts.phases);
  const draw = () => {
    const run = details.get(state.focus) ?? details.get(state.runs[0]);
    if (!run) return;
    const status = lineOf(run.run)?.status ?? run.status;
    if (element.dataset.run !== run.run) fill(document.getElementById("finding") ?? element.appendChild(h("div")), null);
    element.dataset.run = run.run;
    renew(parts.title, [run.run, status, run.headline, run.sentences], () => title(run, status));
    renew(parts.progress, [run.run, status, run.epochs, run.rows], () => progress(run, status));
    renew(parts.written, [run.run, run.annotation, run.command], () => written(run));
    renew(parts.actions, [run.run, status, run.ours, run.arm, state.runs], () => (frozen ? [] : actions(run, status)));
    renew(events, [run.run, run.events], () => run.events.map((event) => h("li", {},
      h("button", { class: "plain", title: "Go there", onclick: () => goTo(event.epoch) }, event.text))));
    renew(parts.phases, [run.run, run.phases], () => run.phases.map((phase) => h("span", { class: "key box small", style: { "--key": phase.colour }, title: phase.rule },
      `${phase.name} ${whole(phase.start)}–${phase.end === null ? "" : whole(phase.end)}`)));
  };
  return { element, draw };
}

function title(run, status) {
  const words = { running: "under way", stopped: run.trained ? "stopped: it resumes where it was" : "stopped", finished: "finished", failed: "failed" };
  return [
    h("p", { class: "kicker" }, h("span", { class: `status ${status}` }, words[status] ?? status), ` · ${run.subject} · seed ${run.seed} · ${run.run.slice(0, 8)}`),
    h("h1", { id: "headline" }, run.headline),
    h("p", { class: "soft" }, run.sentences)];
}

function progress(run, status) {
  const done = run.budget ? Math.min(run.epochs / run.budget, 1) : 0;
  return [
    status === "running" && run.budget > 0 && h("progress", { max: "1", value: String(done), "aria-label": "Progress" }, percent(done)),
    h("p", { class: "soft small" }, `${whole(run.epochs)}${run.budget ? ` of ${whole(run.budget)}` : ""} ${run.unit}s, ${plural(run.rows, "row")}, ${clock(run.seconds)} · `, h("code", {}, run.label))];
}

// What people have noted of it, and how to train it without the lab.
function written(run) {
  const { name, tags, note } = run.annotation;
  return [
    (name || tags.length > 0 || note) && h("p", { id: "annotation" }, name && h("b", {}, `${name} `), tags.map((tag) => h("span", { class: "chip" }, tag)), note),
    run.command && h("details", { class: "small" }, h("summary", { class: "soft" }, "Train it without the lab"), h("pre", { id: "command" }, run.command))];
}

function actions(run, status) {
  const act = (path) => async () => {
    try {
      await send(path, { run: run.run });
    } catch (error) {
      notify(error.message);
    }
  };
  const mayHaveGrokked = (member) => member !== run.run && lineOf(member)?.grokked !== null;
  return [
    run.ours && h("button", { id: "stop", class: "strong", onclick: act("stop") }, "Stop"),
    status === "stopped" && run.trained && h("button", { id: "resume", class: "strong", onclick: act("resume") }, "Resume"),
    status === "running" && !run.ours && h("span", { class: "soft small" }, "Started elsewhere; stop it there."),
    run.trained && h("a", { class: "button", id: "clone", href: `#view=new&from=${run.run}` }, "Clone with changes"),
    run.trained && h("button", { id: "again", title: "The same run with the next seed", onclick: () => anotherSeed(run) }, "Another seed"),
    run.trained && "fork.parent" in run.fields && run.rows > 0 && h("button", { id: "fork", title: "Change something from the slider's moment on", onclick: () => forkAt(run, {}) }, "Fork here"),
    run.trained && status === "finished" && run.times.grokked === null && run.arm.some(mayHaveGrokked) && h("button", { id: "autopsy", onclick: () => showAutopsy(run) }, "Why did it not grok?"),
    run.arm.length > 1 && h("button", { onclick: () => change({ runs: run.arm }) }, `All ${run.arm.length} seeds`),
    h("button", { id: "share", onclick: shareView }, "Share as a file"),
    figureMenu()];
}

function anotherSeed(run) {
  const seeds = [run.seed, ...run.arm.map((member) => lineOf(member)?.seed ?? 0)];
  change({ view: "new", from: run.run, fork: "", set: JSON.stringify({ seed: String(Math.max(...seeds) + 1) }) });
}

// The form of a fork at the row where the slider stands.
function forkAt(run, changes, epoch = null) {
  const rows = curves.get(run.run).epoch;
  const at = epoch ?? rows[rowAt(rows, state.at)];
  change({ view: "new", from: run.run, fork: String(at), set: JSON.stringify(changes) });
}

async function showAutopsy(run) {
  try {
    const found = await ask(`autopsy/${run.run}`);
    const place = document.getElementById("finding");
    fill(place, h("div", { class: "finding" }, h("p", {}, found.sentence),
      h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["first parts at", "measure", "here", "there"].map((word) => h("th", {}, word)))),
        h("tbody", {}, found.parts.map((part) => h("tr", {}, h("td", {}, whole(part.epoch)), h("td", {}, part.label), part.values.map((value) => h("td", {}, brief(value)))))))),
      found.forks.length > 0 && h("p", { class: "soft small" }, `Forks at ${whole(found.at)}, where they part, show what it depends on:`),
      h("div", { class: "actions" }, found.forks.map((fork) => h("button", { onclick: () => forkAt(run, fork.changes, found.at) }, fork.title)),
        h("button", { onclick: () => change({ runs: [run.run, found.twin] }) }, "Compare the two"))));
  } catch (error) {
    notify(error.message);
  }
}

function goTo(epoch) {
  const places = stops(state.focus);
  const next = places.find((place) => place >= epoch) ?? places.at(-1);
  if (next !== undefined) change({ at: String(next) }, true);
}

function figureMenu() {
  const runs = state.runs.slice(0, 60).join(",");
  return h("details", { class: "menu" }, h("summary", {}, "Figures"),
    h("ul", {}, FIGURES.map((kind) => h("li", {}, h("span", {}, kind), ["svg", "png", "pdf"].map((suffix) =>
      h("a", { href: `/api/figure/${kind}.${suffix}?runs=${runs}`, download: `${kind}.${suffix}` }, suffix))))));
}

// Nothing is here yet: what can be done about it.
function welcome(about) {
  return [h("h1", {}, "No runs yet"),
    h("p", {}, h("a", { href: "#view=new" }, "Start a first run"), ": the recipe that is proposed takes a few seconds and groks."),
    h("p", {}, "Runs that ", h("code", {}, "grokscope train"), " or an ", h("code", {}, "Observer"), " writes to ", h("code", {}, about.store), " appear here by themselves.")];
}

function drawTools(tools, groups) {
  const log = state.x === "log";
  const several = state.runs.length > 1;
  const seeds = groups.some((group) => group.runs.length > 1) && "Thick: mean over seeds; band: lowest to highest; thin: each seed. ";
  tools.hidden = !state.runs.some((run) => curves.get(run)?.rows);
  renew(tools, [log, state.more, groups], () => [
    h("button", { class: "toggle small", id: "logx", "aria-pressed": String(log), onclick: () => change({ x: log ? "" : "log" }, true) }, "log time"),
    h("button", { class: "toggle small", id: "more", "aria-pressed": String(Boolean(state.more)), onclick: () => change({ more: state.more ? "" : "1" }, true) }, "all measures"),
    log && h("span", { class: "soft small" }, "Log time leaves out epoch 0."),
    several && h("span", { class: "soft small" }, seeds, "Click a line to bring its run into focus."),
    several && h("span", { id: "arms", class: "legend small" }, groups.map((group) => h("span", { class: "key", style: { "--key": group.colour } }, group.label)))]);
}
