# owners: W2c, the pull page of W2b for a table in which each of 10,000 users sees only 100
# rows of their own. Sourced by scripts/bench.
#
# The rows of a user are next to each other in the index that begins with the owner, but far from
# each other in the table: those of 100 users in turn are too many for SQLite's own cache.

owner_count=10000
owner_rows=100

measure_owners() {
    local rows=$((owner_count * owner_rows)) user page
    if ! "$tideline" --help | grep -q 'tideline token'; then
        printf 'W2c is skipped: this server has no owner columns\n'
        return
    fi
    od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$directory/secret"
    cat >"$directory/owners.json" <<'JSON'
{
    "authentication": {"secretFile": "secret"},
    "tables": {
        "TodoItem": {
            "columns": {"text": "string", "complete": "boolean", "userId": "string"},
            "owner": "userId"
        }
    }
}
JSON
    start_server owners --config "$directory/owners.json"
    stop_server
    fill_tideline "$directory/owners.db" TodoItem "$rows" '"userId"' "'user-' || (i % $owner_count)"
    for ((user = 0; user < owner_count; user += owner_count / 100)); do
        "$tideline" token --config "$directory/owners.json" --subject "user-$user"
    done >"$directory/tokens"
    start_server owners --config "$directory/owners.json"
    page=$(pull_page "$(middle_instant $((rows / 2)) %Y-%m-%dT%H:%M:%fZ)")
    head -n 1 "$directory/tokens" >"$directory/token"
    header
    TOKENS=$directory/token load 'W2c W2b of one of 10,000 owners' get.lua "$page"
    TOKENS=$directory/tokens load 'W2c 100 of them in turn' get.lua "$page"
    stop_server
    rm -f "$directory/owners.db"*
}
