// PostgresPooler: a connection pooler, with which each transaction may use a different connection
// and no session state survives a transaction.

import Foundation

/// A PgBouncer in transaction mode in front of a cluster.
package final class PostgresPooler: Sendable {
    /// The path of PgBouncer; nil if it is not installed.
    private static let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    /// The reason that tests with PgBouncer are skipped; nil if they are not skipped.
    package static let reasonToSkip: String? =
        PostgresCluster.reasonToSkip
        ?? (program == nil ? "PgBouncer is not installed: apt-get install pgbouncer" : nil)

    private static let port = 6432

    private let directory: String
    /// The script that stops the pooler when this reference is released.
    private let lifeline: ChildProgram.Guarded

    /// Starts a pooler with so few connections that callers must share them.
    package init(of cluster: PostgresCluster) throws {
        guard let program = Self.program else {
            throw PostgresCluster.Missing(description: Self.reasonToSkip ?? "")
        }
        directory = cluster.socketDirectory + "/pool-\(UUID().uuidString.prefix(8).lowercased())"
        try FileManager.default.createDirectory(
            atPath: directory,
            withIntermediateDirectories: true
        )
        let settings = """
            [databases]
            * = host=\(cluster.socketDirectory)
            [pgbouncer]
            listen_addr =
            listen_port = \(Self.port)
            unix_socket_dir = \(directory)
            auth_type = trust
            auth_file = \(directory)/users
            pool_mode = transaction
            default_pool_size = 4
            max_client_conn = 500
            logfile = \(directory)/pool.log
            """
        try Data(settings.utf8).write(to: URL(fileURLWithPath: directory + "/pool.ini"))
        try Data("\"postgres\" \"\"\n".utf8).write(to: URL(fileURLWithPath: directory + "/users"))
        let script = """
            [[ $(id -u) != 0 ]] || chown -R postgres:postgres "$1"
            "${@:2}" >"$1/output" 2>&1 </dev/null & pooler=$!
            read -r _
            kill -KILL "$pooler"; wait "$pooler"
            """
        let pooler = cluster.asServer([program, directory + "/pool.ini"])
        lifeline = try ChildProgram.Guarded(script: script, [directory] + pooler)
        let failure = "PgBouncer did not start: see \(directory)/pool.log"
        try cluster.waitUntilReady(directory, port: Self.port, or: failure)
    }

    /// Returns the address of a database for access through the pooler.
    package func url(of url: String) -> String {
        "postgres://postgres@/\(PostgresCluster.name(in: url))?host=\(directory)&port=\(Self.port)"
    }
}
