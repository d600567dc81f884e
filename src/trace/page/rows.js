// Rows: what is drawn beside what. A row has tracks; in a track nothing overlaps, so that the pieces which a moment or a pixel
// shows are found by bisection, however many there are.

/** Pieces of time that do not overlap, by their begin. `place` is where each one's data is: of commands, waits or ranges. */
class Track {
  constructor(what, places, begin, end) {
    this.what = what;
    this.places = new Uint32Array(places);
    this.begin = begin;
    this.end = end;
    this.sum = new Float64Array(begin.length + 1);  // of the time that those before take
    for (let i = 0; i < begin.length; ++i) this.sum[i + 1] = this.sum[i] + end[i] - begin[i];
  }

  get size() {
    return this.begin.length;
  }

  /** The first that begins at `moment` or later, at `from` or later. Near ones are found fast. */
  firstFrom(moment, from = 0) {
    let step = 1;
    let low = from;
    while (low + step < this.size && this.begin[low + step] < moment) {
      low += step;
      step *= 2;
    }
    let high = Math.min(this.size, low + step);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.begin[middle] < moment) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The first that ends behind `moment`. */
  firstAt(moment) {
    let at = this.firstFrom(moment);
    while (at > 0 && this.end[at - 1] > moment) --at;
    return at;
  }

  /** How long it is busy between two moments. */
  busy(from, to) {
    const first = this.firstAt(from);
    const last = this.firstFrom(to, first);
    if (last <= first) return 0;
    const before = Math.max(0, from - this.begin[first]);
    return Math.max(0, this.sum[last] - this.sum[first] - before - Math.max(0, this.end[last - 1] - to));
  }
}

const mostTracks = 6;

/** Tracks of pieces, which may overlap: each goes to the first track that is free. `places` are sorted by begin. */
function tracksOf(what, places, beginOf, endOf) {
  const tracks = [];
  for (const place of places) {
    const begin = beginOf(place);
    let at = 0;
    while (at < tracks.length && tracks[at].until > begin) ++at;
    if (at === tracks.length && at < mostTracks) tracks.push({until: -Infinity, places: []});
    // More at once than are drawn: behind the one that ends first.
    if (at === mostTracks) at = tracks.reduce((least, one, i) => (one.until < tracks[least].until ? i : least), 0);
    const track = tracks[at];
    track.places.push(place);
    track.until = Math.max(track.until, endOf(place));
  }
  return tracks.map((one) => new Track(what, one.places, momentsOf(one.places, beginOf), momentsOf(one.places, endOf)));
}

function momentsOf(places, of) {
  const made = new Float64Array(places.length);
  for (let i = 0; i < made.length; ++i) made[i] = of(places[i]);
  return made;
}

/** They mostly are in order. */
function sortBy(places, of) {
  for (let i = 1; i < places.length; ++i) if (of(places[i]) < of(places[i - 1])) return places.sort((a, b) => of(a) - of(b));
  return places;
}

/** Places of commands for each of `count` rows, in the order of their begin. */
function grouped(timeline, count, rowOf) {
  const rows = Array.from({length: count}, () => []);
  for (let i = 0; i < timeline.count; ++i) {
    const row = rowOf(i);
    if (row >= 0) rows[row].push(i);
  }
  return rows.map((row) => sortBy(row, (i) => timeline.begin[i]));
}

class Row {
  constructor(kind, label, note = "", tracks = [], marks = null) {
    this.kind = kind;
    this.label = label;
    this.note = note;
    this.tracks = tracks;
    this.marks = marks;  // a track of what takes no time: records, waits, allocations
    this.layout(1);
  }

  layout(scale) {
    this.pitch = Math.round((this.tracks.length > 1 ? 15 : 20) * scale);
    this.height = this.kind === "lane" ? Math.max(1, this.tracks.length) * this.pitch + 8 : this.kind === "path" ? 28 : 22;
    if (this.kind === "path") this.pitch = 20;
  }
}

function commandTracks(timeline, places) {
  return tracksOf("command", places, (i) => timeline.begin[i], (i) => timeline.end[i]);
}

