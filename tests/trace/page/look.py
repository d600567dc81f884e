"""What a browser makes of pages: `look.py FOLDER`, with page.html, page.json and summary.json of one timeline, many.html with more
commands than pixels, and empty.html. Exits with 77 where there is no Chromium."""

import json
import pathlib
import re
import sys

import browser

# Where a command is on the screen, and its color there.
PLACE = """(() => {
  const {view, canvas} = weirPage, found = view.find({what: "%s", place: %d}), {left, top} = canvas.getBoundingClientRect();
  const x = (view.x(found.track.begin[found.at]) + view.x(found.track.end[found.at])) / 2, y = found.y + found.height / 2;
  const pixel = canvas.getContext("2d").getImageData(Math.round(x), Math.round(found.y + 3), 1, 1).data;
  return {x: left + x, y: top + y, color: Array.from(pixel).slice(0, 3)};
})()"""
COLOR = """(() => {
  const c = document.createElement("canvas").getContext("2d");
  c.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--%s");
  c.fillRect(0, 0, 1, 1);
  return Array.from(c.getImageData(0, 0, 1, 1).data).slice(0, 3);
})()"""
# A pixel of the box of a command: so far from its begin or end, and so far below its top or, below 0, above its bottom.
PIXEL = """(() => {
  const {view, canvas} = weirPage, found = view.find({what: "command", place: %d}), below = %d;
  const x = view.x(found.track.%s[found.at]) + %d, y = below < 0 ? found.y + found.height + below : found.y + below;
  return Array.from(canvas.getContext("2d").getImageData(Math.round(x), Math.round(y), 1, 1).data).slice(0, 3);
})()"""
IN, RECORD, WAIT, SAXPY, EVIL, OUT, HOST, PENDING = range(8)


def equal(found, wanted, what):
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, not {wanted!r}")


def holds(fact, what):
    if not fact:
        raise AssertionError(what)


