#!/usr/bin/env python3
"""How fast a browser shows a page, by its own performance records: `measure.py PAGE` prints one JSON object, in milliseconds since the
page was asked for: the first paint, which has the numbers; when all commands were drawn; and the times between frames while the view
is dragged to and fro for three seconds. Exits with 77 where there is no Chromium."""

import json
import pathlib
import sys
import time

import browser

FIRST = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
DRAWN = "performance.getEntriesByName('weir-painted')[0].startTime"
WATCH = """(() => {
  window.weirFrames = [];
  let last = 0;
  const next = (now) => {
    if (last) window.weirFrames.push(now - last);
    last = now;
    if (window.weirFrames !== null) requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
})()"""


def drag(page, seconds):
    """Over a quarter of the canvas, by the mouse, zoomed in so that there is something on both sides."""
    left, top, width = page.evaluate(
        "(() => { const r = weirPage.canvas.getBoundingClientRect(); return [r.left, r.top, r.width]; })()")
    y, middle, step = top + 120, left + 0.6 * width, width / 160
    page.evaluate("weirPage.canvas.focus()")
    for _ in range(3):
        page.key("+")
    page.evaluate(WATCH)
    page.mouse("mousePressed", middle, y, button="left", buttons=1, clickCount=1)
    end, at, way = time.monotonic() + seconds, 0, 1
    while time.monotonic() < end:
        at += way
        way = -way if abs(at) >= 20 else way
        page.mouse("mouseMoved", middle + at * step, y, button="left", buttons=1)
    page.mouse("mouseReleased", middle, y, button="left", clickCount=1)
    return sorted(page.evaluate("window.weirFrames"))


def main():
    if not browser.find():
        return 77
    with browser.Browser(timeout=120) as page:
        page.open(pathlib.Path(sys.argv[1]))
        made = {"commands": page.evaluate("weirPage.timeline.count"), "first_paint": page.evaluate(FIRST), "drawn": page.evaluate(DRAWN)}
        frames = drag(page, 3)
    made |= {"frames": len(frames), "frame": frames[len(frames) // 2], "frame_95": frames[len(frames) * 95 // 100], "frame_worst": frames[-1]}
    print(json.dumps({key: round(value, 2) for key, value in made.items()}))
    return 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
