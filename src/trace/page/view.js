// What is looked at: a part of the time, the rows, what is selected and what was searched.

const labelWidth = 148;
const rulerHeight = 24;

class View {
  constructor(timeline) {
    this.timeline = timeline;
    this.byEngine = false;
    this.rows = allRows(timeline, false);
    this.width = 1;
    this.height = 1;
    this.scroll = 0;
    this.selected = null;  // {what, place}
    this.hovered = null;
    this.measured = null;  // [from, to]
    this.matches = null;  // of texts, by their places
    this.matchCount = 0;
    this.findEnds();
    this.showAll();
  }

  findEnds() {
    let first = Infinity;
    let last = -Infinity;
    for (const row of this.rows) {
      for (const track of row.tracks) {
        if (track.size === 0) continue;
        first = Math.min(first, track.begin[0]);
        // Sums may not: in the last track, what begins first may end last.
        for (let i = track.size - 1; i >= Math.max(0, track.size - 64); --i) last = Math.max(last, track.end[i]);
      }
    }
    [this.first, this.last] = first < last ? [first, last] : [0, Math.max(1000, this.timeline.duration)];
  }

  setRows(byEngine) {
    this.byEngine = byEngine;
    this.rows = allRows(this.timeline, byEngine);
    this.scroll = 0;
  }

  /** Few rows are taller. */
  layout(width, height) {
    const isNew = height !== this.height || this.rows !== this.laidOut;
    [this.width, this.height, this.laidOut] = [width, height, this.rows];
    if (isNew) {
      for (const row of this.rows) row.layout(1);
      const scale = Math.min(1.6, Math.max(1, (height - rulerHeight) / this.rowsHeight));
      for (const row of this.rows) row.layout(scale);
    }
    this.scrollBy(0);
  }

  get span() {
    return this.to - this.from;
  }
  get rowsHeight() {
    return this.rows.reduce((sum, row) => sum + row.height, 0);
  }
  x(moment) {
    return labelWidth + ((moment - this.from) / this.span) * (this.width - labelWidth);
  }
  moment(x) {
    return this.from + ((x - labelWidth) / (this.width - labelWidth)) * this.span;
  }

  show(from, to) {
    const whole = this.last - this.first;
    const span = Math.min(Math.max(to - from, 20), whole * 1.2);
    const middle = Math.min(Math.max((from + to) / 2, this.first), this.last);
    this.from = middle - span / 2;
    this.to = middle + span / 2;
  }
  showAll() {
    const margin = (this.last - this.first) * 0.02;
    this.show(this.first - margin, this.last + margin);
  }
  zoom(factor, x = this.x(this.from + this.span / 2)) {
    const at = this.moment(x);
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }
  move(pixels) {
    const by = (pixels / (this.width - labelWidth)) * this.span;
    this.show(this.from + by, this.to + by);
  }
  scrollBy(pixels) {
    this.scroll = Math.max(0, Math.min(this.scroll + pixels, this.rowsHeight - (this.height - rulerHeight)));
  }

  /** [begin, end] of what was selected. */
  spanOf({what, place}) {
    const t = this.timeline;
    if (what === "wait") return [t.waits[place].begin, t.waits[place].end];
    if (what === "range") return [t.ranges[place].begin, t.ranges[place].end];
    if (what === "node") return [t.nodes[place].begin, t.nodes[place].end];
    if (t.state(place) === "pending") return [t.call[place], t.call[place]];
    return [t.begin[place], t.end[place]];
  }

  /** Where it is drawn: {row, track, at, y}. Calls are looked for only where their command is in no row. */
  find({what, place}) {
    const begin = this.spanOf({what, place})[0];
    for (const wanted of what === "command" ? ["command", "call"] : [what]) {
      let y = rulerHeight - this.scroll;
      for (const row of this.rows) {
        const tracks = row.kind === "path" ? [] : row.marks ? [...row.tracks, row.marks] : row.tracks;
        for (let k = 0; k < tracks.length; ++k) {
          if (tracks[k].what !== wanted) continue;
          const from = wanted === "call" ? this.timeline.call[place] : begin;
          for (let at = tracks[k].firstFrom(from); at < tracks[k].size && tracks[k].begin[at] === from; ++at) {
            if (tracks[k].places[at] !== place) continue;
            const line = tracks[k] === row.marks ? 0 : k;
            return {row, track: tracks[k], at, y: y + 4 + line * row.pitch, height: row.pitch - 2};
          }
        }
        y += row.height;
      }
    }
    return null;
  }

