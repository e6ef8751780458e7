"""Two servers on one PostgreSQL, and everything is killed at random while devices and psql write and devices pull.

    python3 Tests/Chaos/chaos.py BINARY [--seed N] [--seconds N] [--required]

Four times, without and with an owner column, without and with PgBouncer. Servers are killed and
stopped for a while, PostgreSQL and PgBouncer crash, sessions are cut off. Exits 0 when no acknowledged write is lost or
done twice, no row goes back, and each puller has what there is; 0 with the reason where PostgreSQL or PgBouncer is not
installed (1 with --required). The seed says what is done when; how it meets is up to the machine.
"""

import argparse
import random
import shutil
import sys
import time

from callers import ClassicPuller, DeltaPuller, ForeignWriter, Record, Writer
from place import Place, reason_to_skip

WRITERS = 8
FOREIGN_WRITERS = 3


def kill(place, record, chance, seconds):
    """One misfortune after the other."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(chance.random() * 4)
        server = chance.randrange(2)
        what = chance.choices(
            ["a server is killed", "a server stands still", "PostgreSQL crashes", "sessions are cut off", "PgBouncer dies"],
            [9, 2, 3, 2, 2 if place.pooler else 0],
        )[0]
        record.count(what)
        if what == "a server is killed":
            place.servers[server].kill()
        elif what == "a server stands still":
            place.stop_and_continue(server, chance.random() * 3)
        elif what == "PostgreSQL crashes":
            place.crash(chance.random() * 1.5)
        elif what == "sessions are cut off":
            others = "pg_stat_activity WHERE datname = 'app' AND pid <> pg_backend_pid() AND random() < 0.5"
            place.query(f"SELECT pg_terminate_backend(pid) FROM {others}")
        else:
            place.kill_pooler(chance.random())


def compare(record, what, expected, found):
    """Rows by id, their n, None when deleted. A deleted row may be absent."""
    for key in expected.keys() | found.keys():
        if expected.get(key) != found.get(key):
            record.fault(what, "has", key, "as", found.get(key), "and it is", expected.get(key))


def run(binary, has_owner, with_pooler, seed, seconds):
    """What was lost or wrong, in words."""
    place, record = Place(binary, has_owner, with_pooler), Record()
    users = ["ann", "bob", "cid"] if has_owner else ["ann"]
    writers = [Writer(one, place, record, users[one % len(users)], f"{seed} {one}") for one in range(WRITERS)]
    foreign = [
        ForeignWriter(one, has_owner, place, record, users[one % len(users)], f"{seed} psql {one}")
        for one in range(FOREIGN_WRITERS)
    ]
    pullers = [
        kind(place, record, user, f"{seed} {kind.__name__} {user}")
        for user in users
        for kind in (DeltaPuller, ClassicPuller)
    ]
    for caller in writers + foreign + pullers:
        caller.start()
    kill(place, record, random.Random(seed), seconds)
    record.is_over.set()
    for caller in writers + foreign:
        caller.join(180)
    for puller in pullers:
        puller.is_last.set()
    for puller in pullers:
        puller.join(60)
    for caller in writers + foreign + pullers:
        if caller.is_alive():
            record.fault(type(caller).__name__, "waits still")

    owner = "owner" if has_owner else "'ann'"
    table = {user: {} for user in users}
    for line in place.query(f'SELECT id, CASE WHEN NOT deleted THEN n END, {owner} FROM "Item"').splitlines():
        key, n, user = line.split("|")
        table[user][key] = int(n) if n else None
    for writer in writers:
        compare(
            record,
            "the table",
            {key: row[0] for key, row in writer.rows.items()},
            {key: n for key, n in table[writer.user].items() if key.startswith(f"writer{writer.number}-")},
        )
    for writer in foreign:
        compare(record, "the table", writer.rows, {key: table[writer.user].get(key) for key in writer.rows})
    for puller in pullers:
        compare(record, type(puller).__name__, table[puller.user], puller.rows)
    codes = place.end()
    if any(code != 0 for code in codes):
        record.fault("the servers ended with", codes)
    counts = ", ".join(f"{name}: {count}" for name, count in sorted(record.counts.items()))
    verdict = "FAIL" if record.faults else "ok  "
    print(f"{verdict} {'owner column' if has_owner else 'no owner column'}, {'PgBouncer' if with_pooler else 'no pooler'}, seed {seed}, {seconds} s")
    print(f"     {sum(len(rows) for rows in table.values())} rows; {counts}; servers started again: {place.starts}")
    for fault in record.faults[:20]:
        print(f"     {fault}")
    if record.faults:
        print(f"     logs and database are in {place.directory}")
    else:
        shutil.rmtree(place.directory)
    sys.stdout.flush()
    return record.faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=30, help="of each of the four")
    parser.add_argument("--required", action="store_true")
    options = parser.parse_args()
    reason = reason_to_skip(with_pooler=True)
    if reason:
        print(f"chaos: skipped: {reason}")
        return 1 if options.required else 0
    faults = []
    for with_pooler in (False, True):
        for has_owner in (False, True):
            faults += run(options.binary, has_owner, with_pooler, options.seed, options.seconds)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
