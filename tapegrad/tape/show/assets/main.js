// The page as a whole: what is selected and searched for, keys, tabs, and when to draw.

const TABS = ["graph", "bytes", "table"];

class App {
  constructor(tape) {
    this.tape = tape;
    this.modules = new Modules(tape);
    this.selected = -1; // an entry
    this.hover = -1; // the entry under the cursor
    this.group = null; // a selected module
    this.matched = null; // a flag for each entry, while there is a search
    this.matches = null; // the entries found
    this.tab = "graph";
    this.views = {
      timeline: new TimelineView(this),
      graph: new GraphView(this),
      bytes: new BytesView(this),
      table: new TableView(this),
      detail: new DetailView(this),
    };
    this.writeFacts();
    this.listen();
    this.flush();
  }

  writeFacts() {
    const { tape } = this;
    const count = this.modules.moduleCount;
    const fact = (value, words, name = "") => make("span", { class: name }, make("b", {}, value), ` ${words}`);
    const peak = fact(asBytes(tape.peak), `at the peak`, "peak");
    peak.id = "peak";
    peak.dataset.bytes = tape.peak;
    peak.dataset.step = tape.peakStep;
    const facts = [
      fact(asCount(tape.count), tape.count === 1 ? "entry" : "entries"),
      fact(asBytes(tape.total), "saved"),
      peak,
      count ? fact(asCount(count), count === 1 ? "module" : "modules") : null,
    ];
    byId("facts").replaceChildren(...facts.filter(Boolean).flatMap((part, k) => (k ? [" · ", part] : [part])));
  }

  // ---- drawing, at most once a frame

  redraw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => this.flush());
  }

  flush() {
    cancelAnimationFrame(this.pending);
    this.pending = 0;
    this.views.timeline.draw();
    this.views[this.tab].draw();
    this.views.detail.draw();
  }

  // ---- selection

  select(i, { from = "" } = {}) {
    this.selected = Math.max(-1, Math.min(this.tape.count - 1, i));
    this.group = null;
    const slider = byId("timeline");
    if (this.selected >= 0) {
      slider.setAttribute("aria-valuenow", this.selected);
      const [op, live] = [this.tape.text("op", this.selected), asBytes(this.tape.live[this.selected])];
      slider.setAttribute("aria-valuetext", `#${this.selected} ${op}, ${live} live`);
      if (from !== "timeline") this.views.timeline.follow(this.selected);
      if (this.tab === "graph" && from !== "graph") this.views.graph.show(this.modules.visible(this.selected));
      if (this.tab === "table" && from !== "table") this.views.table.follow(this.selected);
      if (from === "detail") this.hover = -1;
    }
    this.redraw();
  }

  selectGroup(group) {
    this.selected = -1;
    this.group = group;
    this.redraw();
  }

  setHover(i) {
    if (i === this.hover) return;
    this.hover = i;
    this.redraw();
  }

  toggleGroup(group) {
    this.open("graph");
    this.views.graph.toggle(group);
    this.views.graph.show(group);
    this.redraw();
  }

  foldBy(by, shown) {
    this.modules = new Modules(this.tape, by);
    this.modules.openFirst(shown);
    this.group = this.counts = null;
  }

  showInGraph(i) {
    this.open("graph");
    const { graph } = this.views;
    if (this.tape.leaf[i] >= 0) byId("leaves").checked = graph.shown.leaves = true;
    this.modules.reveal(i);
    graph.layout();
    this.hover = -1;
    this.select(i);
  }

  // ---- search

  search(query) {
    const input = byId("search");
    if (input.value !== query) input.value = query;
    const wanted = query.trim().split(/\s+/).filter(Boolean);
    this.matched = this.matches = this.counts = null;
    if (wanted.length) {
      this.matched = new Uint8Array(this.tape.count).fill(1);
      for (const word of wanted) this.keep(word);
      this.matches = Int32Array.from(this.matched.keys()).filter((i) => this.matched[i]);
    }
    const found = this.matches ? this.matches.length : 0;
    let bytes = 0;
    if (this.matches) for (const i of this.matches) bytes += this.tape.bytes[i];
    const words = found ? `${asCount(found)} · ${asBytes(bytes)}` : "nothing";
    byId("found").textContent = this.matches ? words : "";
    byId("previous").disabled = byId("next").disabled = !found;
    this.views.table.refresh();
    this.redraw();
  }

  // Drops the matches that a word of the search does not fit.
  keep(word) {
    const { tape, matched } = this;
    const size = /^(?:bytes|saved)?([<>])=?([\d.]+)([kmgt]?)(?:i?b)?$/i.exec(word);
    const number = /^#\d+$/.test(word) ? Number(word.slice(1)) : -1;
    const fits = size ? sizeTest(tape, size) : number >= 0 ? (i) => i === number : wordTest(tape, word);
    for (let i = 0; i < tape.count; i++) if (matched[i] && !fits(i)) matched[i] = 0;
  }

  // How many matches a group holds.
  matchesIn(group) {
    if (!this.counts) {
      this.counts = new Map();
      for (const i of this.matches)
        for (let g = this.modules.parent[i]; g; g = g.parent) this.counts.set(g, (this.counts.get(g) || 0) + 1);
    }
    return this.counts.get(group) || 0;
  }

  step(by) {
    const { matches, selected } = this;
    if (!matches || !matches.length) return;
    let place = matches.findIndex((i) => i >= selected);
    if (place < 0) place = by > 0 ? 0 : matches.length - 1;
    else if (matches[place] === selected) place += by;
    else if (by < 0) place -= 1;
    this.select(matches[(place + matches.length) % matches.length]);
  }

  // ---- tabs and keys

  open(tab) {
    if (this.tab === tab) return;
    this.tab = tab;
    for (const name of TABS) {
      const chosen = name === tab;
      const button = byId(`tab-${name}`);
      button.setAttribute("aria-selected", chosen);
      button.tabIndex = chosen ? 0 : -1;
      byId(`view-${name}`).hidden = !chosen;
      document.querySelector(`.tools[data-for=${name}]`).hidden = !chosen;
    }
    this.hover = -1;
    if (tab === "table" && this.selected >= 0) this.views.table.follow(this.selected);
    this.redraw();
  }

  clear() {
    this.hover = -1;
    if (byId("search").value) this.search("");
    else if (this.selected >= 0 || this.group) [this.selected, this.group] = [-1, null];
    else if (this.tab === "bytes") this.views.bytes.leave();
    this.redraw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select")) return;
    const input = byId("search");
    const typing = event.target === input;
    const along = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    const { graph } = this.views;
    if (event.key === "Escape") {
      this.clear();
      input.blur();
    } else if (typing) {
      if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
      return;
    } else if (event.target.closest("aside") && event.key.startsWith("Arrow")) return;
    else if (event.key === "/") input.focus();
    else if (event.target.closest("[role=tab]") && /Left|Right/.test(event.key)) this.nextTab(along);
    else if (this.tab === "table" && /Up|Down/.test(event.key)) {
      const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -20, PageDown: 20 }[event.key];
      this.select(this.views.table.beside(this.selected, by));
    } else if (along && this.tape.count) {
      const from = this.selected < 0 ? (along > 0 ? -1 : this.tape.count) : this.selected;
      this.select(Math.max(0, from + along));
    } else if (event.key === "Home" && this.tape.count) this.select(0);
    else if (event.key === "End") this.select(this.tape.count - 1);
    else if ("123".includes(event.key)) this.open(TABS[event.key - 1]);
    else if (this.tab === "graph" && "+=-0".includes(event.key)) {
      if (event.key === "0") graph.fit();
      else graph.zoom(event.key === "-" ? 1 / 1.3 : 1.3);
      this.redraw();
    } else return;
    event.preventDefault();
  }

  nextTab(by) {
    const next = TABS[(TABS.indexOf(this.tab) + by + TABS.length) % TABS.length];
    this.open(next);
    byId(`tab-${next}`).focus();
  }

  listen() {
    const input = byId("search");
    input.addEventListener("input", () => this.search(input.value));
    input.addEventListener("focus", () => input.select());
    byId("previous").addEventListener("click", () => this.step(-1));
    byId("next").addEventListener("click", () => this.step(1));
    for (const name of TABS) byId(`tab-${name}`).addEventListener("click", () => this.open(name));
    document.addEventListener("keydown", (event) => this.key(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      readPalette();
      this.redraw();
    });
    const { graph } = this.views;
    new ResizeObserver(() => {
      if (graph.made && !graph.touched && this.tab === "graph") graph.fitFirst();
      this.redraw();
    }).observe(document.querySelector(".views"));
  }
}