class Look:
    def __init__(self, page, folder):
        self.page, self.folder = page, folder
        self.evaluate = page.evaluate

    def place(self, what, place):
        return self.evaluate(PLACE % (what, place))

    def text(self, selector):
        return self.evaluate(f"document.querySelector({selector!r}).innerText")

    def selected(self):
        return self.evaluate("weirPage.view.selected && weirPage.view.selected.place")

    def open(self, name):
        self.page.events.clear()
        self.page.open(self.folder / name)
        self.page.settle()

    def has_the_data(self):
        """Each number is that of the JSON."""
        data = json.loads((self.folder / "page.json").read_text())
        events = {cat: [one["args"]["w"].split() for one in data["traceEvents"] if one.get("cat") == cat]
                  for cat in ("command", "host wait", "range", "node")}
        commands = self.evaluate("""(() => {
          const t = weirPage.timeline, made = [];
          for (let i = 0; i < t.count; ++i) {
            const one = [t.id[i], t.name[i] - 1, t.file[i] - 1, t.line[i], t.stream[i], t.thread[i], t.lane(i), (t.kind[i] >> 4) & 3,
                         Number(t.pageable(i)), t.event[i], t.elements[i], t.size[i], t.call[i], t.called[i], t.begin[i], t.end[i]];
            for (let d = t.behind[i]; d < t.behind[i + 1]; ++d) one.push(t.before[d], t.tie[d]);
            made.push(one.map(String));
          }
          return made;
        })()""")
        equal(commands, events["command"], "commands")
        arguments = self.evaluate("Array.from(weirPage.timeline.arguments, (place) => weirPage.timeline.texts[place])")
        equal(arguments, [one["args"].get("arguments", "") for one in data["traceEvents"] if one.get("cat") == "command"], "arguments")
        waits = self.evaluate("weirPage.timeline.waits.map((w) => [w.stream, w.command, w.line, w.thread, w.begin, w.end].map(String))")
        equal(waits, [[one[k] for k in (1, 2, 4, 5, 6, 7)] for one in events["host wait"]], "waits")
        ranges = self.evaluate("weirPage.timeline.ranges.map((r) => [r.thread, r.begin, r.open ? -1 : r.end].map(String))")
        equal(ranges, [one[1:] for one in events["range"]], "ranges")
        nodes = self.evaluate("weirPage.timeline.nodes.map((n) => [n.command, n.number, n.name - 1, n.lane, n.file - 1, n.line, n.begin, n.end, ...n.behind].map(String))")
        equal(nodes, events["node"], "nodes")
        equal(self.evaluate("weirPage.timeline.texts.slice(1)"), data["weir"]["texts"], "texts")

    def has_the_numbers(self):
        summary = json.loads((self.folder / "summary.json").read_text())
        path = [one["command"] for one in summary.pop("critical_path")]
        equal(self.evaluate("Array.from(weirPage.timeline.path)"), path, "critical path")
        embedded = self.evaluate("JSON.parse(byId('summary').textContent)")
        embedded.pop("critical_path")
        equal(embedded, summary, "summary")
        figures = self.text("#figures").replace("\n", " ")
        holds("401 µs" in figures, f"the makespan is missing: {figures}")
        holds("Commands 8" in figures and "3 not kept" in figures, f"the commands are missing: {figures}")
        for engine in summary["engines"]:
            holds(f"{engine['device']} {engine['engine']}" in self.text("#numbers"), f"{engine} is missing")
        holds("10.5 GB/s · best here 10.5 GB/s · the device’s best 12.6 GB/s: the profile <b>" in self.text("#numbers"),
              f"the device's best is missing: {self.text('#numbers')}")
        holds("best here 11.7 GB/s · the device’s best is not known" in self.text("#numbers"), "what is not known is not said")
        equal(self.text("#note"), "3 commands were dropped: <b>", "note")

    def is_drawn(self):
        for place, color in ((IN, "copy-in"), (SAXPY, "kernel"), (EVIL, "kernel"), (OUT, "copy-out")):
            equal(self.place("command", place)["color"], self.evaluate(COLOR % color), f"color of command {place}")
        equal(self.place("wait", 0)["color"], self.evaluate(COLOR % "wait"), "color of a wait")
        equal(self.place("node", 0)["color"], self.evaluate(COLOR % "kernel"), "color of a node")
        equal(self.place("node", 1)["color"], self.evaluate(COLOR % "fill"), "color of a node")
        holds(self.evaluate("document.title") != "evil", "a name was run as a script")
        equal(self.text("#status"), "", "status")
        for name in ("kernel", "copy to device", "copy on device", "fill", "host function", "host waits"):
            holds(name in self.text("#legend"), f"the legend lacks {name}")

    def marks_the_critical_path(self):
        for place, marked in ((IN, True), (SAXPY, True), (OUT, True), (EVIL, False)):
            below = self.evaluate(PIXEL % (place, -1, "begin", 8))
            equal(below == self.evaluate(COLOR % "critical"), marked, f"a line below command {place}: {below}")

    def draws_arrows_to_and_from_what_is_selected(self):
        half = lambda place: self.evaluate(f'weirPage.view.find({{what: "command", place: {place}}}).height') // 2
        head = lambda place: self.evaluate(PIXEL % (place, half(place), "begin", -4))
        before = [head(OUT), head(HOST)]
        at = self.place("command", OUT)
        self.page.click(at["x"], at["y"])
        self.page.settle()
        accent, soft = self.evaluate(COLOR % "accent"), self.evaluate(COLOR % "soft")
        equal([head(OUT), head(HOST)], [accent, soft], "heads of arrows from what it waited for, and to what waited for it")
        self.page.key("Escape")
        self.page.settle()
        equal([head(OUT), head(HOST)], before, "nothing is selected")

    def zooms_and_moves(self):
        span = lambda: self.evaluate("weirPage.view.span")
        start = lambda: self.evaluate("weirPage.view.from")
        self.evaluate("weirPage.canvas.focus()")
        whole = span()
        self.page.key("+")
        holds(span() < whole, "+ did not zoom")
        before = start()
        self.page.key("ArrowRight")
        holds(start() > before, "the arrow did not move")
        self.page.key("0")
        holds(abs(span() - whole) < 1, "0 did not show all")
        at = self.place("command", SAXPY)
        moment = f"weirPage.view.moment({at['x']} - weirPage.canvas.getBoundingClientRect().left)"
        before = self.evaluate(moment)
        self.page.mouse("mouseWheel", at["x"], at["y"], deltaX=0, deltaY=-120, modifiers=2)
        self.page.settle()
        holds(span() < whole and abs(self.evaluate(moment) - before) < whole / 1000, "the wheel did not zoom where it was")
        before = start()
        self.page.mouse("mousePressed", at["x"], at["y"], button="left", buttons=1, clickCount=1)
        self.page.mouse("mouseMoved", at["x"] - 80, at["y"], button="left", buttons=1)
        self.page.mouse("mouseReleased", at["x"] - 80, at["y"], button="left", clickCount=1)
        self.page.settle()
        holds(start() > before and self.selected() is None, "dragging did not move")
        self.page.key("0")

    def selects_nodes_of_graphs(self):
        at = self.place("node", 0)
        self.page.click(at["x"], at["y"])
        details = self.text("#details")
        for text in ("Step", "1 of Saxpy", "graph.cpp:7", "70.0 µs"):
            holds(text in details, f"{text} is missing: {details}")
        at = self.place("node", 2)
        self.page.click(at["x"], at["y"])
        links = self.evaluate("Array.from(document.querySelectorAll('#details .links button'), (one) => one.innerText)")
        equal(links[:2], ["Step node 1", "fill node 2"], "what a node comes behind")
        self.evaluate("document.querySelector('#details .links button').click()")
        equal(self.evaluate("weirPage.view.selected"), {"what": "node", "place": 0}, "a click on it")
        self.page.key("Escape")

    def selects_by_click(self):
        at = self.place("command", IN)
        self.page.click(at["x"], at["y"])
        equal(self.selected(), IN, "a click")
        details = self.text("#details")
        for text in ("c0", "made.cpp:1", "s0 on sim:0", "pageable memory", "1.00 MiB (1,048,576)", "10.5 GB/s", "100 µs",
                     "the call took 103 µs"):
            holds(text in details, f"{text!r} is missing: {details}")
        held_up = self.evaluate("Array.from(document.querySelectorAll('#details .links button'), (one) => one.innerText)")
        equal([one.split()[0] for one in held_up], ["order"], "what waited for it")
        at = self.place("command", SAXPY)
        self.page.click(at["x"], at["y"])
        holds("in 1.00 MiB, inout 1.00 MiB" in self.text("#details"), "a launch's arguments")
        at = self.place("wait", 0)
        self.page.click(at["x"], at["y"])
        holds("Host waits: stream s2" in self.text("#details") and "made.cpp:99" in self.text("#details"), "a wait's details")

    def shows_reasons(self):
        reason = self.evaluate("JSON.parse(byId('held').textContent).reasons[0]")
        self.evaluate("document.querySelector('.reason').click()")
        self.page.settle()
        equal(self.selected(), reason["held"]["command"], "a click on a reason")
        shown = self.evaluate("[weirPage.view.from, weirPage.view.to]")
        gap = reason["end_ns"] - reason["begin_ns"]
        holds(shown[0] < reason["begin_ns"] and reason["end_ns"] < shown[1] < reason["end_ns"] + 2 * gap + 1000, f"{shown} is shown")
        self.evaluate("byId('fit').click()")
        holds(self.evaluate("weirPage.view.span >= weirPage.view.last - weirPage.view.first"), "the button does not show all")

    def is_used_by_keys(self):
        self.page.key("Escape")
        equal(self.selected(), None, "Escape")
        self.page.key("n")
        equal(self.selected(), IN, "the first")
        self.page.key("ArrowDown")
        equal(self.selected(), SAXPY, "the row below")
        self.page.key("p")
        equal(self.selected(), SAXPY, "before the first of the row")
        self.page.key("n")
        equal(self.selected(), OUT, "the next of the row")
        holds("Saxpy" in self.text("#details"), "what it waited for is missing")
        holds("c6" in self.text("#details"), "what waited for it is missing")
        equal(self.text("#spoken"), "c5, stream s2, at 310.000 µs, took 90.0 µs", "what a screen reader says")
        self.page.key("b")
        self.page.key("b")
        equal(self.selected(), WAIT, "what it waited for")
        holds("#1" in self.text("#details"), "a wait says for which event")
        self.page.key("b")
        equal(self.selected(), RECORD, "the record")
        before = self.evaluate("weirPage.view.span")
        self.page.key("c")
        holds(self.evaluate("weirPage.timeline.critical[weirPage.view.selected.place]") == 1, "the critical path")
        self.page.key("Enter")
        holds(self.evaluate("weirPage.view.span") < before, "Enter did not zoom")
        self.page.key("0")
        # By Tab alone everything is reached: the timeline, the list of reasons, links.
        self.evaluate("document.activeElement.blur()")
        reached = set()
        for _ in range(40):
            self.page.key("Tab")
            reached.add(self.evaluate("document.activeElement.id || document.activeElement.closest('section')?.id || ''"))
        for place in ("search", "fit", "canvas", "details", "theme"):
            holds(place in reached, f"Tab does not reach {place}: {reached}")

    def names_its_buttons(self):
        """By words: a screen reader says nothing, or something odd, of a sign."""
        names = self.evaluate("Array.from(document.querySelectorAll('button'), (one) => one.ariaLabel || one.innerText)")
        for name in names:
            holds(re.search("[A-Za-z]", name), f"a button is called {name!r}")

    def searches(self):
        self.page.key("Escape")
        self.evaluate("weirPage.canvas.focus()")
        self.page.key("/")
        self.page.type("saxpy")
        equal(self.text("#found"), "1 found", "search by name")
        self.page.key("Enter")
        equal(self.selected(), SAXPY, "the match")
        self.evaluate("byId('search').value = ''")
        self.page.type("made.cpp:6")
        equal(self.evaluate("Array.from(weirPage.view.found)"), [OUT], "search by line")
        self.evaluate("byId('search').value = ''")
        self.page.type("made.cpp")
        equal(self.evaluate("weirPage.view.found"), [IN, PENDING, EVIL, RECORD, WAIT, SAXPY, OUT, HOST], "matches by time")
        self.page.key("Escape")
        equal(self.evaluate("weirPage.view.matches"), None, "the end of a search")

    def has_a_table(self):
        self.page.key("t")
        rows = self.evaluate("Array.from(document.querySelectorAll('#table-rows tr'), (r) => r.innerText)")
        equal(len(rows), 7, "rows of the table")
        holds(any("Saxpy" in row and "200 µs" in row for row in rows), f"Saxpy is missing: {rows}")
        self.evaluate("document.querySelectorAll('#table-rows button')[0].click()")
        equal(self.selected(), IN, "a click in the table")
        self.page.key("t")

    def has_views(self):
        self.evaluate("byId('by-engine').click()")
        labels = self.evaluate("weirPage.view.rows.map((row) => row.label)")
        holds("copy to device" in labels and "s0" not in labels, f"rows of engines: {labels}")
        self.evaluate("byId('by-stream').click()")
        light = self.evaluate("getComputedStyle(document.body).backgroundColor")
        self.page.dark(True)
        self.page.settle()
        holds(light != self.evaluate("getComputedStyle(document.body).backgroundColor"), "the system's dark colors")
        self.evaluate("byId('theme').click()")
        equal(self.evaluate("getComputedStyle(document.body).backgroundColor"), light, "the switch of colors")
        self.page.dark(False)

    def has_names_that_can_be_read(self):
        """On each colour of a command, a wait or a call, in both themes: the contrast of WCAG's level AA for small text."""
        for dark in (False, True):
            self.page.dark(dark)
            self.page.settle()

            def light(name):
                parts = [one / 255 for one in self.evaluate(COLOR % name)]
                red, green, blue = (one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
                return 0.2126 * red + 0.7152 * green + 0.0722 * blue

            def contrast(one, other):
                low, high = sorted((light(one), light(other)))
                return (high + 0.05) / (low + 0.05)

            for lane in self.evaluate("laneColors") + ["wait", "call"]:
                holds(contrast("on-lane", lane) >= 4.5, f"names on {lane}, dark: {dark}: {contrast('on-lane', lane):.2f}")
            for text in ("text", "soft", "accent", "critical"):
                holds(contrast(text, "surface") >= 4.5, f"{text}, dark: {dark}: {contrast(text, 'surface'):.2f}")
        self.page.dark(False)

    def draws_many(self):
        """A share of a pixel each: rows are filled, and a search dims what is not meant."""
        self.open("many.html")
        equal(self.evaluate("weirPage.timeline.count"), 20000, "commands")
        painted = """(() => {
          const {view, canvas} = weirPage, y = view.find({what: "command", place: 0}).y + 5;
          const row = canvas.getContext("2d").getImageData(%d, y, canvas.width - %d, 1).data;
          let count = 0;
          for (let i = 0; i < row.length; i += 4) count += row[i + 2] - row[i] > 60;
          return count;
        })()""" % (160, 190)
        before = self.evaluate(painted)
        holds(before > 600, f"{before} pixels are blue")
        self.evaluate("byId('search').focus()")
        self.page.type("nothing is called so")
        holds(self.evaluate(painted) < 10, "a search dims")
        self.evaluate("byId('search').value = ''")
        self.page.type("Saxpy")
        holds(self.evaluate(painted) > 100, "a search dims what it found")

    def prints_all_rows(self):
        """On sheets that are no higher than a page, each with its ruler, one behind the other; then the screen is as before."""
        self.open("rows.html")
        before = self.page.picture()
        self.evaluate("weirPage.print(true)")
        heights = self.evaluate("Array.from(document.querySelectorAll('.sheet'), (one) => one.height / (one.width / 1047))")
        rows = self.evaluate("weirPage.view.rows.reduce((sum, row) => sum + (row.layout(1), row.height), 0)")
        holds(len(heights) > 2 and max(heights) <= 718, f"sheets of {heights}")
        again = sum(heights) - 24 * len(heights) - rows
        holds(0 <= again <= 22 * (len(heights) - 1), f"rows on all sheets, and headings again: {again} pixels")
        blue = self.evaluate("""Array.from(document.querySelectorAll(".sheet"), (one) => {
          const data = one.getContext("2d").getImageData(0, 0, one.width, one.height).data;
          for (let i = 0; i < data.length; i += 4) if (data[i + 2] - data[i] > 60) return true;
          return false;
        })""")
        holds(all(blue[:-1]), f"sheets with commands, but for the host's: {blue}")
        self.evaluate("weirPage.print(false)")
        self.evaluate("weirPage.paint()")
        equal(self.evaluate("document.querySelectorAll('.sheet').length"), 0, "sheets on the screen")
        holds(self.page.picture() == before, "the screen is as before")
        self.evaluate("byId('panel').style.display = 'none'")
        self.page.pdf(self.folder / "rows.pdf")
        pages = len(re.findall(rb"/Type\s*/Page\b", (self.folder / "rows.pdf").read_bytes()))
        holds(len(heights) <= pages <= len(heights) + 1, f"{pages} pages of {len(heights)} sheets and the legend")

    def says_what_is_wrong(self):
        text = (self.folder / "page.html").read_text()
        damaged = re.sub(r'(id="timeline" data-version="1">[^<]{40})[^<]*', r"\1", text)
        (self.folder / "damaged.html").write_text(damaged)
        self.open("damaged.html")
        holds("could not be read" in self.text("#status"), self.text("#status"))
        holds("Commands" in self.text("#figures"), "the summary is there all the same")

    def all(self):
        self.open("page.html")
        for part in (self.has_the_data, self.has_the_numbers, self.is_drawn, self.marks_the_critical_path,
                     self.draws_arrows_to_and_from_what_is_selected, self.zooms_and_moves, self.selects_nodes_of_graphs,
                     self.selects_by_click, self.shows_reasons, self.is_used_by_keys,
                     self.names_its_buttons, self.searches, self.has_a_table, self.has_views,
                     self.has_names_that_can_be_read):
            part()
        self.open("empty.html")
        equal(self.text("#status"), "No command was recorded.", "an empty page")
        holds("Nothing ran." in self.text("#numbers") and "at once" not in self.text("#numbers"), "numbers of nothing")
        self.draws_many()
        self.prints_all_rows()
        for event in self.page.requested:
            holds(event.startswith(("file:", "data:")), f"the page asked for {event}")
        holds(not self.page.thrown, f"the page threw {self.page.thrown}")
        self.says_what_is_wrong()


def main():
    if not browser.find():
        return 77
    with browser.Browser(timeout=40) as page:
        page.dark(False)
        Look(page, pathlib.Path(sys.argv[1])).all()
    return 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
