// What is looked at. All of it stands in the address, so that a link carries the whole view.

const LISTS = ["runs", "examples", "flipped"];
const heard = new Set();

function parse(text) {
  const found = {};
  for (const [name, value] of new URLSearchParams(text.replace(/^#/, ""))) {
    found[name] = LISTS.includes(name) ? value.split(",").filter(Boolean) : value;
  }
  return { view: "runs", where: "", runs: [], examples: [], flipped: [], at: "", head: "", plane: "", x: "", focus: "", ...found };
}

export let state = parse(location.hash);
let seen = location.hash; // the address that `state` was read from or written to

export function address(changes = {}) {
  const entries = Object.entries({ ...state, ...changes })
    .map(([name, value]) => [name, Array.isArray(value) ? value.join(",") : String(value ?? "")])
    .filter(([, value]) => value);
  // Commas are common and harmless here; encoded they make links hard to read.
  return `#${new URLSearchParams(entries)}`.replaceAll("%2C", ",");
}

// `quietly`: many small steps, such as those of a slider, are one step back.
export function change(changes, quietly = false) {
  if (location.hash !== seen) return; // somebody went elsewhere: `popstate` is about to say so
  const before = state;
  const to = address(changes);
  state = { ...state, ...changes };
  if (to !== location.hash) history[quietly ? "replaceState" : "pushState"](null, "", to);
  seen = location.hash;
  for (const tell of heard) tell(state, before);
}

export function onChange(tell) {
  heard.add(tell);
}

addEventListener("popstate", () => {
  const before = state;
  state = parse(location.hash);
  seen = location.hash;
  for (const tell of heard) tell(state, before);
});
