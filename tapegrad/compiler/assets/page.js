// The page of a compiled function: its traces, one at a time.

const ROW = 26;
const EDGES = { left: 66, right: 14, top: 24, bottom: 12 };
const SMALL = `11px ${SANS}`;
const COLUMNS = [
  ["#", "56px"], ["Op", "minmax(90px, 1fr)"], ["Inputs", "minmax(120px, 1.5fr)"],
  ["Outputs", "minmax(110px, 1.2fr)"], ["Attributes", "minmax(70px, .8fr)"],
  ["Source line", "minmax(110px, 1.3fr)"], ["Group", "56px"], ["Held", "84px"],
];

const LINE = 4; // where a call has its line

class App {
  constructor(told) {
    this.told = told;
    this.which = "after";
    this.number = 0;
    this.box = byId("table");
    this.names = make("div", { class: "line names", role: "row" });
    this.body = make("div", { role: "rowgroup", style: "position: relative" });
    this.box.append(this.names, this.body);
    byId("trace").append(...told.traces.map((_, n) => make("option", { value: n }, String(n))));
    byId("trace").addEventListener("change", (event) => this.show(Number(event.target.value)));
    for (const which of ["after", "before"])
      byId(`tab-${which}`).addEventListener("click", () => this.open(which));
    this.box.addEventListener("scroll", () => this.drawRows());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      readPalette();
      this.drawMemory();
    });
    new ResizeObserver(() => this.draw()).observe(document.querySelector(".views"));
    this.show(0);
  }

  get trace() {
    return this.told.traces[this.number];
  }

  show(number) {
    this.number = number;
    const { traces } = this.told;
    const calls = this.trace ? `, ${plural(this.trace.calls, "call")} of ${asCount(this.trace.captured)} captured` : "";
    byId("facts").textContent = plural(traces.length, "trace") + calls;
    this.writeDetail();
    this.open(this.which);
  }

  open(which) {
    this.which = which;
    for (const name of ["after", "before"]) byId(`tab-${name}`).setAttribute("aria-selected", name === which);
    const timed = which === "after" && this.trace && this.trace.times;
    // Programs that were captured without lines have no column of them.
    this.hasLines = Boolean(this.trace) && this.trace[which].calls.some((call) => call[LINE]);
    const shown = COLUMNS.filter((_, k) => this.hasLines || k !== LINE + 1);
    const columns = timed ? [...shown, ["Time", "84px"]] : shown;
    this.box.style.setProperty("--columns", columns.map(([, size]) => size).join(" "));
    this.names.replaceChildren(...columns.map(([title]) => make("div", { role: "columnheader" }, title)));
    const count = this.trace ? this.trace[which].calls.length : 0;
    this.body.style.height = `${count * ROW}px`;
    byId("rows").textContent = plural(count, "step");
    this.box.scrollTop = 0;
    this.draw();
  }

  draw() {
    this.drawRows();
    this.drawMemory();
  }

  // Only the rows in sight exist.
  drawRows() {
    const { trace, which } = this;
    if (!trace) {
      this.body.replaceChildren(make("p", { class: "empty" }, "There is no trace yet."));
      return;
    }
    const { calls, live } = trace[which];
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW) - 6);
    const last = Math.min(calls.length, first + Math.ceil(this.box.clientHeight / ROW) + 12);
    const rows = [];
    for (let i = first; i < last; i++) {
      const [op, inputs, outputs, attributes, line, group] = calls[i];
      const lines = this.hasLines ? [line] : [];
      const texts = [i, op, inputs, outputs, attributes, ...lines, group < 0 ? "" : group, asBytes(live[i])];
      if (which === "after" && trace.times) texts.push(asTime(trace.times[i]));
      const cells = texts.map((text) => make("div", { role: "gridcell", title: String(text) }, String(text)));
      rows.push(make("div", { class: "line row", role: "row", style: `top: ${i * ROW}px`,
        "data-group": group < 0 ? null : group, "data-odd": group > 0 && group % 2 === 1 }, ...cells));
    }
    this.body.replaceChildren(...rows);
  }

  drawMemory() {
    const { pen, width, height } = penOf(byId("memory"));
    const { trace } = this;
    if (!trace || !width) return;
    const most = Math.max(trace.peak, trace.arena, 1, trace.after.live[0] || 0);
    const high = height - EDGES.top - EDGES.bottom;
    const yOf = (bytes) => EDGES.top + high * (1 - bytes / most);
    const wide = width - EDGES.left - EDGES.right;
    pen.font = SMALL;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.fillStyle = palette.faint;
    for (const bytes of [0, most]) pen.fillText(asBytes(bytes), EDGES.left - 8, yOf(bytes));
    const [before, after] = [palette.ops[1], palette.accent];
    this.drawLive(pen, trace.before.live, before, wide, yOf);
    this.drawLive(pen, trace.after.live, after, wide, yOf);
    pen.strokeStyle = palette.peak;
    pen.setLineDash([4, 3]);
    pen.strokeRect(EDGES.left, yOf(trace.arena), wide, 0);
    pen.setLineDash([]);
    pen.textAlign = "left";
    let x = EDGES.left;
    for (const [words, colour] of [
      [`as captured, peak ${asBytes(trace.peak)}`, before], ["after the passes: the arena and what outlives the call", after],
      [`arena ${asBytes(trace.arena)}`, palette.peak]]) {
      pen.fillStyle = colour;
      pen.fillText(words, x, 11);
      x += textWidth(words, SMALL) + 22;
    }
  }

  // One point for each pixel, the most that lies under it.
  drawLive(pen, live, colour, wide, yOf) {
    pen.strokeStyle = colour;
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (let px = 0; px <= wide; px++) {
      const first = Math.min(live.length - 1, Math.floor((px / (wide + 1)) * live.length));
      const last = Math.max(first + 1, Math.floor(((px + 1) / (wide + 1)) * live.length));
      let most = 0;
      for (let i = first; i < last; i++) most = Math.max(most, live[i]);
      pen.lineTo(EDGES.left + px, yOf(most));
    }
    pen.stroke();
  }

  // ---- beside the program

  writeDetail() {
    const { told, trace } = this;
    const parts = [];
    const list = (title, texts) => {
      if (!texts.length) return;
      parts.push(make("h3", {}, title),
        make("ul", { class: "list" }, ...texts.slice(0, 500).map((text) => make("li", {}, text))));
      if (texts.length > 500) parts.push(make("p", { class: "dim" }, `and ${asCount(texts.length - 500)} more`));
    };
    if (trace) {
      const [capture, passes, plan] = trace.seconds.map((seconds) => asTime(seconds * 1e6));
      list("Memory", [`${asBytes(trace.arena)} in one arena`, `${asBytes(trace.peak)} at the peak as captured`,
        `${asBytes(trace.made)} without sharing`]);
      list("Compile time", [`capture ${capture}`, `passes ${passes}`, `plan ${plan}`]);
      if (trace.times) list("Time of groups", this.groupTimes());
      list("Guards", trace.guards.map(([value, line]) => `${value}, at ${line}`));
    }
    list("Why no trace held", told.misses.map(([count, why]) => `${count} times: ${why}`));
    list("Calls that ran eagerly", told.eager ? [`from now on: ${told.eager}`, ...told.reasons] : told.reasons);
    if (trace) {
      list("Read anew", trace.lifted);
      list("Watched", trace.watched);
    }
    byId("detail").replaceChildren(...parts);
  }

  groupTimes() {
    const { after, times } = this.trace;
    const sums = new Map();
    after.calls.forEach(([, , , , , group], i) => sums.set(group, (sums.get(group) || 0) + (times[i] || 0)));
    const words = [...sums].sort((a, b) => b[1] - a[1])
      .map(([group, us]) => `${group < 0 ? "calls in no group" : `group ${group}`}: ${asTime(us)}`);
    return [...words, "Measured by running the calls one by one on zeros, with dispatch; the plan is faster."];
  }
}

async function start() {
  try {
    readPalette();
    window.compilePage = new App(await readDocument());
  } catch (error) {
    byId("facts").textContent = `This page cannot be shown: ${error.message}`;
    throw error;
  }
}

start();
