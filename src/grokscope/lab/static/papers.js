// Papers: every claim with its verdicts; the runs behind a verdict are one click away.

import { fill, h, notify, plural, whole } from "./dom.js";
import { ask } from "./source.js";
import { change, state } from "./state.js";

const MOST_SHOWN = 60; // runs of one view

export async function showPapers(place) {
  try {
    const papers = await ask("papers");
    const name = state.paper || papers[0]?.name;
    fill(place, h("p", { class: "hint" }, "Reading the tables …"));
    const paper = await ask(`papers/${name}`);
    fill(place, h("article", { class: "paper" },
      papers.length > 1 && h("nav", { class: "tabs" }, papers.map((one) => h("a", { href: `#view=papers&paper=${one.name}`, "aria-current": one.name === name ? "page" : null }, one.title))),
      h("p", { class: "kicker" }, paper.reference), h("h1", {}, paper.title), h("p", { class: "lead" }, paper.summary),
      h("p", {}, paper.tally.map((one) => chip(one, `${whole(one.count)} ${one.ruling}`))), paper.studies.map((study) => showStudy(paper, study))));
  } catch (error) {
    notify(error.message);
  }
}

const chip = ({ ruling, side }, words = ruling) => h("span", { class: `chip ${side}` }, words);

function showStudy(paper, study) {
  const judged = study.claims.filter((claim) => claim.verdicts.length);
  return h("section", { class: "study" }, h("p", { class: "kicker" }, study.source), h("h2", {}, study.title),
    h("details", {}, h("summary", { class: "soft" }, "What the paper says, what we do"), h("p", {}, study.paper_says), h("p", {}, study.how)),
    study.scales.map((scale) => h("details", { class: "drawing", ontoggle: (event) => {
      if (event.target.open && !event.target.querySelector("img")) event.target.append(h("img", { src: `/api/papers/${paper.name}/${study.name}-${scale}.svg`, alt: `${study.title} (${scale})` }));
    } }, h("summary", { class: "soft" }, `Figure, ${scale} scale`))),
    judged.length === 0 && h("p", { class: "soft" }, "Not run yet."),
    !study.claims.every((claim) => claim.verdicts.every(({ runs, all }) => runs.length === all)) && h("p", { class: "soft small" }, "To train what this store lacks: ", h("code", {}, `grokscope reproduce ${paper.name} ${study.name}`)),
    judged.map((claim) => h("div", { class: "claim" }, h("p", {}, claim.sentence),
      h("ul", {}, claim.verdicts.map((verdict) => h("li", {},
        chip(verdict), h("b", {}, verdict.where), " ",
        h("span", { class: "soft" }, verdict.effect, " · "), behind(verdict)))))));
}

function behind(verdict) {
  const { runs, all } = verdict;
  if (!runs.length) return h("span", { class: "soft small" }, `${plural(all, "run")}, none in this store`);
  const shown = runs.slice(0, MOST_SHOWN);
  const words = `${shown.length < runs.length ? `The first ${shown.length} of ` : ""}${runs.length} of ${plural(all, "run")} here ›`;
  return h("button", { class: "quiet small", onclick: () => change({ view: "runs", runs: shown, focus: runs[0], where: "", at: "" }) }, words);
}
