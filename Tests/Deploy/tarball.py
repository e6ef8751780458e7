#!/usr/bin/env python3
"""The tarball on a bare Debian 12, with no more than its README asks for; then the Containerfile.

    tarball.py TIDELINE.tar.xz

As root. The steps of the Containerfile are read by dockerfile-parse (from PyPI, into .build) and
done one by one in a chroot.
"""

import io
import json
import os
import pathlib
import re
import shlex
import shutil
import sys
import tempfile
import urllib.request

from programs import Failure, Program, expect, free_port
from system import System, leading_nowhere, run

ROOT = pathlib.Path(__file__).resolve().parents[2]


def check_service(system, words, user, folder, port=0):
    """The server answers, the doctor finds nothing against it, and a row comes back."""
    log = folder / "service.log"
    log.unlink(missing_ok=True)
    with Program([*system.enter(user), *words], log) as program:
        base = program.line_with("listening on").split(" ")[2].replace("0.0.0.0", "127.0.0.1")
        body = json.dumps({"id": "a", "text": "Milk"}).encode()
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(base + "/tables/TodoItem", data=body, headers=kind)
        with urllib.request.urlopen(request, timeout=20) as answer:
            expect(answer.status, 201, "an insert")
        with urllib.request.urlopen(base + "/tables/TodoItem/a", timeout=20) as answer:
            expect(json.loads(answer.read())["text"], "Milk", "the row")
        if port:
            expect(base, f"http://127.0.0.1:{port}", "address")
        return system.run("tideline", "doctor", "--server", base, user=user)


def check_tarball(file, folder):
    run("sha256sum", "--check", file.name + ".sha256", cwd=file.parent)
    system = System(folder)
    opt = system.root / "opt"
    run("tar", "-C", opt, "-xf", file)
    (top,) = opt.iterdir()
    inside = f"/opt/{top.name}"
    (system.root / "usr/local/bin/tideline").symlink_to(f"{inside}/bin/tideline")
    readme = (top / "README").read_text()

    documents = {path: path.read_text() for path in (top / "share/doc").rglob("*.md")}
    missing, links = leading_nowhere(documents)
    expect(missing, [], "links that lead nowhere")
    expect(links > 10, True, "links that were looked at")

    needed = run("readelf", "-d", top / "bin/tideline")
    libraries = re.findall(r"NEEDED.*\[(.*)\]", needed)
    expect(re.findall(r"^    (\S+\.so\S*)$", readme, re.M), libraries, "libraries in the README")
    expect([name for name in libraries if "swift" in name], [], "libraries of Swift")
    told = system.run("tideline", "--version", wanted=127)
    expect("cannot open shared object file" in told, True, "a program without its libraries")

    # As the README says, word by word.
    install = re.search(r"^    (apt-get install) (.*)$", readme, re.M)
    packages = install[2].split()
    system.run("apt-get", "install", "-q", "-y", "--no-install-recommends", *packages)
    version = re.match(r"tideline-(.+)-linux-", top.name)[1]
    expect(system.run("tideline", "--version").strip(), f"tideline {version}", "version")
    words = ["sh", "-c", f"cd /tmp && exec {inside}/bin/tideline serve --listen 127.0.0.1:0"]
    told = check_service(system, words, "nobody:nogroup", folder)
    expect("fault" in told, False, f"faults that the doctor found: {told}")
    print("the tarball runs on a bare Debian 12 with the libraries that its README names")

    script = readme[readme.index("To set it up as a service") :]
    lines = re.findall(r"^    (?!systemctl)(.*)$", script, re.M)
    system.run("sh", "-euc", f"cd {inside}\n" + "\n".join(lines))
    for name in "tideline.service", "tideline-backup.timer":
        expect((system.root / "etc/systemd/system" / name).exists(), True, name)
    words = (top / "share/systemd/tideline.service").read_text()
    words = re.search(r"^ExecStart=(.*)$", words, re.M)[1].split()
    check_service(system, [*words, "--listen", "127.0.0.1:0"], "tideline:tideline", folder)
    system.run("/usr/lib/tideline/backup", user="tideline:tideline")
    backups = list((system.root / "var/backups/tideline").glob("tideline-*.db"))
    expect(len(backups), 1, "backups")
    print("the words of the README make it a service, with backups")
    return packages


def read_containerfile():
    place = ROOT / ".build/packages/parser"
    if not (place / "dockerfile_parse").exists():
        run(sys.executable, "-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--target", place, "dockerfile-parse")
    sys.path.insert(0, str(place))
    from dockerfile_parse import DockerfileParser  # noqa: PLC0415

    text = (ROOT / "deploy/container/Containerfile").read_bytes()
    steps = DockerfileParser(fileobj=io.BytesIO(text)).structure
    return [(step["instruction"], step["value"]) for step in steps]


def check_containerfile(file, folder, packages):
    system, user, place, words = System(folder), None, "/", []
    entry, health = [], []
    for name, value in read_containerfile():
        match name:
            case "COMMENT" | "VOLUME" | "EXPOSE" | "STOPSIGNAL":
                pass
            case "FROM":
                expect(value, "docker.io/library/debian:12-slim", "the system")
            case "RUN":
                if "apt-get" in value:
                    named = re.search(r"recommends (.*?) +&&", value)[1].split()
                    expect(set(packages) - {"libc6", "libgcc-s1"} - set(named), set(), "packages")
                system.run("sh", "-c", value)
            case "ADD":
                pattern, target = value.split()
                expect(file.match(pattern), True, "the file that is added")
                run("tar", "-C", f"{system.root}{target}", "--no-same-owner", "-xf", file)
            case "USER":
                user = value
            case "WORKDIR":
                place = value
            case "ENTRYPOINT":
                entry = json.loads(value)
            case "CMD":
                words = json.loads(value)
            case "HEALTHCHECK":
                health = json.loads(value.removeprefix("CMD "))
            case _:
                raise Failure(f"{name} is not known here")
    port = free_port()
    words = [*entry, *(word.replace("8080", str(port)) for word in words)]
    start = ["sh", "-c", f"cd {place}; exec {shlex.join(words)}"]
    told = check_service(system, start, user, folder, port)
    expect(health[:3], ["tideline", "doctor", "--server"], "the look at its health")
    expect("fault" in told, False, f"faults that the doctor found: {told}")
    expect((system.root / "var/lib/tideline/tideline.db").exists(), True, "the database")
    print("the steps of the Containerfile make a server")


def main():
    file = pathlib.Path(sys.argv[1]).resolve()
    if os.getuid() != 0:
        sys.exit("tarball.py: root is needed to enter a system by chroot.")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        try:
            packages = check_tarball(file, folder)
            shutil.rmtree(folder / "system")
            check_containerfile(file, folder, packages)
        except Failure as failure:
            log = folder / "service.log"
            if log.exists():
                print(f"--- service.log\n{log.read_text()[-2000:]}", file=sys.stderr)
            sys.exit(f"tarball.py: {failure}")


if __name__ == "__main__":
    main()
