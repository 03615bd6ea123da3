"""A headless Chromium that is told what to do through two pipes: no library, no port, no network."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time


def executable():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    return None


class Page:
    """One page, with its errors in `complaints` and its network requests in `requests`."""

    def __init__(self, limit_s=120):
        self.complaints, self.requests, self.answers = [], [], {}
        self.limit_s, self.count, self.rest, self.events = limit_s, 0, b"", set()
        self.folder = tempfile.mkdtemp(prefix="ppsim-chromium-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def place_pipes():
            # Copies first, for one of the pipes may be 3 or 4 itself.
            ends = os.dup(to_browser), os.dup(from_browser)
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                 "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={self.folder}"]
        self.process = subprocess.Popen([executable(), *flags], preexec_fn=place_pipes, close_fds=False,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.session = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")
        self.ask("Performance.enable", timeDomain="threadTicks")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def ask(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.write_end, text):]
        answer = self.wait(lambda: self.answers.pop(message["id"], None))
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def wait(self, ready):
        end = time.monotonic() + self.limit_s
        while (value := ready()) is None:
            if time.monotonic() > end:
                raise TimeoutError("Chromium does not answer")
            self.rest += os.read(self.read_end, 1 << 20)
            *messages, self.rest = self.rest.split(b"\0")
            for text in messages:
                self.take(json.loads(text))
        return value

    def take(self, message):
        if "id" in message:
            self.answers[message["id"]] = message
            return
        method, parameters = message["method"], message.get("params", {})
        self.events.add(method)
        if method == "Runtime.exceptionThrown":
            self.complaints.append(parameters["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([a.get("value") for a in parameters["args"]]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def size(self, width, height):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def colours(self, scheme):
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, path):
        self.events.discard("Page.loadEventFired")
        self.ask("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait(lambda: True if "Page.loadEventFired" in self.events else None)
        self.settle()

    def settle(self):
        """Until two frames have been drawn."""
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def value(self, expression):
        answer = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(expression + ": " + json.dumps(answer["exceptionDetails"])[:800])
        return answer["result"].get("value")

    def thread_ms(self):
        """Returns the processor time of the page's thread so far, in milliseconds."""
        return next(one["value"] for one in self.ask("Performance.getMetrics")["metrics"] if one["name"] == "ThreadTime") * 1000

    def key(self, key, shift=False):
        event = {"key": key, "modifiers": 8 if shift else 0}
        if len(key) == 1:
            event["text"] = key
        self.ask("Input.dispatchKeyEvent", type="keyDown", **event)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key)

    def mouse(self, kind, x, y, **more):
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def screenshot(self, path, whole=True):
        picture = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))
