"""Drives Chromium through chromedriver's own protocol: JSON over HTTP, nothing to install but Debian's packages."""
import base64
import http.client
import json
import re
import shutil
import subprocess
import tempfile
import time

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1"]
CODES = {"Escape": 27, "Enter": 13, "Home": 36, "End": 35, "ArrowLeft": 37, "ArrowRight": 39}


class Browser:
    """A browser with an empty profile; close() ends it and removes what it wrote."""

    def __init__(self, width=1280, height=900, dark=False):
        self.profile = tempfile.mkdtemp(prefix="tapedeck-browser-")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        port = None
        for line in self.driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                port = int(found.group(1))
                break
        if port is None:
            raise RuntimeError("chromedriver did not start")
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        arguments = FLAGS + [f"--user-data-dir={self.profile}", f"--window-size={width},{height}"]
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.session = "/session/" + made["sessionId"]
        self.size(width, height)
        self.scheme("dark" if dark else "light")

    def call(self, method, path, body=None):
        self.connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        answer = json.loads(self.connection.getresponse().read())["value"]
        if isinstance(answer, dict) and answer.get("error"):
            raise RuntimeError(f"{answer['error']}: {answer.get('message', '')[:2000]}")
        return answer

    def devtools(self, command, **parameters):
        return self.call("POST", self.session + "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name):
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, url):
        self.call("POST", self.session + "/url", {"url": url})

    def run(self, script, *arguments):
        """The value of a script's `return`."""
        return self.call("POST", self.session + "/execute/sync", {"script": script, "args": list(arguments)})

    def text(self):
        return self.run("return document.body.innerText")

    def wait(self, script, what="", seconds=20):
        """Until the script is true. Not an assertion about time: the limit is for a page that hangs."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.run(script)
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"never came: {what or script}\n{self.text()[:3000]}\n{self.log()}")

    def wait_text(self, text):
        return self.wait(f"return document.body.innerText.includes({json.dumps(text)})", text)

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            extra = {"text": name} if len(name) == 1 and kind == "keyDown" else {}
            self.devtools("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=CODES.get(name, 0), **extra)

    def log(self):
        """What the console has said since the last call."""
        return [entry for entry in self.call("POST", self.session + "/se/log", {"type": "browser"})]

    def errors(self):
        return [entry["message"] for entry in self.log() if entry["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", self.session + "/screenshot")))

    def close(self):
        try:
            self.call("DELETE", self.session)
        finally:
            self.connection.close()
            self.driver.terminate()
            self.driver.wait(30)
            shutil.rmtree(self.profile, ignore_errors=True)
