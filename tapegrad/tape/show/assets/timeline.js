// The tape as a timeline: live saved bytes after every step, forward and then backward.

const EDGES = { left: 66, right: 14, top: 22, bottom: 22 };

class TimelineView {
  constructor(app) {
    this.app = app;
    this.canvas = byId("timeline");
    this.canvas.setAttribute("aria-valuemax", Math.max(0, app.tape.count - 1));
    this.steps = 2 * app.tape.count;
    this.range = [0, this.steps]; // the steps that are shown
    this.listen();
  }

  // ---- from steps to pixels and back

  xOf(step) {
    const [from, to] = this.range;
    return EDGES.left + ((step - from) / (to - from)) * this.wide;
  }

  stepAt(x) {
    const [from, to] = this.range;
    const step = Math.floor(from + ((x - EDGES.left) / this.wide) * (to - from));
    return Math.max(0, Math.min(this.steps - 1, step));
  }

  // Under one pixel may lie many steps: take the one that changes the bytes most.
  heaviestAt(x) {
    const { tape } = this.app;
    const [first, last] = [this.stepAt(x), Math.max(this.stepAt(x), this.stepAt(x + 1) - 1)];
    let best = first;
    const change = (step) => Math.abs(tape.live[step] - (step ? tape.live[step - 1] : 0));
    for (let step = first; step <= last; step++) if (change(step) > change(best)) best = step;
    return tape.entryAt(best);
  }

  // ---- drawing

  draw() {
    const { pen, width, height } = penOf(this.canvas);
    const { tape } = this.app;
    this.wide = Math.max(1, width - EDGES.left - EDGES.right);
    this.high = Math.max(1, height - EDGES.top - EDGES.bottom);
    this.base = EDGES.top + this.high;
    if (!width || !tape.count) return;
    const yOf = (bytes) => this.base - (tape.peak ? bytes / tape.peak : 0) * this.high;
    this.drawAxis(pen, width, yOf);
    pen.save();
    pen.beginPath();
    pen.rect(EDGES.left, 0, this.wide + 1, height);
    pen.clip();
    this.drawLifetime(pen);
    this.drawArea(pen, yOf);
    this.drawMatches(pen);
    pen.restore();
    this.drawTurn(pen);
    this.drawPeak(pen, width, yOf);
    for (const [entry, colour] of [[this.app.selected, palette.accent], [this.app.hover, palette.ink]])
      if (entry >= 0) this.drawMark(pen, entry, colour, yOf);
  }

  drawAxis(pen, width, yOf) {
    const { tape } = this.app;
    pen.font = SMALL;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.strokeStyle = palette.rule;
    pen.lineWidth = 1;
    for (const bytes of ticksOf(tape.peak, 3)) {
      const y = Math.round(yOf(bytes)) + 0.5;
      pen.beginPath();
      pen.moveTo(EDGES.left, y);
      pen.lineTo(width - EDGES.right, y);
      pen.stroke();
      pen.fillStyle = palette.faint;
      pen.fillText(asBytes(bytes), EDGES.left - 8, y);
    }
  }

  drawArea(pen, yOf) {
    const { tape } = this.app;
    const [from, to] = this.range;
    const perPixel = (to - from) / this.wide;
    const line = new Path2D();
    line.moveTo(this.xOf(from), this.base);
    if (perPixel > 1)
      for (let px = 0; px <= this.wide; px++) {
        const first = Math.max(0, Math.floor(from + px * perPixel));
        const last = Math.min(this.steps, Math.max(first + 1, Math.floor(from + (px + 1) * perPixel)));
        let most = 0;
        for (let step = first; step < last; step++) if (tape.live[step] > most) most = tape.live[step];
        line.lineTo(EDGES.left + px, yOf(most));
      }
    else
      for (let step = Math.floor(from); step < Math.min(this.steps, Math.ceil(to)); step++) {
        line.lineTo(this.xOf(step), yOf(tape.live[step]));
        line.lineTo(this.xOf(step + 1), yOf(tape.live[step]));
      }
    const area = new Path2D(line);
    area.lineTo(this.xOf(Math.min(to, this.steps)), this.base);
    pen.globalAlpha = 0.16;
    pen.fillStyle = palette.accent;
    pen.fill(area);
    pen.globalAlpha = 1;
    pen.strokeStyle = palette.accent;
    pen.lineWidth = 1.5;
    pen.stroke(line);
  }

  // Where the values that the selected entry pays for are alive.
  drawLifetime(pen) {
    const { tape, selected } = this.app;
    if (selected < 0 || !tape.bytes[selected]) return;
    const [born, freed] = [this.xOf(selected), this.xOf(this.steps - tape.lastUse[selected])];
    pen.globalAlpha = 0.6;
    pen.fillStyle = palette.soft;
    pen.fillRect(born, EDGES.top, freed - born, this.high);
    pen.globalAlpha = 1;
  }

