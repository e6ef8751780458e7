# measure: measures a running server while wrk sends requests to it. Sourced by scripts/bench.
#
# Reads `directory`, `seconds`, `runs`, `connections` and `servers`. The child processes of the
# servers count as theirs.

median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

# The servers and all their descendants, one process per line.
server_processes() {
    ps -e -o pid=,ppid= | awk -v roots="${servers[*]}" '
        { children[$2] = children[$2] " " $1 }
        END {
            count = split(roots, queue)
            for (place = 1; place <= count; place++) {
                print queue[place]
                more = split(children[queue[place]], found)
                for (i = 1; i <= more; i++) queue[++count] = found[i]
            }
        }'
}

# The files with this name of all server processes; a process may end in the meantime.
server_files() { server_processes | sed "s|.*|/proc/&/$1|" | xargs cat 2>/dev/null || true; }

# Proportional memory of the servers in MB.
server_memory() { server_files smaps_rollup | awk '/^Pss:/ { sum += $2 } END { printf "%.1f", sum / 1024 }'; }

# The clock ticks that the servers used, and the busy ticks of the whole machine.
server_ticks() { server_files stat | awk '{ sub(/.*\) /, ""); sum += $12 + $13 } END { print sum + 0 }'; }
busy_ticks() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 + $9; exit }' /proc/stat; }
ticks=$(getconf CLK_TCK)

# Runs wrk once. Appends a line to the file FIGURES: good answers per second, p50 and p99 in ms,
# other answers, processor time of the servers for each request in us, their memory in MB, and the
# share of the machine in % that neither they nor wrk used.
measure() {
    local figures=$1 script=$2 address=$3 before_server before_busy after_server after_busy wrk
    before_server=$(server_ticks)
    before_busy=$(busy_ticks)
    TIMEFORMAT='WRK %U %S'
    # In the background and waited for, so that a signal ends the run at once.
    { time {
        wrk -t1 "-c$connections" "-d${seconds}s" --timeout 30s \
            -s "$WRK_SCRIPTS/$script" "$address" >"$directory/wrk" &
        loader=$!
        wait "$loader" || true
    }; } 2>"$directory/time"
    loader=
    after_busy=$(busy_ticks)
    after_server=$(server_ticks)
    grep -q '^RESULT [1-9]' "$directory/wrk" || fail "no answers: $(cat "$directory/wrk" "$directory/time")"
    wrk=$(awk '/^WRK/ { print $2 + $3 }' "$directory/time")
    awk -v server=$((after_server - before_server)) -v busy=$((after_busy - before_busy)) \
        -v ticks="$ticks" -v wrk="$wrk" -v cores="$(nproc)" -v pss="$(server_memory)" '
        /^RESULT/ {
            duration = $3 / 1e6
            print ($2 - $6) / duration, $4 / 1e3, $5 / 1e3, $6 + $7, server / ticks * 1e6 / $2, pss,
                (busy / ticks - server / ticks - wrk) / duration / cores * 100
        }' "$directory/wrk" >>"$figures"
}

# The median of a column of a file of figures.
figure() { awk -v column="$2" '{ print $column }' "$1" | median; }

header() {
    printf '\n%-34s %9s %8s %8s %8s %9s %8s %6s\n' \
        server requests/s 'p50 ms' 'p99 ms' non-2xx 'CPU us' 'PSS MB' other
}

# Runs wrk several times and prints the medians of one workload: title, script, address.
load() {
    local title=$1 run column figures=()
    : >"$directory/figures"
    for ((run = 0; run < runs; run++)); do
        # A fourth argument is a command that prepares the data that a run uses up.
        ${4:+"$4"}
        measure "$directory/figures" "$2" "$3"
    done
    for column in 1 2 3 4 5 6 7; do figures+=("$(figure "$directory/figures" "$column")"); done
    printf '%-34s %9.0f %8.2f %8.2f %8.0f %9.1f %8.1f %5.0f%%\n' "$title" "${figures[@]}"
}

# Sends one HTTP request without wrk: method, address, path, and a JSON body. Prints the answer.
http() {
    local host=${2#http://} body=${4-}
    exec 3<>"/dev/tcp/${host%:*}/${host#*:}" || return 1
    printf '%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %s\r\n%s\r\n%s' \
        "$1" "$3" "$host" "${#body}" "${body:+Content-Type: application/json$'\r\n'}" "$body" >&3
    cat <&3
    exec 3<&-
}
