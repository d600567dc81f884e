// Painting: what is smaller than a pixel is painted as a share of it, so that the work goes with the width and not with the
// number of commands.

const laneColors = ["kernel", "copy-in", "copy-out", "copy-device", "copy-host", "fill", "host-function", "external", "graph",
                    "memory", "order"];
const font = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

class Painter {
  constructor(canvas, overview, view) {
    this.canvas = canvas;
    this.overview = overview;
    this.view = view;
    this.widths = new Map();
    this.takeColors();
  }

  takeColors() {
    const style = getComputedStyle(document.documentElement);
    this.color = (name) => this.colors.get(name) ?? this.colors.set(name, style.getPropertyValue(`--${name}`).trim()).get(name);
    this.colors = new Map();
    this.lanes = laneColors.map((name) => this.color(name));
    this.whole = null;
  }

  resize(canvas) {
    const scale = window.devicePixelRatio || 1;
    const {width, height} = canvas.getBoundingClientRect();
    const [w, h] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
    if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
    const context = canvas.getContext("2d", {alpha: false});
    context.setTransform(scale, 0, 0, scale, 0, 0);
    return [context, width, height];
  }

  paint() {
    const [context, width, height] = this.resize(this.canvas);
    this.view.layout(width, height);
    this.draw(context, width, height);
    this.paintOverview();
  }

  /** A canvas for each part of the rows, as high as `heights` allows one after the other; rows are whole, below their heading. */
  sheets(width, heights) {
    const {view} = this;
    const before = {rows: view.rows, width: view.width, height: view.height, scroll: view.scroll};
    view.layout(width, 0);
    const parts = [];
    let heading = null;
    for (const [i, row] of before.rows.entries()) {
      if (row.kind === "group") heading = row;
      const room = heights[Math.min(Math.max(parts.length, 1), heights.length) - 1];
      // No heading is alone at the end.
      const needed = row === heading && i + 1 < before.rows.length ? row.height + before.rows[i + 1].height : row.height;
      let part = parts[parts.length - 1];
      const add = (one) => {
        part.rows.push(one);
        part.height += one.height;
      };
      if (!part || part.height + needed > room) {
        parts.push((part = {rows: [], height: rulerHeight}));
        if (heading && row !== heading) add(heading);
      }
      add(row);
    }
    const scale = parts.length > 16 ? 1 : 2;  // finer than screens, where memory allows
    const made = parts.map(({rows, height}) => {
      const canvas = element("canvas", {class: "sheet"});
      [canvas.width, canvas.height] = [width * scale, height * scale];
      const context = canvas.getContext("2d", {alpha: false});
      context.scale(scale, scale);
      [view.rows, view.height, view.scroll] = [rows, height, 0];
      this.draw(context, width, height);
      return canvas;
    });
    view.rows = before.rows;
    view.layout(before.width, before.height);
    view.scroll = before.scroll;
    return made;
  }

  draw(c, width, height) {
    c.font = font;
    c.textBaseline = "middle";
    c.fillStyle = this.color("surface");
    c.fillRect(0, 0, width, height);
    this.rows(c, width, height);
    this.arrows(c);
    this.selection(c);
    this.ruler(c, width, height);
    this.labels(c, height);
  }

  rows(c, width, height) {
    const view = this.view;
    c.save();
    c.beginPath();
    c.rect(labelWidth, rulerHeight, width - labelWidth, height - rulerHeight);
    c.clip();
    this.grid(c, height);
    let y = rulerHeight - view.scroll;
    for (const row of view.rows) {
      if (y + row.height >= rulerHeight && y < height) {
        if (row.kind === "group") {
          c.fillStyle = this.color("raised");
          c.fillRect(labelWidth, y, width - labelWidth, row.height);
        }
        row.tracks.forEach((track, k) => this.track(c, track, y + 4 + k * row.pitch, row.pitch - 2, row.kind === "path"));
        if (row.marks) this.marks(c, row.marks, y + 4, row.height - 10);
        c.fillStyle = this.color("line");
        c.fillRect(labelWidth, Math.round(y + row.height) - 1, width - labelWidth, 1);
      }
      y += row.height;
    }
    c.restore();
  }

  colorOf(track, at) {
    if (track.what === "wait") return this.color("wait");
    if (track.what === "range") return this.color("range");
    if (track.what === "call") return this.color("call");
    if (track.what === "node") return this.lanes[this.view.timeline.nodes[track.places[at]].lane];
    return this.lanes[this.view.timeline.lane(track.places[at])];
  }
  dimmed(track, at) {
    const {matches} = this.view;
    if (matches === null) return false;
    if (track.what === "node") return !matches[this.view.timeline.nodes[track.places[at]].command];
    return track.what === "wait" || track.what === "range" || !matches[track.places[at]];
  }

