# postgres: the workloads of wrk and a full pull on PostgreSQL, with one server process and with two on
# one database, compared with pgbench's commits of single rows, the same reads on SQLite, and Kinto in the same run.
# Sourced by scripts/bench.
#
# PostgreSQL flushes each commit, as it does by default. Two servers share the connections of wrk: each
# has half of them, from a wrk of its own.

postgres_servers=()  # the addresses of the servers

postgres_address() { printf 'postgres://postgres@/bench?host=%s' "$directory/pg"; }

# Starts PostgreSQL and makes it the last of `servers`.
begin_postgres() {
    local try
    mkdir "$directory/pg"
    if [[ $(id -u) == 0 ]]; then
        # The other user needs access to its own directory.
        chmod 711 "$directory"
        chown postgres "$directory/pg"
    fi
    (cd / && as_postgres "$postgres/initdb" -D "$directory/pg/data" -A trust -U postgres \
        --locale=C.UTF-8 -E UTF8) >"$directory/initdb" 2>&1 ||
        fail "initdb failed: $(cat "$directory/initdb")"
    as_postgres "$postgres/postgres" -D "$directory/pg/data" -k "$directory/pg" -c listen_addresses= \
        -c shared_buffers=512MB -c max_wal_size=4GB >"$directory/postgres.log" 2>&1 &
    servers=($!)
    for ((try = 0; try < 100; try++)); do
        "$postgres/pg_isready" -q -h "$directory/pg" && break
        sleep 0.1
    done
    "$postgres/createdb" -h "$directory/pg" -U postgres bench
}

# Starts a number of servers; PostgreSQL stays the last of `servers`.
begin_servers() {
    local number address try log
    postgres_servers=()
    for ((number = 0; number < $1; number++)); do
        log=$directory/postgres-$number.log
        : >"$log"
        "$tideline" serve --database "$(postgres_address)" --listen 127.0.0.1:0 >"$log" 2>&1 &
        servers=($! "${servers[@]}")
        address=
        for ((try = 0; try < 100; try++)); do
            address=$(sed -n 's/^listening on //p' "$log")
            [[ -n $address ]] && break
            sleep 0.1
        done
        [[ -n $address ]] || fail "the server did not start: $(cat "$log")"
        postgres_servers+=("$address")
    done
    url=${postgres_servers[0]}
}

# Stops the servers before PostgreSQL.
end_servers() {
    local server
    for server in "${servers[@]:0:${#postgres_servers[@]}}"; do
        kill -TERM "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    done
    servers=("${servers[@]:${#postgres_servers[@]}}")
}

# The clock ticks of the servers without PostgreSQL.
own_ticks() {
    local servers=("${servers[@]:0:${#postgres_servers[@]}}")
    server_ticks
}

