#!/usr/bin/env python3
"""The files for nginx and Caddy, tried with the real ones before a real server.

    proxies.py TIDELINE [nginx|caddy]

Each runs in a temporary directory on free ports; of its file only names of files and ports are
changed.
"""

import http.server
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import urllib.parse

from programs import Failure, Program, expect, free_port, replaced, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOST = "todo.example"
SECONDS = 20
BODY_MAX = 4_194_304
TABLES = {"TodoItem": {"columns": {"text": "string", "complete": "boolean"}}}


class Answer:
    def __init__(self, status, version, headers, body):
        self.status, self.version, self.headers, self.body = status, version, headers, body

    def json(self):
        return json.loads(self.body)

    def is_problem(self, status):
        """A refusal in the form of the server's."""
        kind = self.headers.get("content-type", "")
        expect(self.status, status, "status")
        expect(kind, "application/problem+json", "type of a refusal")
        return isinstance(self.json()["error"], str)


class Cut(Failure):
    """An answer that ended early."""


class Caller:
    """Asks by curl, which speaks HTTP/2, as a device outside would: by the public name."""

    def __init__(self, port, authority):
        self.port, self.authority = port, authority
        self.base = f"https://{HOST}:{port}"

    def words(self, path, *more):
        url = path if path.startswith("https:") else self.base + path
        return [
            "curl", "--silent", "--show-error", "--max-time", str(SECONDS),
            "--cacert", str(self.authority), "--resolve", f"{HOST}:{self.port}:127.0.0.1",
            "--path-as-is", "--globoff", *more, url,
        ]  # fmt: skip

    def ask(self, path, *more, method="GET", body=None, headers=()):
        words = ["--include", "--request", method, "--header", "Expect:"]
        for header in headers:
            words += ["--header", header]
        if body is not None:
            words += ["--data-binary", "@-"]
        done = subprocess.run(
            self.words(path, *words, *more), input=body, capture_output=True, check=False
        )
        if done.returncode != 0:
            raise (Cut if done.returncode == 18 else Failure)(f"curl: {done.stderr.decode()}")
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        version, status = lines[0].split(" ")[:2]
        fields = (line.partition(": ") for line in lines[1:])
        return Answer(int(status), version, {n.lower(): v for n, _, v in fields}, rest)

    def send(self, path, value, method="POST"):
        body = json.dumps(value).encode()
        return self.ask(path, method=method, body=body, headers=["Content-Type: application/json"])


def check_tables(caller):
    made = caller.send("/tables/TodoItem", {"id": "a bé", "text": "Milk"})
    expect((made.status, made.body[:200] if made.status != 201 else ""), (201, ""), "an insert")
    expect(made.version, "HTTP/2", "protocol")
    expect(made.headers["location"], caller.base + "/tables/TodoItem/a%20b%C3%A9", "Location")
    tag = made.headers["etag"]
    row = caller.ask("/tables/TodoItem/a%20b%C3%A9")
    expect((row.status, row.headers["etag"]), (200, tag), "a read, with an encoded id")
    expect(
        caller.ask("/tables/TodoItem/a%20b%C3%A9", headers=[f"If-None-Match: {tag}"]).status,
        304,
        "a read of what is known",
    )
    expect(
        caller.ask(
            "/tables/TodoItem/a%20b%C3%A9", method="DELETE", headers=['If-Match: "AAAAAAAAAAA="']
        ).status,
        412,
        "a delete of another version",
    )
    expect(caller.ask("/tables/TodoItem", "--http1.1").version, "HTTP/1.1", "the older protocol")
    expect(caller.ask("/tables/Nobody").is_problem(404), True, "the server's own refusal")
    expect(caller.ask("/tables/TodoItem", "--head", method="HEAD").status, 200, "HEAD")


def check_batch(caller):
    requests = [
        {
            "id": str(number),
            "method": "POST",
            "url": ("" if number % 2 else caller.base) + "/tables/TodoItem",
            "body": {"id": f"n{number:03}", "text": "x" * 200},
        }
        for number in range(120)
    ]
    answer = caller.send("/$batch", {"requests": requests})
    expect(answer.status, 200, "a batch")
    expect({part["status"] for part in answer.json()["responses"]}, {201}, "its requests")


