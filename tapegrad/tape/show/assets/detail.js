// The panel of details: one entry, one module, or the tape as a whole.

const MOST_LINKS = 12;
const STATES = {
  held: "held for the backward",
  leaf: "a leaf's own memory, which lives anyway",
  evicted: "evicted, recomputed when it is needed",
  packed: "packed by hooks",
  dropped: "dropped: a sweep has read it",
  later: "saved after the moment that is shown",
};
const ROLES = {
  input: "an input of the op",
  output: "the op's output",
  value: "computed for the gradient",
  number: "a number",
};
const placeOf = (line) => line.split(", in ")[0];

const KEYS = [
  "/ search · Enter next match · ← → along the tape · 1 2 3 views · + − 0 zoom · Esc clear",
  "In the graph, the wheel zooms and dragging moves; a click on a module opens it, one on its title closes it.",
];

class DetailView {
  constructor(app) {
    this.app = app;
    this.box = byId("detail");
    this.shown = null;
  }

  draw() {
    const { app } = this;
    const entry = app.hover >= 0 ? app.hover : app.selected;
    const key = entry >= 0 ? `entry ${entry}` : app.group ? `group ${app.group.id} ${app.group.open}` : "all";
    if (key === this.shown) return;
    this.shown = key;
    const parts = entry >= 0 ? this.entry(entry) : app.group ? this.group(app.group) : this.all();
    this.box.dataset.entry = entry >= 0 ? entry : "";
    this.box.replaceChildren(...parts.flat().filter(Boolean));
    this.box.scrollTop = 0;
  }

  // ---- an entry

  entry(i) {
    const { app } = this;
    const { tape } = app;
    const [line, source] = [tape.text("line", i), tape.source[tape.place(i)]];
    return [
      make("h2", {}, swatch(tape.colour[i]), tape.text("op", i), make("span", { class: "dim" }, ` #${i}`)),
      make("p", { class: "dim" }, `${tape.text("name", i)} · sequence ${asCount(tape.sequence[i])}`),
      this.facts([
        ["leaf", tape.text("leaf", i)],
        ["module", this.link(tape.text("module", i), () => app.search(`module:${tape.text("module", i)}`))],
        ["line", this.link(line, () => app.search(`line:${tape.place(i)}`), tape.fullLines[line])],
        ["saved", `${asBytes(tape.bytes[i])}, ${asShare(tape.bytes[i], tape.total)} of the tape`],
        ["forward", asTime(tape.time("forward", i))],
        ["backward", asTime(tape.time("backward", i))],
        ["live", `${asBytes(tape.live[i])} after the forward step`],
      ]),
      source ? make("pre", { class: "source" }, source.trim()) : null,
      make("div", { class: "actions" }, make("button", { onclick: () => app.showInGraph(i) }, "Show in graph")),
      this.outputs(i),
      this.saved(i),
      this.neighbours("Producers", this.producers(i)),
      this.neighbours("Consumers", this.consumers(i)),
    ];
  }

