# depth: the cost of a page by its depth and by the size of the table, for filters that an index
# serves. Sourced by scripts/bench.
#
# A page is requested repeatedly by the next link that leads to it. Processor time is the
# figure that counts, because it measures the work of one page.

depth_sizes=(10000 100000 1000000)
# Two seconds of one core are 200 clock ticks, so the processor time is exact to one percent.
depth_seconds() { echo $((seconds < 5 ? 1 : seconds / 5)); }

# The two queries: one uses the index that each table has, the other one an index of the configuration.
depth_queries=(
    "\$filter=(updatedAt%20ge%202000-01-01T00:00:00.000Z)&\$orderby=updatedAt&__includeDeleted=true"
    "\$filter=(complete%20eq%20false)"
)
depth_titles=('pull, updatedAt ge' 'indexed, complete eq false')

measure_depth() {
    local seconds=$1 size query place link run cell
    printf '{"tables": {"TodoItem": {"columns": {"text": "string", "complete": "boolean"}, "indexes": [["complete"]]}}}' \
        >"$directory/depth.json"
    printf '\n%-28s %9s %18s %18s %18s\n' 'page of 50, us CPU, 2xx/s' rows begin middle end
    for size in "${depth_sizes[@]}"; do
        ((size <= rows_max)) || continue
        start_server "depth-$size" --config "$directory/depth.json"
        stop_server
        fill_tideline "$directory/depth-$size.db" TodoItem "$size"
        start_server "depth-$size" --config "$directory/depth.json"
        for query in 0 1; do
            printf '%-28s %9d' "${depth_titles[query]}" "$size"
            "$bench" links "$url" "${depth_queries[query]}" >"$directory/links"
            while IFS=$'\t' read -r place link; do
                cell=$directory/depth-$query-$size-$place
                for ((run = 0; run < runs; run++)); do
                    PAGE=50 measure "$cell" get.lua "$url/tables/TodoItem?$link"
                done
                printf ' %8.1f %9.0f' "$(figure "$cell" 5)" "$(figure "$cell" 1)"
            done <"$directory/links"
            printf '\n'
        done
        stop_server
        rm -f "$directory/depth-$size.db"*
    done
    print_depth_ratios
}

# Prints the ratio of the most expensive page to the cheapest one.
print_depth_ratios() {
    local query cell
    for query in 0 1; do
        for cell in "$directory/depth-$query-"*; do
            figure "$cell" 5
        done | sort -n | awk -v title="${depth_titles[query]}" '
            { last = $1; if (NR == 1) first = $1 }
            END { printf "%s: the most expensive page costs %.2f times the cheapest\n", title, last / first }'
    done
}