def check_links(caller):
    # A filter longer than the 8 KB that proxies take by themselves.
    names = " or ".join(f"startswith(id,'n{number:03}')" for number in range(0, 120, 1))
    query = urllib.parse.urlencode({"$filter": f"text ne '{'y' * 12_000}' and ({names})"})
    # The links of one generation are queries, those of the other are addresses.
    for version, field in ("3.0.0", "nextLink"), ("2.0.0", "link"):
        path, rows = "/tables/TodoItem?" + query, 0
        while path:
            page = caller.ask(path, headers=["ZUMO-API-VERSION: " + version])
            expect(page.status, 200, "a page")
            if field == "nextLink":
                rows += len(page.json()["items"])
                link = page.json()[field]
                path = link and "/tables/TodoItem?" + link
            else:
                rows += len(page.json())
                path, _, relation = page.headers.get(field, "").partition("; ")
                if path and not path.startswith(caller.base + "/"):
                    raise Failure(f"a next link names another host: {path[:60]}")
                expect(relation, "rel=next" if path else "", "relation")
        expect(rows, 120, f"rows of all pages, {version}")


def check_coding(caller):
    plain = caller.ask("/tables/TodoItem?$top=40")
    packed = caller.ask("/tables/TodoItem?$top=40", headers=["Accept-Encoding: gzip"])
    expect(packed.headers.get("content-encoding"), "gzip", "coding")
    expect("content-encoding" in plain.headers, False, "coding of what was not asked for")
    opened = caller.ask("/tables/TodoItem?$top=40", "--compressed")
    expect(opened.json()["items"], plain.json()["items"], "the same rows")
    one = caller.ask("/tables/TodoItem/n001")
    again = caller.ask("/tables/TodoItem/n001", headers=["Accept-Encoding: gzip"])
    expect(one.headers["etag"], again.headers["etag"], "the tag of a row")


def check_events(caller, version):
    """The change comes while the stream is open; a proxy that keeps it back fails here."""
    words = caller.words("/$events?tables=TodoItem", "--no-buffer", version)
    listener = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        lines = []
        for line in listener.stdout:
            lines.append(line)
            if line.startswith("id:") and len(lines) < 4:
                caller.send("/tables/TodoItem", {"text": "told"})
            if line.startswith("event: change"):
                return
        raise Failure(f"no event in {SECONDS} s, only {lines}")
    finally:
        listener.kill()
        listener.communicate()


def check_bodies(caller):
    text = json.dumps({"text": "x" * (BODY_MAX - 100)}).encode()
    answer = caller.ask(
        "/tables/TodoItem", method="POST", body=text, headers=["Content-Type: application/json"]
    )
    expect(answer.is_problem(413), True, "a body that is small enough, with a row that is not")
    if "row" not in answer.json()["error"]:
        raise Failure(f"not the server refuses the row: {answer.json()['error']}")
    for header in [], ["Transfer-Encoding: chunked"]:
        for version in "--http2", "--http1.1":
            answer = ask_until_whole(
                caller,
                "/$batch",
                version,
                method="POST",
                body=b"{" + b" " * (BODY_MAX + 1000),
                headers=["Content-Type: application/json", *header],
            )
            expect(answer.is_problem(413), True, f"a large body, {version} {header}")


def ask_until_whole(caller, *words, **more):
    """Caddy 2.6 now and then cuts an answer in HTTP/1.1 that came before it had read the whole body: Go
    closes the body when the head of the answer goes out, and that ends the connection to the server."""
    for _ in range(9):
        try:
            return caller.ask(*words, **more)
        except Cut:
            continue
    return caller.ask(*words, **more)


def check_closed_doors(caller):
    for path in "/metrics", "/METRICS", "/metrics/", "/%6Detrics":
        expect(caller.ask(path).is_problem(404), True, f"the metrics as {path}")
    expect(caller.ask("/health").json(), {"status": "ok"}, "the health")
    expect(caller.ask("/").status, 403, "the dashboard without authentication")