  /** Boxes where they are wide enough, else shares of pixels, of which equal neighbours are one rectangle. */
  track(c, track, y, height, isPath) {
    const view = this.view;
    const perPixel = view.span / (view.width - labelWidth);
    const left = view.from;
    let run = null;
    const flush = () => {
      if (!run) return;
      c.globalAlpha = run.alpha;
      c.fillStyle = run.color;
      c.fillRect(run.x, y, run.to - run.x, height);
      if (run.critical && !isPath) {
        c.globalAlpha = 1;
        c.fillStyle = this.color("critical");
        c.fillRect(run.x, y + height - 2, run.to - run.x, 2);
      }
      run = null;
    };
    let at = track.firstAt(view.from);
    while (at < track.size && track.begin[at] < view.to) {
      const x = labelWidth + (track.begin[at] - left) / perPixel;
      const to = labelWidth + (track.end[at] - left) / perPixel;
      if (to - x >= 2) {
        flush();
        this.box(c, track, at, x, to, y, height, isPath);
        ++at;
        continue;
      }
      const pixel = Math.floor(x);
      const pixelEnd = left + (pixel + 1 - labelWidth) * perPixel;
      let next = track.firstFrom(pixelEnd, at + 1);
      if (next > at + 1 && track.end[next - 1] - pixelEnd > perPixel) --next;  // a wide one begins here
      const share = (track.sum[next] - track.sum[at]) / perPixel;
      const middle = (at + next) >> 1;
      const alpha = this.dimmed(track, middle) && !this.anyMatch(track, at, next) ? 0.12 : Math.min(1, 0.3 + Math.ceil(share * 7) / 10);
      const color = this.colorOf(track, middle);
      const critical = track.what === "command" && view.timeline.critical[track.places[middle]] === 1;
      if (run && run.to === pixel && run.color === color && run.alpha === alpha && run.critical === critical) {
        run.to = pixel + 1;
      } else {
        flush();
        run = {x: pixel, to: pixel + 1, color, alpha, critical};
      }
      at = next;
    }
    flush();
    c.globalAlpha = 1;
  }

  /** A few are looked at: the pixel has many. */
  anyMatch(track, from, to) {
    const step = Math.max(1, Math.floor((to - from) / 16));
    for (let i = from; i < to; i += step) if (!this.dimmed(track, i)) return true;
    return false;
  }

  box(c, track, at, x, to, y, height, isPath) {
    const view = this.view;
    const from = Math.max(x, labelWidth - 10);
    const until = Math.min(to, view.width + 10);
    const width = until - from - (to - x > 5 ? 1 : 0);
    c.globalAlpha = this.dimmed(track, at) ? 0.15 : track.what === "range" ? 0.55 : 1;
    c.fillStyle = this.colorOf(track, at);
    if (width > 6) {
      c.beginPath();
      c.roundRect(from, y, width, height, 2.5);
      c.fill();
    } else {
      c.fillRect(from, y, width, height);
    }
    if (!isPath && track.what === "command" && view.timeline.critical[track.places[at]]) {
      c.fillStyle = this.color("critical");
      c.fillRect(from, y + height - 2.5, width, 2.5);
    }
    if (width > 28 && height > 10) {
      c.globalAlpha = this.dimmed(track, at) ? 0.3 : 1;
      c.fillStyle = track.what === "range" ? this.color("text") : this.color("on-lane");
      this.text(c, this.titleOf(track, at), Math.max(from, labelWidth) + 5, y + height / 2 + 0.5,
                until - Math.max(from, labelWidth) - 9);
    }
    c.globalAlpha = 1;
  }

  titleOf(track, at) {
    const {timeline} = this.view;
    const place = track.places[at];
    if (track.what === "wait") return `waits: ${timeline.waits[place].what}`;
    if (track.what === "range") return timeline.ranges[place].name;
    if (track.what === "node") return timeline.nodeName(timeline.nodes[place]);
    return timeline.nameOf(place);
  }

  /** Cut to the width, with an ellipsis. */
  text(c, text, x, y, width) {
    let wide = this.widths.get(text);
    if (wide === undefined) this.widths.set(text, (wide = c.measureText(text).width));
    if (wide <= width) {
      c.fillText(text, x, y);
      return;
    }
    const letters = Math.floor((text.length * (width - 13)) / wide);
    if (letters >= 2) c.fillText(`${text.slice(0, letters)}…`, x, y);
  }

