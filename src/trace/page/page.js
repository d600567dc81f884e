// The page as a whole: it shows the numbers at once, then reads the commands, and turns keys and movements into views.

// What is printed on a page of A4 across, in pixels, and what headings that break into another line may take of it.
const paper = {width: 1047, height: 718, spare: 40};

class Page {
  constructor() {
    const json = (id) => JSON.parse(byId(id).textContent);
    this.meta = json("meta");
    this.panel = new Panel(this.meta, json("summary"), json("held"), (item, closer) => this.go(item, closer));
    this.canvas = byId("canvas");
    this.setTheme(this.storedTheme() ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
    this.panel.showNumbers();
  }

  /** Once all of the file is there. */
  async load() {
    // What was painted so far is seen while the commands are read.
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
    byId("status").textContent = `Reading ${countText(this.meta.commands)} commands …`;
    try {
      const block = byId("timeline");
      if (block.dataset.version !== "1") throw new Error(`the data is of version ${block.dataset.version}`);
      const bytes = await inflated(block.textContent.trim());
      block.remove();
      this.timeline = new Timeline(bytes, this.meta);
    } catch (error) {
      byId("status").textContent = `The commands could not be read: ${error.message}`;
      return;
    }
    byId("status").textContent = this.timeline.count === 0 ? "No command was recorded." : "";
    this.view = new View(this.timeline);
    this.painter = new Painter(this.canvas, byId("overview"), this.view);
    this.table = new Table(this.view, (item) => this.go(item));
    this.legend();
    this.listen();
    this.paint();
    performance.mark("weir-painted");
  }

  legend() {
    const used = new Set();
    for (let i = 0; i < this.timeline.count; ++i) used.add(this.timeline.kind[i] & 15);
    for (const node of this.timeline.nodes) used.add(node.lane);
    const entry = (color, name) => element("span", {}, element("i", {color: `var(--${color})`}), name);
    byId("legend").replaceChildren(
      ...[...used].sort((a, b) => a - b).filter((lane) => lane < this.meta.engines).map((lane) => entry(laneColors[lane], this.meta.lanes[lane])),
      entry("critical", "critical path"), entry("wait", "host waits"), entry("call", "calls"));
  }

  paint() {
    this.painter.paint();
    this.table.fillSoon();
  }
  /** In the next frame. */
  repaint() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.paint();
    });
  }

  /** Selects and shows; `closer` may be a part of the time, or true for that of the item. */
  go(item, closer) {
    if (!this.view) return;
    this.view.selected = item;
    this.panel.showDetails(this.timeline, item);
    if (item) {
      if (Array.isArray(closer)) {
        const margin = (closer[1] - closer[0]) * 0.6 + 100;
        this.view.show(closer[0] - margin, closer[1] + margin);
      }
      this.view.reveal(item, closer === true);
    }
    byId("spoken").textContent = item ? spoken(this.timeline, item) : "";
    if (this.table.open) this.table.fill();
    this.repaint();
  }

  listen() {
    byId("fit").addEventListener("click", () => this.act(() => this.view.showAll()));
    byId("by-stream").addEventListener("click", () => this.setRows(false));
    byId("by-engine").addEventListener("click", () => this.setRows(true));
    byId("table-button").addEventListener("click", () => this.toggleTable());
    byId("table-close").addEventListener("click", () => this.toggleTable(false));
    byId("help-button").addEventListener("click", () => byId("help").showModal());
    byId("search").addEventListener("input", () => this.search(byId("search").value));
    byId("search").addEventListener("keydown", (event) => this.searchKey(event));
    document.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.repaint()).observe(byId("frame"));
    this.listenToMouse();
    this.listenToOverview();
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  act(change) {
    change();
    this.repaint();
  }
  setRows(byEngine) {
    this.view.setRows(byEngine);
    byId("by-stream").setAttribute("aria-pressed", String(!byEngine));
    byId("by-engine").setAttribute("aria-pressed", String(byEngine));
    if (this.view.selected) this.view.reveal(this.view.selected);
    this.repaint();
  }
  toggleTable(open) {
    this.table.toggle(open);
    if (!this.table.open) this.canvas.focus();
    this.repaint();
  }

  search(text) {
    this.view.search(text);
    this.match = -1;
    byId("found").textContent = this.view.matches ? `${countText(this.view.matchCount)} found` : "";
    this.repaint();
  }
  searchKey(event) {
    const found = event.key === "Enter" ? this.view.found : [];
    if (event.key === "Escape") {
      byId("search").value = "";
      this.search("");
      this.canvas.focus();
    } else if (event.key === "Enter" && found.length > 0) {
      this.match = (this.match + (event.shiftKey ? -1 : 1) + found.length + (this.match < 0 && event.shiftKey ? 1 : 0)) % found.length;
      byId("found").textContent = `${countText(this.match + 1)} of ${countText(found.length)}`;
      this.go({what: "command", place: found[this.match]});
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** Keys work everywhere but where text is written; those that lists and buttons use, on the timeline alone. */
  key(event) {
    const {target} = event;
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open || target.tagName === "INPUT") return;
    const action = this.globalKeys()[event.key] ?? (target === this.canvas || target === document.body ? this.canvasKeys()[event.key] : null);
    if (!action) return;
    event.preventDefault();
    action();
  }
  globalKeys() {
    const view = this.view;
    const step = 0.15 * (view.width - labelWidth);
    const move = (by) => () => this.act(() => view.move(by));
    const zoom = (by) => () => this.act(() => view.zoom(by));
    return {
      "a": move(-step), "d": move(step), "w": zoom(0.7), "s": zoom(1 / 0.7), "+": zoom(0.7), "=": zoom(0.7), "-": zoom(1 / 0.7),
      "0": () => this.act(() => view.showAll()), "/": () => byId("search").focus(), "t": () => this.toggleTable(),
      "?": () => byId("help").showModal(), "n": () => this.beside(1), "p": () => this.beside(-1), "b": () => this.back(),
      "c": () => this.nextCritical(), "f": () => view.selected && this.go(view.selected, true), "Escape": () => this.go(null),
    };
  }
  canvasKeys() {
    const view = this.view;
    const step = 0.15 * (view.width - labelWidth);
    const vertical = (by) => () => {
      const next = view.selected && view.beyond(view.selected, by);
      if (next) this.go(next);
      else if (!view.selected) this.act(() => view.scrollBy(40 * by));
    };
    return {
      "ArrowLeft": () => this.act(() => view.move(-step)), "ArrowRight": () => this.act(() => view.move(step)),
      "ArrowUp": vertical(-1), "ArrowDown": vertical(1), "Home": () => this.act(() => view.showAll()),
      "Enter": () => (view.selected ? this.go(view.selected, true) : this.beside(1)),
    };
  }
  beside(step) {
    const {view} = this;
    const next = view.selected ? view.beside(view.selected, step) : view.firstSeen();
    if (next) this.go(next);
  }
  /** To what ended last of what the selection waited for: not the event itself, but what came before it. */
  back() {
    const {selected} = this.view;
    if (!selected || selected.what !== "command") return;
    const t = this.timeline;
    const before = t.before.subarray(t.behind[selected.place], t.behind[selected.place + 1]);
    if (before.length === 0) return;
    this.go({what: "command", place: before.reduce((last, one) => (t.end[one] > t.end[last] ? one : last))});
  }
  nextCritical() {
    const {selected, timeline} = this.view;
    const at = selected && selected.what === "command" ? timeline.path.indexOf(selected.place) : -1;
    const next = timeline.path[at + 1];
    if (next !== undefined) this.go({what: "command", place: next});
  }

  listenToMouse() {
    const {canvas, view} = this;
    let from = null;
    const point = (event) => {
      const {left, top} = canvas.getBoundingClientRect();
      return [event.clientX - left, event.clientY - top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      const [x, y] = point(event);
      from = {x, y, lastX: x, lastY: y, moved: false, measures: event.shiftKey};
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = point(event);
      if (!from) return this.hover(x, y);
      from.moved ||= Math.hypot(x - from.x, y - from.y) > 3;
      if (!from.moved) return;
      this.hideTip();
      this.act(() => {
        if (from.measures) {
          view.measured = [view.moment(from.x), view.moment(x)];
        } else {
          canvas.classList.add("moving");
          view.move(from.lastX - x);
          view.scrollBy(from.lastY - y);
        }
        [from.lastX, from.lastY] = [x, y];
      });
    });
    const release = (event) => {
      if (!from) return;
      canvas.classList.remove("moving");
      const {moved, measures} = from;
      from = null;
      if (measures && view.measured) {
        const [begin, end] = [...view.measured].sort((a, b) => a - b);
        view.measured = null;
        this.act(() => view.show(begin, end));
      } else if (!moved && event.type === "pointerup") {
        this.go(view.at(...point(event)));
      }
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => this.hover(-1, -1));
    canvas.addEventListener("dblclick", () => view.selected && this.go(view.selected, true));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 16 : 1;
      const [dx, dy] = event.shiftKey ? [event.deltaY * unit, 0] : [event.deltaX * unit, event.deltaY * unit];
      const scrolls = view.rowsHeight > view.height - rulerHeight;
      this.act(() => {
        if (event.ctrlKey || (!scrolls && Math.abs(dy) > Math.abs(dx))) view.zoom(Math.exp(dy * (event.ctrlKey && Math.abs(dy) < 50 ? 0.01 : 0.002)), point(event)[0]);
        else if (Math.abs(dx) >= Math.abs(dy)) view.move(dx);
        else view.scrollBy(dy);
      });
    }, {passive: false});
  }

  hover(x, y) {
    const item = this.view.at(x, y);
    const before = this.view.hovered;
    if (item?.what !== before?.what || item?.place !== before?.place) {
      this.view.hovered = item;
      this.repaint();
    }
    if (!item) return this.hideTip();
    const t = this.timeline;
    const [begin, end] = this.view.spanOf(item);
    const [title, ...lines] = item.what === "wait" ? [`Host waits: ${t.waits[item.place].what}`]
      : item.what === "range" ? [t.ranges[item.place].name]
      : item.what === "node" ? [t.nodeName(t.nodes[item.place]), `node ${t.nodes[item.place].number} of ${t.nameOf(t.nodes[item.place].command)}`]
      : [t.nameOf(item.place), t.size[item.place] > 0 ? bytesText(t.size[item.place]) : "", t.placeOf(item.place)];
    const tip = byId("tip");
    tip.replaceChildren(element("b", {}, title), element("span", {}, [durationText(end - begin), ...lines].filter(Boolean).join(" · ")));
    tip.hidden = false;
    const {offsetWidth, offsetHeight} = tip;
    tip.style.left = `${Math.max(4, Math.min(x + 14, this.view.width - offsetWidth - 6))}px`;
    tip.style.top = `${y + 18 + offsetHeight > this.view.height ? y - offsetHeight - 8 : y + 18}px`;
  }
  hideTip() {
    byId("tip").hidden = true;
  }

  listenToOverview() {
    const overview = byId("overview");
    const move = (event) => {
      if (event.type === "pointermove" && (event.buttons & 1) === 0) return;
      const {left, width} = overview.getBoundingClientRect();
      const share = (event.clientX - left - labelWidth) / (width - labelWidth);
      const {view} = this;
      const middle = view.first + share * (view.last - view.first);
      this.act(() => view.show(middle - view.span / 2, middle + view.span / 2));
    };
    overview.addEventListener("pointerdown", (event) => {
      overview.setPointerCapture(event.pointerId);
      move(event);
    });
    overview.addEventListener("pointermove", move);
  }

  setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    byId("theme").textContent = theme === "dark" ? "☀" : "☾";
    if (!this.painter) return;
    this.painter.takeColors();
    this.paint();
  }
  storedTheme() {
    try {
      return localStorage.getItem("weir-theme");
    } catch {
      return null;  // files may have no storage
    }
  }
  switchTheme() {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    this.setTheme(theme);
    try {
      localStorage.setItem("weir-theme", theme);
    } catch {
      // The next page asks the system again.
    }
  }

  /** Paper is light, and shows all rows. */
  print(begins) {
    if (begins) {
      this.themeBefore = document.documentElement.dataset.theme;
      this.setTheme("light");
      const above = ["figures", "note"].reduce((sum, id) => sum + byId(id).offsetHeight, document.querySelector("header").offsetHeight);
      byId("sheets").replaceChildren(...this.painter.sheets(paper.width, [paper.height - above - paper.spare, paper.height - paper.spare]));
    } else {
      byId("sheets").replaceChildren();
      this.setTheme(this.themeBefore);
    }
  }
}

const weirPage = new Page();
byId("theme").addEventListener("click", () => weirPage.switchTheme());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
  if (!weirPage.storedTheme()) weirPage.setTheme(event.matches ? "dark" : "light");
});