function sizeTest(tape, [, sign, number, unit]) {
  const limit = Number(number) * 1024 ** " kmgt".indexOf(unit.toLowerCase() || " ");
  return sign === ">" ? (i) => tape.bytes[i] >= limit : (i) => tape.bytes[i] <= limit;
}

// Tests the few different texts once, and then compares numbers.
function wordTest(tape, word) {
  const [, column, rest] = /^(op|module|line|leaf|name|shape|dtype):(.*)$/i.exec(word) || [null, "", word];
  const wanted = rest.toLowerCase();
  const found = tape.strings.map((text) => text.toLowerCase().includes(wanted));
  const types = tape.types.map((text) => text.toLowerCase().replaceAll(" ", "").includes(wanted));
  const has = (name) => (i) => tape[name][i] >= 0 && found[tape[name][i]];
  if (column === "module") return moduleTest(tape, rest);
  if (column === "op" && tape.strings.includes(rest)) return (i) => tape.text("op", i) === rest;
  if (column === "line" && /:\d+$/.test(rest)) return (i) => tape.place(i) === rest;
  if (column && column !== "shape" && column !== "dtype") return has(column.toLowerCase());
  const output = (i) => {
    for (let k = tape.outStart[i]; k < tape.outStart[i + 1]; k++) if (types[tape.outType[k]]) return true;
    return false;
  };
  if (column) return output;
  const tests = ["op", "name", "module", "line", "leaf"].map(has);
  return (i) => tests.some((test) => test(i)) || output(i);
}

// A module's path means it and what is inside, * any number; another text, the modules that have it.
function moduleTest(tape, path) {
  const escaped = path.replace(/[^\w*]/g, "\\$&").replaceAll("*", "\\d+");
  const pattern = new RegExp(`^${escaped}($|\\.)`);
  const inside = path ? (text) => pattern.test(text) : (text) => text === "";
  const texts = new Set(Array.from(tape.module, (at) => tape.strings[at] || ""));
  const fits = [...texts].some(inside) ? inside : (text) => text.toLowerCase().includes(path.toLowerCase());
  return (i) => fits(tape.text("module", i));
}

async function start() {
  try {
    readPalette();
    const app = new App(new Tape(await readDocument()));
    window.tapePage = app; // for the console
    app.readyAfter = performance.now();
  } catch (error) {
    byId("facts").textContent = `This page cannot be shown: ${error.message}`;
    throw error;
  }
}

start();
