"""Kills the primary of PostgreSQL under load, twice, and looks what becomes of writes and pulls.

    python3 Tests/Failover/failover.py BINARY [--writers N] [--seconds N] [--kills N]

Two servers, each with an address of two hosts, on a primary with a synchronous standby under Patroni and
etcd. Writers repeat each write by its name until it is acknowledged, at the servers in turn. After each
kill the node comes back as the standby. Exits 0 when no acknowledged write is lost, none is done twice,
and nobody had to be started again; 0 with the reason where Patroni or etcd is not installed (1 with
--required).
"""

import argparse
import email.utils
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import cluster as clusters
from cluster import Cluster, wait
from load import TABLE, Caller, Load, next_path


class Server:
    def __init__(self, binary, address, log):
        self.log = log
        with open(log, "w") as output:
            self.process = subprocess.Popen(
                [binary, "serve", "--database", address, "--listen", "127.0.0.1:0"],
                stdout=output,
                stderr=output,
            )
        wait("the server", lambda: "listening on" in self.text())
        lines = [line for line in self.text().splitlines() if line.startswith("listening on ")]
        self.url = lines[0].split()[-1]

    def text(self):
        with open(self.log) as file:
            return file.read()

    def end(self):
        self.process.terminate()
        return self.process.wait(60)


FAILURES = []


def check(what, is_so, more=""):
    print(f"{'ok  ' if is_so else 'FAIL'} {what}{f' ({more})' if more else ''}", flush=True)
    if not is_so:
        FAILURES.append(what)


def all_rows(url):
    caller = Caller(url)
    rows, path = [], TABLE
    while path:
        status, _, answer = caller.send("GET", path)
        assert status == 200, status
        rows += answer["items"]
        path = next_path(answer)
    return rows


def timeline(node):
    return node.query("SELECT ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int")


def kill_primary(cluster, load, seconds):
    """Kills the node that takes writes; returns when writes go on, and the node is back as a standby."""
    time.sleep(seconds)
    old = cluster.leader()
    before = len(load.texts)
    number = timeline(old)
    start = time.monotonic()
    old.kill()
    wait("a new primary", lambda: (node := cluster.leader()) and node is not old and node)
    promoted = time.monotonic() - start
    goal = len(load.texts) + 20
    wait("writes behind the failover", lambda: len(load.texts) >= goal)
    first = time.monotonic() - start
    new = cluster.leader()
    check(
        f"{old.name} was killed, {new.name} is the primary",
        timeline(new) != number,
        f"{before} rows before; a primary after {promoted:.1f} s, 20 rows more after {first:.1f} s; "
        f"timeline {number} -> {timeline(new)}",
    )
    old.start()
    cluster.wait_for_standby()


def stop_the_standby(cluster, servers):
    """Kills the primary while its standby has not got what it commits: no answer may have come before."""
    old = cluster.leader()
    receiver = cluster.other(old).query("SELECT pid FROM pg_stat_wal_receiver", "postgres")
    os.kill(int(receiver), signal.SIGSTOP)
    answers = []

    def write(server):
        text = f"lonely-{server.url}"
        names = {"Repeatability-Request-ID": text, "Repeatability-First-Sent": email.utils.formatdate(usegmt=True)}
        while True:
            status, _, _ = Caller(server.url).send("POST", TABLE, {"text": text}, names)
            if status == 201:
                answers.append(text)
            if status != 503:
                return
            time.sleep(0.1)

    threads = [threading.Thread(target=write, args=(server,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    # Longer than a statement may take (10 s), and not so long that Patroni goes on without the standby.
    time.sleep(14)
    acknowledged = set(answers)
    old.kill()
    os.kill(int(receiver), signal.SIGCONT)
    for thread in threads:
        thread.join(120)
    rows = {row["text"] for row in all_rows(servers[0].url)}
    check(
        "what the standby did not have was not acknowledged, and is done once it is the primary",
        not acknowledged and set(answers) <= rows and len(answers) == len(servers),
        f"{len(acknowledged)} acknowledged before, {len(acknowledged - rows)} lost",
    )
    old.start()
    cluster.wait_for_standby()


def look(servers, load):
    """Compares what was acknowledged with what is there."""
    for place, server in enumerate(servers):
        rows = all_rows(server.url)
        texts = [row["text"] for row in rows if not row["id"].startswith("counter")]
        counts = {row["id"]: row["text"] for row in rows if row["id"].startswith("counter")}
        lost = load.texts - set(texts)
        check(f"server {place}: no acknowledged row is lost", not lost, f"{len(load.texts)} rows")
        check(f"server {place}: no row is there twice", len(texts) == len(set(texts)))
        check(f"server {place}: nothing is there that nobody acknowledged", set(texts) <= load.texts)
        is_same = all(counts.get(key) == count for key, count in load.counts.items())
        check(f"server {place}: each counter stands where it was acknowledged", is_same, f"{counts}")
        have = {key: row["version"] for key, row in load.pulled[place].items() if not row.get("deleted")}
        check(
            f"server {place}: who followed the links to changes has what is there",
            have == {row["id"]: row["version"] for row in rows},
            f"{len(have)} rows",
        )
        check(f"server {place}: it was not started again", server.process.poll() is None)


def run(options):
    cluster = Cluster()
    servers = []
    folder = tempfile.TemporaryDirectory(prefix="tideline-failover-")
    try:
        cluster.start()
        print(f"load of the machine: {' '.join(open('/proc/loadavg').read().split()[:3])}", flush=True)
        for number in range(2):
            servers.append(Server(options.binary, cluster.address(), f"{folder.name}/{number}.log"))
        if options.only_standby:
            return stop_the_standby(cluster, servers)
        load = Load([server.url for server in servers])
        load.start(options.writers)
        for _ in range(options.kills):
            kill_primary(cluster, load, options.seconds)
        time.sleep(options.seconds)
        load.end()
        for fault in load.faults:
            check(fault, False)
        print(f"refused meanwhile: {load.refusals}, pulls: {load.refused_pulls} of {load.pulls + load.refused_pulls}")
        check("servers refused, and said when to come again", bool(load.refusals))
        look(servers, load)
        stop_the_standby(cluster, servers)
        for number, server in enumerate(servers):
            text = server.text()
            check(
                f"server {number} noticed each timeline, and that nothing was lost",
                text.count("new timeline; no commits were lost") == options.kills + 1 and "lost commits" not in text,
            )
            check(f"server {number} ends as it should", server.end() == 0)
            if options.logs or FAILURES:
                print(server.text())
    finally:
        for server in servers:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()
        if FAILURES and options.logs:
            for node in cluster.nodes:
                print(open(f"{cluster.directory}/{node.name}.log").read()[-4000:])
        cluster.close()
        folder.cleanup()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--writers", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=4, help="of load before each kill")
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--only-standby", action="store_true", help="only the standby that stands still")
    parser.add_argument("--logs", action="store_true", help="prints what the servers wrote")
    parser.add_argument("--required", action="store_true")
    options = parser.parse_args()
    if reason := clusters.missing():
        print(f"skipped: {reason}")
        sys.exit(1 if options.required else 0)
    run(options)
    sys.exit(1 if FAILURES else 0)


if __name__ == "__main__":
    main()