# Measures all servers together: appends a line of figures like `measure`, with the sum of rates and the worst
# latency. Arguments: figures, script, path.
measure_servers() {
    local figures=$1 script=$2 path=$3 number loaders=() before_server after_server
    local count=${#postgres_servers[@]} share before_own after_own
    share=$(((connections + count - 1) / count))
    before_server=$(server_ticks)
    before_own=$(own_ticks)
    for ((number = 0; number < count; number++)); do
        # Each server has its own rows to change.
        SHARE=$number POOL=${POOL:+$POOL-$number} wrk -t1 "-c$share" "-d${seconds}s" --timeout 30s -s "$WRK_SCRIPTS/$script" \
            "${postgres_servers[number]}$path" >"$directory/wrk-$number" &
        loaders+=($!)
    done
    wait "${loaders[@]}" || true
    after_server=$(server_ticks)
    after_own=$(own_ticks)
    for ((number = 0; number < count; number++)); do
        grep -q '^RESULT [1-9]' "$directory/wrk-$number" || fail "no answers: $(cat "$directory/wrk-$number")"
    done
    cat "$directory"/wrk-? | awk -v server=$((after_server - before_server)) \
        -v own=$((after_own - before_own)) -v ticks="$ticks" -v pss="$(server_memory)" '
        /^RESULT/ {
            all += $2; rate += ($2 - $6) / ($3 / 1e6); bad += $6 + $7
            if ($4 > p50) p50 = $4
            if ($5 > p99) p99 = $5
        }
        END {
            print rate, p50 / 1e3, p99 / 1e3, bad, own / ticks * 1e6 / all, server / ticks * 1e6 / all, pss
        }' >>"$figures"
    rm -f "$directory"/wrk-?
}

# Arguments: title, script, path, and a command that prepares a run.
load_servers() {
    local title=$1 run column figures=()
    : >"$directory/figures"
    for ((run = 0; run < runs; run++)); do
        ${4:+"$4"}
        measure_servers "$directory/figures" "$2" "$3"
    done
    for column in 1 2 3 4 5 6 7; do figures+=("$(figure "$directory/figures" "$column")"); done
    printf '%-34s %9.0f %8.2f %8.2f %8.0f %9.1f %9.1f %8.1f\n' "$title" "${figures[@]}"
    rate=${figures[0]} own_cost=${figures[4]} cost=${figures[5]}
}

# Prints a figure as a multiple of another one: title, figure, name of the other figure, other figure.
ratio_line() {
    awk -v title="$1" -v figure="$2" -v what="$3" -v other="$4" \
        'BEGIN { if (other > 0) printf "%-34s %9.2f times %s\n", title, figure / other, what }'
}

# Measures the reads on SQLite and sets `sqlite_list` and `sqlite_page`.
measure_sqlite_reads() {
    start_server beside
    stop_server
    fill_tideline "$directory/beside.db" TodoItem "$rows"
    start_server beside
    header
    load "SQLite: W2 list 50 of $rows" get.lua \
        "$url/tables/TodoItem?\$filter=(complete%20eq%20false)&\$top=50"
    sqlite_list=$(figure "$directory/figures" 5)
    load 'SQLite: W2b pull page of 50' get.lua "$(pull_page "$("$bench" middle "$url")")"
    sqlite_page=$(figure "$directory/figures" 5)
    stop_server
    rm -f "$directory"/beside.db*
}

# pgbench's single rows into tables: `raw` with the same columns and indexes, and the table itself, whose
# triggers set their timestamps. Sets `raw_rate` to the last rate.
measure_pgbench() {
    local table run
    for table; do
        printf 'INSERT INTO "%s" ("id", "text", "complete") VALUES (%s, %s, TRUE);\n' "$table" \
            'gen_random_uuid()::text' "'item 00000000 abcdefghijklmnopqrstuvwxyz'" >"$directory/pgbench.sql"
        : >"$directory/figures"
        for ((run = 0; run < runs; run++)); do
            "$postgres/pgbench" -n -M prepared -c "$connections" -j 1 -T "$seconds" -h "$directory/pg" \
                -U postgres -f "$directory/pgbench.sql" bench 2>/dev/null |
                sed -n 's/^tps = \([0-9.]*\).*/\1/p' >>"$directory/figures"
        done
        raw_rate=$(figure "$directory/figures" 1)
        printf '%-34s %9.0f\n' "pgbench, one row a commit, $table" "$raw_rate"
    done
}

# Divides the first rows among the servers' files of rows to change.
fill_pool() {
    local number count=${#postgres_servers[@]}
    "$bench" tags "$url" "$((rows < 10000 ? rows : 10000))" >"$directory/pool"
    for ((number = 0; number < count; number++)); do
        awk -v count="$count" -v number="$number" 'NR % count == number' "$directory/pool" \
            >"$directory/pool-$number"
    done
}

# Prints the servers' cost for each row of a batch, from the last line of `load_servers`.
row_line() {
    awk -v title="$1" -v cost="$own_cost" 'BEGIN { printf "%-34s %9.1f us of a server\n", title, cost / 1000 }'
}

# Measures one transaction of an external writer with many rows: the time of its INSERT and its COMMIT, and
# the time from then until a device's delta has the first page of them.
measure_foreign() {
    local count=$1 link start times
    IFS=$'\t' read -r link _ < <("$bench" delta "$url")
    times=$(psql -q "$(postgres_address)" <<SQL | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tr '\n' ' '
\\timing on
BEGIN;
INSERT INTO "TodoItem" ("id", "text", "complete")
SELECT gen_random_uuid()::text, 'item ' || lpad(n::text, 8, '0') || ' abcdefghijklmnopqrstuvwxyz', n % 2 = 0
FROM generate_series(1, $count) AS n;
COMMIT;
SQL
    )
    start=$EPOCHREALTIME
    http GET "$url" "/tables/TodoItem?$link" >"$directory/foreign"
    grep -q '"items":\[{' "$directory/foreign" || fail "no changes: $(head -c 500 "$directory/foreign")"
    awk -v count="$count" -v times="$times" -v start="$start" -v end="$EPOCHREALTIME" 'BEGIN {
        split(times, t, " ")
        printf "%-34s %9.0f ms, COMMIT %.0f ms\n", count " rows by psql, INSERT", t[2], t[3]
        printf "%-34s %9.0f ms\n", "their first page in a delta", (end - start) * 1000
    }'
}

# Measures Kinto on its own PostgreSQL with the same work, and prints Tideline's rates of one server next to it.
measure_kinto() {
    local kinto_database created list changes pool_rows=$((rows < 10000 ? rows : 10000)) name
    local -A theirs=()
    if ! { install_venv && install_kinto; }; then
        printf '\nKinto is skipped: %s\n' "$reason"
        return
    fi
    printf 'filling the table of Kinto\n' >&2
    prepare_kinto
    start_kinto
    workloads_kinto
    export WRAP=1
    header
    load 'Kinto: W2 list 50, filtered' get.lua "$list"
    theirs[W2]=$(figure "$directory/figures" 1)
    load 'Kinto: W2b pull page of 50' get.lua "$changes"
    theirs[W2b]=$(figure "$directory/figures" 1)
    load 'Kinto: W1 create' create.lua "$created"
    theirs[W1]=$(figure "$directory/figures" 1)
    POOL=$directory/pool load 'Kinto: W4 update with If-Match' update.lua "$url"
    theirs[W4]=$(figure "$directory/figures" 1)
    unset WRAP
    stop_server
    for name in W1 W2 W2b W4; do
        ratio_line "$name, requests a second" "${single[$name]}" "Kinto's" "${theirs[$name]}"
    done
    rm -rf "$directory/kinto"
}

measure_postgres() {
    local postgres count table link middle rate cost own_cost raw_rate sqlite_list sqlite_page idle
    # The rates of one server.
    local -A single=()
    if ! command -v psql >/dev/null || ! find_postgres; then
        printf '\npostgres is skipped: PostgreSQL is not installed; run: apt-get install postgresql\n'
        return
    fi
    table=/tables/TodoItem
    measure_sqlite_reads
    begin_postgres
    begin_servers 1
    psql -q "$(postgres_address)" <<SQL
INSERT INTO "TodoItem" ("id", "text", "complete")
SELECT gen_random_uuid()::text, 'item ' || lpad(n::text, 8, '0') || ' abcdefghijklmnopqrstuvwxyz', n % 2 = 0
FROM generate_series(1, $rows) AS n;
CREATE TABLE raw (LIKE "TodoItem" INCLUDING DEFAULTS);
ALTER TABLE raw ADD PRIMARY KEY ("id");
CREATE INDEX ON raw ("updatedAt", "id");
VACUUM ANALYZE;
SQL
    end_servers
    for count in 1 2; do
        begin_servers "$count"
        printf '\nPostgreSQL %s, %s server%s; load %s; all and memory with PostgreSQL\n' \
            "$(psql -Atc 'SHOW server_version' "$(postgres_address)" | cut -d' ' -f1)" \
            "$count" "$([[ $count == 1 ]] || printf s)" "$(cut -d' ' -f1-3 /proc/loadavg)"
        printf '%-34s %9s %8s %8s %8s %9s %9s %8s\n' '' requests/s 'p50 ms' 'p99 ms' non-2xx \
            'CPU us' 'all us' 'PSS MB'
        middle=$(pull_page "$("$bench" middle "$url")")
        load_servers "W2 list 50 of $rows, filtered" get.lua \
            "$table?\$filter=(complete%20eq%20false)&\$top=50"
        [[ $count != 1 ]] || single[W2]=$rate
        ratio_line 'W2, processor time' "$cost" "that on SQLite" "$sqlite_list"
        load_servers 'W2b pull page of 50, mid-table' get.lua "${middle#"$url"}"
        [[ $count != 1 ]] || single[W2b]=$rate
        ratio_line 'W2b, processor time' "$cost" "that on SQLite" "$sqlite_page"
        IFS=$'\t' read -r link _ < <("$bench" delta "$url")
        PAGE=50 load_servers 'delta with nothing new' get.lua "$table?$link"
        client pages "$url"
        measure_pgbench raw
        load_servers 'W1 create' create.lua "$table"
        [[ $count != 1 ]] || single[W1]=$rate
        ratio_line 'W1' "$rate" "pgbench's single rows" "$raw_rate"
        NAMED=1 load_servers 'W1 with Repeatability-Request-ID' create.lua "$table"
        connections=$count load_servers 'batch of 1000 creates' batch.lua "/\$batch"
        row_line 'batch, a row'
        NAMED=1 connections=$count load_servers 'batch of 1000 with names' batch.lua "/\$batch"
        row_line 'batch with names, a row'
        GROUP=1 connections=$count load_servers 'group of 1000 creates' batch.lua "/\$batch"
        row_line 'group, a row'
        POOL=$directory/pool load_servers 'W4 update with If-Match' update.lua '' fill_pool
        [[ $count != 1 ]] || single[W4]=$rate
        idle=$(server_memory)
        measure_live 1000 "${postgres_servers[1]-}"
        [[ $count == 1 ]] || measure_foreign 100000
        end_servers
    done
    measure_pgbench raw TodoItem
    stop_server
    rm -rf "$directory/pg"
    measure_kinto
}
