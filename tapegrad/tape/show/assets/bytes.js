// The map of bytes: nested rectangles whose areas are saved bytes, by module, source line or op.

const LEAST_SIDE = 3; // pixels; a smaller rectangle is not divided further
const HEAD = 17;

class BytesView {
  constructor(app) {
    this.app = app;
    this.canvas = byId("bytes");
    this.trees = {};
    this.by = "module";
    this.at = null; // the node that fills the canvas
    this.over = null;
    this.fillLegend();
    this.listen();
  }

  // ---- trees: { name, bytes, children | entry, parent }

  get tree() {
    return (this.trees[this.by] = this.trees[this.by] || this.build(this.by));
  }

  // The names on the way to an entry, from the outside in.
  wayTo(i) {
    const { tape } = this.app;
    if (this.by === "op") return [tape.text("op", i)];
    if (this.by === "module") return tape.text("module", i).split(".").filter(Boolean);
    const place = tape.place(i);
    const cut = place.lastIndexOf(":");
    return cut < 0 ? [place || "no line"] : [place.slice(0, cut), tape.text("line", i)];
  }

  build(by) {
    const { tape } = this.app;
    const grown = (name, parent) => ({ name, parent, bytes: 0, parts: new Map(), own: [] });
    const root = grown(`all, by ${by === "line" ? "source line" : by}`, null);
    for (let i = 0; i < tape.count; i++) {
      const bytes = tape.bytes[i];
      if (!bytes) continue;
      let node = root;
      node.bytes += bytes;
      for (const name of this.wayTo(i)) {
        let next = node.parts.get(name);
        if (!next) node.parts.set(name, (next = grown(name, node)));
        next.bytes += bytes;
        node = next;
      }
      node.own.push({ name: tape.text("op", i), bytes, entry: i, parent: node });
    }
    const finish = (node) => {
      node.children = [...node.parts.values(), ...node.own].sort((a, b) => b.bytes - a.bytes);
      for (const part of node.parts.values()) finish(part);
      node.parts = node.own = null;
    };
    finish(root);
    return root;
  }

  pathOf(node) {
    const names = [];
    for (let n = node; n && n.parent; n = n.parent) names.unshift(n.name);
    return this.by === "line" ? names[names.length - 1] || "" : names.join(".");
  }

  // ---- drawing

  draw() {
    const { pen, width, height } = penOf(this.canvas);
    if (!width || !height) return;
    this.at = this.at || this.tree;
    this.paint(width, height);
    pen.drawImage(this.picture, 0, 0, width, height);
    const { app } = this;
    if (this.over && this.over.entry === undefined) {
      const head = this.heads.find(({ node }) => node === this.over);
      if (head) this.outline(pen, head, palette.accent, 2);
    }
    for (const [entry, thick] of [[app.hover, 1.5], [app.selected, 3]]) {
      const rect = entry >= 0 && this.rectOf.get(entry);
      if (rect) this.outline(pen, rect, palette.ink, thick);
    }
    this.writeCrumbs();
  }

  outline(pen, { x, y, w, h }, colour, thick) {
    pen.strokeStyle = colour;
    pen.lineWidth = thick;
    pen.strokeRect(x + 0.5, y + 0.5, Math.max(2, w - 2), Math.max(2, h - 2));
  }

