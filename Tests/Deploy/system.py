"""A bare Debian 12 in a folder, entered by chroot: no systemd runs there."""

import pathlib
import re
import shutil
import subprocess

from programs import Failure

BASE = pathlib.Path(__file__).resolve().parents[2] / ".build/packages/bookworm.tar"


def run(*words, wanted=0, **options):
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, **options
    )
    if wanted is not None and done.returncode != wanted:
        raise Failure(f"{words[0]} {words[1:6]}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def leading_nowhere(texts):
    """The links of documents by their paths that lead to no file, and how many there are in all."""
    missing, count = [], 0
    for path, text in texts.items():
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if path.suffix == ".md" else []:
            if "://" not in link:
                count += 1
                if not (path.parent / link).exists():
                    missing.append(f"{path.name}: {link}")
    return missing, count


class System:
    """A copy of a system that mmdebstrap makes once, in .build/packages."""

    def __init__(self, folder):
        self.root = folder / "system"
        if not BASE.exists():
            BASE.parent.mkdir(parents=True, exist_ok=True)
            made = BASE.with_suffix(".making.tar")
            keep = "--skip=cleanup/apt/lists"
            run("mmdebstrap", "--variant=minbase", "--quiet", keep, "bookworm", made)
            made.rename(BASE)
        self.root.mkdir()
        run("tar", "-C", self.root, "-xf", BASE)
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")

    def enter(self, user=None, *before):
        """Words that run others inside, with a /proc that goes with them: Swift needs it."""
        mount = 'mount -t proc proc "$0/proc" && exec "$@"'
        chroot = ["chroot", *([f"--userspec={user}"] if user else []), str(self.root)]
        return ["unshare", "--mount", "sh", "-c", mount, str(self.root), *before, *chroot]

    def run(self, *words, user=None, wanted=0, **options):
        environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "DEBIAN_FRONTEND": "noninteractive",
        }
        return run(*self.enter(user), *words, wanted=wanted, env=environment, **options)
