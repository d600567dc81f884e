"""A headless Chromium, driven over a pipe by its DevTools protocol."""

import base64
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time


def find():
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


class Browser:
    """One page. Every wait ends: after `timeout` seconds it is an error."""

    def __init__(self, width=1280, height=800, timeout=60):
        self.timeout = timeout
        self.profile = tempfile.mkdtemp(prefix="weir_page_")
        to_browser, self.out = os.pipe()
        self.inp, from_browser = os.pipe()

        def take_pipes():
            # Chromium reads from 3 and writes to 4. Both are copied upwards first: one may be where the other goes.
            reads, writes = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reads, 3, inheritable=True)
            os.dup2(writes, 4, inheritable=True)

        switches = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                    "--no-first-run", "--hide-scrollbars", "--force-device-scale-factor=1", "--disable-extensions",
                    "--disable-background-networking", "--disable-component-update", "--mute-audio",
                    f"--user-data-dir={self.profile}", f"--window-size={width},{height}", "about:blank"]
        self.process = subprocess.Popen([find(), *switches], pass_fds=(3, 4), preexec_fn=take_pipes, start_new_session=True,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.events, self.session = 0, b"", [], None
        self.requested, self.thrown = [], []
        target = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.call(domain + ".enable")
        self.size(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.out)
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.inp)
        shutil.rmtree(self.profile, ignore_errors=True)

    def read(self):
        """The next message."""
        end = time.monotonic() + self.timeout
        while b"\0" not in self.buffer:
            if not select.select([self.inp], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium said nothing for {self.timeout} s")
            piece = os.read(self.inp, 1 << 20)
            if not piece:
                raise EOFError("Chromium has gone")
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        made = json.loads(message)
        if made.get("method") == "Network.requestWillBeSent":
            self.requested.append(made["params"]["request"]["url"])
        if made.get("method") == "Runtime.exceptionThrown":
            self.thrown.append(made["params"]["exceptionDetails"])
        return made

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def event(self, method):
        """The next such event, which may have come already."""
        while True:
            for at, event in enumerate(self.events):
                if event.get("method") == method:
                    return self.events.pop(at)["params"]
            self.events.append(self.read())

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def size(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def dark(self, dark):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, path):
        """Until the commands are drawn."""
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        self.event("Page.loadEventFired")
        self.evaluate("""new Promise((resolve) => {
          const look = () => performance.getEntriesByName("weir-painted").length ||
                             byId("status").textContent.startsWith("The commands could not") ? resolve() : setTimeout(look, 5);
          look();
        })""")

    def settle(self):
        """Until what was asked for is painted."""
        self.evaluate("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r())))")

    def key(self, key, shift=False):
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        modifiers = 8 if shift else 0
        code = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}.get(key, 0)
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers, windowsVirtualKeyCode=code)
        self.settle()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.settle()

    def mouse(self, what, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=what, x=x, y=y, **more)

    def click(self, x, y, count=1):
        self.mouse("mouseMoved", x, y)
        for what in ("mousePressed", "mouseReleased"):
            self.mouse(what, x, y, button="left", clickCount=count)
        self.settle()

    def picture(self, path=None):
        self.settle()
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if path:
            pathlib.Path(path).write_bytes(data)
        return data

    def pdf(self, path):
        data = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
