# clients: the client's pulls and pushes against a server of their own. Sourced by scripts/bench.

clients_config='{"tables": {"TodoItem": {"columns": {"text": "string", "complete": "boolean"}}}}'

# Starts a server whose table has so many rows with such ids: name, rows, `random` or `v7`.
start_table() {
    printf '%s' "$clients_config" >"$directory/clients.json"
    start_server "$1" --config "$directory/clients.json"
    stop_server
    fill_ids=$3 fill_tideline "$directory/$1.db" TodoItem "$2"
    start_server "$1" --config "$directory/clients.json"
}

# Ends the server and removes its database.
drop_table() {
    stop_server
    rm -f "$directory/$1.db"*
}

# Pulls over a socket and from pages in memory, and the memory of a large one.
measure_pulls() {
    local ids before
    for ids in random v7; do
        start_table pull "$rows" "$ids"
        before=$(server_ticks)
        client pull "$url" "$directory" "$ids"
        figure_line "pull, $ids ids: server" \
            "$(awk -v used=$(($(server_ticks) - before)) -v ticks="$ticks" -v rows=$((rows * runs)) \
                'BEGIN { print used / ticks * 1e6 / rows }')" us/row
        drop_table pull
        client store "$directory" "$rows" "$ids"
    done
    start_table pull "$rows_max" v7
    client memory "$url" "$directory"
    drop_table pull
}

# A queue over a link of no and of 50 ms, and the memory of a large one.
measure_pushes() {
    start_server push
    client push "$url" "$directory" "$operations" 0
    client push "$url" "$directory" "$((operations / 10))" 50
    client queue "$url" "$directory" "$((operations * 10))"
    drop_table push
}

# A change of one client until another one's observer has it.
measure_live_clients() {
    start_server heard
    client heard "$url" "$directory" "$((seconds * 20))"
    drop_table heard
}
