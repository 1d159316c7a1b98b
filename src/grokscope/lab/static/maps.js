// Maps on canvas: attention over time, right and wrong pairs, the embedding in its Fourier plane.

import { colour, isDark } from "./dom.js";

const HEAT = { light: ["#F3F6FA", "#A9C7E8", "#2F6FB0", "#0B2F5C"], dark: ["#1C222A", "#1F4E7F", "#5B9BD5", "#DCEBFA"] };
export const strongest = () => (isDark() ? "brightest" : "darkest");
const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

// Colours of shares. Asked for once per drawing: whether it is dark takes the browser a while to say.
export function heatScale() {
  const stops = HEAT[isDark() ? "dark" : "light"].map(rgb);
  return (share) => {
    const place = Math.min(Math.max(share || 0, 0), 1) * (stops.length - 1);
    const low = Math.min(Math.floor(place), stops.length - 2);
    return stops[low].map((from, i) => Math.round(from + (place - low) * (stops[low + 1][i] - from)));
  };
}

// Whichever of the two can be read better on it.
export function heatText(share) {
  const dark = isDark();
  return share > (dark ? 0.48 : 0.6) ? (dark ? "#10151b" : "#ffffff") : colour("ink");
}

function prepare(canvas, height) {
  const width = canvas.clientWidth || 300;
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.setProperty("height", `${height}px`);
  const ctx = canvas.getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.font = "11px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  return [ctx, width];
}

const LEFT = 92; // pixels for the names of rows

// `rows`: a list of numbers per epoch. `names`: [{ name, informative }]. Where several epochs fall
// on one pixel their mean is shown.
export function drawOverTime(canvas, epochs, rows, names, { at, log }) {
  const line = names.length > 24 ? 8 : 20;
  const [ctx, width] = prepare(canvas, names.length * line + 20);
  const room = Math.max(Math.floor(width - LEFT - 8), 1);
  const first = log ? Math.max(epochs.find((epoch) => epoch > 0) ?? 1, 1) : epochs[0];
  const last = Math.max(epochs.at(-1), first + 1);
  const scale = (epoch) => (log ? Math.log(Math.max(epoch, first) / first) / Math.log(last / first) : (epoch - first) / (last - first));
  const sums = Array.from({ length: room }, () => null);
  epochs.forEach((epoch, row) => {
    if (!rows[row]) return;
    const x = Math.min(Math.floor(scale(epoch) * room), room - 1);
    sums[x] ??= { count: 0, total: Array(names.length).fill(0) };
    sums[x].count++;
    for (let i = 0; i < names.length; i++) sums[x].total[i] += rows[row][i] || 0;
  });
  const means = sums.map((sum) => sum && sum.total.map((total) => total / sum.count));
  const most = Math.max(1e-9, ...means.flatMap((mean) => mean ?? []));
  const heat = heatScale();
  const known = means.flatMap((mean, x) => (mean ? [x] : []));
  known.forEach((x, place) => means[x].forEach((value, i) => {
    ctx.fillStyle = `rgb(${heat(value / most)})`;
    ctx.fillRect(LEFT + x, i * line, (known[place + 1] ?? room) - x + 0.5, line - 1); // up to the next
  }));
  names.forEach(({ name, informative }, i) => {
    if (line < 10 && i % 4) return;
    ctx.fillStyle = colour(informative ? "ink" : "soft");
    ctx.fillText(name.slice(0, 15), 0, i * line + line / 2);
    if (informative) {
      ctx.strokeStyle = colour("ink");
      ctx.strokeRect(LEFT + 0.5, i * line + 0.5, room - 1, line - 2);
    }
  });
  ctx.fillStyle = colour("soft");
  ctx.fillText(first.toLocaleString("en-GB"), LEFT, names.length * line + 10);
  ctx.textAlign = "right";
  ctx.fillText(`${last.toLocaleString("en-GB")} · ${strongest()}: ${most.toFixed(2)}`, LEFT + room, names.length * line + 10);
  ctx.textAlign = "left";
  if (at !== "") {
    ctx.fillStyle = colour("accent");
    ctx.fillRect(LEFT + scale(Number(at)) * room - 1, 0, 2, names.length * line);
  }
}

// Digits as `scrubbing.grid_of` gives them.
export const PAIRS = {
  1: ["trained, right", "pair-train"], 2: ["trained, wrong", "pair-train-wrong"], 3: ["unseen, right", "pair-right"],
  4: ["unseen, wrong", "pair-wrong"], 5: ["mirror image trained, right", "pair-mirror"], 6: ["mirror image trained, wrong", "pair-mirror-wrong"],
};

export function drawPairs(canvas, grid, chosen, cursor) {
  const side = Math.min(canvas.clientWidth || 300, 340);
  const [ctx] = prepare(canvas, side);
  const size = side / grid.values;
  const colours = Object.fromEntries(Object.entries(PAIRS).map(([digit, [, name]]) => [digit, colour(name)]));
  for (let i = 0; i < grid.cells.length; i++) {
    const fill = colours[grid.cells[i]];
    if (!fill) continue;
    ctx.fillStyle = fill;
    ctx.fillRect((i % grid.values) * size, Math.floor(i / grid.values) * size, size + 0.3, size + 0.3);
    if (chosen.includes(String(grid.examples[i]))) {
      ctx.strokeStyle = colour("ink");
      ctx.lineWidth = 2;
      ctx.strokeRect((i % grid.values) * size, Math.floor(i / grid.values) * size, size, size);
    }
  }
  if (cursor) {
    ctx.strokeStyle = colour("accent");
    ctx.lineWidth = 3;
    ctx.strokeRect(cursor.second * size, cursor.first * size, size, size);
  }
  return (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / size);
    const row = Math.floor((event.clientY - box.top) / size);
    const inside = column >= 0 && row >= 0 && column < grid.values && row < grid.values;
    return inside ? { first: row, second: column } : null;
  };
}

// Values whose angle should be the same have the same hue: on a circle the hues go round once.
export function drawPlane(canvas, plane, values) {
  const side = Math.min(canvas.clientWidth || 300, 340);
  const [ctx] = prepare(canvas, side);
  const most = Math.max(1e-9, ...plane.points.flat().map(Math.abs));
  const place = ([x, y]) => [side / 2 + (x / most) * side * 0.45, side / 2 - (y / most) * side * 0.45];
  ctx.strokeStyle = colour("line");
  ctx.beginPath();
  ctx.moveTo(0, side / 2); ctx.lineTo(side, side / 2); ctx.moveTo(side / 2, 0); ctx.lineTo(side / 2, side);
  ctx.stroke();
  const order = plane.points.map((_, value) => value).sort((a, b) => ((a * plane.frequency) % values) - ((b * plane.frequency) % values));
  ctx.strokeStyle = colour("soft");
  ctx.globalAlpha = 0.35;
  ctx.beginPath();
  order.forEach((value, i) => ctx[i ? "lineTo" : "moveTo"](...place(plane.points[value])));
  ctx.closePath();
  ctx.stroke();
  ctx.globalAlpha = 1;
  plane.points.forEach((point, value) => {
    const [x, y] = place(point);
    ctx.fillStyle = `hsl(${(360 * ((value * plane.frequency) % values)) / values} 65% ${isDark() ? 62 : 45}%)`;
    ctx.beginPath();
    ctx.arc(x, y, 4, 0, 7);
    ctx.fill();
    if (values <= 70) {
      ctx.fillStyle = colour("soft");
      ctx.fillText(String(value), x + 6, y);
    }
  });
}
