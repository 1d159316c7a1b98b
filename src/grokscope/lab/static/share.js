// The present view as one file that needs no server and no network: the page's own code, and the
// numbers that it would have asked for.

import { h, notify } from "./dom.js";
import { curves, details, picture, toBase64 } from "./source.js";
import { allLines, nameOf } from "./runs.js";
import { state } from "./state.js";

const MODULES = ["dom.js", "state.js", "source.js", "runs.js", "curves.js", "maps.js", "scrub.js", "compare.js", "share.js", "watch.js", "form.js", "papers.js", "main.js"];

export async function shareView() {
  try {
    const html = await freeze();
    const link = h("a", { href: URL.createObjectURL(new Blob([html], { type: "text/html" })), download: `grokscope-${state.focus.slice(0, 8)}.html` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  } catch (error) {
    notify(error.message);
  }
}

async function freeze() {
  const text = async (name) => (await fetch(`/static/${name}`)).text();
  const [style, plotStyle, plot, about, ...modules] = await Promise.all([
    text("lab.css"), text("vendor/uPlot.css"), text("vendor/uPlot.js"), fetch("/api/about").then((answer) => answer.json()), ...MODULES.map(text)]);
  const lines = allLines().filter((line) => state.runs.includes(line.run)).map((line) => ({ ...line, label: nameOf(line) }));
  const answers = { about, runs: { runs: lines, errors: [] } };
  const rows = {};
  for (const run of state.runs) {
    if (!details.has(run)) continue;
    answers[`run/${run}`] = details.get(run);
    rows[run] = (curves.get(run)?.packed ?? []).map(toBase64);
  }
  await addPictures(answers);
  // Modules in the order in which they need each other, as one script: none uses a name of another.
  const script = modules.join("\n").replace(/^import .*;$/gm, "").replace(/^export /gm, "").replaceAll("</script", "<\\/script");
  const frozen = JSON.stringify({ hash: location.hash, answers, rows });
  return page(style + plotStyle, plot, script, frozen);
}

async function addPictures(answers) {
  const about = details.get(state.focus);
  if (!about?.trained || about.kind !== "routing") return;
  const ended = about.status === "finished" || about.status === "failed";
  for (const epoch of [...about.snapshots, ...(ended ? ["final"] : [])]) {
    const path = `snapshot/${state.focus}/${epoch}${state.examples.length ? `?examples=${state.examples.join(",")}` : ""}`;
    answers[path] = await picture(state.focus, String(epoch), state.examples);
  }
}

async function page(style, plot, script, frozen) {
  const digest = async (text) => `'sha256-${toBase64(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)))}'`;
  const policy = `default-src 'none'; style-src ${await digest(style)}; script-src ${await digest(plot)} ${await digest(script)}; img-src blob:`;
  const data = frozen.replaceAll("<", "\\u003c");
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>grokscope: a shared view</title><style>${style}</style></head>
<body class="frozen"><header class="bar"><span class="brand">grokscope <span>lab</span></span><nav id="tabs"></nav>
<span id="link" class="soft" role="status">A view that was shared; it needs no server.</span><button id="theme" class="quiet">◐</button><button id="help" class="quiet">?</button></header>
<main id="view" tabindex="-1"></main><dialog id="keys"></dialog><div id="notice" role="alert"></div>
<script type="application/json" id="frozen">${data}</script><script>${plot}</script><script type="module">${script}</script></body></html>`;
}
