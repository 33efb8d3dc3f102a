// The tree of modules: entries are numbered 0 to n - 1, groups from n on; the first group is the root.
//
// A group with more children than anybody can look at is cut into runs of neighbours, so that the
// layout never meets a large set at once, whatever the tape. A tape can also be folded by its order
// alone: a loop that calls the same modules again and again is easier to follow so.

const MOST_CHILDREN = 150;
const CHILDREN_OF_A_RUN = 60;
const OPEN_AT_FIRST = 80;

class Modules {
  constructor(tape, by = "module") {
    this.tape = tape;
    this.by = by;
    this.groups = [];
    this.byPath = new Map();
    this.root = this.add("", "", null);
    if (by === "module") for (const i of this.inOrderOfUse()) this.groupOf(this.pathOf(i)).children.push(i);
    else for (let i = 0; i < tape.count; i++) this.root.children.push(i);
    this.moduleCount = this.byPath.size;
    this.merge(this.root);
    this.cut(this.root);
    this.number();
    this.root.open = true;
  }

  // The tape's order, but each leaf before the first entry that uses it. A leaf keeps the number that the
  // first step gave it: in later steps leaves come before all else, whichever module they belong to.
  inOrderOfUse() {
    const { count, leaf, inStart, inFrom } = this.tape;
    const order = new Set();
    for (let i = 0; i < count; i++) {
      if (leaf[i] >= 0) continue;
      for (const producer of inFrom.slice(inStart[i], inStart[i + 1]))
        if (producer >= 0 && leaf[producer] >= 0) order.add(producer);
      order.add(i);
    }
    for (let i = 0; i < count; i++) order.add(i); // leaves that nothing here uses
    return order;
  }

  // A leaf recorded outside any module stands with the module that owns it.
  pathOf(i) {
    const path = this.tape.text("module", i);
    const leaf = path ? "" : this.tape.text("leaf", i);
    return leaf.includes(".") ? leaf.slice(0, leaf.lastIndexOf(".")) : path;
  }

  add(name, path, parent) {
    const group = { name, path, parent, children: [], open: false, run: false, id: -1 };
    if (parent) parent.children.push(group);
    return group;
  }

  groupOf(path) {
    if (!path) return this.root;
    let group = this.byPath.get(path);
    if (!group) {
      const cut = path.lastIndexOf(".");
      group = this.add(path.slice(cut + 1), path, this.groupOf(cut < 0 ? "" : path.slice(0, cut)));
      this.byPath.set(path, group);
    }
    return group;
  }

  // A group that holds one group and nothing else becomes one with it.
  merge(group) {
    for (let k = 0; k < group.children.length; k++) {
      let child = group.children[k];
      if (typeof child === "number") continue;
      while (child.children.length === 1 && typeof child.children[0] !== "number") {
        const only = child.children[0];
        only.name = `${child.name}.${only.name}`;
        only.parent = group;
        this.byPath.set(child.path, only);
        group.children[k] = child = only;
      }
      this.merge(child);
    }
  }

  cut(group) {
    for (const child of group.children) if (typeof child !== "number") this.cut(child);
    const nameOf = (child) => (typeof child === "number" ? `#${child}` : child.first || child.name);
    while (group.children.length > MOST_CHILDREN) {
      const { children } = group;
      group.children = [];
      for (let k = 0; k < children.length; k += CHILDREN_OF_A_RUN) {
        const part = children.slice(k, k + CHILDREN_OF_A_RUN);
        const [from, to] = this.endsOf(part);
        const run = this.add(`${nameOf(from)} – ${to.last || nameOf(to)}`, group.path, group);
        Object.assign(run, { run: true, children: part, first: nameOf(from), last: to.last || nameOf(to) });
        for (const child of part) if (typeof child !== "number") child.parent = run;
      }
    }
  }

  // What a run is named after: its first and last child that stand in the tape's order.
  endsOf(part) {
    const inOrder = (child) => typeof child !== "number" || this.by === "order" || this.tape.leaf[child] < 0;
    const found = part.filter(inOrder);
    const ends = found.length ? found : part;
    return [ends[0], ends[ends.length - 1]];
  }

  number() {
    const n = this.tape.count;
    const visit = (group, depth) => {
      group.id = n + this.groups.length;
      this.groups.push(group);
      Object.assign(group, { depth, count: 0, leaves: 0, bytes: 0 });
      for (const child of group.children) {
        if (typeof child !== "number") {
          visit(child, depth + 1);
          group.count += child.count;
          group.leaves += child.leaves;
          group.bytes += child.bytes;
        } else {
          group.count += 1;
          group.leaves += this.tape.leaf[child] >= 0 ? 1 : 0;
          group.bytes += this.tape.bytes[child];
        }
      }
    };
    visit(this.root, 0);
    this.parent = new Array(n);
    for (const group of this.groups)
      for (const child of group.children) if (typeof child === "number") this.parent[child] = group;
  }

  // Opens whole levels as long as the boxes stay few.
  openFirst(shown) {
    this.closeAll();
    for (;;) {
      const { closed, boxes } = this.boxesIfOpened(shown);
      if (!closed || boxes > OPEN_AT_FIRST) return;
      this.openOneLevel();
    }
  }

  // How many groups are closed, and how many boxes there would be with these open.
  boxesIfOpened(shown) {
    const groups = this.visibleClosed();
    const closed = new Set(groups);
    let boxes = 0;
    const count = (group) => {
      for (const child of group.children)
        if (typeof child === "number") boxes += shown(child) ? 1 : 0;
        else if (child.open || closed.has(child)) count(child);
        else boxes += 1;
    };
    count(this.root);
    return { closed: groups.length, boxes };
  }

  visibleClosed() {
    const found = [];
    const visit = (group) => {
      if (!group.open) found.push(group);
      else for (const child of group.children) if (typeof child !== "number") visit(child);
    };
    visit(this.root);
    return found;
  }

  openOneLevel() {
    for (const group of this.visibleClosed()) group.open = true;
  }

  closeAll() {
    for (const group of this.groups) group.open = group === this.root;
  }

  // The outermost closed group around an entry, or the entry itself.
  visible(i) {
    let found = i;
    for (let group = this.parent[i]; group; group = group.parent) if (!group.open) found = group;
    return found;
  }

  reveal(i) {
    for (let group = this.parent[i]; group; group = group.parent) group.open = true;
  }

  nameOf(group) {
    return group === this.root ? "the tape" : group.run ? group.name : group.path;
  }

  entriesOf(group, out = []) {
    for (const child of group.children)
      if (typeof child === "number") out.push(child);
      else this.entriesOf(child, out);
    return out;
  }
}
