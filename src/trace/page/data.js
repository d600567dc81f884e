// The recorded commands, as the columns that page_data.cpp writes: it describes the format.

class Columns {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  number() {
    let byte = this.bytes[this.at++];
    let value = byte & 127;
    for (let unit = 128; byte > 127; unit *= 128) {
      byte = this.bytes[this.at++];
      value += (byte & 127) * unit;
    }
    return value;
  }

  signed() {
    return signedOf(this.number());
  }

  string() {
    const size = this.number();
    this.at += size;
    return new TextDecoder().decode(this.bytes.subarray(this.at - size, this.at));
  }

  list(one) {
    return Array.from({length: this.number()}, one);
  }

  /** Always into one kind of array: the engine makes the fastest code for that. */
  column(count) {
    const made = new Float64Array(count);
    const bytes = this.bytes;
    let at = this.at;
    for (let i = 0; i < count; ++i) {
      let byte = bytes[at++];
      let value = byte & 127;
      for (let unit = 128; byte > 127; unit *= 128) {
        byte = bytes[at++];
        value += (byte & 127) * unit;
      }
      made[i] = value;
    }
    this.at = at;
    return made;
  }

  signedColumn(count) {
    const made = this.column(count);
    for (let i = 0; i < count; ++i) made[i] = signedOf(made[i]);
    return made;
  }
}

function signedOf(value) {
  if (value < 2147483648) return (value >>> 1) ^ -(value & 1);
  return value % 2 === 1 ? -(value + 1) / 2 : value / 2;
}

/** Sums of differences. */
function summed(column) {
  let sum = 0;
  for (let i = 0; i < column.length; ++i) column[i] = sum += column[i];
  return column;
}

