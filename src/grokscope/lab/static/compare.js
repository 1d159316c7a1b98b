// Arms side by side: when they memorised and grokked, their best and last values, and what differs.

import { h, percent, whole } from "./dom.js";
import { statusOf } from "./runs.js";
import { details } from "./source.js";
import { change } from "./state.js";

const SEEDS = ["seed", "task.seed"];

export function compareArms(groups, lineOf) {
  if (groups.flatMap((group) => group.runs).length < 2) return null;
  return h("section", { class: "compare" }, outcomes(groups, lineOf), differences(groups));
}

function outcomes(groups, lineOf) {
  const head = ["", "seeds", "memorised", "grokked", "best test", "last test"];
  const rows = groups.flatMap((group) => {
    const members = group.runs.map((run) => ({ about: details.get(run), line: lineOf(run) })).filter(({ about }) => about);
    const arm = h("tr", { class: "total" },
      h("th", { scope: "row" }, h("i", { class: "swatch", style: { "--arm": group.colour } }), group.label),
      h("td", {}, String(group.runs.length)),
      h("td", {}, times(members, "memorised")), h("td", {}, times(members, "grokked")),
      h("td", {}, span(members.map(({ about }) => about.best.test_accuracy))),
      h("td", {}, span(members.map(({ line }) => line?.test))));
    const each = members.length < 2 ? [] : members.map(({ about, line }) => h("tr", { class: "member" },
      h("td", {}, h("button", { class: "plain", onclick: () => change({ focus: about.run }) }, `seed ${about.seed}`)),
      h("td", {}, line ? statusOf(line) : ""),
      h("td", {}, whole(about.times.memorised)), h("td", {}, whole(about.times.grokked)),
      h("td", {}, percent(about.best.test_accuracy)), h("td", {}, percent(line?.test))));
    return [arm, ...each];
  });
  return h("div", { class: "scroll" }, h("h2", {}, "Side by side"), h("table", {}, h("thead", {}, h("tr", {}, head.map((word) => h("th", { scope: "col" }, word)))), h("tbody", {}, rows)));
}

// "4 of 5: 1,200 to 1,900"; those that did not are censored, not averaged away.
function times(members, event) {
  const found = members.map(({ about }) => about.times[event]).filter((time) => time !== null && time !== undefined).sort((a, b) => a - b);
  if (members.length === 1) return whole(found[0]);
  const range = found.length ? `: ${[...new Set([found[0], found.at(-1)])].map(whole).join(" to ")}` : "";
  return `${found.length} of ${members.length}${range}`;
}

function span(values) {
  const found = values.filter((value) => value !== null && value !== undefined).sort((a, b) => a - b);
  return [...new Set([found[0], found.at(-1)].map(percent))].join(" to ");
}

function differences(groups) {
  const fields = groups.map((group) => details.get(group.runs[0])?.fields ?? {});
  const names = [...new Set(fields.flatMap((each) => Object.keys(each)))];
  const text = (value) => (Array.isArray(value) ? value.join(" ") : String(value ?? "")) || "–";
  const differing = names.filter((name) => !SEEDS.includes(name) && new Set(fields.map((each) => text(each[name]))).size > 1);
  if (groups.length < 2) return null;
  return h("div", { class: "scroll" }, h("h2", {}, "What differs"),
    differing.length === 0 ? h("p", { class: "soft" }, "Nothing but the seed.") : h("table", { id: "differences" },
      h("thead", {}, h("tr", {}, h("th", {}), groups.map((group) => h("th", { scope: "col" }, h("i", { class: "swatch", style: { "--arm": group.colour } }), group.label)))),
      h("tbody", {}, differing.map((name) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, name)), fields.map((each) => h("td", {}, text(each[name]))))))));
}