  /** What takes no time: thin strokes, one a pixel, fainter where there are many. */
  marks(c, track, y, height) {
    const view = this.view;
    const perPixel = view.span / (view.width - labelWidth);
    const first = track.firstFrom(view.from);
    const strength = Math.min(0.45, (1.2 * (view.width - labelWidth)) / (8 * (track.firstFrom(view.to, first) - first)));
    if (strength < 0.1) return;  // too many to be told apart
    c.fillStyle = this.color("text");
    for (let at = first; at < track.size && track.begin[at] < view.to; ) {
      const x = Math.floor(view.x(track.begin[at]));
      c.globalAlpha = this.dimmed(track, at) ? 0.1 : strength;
      c.fillRect(x, y - 2, 1, height + 2);
      at = track.firstFrom(track.begin[at] + perPixel, at + 1);
    }
    c.globalAlpha = 1;
  }

  steps() {
    const least = (this.view.span / (this.view.width - labelWidth)) * 90;
    const unit = 10 ** Math.floor(Math.log10(least));
    const step = Math.max(1, [1, 2, 5, 10].map((k) => k * unit).find((one) => one >= least));
    return [step, Math.ceil(this.view.from / step) * step];
  }

  grid(c, height) {
    const [step, first] = this.steps();
    c.fillStyle = this.color("raised");
    for (let moment = first; moment < this.view.to; moment += step) {
      c.fillRect(Math.round(this.view.x(moment)), rulerHeight, 1, height - rulerHeight);
    }
  }

  ruler(c, width, height) {
    const [step, first] = this.steps();
    c.fillStyle = this.color("surface");
    c.fillRect(0, 0, width, rulerHeight);
    c.fillStyle = this.color("line");
    c.fillRect(0, rulerHeight - 1, width, 1);
    for (let moment = first; moment < this.view.to; moment += step) {
      const x = Math.round(this.view.x(moment));
      if (x < labelWidth || x > width - 60) continue;
      c.fillStyle = this.color("line");
      c.fillRect(x, rulerHeight - 6, 1, 5);
      c.fillStyle = this.color("soft");
      c.fillText(momentText(moment, step), x + 4, rulerHeight / 2 - 1);
    }
    const {measured} = this.view;
    if (!measured) return;
    const [from, to] = measured.map((moment) => this.view.x(moment)).sort((a, b) => a - b);
    c.globalAlpha = 0.16;
    c.fillStyle = this.color("accent");
    c.fillRect(from, 0, to - from, height);
    c.globalAlpha = 1;
    c.fillText(durationText(Math.abs(measured[1] - measured[0])), Math.max(from, labelWidth) + 4, rulerHeight + 10);
  }

  labels(c, height) {
    c.fillStyle = this.color("surface");
    c.fillRect(0, rulerHeight, labelWidth - 1, height - rulerHeight);
    c.fillRect(0, 0, labelWidth - 1, rulerHeight - 1);
    c.fillStyle = this.color("line");
    c.fillRect(labelWidth - 1, 0, 1, height);
    c.save();
    c.beginPath();
    c.rect(0, rulerHeight, labelWidth - 1, height - rulerHeight);
    c.clip();
    let y = rulerHeight - this.view.scroll;
    for (const row of this.view.rows) {
      const isHead = row.kind === "group";
      if (isHead) {
        c.fillStyle = this.color("raised");
        c.fillRect(0, y, labelWidth - 1, row.height);
      }
      if (row.kind === "path") {
        c.fillStyle = this.color("critical");
        c.fillRect(0, y + 4, 3, row.height - 9);
      }
      c.font = isHead ? `600 ${font}` : font;
      c.fillStyle = this.color("text");
      const tall = row.note !== "" && row.height > 34;
      this.text(c, row.label, isHead ? 10 : 14, y + (tall ? row.height / 2 - 6 : row.height / 2), labelWidth - 26);
      if (tall) {
        c.fillStyle = this.color("soft");
        this.text(c, row.note, 14, y + row.height / 2 + 8, labelWidth - 26);
      }
      c.fillStyle = this.color("line");
      c.fillRect(0, Math.round(y + row.height) - 1, labelWidth - 1, 1);
      y += row.height;
    }
    c.restore();
    c.font = font;
  }