  /** Moves time and rows until it is seen. */
  reveal(item, closer = false) {
    const [begin, end] = this.spanOf(item);
    if (closer) {
      const margin = Math.max((end - begin) * 0.6, 50);
      this.show(begin - margin, end + margin);
    } else if (end < this.from || begin > this.to) {
      this.show(begin - this.span / 3, begin + (2 * this.span) / 3);
    }
    const place = this.find(item);
    if (!place) return;
    if (place.y < rulerHeight) this.scrollBy(place.y - rulerHeight - 8);
    else if (place.y + place.height > this.height) this.scrollBy(place.y + place.height + 8 - this.height);
  }

  /** What is at a point of the canvas: {what, place, row} or null. */
  at(x, y) {
    if (x < labelWidth || y < rulerHeight) return null;
    let top = rulerHeight - this.scroll;
    for (const row of this.rows) {
      if (y >= top && y < top + row.height) return this.within(row, x, y - top - 4);
      top += row.height;
    }
    return null;
  }
  within(row, x, y) {
    const near = this.span / (this.width - labelWidth);
    const track = row.tracks[Math.min(row.tracks.length - 1, Math.max(0, Math.floor(y / row.pitch)))];
    let best = null;
    for (const one of row.marks ? [track, row.marks] : [track]) {
      if (!one || one.size === 0) continue;
      const moment = this.moment(x);
      for (let at = Math.max(0, one.firstAt(moment) - 1); at < one.size && one.begin[at] < moment + 3 * near; ++at) {
        const off = Math.max(one.begin[at] - moment, moment - one.end[at], one === row.marks ? near : 0) / near;
        if (off < 3 && (!best || off < best.off)) best = {what: one.what, place: one.places[at], off};
      }
    }
    return best && {what: best.what === "call" ? "command" : best.what, place: best.place, row};
  }

  /** The one before or behind in its row. */
  beside(item, step) {
    const found = this.find(item);
    const place = found && found.track.places[found.at + step];
    return place === undefined || place === null ? null : this.item(found.track, place);
  }
  item(track, place) {
    return {what: track.what === "call" ? "command" : track.what, place};
  }
  /** In the track above or below, what is nearest to where the selection begins. */
  beyond(item, step) {
    const found = this.find(item);
    if (!found) return null;
    const tracks = this.rows.filter((row) => row.kind === "lane").flatMap((row) => row.tracks).filter((one) => one.size > 0);
    const from = found.track === found.row.marks ? found.row.tracks[0] : found.track;
    const track = tracks[tracks.indexOf(from) + step];
    if (!track) return null;
    const moment = found.track.begin[found.at];
    const at = Math.min(track.size - 1, track.firstAt(moment));
    return this.item(track, track.places[at]);
  }
  /** The first that is seen at all. */
  firstSeen() {
    for (const row of this.rows.filter((one) => one.kind === "lane")) {
      for (const track of row.tracks) {
        const at = track.firstAt(this.from);
        if (at < track.size && track.begin[at] < this.to) return this.item(track, track.places[at]);
      }
    }
    return null;
  }

  /** Commands whose name, line, kind or stream has the text. */
  search(text) {
    const wanted = text.trim().toLowerCase();
    const t = this.timeline;
    if (wanted === "") {
      this.matches = null;
      return;
    }
    const has = (one) => one.toLowerCase().includes(wanted);
    const names = Uint8Array.from(t.texts, has);
    const lanes = Uint8Array.from(t.meta.lanes, has);
    const streams = Uint8Array.from(t.streams, (_, s) => has(t.streamName(s)));
    const line = /^(.*):(\d+)$/.exec(wanted);
    const files = line ? Uint8Array.from(t.texts, (one) => one.toLowerCase().endsWith(line[1])) : null;
    const matches = new Uint8Array(t.count);
    this.matchCount = 0;
    for (let i = 0; i < t.count; ++i) {
      const name = t.name[i] === 0 ? lanes[t.lane(i)] : names[t.name[i]];
      const place = t.file[i] !== 0 && (names[t.file[i]] || (files && files[t.file[i]] && t.line[i] === Number(line[2])));
      if (name || place || streams[t.stream[i]] || lanes[t.lane(i)]) {
        matches[i] = 1;
        ++this.matchCount;
      }
    }
    this.matches = matches;
    this.sorted = null;
  }
  /** Their places by begin, put in order when somebody goes there. */
  get found() {
    if (!this.matches) return [];
    if (!this.sorted) {
      const places = [];
      for (let i = 0; i < this.matches.length; ++i) if (this.matches[i]) places.push(i);
      this.sorted = sortBy(places, (i) => this.spanOf({what: "command", place: i})[0]);
    }
    return this.sorted;
  }
}