def check_unknown_hosts(caller):
    """Other names lead nowhere, and a proxied request is never one of this machine."""
    for name in "evil.example", "localhost", "127.0.0.1":
        answer = None
        try:
            # By the name of the certificate, so that the handshake succeeds.
            answer = caller.ask("/health", headers=[f"Host: {name}"])
        except Failure:
            pass
        handed_on = answer is not None and answer.body != b""
        expect(handed_on, False, f"a request for {name}")
    url = f"https://evil.example:{caller.port}/health"
    words = caller.words(url, "--resolve", f"evil.example:{caller.port}:127.0.0.1")
    done = subprocess.run(words, capture_output=True, check=False)
    expect(done.returncode != 0, True, "a handshake with another name")
    for path in "/", "/$admin/overview":
        expect(caller.ask(path).status, 403, f"{path} of a server without users")


def check_this_machine(port):
    """Whatever a proxy writes into the head, the server does not take its request for one of this machine."""
    for path in "/metrics", "/":
        direct = ask_server(port, path)
        expect(direct, 200, f"{path} on this machine")
        for header in PROXY_HEADERS:
            expect(ask_server(port, path, header), 403, f"{path} with {header}")


PROXY_HEADERS = [
    "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: localhost", "X-Forwarded-Proto: https",
    "x-forwarded-server: a", "Forwarded: for=127.0.0.1", "Via: 1.1 proxy", "X-Real-IP: 127.0.0.1",
]  # fmt: skip


