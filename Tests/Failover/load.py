"""What devices do meanwhile: writers that repeat what was not acknowledged, pullers, a listener."""

import email.utils
import http.client
import json
import threading
import time
import urllib.parse

TABLE = "/tables/TodoItem"


def next_path(answer):
    """Where the next page is; None behind the last one."""
    link = answer.get("nextLink")
    return link and f"{TABLE}?{link.split('?', 1)[-1]}"


class Caller:
    """A connection to a server, made anew when it broke."""

    def __init__(self, url):
        self.host = urllib.parse.urlsplit(url).netloc
        self.connection = None

    def send(self, method, path, body=None, headers=()):
        data = None if body is None else json.dumps(body)
        fields = {"Content-Type": "application/json"} if data else {}
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.host, timeout=120)
        try:
            self.connection.request(method, path, data, fields | dict(headers))
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            raise
        return answer.status, answer.headers, json.loads(text) if text else None


class Load:
    """What was acknowledged, and how servers refused."""

    def __init__(self, urls):
        self.urls = urls
        self.lock = threading.Lock()
        self.texts = set()
        self.counts = {}
        self.refusals = {}
        self.faults = []
        self.last = time.monotonic()
        self.is_over = threading.Event()
        self.threads = []
        self.callers = {}
        self.pulled = {}
        self.pulls = 0
        self.refused_pulls = 0

    def start(self, writers):
        bodies = [(self.write, number) for number in range(writers)]
        bodies += [(self.pull, place) for place in range(len(self.urls))]
        for body, number in bodies:
            thread = threading.Thread(target=self.guard, args=(body, number), daemon=True)
            thread.start()
            self.threads.append(thread)

    def guard(self, body, number):
        try:
            body(number)
        except Exception as error:  # pylint: disable=broad-except
            self.fault(f"{body.__name__} {number}: {error!r}")

    def fault(self, text):
        with self.lock:
            self.faults.append(text)

    def end(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join(180)
            if thread.is_alive():
                self.fault("a caller waits for its answer still")

    # MARK: writers

    def until_done(self, number, method, path, body, name, headers=()):
        """Sends a write with a name until it is done, to the servers in turn."""
        sent = email.utils.formatdate(usegmt=True)
        names = {"Repeatability-Request-ID": name, "Repeatability-First-Sent": sent} | dict(headers)
        turn = number
        while True:
            caller = self.callers[number][turn % len(self.urls)]
            try:
                status, fields, answer = caller.send(method, path, body, names)
            except (OSError, http.client.HTTPException) as error:
                self.fault(f"no answer to {method}: {error!r}")
                return None, None
            if status in (200, 201):
                self.last = time.monotonic()
                return fields, answer
            code = (answer or {}).get("code") or (answer or {}).get("error") or status
            with self.lock:
                self.refusals[str(code)] = self.refusals.get(str(code), 0) + 1
            if status != 503 or not fields.get("Retry-After"):
                self.fault(f"{method} {path}: {status}, Retry-After {fields.get('Retry-After')}: {answer}")
                return None, None
            turn += 1
            time.sleep(0.05)

    def write(self, number):
        """Rows whose ids the server makes, and a counter that only this writer moves on."""
        self.callers[number] = [Caller(url) for url in self.urls]
        key = f"counter{number}"
        fields, _ = self.until_done(number, "POST", TABLE, {"id": key, "text": "0"}, f"{key}-{time.time()}")
        for count in range(1, 1 << 30):
            if self.is_over.is_set() or fields is None:
                break
            text = f"w{number}-{count}"
            made, _ = self.until_done(number, "POST", TABLE, {"text": text}, f"{text}-{time.time()}")
            if made is None:
                break
            self.texts.add(text)
            condition = {"If-Match": fields["ETag"]}
            fields, _ = self.until_done(
                number, "PATCH", f"{TABLE}/{key}", {"text": str(count)}, f"{key}-{count}-{time.time()}", condition
            )
            if fields is not None:
                self.counts[key] = str(count)

    # MARK: pullers

    def pull(self, place):
        """Follows the links to changes; what it has at the end is what there is."""
        caller = Caller(self.urls[place])
        rows = self.pulled[place] = {}
        link = None
        at_the_end = False
        while True:
            path = f"{TABLE}?{link}" if link else TABLE
            headers = {} if link else {"Prefer": "odata.track-changes"}
            while path:
                status, fields, answer = caller.send("GET", path, None, headers)
                if status == 503 and fields.get("Retry-After"):
                    with self.lock:
                        self.refused_pulls += 1
                    time.sleep(0.05)
                    continue
                if status != 200:
                    self.fault(f"pull {place}: {status} {answer}")
                    return
                for row in answer["items"]:
                    old = rows.get(row["id"])
                    if old and row["updatedAt"] < old["updatedAt"]:
                        self.fault(f"row {row['id']} went back at server {place}")
                    rows[row["id"]] = row
                link = answer.get("@odata.deltaLink") or link
                path = next_path(answer)
            with self.lock:
                self.pulls += 1
            if at_the_end:
                return
            # Once more behind the last write.
            at_the_end = self.writers_are_done()
            time.sleep(0.05)

    def writers_are_done(self):
        writers = self.threads[: len(self.threads) - len(self.urls)]
        return self.is_over.is_set() and not any(thread.is_alive() for thread in writers)
