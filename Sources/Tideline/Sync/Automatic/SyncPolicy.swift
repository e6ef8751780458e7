// SyncPolicy: the settings of automatic sync.

public import TidelineCore

/// A policy for when automatic sync runs and which rows it pulls.
///
/// ```swift
/// var policy = SyncPolicy()
/// policy.pull(TodoItem.self, queryID: "open", try Query(where: { !$0.complete }))
/// try client.startSyncing(policy)
/// ```
public struct SyncPolicy: Sendable {
    /// How long the client collects local changes before it sends them.
    public var debounce: Duration = .milliseconds(300)

    /// How often the client syncs everything even if nothing has happened, at most once per second;
    /// nil for never.
    public var interval: Duration? = .seconds(300)

    /// Whether the client listens to the server's event stream.
    ///
    /// If the server has no event stream, its tables are pulled at each ``interval``.
    public var isLive = true

    /// The first delay after a failure, which doubles with each further failure.
    public var retryFirst: Duration = .seconds(1)

    /// The longest delay after a failure.
    public var retryMax: Duration = .seconds(60)

    /// A query that is pulled.
    package struct Pull: Sendable, Hashable {
        package var table: String
        package var queryID: String
        package var query: TableQuery

        package init(table: String, queryID: String, query: TableQuery) {
            self.table = table
            self.queryID = queryID
            self.query = query
        }
    }

    package private(set) var pulls: [Pull] = []

    /// Creates a policy that pulls complete tables, unless queries are added.
    public init() {}

    /// Adds a query; once a query is added, tables without a query are not pulled.
    public mutating func pull<Record: SyncRecord>(
        _ type: Record.Type,
        queryID: String,
        _ query: Query<Record> = Query()
    ) {
        pulls.append(Pull(table: Record.tableName, queryID: queryID, query: query.table))
    }

    /// Adds a query of a table that has no record type.
    public mutating func pull(table: String, queryID: String, _ query: Query<Row> = Query()) {
        pulls.append(Pull(table: table, queryID: queryID, query: query.table))
    }

    /// Returns the added queries, or a query for each complete table if none was added.
    package func pulls(of tables: [String]) -> [Pull] {
        guard pulls.isEmpty else { return pulls }
        return tables.map { Pull(table: $0, queryID: Self.wholeTableID, query: TableQuery()) }
    }

    /// The query id that is used for complete tables.
    private static let wholeTableID = "all"
}

extension SyncPolicy {
    /// The same policy, with durations that timers can handle and with a pause between two syncs.
    var clamped: SyncPolicy {
        var policy = self
        policy.debounce = debounce.clampedForTimers
        policy.interval = interval.map { max($0.clampedForTimers, .seconds(1)) }
        policy.retryFirst = max(retryFirst.clampedForTimers, .milliseconds(1))
        policy.retryMax = max(retryMax.clampedForTimers, .milliseconds(1))
        return policy
    }
}