def ask_server(port, path, *headers):
    words = ["curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}"]
    for header in ["Accept: text/html", *headers]:
        words += ["--header", header]
    url = f"http://127.0.0.1:{port}{path}"
    return int(subprocess.run([*words, url], capture_output=True, check=True).stdout)


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with the head of the request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = json.dumps([self.path, *([n.lower(), v] for n, v in self.headers.items())]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def check_forwarding(caller):
    """What a caller says of its address is dropped, and what it asks for is not touched."""
    path = "/a%2Fb//c/../$d?e=%20f+g"
    answer = caller.ask(
        path,
        headers=[
            "X-Forwarded-For: 10.9.8.7", "X-Real-IP: 10.9.8.7", "Forwarded: for=10.9.8.7",
            "X-Forwarded-Proto: gopher", "X-Forwarded-Host: elsewhere.example",
            "Repeatability-Request-ID: abc", "traceparent: 00-1-2-01",
        ],
    )  # fmt: skip
    seen, *fields = answer.json()
    headers = dict(fields)
    expect(seen, path, "the target")
    expect(len([name for name, _ in fields if name == "x-forwarded-for"]), 1, "addresses")
    expect(headers["x-forwarded-for"], "127.0.0.1", "X-Forwarded-For")
    expect(headers["x-real-ip"], "127.0.0.1", "X-Real-IP")
    expect(headers["x-forwarded-proto"], "https", "X-Forwarded-Proto")
    expect(headers["x-forwarded-host"], f"{HOST}:{caller.port}", "X-Forwarded-Host")
    expect("forwarded" in headers, False, "Forwarded")
    expect(headers["host"], f"{HOST}:{caller.port}", "Host")
    expect(headers["repeatability-request-id"], "abc", "another field")


def nginx(folder, port, server_port):
    site = (ROOT / "deploy/nginx/tideline.conf").read_text()
    certificates = "/etc/letsencrypt/live/todo.example"
    plain = free_port()
    site = replaced(
        site,
        ("    listen [::]:80;\n", ""),
        ("    listen [::]:443 ssl http2;\n", ""),
        ("    listen [::]:80 default_server;\n", ""),
        ("    listen [::]:443 ssl default_server;\n", ""),
        ("listen 80 default_server;", f"listen 127.0.0.1:{plain} default_server;"),
        ("listen 443 ssl default_server;", f"listen 127.0.0.1:{port} ssl default_server;"),
        ("listen 80;", f"listen 127.0.0.1:{plain};"),
        ("listen 443 ssl http2;", f"listen 127.0.0.1:{port} ssl http2;"),
        ("server 127.0.0.1:8080;", f"server 127.0.0.1:{server_port};"),
        (f"{certificates}/fullchain.pem", f"{folder}/certificates/certificate.pem"),
        (f"{certificates}/privkey.pem", f"{folder}/certificates/certificate.key"),
    )
    temporary = "".join(
        f"    {name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"worker_processes 1;\npid {folder}/nginx.pid;\nerror_log stderr;\n"
        + "events { worker_connections 256; }\n"
        # As Debian's nginx.conf has it: the site has to turn it off.
        + f"http {{\n    access_log off;\n    gzip on;\n{temporary}{site}}}\n"
    )
    words = ["-p", str(folder), "-c", str(folder / "nginx.conf")]
    subprocess.run(["nginx", "-q", "-t", *words], check=True)
    return Program(["nginx", *words, "-g", "daemon off;"], folder / "nginx.log")


def caddy(folder, port, server_port):
    site = replaced(
        (ROOT / "deploy/caddy/Caddyfile").read_text(),
        ("\ntodo.example {\n", f"\n{HOST} {{\n\tbind 127.0.0.1\n\ttls certificate key\n"),
        ("127.0.0.1:8080", f"127.0.0.1:{server_port}"),
        ("tls certificate key", f"tls {folder}/certificates/certificate.pem {folder}/certificates/certificate.key"),
    )
    options = f"{{\n\tadmin off\n\thttp_port {free_port()}\n\thttps_port {port}\n}}\n"
    (folder / "Caddyfile").write_text(options + site)
    words = ["--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    environment = {"HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    return Program(["caddy", "run", *words], folder / "caddy.log", environment)


CHECKS = [
    check_tables,
    check_batch,
    check_links,
    check_coding,
    lambda caller: check_events(caller, "--http2"),
    lambda caller: check_events(caller, "--http1.1"),
    check_bodies,
    check_closed_doors,
    check_unknown_hosts,
]


def try_proxy(name, start, tideline, folder):
    port = free_port()
    subprocess.run(
        [tideline, "certificate", "--host", HOST, "--directory", str(folder / "certificates")],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    caller = Caller(port, folder / "certificates/authority.pem")
    configuration = folder / "tideline.json"
    configuration.write_text(json.dumps({"publicURL": caller.base, "tables": TABLES}))
    words = ["serve", "--config", str(configuration), "--listen", "127.0.0.1:0"]
    database = ["--database", f"sqlite:{folder}/tideline.db"]
    server = Program([tideline, *words, *database], folder / "server.log")
    try:
        server_port = int(server.line_with("listening on").rsplit(":", 1)[1])
        check_this_machine(server_port)
        with start(folder, port, server_port) as proxy:
            wait_until(lambda: caller.ask("/health").status == 200, proxy, SECONDS)
            for check in CHECKS:
                check(caller)
            server.stop()
            expect(caller.ask("/tables/TodoItem").is_problem(502), True, "a server that is away")
    finally:
        server.stop()
    echo = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=echo.serve_forever, daemon=True).start()
    try:
        with start(folder, port, echo.server_address[1]) as proxy:
            wait_until(lambda: caller.ask("/health").status == 200, proxy, SECONDS)
            check_forwarding(caller)
    finally:
        echo.shutdown()
    print(f"{name}: tables, batch, links, coding, events, bodies, forwarding, unknown hosts: as they should be")


def main():
    tideline, names = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:] or ["nginx", "caddy"]
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            # Workers of nginx are another user.
            pathlib.Path(folder).chmod(0o755)
            try:
                try_proxy(name, {"nginx": nginx, "caddy": caddy}[name], tideline, pathlib.Path(folder))
            except Failure as failure:
                for log in sorted(pathlib.Path(folder).glob("*.log")):
                    print(f"--- {log.name}\n{log.read_text()[-2000:]}", file=sys.stderr)
                sys.exit(f"{name}: {failure}")


if __name__ == "__main__":
    main()
