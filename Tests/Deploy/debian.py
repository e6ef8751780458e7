#!/usr/bin/env python3
"""The Debian package: read by the tools for that, then lived through on a bare Debian 12.

    debian.py PACKAGE.deb

Each run has a copy of the system in a temporary directory and enters it by chroot, as root. No
systemd runs there: the service is started by the ExecStart of its unit, as the unit's user.
"""

import gzip
import json
import os
import pathlib
import re
import shutil
import socket
import sys
import tempfile
import urllib.error
import urllib.request

from programs import Failure, Program, expect, free_port
from system import System, leading_nowhere, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGURATION = "etc/tideline/tideline.json"
# The most that `systemd-analyze security` may find, of 100.
EXPOSURE = 20
UNITS = ["tideline.service", "tideline.socket", "tideline-backup.service", "tideline-backup.timer"]
# Files of the package, as texts name them.
OURS = r"/(?:usr/share/doc|usr/lib|usr/bin|etc)/tideline[\w./-]*"
# Of an address that belongs to nobody.
NOT_OURS = "bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs"


class Installed(System):
    """The system with the package."""

    def apt(self, *words):
        options = ["-q", "-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold"]
        return self.run("apt-get", *options, *words)

    def install(self, package):
        shutil.copy(package, self.root / "package.deb")
        told = self.apt("install", "--reinstall", "--allow-downgrades", "/package.deb")
        (self.root / "package.deb").unlink()
        return told

    def unit(self, name):
        """Keys of a unit with their last values, but all of those that add up."""
        lines = (self.root / "usr/lib/systemd/system" / name).read_text().splitlines()
        pairs = [line.partition("=")[::2] for line in lines if re.match(r"[A-Z]\w+=", line)]
        unit = dict(pairs)
        for many in "Environment", "SystemCallFilter":
            unit[many] = [value for key, value in pairs if key == many]
        return unit

    def state(self, path):
        place = self.root / path
        if place.is_symlink():
            return os.readlink(place)
        return "there" if place.exists() else "gone"

    def ours(self):
        """All paths with our name, but for the notes of apt and dpkg themselves."""
        found = run("find", self.root, "-xdev", "-iname", "*tideline*").splitlines()
        paths = (path.removeprefix(f"{self.root}/") for path in found)
        return sorted(path for path in paths if not path.startswith(("var/log", "var/cache")))


class Service:
    """The service as its unit starts it, and watched by strace for calls that it forbids."""

    def __init__(self, system, folder):
        unit = system.unit("tideline.service")
        script = f"umask {unit['UMask']}; cd {unit['WorkingDirectory']}; exec {unit['ExecStart']}"
        # As systemd does for Type=notify: the service has started when it says so here.
        inside = "/var/lib/tideline/notify"
        notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notified.bind(f"{system.root}{inside}")
        os.chmod(f"{system.root}{inside}", 0o777)
        notified.settimeout(20)
        self.trace = folder / "trace"
        watch = ["strace", "-f", "-qq", "-o", str(self.trace)]
        log = folder / "service.log"
        log.unlink(missing_ok=True)
        words = [*system.enter(unit["User"], *watch), "/bin/sh", "-c", script]
        self.program = Program(words, log, {"NOTIFY_SOCKET": inside})
        with notified:
            expect(notified.recv(4096).decode().split("\n")[0], "READY=1", "what systemd is told")
        (system.root / inside[1:]).unlink()
        self.base = self.program.line_with("listening on").split(" ")[2]

    def ask(self, path, value=None):
        body = json.dumps(value).encode() if value is not None else None
        request = urllib.request.Request(
            self.base + path, data=body, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read()), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, None, error.headers

    def stop(self):
        # strace hands it on, and ends with the program's exit code.
        for child in run("pgrep", "-P", self.program.process.pid).split():
            os.kill(int(child), 15)
        expect(self.program.process.wait(30), 0, "exit code of the service")


# The files alone


def check_lint(package):
    told = run("lintian", "--suppress-tags", NOT_OURS, "--fail-on", "error,warning", package)
    findings = [line for line in told.splitlines() if re.match("[EW]: ", line)]
    expect(findings, [], "findings of lintian")
    scripts = sorted((ROOT / "deploy/debian").glob("p*"))
    run("shellcheck", ROOT / "deploy/backup", *scripts, *(ROOT / "scripts").glob("package"))


def check_units(system, folder):
    """By this machine's systemd, with the programs of the other one."""
    units = folder / "units"
    shutil.rmtree(units, ignore_errors=True)
    shutil.copytree(system.root / "usr/lib/systemd/system", units)
    for name in UNITS:
        text = (units / name).read_text()
        (units / name).write_text(re.sub(r"^(ExecStart(?:Pre)?=)/", rf"\1{system.root}/", text, flags=re.M))
    for name in UNITS:
        # Whether there is a manual is asked of this machine, too.
        told = run("systemd-analyze", "verify", units / name, wanted=None)
        lines = [line for line in told.splitlines() if "Command 'man " not in line]
        expect(lines, [], f"findings in {name}")
        if name.endswith(".service"):
            words = ["--offline=yes", f"--threshold={EXPOSURE}", units / name]
            run("systemd-analyze", "security", *words)


