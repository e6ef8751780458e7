"""What is killed: a PostgreSQL, perhaps a PgBouncer before it, and two servers, each in a directory of the test's own."""

import base64
import hashlib
import hmac
import json
import os
import pathlib
import pwd
import signal
import socket
import subprocess
import tempfile
import threading
import time

SECRET = b"chaos-0123456789abcdef0123456789"


def reason_to_skip(with_pooler):
    if not Place.programs():
        return "PostgreSQL is not installed: apt-get install postgresql"
    if with_pooler and not Place.pooler_program():
        return "PgBouncer is not installed: apt-get install pgbouncer"
    return None


def part(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def token(subject):
    """A token of this user, good for an hour."""
    claims = json.dumps({"sub": subject, "exp": int(time.time()) + 3600}).encode()
    signed = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(claims)
    return (signed + b"." + part(hmac.new(SECRET, signed, hashlib.sha256).digest())).decode()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Place:
    """PostgreSQL and servers, until `end()`.

    A server or PgBouncer that ended is restarted, as systemd would do.
    """

    def __init__(self, binary, has_owner, with_pooler):
        self.binary = binary
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="tideline-chaos-"))
        self.directory.chmod(0o777)
        self.account = pwd.getpwnam("postgres") if os.getuid() == 0 else None
        self.pooler = None
        self.is_pooler_killed = False
        self.is_over = False
        self.starts = 0
        self.start_cluster()
        host, port = self.directory, 5432
        if with_pooler:
            self.write_pooler_settings()
            self.start_pooler()
            self.wait_for_pooler()
            host, port = self.directory / "pool", 6432
        self.address = f"postgres://postgres@/app?host={host}&port={port}"
        self.ports = [free_port(), free_port()]
        (self.directory / "jwt.key").write_bytes(SECRET)
        table = {"columns": {"text": "string", "n": "integer"}}
        if has_owner:
            table["owner"] = "owner"
        for place, port in enumerate(self.ports):
            settings = {
                "listen": f"127.0.0.1:{port}",
                "database": self.address,
                "authentication": {"secretFile": str(self.directory / "jwt.key")},
                "tables": {"Item": table},
            }
            self.settings_file(place).write_text(json.dumps(settings))
        migrate = [binary, "migrate", "--config", str(self.settings_file(0)), "--apply"]
        subprocess.run(migrate, check=True, stdout=subprocess.DEVNULL)
        self.servers = [self.serve(place) for place in range(len(self.ports))]
        self.guard = threading.Thread(target=self.start_again, daemon=True)
        self.guard.start()

    # MARK: PostgreSQL

    @staticmethod
    def programs():
        """Where initdb and pg_ctl of the newest version are; None where there are none."""
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        return found[-1].parent if found else None

    @staticmethod
    def pooler_program():
        paths = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
        return next((path for path in paths if os.access(path, os.X_OK)), None)

    def as_account(self, command, **options):
        """Starts a program as the user that PostgreSQL runs as: it refuses to be root's."""
        if self.account:
            options |= {"user": self.account.pw_uid, "group": self.account.pw_gid}
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, cwd="/", **options)

    def control(self, *words):
        with open(self.directory / "control.log", "ab") as log:
            data = ["-D", str(self.directory / "data"), "-l", str(self.directory / "postgres.log")]
            return self.as_account([str(self.programs() / "pg_ctl"), *data, *words], stdout=log, stderr=log).wait()

    def start_cluster(self):
        if self.account:
            os.chown(self.directory, self.account.pw_uid, self.account.pw_gid)
        data = str(self.directory / "data")
        make = [str(self.programs() / "initdb"), "-D", data, "-A", "trust", "-U", "postgres"]
        assert self.as_account(make, stdout=subprocess.DEVNULL).wait() == 0, "initdb failed"
        with open(f"{data}/postgresql.conf", "a") as file:
            file.write(
                f"listen_addresses = ''\nunix_socket_directories = '{self.directory}'\nmax_connections = 300\n"
            )
        assert self.control("start", "-w") == 0, f"PostgreSQL did not start: {self.directory}/postgres.log"
        self.query("CREATE DATABASE app", "postgres")

    def query(self, text, database="app"):
        """What psql says to it: the rows, their columns with a bar between them."""
        command = ["psql", "-h", self.directory, "-U", "postgres", "-d", database, "-qAtX", "-v", "ON_ERROR_STOP=1"]
        return subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout

    def crash(self, seconds):
        self.control("stop", "-m", "immediate")
        time.sleep(seconds)
        self.control("start", "-w")

    # MARK: PgBouncer

    def write_pooler_settings(self):
        folder = self.directory / "pool"
        folder.mkdir()
        folder.chmod(0o777)
        (folder / "users").write_text('"postgres" ""\n')
        (folder / "pool.ini").write_text(
            f"""[databases]
* = host={self.directory}
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = 6
max_client_conn = 500
server_login_retry = 1
"""
        )

    def start_pooler(self):
        with open(self.directory / "pool" / "pool.log", "ab") as log:
            command = [self.pooler_program(), str(self.directory / "pool" / "pool.ini")]
            self.pooler = self.as_account(command, stdout=log, stderr=log)

    def wait_for_pooler(self):
        """Waits up to 30 seconds until PgBouncer answers."""
        command = [str(self.programs() / "pg_isready"), "-q", "-h", str(self.directory / "pool"), "-p", "6432"]
        for _ in range(300):
            if subprocess.run(command).returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError(f"PgBouncer did not answer within 30 seconds; see {self.directory}/pool/pool.log")

    def kill_pooler(self, seconds):
        self.is_pooler_killed = True
        self.pooler.kill()
        self.pooler.wait()
        time.sleep(seconds)
        self.start_pooler()
        self.is_pooler_killed = False

    # MARK: servers

    def settings_file(self, place):
        return self.directory / f"server{place}.json"

    def log(self, place):
        return self.directory / f"server{place}.log"

    def serve(self, place):
        with open(self.log(place), "ab") as log:
            command = [self.binary, "serve", "--config", str(self.settings_file(place))]
            return subprocess.Popen(command, stdout=log, stderr=log)

    def start_again(self):
        while not self.is_over:
            for place, server in enumerate(self.servers):
                if server.poll() is not None and not self.is_over:
                    self.servers[place] = self.serve(place)
                    self.starts += 1
            # A cancel request can end PgBouncer 1.18 (https://github.com/pgbouncer/pgbouncer/issues/822).
            if self.pooler and not self.is_pooler_killed and self.pooler.poll() is not None and not self.is_over:
                self.start_pooler()
                self.starts += 1
            time.sleep(0.2)

    def stop_and_continue(self, place, seconds):
        server = self.servers[place]
        server.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        server.send_signal(signal.SIGCONT)

    def end(self):
        """The exit codes of the servers."""
        self.is_over = True
        self.guard.join()
        for server in self.servers:
            server.terminate()
        codes = []
        for server in self.servers:
            try:
                codes.append(server.wait(30))
            except subprocess.TimeoutExpired:
                server.kill()
                codes.append(None)
        if self.pooler:
            self.pooler.kill()
        self.control("stop", "-m", "immediate")
        return codes
