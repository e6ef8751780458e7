"""What goes on meanwhile: writers through the servers, writers with psql, and pullers of two kinds."""

import email.utils
import http.client
import json
import random
import subprocess
import threading
import time
import urllib.parse
import uuid

from place import token

TABLE = "/tables/Item"
# How often a request is sent before its writer gives up: for a minute and more, while all start again in seconds.
ATTEMPTS_MAX = 600


class Record:
    """What was seen, by all threads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = {}
        self.faults = []
        self.is_over = threading.Event()

    def count(self, name):
        with self.lock:
            self.counts[name] = self.counts.get(name, 0) + 1

    def fault(self, *parts):
        with self.lock:
            self.faults.append(" ".join(str(one) for one in parts)[:400])


class Caller(threading.Thread):
    """A user who asks either server."""

    def __init__(self, place, record, user, seed):
        super().__init__(daemon=True)
        self.place, self.record, self.user = place, record, user
        self.random = random.Random(seed)
        self.token = token(user)

    def run(self):
        try:
            self.work()
        except Exception as error:  # pylint: disable=broad-except
            self.record.fault(type(self).__name__, repr(error))

    def work(self):
        raise NotImplementedError

    def send(self, method, path, body=None, headers=(), server=None):
        """Status, headers and body of one answer; None when none came."""
        port = self.place.ports[self.random.randrange(2) if server is None else server]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        data = None if body is None else json.dumps(body)
        fields = {"X-ZUMO-AUTH": self.token} | ({"Content-Type": "application/json"} if data else {})
        try:
            connection.request(method, path, data, fields | dict(headers))
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, answer.headers, json.loads(text) if text else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def until_answered(self, method, path, body=None, headers=()):
        """Sends it until a server answers for certain: nobody answers with 500, and each 503 says when to come again."""
        for _ in range(ATTEMPTS_MAX):
            answer = self.send(method, path, body, headers)
            if answer and answer[0] < 500:
                return answer
            self.record.count("503" if answer else "no answer")
            if answer and (answer[0] != 503 or "Retry-After" not in answer[1]):
                self.record.fault(method, path, *answer)
            time.sleep(0.1 + self.random.random() * 0.1)
        raise TimeoutError(f"no answer to {method} {path}")

    def name(self):
        """The headers of a write that may be sent again."""
        return {
            "Repeatability-Request-ID": str(uuid.UUID(int=self.random.getrandbits(128))),
            "Repeatability-First-Sent": email.utils.formatdate(usegmt=True),
        }


class Writer(Caller):
    """Only it writes its rows, so it knows what they must be."""

    def __init__(self, number, *more):
        super().__init__(*more)
        self.number = number
        self.rows = {}  # by id: n, None when deleted; and the ETag
        self.inserted = 0

    def work(self):
        while not self.record.is_over.is_set():
            live = [key for key, row in self.rows.items() if row[0] is not None]
            choice = self.random.random()
            if not live or choice < 0.25:
                self.insert()
            elif choice < 0.35:
                self.delete(self.random.choice(live))
            elif choice < 0.5:
                self.batch(self.random.sample(live, min(len(live), self.random.randrange(1, 6))))
            else:
                self.update(self.random.choice(live))
            time.sleep(self.random.random() * 0.02)

    def path(self, key):
        return f"{TABLE}/{urllib.parse.quote(key)}"

    def took(self, expected, answer, key, n):
        """Notes what a row is now; an answer that cannot be is a fault."""
        if answer[0] != expected:
            self.record.fault("write of", key, *answer)
            return
        self.record.count("writes")
        self.rows[key] = (n, answer[1].get("ETag"))

    def insert(self):
        self.inserted += 1
        key = f"writer{self.number}-{self.inserted}"
        self.took(201, self.until_answered("POST", TABLE, {"id": key, "n": 1}, self.name()), key, 1)

    def delete(self, key):
        headers = self.name() | {"If-Match": self.rows[key][1]}
        self.took(204, self.until_answered("DELETE", self.path(key), None, headers), key, None)

    def update(self, key):
        n = self.rows[key][0] + 1
        headers = self.name() | {"If-Match": self.rows[key][1]}
        self.took(200, self.until_answered("PATCH", self.path(key), {"n": n}, headers), key, n)
        if self.random.random() < 0.3:
            self.look(key)

    def look(self, key):
        """What was acknowledged is there, whichever server is asked."""
        answer = self.send("GET", self.path(key))
        if answer and answer[0] < 500 and (answer[0] != 200 or answer[2]["n"] != self.rows[key][0]):
            self.record.fault("an acknowledged row", key, self.rows[key], "is", *answer)

    def batch(self, keys):
        """Several rows as one: all or none, by their names, however often it is sent."""
        requests = [
            {
                "id": key,
                "method": "PATCH",
                "url": self.path(key),
                "atomicityGroup": "all",
                "headers": self.name() | {"If-Match": self.rows[key][1], "Content-Type": "application/json"},
                "body": {"n": self.rows[key][0] + 1},
            }
            for key in keys
        ]
        for _ in range(ATTEMPTS_MAX):
            _, _, answer = self.until_answered("POST", "/$batch", {"requests": requests})
            answers = answer["responses"]
            if all(one["status"] < 500 for one in answers):
                break
            time.sleep(0.1)
        for one in answers:
            fields = {name.lower(): value for name, value in one.get("headers", {}).items()}
            key = one["id"]
            self.took(200, (one["status"], {"ETag": fields.get("etag")}, one.get("body")), key, self.rows[key][0] + 1)


class ForeignWriter(Caller):
    """psql, in transactions of some statements."""

    def __init__(self, number, owner_column, *more):
        super().__init__(*more)
        self.number, self.owner_column = number, owner_column
        self.rows = {}  # by id: n, None when deleted. Rows of a transaction whose end is not known are not in it
        self.inserted = 0

    def work(self):
        while not self.record.is_over.is_set():
            statements, changes = self.transaction()
            try:
                self.place.query("".join(statements))
                self.rows |= changes
                self.record.count("transactions of psql")
            except subprocess.CalledProcessError:
                for key in changes:
                    self.rows.pop(key, None)
                self.record.count("psql was refused or cut off")
            time.sleep(self.random.random() * 0.1)

    def transaction(self):
        statements, changes = ["BEGIN;"], {}
        live = [key for key, n in self.rows.items() if n is not None]
        for _ in range(self.random.randrange(1, 5)):
            if not live or self.random.random() < 0.4:
                self.inserted += 1
                key = f"psql{self.number}-{self.inserted}"
                names, values = "id, n", f"'{key}', 1"
                if self.owner_column:
                    names, values = names + ", owner", f"{values}, '{self.user}'"
                statements.append(f'INSERT INTO "Item" ({names}) VALUES ({values});')
                changes[key] = 1
                live.append(key)
                continue
            key = self.random.choice(live)
            if self.random.random() < 0.15:
                statements.append(f"DELETE FROM \"Item\" WHERE id = '{key}';")
                changes[key] = None
                live.remove(key)
            else:
                statements.append(f"UPDATE \"Item\" SET n = n + 1 WHERE id = '{key}';")
                changes[key] = changes.get(key, self.rows.get(key)) + 1
        if self.random.random() < 0.3:
            statements.append(f"SELECT pg_sleep({self.random.random() * 0.2:.3f});")
        if self.random.random() < 0.1:
            return statements + ["ROLLBACK;"], {}
        return statements + ["COMMIT;"], changes


class Puller(Caller):
    """Has at the end what there is, and no row ever goes back."""

    def __init__(self, *more):
        super().__init__(*more)
        self.rows = {}
        self.is_last = threading.Event()

    def work(self):
        while True:
            is_last = self.is_last.is_set()
            self.pull()
            if is_last:
                return
            time.sleep(self.random.random() * 0.1)

    def pull(self):
        raise NotImplementedError

    def take(self, row):
        key = row["id"]
        if "@removed" in row or row["deleted"]:
            self.rows[key] = None
            return
        old = self.rows.get(key)
        if old is not None and old > row["n"]:
            self.record.fault(type(self).__name__, "saw", key, "go back from", old, "to", row["n"])
        self.rows[key] = row["n"]

    def page(self, path, headers):
        status, _, body = self.until_answered("GET", path, None, headers)
        if status != 200:
            raise RuntimeError(f"{path}: {status} {body}")
        return body


class DeltaPuller(Puller):
    """Follows the links to changes."""

    link = None

    def pull(self):
        path = f"{TABLE}?{self.link}" if self.link else TABLE
        while path:
            body = self.page(path, {"Prefer": "odata.track-changes,maxpagesize=20"})
            for row in body["items"]:
                self.take(row)
            self.link = body.get("@odata.deltaLink", self.link)
            path = body["nextLink"] and f"{TABLE}?{body['nextLink']}"


class ClassicPuller(Puller):
    """Asks for `updatedAt ge T` with `$skip`, as the classic clients do."""

    since = "1970-01-01T00:00:00.000Z"

    def pull(self):
        skip = 0
        while True:
            options = {
                "$filter": f"updatedAt ge datetimeoffset'{self.since}'",
                "$orderby": "updatedAt",
                "$skip": skip,
                "$top": 50,
                "__includeDeleted": "true",
            }
            query = urllib.parse.urlencode(options, quote_via=urllib.parse.quote)
            rows = self.page(f"{TABLE}?{query}", {"ZUMO-API-VERSION": "2.0.0"})
            for row in rows:
                self.take(row)
            if not rows:
                return
            latest = max(row["updatedAt"] for row in rows)
            skip = 0 if latest > self.since else skip + len(rows)
            self.since = latest