/** Nodes of graphs, for each stream: beside the launch that they are of. */
function nodeTracks(timeline) {
  const of = Array.from({length: timeline.streams.length}, () => []);
  timeline.nodes.forEach((node, i) => of[timeline.stream[node.command]].push(i));
  const begin = (i) => timeline.nodes[i].begin;
  return of.map((places) => tracksOf("node", sortBy(places, begin), begin, (i) => timeline.nodes[i].end));
}

function pathRow(timeline) {
  const places = Array.from(timeline.path).filter((i) => timeline.works(i));
  return new Row("path", "Critical path", "", commandTracks(timeline, places).slice(0, 1));
}

function streamRows(timeline) {
  const isMark = (i) => timeline.lane(i) >= timeline.meta.engines;
  const work = grouped(timeline, timeline.streams.length, (i) => (timeline.works(i) ? timeline.stream[i] : -1));
  const marks = grouped(timeline, timeline.streams.length,
                        (i) => (isMark(i) && timeline.state(i) !== "pending" ? timeline.stream[i] : -1));
  const nodes = nodeTracks(timeline);
  return timeline.devices.flatMap((device, d) => [
    new Row("group", device),
    ...timeline.streams.flatMap((stream, s) => {
      if (stream.device !== d || work[s].length + marks[s].length === 0) return [];
      const notes = [stream.priority !== 0 ? `priority ${stream.priority}` : "", stream.blocking ? "" : "non-blocking"];
      const moments = momentsOf(marks[s], (i) => timeline.begin[i]);
      const at = new Track("command", marks[s], moments, moments);
      return [new Row("lane", timeline.streamName(s), notes.filter(Boolean).join(", "),
                      [...commandTracks(timeline, work[s]), ...nodes[s]], at)];
    }),
  ]);
}

function engineRows(timeline) {
  const engines = timeline.meta.engines;
  const work = grouped(timeline, timeline.devices.length * engines, (i) =>
    timeline.works(i) ? timeline.streams[timeline.stream[i]].device * engines + timeline.lane(i) : -1);
  return timeline.devices.flatMap((device, d) => [
    new Row("group", device),
    ...timeline.meta.lanes.slice(0, engines).flatMap((lane, l) => {
      const places = work[d * engines + l];
      return places.length === 0 ? [] : [new Row("lane", lane, "", commandTracks(timeline, places))];
    }),
  ]);
}

/** Host threads: their ranges, their waits, and the calls that enqueued. */
function hostRows(timeline) {
  const threads = new Map();
  const of = (thread) => {
    if (!threads.has(thread)) threads.set(thread, {ranges: [], waits: [], calls: []});
    return threads.get(thread);
  };
  timeline.ranges.forEach((range, i) => of(range.thread).ranges.push(i));
  timeline.waits.forEach((wait, i) => of(wait.thread).waits.push(i));
  let last = -1;
  let held = null;
  for (let i = 0; i < timeline.count; ++i) {
    if (timeline.call[i] < 0) continue;
    if (timeline.thread[i] !== last) {
      last = timeline.thread[i];
      held = of(last);
    }
    held.calls.push(i);
  }
  if (threads.size === 0) return [];
  const rows = [new Row("group", "Host")];
  for (const thread of [...threads.keys()].sort((a, b) => a - b)) {
    const {ranges, waits, calls} = threads.get(thread);
    const callEnd = (i) => Math.max(timeline.call[i], timeline.called[i]);
    sortBy(calls, (i) => timeline.call[i]);
    const tracks = [
      ...tracksOf("range", ranges, (i) => timeline.ranges[i].begin, (i) => timeline.ranges[i].end),
      ...tracksOf("wait", waits, (i) => timeline.waits[i].begin, (i) => timeline.waits[i].end).slice(0, 1),
      new Track("call", calls, momentsOf(calls, (i) => timeline.call[i]), momentsOf(calls, callEnd)),
    ];
    rows.push(new Row("lane", `thread ${thread}`, waits.length > 0 ? "calls and waits" : "calls", tracks));
  }
  return rows;
}

function allRows(timeline, byEngine) {
  const path = timeline.path.length > 0 ? [pathRow(timeline)] : [];
  return [...path, ...(byEngine ? engineRows(timeline) : streamRows(timeline)), ...hostRows(timeline)];
}
