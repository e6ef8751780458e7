# live: callers of /$events in a separate process. Sourced by scripts/bench.
#
# Reads `bench`, `url`, `directory` and `idle`, the memory of the server without listeners.

# Measures a number of listeners: their memory while nothing happens, then how soon after a write each
# has its event. A second argument names another server, which the write is sent to.
measure_live() {
    local listeners=$1 line
    mkfifo "$directory/go"
    coproc LIVE { "$bench" live "$url" "$listeners" 50 ${2:+"$2"} <"$directory/go"; }
    exec 4>"$directory/go"
    read -r line <&"${LIVE[0]}"
    [[ $line == open ]] || fail "the listeners failed: $line"
    sleep 1
    printf '%s idle listeners: %s MB PSS, %s MB without\n' "$listeners" "$(server_memory)" "$idle"
    printf 'go\n' >&4
    exec 4>&-
    while IFS=$'\t' read -r name value unit; do
        printf '%-34s %9.1f ms\n' "$name" "$(awk -v v="$value" 'BEGIN { print v / 1000 }')"
    done <&"${LIVE[0]}"
    rm "$directory/go"
}
