// Numbers in words, and elements of the page.

const unknown = -1;

/** "1.25 ms": three digits and a unit. */
function durationText(ns) {
  const size = Math.abs(ns);
  if (size < 1000) return `${Math.round(ns)} ns`;
  const [unit, name] = size < 999.5e3 ? [1e3, "µs"] : size < 999.5e6 ? [1e6, "ms"] : [1e9, "s"];
  return `${digits(ns / unit)} ${name}`;
}

function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 || value === 0 ? 0 : size >= 9.995 ? 1 : 2);
}

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) {
    bytes /= 1024;
    ++at;
  }
  return `${at === 0 ? bytes : digits(bytes)} ${units[at]}`;
}

function rateText(bytesPerSecond) {
  const [unit, name] = bytesPerSecond >= 1e9 ? [1e9, "GB/s"] : bytesPerSecond >= 1e6 ? [1e6, "MB/s"] : [1e3, "kB/s"];
  return `${digits(bytesPerSecond / unit)} ${name}`;
}

function countText(count) {
  return count.toLocaleString("en-US");
}

function percentText(part, whole) {
  return `${digits(whole > 0 ? (100 * part) / whole : 0)} %`;
}

/** The end of a path: the whole one is in the details. */
function shortPlace(file, line) {
  return file === "" ? "" : `${file.slice(file.lastIndexOf("/") + 1)}:${line}`;
}

/** A moment as precisely as the ruler's steps need it. */
function momentText(ns, step) {
  const [unit, name] = step >= 1e9 ? [1e9, "s"] : step >= 1e6 ? [1e6, "ms"] : step >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  const places = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
  return `${(ns / unit + 0).toLocaleString("en-US", {minimumFractionDigits: places, maximumFractionDigits: places})} ${name}`;
}

/** An element; what it holds is text or elements, never markup. */
function element(name, attributes, ...held) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") made.addEventListener("click", value);
    else if (key === "color") made.style.background = value;
    else if (value !== undefined) made.setAttribute(key, value);
  }
  made.append(...held.filter((one) => one !== undefined && one !== ""));
  return made;
}

function byId(id) {
  return document.getElementById(id);
}
