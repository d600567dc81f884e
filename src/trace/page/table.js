// The commands in view as a table: for who reads it, or hears it.

class Table {
  constructor(view, go) {
    this.view = view;
    this.go = go;
    this.at = byId("table");
  }

  get open() {
    return !this.at.hidden;
  }
  toggle(open = !this.open) {
    this.at.hidden = !open;
    byId("table-button").setAttribute("aria-pressed", String(open));
    if (open) {
      this.fill();
      this.at.querySelector(".scroll").focus();
    }
  }

  /** Soon, and not for every step of a movement. */
  fillSoon() {
    if (!this.open || this.timer) return;
    this.timer = setTimeout(() => {
      this.timer = 0;
      this.fill();
    }, 120);
  }

  fill() {
    const most = 200;
    const [places, count] = this.inView(most);
    const title = count > places.length ? `Commands in view: the first ${most} of ${countText(count)}` : `Commands in view: ${countText(count)}`;
    byId("table-title").textContent = title + (this.view.matches ? " that match" : "");
    byId("table-rows").replaceChildren(...places.map((place) => this.row(place)));
  }

  /** The first by begin, and how many there are. */
  inView(most) {
    const {view} = this;
    const t = view.timeline;
    let all = [];
    let count = 0;
    for (const row of view.rows.filter((one) => one.kind === "lane")) {
      for (const track of row.marks ? [...row.tracks, row.marks] : row.tracks) {
        if (track.what !== "command" || track.size === 0) continue;
        const [first, last] = [track.firstAt(view.from), track.firstFrom(view.to)];
        if (!view.matches) {
          count += Math.max(0, last - first);
          all.push(...track.places.subarray(first, Math.min(last, first + most)));
          continue;
        }
        let kept = 0;
        for (let at = first; at < last; ++at) {
          if (!view.matches[track.places[at]]) continue;
          ++count;
          if (kept++ < most) all.push(track.places[at]);
        }
      }
    }
    return [all.sort((a, b) => t.begin[a] - t.begin[b]).slice(0, most), count];
  }

  row(place) {
    const t = this.view.timeline;
    const took = t.end[place] - t.begin[place];
    const {selected} = this.view;
    const isCopy = t.meta.lanes[t.lane(place)].startsWith("copy");
    const cell = (text) => element("td", {class: "n"}, text);
    return element("tr", {"aria-selected": String(selected !== null && selected.what === "command" && selected.place === place)},
      element("td", {}, element("button", {on: () => this.go({what: "command", place}), title: t.nameOf(place)}, t.nameOf(place))),
      element("td", {}, t.streamName(t.stream[place])), element("td", {}, t.meta.lanes[t.lane(place)]),
      cell(moment(t.begin[place])), cell(durationText(took)), cell(t.size[place] > 0 ? bytesText(t.size[place]) : ""),
      cell(isCopy && took > 0 ? rateText((t.size[place] * 1e9) / took) : ""), element("td", {}, t.placeOf(place)));
  }
}