  drawMatches(pen) {
    const { matches } = this.app;
    if (!matches) return;
    pen.fillStyle = palette.mark;
    let last = -1;
    const tick = (step) => {
      const x = Math.round(this.xOf(step + 0.5));
      if (x !== last) pen.fillRect(x - 1, this.base - 1, 2, 5);
      last = x;
    };
    for (const i of matches) tick(i);
    for (let k = matches.length - 1; k >= 0; k--) tick(this.steps - 1 - matches[k]);
  }

  drawTurn(pen) {
    const x = Math.round(this.xOf(this.app.tape.count)) + 0.5;
    pen.font = SMALL;
    pen.fillStyle = palette.dim;
    pen.textBaseline = "alphabetic";
    const y = this.base + 15;
    if (x < EDGES.left || x > EDGES.left + this.wide) {
      pen.textAlign = "center";
      pen.fillText(x < EDGES.left ? "backward" : "forward", EDGES.left + this.wide / 2, y);
      return;
    }
    pen.strokeStyle = palette.edge;
    pen.setLineDash([3, 3]);
    pen.beginPath();
    pen.moveTo(x, EDGES.top - 4);
    pen.lineTo(x, this.base + 16);
    pen.stroke();
    pen.setLineDash([]);
    pen.textAlign = "right";
    pen.fillText("forward →", x - 8, y);
    pen.textAlign = "left";
    pen.fillText("backward →", x + 8, y);
  }

  drawPeak(pen, width, yOf) {
    const { tape } = this.app;
    const x = this.xOf(tape.peakStep + (this.range[1] - this.range[0] < this.wide ? 0.5 : 1));
    if (!tape.peak || x < EDGES.left - 1 || x > EDGES.left + this.wide + 1) return;
    pen.fillStyle = palette.peak;
    pen.beginPath();
    pen.arc(x, yOf(tape.peak), 4, 0, 7);
    pen.fill();
    const when = tape.peakStep < tape.count ? "after" : "in the sweep of";
    const words = `peak ${asBytes(tape.peak)}, ${when} #${tape.entryAt(tape.peakStep)}`;
    pen.font = BOLD;
    const room = textWidth(words, BOLD);
    pen.textBaseline = "middle";
    pen.textAlign = x + room + 12 < width ? "left" : "right";
    pen.fillText(words, x + (pen.textAlign === "left" ? 8 : -8), EDGES.top - 9);
  }

  drawMark(pen, entry, colour, yOf) {
    const { tape } = this.app;
    for (const step of [entry, this.steps - 1 - entry]) {
      const x = Math.round(this.xOf(step + (this.steps < this.wide ? 0.5 : 0))) + 0.5;
      if (x < EDGES.left || x > EDGES.left + this.wide) continue;
      pen.strokeStyle = pen.fillStyle = colour;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(x, EDGES.top);
      pen.lineTo(x, this.base);
      pen.stroke();
      pen.beginPath();
      pen.arc(x, yOf(tape.live[step]), 3, 0, 7);
      pen.fill();
    }
  }

  // ---- pointer

  zoom(factor, x) {
    const [from, to] = this.range;
    const at = from + ((x - EDGES.left) / this.wide) * (to - from);
    const span = Math.min(this.steps, Math.max(8, (to - from) * factor));
    this.slide(at - ((at - from) / (to - from)) * span, span);
  }

  slide(from, span) {
    const start = Math.max(0, Math.min(this.steps - span, from));
    this.range = [start, start + span];
    this.app.redraw();
  }

  listen() {
    const { canvas, app } = this;
    let drag = null;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY)) * 0.0025), event.offsetX);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, far: false, from: this.range[0] };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (drag && (drag.far || Math.abs(event.clientX - drag.x) > 4)) {
        drag.far = true;
        const span = this.range[1] - this.range[0];
        this.slide(drag.from - ((event.clientX - drag.x) / this.wide) * span, span);
      } else if (app.tape.count) app.setHover(this.heaviestAt(event.offsetX));
    });
    canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.far && app.tape.count) app.select(this.heaviestAt(event.offsetX), { from: "timeline" });
      drag = null;
    });
    canvas.addEventListener("pointercancel", () => (drag = null));
    canvas.addEventListener("pointerleave", () => app.setHover(-1));
    canvas.addEventListener("dblclick", () => {
      this.range = [0, this.steps];
      app.redraw();
    });
  }

  // Keeps the selected entry in sight when the timeline shows a part only.
  follow(entry) {
    const [from, to] = this.range;
    const span = to - from;
    const inside = (step) => step >= from && step < to;
    if (!inside(entry) && !inside(this.steps - 1 - entry)) this.slide(entry - span / 2, span);
  }
}

// Round numbers of bytes up to a limit, about as many as asked for.
function ticksOf(most, count) {
  if (!most) return [0];
  let step = 2 ** Math.floor(Math.log2(most / count));
  while (most / step > count + 1) step *= 2;
  const ticks = [];
  for (let bytes = 0; bytes <= most; bytes += step) ticks.push(bytes);
  return ticks;
}
