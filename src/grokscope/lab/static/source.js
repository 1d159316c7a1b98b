// Where numbers come from: the server, or, in a shared file, what was put into it.

const chest = document.getElementById("frozen");
export const frozen = chest ? JSON.parse(chest.textContent) : null;
export const details = new Map(); // by run: what the server says of it
export const curves = new Map(); // by run: { rows, epoch: [], columns: { name: [] }, packed: [] }
const pictures = new Map(); // snapshots that were looked at

export async function ask(path) {
  if (frozen) {
    if (path in frozen.answers) return frozen.answers[path];
    throw new Error("This file holds one view; open the lab for more.");
  }
  return read(await fetch(`/api/${path}`));
}

export async function send(path, body) {
  if (frozen) throw new Error("This file can be looked at, not worked with; open the lab.");
  const options = { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const answer = await read(await fetch(`/api/${path}`, options));
  dispatchEvent(new Event("ordered"));
  return answer;
}

async function read(response) {
  const data = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(data.error ?? `The lab answered ${response.status}.`);
  return data;
}

export async function loadRun(run) {
  details.set(run, await ask(`run/${run}`));
  return details.get(run);
}

// Only rows that are not here yet are fetched.
const growing = new Map();
export function grow(run) {
  const waiting = (growing.get(run) ?? Promise.resolve()).then(() => growNow(run));
  growing.set(run, waiting.catch(() => {}));
  return waiting;
}

async function growNow(run) {
  const have = curves.get(run)?.rows ?? 0;
  let buffers;
  if (frozen) buffers = have ? [] : (frozen.rows[run] ?? []).map(fromBase64);
  else {
    const response = await fetch(`/api/rows/${run}?from=${have}`);
    if (!response.ok) await read(response);
    buffers = [await response.arrayBuffer()];
  }
  for (const buffer of buffers) append(run, buffer);
  return curves.get(run);
}

function append(run, buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  let curve = curves.get(run);
  if (!curve || head.from < curve.rows) curve = { rows: 0, epoch: [], columns: {}, packed: [] };
  if (head.rows) {
    let offset = 4 + size;
    for (const epoch of new Float64Array(buffer, offset, head.rows)) curve.epoch.push(epoch);
    offset += 8 * head.rows;
    for (const { name, width } of head.columns) {
      const numbers = new Float32Array(buffer, offset, head.rows * (width || 1));
      offset += numbers.byteLength;
      const column = (curve.columns[name] ??= Array(curve.rows).fill(null));
      for (let row = 0; row < head.rows; row++) {
        if (width) column.push(numbers.subarray(row * width, (row + 1) * width));
        else column.push(Number.isFinite(numbers[row]) ? numbers[row] : null);
      }
    }
    curve.rows += head.rows;
    curve.packed.push(buffer);
  }
  curves.set(run, curve);
}

export async function picture(run, epoch, examples) {
  const path = `snapshot/${run}/${epoch}${examples.length ? `?examples=${examples.join(",")}` : ""}`;
  if (!pictures.has(path)) {
    pictures.set(path, ask(path));
    pictures.get(path).catch(() => pictures.delete(path));
    if (pictures.size > 400) pictures.delete(pictures.keys().next().value);
  }
  return pictures.get(path);
}

export function listen(tell, tellLink) {
  if (frozen) return;
  const stream = new EventSource("/api/stream");
  stream.onmessage = (event) => tell(JSON.parse(event.data));
  stream.onopen = () => tellLink("");
  stream.onerror = () => tellLink("The lab's server is not reachable; runs go on without it.");
}

export function toBase64(buffer) {
  const bytes = new Uint8Array(buffer);
  let text = "";
  for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return btoa(text);
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
}
