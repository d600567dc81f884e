// The panel: the numbers and reasons that came with the page, and the details of what is selected.

class Panel {
  /** `go(item, closer)` selects and shows. */
  constructor(meta, summary, held, go) {
    this.meta = meta;
    this.summary = summary;
    this.held = held;
    this.go = go;
  }

  /** Needs no commands: it is seen before they are read. */
  showNumbers() {
    const {summary, meta} = this;
    byId("program").textContent = meta.program;
    byId("program").title = meta.program;
    const whole = summary.makespan_ns;
    const busiest = summary.engines.reduce((best, one) => (!best || one.busy_ns > best.busy_ns ? one : best), null);
    const figures = [
      ["Makespan", durationText(whole), "from first to last"],
      ["Commands", countText(summary.commands), summary.dropped > 0 ? `${countText(summary.dropped)} not kept` : ""],
      ["Critical path", durationText(summary.critical_ns), percentText(summary.critical_ns, whole)],
      ["Busiest", busiest ? percentText(busiest.busy_ns, whole) : "–", busiest ? `${busiest.device} ${busiest.engine}` : ""],
      ["Nothing ran", durationText(summary.idle_ns), percentText(summary.idle_ns, whole)],
      ["Host waited", durationText(summary.host_waited_ns), ""],
      ["Between calls", durationText(summary.submission_ns), "median"],
    ];
    byId("figures").replaceChildren(...figures.map(([name, value, more]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value, more ? element("small", {}, more) : ""))));
    byId("note").textContent = meta.note;
    byId("note").hidden = meta.note === "";
    this.showReasons();
    this.showEngines();
  }

  showReasons() {
    const most = 10;
    const reasons = this.held.reasons;
    const one = (reason) => element("li", {}, element("button",
      {class: "reason", on: () => this.go({what: "command", place: reason.held.command}, [reason.begin_ns, reason.end_ns])},
      element("b", {title: "What the whole would be shorter by, at most"}, durationText(reason.saves_ns)),
      element("em", {}, reason.reason[0].toUpperCase() + reason.reason.slice(1)), " ",
      element("span", {}, [shortPlace(reason.file, reason.line), reason.count > 1 ? `${countText(reason.count)} times` : ""]
        .filter(Boolean).join(", ")),
      element("span", {class: "change"}, reason.why, "."),
      element("span", {}, "Change: ", reason.change, ".")));
    const rest = reasons.length - most;
    byId("reasons").replaceChildren(
      element("h2", {}, "What held it back", element("small", {}, "dearest first")),
      reasons.length === 0 ? element("p", {class: "empty"}, "Nothing held a command for a microsecond but the work before it in its stream.")
                           : element("ul", {class: "reasons"}, ...reasons.slice(0, most).map(one)),
      rest > 0 ? element("p", {class: "empty"}, `and ${countText(rest)} more that cost less`) : "");
  }

  showEngines() {
    const {summary, meta} = this;
    const whole = summary.makespan_ns;
    const colorOf = (lane) => `var(--${laneColors[meta.lanes.indexOf(lane)]})`;
    const engines = summary.engines.map((one) => element("div", {class: "engine"},
      element("span", {}, `${one.device} ${one.engine}`), element("span", {}, percentText(one.busy_ns, whole)),
      element("span", {class: "track", "aria-hidden": "true"}, bar(one.busy_ns, whole, colorOf(one.engine))),
      element("small", {}, [`${durationText(one.busy_ns)} busy`, `${countText(one.commands)} ${one.commands === 1 ? "command" : "commands"}`,
        one.bytes_per_second > 0 ? rateText(one.bytes_per_second) : "",
        one.best_bytes_per_second > 0 && one.best_bytes_per_second >= one.bytes_per_second ? `best here ${rateText(one.best_bytes_per_second)}` : "",
        deviceBestText(one)]
        .filter(Boolean).join(" · "))));
    const overlaps = summary.overlaps.map((one) => element("tr", {}, element("td", {}, `${one.device} ${one.first} and ${one.second}`),
      element("td", {class: "n"}, durationText(one.ns)), element("td", {class: "n"}, percentText(one.ns, whole))));
    const most = 9;
    const concurrency = summary.concurrency_ns.slice(0, most).map((ns, n) => element("div", {class: "engine"},
      element("span", {}, n === 0 ? "nothing" : `${n} at once`), element("span", {}, percentText(ns, whole)),
      element("span", {class: "track", "aria-hidden": "true"}, bar(ns, whole, "var(--accent)"))));
    const busy = [
      ...engines,
      element("h3", {}, "Both busy at once"),
      overlaps.length > 0 ? element("table", {class: "pairs"}, element("tbody", {}, ...overlaps))
                          : element("p", {class: "empty"}, "No device has two engines in use."),
      element("h3", {}, "Commands at once"), ...concurrency];
    byId("numbers").replaceChildren(
      element("h2", {}, "Busy", element("small", {}, "overlaps counted once")),
      ...(engines.length > 0 ? busy : [element("p", {class: "empty"}, "Nothing ran.")]),
      element("h3", {}, "Recording"),
      element("p", {class: "about"}, [meta.date, meta.clock].filter(Boolean).join(" · ")));
  }

  /** What is known of the selection. */
  showDetails(timeline, item) {
    const at = byId("details");
    at.hidden = !item;
    if (!item) return;
    const made = item.what === "command" ? this.command(timeline, item.place)
      : item.what === "wait" ? this.wait(timeline, timeline.waits[item.place])
      : item.what === "node" ? this.node(timeline, timeline.nodes[item.place]) : this.range(timeline.ranges[item.place]);
    const close = element("button", {"aria-label": "Select nothing", on: () => this.go(null)}, "×");
    at.replaceChildren(element("div", {class: "title"}, element("h2", {}, made.title), close), ...made.held);
    byId("panel").scrollTop = 0;
  }

  command(timeline, place) {
    const t = timeline;
    const ran = t.state(place) !== "pending";
    const took = t.end[place] - t.begin[place];
    const lane = t.lane(place);
    const stream = t.streams[t.stream[place]];
    const isCopy = t.meta.lanes[lane].startsWith("copy") || t.meta.lanes[lane] === "fill";
    const list = facts([
      ["Stream", `${t.streamName(t.stream[place])} on ${t.devices[stream.device]}${stream.blocking ? "" : ", non-blocking"}`],
      ["Line", t.file[place] === 0 ? "" : `${t.texts[t.file[place]]}:${t.line[place]}`],
      ["Called", t.call[place] < 0 ? "" : `${moment(t.call[place])} by thread ${t.thread[place]}`],
      ["Returned", t.called[place] < 0 ? "" : `${moment(t.called[place])}: the call took ${durationText(t.called[place] - t.call[place])}`],
      ["Begin", ran ? moment(t.begin[place]) : "it had not ended when the recording did"],
      ["End", ran ? moment(t.end[place]) : ""],
      ["Took", ran ? durationText(took) : ""],
      ["Queued", ran && t.call[place] >= 0 ? durationText(Math.max(0, t.begin[place] - t.call[place])) : ""],
      ["Bytes", t.size[place] > 0 ? `${bytesText(t.size[place])} (${countText(t.size[place])})` : ""],
      ["Arguments", t.texts[t.arguments[place]].replace(/\d+/g, (bytes) => bytesText(Number(bytes)))],
      ["Bandwidth", isCopy && ran && took > 0 && t.size[place] > 0 ? rateText((t.size[place] * 1e9) / took) : ""],
      ["Collective", t.parts.has(place) ? collectiveText(t.parts.get(place)) : ""],
      ["Elements", t.elements[place] > 0 ? countText(t.elements[place]) : ""],
      ["Event", t.event[place] > 0 ? `#${t.event[place]}` : ""],
      ["Number", countText(t.id[place])],
    ]);
    const badges = [element("span", {class: "badge", color: `var(--${laneColors[lane]})`}, t.meta.lanes[lane])];
    if (t.critical[place]) badges.push(" ", element("span", {class: "badge plain"}, "on the critical path"));
    if (t.pageable(place)) badges.push(" ", element("span", {class: "badge plain"}, "pageable memory"));
    if (t.state(place) === "skipped") badges.push(" ", element("span", {class: "badge plain"}, "skipped behind a failure"));
    const before = [];
    for (let d = t.behind[place]; d < t.behind[place + 1]; ++d) before.push([t.before[d], t.meta.ties[t.tie[d]]]);
    const after = Array.from(t.after(place), (one) => [one, ""]);
    return {title: t.nameOf(place), held: [...badges, list, ...this.links(t, "Waited for", before), ...this.links(t, "Held up", after)]};
  }
  links(t, title, commands) {
    if (commands.length === 0) return [];
    const most = 12;
    const one = ([place, tie]) => element("li", {}, element("button", {on: () => this.go({what: "command", place})}, t.nameOf(place), " ",
      element("span", {}, [t.streamName(t.stream[place]), t.placeOf(place), tie].filter(Boolean).join(" · "))));
    const rest = commands.length - most;
    return [element("h3", {}, title), element("ul", {class: "links"}, ...commands.slice(0, most).map(one)),
            rest > 0 ? element("p", {class: "empty"}, `and ${countText(rest)} more`) : ""];
  }
  wait(t, one) {
    const list = facts([
      ["Thread", String(one.thread)], ["Line", one.file === 0 ? "" : `${t.texts[one.file]}:${one.line}`],
      ["Begin", moment(one.begin)], ["End", moment(one.end)], ["Blocked for", durationText(one.end - one.begin)],
    ]);
    return {title: `Host waits: ${one.what}`, held: [list, ...(one.command >= 0 ? this.links(t, "Until", [[one.command, ""]]) : [])]};
  }
  node(t, one) {
    const list = facts([
      ["Node", `${one.number} of ${t.nameOf(one.command)}`], ["Line", one.file === 0 ? "" : `${t.texts[one.file]}:${one.line}`],
      ["Begin", moment(one.begin)], ["End", moment(one.end)], ["Took", durationText(one.end - one.begin)],
    ]);
    const badge = element("span", {class: "badge", color: `var(--${laneColors[one.lane]})`}, t.meta.lanes[one.lane]);
    const before = t.beforeNode(one).map((place) => element("li", {}, element("button", {on: () => this.go({what: "node", place})},
      t.nodeName(t.nodes[place]), " ", element("span", {}, `node ${t.nodes[place].number}`))));
    const behind = before.length > 0 ? [element("h3", {}, "Comes behind"), element("ul", {class: "links"}, ...before)] : [];
    return {title: t.nodeName(one), held: [badge, list, ...behind, ...this.links(t, "Launched by", [[one.command, ""]])]};
  }
  range(one) {
    return {title: one.name, held: [facts([["Thread", String(one.thread)], ["Begin", moment(one.begin)],
      ["End", one.open ? "open when the recording ended" : moment(one.end)], ["Took", durationText(one.end - one.begin)]])]};
  }
}