def check_reading(system):
    """The manual page is clean, and shells complete what the program knows."""
    page = system.root / "usr/share/man/man1/tideline.1.gz"
    told = run("man", "--warnings", "-E", "UTF-8", "-l", "-P", "cat", page)
    for word in "PURGE", "SIGTERM and SIGINT", "Exit codes", "purge-tombstones", "--dry-run":
        if word not in told.upper() and word not in told:
            raise Failure(f"the manual page does not tell of {word}")
    expect([line for line in told.splitlines() if "warning" in line], [], "warnings of man")
    share = system.root / "usr/share"
    script = f"""
        source {share}/bash-completion/completions/tideline
        COMP_WORDS=(tideline migrate --d) COMP_CWORD=2; _tideline; echo "${{COMPREPLY[@]}}"
        COMP_WORDS=(tideline re) COMP_CWORD=1; _tideline; echo "${{COMPREPLY[@]}}"
    """
    expect(
        run("bash", "-c", script).split("\n")[:2],
        ["--dry-run --database --dynamic-schema", "restore restored reset-clocks"],
        "bash",
    )
    fish = share / "fish/vendor_completions.d/tideline.fish"
    told = run("fish", "-c", f"source {fish}; complete -C 'tideline migrate --d'")
    expect([line.split("\t")[0] for line in told.splitlines()],
           ["--database", "--dry-run", "--dynamic-schema"], "fish")  # fmt: skip
    run("zsh", "-n", share / "zsh/vendor-completions/_tideline")


def check_texts(system):
    """Texts name files that are there, and links of documents lead to what is installed."""
    docs = system.root / "usr/share/doc/tideline"
    files = [path for path in docs.rglob("*") if path.is_file() and path.suffix != ".gz"]
    texts = {path: path.read_text() for path in files}
    for name in UNITS:
        unit = system.root / "usr/lib/systemd/system" / name
        texts[unit] = unit.read_text()
    for path in CONFIGURATION, "usr/lib/tideline/backup":
        texts[system.root / path] = (system.root / path).read_text()
    page = system.root / "usr/share/man/man1/tideline.1.gz"
    texts[page] = gzip.decompress(page.read_bytes()).decode()
    missing, links = leading_nowhere(texts)
    for path, text in texts.items():
        for named in re.findall(OURS, text):
            if not (system.root / named.rstrip(".")[1:]).exists():
                missing.append(f"{path.name}: {named}")
    expect(missing, [], "files that texts name and nobody has")
    expect(links > 10, True, "links that were looked at")


