// A layered layout of nested boxes.
//
// Every open group is laid out on its own: its children in layers from producers to consumers, long
// edges bent around what lies between. An edge that leaves a group does so through a port on the
// group's lower side, and enters another through one on its upper side; so each layout sees only the
// children of one group, and an edge between any two boxes is the chain of its parts.

const LAYER_GAP = 30;
const SIDE_GAP = 18;
const FRAME_PAD = 14;
const FRAME_HEAD = 26;
const LONGEST_BENT = 40; // layers; beyond, an edge goes straight
const TALL = 900; // a taller stack of layers becomes columns side by side,
const ASPECT = 1.5; // about so many times as wide as high
const COLUMN_GAP = 36;
const TURN = 16; // room above and below columns for edges between them

// One group's problem. Nodes are numbered: ports in, children in tape order, ports out.
class Layers {
  constructor() {
    this.nodes = []; // { width, height, kind, x, y, layer, before: [], after: [] }
    this.edges = []; // { from, to, bends: [], back }
  }

  node(width, height, kind = "box") {
    const node = { width, height, kind, x: 0, y: 0, layer: 0, before: [], after: [] };
    this.nodes.push(node);
    return node;
  }

  // An edge against the order, from a group that runs again later, is laid out reversed.
  edge(from, to, back) {
    const edge = { from, to, bends: [], back };
    this.edges.push(edge);
    return edge;
  }

  solve() {
    this.assignLayers();
    this.bendLongEdges();
    this.orderLayers();
    this.placeColumns();
    return this.placeRows();
  }

  assignLayers() {
    for (const { from, to, back } of this.edges) {
      const [a, b] = back ? [to, from] : [from, to];
      a.after.push(b);
      b.before.push(a);
    }
    const first = this.nodes.some((node) => node.kind === "in") ? 1 : 0;
    let last = first;
    for (const node of this.nodes) {
      if (node.kind === "in") continue;
      node.layer = first;
      for (const before of node.before) node.layer = Math.max(node.layer, before.layer + 1);
      if (node.kind === "box") last = Math.max(last, node.layer);
    }
    for (const node of this.nodes) if (node.kind === "out") node.layer = last + 1;
    // What has no producer here stands right above its first consumer.
    for (const node of this.nodes)
      if (node.kind === "box" && !node.before.length && node.after.length)
        node.layer = Math.max(first, Math.min(...node.after.map((after) => after.layer)) - 1);
  }

  bendLongEdges() {
    const real = this.nodes.slice();
    for (const node of real) [node.before, node.after] = [[], []];
    for (const edge of this.edges) {
      const [a, b] = edge.back ? [edge.to, edge.from] : [edge.from, edge.to];
      const span = b.layer - a.layer;
      let before = a;
      if (span <= LONGEST_BENT)
        for (let layer = a.layer + 1; layer < b.layer; layer++) {
          const bend = this.node(6, 0, "bend");
          bend.layer = layer;
          edge.bends.push(bend);
          before.after.push(bend);
          bend.before.push(before);
          before = bend;
        }
      if (span <= LONGEST_BENT) {
        before.after.push(b);
        b.before.push(before);
      }
    }
    const depth = this.nodes.reduce((most, node) => Math.max(most, node.layer), 0) + 1;
    this.layers = Array.from({ length: depth }, () => []);
    for (const node of this.nodes) this.layers[node.layer].push(node);
  }

  // Puts each node near the middle of its neighbours, down and up in turn.
  orderLayers() {
    const number = (layer) => layer.forEach((node, place) => (node.place = place));
    this.layers.forEach(number);
    for (let sweep = 0; sweep < 8; sweep++) {
      const down = sweep % 2 === 0;
      const order = down ? this.layers : this.layers.slice().reverse();
      for (const layer of order) {
        if (layer.length < 2) continue;
        for (const node of layer) {
          const near = down ? node.before : node.after;
          const sum = near.reduce((places, other) => places + other.place, 0);
          node.middle = near.length ? sum / near.length : node.place;
        }
        layer.sort((a, b) => a.middle - b.middle || a.place - b.place);
        number(layer);
      }
    }
  }

  placeColumns() {
    for (const layer of this.layers) {
      let x = 0;
      for (const node of layer) {
        node.x = x + node.width / 2;
        x += node.width + SIDE_GAP;
      }
      for (const node of layer) node.x -= x / 2;
    }
    for (let sweep = 0; sweep < 9; sweep++) {
      const order = sweep % 2 ? this.layers.slice().reverse() : this.layers;
      const sides = sweep === 8 ? ["before", "after"] : sweep % 2 ? ["after"] : ["before"];
      for (const layer of order) settle(layer, sides);
    }
  }

