# stores: fills tables directly in their files, while no server runs. Sourced by scripts/bench.
#
# Row i of each table has the same text, the same time (`fill_start` + 7 ms times i, long past), and is
# complete if i is odd, so that a filter finds the same number of rows in each server.

fill_start=1577836800000  # ms, the beginning of 2020
fill_path=/buckets/b/collections/todo

# The time of the middle row of a table with this number of rows, in a format of strftime.
middle_instant() {
    sqlite3 :memory: "SELECT strftime('$2', ($fill_start + $1 / 2 * 7) / 1000.0, 'unixepoch')"
}

# The rows i as a table of SQLite, and the text of one.
sqlite_rows() { printf 'WITH RECURSIVE r(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM r WHERE i < %s - 1)' "$1"; }
item_text="printf('item %08d abcdefghijklmnopqrstuvwxyz', i)"

# Fills a table of Tideline: file, table, rows, and further columns with their values.
# Ids are ordered by time like those of the server, unless `fill_ids` is random; versions are
# timestamps in us.
fill_tideline() {
    local file=$1 table=$2 rows=$3 columns=${4:+, $4} values=${5:+, $5} time='ms >> 16, ms & 65535'
    [[ ${fill_ids-} != random ]] || time='random() & 4294967295, random() & 65535'
    sqlite3 -bail "$file" >"$directory/fill" <<SQL
PRAGMA synchronous = OFF;
BEGIN;
$(sqlite_rows "$rows"), t(i, ms) AS (SELECT i, $fill_start + i * 7 FROM r)
INSERT INTO "$table" ("id", "text", "complete", "createdAt", "updatedAt", "version", "deleted"$columns)
SELECT printf('%08x-%04x-7%03x-%04x-%012x', $time, random() & 4095,
        32768 + (random() & 16383), random() & 281474976710655),
    $item_text, i % 2, ms * 1000, ms * 1000, ms * 1000, 0$values
FROM t;
UPDATE "tideline_tables" SET "stamp" = (SELECT max("version") FROM "$table") WHERE "name" = '$table';
COMMIT;
PRAGMA wal_checkpoint(TRUNCATE);
SQL
}

fill_pocketbase() {
    sqlite3 -bail "$1" >"$directory/fill" <<SQL
BEGIN;
$(sqlite_rows "$2"), t(i, time) AS (
    SELECT i, strftime('%Y-%m-%d %H:%M:%fZ', ($fill_start + i * 7) / 1000.0, 'unixepoch') FROM r
)
INSERT INTO "TodoItem" ("text", "complete", "created", "updated")
SELECT $item_text, i % 2, time, time FROM t;
COMMIT;
PRAGMA wal_checkpoint(TRUNCATE);
SQL
}

# The trigger would give each row the current time, so the timestamp of the collection is set by hand.
fill_kinto() {
    psql -q -v ON_ERROR_STOP=1 "$1" <<SQL
SET session_replication_role = replica;
INSERT INTO objects (id, parent_id, resource_name, last_modified, data, deleted)
SELECT gen_random_uuid()::text, '$fill_path', 'record',
    to_timestamp(($fill_start + i * 7) / 1000.0) AT TIME ZONE 'UTC',
    jsonb_build_object('text', format('item %s abcdefghijklmnopqrstuvwxyz', lpad(i::text, 8, '0')),
        'complete', i % 2 = 1),
    false
FROM generate_series(0, $2 - 1) AS i;
INSERT INTO timestamps (parent_id, resource_name, last_modified)
SELECT parent_id, resource_name, max(last_modified) FROM objects WHERE parent_id = '$fill_path'
GROUP BY parent_id, resource_name
ON CONFLICT (parent_id, resource_name) DO UPDATE SET last_modified = excluded.last_modified;
VACUUM ANALYZE;
SQL
}