def check_calls(system, service):
    """Nothing that the service called is outside of what its unit allows."""
    made = set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)[ (]", service.trace.read_text(), re.M))
    expect(len(made) > 20 and "epoll_wait" in made, True, "calls that strace saw")

    def members(name):
        lines = run("systemd-analyze", "syscall-filter", name).splitlines()[1:]
        words = [line.strip() for line in lines if not line.strip().startswith("#")]
        return {w for word in words if word for w in (members(word) if word[0] == "@" else [word])}

    allowed = members("@default")
    for line in system.unit("tideline.service")["SystemCallFilter"]:
        named = line.removeprefix("~").split()
        calls = {call for word in named for call in (members(word) if word[0] == "@" else [word])}
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    # Those that come before the program does, by chroot.
    forbidden = made - allowed - {"chroot", "setgroups", "setgid", "setuid"}
    expect(forbidden, set(), "calls that the unit forbids")


# The life of the package


def higher(package, folder):
    """The same package as a later version, which also has another configuration."""
    tree = folder / "higher"
    run("dpkg-deb", "-R", package, tree)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: .*", "Version: 99.0-1", control.read_text(), flags=re.M))
    shipped = tree / CONFIGURATION
    shipped.write_text(shipped.read_text().replace("complete", "done"))
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", tree, folder / "higher.deb")
    return folder / "higher.deb"


def check_installed(system):
    version = system.run("/usr/bin/tideline", "--version")
    expect(version.startswith("tideline "), True, "the program runs")
    for path, wanted in {
        "etc/tideline": "root:tideline 750",
        CONFIGURATION: "root:tideline 640",
        "var/lib/tideline": "tideline:tideline 750",
        "var/backups/tideline": "tideline:tideline 750",
    }.items():
        expect(system.run("stat", "-c", "%U:%G %a", "/" + path).strip(), wanted, path)
    stranger = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    system.run(*stranger, "cat", "/" + CONFIGURATION, wanted=1)
    for wants in "multi-user.target.wants/tideline.service", "timers.target.wants/tideline-backup.timer":
        expect(system.state(f"etc/systemd/system/{wants}") != "gone", True, wants)


def configure(system):
    """What an administrator changes has to outlive everything but a purge."""
    place = system.root / CONFIGURATION
    settings = json.loads(place.read_text())
    settings["listen"] = f"127.0.0.1:{free_port()}"
    place.write_text(json.dumps(settings))


def check_backups(system):
    unit = system.unit("tideline-backup.service")
    folder = system.root / "var/backups/tideline"
    for year in range(2001, 2020):
        (folder / f"tideline-{year}0101T000000Z.db").touch()
    (folder / "mine.db").touch()
    words = ["env", *unit["Environment"], unit["ExecStart"]]
    system.run(*words, user=unit["User"])
    kept = sorted(path.name for path in folder.glob("tideline-*.db"))
    expect(len(kept), 14, "backups that are kept")
    expect(kept[0], "tideline-20070101T000000Z.db", "the oldest")
    expect((folder / "mine.db").exists(), True, "a file of another name")
    told = system.run("/usr/bin/tideline", "inspect", f"/var/backups/tideline/{kept[-1]}", "--json")
    expect(json.loads(told)["tables"][0]["name"], "TodoItem", "what is in the backup")
    # One that fails leaves all others.
    broken = ["env", *unit["Environment"], "TIDELINE_CONFIG=/nowhere", unit["ExecStart"]]
    system.run(*broken, user=unit["User"], wanted=2)
    expect(len(list(folder.glob("tideline-*.db"))), 14, "backups behind one that failed")
    return kept[-1]


def rows(service):
    status, page, headers = service.ask("/tables/TodoItem")
    expect(status, 200, "a list")
    return [row["id"] for row in page["items"]], headers["Tideline-Epoch"]


def live(package, folder, system):
    system.install(package)
    check_installed(system)
    version = system.run("dpkg-query", "-W", "-f", "${Version}", "tideline").rsplit("-", 1)[0]
    program = system.run("/usr/bin/tideline", "--version").strip()
    expect(program, f"tideline {version}", "the version of the program and of the package")
    check_units(system, folder)
    check_reading(system)
    check_texts(system)

    configure(system)
    service = Service(system, folder)
    expect(service.ask("/tables/TodoItem", {"id": "a", "text": "Milk"})[0], 201, "an insert")
    before = rows(service)
    backup = check_backups(system)
    service.stop()
    check_calls(system, service)
    print("installed and started: units, calls, manual, completions, texts, backups")

    system.install(higher(package, folder))
    expect(system.run("dpkg-query", "-W", "-f", "${Version}", "tideline"), "99.0-1", "version")
    service = Service(system, folder)
    expect(rows(service), before, "rows behind the upgrade")
    service.ask("/tables/TodoItem", {"id": "b", "text": "lost"})
    service.stop()
    expect(system.state(CONFIGURATION + ".dpkg-dist"), "there", "the configuration of the package")
    check_installed(system)
    print("upgraded: rows, epoch and configuration are as they were")

    # The drill: the backup in the place of the database, as the user of the service.
    words = ["/usr/bin/tideline", "restore", f"/var/backups/tideline/{backup}"]
    system.run(*words, "--config", "/" + CONFIGURATION, user="tideline")
    service = Service(system, folder)
    found, epoch = rows(service)
    service.stop()
    expect((found, epoch == before[1]), (["a"], False), "rows and epoch behind the restore")
    print("restored from the timer's backup")

    system.apt("remove", "tideline")
    expect(system.state("usr/bin/tideline"), "gone", "the program")
    expect(system.state(CONFIGURATION), "there", "the configuration")
    expect(system.state("etc/systemd/system/tideline.service"), "/dev/null", "the unit")
    system.install(package)
    service = Service(system, folder)
    expect(rows(service)[0], ["a"], "rows behind a removal")
    service.stop()
    print("removed and installed again: rows and configuration are as they were")

    told = system.apt("purge", "tideline")
    expect("the data in /var/lib/tideline was not removed" in told, True, "words about the data")
    expect(system.state("var/lib/tideline/tideline.db"), "there", "data that nobody gave up")
    expect(system.state("etc/tideline"), "gone", "the configuration")
    system.install(package)
    check_installed(system)
    answer = "tideline tideline/purge-data boolean true\n"
    system.run("debconf-set-selections", input=answer)
    system.apt("purge", "tideline")
    expect(system.ours(), [], "what is left")
    expect(system.run("getent", "passwd", "tideline", wanted=2), "", "the user")
    print("purged: data is kept, and goes when the administrator says so; nothing is left")


def main():
    package = pathlib.Path(sys.argv[1]).resolve()
    if os.getuid() != 0:
        sys.exit("debian.py: root is needed to enter a system by chroot.")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        try:
            live(package, folder, Installed(folder))
            check_lint(package)
        except Failure as failure:
            log = folder / "service.log"
            if log.exists():
                print(f"--- service.log\n{log.read_text()[-2000:]}", file=sys.stderr)
            sys.exit(f"debian.py: {failure}")


if __name__ == "__main__":
    main()
