"""A browser for tests: Chromium by the WebDriver protocol, with nothing but Python's library."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
SECONDS = 20


def missing():
    """The reason for which no browser can be driven; None when one can."""
    if not shutil.which("chromedriver"):
        return "chromedriver is not installed (apt-get install chromium-driver)"
    if not shutil.which("chromium") and not shutil.which("google-chrome"):
        return "chromium is not installed (apt-get install chromium)"
    return None


class BrowserError(Exception):
    pass


class Browser:
    def __init__(self, width=1200, height=800):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={port}", "--log-level=OFF"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.base = f"http://127.0.0.1:{port}"
        self.session = ""
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--force-device-scale-factor=1",
            f"--window-size={width},{height}",
        ]
        wish = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
            "unhandledPromptBehavior": "ignore",
        }
        for attempt in range(100):
            try:
                answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wish}})
                break
            except (OSError, urllib.error.URLError):
                if attempt == 99:
                    raise
                time.sleep(0.1)
        self.session = f"/session/{answer['sessionId']}"

    def close(self):
        try:
            self.call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait()

    def call(self, method, path, body=None):
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(
            self.base + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise BrowserError(f"{value['error']}: {value['message'].splitlines()[0]}") from None

    def open(self, url):
        self.call("POST", self.session + "/url", {"url": url})

    def run(self, script, *arguments):
        """What the body of a function returns."""
        return self.call(
            "POST", self.session + "/execute/sync", {"script": script, "args": list(arguments)}
        )

    def wait(self, what, script, *arguments):
        """Waits until the body of a function returns something true, and returns it."""
        end = time.monotonic() + SECONDS
        while True:
            value = self.run(script, *arguments)
            if value:
                return value
            if time.monotonic() > end:
                raise BrowserError(f"waited in vain for: {what}\n{self.text()[:2000]}")
            time.sleep(0.05)

    def text(self):
        return self.run("return document.body.innerText")

    def find(self, selector, text=None):
        """The first element that is shown and has this text."""
        return self.wait(
            f"{selector} {text or ''}",
            "return [...document.querySelectorAll(arguments[0])].find((one) => one.checkVisibility()"
            " && (arguments[1] === null || one.textContent.trim() === arguments[1]))",
            selector,
            text,
        )[ELEMENT]

    def find_text(self, selector):
        return self.call("GET", f"{self.session}/element/{self.find(selector)}/text")

    def click(self, selector, text=None):
        for attempt in range(20):
            # What is live may be made anew between the two.
            try:
                element = self.find(selector, text)
                return self.call("POST", f"{self.session}/element/{element}/click")
            except BrowserError as error:
                if attempt == 19 or "stale" not in str(error):
                    raise

    def keys(self, *keys):
        """Presses keys, where the focus is."""
        actions = []
        for key in "".join(keys):
            actions += [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        body = {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}
        self.call("POST", self.session + "/actions", body)

    def type(self, selector, text):
        """Puts a text in the place of what an input holds."""
        element = self.find(selector)
        self.call("POST", f"{self.session}/element/{element}/clear")
        self.call("POST", f"{self.session}/element/{element}/value", {"text": text})

    def size(self, width, height):
        self.call("POST", self.session + "/window/rect", {"width": width, "height": height})

    def dark(self, is_dark):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        body = {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [scheme]}}
        self.call("POST", self.session + "/goog/cdp/execute", body)

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", self.session + "/screenshot")))

    def errors(self):
        """What the console says of scripts that failed and of what the policy forbade."""
        lines = self.call("POST", self.session + "/se/log", {"type": "browser"})
        return [line["message"] for line in lines if line["level"] == "SEVERE"]


ENTER = "\ue007"
ESCAPE = "\ue00c"
DOWN = "\ue015"
RIGHT = "\ue014"
TAB = "\ue004"
