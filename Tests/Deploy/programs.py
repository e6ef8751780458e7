"""Programs of a test: started, waited for, ended; and what the test says when something is wrong."""

import os
import socket
import subprocess
import time


class Failure(Exception):
    pass


def expect(value, wanted, what):
    if value != wanted:
        raise Failure(f"{what}: {value!r}, not {wanted!r}")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def replaced(text, *pairs):
    """The text with each part replaced, which it has to have exactly once."""
    for old, new in pairs:
        expect(text.count(old), 1, f"places of '{old}'")
        text = text.replace(old, new)
    return text


class Program:
    def __init__(self, words, log, environment=None):
        self.log = log
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                words,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def line_with(self, text, seconds=20):
        found = []

        def looks():
            found[:] = [line for line in self.log.read_text().splitlines() if text in line]
            return found

        wait_until(looks, self, seconds)
        return found[0]

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def wait_until(holds, program, seconds):
    """Asks until it holds; a program that ended is a failure at once."""
    last = "it does not hold"
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if program.process.poll() is not None:
            raise Failure(f"the program ended with {program.process.returncode}")
        try:
            if holds():
                return
        except Failure as failure:
            last = str(failure)
        time.sleep(0.05)
    raise Failure(f"in {seconds} s: {last}")