  // Puts the layers below each other, and long stacks of layers into several columns.
  placeRows() {
    let y = 0;
    const tops = [];
    this.layers.forEach((layer, number) => {
      const height = layer.reduce((most, node) => Math.max(most, node.height), 0);
      tops.push(y);
      for (const node of layer) {
        node.y = node.kind === "bend" ? y : y + (height - node.height) / 2;
        if (node.kind === "bend") node.height = height;
      }
      const next = this.layers[number + 1] || [];
      const ports = (nodes) => nodes.length && nodes.every((node) => node.kind === "in" || node.kind === "out");
      y += height + (next.length ? (ports(layer) || ports(next) ? LAYER_GAP / 2 : LAYER_GAP) : 0);
    });
    tops.push(y);
    const columns = this.fold(tops);
    const turn = columns.length > 1 ? TURN : 0;
    let [left, height] = [0, 0];
    for (const column of columns) {
      const nodes = this.layers.slice(column.from, column.to).flat();
      const edges = nodes.map((node) => [node.x - node.width / 2, node.x + node.width / 2]);
      const first = edges.reduce((least, [x]) => Math.min(least, x), Infinity);
      const last = edges.reduce((most, [, x]) => Math.max(most, x), -Infinity);
      for (const node of nodes) {
        node.x += left - first;
        node.y += turn - tops[column.from];
        node.column = column;
      }
      column.bottom = turn + tops[column.to] - tops[column.from];
      column.gutter = left + last - first + COLUMN_GAP / 2;
      left += (nodes.length ? last - first : 0) + COLUMN_GAP;
      height = Math.max(height, column.bottom + turn);
    }
    for (const edge of this.edges) edge.way = this.wayOf(edge, turn);
    return { width: Math.max(0, left - COLUMN_GAP), height };
  }

  // Cuts a tall stack where few edges cross.
  fold(tops) {
    const depth = this.layers.length;
    const height = tops[depth];
    const whole = [{ from: 0, to: depth }];
    if (height < TALL) return whole;
    const reach = (sign) => this.nodes.reduce((most, { x, width }) => Math.max(most, sign * x + width / 2), -Infinity);
    const width = reach(1) + reach(-1) + COLUMN_GAP;
    const count = Math.min(Math.round(Math.sqrt((ASPECT * height) / width)), Math.floor(height / (TALL / 2)));
    if (count < 2) return whole;
    const crossing = new Int32Array(depth + 1);
    for (const node of this.nodes)
      for (const after of node.after) if (after.layer > node.layer) crossing[after.layer]++;
    const columns = [];
    let from = 0;
    for (let number = 1; number < count; number++) {
      const goal = (height * number) / count;
      const slack = (0.3 * height) / count;
      let best = -1;
      for (let layer = from + 1; layer < depth; layer++)
        if (Math.abs(tops[layer] - goal) <= slack) {
          const cost = (k) => crossing[k] + Math.abs(tops[k] - goal) / slack;
          if (best < 0 || cost(layer) < cost(best)) best = layer;
        }
      if (best < 0) continue;
      columns.push({ from, to: best });
      from = best;
    }
    return [...columns, { from, to: depth }];
  }

  // The points of an edge between its ends; from one column to another it goes around. Where it
  // turns right at an end, x is null: a port of an open box decides it.
  wayOf({ from, to, bends, back }, turn) {
    const chain = [back ? to : from, ...bends, back ? from : to];
    const points = [];
    chain.forEach((node, place) => {
      if (node.kind === "bend") points.push([node.x, node.y]);
      if (node.kind === "bend" && node.height > 1) points.push([node.x, node.y + node.height]);
      const next = chain[place + 1];
      if (!next || next.column === node.column) return;
      const { bottom, gutter } = node.column;
      const [low, high] = [bottom + turn / 2, turn / 2];
      const xOf = (end) => (end.kind === "box" ? null : end.x);
      points.push([xOf(node), low], [gutter, low], [gutter, high], [xOf(next), high]);
    });
    return back ? points.reverse() : points;
  }
}

