# clients: the client's pulls and pushes against a separate server. Sourced by scripts/bench.

clients_config='{"tables": {"TodoItem": {"columns": {"text": "string", "complete": "boolean"}}}}'

# Starts a server with a filled table. Arguments: name, number of rows, kind of ids (`random` or `v7`).
start_table() {
    printf '%s' "$clients_config" >"$directory/clients.json"
    start_server "$1" --config "$directory/clients.json"
    stop_server
    fill_ids=$3 fill_tideline "$directory/$1.db" TodoItem "$2"
    start_server "$1" --config "$directory/clients.json"
}

# Stops the server and removes its database.
drop_table() {
    stop_server
    rm -f "$directory/$1.db"*
}

# Measures pulls over a socket and from pages in memory, and the memory of a large pull.
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

# Measures pushes of a queue over links of 0 and 50 ms, and the memory of a large push.
measure_pushes() {
    start_server push
    client push "$url" "$directory" "$operations" 0
    client push "$url" "$directory" "$((operations / 10))" 50
    client queue "$url" "$directory" "$((operations * 10))"
    drop_table push
}

# Measures the time from a change of one client until another client's observer gets it.
measure_live_clients() {
    start_server heard
    client heard "$url" "$directory" "$((seconds * 20))"
    drop_table heard
}
