// The graph: boxes of the layout on a canvas, with a view that zooms and moves.

const BOLD = `600 12px ${SANS}`;
const SMALL = `11px ${SANS}`;
const LEAST_TEXT = 5; // pixels on the screen; smaller text is left out
const MOST_BOXES = 4000; // that a button opens at once
const LEAST_OPEN = 46; // an open group that is smaller on the screen is drawn closed

class GraphView {
  constructor(app) {
    this.app = app;
    this.canvas = byId("graph");
    this.view = { x: 0, y: 0, scale: 1 };
    this.hoverGroup = null;
    this.touched = false; // until the user moves, the graph is fitted to its window
    const { tape } = app;
    const shown = (i) => shown.leaves || tape.leaf[i] < 0;
    shown.leaves = tape.count <= 300;
    this.shown = shown;
    byId("leaves").checked = shown.leaves;
    app.modules.openFirst(shown);
    this.listen();
  }

  // ---- sizes and words of boxes

  wordsOf(item) {
    const { tape, modules } = this.app;
    if (typeof item !== "number")
      return [item.name, `${plural(item.count, "entry")} · ${asBytes(item.bytes)}`];
    const leaf = tape.text("leaf", item);
    if (tape.leaf[item] >= 0) {
      const group = modules.parent[item];
      const known = group.path && leaf.startsWith(`${group.path}.`);
      return [(known ? leaf.slice(group.path.length + 1) : leaf) || "leaf", ""];
    }
    const shape = tape.output(item).replace(/^\w*\[/, "").replace("]", "").replaceAll(", ", "×");
    const bytes = tape.bytes[item] ? asBytes(tape.bytes[item]) : "";
    return [tape.text("op", item), [shape, bytes].filter(Boolean).join(" · ")];
  }

  sizeOf(item) {
    const [name, note] = this.wordsOf(item);
    const isGroup = typeof item !== "number";
    if (!note) return [Math.max(44, textWidth(name, BOLD) + 24), 26];
    const width = Math.max(textWidth(name, BOLD) + (isGroup ? 22 : 0), textWidth(note, SMALL)) + 26;
    return [Math.min(320, Math.max(84, width)), isGroup ? 48 : 40];
  }

  layout() {
    this.hoverGroup = null;
    this.made = new Layout(this.app.modules, this.shown, (item) => this.sizeOf(item));
    const next = this.app.modules.boxesIfOpened(this.shown);
    byId("expand").disabled = next.closed === 0 || next.boxes > MOST_BOXES;
    const many = `The next level has ${asCount(next.boxes)} boxes: open modules one by one`;
    byId("expand").title = next.boxes > MOST_BOXES ? many : "Open one more level of modules";
    this.byGroup = new Map();
    for (const edge of this.made.edges) {
      const list = this.byGroup.get(edge.group);
      if (list) list.push(edge);
      else this.byGroup.set(edge.group, [edge]);
    }
  }

  // ---- view

  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width) return;
    if (!this.made) this.layout();
    const all = this.made.boxes.get(this.app.modules.root.id);
    const scale = Math.min((width - 24) / all.width, (height - 24) / all.height, 1.1);
    const y = Math.max(12, (height - all.height * scale) / 2);
    this.view = { scale, x: (width - all.width * scale) / 2, y };
    this.touched = false;
  }

  // At first: the whole graph if it can be read, or else its beginning.
  fitFirst() {
    this.fit();
    const least = 0.55;
    if (this.view.scale >= least) return;
    const all = this.made.boxes.get(this.app.modules.root.id);
    const { clientWidth: width } = this.canvas;
    const scale = Math.max(least, Math.min(1, (width - 24) / all.width));
    const first = this.firstBox() || all;
    const centre = all.width * scale <= width ? all.width / 2 : first.x + first.width / 2;
    this.view = { scale, x: width / 2 - centre * scale, y: 12 };
  }

  firstBox() {
    let top = null;
    for (const [id, box] of this.made.boxes)
      if (id !== this.app.modules.root.id && (!top || box.y < top.y)) top = box;
    return top;
  }

  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const { view } = this;
    const scale = Math.min(3, Math.max(0.004, view.scale * factor));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    this.moved();
  }

  moved() {
    this.touched = true;
    this.app.redraw();
  }

  // Brings a box to the screen if it is not there, at a size that can be read.
  show(item) {
    if (!this.made) this.layout();
    const box = this.made.boxes.get(typeof item === "number" ? item : item.id);
    if (!box) return;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const { view } = this;
    if (view.scale < 0.5) view.scale = 0.9;
    const left = view.x + box.x * view.scale;
    const top = view.y + box.y * view.scale;
    const far = left < 20 || top < 20 || left + box.width * view.scale > width - 20
      || top + box.height * view.scale > height - 20;
    if (far) {
      view.x = width / 2 - (box.x + box.width / 2) * view.scale;
      view.y = height / 2 - (box.y + Math.min(box.height, 200) / 2) * view.scale;
    }
    this.touched = true;
  }

  // Opens or closes a group; its corner stays where it is.
  toggle(group) {
    if (group === this.app.modules.root) return;
    const before = this.made.boxes.get(group.id);
    group.open = !group.open;
    this.layout();
    const after = this.made.boxes.get(group.id);
    if (before && after) {
      const { view } = this;
      const centre = (box) => box.x + box.width / 2;
      view.x += (centre(before) - centre(after)) * view.scale;
      view.y += (before.y - after.y) * view.scale;
    }
    this.moved();
  }

  change(action) {
    action();
    this.layout();
    this.fitFirst();
    this.app.redraw();
  }

  // ---- drawing

  draw() {
    const { pen, width, height } = penOf(this.canvas);
    if (!width || !height) return;
    if (!this.made) {
      this.layout();
      this.fitFirst();
    }
    const { scale, x, y } = this.view;
    this.window = [-x / scale, -y / scale, (width - x) / scale, (height - y) / scale];
    this.frames = [];
    this.leaves = [];
    this.lines = [];
    this.collect(this.app.modules.root);
    pen.translate(x, y);
    pen.scale(scale, scale);
    this.legible = 12 * scale >= LEAST_TEXT;
    for (const [group, box] of this.frames) this.drawFrame(pen, group, box);
    this.drawEdges(pen);
    if (this.legible) for (const [group, box] of this.frames) this.drawTitle(pen, group, box);
    for (const [item, box] of this.leaves) this.drawBox(pen, item, box);
    pen.setTransform(1, 0, 0, 1, 0, 0);
  }

  inWindow({ x, y, width, height }) {
    const [left, top, right, bottom] = this.window;
    return x <= right && x + width >= left && y <= bottom && y + height >= top;
  }

  collect(group) {
    const box = this.made.boxes.get(group.id);
    if (!box || !this.inWindow(box)) return;
    const { scale } = this.view;
    if (group !== this.app.modules.root) {
      if (!group.open || Math.min(box.width, box.height) * scale < LEAST_OPEN) {
        this.leaves.push([group, box]);
        return;
      }
      this.frames.push([group, box]);
    }
    for (const child of group.children)
      if (typeof child !== "number") this.collect(child);
      else {
        const place = this.made.boxes.get(child);
        if (place && this.inWindow(place)) this.leaves.push([child, place]);
      }
    const [left, top, right, bottom] = this.window;
    for (const edge of this.byGroup.get(group) || []) {
      const [x0, y0, x1, y1] = edge.bounds;
      if (x0 <= right && x1 >= left && y0 <= bottom && y1 >= top) this.lines.push(edge);
    }
  }

  drawFrame(pen, group, box) {
    const over = this.hoverGroup === group;
    pen.fillStyle = palette.frame;
    pen.strokeStyle = over || this.app.group === group ? palette.accent : palette.frameEdge;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.roundRect(box.x, box.y, box.width, box.height, 8);
    pen.globalAlpha = group.depth % 2 ? 1 : 0.55;
    pen.fill();
    pen.globalAlpha = 1;
    pen.stroke();
  }

  // Titles stand on top of the edges, which they keep at a distance.
  drawTitle(pen, group, box) {
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    pen.lineWidth = 5;
    pen.strokeStyle = palette.frame;
    const write = (text, font, align, x, colour) => {
      [pen.font, pen.textAlign, pen.fillStyle] = [font, align, colour];
      pen.strokeText(text, x, box.y + 14);
      pen.fillText(text, x, box.y + 14);
    };
    const name = `− ${clipped(group.name, BOLD, box.width - 100)}`;
    write(name, BOLD, "left", box.x + 10, this.hoverGroup === group ? palette.accent : palette.dim);
    write(asBytes(group.bytes), SMALL, "right", box.x + box.width - 10, palette.faint);
  }

  // Whether an edge touches what is selected or under the cursor.
  isNear(edge) {
    const { app } = this;
    const near = (item) => item === this.selectedBox || (app.hover >= 0 && item === app.hover);
    return near(edge.from) || near(edge.to);
  }

  drawEdges(pen) {
    const { app } = this;
    this.selectedBox = app.group || (app.selected >= 0 ? app.modules.visible(app.selected) : null);
    const near = [];
    const thick = Math.max(1, 0.7 / this.view.scale);
    pen.strokeStyle = palette.edge;
    pen.lineWidth = thick;
    for (const back of [false, true]) {
      pen.setLineDash(back ? [4, 4] : []);
      pen.beginPath();
      for (const edge of this.lines)
        if (edge.back === back) {
          if (this.isNear(edge)) near.push(edge);
          trace(pen, edge.points);
        }
      pen.stroke();
    }
    pen.setLineDash([]);
    this.drawArrows(pen, palette.edge, this.lines);
    if (!near.length) return;
    pen.strokeStyle = palette.accent;
    pen.lineWidth = 2 * thick;
    pen.beginPath();
    for (const edge of near) trace(pen, edge.points);
    pen.stroke();
    this.drawArrows(pen, palette.accent, near);
  }

  drawArrows(pen, colour, edges) {
    if (this.view.scale < 0.35) return;
    pen.fillStyle = colour;
    pen.beginPath();
    for (const { points, back } of edges) {
      const [x, y] = [points[points.length - 2], points[points.length - 1]];
      const up = back ? -5 : 5;
      pen.moveTo(x, y);
      pen.lineTo(x - 3.2, y - up);
      pen.lineTo(x + 3.2, y - up);
    }
    pen.fill();
  }

  drawBox(pen, item, box) {
    const { app } = this;
    const isGroup = typeof item !== "number";
    const isLeaf = !isGroup && app.tape.leaf[item] >= 0;
    const matched = !app.matched || (isGroup ? app.matchesIn(item) > 0 : app.matched[item]);
    const chosen = item === this.selectedBox;
    const over = isGroup ? this.hoverGroup === item : app.hover === item;
    pen.globalAlpha = matched ? 1 : 0.3;
    pen.beginPath();
    pen.roundRect(box.x, box.y, box.width, box.height, isLeaf ? box.height / 2 : 6);
    pen.fillStyle = isLeaf ? palette.back : palette.card;
    pen.fill();
    pen.save();
    pen.clip();
    if (isGroup) {
      const share = app.tape.total ? item.bytes / app.tape.total : 0;
      pen.fillStyle = palette.soft;
      pen.fillRect(box.x, box.y, box.width, box.height);
      pen.fillStyle = palette.accent;
      pen.fillRect(box.x, box.y + box.height - 4, box.width * share, 4);
    } else if (!isLeaf) {
      pen.fillStyle = palette.ops[app.tape.colour[item]];
      pen.globalAlpha *= 0.08 + 0.4 * Math.sqrt(app.tape.most ? app.tape.bytes[item] / app.tape.most : 0);
      pen.fillRect(box.x, box.y, box.width, box.height);
      pen.globalAlpha = matched ? 1 : 0.3;
      pen.fillRect(box.x, box.y, 4, box.height);
    }
    pen.restore();
    pen.globalAlpha = matched ? 1 : 0.3;
    pen.strokeStyle = chosen || over ? palette.accent : app.matched && matched ? palette.mark : palette.edge;
    pen.lineWidth = chosen ? 2.5 : over || (app.matched && matched) ? 1.75 : 1;
    pen.stroke();
    if (this.legible) this.drawWords(pen, item, box, isGroup);
    pen.globalAlpha = 1;
  }

  drawWords(pen, item, box, isGroup) {
    const [name, note] = this.wordsOf(item);
    const [room, left] = [box.width - (isGroup ? 40 : 20), box.x + 12];
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    if (!note) {
      const isLeaf = this.app.tape.leaf[item] >= 0;
      pen.font = isLeaf ? SMALL : BOLD;
      pen.fillStyle = isLeaf ? palette.dim : palette.ink;
      pen.textAlign = "center";
      const [x, y] = [box.x + box.width / 2, box.y + box.height / 2 + 0.5];
      pen.fillText(clipped(name, pen.font, box.width - 12), x, y);
      return;
    }
    // An open group too small for its contents has room for larger words.
    const grown = isGroup && item.open ? Math.min(box.width, box.height * 3) / 90 : 1;
    pen.save();
    pen.translate(left, box.y);
    pen.scale(grown, grown);
    pen.font = BOLD;
    pen.fillStyle = palette.ink;
    pen.fillText(clipped(name, BOLD, room / grown), 0, isGroup ? 15 : 13);
    pen.font = SMALL;
    pen.fillStyle = palette.dim;
    pen.fillText(clipped(note, SMALL, (box.width - 18) / grown), 0, isGroup ? 31 : 28);
    pen.restore();
    if (isGroup && !item.open) {
      pen.font = BOLD;
      pen.fillStyle = palette.accent;
      pen.fillText("+", box.x + box.width - 18, box.y + 15);
    }
  }

  // ---- pointer

  // What lies under a point: the entry or closed group, or the open group whose title it is.
  at(px, py) {
    const { scale, x, y } = this.view;
    const [wx, wy] = [(px - x) / scale, (py - y) / scale];
    const holds = (box) => wx >= box.x && wx <= box.x + box.width && wy >= box.y && wy <= box.y + box.height;
    for (const [item, box] of this.leaves || []) if (holds(box)) return item;
    for (let k = (this.frames || []).length - 1; k >= 0; k--) {
      const [group, box] = this.frames[k];
      if (holds(box)) return wy <= box.y + FRAME_HEAD ? group : null;
    }
    return null;
  }

  press(item) {
    if (item === null) return;
    if (typeof item === "number") this.app.select(item, { from: "graph" });
    else {
      this.app.selectGroup(item);
      this.toggle(item);
    }
  }

  listen() {
    const { canvas, app } = this;
    let drag = null;
    const fingers = new Map(); // two of them zoom
    const spread = () => {
      const [a, b] = [...fingers.values()];
      return [Math.hypot(a.x - b.x, a.y - b.y), (a.x + b.x) / 2, (a.y + b.y) / 2];
    };
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const step = event.deltaMode === 1 ? 16 * event.deltaY : event.deltaY;
      this.zoom(Math.exp(-Math.max(-120, Math.min(120, step)) * 0.0022), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      drag = { x: event.clientX, y: event.clientY, far: fingers.size > 1 };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (fingers.size === 2) {
        const [before] = spread();
        fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
        const [after, x, y] = spread();
        if (before && after) this.zoom(after / before, x, y);
        return;
      }
      if (drag) {
        const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
        if (!drag.far && Math.hypot(dx, dy) < 4) return;
        Object.assign(drag, { x: event.clientX, y: event.clientY, far: true });
        canvas.classList.add("drag");
        this.view.x += dx;
        this.view.y += dy;
        this.moved();
        return;
      }
      this.point(this.at(event.offsetX, event.offsetY));
    });
    canvas.addEventListener("pointerup", (event) => {
      const click = drag && !drag.far;
      fingers.delete(event.pointerId);
      drag = null;
      canvas.classList.remove("drag");
      if (click) this.press(this.at(event.offsetX, event.offsetY));
    });
    canvas.addEventListener("pointercancel", (event) => {
      fingers.delete(event.pointerId);
      drag = null;
    });
    canvas.addEventListener("pointerleave", () => this.point(null));
    byId("leaves").addEventListener("change", ({ target }) =>
      this.change(() => (this.shown.leaves = target.checked)));
    byId("fold").addEventListener("change", ({ target }) =>
      this.change(() => app.foldBy(target.value, this.shown)));
    byId("collapse").addEventListener("click", () => this.change(() => app.modules.closeAll()));
    byId("expand").addEventListener("click", () => this.change(() => app.modules.openOneLevel()));
    byId("in").addEventListener("click", () => this.zoom(1.3));
    byId("out").addEventListener("click", () => this.zoom(1 / 1.3));
    byId("fit").addEventListener("click", () => {
      this.fit();
      app.redraw();
    });
  }

  point(item) {
    const group = item !== null && typeof item !== "number" ? item : null;
    this.canvas.classList.toggle("over", item !== null);
    if (group !== this.hoverGroup) {
      this.hoverGroup = group;
      this.app.redraw();
    }
    this.app.setHover(typeof item === "number" ? item : -1);
  }
}

// Draws a smooth line through points; it leaves and reaches each of them vertically, or turns round
// a corner.
function trace(pen, points) {
  let [x, y] = points;
  pen.moveTo(x, y);
  const same = (a, b) => Math.abs(a - b) < 0.5;
  for (let k = 2; k < points.length; k += 2) {
    const [nx, ny] = [points[k], points[k + 1]];
    const [fx, fy] = [points[k + 2], points[k + 3]];
    const corner = (same(nx, x) && fy !== undefined && same(fy, ny)) || (same(ny, y) && same(fx, nx));
    if (corner) {
      const room = Math.min(Math.abs(nx - x) + Math.abs(ny - y), Math.abs(fx - nx) + Math.abs(fy - ny)) / 2;
      pen.arcTo(nx, ny, fx, fy, Math.min(9, room));
    } else if (same(nx, x) || same(ny, y)) pen.lineTo(nx, ny);
    else pen.bezierCurveTo(x, (y + ny) / 2, nx, (y + ny) / 2, nx, ny);
    [x, y] = [nx, ny];
  }
}