  facts(pairs) {
    const known = pairs.filter(([, value]) => value);
    return make("dl", {}, ...known.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  }

  link(text, action, title = null) {
    return text ? make("button", { class: "link", title, onclick: action }, text) : "";
  }

  outputs(i) {
    const { tape } = this.app;
    const numbers = tape.outType.subarray(tape.outStart[i], tape.outStart[i + 1]);
    const types = Array.from(numbers, (type) => tape.types[type]);
    if (!types.length) return null;
    return [make("h3", {}, types.length > 1 ? "Outputs" : "Output"),
      make("ul", { class: "list mono" }, ...types.map((type) => make("li", {}, type)))];
  }

  saved(i) {
    const { tape } = this.app;
    const [from, to] = [tape.savedStart[i], tape.savedStart[i + 1]];
    if (from === to) return [make("h3", {}, "Saved values"), make("p", { class: "dim" }, "none")];
    const values = [];
    for (let k = from; k < to; k++)
      values.push(make("li", { class: "value" },
        make("div", { class: "top" },
          make("b", {}, tape.strings[tape.saved_name[k]]),
          make("span", {}, asBytes(tape.savedBytes[k]))),
        make("div", { class: "mono" }, tape.types[tape.saved_type[k]]),
        make("div", { class: "why" }, ...this.why(i, k))));
    return [make("h3", {}, `Saved values (${to - from})`), make("ul", { class: "list" }, ...values)];
  }

  // Why a value is kept, who pays for it, and when it goes.
  why(i, k) {
    const { tape } = this.app;
    const role = tape.strings[tape.saved_role[k]];
    const state = tape.strings[tape.saved_state[k]];
    const storage = tape.saved_storage[k];
    const [payer, last] = [tape.storagePayer[storage], tape.storageLast[storage]];
    const words = [`${ROLES[role] || role}; `];
    const elsewhere = state === "shared" && payer >= 0 && payer !== i;
    if (elsewhere) words.push("shared, counted at ", this.entryLink(payer));
    else words.push(STATES[state] || state);
    const outlives = tape.savedBytes[k] > 0 && last >= 0 && last !== i;
    if (outlives) words.push("; free after ", this.entryLink(last));
    return words;
  }

  // Neighbours are pairs of an entry and a note.
  producers(i) {
    const { tape } = this.app;
    const found = [];
    for (let k = tape.inStart[i]; k < tape.inStart[i + 1]; k++) {
      const note = tape.inOutput[k] ? `, output ${tape.inOutput[k]}` : "";
      if (tape.inFrom[k] >= 0) found.push([tape.inFrom[k], note]);
    }
    return found;
  }

  consumers(i) {
    const { tape } = this.app;
    return Array.from(tape.useBy.subarray(tape.useStart[i], tape.useStart[i + 1]), (by) => [by, ""]);
  }

  neighbours(title, entries) {
    if (!entries.length) return [make("h3", {}, title), make("p", { class: "dim" }, "none")];
    const { tape } = this.app;
    const rows = entries.slice(0, MOST_LINKS).map(([i, note]) => {
      const place = tape.text("leaf", i) || tape.text("module", i);
      const words = `${note}${place ? ` · ${place}` : ""}`;
      return make("li", {}, this.entryLink(i, ` ${tape.text("op", i)}`), make("span", { class: "dim" }, words));
    });
    const more = entries.length - MOST_LINKS;
    if (more > 0) rows.push(make("li", { class: "dim" }, `and ${asCount(more)} more`));
    return [make("h3", {}, `${title} (${entries.length})`), make("ul", { class: "list" }, ...rows)];
  }

  entryLink(i, words = "") {
    const go = () => this.app.select(i, { from: "detail" });
    return make("button", { class: "link", "data-to": i, onclick: go }, `#${i}${words}`);
  }

  // ---- a module, the whole

  group(group) {
    const { app } = this;
    const entries = app.modules.entriesOf(group);
    const find = () => app.search(`module:${group.path}`);
    const inside = group.path ? ` module:${group.path}` : "";
    return [
      make("h2", {}, app.modules.nameOf(group)),
      make("p", { class: "dim" }, group.run ? "a run of neighbours on the tape" : "module"),
      this.facts([
        ["entries", asCount(group.count)],
        ["leaves", group.leaves ? asCount(group.leaves) : ""],
        ["saved", `${asBytes(group.bytes)}, ${asShare(group.bytes, app.tape.total)} of the tape`],
        ["forward", this.sumTimes("forward", entries)],
        ["backward", this.sumTimes("backward", entries)],
      ]),
      make("div", { class: "actions" },
        make("button", { onclick: () => app.toggleGroup(group) }, group.open ? "Close" : "Open"),
        group.run ? null : make("button", { onclick: find }, "Find its entries")),
      this.shares("By op", this.sums(entries, this.column("op")), (name) => `op:${name}${inside}`),
      this.shares("By source line", this.sums(entries, this.column("line")), (line) => `line:${placeOf(line)}`),
    ];
  }

  sumTimes(column, entries) {
    const times = entries.map((i) => this.app.tape.time(column, i)).filter((time) => time !== null);
    return times.length ? asTime(times.reduce((sum, time) => sum + time, 0)) : "";
  }

  all() {
    const { app } = this;
    const { tape } = app;
    const entries = Array.from({ length: tape.count }, (_, i) => i);
    return [
      make("h2", {}, "The whole tape"),
      make("p", { class: "dim" }, "Point at an entry or a module to see what it keeps."),
      this.shares("Largest modules", this.sums(entries, this.patterns()), (name) => `module:${name}`),
      this.shares("Largest source lines", this.sums(entries, this.column("line")), (line) => `line:${placeOf(line)}`),
      this.shares("Largest ops", this.sums(entries, this.column("op")), (name) => `op:${name}`),
      this.facts(Object.entries(tape.memory).filter(([, bytes]) => bytes !== null)
        .map(([name, bytes]) => [name.replace(/_bytes$/, "").replaceAll("_", " "), asBytes(bytes)])),
      make("h3", {}, "Keys"),
      ...KEYS.map((words) => make("p", { class: "dim" }, words)),
    ];
  }

  // Names modules that differ in numbers only, such as the layers of a stack, by one pattern.
  patterns() {
    const { tape } = this.app;
    const pattern = (path) => path.replace(/(^|\.)\d+(?=\.|$)/g, "$1*");
    const names = new Map(Array.from(new Set(tape.module), (at) => [at, pattern(tape.strings[at])]));
    const members = new Map();
    for (const name of names.values()) members.set(name, (members.get(name) || 0) + 1);
    for (const [at, name] of names) if (members.get(name) === 1) names.set(at, tape.strings[at]);
    return (i) => names.get(tape.module[i]);
  }

  column(name) {
    return (i) => this.app.tape.text(name, i);
  }

  sums(entries, nameOf) {
    const { tape } = this.app;
    const sums = new Map();
    for (const i of entries) if (tape.bytes[i]) sums.set(nameOf(i), (sums.get(nameOf(i)) || 0) + tape.bytes[i]);
    return [...sums].sort((a, b) => b[1] - a[1]);
  }

  shares(title, sums, query) {
    if (!sums.length) return null;
    const most = sums[0][1];
    const find = (name) => this.app.search(query(name));
    const rows = sums.slice(0, 6).map(([name, bytes]) =>
      make("li", {}, make("button", { class: "share", title: name, onclick: () => find(name) },
        make("span", { class: "label" }, name || "outside any module"),
        make("span", { class: "amount" }, `${asBytes(bytes)} · ${asShare(bytes, this.app.tape.total)}`),
        make("span", { class: "track" }, make("i", { style: `width: ${(100 * bytes) / most}%` })))));
    return [make("h3", {}, title), make("ul", { class: "list" }, ...rows)];
  }
}
