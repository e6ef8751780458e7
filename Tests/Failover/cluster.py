"""A PostgreSQL of two nodes under Patroni and etcd, in a directory of its own, on free ports.

Nothing of it is a service of the system. A node is a Patroni with the PostgreSQL that it started; both
are killed together, as a power cut of their machine would do it.
"""

import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request


def missing():
    """The reason for which no cluster can be made; None when one can."""
    for program, package in [("patroni", "patroni"), ("etcd", "etcd-server")]:
        if not shutil.which(program):
            return f"{program} is not installed (apt-get install {package})"
    if not programs():
        return "PostgreSQL is not installed (apt-get install postgresql)"
    return None


def programs():
    """The directory of PostgreSQL's programs."""
    named = os.environ.get("TIDELINE_POSTGRES_BIN")
    found = sorted(
        pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3])
    )
    return named or (str(found[-1].parent) if found else None)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait(what, body, seconds=90):
    """What `body` returns as soon as it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if result := body():
                return result
        except (OSError, ValueError, subprocess.SubprocessError):
            pass
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come within {seconds} s")


class Node:
    def __init__(self, cluster, name, ports):
        self.cluster = cluster
        self.name = name
        self.port, self.rest = ports
        self.directory = f"{cluster.directory}/{name}"
        os.mkdir(self.directory)
        self.file = f"{cluster.directory}/{name}.json"
        # JSON is YAML, too.
        with open(self.file, "w") as file:
            json.dump(self.settings(), file, indent=1)
        self.patroni = None

    def settings(self):
        here = "127.0.0.1"
        return {
            "scope": "tideline",
            "name": self.name,
            "restapi": {"listen": f"{here}:{self.rest}", "connect_address": f"{here}:{self.rest}"},
            "etcd3": {"hosts": f"{here}:{self.cluster.etcd_port}"},
            "bootstrap": {
                "dcs": {
                    "ttl": 20,
                    "loop_wait": 2,
                    "retry_timeout": 4,
                    "synchronous_mode": True,
                    
                    "postgresql": {
                        "use_pg_rewind": True,
                        "parameters": {"wal_log_hints": "on", "max_connections": 60},
                    },
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, {"auth": "trust"}],
            },
            "postgresql": {
                "listen": f"{here}:{self.port}",
                "connect_address": f"{here}:{self.port}",
                "data_dir": f"{self.directory}/data",
                "bin_dir": programs(),
                "pgpass": f"{self.directory}/pgpass",
                "authentication": {
                    "superuser": {"username": "postgres", "password": "none"},
                    "replication": {"username": "postgres", "password": "none"},
                    "rewind": {"username": "postgres", "password": "none"},
                },
                "parameters": {"unix_socket_directories": self.directory, "shared_buffers": "64MB"},
                "pg_hba": [
                    f"host all all {here}/32 trust",
                    f"host replication all {here}/32 trust",
                    "local all all trust",
                ],
            },
        }

    def start(self):
        self.patroni = self.cluster.spawn(["patroni", self.file], f"{self.name}.log")

    def role(self):
        """What Patroni says of itself."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}/patroni", timeout=2) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def kill(self):
        """Ends Patroni and PostgreSQL at once, all its processes."""
        with open(f"{self.directory}/data/postmaster.pid") as file:
            postmaster = int(file.readline())
        self.patroni.kill()
        for process in [postmaster, *children(postmaster)]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.patroni.wait()
        self.patroni = None

    def query(self, text, database="tideline"):
        words = [f"{programs()}/psql", "-XAtqc", text, "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        done = subprocess.run([*words, "-d", database], capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.strip()


def children(parent):
    with open(f"/proc/{parent}/task/{parent}/children") as file:
        return [int(word) for word in file.read().split()]


class Cluster:
    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="tideline-failover-", dir="/tmp")
        self.user = None
        if os.getuid() == 0:
            # PostgreSQL refuses to be run by root.
            self.user = pwd.getpwnam("postgres")
            os.chown(self.directory, self.user.pw_uid, self.user.pw_gid)
        self.etcd_port, peer, *ports = free_ports(6)
        client, own = (f"http://127.0.0.1:{port}" for port in (self.etcd_port, peer))
        self.etcd = self.spawn(
            [
                "etcd", "--name", "one", "--data-dir", f"{self.directory}/etcd",
                "--listen-client-urls", client, "--advertise-client-urls", client,
                "--listen-peer-urls", own, "--initial-advertise-peer-urls", own,
                "--initial-cluster", f"one={own}",
            ],
            "etcd.log",
        )
        self.nodes = [Node(self, "a", ports[:2]), Node(self, "b", ports[2:])]
        if self.user:
            for node in self.nodes:
                os.chown(node.directory, self.user.pw_uid, self.user.pw_gid)

    def spawn(self, words, log):
        user = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        with open(f"{self.directory}/{log}", "a") as output:
            return subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.directory,
                env=os.environ | {"HOME": self.directory, "LC_ALL": "C.UTF-8"}, start_new_session=True, **user,
            )

    def start(self):
        self.nodes[0].start()
        wait("the first primary", lambda: self.leader())
        self.nodes[1].start()
        self.wait_for_standby()
        self.leader().query("CREATE DATABASE tideline", "postgres")

    def leader(self):
        """The node that takes writes; None while there is none."""
        for node in self.nodes:
            if node.patroni is None:
                continue
            try:
                said = node.role()
            except OSError:
                continue
            if said.get("role") in ("master", "primary") and said.get("state") == "running":
                return node
        return None

    def other(self, node):
        return next(one for one in self.nodes if one is not node)

    def wait_for_standby(self):
        """Until the other node has all commits before they are answered."""
        text = "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')"
        wait("a synchronous standby", lambda: self.leader().query(text, "postgres") == "1", 180)

    def address(self):
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"postgres://postgres@{hosts}/tideline?target_session_attrs=read-write"

    def close(self):
        for node in self.nodes:
            if node.patroni is not None:
                try:
                    node.kill()
                except OSError:
                    pass
        self.etcd.kill()
        self.etcd.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
