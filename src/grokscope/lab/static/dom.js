// Elements and words. Text never becomes markup: whatever comes from a store is set as text.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v);
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Only what has changed is made anew: a button must not vanish under the finger.
const keys = new WeakMap();
export function renew(element, key, make) {
  const text = JSON.stringify(key);
  if (keys.get(element) === text) return;
  keys.set(element, text);
  fill(element, make());
}

export const whole = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en-GB"));

export function brief(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size && (size < 1e-3 || size >= 1e5)) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

export const percent = (value) => (value === null || value === undefined ? "–" : `${Number((100 * value).toFixed(1))} %`);

export const plural = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;

export function clock(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) return `${minutes} min`;
  if (minutes < 2880) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.round(minutes / 1440)} days`;
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export const isDark = () => colour("dark") === "1";

// Colours of arms, as in every other figure of the house (draw/theme.py).
const ARMS = ["#D55E00", "#009E73", "#8C6BB1", "#56B4E9", "#A6761D", "#6B7280", "#CC79A7", "#3F51A3", "#9A9A2E", "#E39AB0", "#7A4E2D"];
export const armColour = (index) => ARMS[index % ARMS.length];

let noticeTimer;
export function notify(text) {
  const place = document.getElementById("notice");
  fill(place, text ? h("p", {}, text, h("button", { class: "quiet", onclick: () => notify(""), "aria-label": "Close" }, "×")) : null);
  clearTimeout(noticeTimer);
  if (text) noticeTimer = setTimeout(() => notify(""), 12000);
}

export function later(action, milliseconds) {
  let waiting;
  return (...values) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => action(...values), milliseconds);
  };
}
