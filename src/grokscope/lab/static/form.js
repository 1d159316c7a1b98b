// A new run: every field of the spec, generated from its classes; the server checks each change.

import { clock, fill, h, later, notify, plural } from "./dom.js";
import { details, loadRun, send } from "./source.js";
import { change, state } from "./state.js";

export async function showForm(place, about) {
  const { recipes, kinds } = about.form;
  let base;
  if (state.from) {
    const run = details.get(state.from) ?? (await loadRun(state.from));
    base = { kind: run.kind, values: run.fields, title: state.fork ? `A fork of ${run.run.slice(0, 8)} at ${run.unit} ${state.fork}` : `A clone of ${run.run.slice(0, 8)}`, note: `${run.subject}: ${run.label}` };
  } else {
    const name = state.recipe in recipes ? state.recipe : "smoke";
    base = { ...recipes[name], title: "A new run", recipe: name };
  }
  const fields = kinds[base.kind];
  const text = (value) => (Array.isArray(value) ? value.join(" ") : String(value ?? ""));
  const start = Object.fromEntries(fields.map((field) => [field.name, text(base.values[field.name] ?? field.default)]));
  const now = { ...start };
  if (state.from && state.fork) Object.assign(now, { "fork.parent": state.from, "fork.epoch": state.fork });
  if (state.from) Object.assign(now, JSON.parse(state.set || "{}"));
  const rows = new Map();
  const answer = h("div", { id: "answer", role: "status" });
  const over = h("input", { id: "over", placeholder: "seed=0..4 prior.strength=0.1,1,10", spellcheck: "false", maxlength: "2000", oninput: () => check() });
  const begin = h("button", { id: "start", class: "strong", disabled: true, onclick: order }, "Start");

  const wish = () => ({
    kind: base.kind,
    changes: Object.fromEntries(fields.filter((field) => now[field.name] !== text(field.default)).map((field) => [field.name, now[field.name]])),
    over: over.value,
  });

  let turn = 0;
  const check = later(async () => {
    const mine = ++turn;
    try {
      const plan = await send("check", wish());
      if (mine !== turn) return;
      begin.disabled = !plan.left;
      const states = plan.runs.length === 1 ? plan.runs[0].state : `${plan.left} to train`;
      fill(answer, h("p", {}, `${plural(plan.runs.length, "run")}, ${states}; about ${clock(plan.seconds)}.`),
        plan.left < plan.runs.length && h("p", {}, plan.runs.filter((run) => run.state !== "to train").slice(0, 8).map((run) =>
          h("a", { href: `#view=runs&runs=${run.run}&focus=${run.run}` }, `${run.run.slice(0, 8)}: ${run.state} `))));
      if (plan.left && plan.runs.every((run) => run.state !== "to train")) begin.textContent = "Resume";
      else begin.textContent = "Start";
    } catch (error) {
      if (mine !== turn) return;
      begin.disabled = true;
      fill(answer, h("p", { class: "wrong" }, error.message));
    }
  }, 200);

  async function order() {
    begin.disabled = true;
    try {
      const { runs } = await send("start", wish());
      const beside = state.fork ? [state.from] : []; // both futures side by side
      change({ view: "runs", runs: [...beside, ...runs.slice(0, 20)], focus: runs[0], at: "", where: "", from: "", fork: "", set: "", recipe: "" });
    } catch (error) {
      notify(error.message);
      begin.disabled = false;
    }
  }

  function set(name, value) {
    now[name] = value;
    mark();
    check();
  }

  // A field that the chosen kind does not use is hidden while it has no effect.
  function mark() {
    for (const field of fields) {
      const row = rows.get(field.name);
      const kind = now[`${field.section}.kind`];
      row.hidden = field.only.length > 0 && !field.only.includes(kind) && now[field.name] === text(field.default);
      row.classList.toggle("changed", now[field.name] !== start[field.name]);
      row.classList.toggle("own", now[field.name] !== text(field.default));
    }
  }

  const sections = [...new Set(["run", ...fields.map((field) => field.section)])]; // the seed is changed most
  const find = h("input", { type: "search", id: "find", placeholder: "Find a field", "aria-label": "Find a field", oninput: (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const field of fields) rows.get(field.name).classList.toggle("away", !`${field.name} ${field.help}`.toLowerCase().includes(wanted));
  } });
  const choose = !state.from && h("label", {}, "Recipe ", h("select", { id: "recipe", onchange: (event) => change({ recipe: event.target.value }, true) },
    Object.entries(recipes).map(([name, { what }]) => h("option", { value: name, selected: name === base.recipe }, `${name}: ${what}`))),
    h("span", { class: "soft small" }, base.what));
  fill(place, h("div", { class: "form" },
    h("section", { class: "order" }, h("h1", {}, base.title), base.note && h("p", { class: "soft" }, base.note), choose,
      h("label", {}, "Sweep ", over), answer, h("div", { class: "actions" }, begin), find),
    h("div", { class: "fields" }, sections.map((section) => h("fieldset", {}, h("legend", {}, section.replace(".", ": ")),
      fields.filter((field) => field.section === section).map((field) => {
        const row = makeField(field, now[field.name], set);
        rows.set(field.name, row);
        return row;
      }))))));
  mark();
  check();
}

function makeField(field, value, set) {
  const short = field.name.split(".").at(-1).replaceAll("_", " ");
  const attributes = { id: `field-${field.name}`, name: field.name, "aria-describedby": `help-${field.name}` };
  const input = field.type === "choice"
    ? h("select", { ...attributes, onchange: (event) => set(field.name, event.target.value) },
      field.choices.map((choice) => h("option", { value: choice, selected: choice === value }, choice)))
    : h("input", { ...attributes, value, inputmode: field.type === "text" ? "text" : "decimal", spellcheck: "false", autocomplete: "off", maxlength: "2000",
      oninput: (event) => set(field.name, event.target.value) });
  return h("div", { class: "field" }, h("label", { for: attributes.id, title: field.name }, short), input,
    h("p", { id: `help-${field.name}`, class: "soft small" }, field.help.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part)), field.default !== "" && ` Default: ${field.default}.`));
}
