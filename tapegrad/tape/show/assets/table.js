// The entries as a table. Only the rows in sight exist.

const ROW = 26;

class TableView {
  constructor(app) {
    this.app = app;
    this.box = byId("table");
    const { tape } = app;
    // Sorting compares the places of the few different texts, not the texts.
    const ranksOf = (texts) => {
      const compare = (a, b) => (texts[a] < texts[b] ? -1 : texts[a] > texts[b] ? 1 : 0);
      const sorted = texts.map((_, k) => k).sort(compare);
      const ranks = new Int32Array(texts.length);
      sorted.forEach((k, rank) => (ranks[k] = rank));
      return ranks;
    };
    const [strings, types] = [ranksOf(tape.strings), ranksOf(tape.types)];
    const words = (column) => ({ show: (i) => tape.text(column, i), value: (i) => strings[tape[column][i]] });
    const typed = (i) => (tape.outStart[i] < tape.outStart[i + 1] ? types[tape.outType[tape.outStart[i]]] : -1);
    this.columns = [
      { key: "index", title: "#", size: "62px", right: true, value: (i) => i },
      { key: "op", title: "Op", size: "minmax(90px, 1fr)", ...words("op") },
      { key: "module", title: "Module", size: "minmax(90px, 1.4fr)", ...words("module") },
      { key: "line", title: "Source line", size: "minmax(110px, 1.5fr)", ...words("line") },
      { key: "output", title: "Output", size: "minmax(110px, 1.3fr)", value: typed, show: (i) => tape.output(i) },
    ];
    const number = (key, title, size, value, words) =>
      this.columns.push({ key, title, size, right: true, value, show: (i) => words(value(i)) });
    number("bytes", "Saved", "88px", (i) => tape.bytes[i], asBytes);
    for (const [key, title] of [["forward", "Forward"], ["backward", "Backward"]])
      if (tape[key])
        number(key, title, "92px", (i) => tape.time(key, i) ?? -1, (time) => (time < 0 ? "" : asTime(time)));
    this.sort = { key: "index", down: false };
    this.box.style.setProperty("--columns", this.columns.map((column) => column.size).join(" "));
    this.names = make("div", { class: "line names", role: "row" });
    this.body = make("div", { role: "rowgroup" });
    this.box.append(this.names, this.body);
    this.box.setAttribute("aria-colcount", this.columns.length);
    this.body.style.position = "relative";
    this.box.addEventListener("scroll", () => this.draw());
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) app.select(Number(row.dataset.entry), { from: "table" });
    });
    this.body.addEventListener("pointerover", (event) => {
      const row = event.target.closest(".row");
      app.setHover(row ? Number(row.dataset.entry) : -1);
    });
    this.body.addEventListener("pointerleave", () => app.setHover(-1));
    this.writeNames();
    this.refresh();
  }

  writeNames() {
    this.names.replaceChildren(...this.columns.map(({ key, title, right }) => {
      const sorted = this.sort.key === key;
      const mark = sorted ? (this.sort.down ? " ↓" : " ↑") : "";
      const order = sorted ? (this.sort.down ? "descending" : "ascending") : null;
      return make("div", { role: "columnheader", "aria-sort": order, class: right ? "right" : null },
        make("button", { "data-key": key, onclick: () => this.sortBy(key) }, title + mark));
    }));
  }

  sortBy(key) {
    const number = !["op", "module", "line", "output", "index"].includes(key);
    this.sort = { key, down: this.sort.key === key ? !this.sort.down : number };
    this.writeNames();
    this.refresh();
    this.box.scrollTop = 0;
    this.names.querySelector(`[data-key=${key}]`).focus();
  }

  // Takes the entries that the search found, in the order of the sorted column.
  refresh() {
    const { tape, matches } = this.app;
    const order = matches ? Array.from(matches) : Array.from({ length: tape.count }, (_, i) => i);
    const { key, down } = this.sort;
    if (key !== "index") {
      const { value } = this.columns.find((column) => column.key === key);
      const values = new Float64Array(tape.count);
      for (const i of order) values[i] = value(i);
      order.sort((a, b) => (down ? values[b] - values[a] : values[a] - values[b]) || a - b);
    } else if (down) order.reverse();
    this.order = order;
    this.placeOf = null;
    this.body.style.height = `${order.length * ROW}px`;
    this.box.setAttribute("aria-rowcount", order.length);
    let bytes = 0;
    for (const i of order) bytes += tape.bytes[i];
    byId("rows").textContent = `${plural(order.length, "entry")}, ${asBytes(bytes)}`;
    this.drawn = "";
  }

  draw() {
    const { selected } = this.app;
    const height = this.box.clientHeight;
    if (!height) return;
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW) - 6);
    const last = Math.min(this.order.length, first + Math.ceil(height / ROW) + 12);
    const key = `${first} ${last} ${selected} ${this.order.length}`;
    if (key === this.drawn) return;
    this.drawn = key;
    if (!this.order.length) {
      this.body.replaceChildren(make("p", { class: "empty" }, "No entry matches the search."));
      return;
    }
    const rows = [];
    for (let place = first; place < last; place++) {
      const i = this.order[place];
      const cells = this.columns.map(({ value, show, right }) => {
        const text = String(show ? show(i) : value(i));
        const [name, title] = right ? ["right", null] : [null, text];
        return make("div", { role: "gridcell", class: name, title }, text);
      });
      rows.push(make("div", { class: "line row", role: "row", "data-entry": i, "aria-rowindex": place + 1,
        "aria-selected": i === selected ? "true" : "false", style: `top: ${place * ROW}px` }, ...cells));
    }
    this.body.replaceChildren(...rows);
  }

  // The row of an entry, or undefined.
  rowOf(entry) {
    if (!this.placeOf) this.placeOf = new Map(this.order.map((i, place) => [i, place]));
    return this.placeOf.get(entry);
  }

  // The entry some rows further, from one that may not be in the table.
  beside(entry, by) {
    const place = this.rowOf(entry);
    const next = place === undefined ? 0 : place + by;
    return this.order[Math.max(0, Math.min(this.order.length - 1, next))] ?? -1;
  }

  // Scrolls to an entry.
  follow(entry) {
    const place = this.rowOf(entry);
    if (place === undefined || !this.box.clientHeight) return;
    const [top, room] = [place * ROW, this.box.clientHeight - 34];
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + ROW > this.box.scrollTop + room) this.box.scrollTop = top + ROW - room;
  }
}