// Moves the nodes of a layer as near as their order allows to where their neighbours want them: least
// squares under order constraints, by pooling neighbours that push each other (isotonic regression).
function settle(layer, sides) {
  const blocks = [];
  let offset = 0;
  layer.forEach((node, place) => {
    if (place) offset += (layer[place - 1].width + node.width) / 2 + SIDE_GAP;
    let [sum, weight] = [0, 0];
    for (const side of sides)
      for (const other of node[side]) {
        const pull = node.kind === "bend" && other.kind === "bend" ? 6 : node.kind === "box" ? 1 : 2;
        sum += pull * other.x;
        weight += pull;
      }
    let block = weight
      ? { sum: sum - weight * offset, weight, from: place }
      : { sum: 0.01 * (node.x - offset), weight: 0.01, from: place };
    node.offset = offset;
    while (blocks.length) {
      const before = blocks[blocks.length - 1];
      if (before.sum / before.weight <= block.sum / block.weight) break;
      blocks.pop();
      block = { sum: before.sum + block.sum, weight: before.weight + block.weight, from: before.from };
    }
    blocks.push(block);
  });
  blocks.forEach((block, number) => {
    const end = number + 1 < blocks.length ? blocks[number + 1].from : layer.length;
    for (const node of layer.slice(block.from, end)) node.x = node.offset + block.sum / block.weight;
  });
}

// Lays out what is visible. Returns boxes by id ({ x, y, width, height }, absolute) and the edges
// between them ({ from, to, group, back, points: [x0, y0, x1, y1, ...] }).
class Layout {
  constructor(modules, shown, sizeOf) {
    Object.assign(this, { modules, shown, sizeOf, boxes: new Map(), edges: [] });
    this.problems = new Map();
    this.collectEdges();
    this.solveGroup(modules.root);
    this.place(modules.root, 0, 0);
    this.route();
  }

  idOf(item) {
    return typeof item === "number" ? item : item.id;
  }

  isShown(item) {
    return typeof item === "number" ? this.shown(item) : item.count > item.leaves || this.shown.leaves;
  }

  collectEdges() {
    const { tape } = this.modules;
    const visible = new Array(tape.count);
    const visit = (group, closed) => {
      for (const child of group.children)
        if (typeof child === "number") visible[child] = closed || child;
        else visit(child, closed || (child.open ? null : child));
    };
    visit(this.modules.root, this.modules.root.open ? null : this.modules.root);
    const known = new Map();
    for (let i = 0; i < tape.count; i++) {
      if (!this.shown(i)) continue;
      const to = visible[i];
      for (let k = tape.inStart[i]; k < tape.inStart[i + 1]; k++) {
        const producer = tape.inFrom[k];
        if (producer < 0 || !this.shown(producer)) continue;
        const from = visible[producer];
        if (from === to) continue;
        const key = this.idOf(from) * 4194304 + this.idOf(to);
        const edge = known.get(key);
        if (edge) edge.count++;
        else {
          const fresh = { from, to, count: 1, up: [], down: [], points: null };
          known.set(key, fresh);
          this.edges.push(fresh);
        }
      }
    }
    for (const edge of this.edges) this.chain(edge);
  }

  problemOf(group) {
    let problem = this.problems.get(group);
    if (!problem) {
      problem = { out: new Map(), in: new Map(), across: new Map() };
      this.problems.set(group, problem);
    }
    return problem;
  }

  parentOf(item) {
    return typeof item === "number" ? this.modules.parent[item] : item.parent;
  }

  depthOf(item) {
    return typeof item === "number" ? this.modules.parent[item].depth + 1 : item.depth;
  }

  // Splits an edge into the parts that single groups lay out.
  chain(edge) {
    let [a, b] = [edge.from, edge.to];
    const leave = (item) => {
      const parent = this.parentOf(item);
      this.problemOf(parent).out.set(item, null);
      edge.up.push([parent, item]);
      return parent;
    };
    const enter = (item) => {
      const parent = this.parentOf(item);
      this.problemOf(parent).in.set(item, null);
      edge.down.push([parent, item]);
      return parent;
    };
    while (this.depthOf(a) > this.depthOf(b)) a = leave(a);
    while (this.depthOf(b) > this.depthOf(a)) b = enter(b);
    while (this.parentOf(a) !== this.parentOf(b)) [a, b] = [leave(a), enter(b)];
    edge.group = this.parentOf(a);
    const { across } = this.problemOf(edge.group);
    edge.key = this.idOf(a) * 4194304 + this.idOf(b);
    if (!across.has(edge.key)) across.set(edge.key, [a, b, null]);
  }