  // Paints the rectangles aside, once for all frames in which only the cursor moves.
  paint(width, height) {
    const ratio = window.devicePixelRatio || 1;
    const key = [width, height, ratio, palette.ink];
    const same = this.painted && key.every((value, k) => value === this.painted[k]);
    if (same && this.paintedAt === this.at && this.paintedFor === this.app.matched) return;
    [this.painted, this.paintedAt, this.paintedFor] = [key, this.at, this.app.matched];
    this.picture = document.createElement("canvas");
    [this.picture.width, this.picture.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    const pen = this.picture.getContext("2d");
    pen.scale(ratio, ratio);
    this.rects = [];
    this.heads = [];
    if (!this.at.bytes) {
      pen.font = `13px ${SANS}`;
      pen.fillStyle = palette.dim;
      pen.textAlign = "center";
      pen.fillText("This tape saved no bytes.", width / 2, height / 2);
    } else this.divide(this.at, 8, 4, width - 16, height - 8, 0);
    this.rectOf = new Map(this.rects.map((rect) => [rect.node.entry, rect]));
    for (const rect of this.heads) this.drawHead(pen, rect);
    for (const rect of this.rects) this.drawRect(pen, rect);
  }

  // Gives a node its rectangle, and its children theirs.
  divide(node, x, y, w, h, depth) {
    if (node.entry !== undefined || w < LEAST_SIDE || h < LEAST_SIDE || node.children.length === 0) {
      this.rects.push({ node, x, y, w, h });
      return;
    }
    const head = depth > 0 && w > 44 && h > HEAD + 10 ? HEAD : 0;
    const pad = depth > 0 && w > 16 && h > 16 ? 2 : 0;
    if (depth > 0) this.heads.push({ node, x, y, w, h, head, depth });
    const [left, top] = [x + pad, y + (head || pad)];
    const [wide, high] = [w - 2 * pad, h - (head || pad) - pad];
    squarify(node.children, node.bytes, left, top, wide, high, (child, cx, cy, cw, ch) =>
      this.divide(child, cx, cy, cw, ch, depth + 1));
  }

  drawHead(pen, { node, x, y, w, h, head, depth }) {
    pen.fillStyle = depth % 2 ? palette.frame : palette.card;
    pen.strokeStyle = palette.rule;
    pen.lineWidth = 1;
    if (!head) {
      pen.fillRect(x, y, w, h);
      return;
    }
    pen.beginPath();
    pen.roundRect(x + 0.5, y + 0.5, w - 1, h - 1, 4);
    pen.fill();
    pen.stroke();
    pen.font = BOLD;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.fillStyle = palette.ink;
    const name = clipped(node.name, BOLD, w - 12);
    pen.fillText(name, x + 6, y + 9);
    const amount = asBytes(node.bytes);
    pen.font = SMALL;
    pen.fillStyle = palette.dim;
    if (textWidth(name, BOLD) + textWidth(amount, SMALL) + 22 < w) {
      pen.textAlign = "right";
      pen.fillText(amount, x + w - 6, y + 9);
    }
  }

  drawRect(pen, { node, x, y, w, h }) {
    const { app } = this;
    const isEntry = node.entry !== undefined;
    const dimmed = isEntry && app.matched && !app.matched[node.entry];
    pen.globalAlpha = dimmed ? 0.18 : 0.85;
    pen.fillStyle = isEntry ? palette.ops[app.tape.colour[node.entry]] : palette.ops[7];
    const gap = w > 5 && h > 5 ? 1 : 0;
    pen.fillRect(x, y, Math.max(0.5, w - gap), Math.max(0.5, h - gap));
    pen.globalAlpha = dimmed ? 0.4 : 1;
    if (isEntry && w > 34 && h > 16) {
      pen.fillStyle = "#fff";
      pen.textAlign = "left";
      pen.textBaseline = "top";
      pen.font = SMALL;
      pen.fillText(clipped(node.name, SMALL, w - 8), x + 4, y + 4);
      const amount = asBytes(node.bytes);
      if (h > 32 && textWidth(amount, SMALL) < w - 6) pen.fillText(amount, x + 4, y + 18);
    }
    pen.globalAlpha = 1;
  }

  writeCrumbs() {
    const way = [];
    for (let node = this.at; node; node = node.parent) way.unshift(node);
    const over = this.over && this.over.entry === undefined ? this.over : null;
    const key = way.map((node) => node.name).join("/") + (over ? this.pathOf(over) : "");
    if (key === this.written) return;
    this.written = key;
    const parts = way.flatMap((node, k) => {
      const last = k === way.length - 1;
      const words = last ? `${node.name} · ${asBytes(node.bytes)}` : node.name;
      const part = last ? make("span", {}, words) : make("button", { onclick: () => this.enter(node) }, words);
      return k ? [" / ", part] : [part];
    });
    if (over) {
      const share = asShare(over.bytes, this.app.tape.total);
      parts.push(make("span", { class: "dim" }, ` — ${this.pathOf(over)}: ${asBytes(over.bytes)}, ${share}`));
    }
    byId("crumbs").replaceChildren(...parts);
  }

  fillLegend() {
    const { tape } = this.app;
    const items = tape.opsByBytes.filter(([, bytes]) => bytes > 0);
    const shown = items.slice(0, 7).map(([op, bytes], rank) => [tape.strings[op], bytes, rank]);
    const rest = items.slice(7).reduce((sum, [, bytes]) => sum + bytes, 0);
    if (rest) shown.push(["others", rest, 7]);
    byId("legend").replaceChildren(...shown.map(([name, bytes, rank]) =>
      make("li", {}, swatch(rank), `${name} ${asShare(bytes, tape.total)}`)));
  }

  // ---- pointer

  find(x, y) {
    const holds = (rect) => x >= rect.x && x < rect.x + rect.w && y >= rect.y && y < rect.y + rect.h;
    const hit = (this.rects || []).find(holds);
    if (hit) return hit.node;
    let found = null;
    for (const head of this.heads || []) if (holds(head)) found = head.node; // the innermost comes last
    return found;
  }

  enter(node) {
    this.at = node;
    this.over = null;
    this.app.redraw();
  }

  leave() {
    if (this.at && this.at.parent) this.enter(this.at.parent);
  }

  choose(by) {
    this.by = by;
    this.at = this.over = null;
    for (const button of document.querySelectorAll("[data-by]")) {
      const chosen = button.dataset.by === by;
      button.setAttribute("aria-checked", chosen);
      button.tabIndex = chosen ? 0 : -1;
    }
    this.app.redraw();
  }

  listen() {
    const { canvas, app } = this;
    canvas.addEventListener("pointermove", (event) => {
      const node = this.find(event.offsetX, event.offsetY);
      if (node !== this.over) {
        this.over = node;
        app.redraw();
      }
      app.setHover(node && node.entry !== undefined ? node.entry : -1);
    });
    canvas.addEventListener("pointerleave", () => {
      this.over = null;
      app.setHover(-1);
      app.redraw();
    });
    canvas.addEventListener("click", (event) => {
      const node = this.find(event.offsetX, event.offsetY);
      if (!node) return;
      if (node.entry !== undefined) app.select(node.entry, { from: "bytes" });
      else this.enter(node === this.at ? node.parent || node : node);
    });
    const buttons = [...document.querySelectorAll("[data-by]")];
    buttons.forEach((button, k) => {
      button.addEventListener("click", () => this.choose(button.dataset.by));
      button.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        event.stopPropagation();
        const next = buttons[(k + step + buttons.length) % buttons.length];
        next.focus();
        this.choose(next.dataset.by);
      });
    });
  }
}

// Divides a rectangle among items, largest first, into parts as near to squares as rows allow.
function squarify(items, total, x, y, w, h, place) {
  let [from, left] = [0, total];
  while (from < items.length && left > 0 && w > 0.2 && h > 0.2) {
    const side = Math.min(w, h);
    const scale = (w * h) / left;
    let [to, sum, worst] = [from, 0, Infinity];
    while (to < items.length) {
      const next = sum + items[to].bytes * scale;
      const thick = next / side;
      const [first, last] = [items[from].bytes * scale, items[to].bytes * scale];
      const ratio = Math.max(first / thick / thick, (thick * thick) / last);
      if (ratio > worst) break;
      [sum, worst, to] = [next, ratio, to + 1];
    }
    const thick = sum / side;
    let along = 0;
    for (let k = from; k < to; k++) {
      const long = (items[k].bytes * scale) / thick;
      if (w >= h) place(items[k], x, y + along, thick, long);
      else place(items[k], x + along, y, long, thick);
      along += long;
      left -= items[k].bytes;
    }
    if (w >= h) [x, w] = [x + thick, w - thick];
    else [y, h] = [y + thick, h - thick];
    from = to;
  }
}