/** The bytes of the data block. */
async function inflated(base64) {
  let packed;
  if (Uint8Array.fromBase64) {
    packed = Uint8Array.fromBase64(base64);
  } else {
    const text = atob(base64);
    packed = new Uint8Array(text.length);
    for (let i = 0; i < text.length; ++i) packed[i] = text.charCodeAt(i);
  }
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** What was recorded. Places of texts count from 1; 0 is none. Moments are nanoseconds, -1 is one that is not known. */
class Timeline {
  constructor(bytes, meta) {
    const from = new Columns(bytes);
    this.meta = meta;
    for (const text of ["program", "clock", "date", "note"]) this[text] = from.string();
    this.duration = from.signed();
    this.dropped = from.number();
    this.texts = ["", ...from.list(() => from.string())];
    this.devices = from.list(() => this.texts[from.number()]);
    this.streams = from.list(() => {
      const stream = {name: this.texts[from.number()], id: from.number(), device: from.number(), priority: from.signed()};
      const flags = from.number();
      return {...stream, blocking: (flags & 1) !== 0, legacy: (flags & 2) !== 0};
    });
    this.readCommands(from);
    this.readHost(from);
    this.path = summed(from.signedColumn(from.number()));
    this.parts = new Map();  // of collectives, by command
    if (from.at < bytes.length) this.readCollectives(from);
    this.nodes = from.at < bytes.length ? this.nodesOf(from) : [];  // of graphs, by their command and begin
    if (from.at < bytes.length) from.column(2 * this.partCount);  // what other processes say the same
    if (from.at < bytes.length) from.column(3 * from.number());    // best rates: the summary has them
    this.arguments = new Uint32Array(from.at < bytes.length ? from.column(this.count) : this.count);
    for (const node of this.nodes) node.behind = from.at < bytes.length ? from.list(() => from.number()) : [];
    this.critical = new Uint8Array(this.count);
    for (const place of this.path) this.critical[place] = 1;
  }

  readCommands(from) {
    const count = (this.count = from.number());
    const whole = () => new Uint32Array(from.column(count));
    this.id = summed(from.signedColumn(count));
    this.name = whole();
    this.file = whole();
    this.line = new Uint32Array(summed(from.signedColumn(count)));
    this.stream = whole();
    this.thread = whole();
    this.kind = new Uint8Array(from.column(count));
    this.event = whole();
    this.elements = from.column(count);
    this.size = from.column(count);
    this.call = summed(from.signedColumn(count));
    this.called = from.column(count);
    this.begin = from.signedColumn(count);
    this.end = from.signedColumn(count);
    this.behind = new Uint32Array(count + 1);
    this.behind.set(whole(), 1);
    for (let i = 0; i < count; ++i) {
      this.called[i] = this.called[i] === 0 ? unknown : this.call[i] + this.called[i] - 1;
      this.begin[i] += this.call[i];
      this.end[i] += this.begin[i];
      this.behind[i + 1] += this.behind[i];
    }
    const dependencies = this.behind[count];
    this.tie = new Uint8Array(from.column(dependencies));
    this.before = new Uint32Array(from.column(dependencies));
    for (let i = 0; i < count; ++i) {
      for (let d = this.behind[i]; d < this.behind[i + 1]; ++d) this.before[d] = i - this.before[d];
    }
  }

  readHost(from) {
    let moment = 0;
    this.waits = from.list(() => {
      const wait = {what: this.texts[from.number()], stream: from.number() - 1, command: from.number() - 1,
                    file: from.number(), line: from.number(), thread: from.number()};
      moment += from.signed();
      return {...wait, begin: moment, end: moment + from.signed()};
    });
    moment = 0;
    this.ranges = from.list(() => {
      const range = {name: this.texts[from.number()], thread: from.number()};
      moment += from.signed();
      const length = from.number();
      return {...range, begin: moment, end: length === 0 ? Math.max(moment, this.duration) : moment + length - 1, open: length === 0};
    });
  }

  readCollectives(from) {
    from.signed();
    from.string();
    let command = 0;
    this.partCount = from.number();
    for (let left = this.partCount; left > 0; --left) {
      command += from.number();
      this.parts.set(command, {collective: from.number(), communicator: from.number(), rank: from.number(), ranks: from.number(),
                               peer: from.signed()});
    }
  }

  nodesOf(from) {
    let command = 0;
    return from.list(() => {
      command += from.number();
      const node = {command, number: from.number(), name: from.number(), lane: from.number(), file: from.number(), line: from.number(),
                    begin: this.begin[command] + from.signed()};
      return {...node, end: node.begin + from.number()};
    });
  }
  nodeName(node) {
    return node.name === 0 ? this.meta.lanes[node.lane] : this.texts[node.name];
  }

  /** The places of the nodes of the same replay that a node comes behind: in a loop, as they ran last. */
  beforeNode(node) {
    const last = new Map();
    this.nodes.forEach((one, place) => {
      if (one.command === node.command && one.begin <= node.begin && one !== node) last.set(one.number, place);
    });
    return node.behind.filter((number) => last.has(number)).map((number) => last.get(number));
  }

  lane(i) {
    return this.kind[i] & 15;
  }
  state(i) {
    return this.meta.states[(this.kind[i] >> 4) & 3];
  }
  pageable(i) {
    return this.kind[i] >> 6 !== 0;
  }
  nameOf(i) {
    return this.name[i] === 0 ? this.meta.lanes[this.lane(i)] : this.texts[this.name[i]];
  }
  streamName(place) {
    const stream = this.streams[place];
    return stream.name === "" ? `stream ${stream.id}` : stream.name;
  }
  placeOf(i) {
    return shortPlace(this.texts[this.file[i]], this.line[i]);
  }
  /** It takes time of an engine's. */
  works(i) {
    return this.lane(i) < this.meta.engines && this.state(i) === "ran";
  }

  /** Who waits for a command: the places of those behind it. */
  after(i) {
    if (!this.afterFirst) {
      const first = new Uint32Array(this.count + 2);
      for (const one of this.before) ++first[one + 2];
      for (let k = 2; k < first.length; ++k) first[k] += first[k - 1];
      this.afterAll = new Uint32Array(this.before.length);
      for (let k = 0; k < this.count; ++k) {
        for (let d = this.behind[k]; d < this.behind[k + 1]; ++d) this.afterAll[first[this.before[d] + 1]++] = k;
      }
      this.afterFirst = first;
    }
    return this.afterAll.subarray(this.afterFirst[i], this.afterFirst[i + 1]);
  }
}