  solveGroup(group) {
    const children = group.children.filter((child) => this.isShown(child));
    for (const child of children) if (typeof child !== "number" && child.open) this.solveGroup(child);
    const problem = this.problemOf(group);
    const layers = new Layers();
    problem.nodes = new Map();
    for (const child of children) if (problem.in.has(child)) problem.in.set(child, layers.node(6, 0, "in"));
    for (const child of children) {
      const open = typeof child !== "number" && child.open;
      const inner = open ? this.problems.get(child) : null;
      const [width, height] = open ? [inner.width, inner.height] : this.sizeOf(child);
      problem.nodes.set(child, layers.node(width, height));
    }
    const order = new Map(children.map((child, place) => [child, place]));
    for (const child of children) if (problem.out.has(child)) problem.out.set(child, layers.node(6, 0, "out"));
    for (const [child, port] of problem.in)
      problem.in.set(child, layers.edge(port, problem.nodes.get(child), false));
    for (const part of problem.across.values()) {
      const back = order.get(part[0]) > order.get(part[1]);
      part[2] = layers.edge(problem.nodes.get(part[0]), problem.nodes.get(part[1]), back);
    }
    for (const [child, port] of problem.out)
      problem.out.set(child, layers.edge(problem.nodes.get(child), port, false));
    const { width, height } = layers.solve();
    const isRoot = group === this.modules.root;
    const least = isRoot ? 0 : textWidth(group.name, `600 12px ${SANS}`) + 110;
    const extra = Math.max(0, least - width - 2 * FRAME_PAD) / 2;
    const pads = { left: FRAME_PAD + extra, top: isRoot ? FRAME_PAD : FRAME_HEAD + (problem.in.size ? 0 : 8) };
    Object.assign(problem, {
      ...pads,
      width: width + 2 * pads.left,
      height: height + pads.top + (problem.out.size ? 0 : FRAME_PAD),
    });
  }

  place(group, x, y) {
    const problem = this.problems.get(group);
    this.boxes.set(group.id, { x, y, width: problem.width, height: problem.height });
    problem.x = x + problem.left;
    problem.y = y + problem.top;
    problem.frameTop = y;
    problem.frameBottom = y + problem.height;
    for (const [child, node] of problem.nodes) {
      const [left, top] = [problem.x + node.x - node.width / 2, problem.y + node.y];
      if (typeof child !== "number" && child.open) this.place(child, left, top);
      else this.boxes.set(this.idOf(child), { x: left, y: top, width: node.width, height: node.height });
    }
  }

  // Strings the parts of every edge together, from the lower side of one box to the upper of another.
  route() {
    const ported = (group, item, side) => {
      const problem = this.problems.get(group);
      const part = problem[side].get(item);
      return { problem, part, x: problem.x + (side === "in" ? part.from.x : part.to.x) };
    };
    for (const edge of this.edges) {
      const outer = this.problems.get(edge.group);
      const part = outer.across.get(edge.key)[2];
      const [a, b] = [this.boxes.get(this.idOf(edge.from)), this.boxes.get(this.idOf(edge.to))];
      const ups = edge.up.map(([group, item]) => ported(group, item, "out"));
      const downs = edge.down.map(([group, item]) => ported(group, item, "in")).reverse();
      const last = b.x + b.width / 2;
      edge.back = part.back;
      const points = [a.x + a.width / 2, part.back && !ups.length ? a.y : a.y + a.height];
      const follow = (problem, { way }, end) => {
        way.forEach(([x, y], k) => {
          const free = k ? end : points[points.length - 2];
          points.push(x === null ? free : problem.x + x, problem.y + y);
        });
      };
      for (const up of ups) {
        follow(up.problem, up.part, up.x);
        points.push(up.x, up.problem.frameBottom);
      }
      follow(outer, part, downs.length ? downs[0].x : last);
      downs.forEach(({ problem, part: inner, x }, k) => {
        points.push(x, problem.frameTop, x, problem.frameTop + FRAME_HEAD);
        follow(problem, inner, k + 1 < downs.length ? downs[k + 1].x : last);
      });
      points.push(last, part.back && !downs.length ? b.y + b.height : b.y);
      edge.points = points;
      edge.bounds = boundsOf(points);
    }
  }
}

function boundsOf(points) {
  const bounds = [Infinity, Infinity, -Infinity, -Infinity];
  for (let k = 0; k < points.length; k += 2) {
    bounds[0] = Math.min(bounds[0], points[k]);
    bounds[1] = Math.min(bounds[1], points[k + 1]);
    bounds[2] = Math.max(bounds[2], points[k]);
    bounds[3] = Math.max(bounds[3], points[k + 1]);
  }
  return bounds;
}