/** To the nanosecond. */
function moment(ns) {
  const [unit, name, places] = Math.abs(ns) >= 1e6 ? [1e6, "ms", 6] : [1e3, "µs", 3];
  return `${(ns / unit).toLocaleString("en-US", {minimumFractionDigits: places, maximumFractionDigits: places})} ${name}`;
}

function collectiveText(part) {
  const peer = part.peer >= 0 ? `, with rank ${part.peer}` : "";
  return `#${part.collective}: rank ${part.rank} of ${part.ranks}${peer}, communicator ${part.communicator}`;
}

/** What the device can do, of copies alone. */
function deviceBestText(one) {
  if (!one.engine.startsWith("copy") || one.bytes_per_second <= 0) return "";
  const best = one.device_bytes_per_second;
  return best === null ? "the device’s best is not known" : `the device’s best ${rateText(best)}: ${one.device_source}`;
}

function bar(part, whole, color) {
  const made = element("i", {color});
  made.style.width = `${whole > 0 ? Math.min(100, (100 * part) / whole) : 0}%`;
  return made;
}

function facts(pairs) {
  return element("dl", {class: "facts"},
    ...pairs.filter(([, value]) => value !== "").flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

/** One sentence, for who hears the page. */
function spoken(timeline, {what, place}) {
  if (what === "range") return `range ${timeline.ranges[place].name}`;
  if (what === "node") {
    const node = timeline.nodes[place];
    return `${timeline.nodeName(node)}, node ${node.number} of ${timeline.nameOf(node.command)}, took ${durationText(node.end - node.begin)}`;
  }
  const wait = timeline.waits[place];
  if (what === "wait") return `the host waits for ${wait.what}, ${durationText(wait.end - wait.begin)}`;
  const took = timeline.end[place] - timeline.begin[place];
  return `${timeline.nameOf(place)}, stream ${timeline.streamName(timeline.stream[place])}, at ${moment(timeline.begin[place])}, took ${durationText(took)}`;
}