  selection(c) {
    const {selected, hovered} = this.view;
    this.outline(c, hovered, this.color("soft"), 1);
    this.outline(c, selected, this.color("text"), 2);
  }
  outline(c, item, color, width) {
    const found = item && this.view.find(item);
    if (!found || found.y < rulerHeight - found.height) return;
    const [begin, end] = [found.track.begin[found.at], found.track.end[found.at]];
    const x = Math.max(this.view.x(begin), labelWidth);
    const to = Math.min(this.view.x(end), this.view.width);
    if (to < labelWidth || x > this.view.width) return;
    c.strokeStyle = color;
    c.lineWidth = width;
    c.strokeRect(x - 1.5, found.y - 1.5, Math.max(3, to - x + 2), found.height + 3);
  }

  /** From what the selected command waited for, and to what waited for it. */
  arrows(c) {
    const {selected, timeline} = this.view;
    if (!selected || selected.what !== "command") return;
    const most = 24;
    const {place} = selected;
    c.save();
    c.beginPath();
    c.rect(labelWidth, rulerHeight, this.view.width - labelWidth, this.view.height - rulerHeight);
    c.clip();
    const first = timeline.behind[place];
    for (let d = first; d < Math.min(timeline.behind[place + 1], first + most); ++d) {
      this.arrow(c, timeline.before[d], place, this.color("accent"), []);
    }
    for (const one of timeline.after(place).subarray(0, most)) this.arrow(c, place, one, this.color("soft"), [4, 3]);
    c.restore();
  }
  arrow(c, from, to, color, dashes) {
    const [a, b] = [from, to].map((place) => this.view.find({what: "command", place}));
    if (!a || !b) return;
    const [x, y] = [this.view.x(a.track.end[a.at]), a.y + a.height / 2];
    const [toX, toY] = [this.view.x(b.track.begin[b.at]), b.y + b.height / 2];
    const bend = Math.max(18, Math.min(60, Math.abs(toX - x) / 2));
    c.strokeStyle = c.fillStyle = color;
    c.lineWidth = 1.5;
    c.setLineDash(dashes);
    c.beginPath();
    c.moveTo(x, y);
    c.bezierCurveTo(x + bend, y, toX - bend, toY, toX - 5, toY);
    c.stroke();
    c.setLineDash([]);
    c.beginPath();
    c.moveTo(toX, toY);
    c.lineTo(toX - 7, toY - 4);
    c.lineTo(toX - 7, toY + 4);
    c.fill();
  }

  /** The whole, a line for each lane that takes time, and what of it is looked at. */
  paintOverview() {
    const [c, width, height] = this.resize(this.overview);
    const view = this.view;
    if (!this.whole || this.whole.width !== this.overview.width || this.whole.rows !== view.rows) this.paintWhole(c, width, height);
    c.drawImage(this.whole.canvas, 0, 0, width, height);
    const scale = (width - labelWidth) / (view.last - view.first);
    const from = labelWidth + (Math.max(view.from, view.first) - view.first) * scale;
    const to = labelWidth + (Math.min(view.to, view.last) - view.first) * scale;
    c.globalAlpha = 0.55;
    c.fillStyle = this.color("surface");
    c.fillRect(labelWidth, 0, from - labelWidth, height);
    c.fillRect(to, 0, width - to, height);
    c.globalAlpha = 1;
    c.strokeStyle = this.color("accent");
    c.lineWidth = 1.5;
    c.strokeRect(from, 1, Math.max(3, to - from - 1), height - 2);
  }
  paintWhole(c, width, height) {
    const view = this.view;
    c.fillStyle = this.color("surface");
    c.fillRect(0, 0, width, height);
    c.font = font;
    c.textBaseline = "middle";
    c.fillStyle = this.color("soft");
    c.fillText("Whole run", 14, height / 2);
    const tracks = view.rows.filter((row) => row.kind === "lane")
      .flatMap((row) => row.tracks).filter((track) => track.what === "command" && track.size > 0);
    const perPixel = (view.last - view.first) / (width - labelWidth);
    for (let x = 0; x < width - labelWidth; ++x) {
      let y = height - 3;
      const from = view.first + x * perPixel;
      for (const track of tracks) {
        const busy = track.busy(from, from + perPixel) / perPixel;
        if (busy <= 0) continue;
        const part = Math.max(0.5, Math.min(1, busy) * ((height - 6) / Math.max(3, tracks.length)));
        c.fillStyle = this.colorOf(track, Math.min(track.size - 1, track.firstAt(from)));
        c.fillRect(labelWidth + x, y - part, 1, part);
        y -= part;
      }
    }
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [this.overview.width, this.overview.height];
    canvas.getContext("2d").drawImage(this.overview, 0, 0);
    this.whole = {canvas, width: this.overview.width, rows: view.rows};
  }
}
