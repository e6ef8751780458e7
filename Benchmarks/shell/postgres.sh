# postgres: the workloads of wrk and a full pull on PostgreSQL, with one server process and with two on
# one database, beside pgbench's commits of single rows in the same run. Sourced by scripts/bench.
#
# PostgreSQL flushes each commit, as it does by default. Two servers share the connections of wrk: each
# has half of them, from a wrk of its own.

postgres_servers=()  # the addresses of the servers

postgres_address() { printf 'postgres://postgres@/bench?host=%s' "$directory/pg"; }

# Leaves PostgreSQL as the last of `servers`.
begin_postgres() {
    local try
    mkdir "$directory/pg"
    if [[ $(id -u) == 0 ]]; then
        # The other user has to get to its own directory.
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

# Starts so many servers; PostgreSQL stays the last of `servers`.
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

# Ends the servers before PostgreSQL.
end_servers() {
    local server
    for server in "${servers[@]:0:${#postgres_servers[@]}}"; do
        kill -TERM "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    done
    servers=("${servers[@]:${#postgres_servers[@]}}")
}

# One run on all servers together: a line of figures as `measure` has it; rates are summed, the worst
# of the latencies counts. Figures, script, path.
measure_servers() {
    local figures=$1 script=$2 path=$3 number loaders=() before_server before_busy after_server after_busy
    local count=${#postgres_servers[@]} share
    share=$(((connections + count - 1) / count))
    before_server=$(server_ticks)
    before_busy=$(busy_ticks)
    for ((number = 0; number < count; number++)); do
        wrk -t1 "-c$share" "-d${seconds}s" --timeout 30s -s "$WRK_SCRIPTS/$script" \
            "${postgres_servers[number]}$path" >"$directory/wrk-$number" &
        loaders+=($!)
    done
    wait "${loaders[@]}" || true
    after_busy=$(busy_ticks)
    after_server=$(server_ticks)
    for ((number = 0; number < count; number++)); do
        grep -q '^RESULT [1-9]' "$directory/wrk-$number" || fail "no answers: $(cat "$directory/wrk-$number")"
    done
    cat "$directory"/wrk-? | awk -v server=$((after_server - before_server)) \
        -v busy=$((after_busy - before_busy)) -v ticks="$ticks" -v pss="$(server_memory)" '
        /^RESULT/ {
            all += $2; rate += ($2 - $6) / ($3 / 1e6); bad += $6 + $7
            if ($4 > p50) p50 = $4
            if ($5 > p99) p99 = $5
        }
        END { print rate, p50 / 1e3, p99 / 1e3, bad, server / ticks * 1e6 / all, pss, 0 }' >>"$figures"
    rm -f "$directory"/wrk-?
}

# Title, script, path, and what makes a run ready.
load_servers() {
    local title=$1 run column figures=()
    : >"$directory/figures"
    for ((run = 0; run < runs; run++)); do
        ${4:+"$4"}
        measure_servers "$directory/figures" "$2" "$3"
    done
    for column in 1 2 3 4 5 6; do figures+=("$(figure "$directory/figures" "$column")"); done
    printf '%-34s %9.0f %8.2f %8.2f %8.0f %9.1f %8.1f\n' "$title" "${figures[@]}"
}

# pgbench's single rows into a table with the same columns and index, and into the table itself, whose
# triggers stamp them.
measure_pgbench() {
    local table rate run
    psql -q "$(postgres_address)" <<'SQL'
CREATE TABLE raw (LIKE "TodoItem" INCLUDING DEFAULTS);
ALTER TABLE raw ADD PRIMARY KEY ("id");
CREATE INDEX ON raw ("updatedAt", "id");
SQL
    for table in raw TodoItem; do
        printf 'INSERT INTO "%s" ("id", "text", "complete") VALUES (%s, %s, TRUE);\n' "$table" \
            'gen_random_uuid()::text' "'item 00000000 abcdefghijklmnopqrstuvwxyz'" >"$directory/pgbench.sql"
        : >"$directory/figures"
        for ((run = 0; run < runs; run++)); do
            "$postgres/pgbench" -n -M prepared -c "$connections" -j 1 -T "$seconds" -h "$directory/pg" \
                -U postgres -f "$directory/pgbench.sql" bench 2>/dev/null |
                sed -n 's/^tps = \([0-9.]*\).*/\1/p' >>"$directory/figures"
        done
        rate=$(figure "$directory/figures" 1)
        printf '%-34s %9.0f\n' "pgbench, one row a commit, $table" "$rate"
    done
}

measure_postgres() {
    local postgres count table link middle
    if ! command -v psql >/dev/null || ! find_postgres; then
        printf '\npostgres is left out: PostgreSQL is not installed; type: apt-get install postgresql\n'
        return
    fi
    table=/tables/TodoItem
    begin_postgres
    begin_servers 1
    psql -q "$(postgres_address)" -c "INSERT INTO \"TodoItem\" (\"id\", \"text\", \"complete\")
        SELECT gen_random_uuid()::text, 'item ' || n, n % 2 = 0 FROM generate_series(1, $rows) AS n"
    psql -q "$(postgres_address)" -c 'VACUUM ANALYZE'
    end_servers
    for count in 1 2; do
        begin_servers "$count"
        printf '\nPostgreSQL %s, %s server%s; CPU and memory with PostgreSQL\n' \
            "$(psql -Atc 'SHOW server_version' "$(postgres_address)" | cut -d' ' -f1)" \
            "$count" "$([[ $count == 1 ]] || printf s)"
        printf '%-34s %9s %8s %8s %8s %9s %8s\n' '' requests/s 'p50 ms' 'p99 ms' non-2xx 'CPU us' 'PSS MB'
        middle=$(pull_page "$("$bench" middle "$url")")
        load_servers "W2 list 50 of $rows, filtered" get.lua \
            "$table?\$filter=(complete%20eq%20false)&\$top=50"
        load_servers 'W2b pull page of 50, mid-table' get.lua "${middle#"$url"}"
        IFS=$'\t' read -r link _ < <("$bench" delta "$url")
        PAGE=50 load_servers 'delta with nothing new' get.lua "$table?$link"
        client pages "$url"
        load_servers 'W1 create' create.lua "$table"
        connections=$count load_servers 'batch of 1000 creates' batch.lua "/\$batch"
        if [[ $count == 1 ]]; then
            # Two would take the same rows.
            fill_pool() { "$bench" tags "$url" "$((rows < 10000 ? rows : 10000))" >"$directory/pool"; }
            POOL=$directory/pool load_servers 'W4 update with If-Match' update.lua '' fill_pool
        fi
        end_servers
    done
    measure_pgbench
    stop_server
    rm -rf "$directory/pg"
}
