// The tape as columns: what the page was given, and what follows from it.

const asArray = (kind, values) => kind.from(values);

async function readDocument() {
  const text = atob(document.getElementById("data").textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

// Turns counts into starts: the values of entry i stand at start[i] to start[i + 1].
function startsOf(counts) {
  const starts = new Int32Array(counts.length + 1);
  for (let i = 0; i < counts.length; i++) starts[i + 1] = starts[i] + counts[i];
  return starts;
}

class Tape {
  constructor(packed) {
    const p = packed;
    this.title = p.title;
    this.memory = p.memory || {};
    this.count = p.op.length;
    this.strings = p.strings;
    this.types = p.types.map(([dtype, device, ...shape]) => {
      const type = `${p.strings[dtype]}[${shape.join(", ")}]`;
      return p.strings[device] === "cpu" ? type : `${type} on ${p.strings[device]}`;
    });
    for (const name of ["op", "name", "module", "line", "leaf"]) this[name] = asArray(Int32Array, p[name]);
    this.sequence = new Float64Array(this.count);
    for (let i = 0, sum = 0; i < this.count; i++) this.sequence[i] = sum += p.sequence[i];
    this.inStart = startsOf(p.in_count);
    this.inFrom = asArray(Int32Array, p.in_from);
    for (let i = 0; i < this.count; i++)
      for (let k = this.inStart[i]; k < this.inStart[i + 1]; k++)
        this.inFrom[k] = this.inFrom[k] ? i - this.inFrom[k] : -1;
    this.inOutput = asArray(Int32Array, p.in_output);
    this.outStart = startsOf(p.out_count);
    this.outType = asArray(Int32Array, p.out_type);
    this.savedStart = startsOf(p.saved_count);
    for (const name of ["name", "role", "type", "storage", "state"])
      this[`saved_${name}`] = asArray(Int32Array, p[`saved_${name}`]);
    this.savedBytes = asArray(Float64Array, p.saved_bytes);
    this.bytes = asArray(Float64Array, p.bytes);
    this.forward = p.forward_us;
    this.backward = p.backward_us;
    this.source = p.source || {};
    this.fullLines = p.lines || {}; // by their short forms, where they differ
    this.total = 0;
    this.most = 0;
    for (const bytes of this.bytes) {
      this.total += bytes;
      this.most = Math.max(this.most, bytes);
    }
    this.findConsumers();
    this.findStorages();
    this.findLiveBytes();
    this.rankOps();
  }

  text(column, i) {
    const at = this[column][i];
    return at < 0 ? "" : this.strings[at];
  }

  // The line's place without its function, "train.py:12", and the source text of it, if known.
  place(i) {
    const line = this.text("line", i);
    const cut = line.indexOf(", in ");
    return cut < 0 ? line : line.slice(0, cut);
  }

  output(i) {
    return this.outStart[i] < this.outStart[i + 1] ? this.types[this.outType[this.outStart[i]]] : "";
  }

  time(column, i) {
    const value = this[column] ? this[column][i] : null;
    return value === undefined ? null : value;
  }

  findConsumers() {
    const counts = new Int32Array(this.count);
    for (const from of this.inFrom) if (from >= 0) counts[from]++;
    this.useStart = startsOf(counts);
    this.useBy = new Int32Array(this.useStart[this.count]);
    const next = this.useStart.slice();
    for (let i = 0; i < this.count; i++)
      for (let k = this.inStart[i]; k < this.inStart[i + 1]; k++)
        if (this.inFrom[k] >= 0) this.useBy[next[this.inFrom[k]]++] = i;
  }

  // For each storage: who pays for it, and the lowest entry that saved it, which is the last to run.
  findStorages() {
    let most = -1;
    for (const storage of this.saved_storage) most = Math.max(most, storage);
    this.storagePayer = new Int32Array(most + 1).fill(-1);
    this.storageLast = new Int32Array(most + 1).fill(-1);
    for (let i = this.count - 1; i >= 0; i--)
      for (let k = this.savedStart[i]; k < this.savedStart[i + 1]; k++) {
        const storage = this.saved_storage[k];
        this.storageLast[storage] = i;
        if (this.savedBytes[k] > 0) this.storagePayer[storage] = i;
      }
  }

  // Live bytes after each of 2n steps: the entries forward, then the entries in reverse.
  findLiveBytes() {
    const n = this.count;
    const freed = new Float64Array(n);
    this.lastUse = new Int32Array(n); // the entry whose sweep frees the last of what i pays for
    for (let i = 0; i < n; i++) {
      let last = i;
      for (let k = this.savedStart[i]; k < this.savedStart[i + 1]; k++) {
        const user = this.storageLast[this.saved_storage[k]];
        freed[user] += this.savedBytes[k];
        if (this.savedBytes[k] > 0) last = Math.min(last, user);
      }
      this.lastUse[i] = last;
    }
    this.live = new Float64Array(2 * n);
    let live = 0;
    this.peak = 0;
    this.peakStep = 0;
    for (let step = 0; step < 2 * n; step++) {
      live += step < n ? this.bytes[step] : -freed[2 * n - 1 - step];
      this.live[step] = live;
      if (live > this.peak) [this.peak, this.peakStep] = [live, step];
    }
  }

  // Ops by bytes: the first seven have colours of their own, the others share the eighth.
  rankOps() {
    const sums = new Map();
    for (let i = 0; i < this.count; i++)
      sums.set(this.op[i], (sums.get(this.op[i]) || 0) + this.bytes[i]);
    this.opsByBytes = [...sums].sort((a, b) => b[1] - a[1]);
    const colour = new Map(this.opsByBytes.map(([op, bytes], rank) => [op, bytes ? Math.min(rank, 7) : 7]));
    this.colour = Uint8Array.from(this.op, (op) => colour.get(op));
  }

  // Which entry a step of the timeline runs.
  entryAt(step) {
    return step < this.count ? step : 2 * this.count - 1 - step;
  }
}

// ---- words

function threeDigits(value) {
  const size = Math.abs(value);
  return value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

function asBytes(count) {
  if (Math.abs(count) < 1024) return `${count} B`;
  for (const unit of ["KiB", "MiB", "GiB", "TiB"]) {
    count /= 1024;
    if (Math.abs(count) < 1023.5) return `${threeDigits(count)} ${unit}`;
  }
  return `${threeDigits(count / 1024)} PiB`;
}

const asCount = (count) => count.toLocaleString("en-US");
const plural = (count, word) => `${asCount(count)} ${count === 1 ? word : word.replace(/y$/, "ie") + "s"}`;

function asTime(us) {
  if (us === null) return "";
  if (us < 1000) return `${threeDigits(us)} µs`;
  return us < 1e6 ? `${threeDigits(us / 1000)} ms` : `${threeDigits(us / 1e6)} s`;
}

function asShare(part, whole) {
  if (!whole || !part) return "0 %";
  const percent = (100 * part) / whole;
  return percent < 0.1 ? "< 0.1 %" : `${percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

// ---- elements and canvases

// Makes an element; text goes in as text, never as markup.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

const swatch = (rank) => make("span", { class: "swatch", style: `background: var(--c${rank})` });
const byId = (id) => document.getElementById(id);

let palette = {};
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const names = "back card ink dim faint rule edge accent soft peak frame mark frameEdge".split(" ");
  palette = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  palette.ops = Array.from({ length: 8 }, (_, i) => style.getPropertyValue(`--c${i}`).trim());
}

// Sizes a canvas for the screen's pixels and returns its pen with its width and height.
function penOf(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

const SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const widths = new Map();
const ruler = document.createElement("canvas").getContext("2d");
function textWidth(text, font) {
  const key = font + text;
  let width = widths.get(key);
  if (width === undefined) {
    ruler.font = font;
    widths.set(key, (width = ruler.measureText(text).width));
  }
  return width;
}

// Shortens a text to a width, at its end.
function clipped(text, font, width) {
  if (textWidth(text, font) <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(`${text.slice(0, middle)}…`, font) <= width) low = middle;
    else high = middle - 1;
  }
  return low ? `${text.slice(0, low)}…` : "";
}
