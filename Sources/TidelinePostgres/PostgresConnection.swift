// PostgresConnection: executes statements.
//
// Not Sendable: a connection belongs to the thread that created it. Statements are sent unnamed, so that a pooler may
// give each transaction a different connection to the server; only without a pooler are repeated statements kept under
// names. Rows arrive as binary cells.

import CLibPQ
package import TidelineCore

/// A connection to PostgreSQL through libpq, whose calls block their thread.
package final class PostgresConnection {
    private let handle: OpaquePointer
    /// The cache of prepared statements; nil if statements are not prepared.
    private var statements: StatementCache?
    /// The fault of a prepared statement, after which the connection must no longer be used.
    package private(set) var fault: StatementFault?

    /// Connects.
    ///
    /// - Throws: ``PostgresError``, which does not contain the password.
    package init(_ address: PostgresAddress, connectSeconds: Int = 5) throws {
        // Options in the address override the defaults, and the required options override them.
        let pairs: [(String, String)] = [
            ("connect_timeout", "\(connectSeconds)"),
            ("target_session_attrs", address.isForWrites ? "read-write" : "any"),
            ("tcp_user_timeout", "10000"),
            // If the server's machine fails, a wait for its answer ends as well.
            ("keepalives_idle", "10"),
            ("keepalives_interval", "5"),
            ("dbname", address.url),
            ("fallback_application_name", "tideline"),
            ("client_encoding", "UTF8"),
        ]
        let opened = Self.withCStrings(pairs.map(\.0)) { keywords in
            Self.withCStrings(pairs.map(\.1)) { values in
                PQconnectdbParams(keywords, values, 1)
            }
        }
        guard let opened else { throw PostgresError(state: "53200", "out of memory") }
        guard PQstatus(opened) == CONNECTION_OK else {
            let error = PostgresError(connection: opened)
            PQfinish(opened)
            throw error
        }
        handle = opened
        tideline_silence(handle)
    }

    deinit { PQfinish(handle) }

    /// Passes the strings to `body` as C strings, with a null pointer at the end.
    private static func withCStrings<Result>(
        _ texts: [String],
        _ body: ([UnsafePointer<CChar>?]) -> Result
    ) -> Result {
        var bytes: [CChar] = []
        let starts = texts.map { text in
            defer { bytes += text.utf8CString }
            return bytes.count
        }
        return bytes.withUnsafeBufferPointer { buffer in
            body(starts.map { start in buffer.baseAddress.map { $0 + start } } + [nil])
        }
    }

    // MARK: - State

    /// Whether the connection is unusable.
    package var isBroken: Bool { PQstatus(handle) != CONNECTION_OK }

    /// Whether a transaction is open, even if it has failed.
    package var isInTransaction: Bool {
        let status = PQtransactionStatus(handle)
        return status == PQTRANS_INTRANS || status == PQTRANS_INERROR
    }

    /// The version as a number, such as 150018 for 15.18.
    package var serverVersion: Int { Int(PQserverVersion(handle)) }

    /// A cancellation of the connection's current statement, for another thread.
    package var cancellation: PostgresCancellation { PostgresCancellation(PQgetCancel(handle)) }

    // MARK: - Statements

    /// Runs one statement.
    @discardableResult
    package func run(_ statement: PostgresStatement) throws -> PostgresResult {
        if statement.isPrepared, statements != nil { return try sendAll([statement])[0] }
        try check(statement)
        let buffer = ParameterBuffer(statement.parameters)
        let result = buffer.withPointers { values in
            PQexecParams(
                handle,
                statement.text,
                Int32(values.count),
                buffer.types,
                values,
                buffer.lengths,
                buffer.formats,
                1
            )
        }
        return try checked(result)
    }

    @discardableResult
    package func run(_ text: String, _ values: [SQLValue] = []) throws -> PostgresResult {
        try run(PostgresStatement(text, values: values))
    }

    /// Runs the statements of a script, without parameters.
    package func execute(_ script: String) throws {
        _ = try checked(PQexec(handle, script))
    }

    /// Sends all the statements in one round trip.
    ///
    /// - Throws: The error of the first statement that failed; those after it are not run.
    package func pipeline(_ statements: [PostgresStatement]) throws -> [PostgresResult] {
        guard statements.count > 1 else { return try statements.map { try run($0) } }
        return try sendAll(statements)
    }

    /// The maximum number of parameters of a statement in PostgreSQL's protocol.
    private static let parametersMax = 65_535

    /// Throws if the protocol does not allow the number of parameters.
    ///
    /// libpq reports this without a state, as it does for a lost connection.
    private func check(_ statement: PostgresStatement) throws {
        guard statement.parameters.count <= Self.parametersMax else {
            throw PostgresError(
                state: PostgresError.tooComplex,
                "the statement has more than \(Self.parametersMax) parameters"
            )
        }
    }

    private func sendAll(_ statements: [PostgresStatement]) throws -> [PostgresResult] {
        // A pipeline that was sent in part would make the connection unusable.
        try statements.forEach(check)
        guard PQenterPipelineMode(handle) == 1 else { throw PostgresError(connection: handle) }
        defer { self.statements?.ended() }
        var steps: [StatementCache.Step] = []
        for statement in statements { steps += try send(statement) }
        guard PQpipelineSync(handle) == 1 else { throw PostgresError(connection: handle) }
        var results: [PostgresResult] = []
        var failure: PostgresError?
        var isBetween = false
        results.reserveCapacity(statements.count)
        var left = steps[...]
        while true {
            guard let result = PQgetResult(handle) else {
                // A null separates the results of two statements. After a second one nothing
                // follows: the statements did not arrive, even if libpq still reports the
                // connection as good.
                if isBroken || isBetween { throw failure ?? PostgresError(connection: handle) }
                isBetween = true
                continue
            }
            isBetween = false
            let status = PQresultStatus(result)
            if status == PGRES_PIPELINE_SYNC {
                PQclear(result)
                break
            }
            let step = left.popFirst() ?? .plain
            if status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK {
                if case .prepare = step {
                    self.statements?.prepared()
                    PQclear(result)
                } else {
                    results.append(PostgresResult(result))
                }
                continue
            }
            if failure == nil, status != PGRES_PIPELINE_ABORTED {
                let error = PostgresError(result)
                failure = error.state.isEmpty ? PostgresError(connection: handle) : error
                failure?.place = results.count
                noteFault(error, of: step)
            }
            PQclear(result)
            if isBroken { throw failure ?? PostgresError(connection: handle) }
        }
        guard PQexitPipelineMode(handle) == 1 else { throw PostgresError(connection: handle) }
        if let failure { throw failure }
        return results
    }

    /// Sends a statement; returns the steps whose answers follow, in order.
    private func send(_ statement: PostgresStatement) throws -> [StatementCache.Step] {
        let buffer = ParameterBuffer(statement.parameters)
        let step =
            statement.isPrepared ? statements?.step(for: statement.text, buffer.types) : nil
        let isSent = buffer.withPointers { values in
            let count = Int32(values.count)
            switch step ?? .plain {
            case .plain:
                return PQsendQueryParams(
                    handle,
                    statement.text,
                    count,
                    buffer.types,
                    values,
                    buffer.lengths,
                    buffer.formats,
                    1
                )
            case .prepare(let name):
                guard PQsendPrepare(handle, name, statement.text, count, buffer.types) == 1 else {
                    return 0
                }
                return sendNamed(name, buffer, values)
            case .known(let name): return sendNamed(name, buffer, values)
            }
        }
        guard isSent == 1 else { throw PostgresError(connection: handle) }
        if case .prepare? = step { return [step ?? .plain, .plain] }
        return [step ?? .plain]
    }

    private func sendNamed(
        _ name: String,
        _ buffer: ParameterBuffer,
        _ values: [UnsafePointer<CChar>?]
    ) -> Int32 {
        PQsendQueryPrepared(
            handle,
            name,
            Int32(values.count),
            values,
            buffer.lengths,
            buffer.formats,
            1
        )
    }

    // MARK: - Prepared statements

    /// Prepares statements that request it, unless the connection goes through a pooler.
    ///
    /// Behind a pooler, the connection's process ID differs from the one that PostgreSQL reports.
    ///
    /// - Parameters:
    ///   - age: The time after which statements are released, once the connection is idle.
    ///   - trustsPoolers: Whether statements are prepared even behind a pooler.
    /// - Throws: ``PostgresError`` if the connection is lost.
    package func keepStatements(
        for age: Duration = .seconds(5),
        trustsPoolers: Bool = false
    ) throws {
        let number = try run("SELECT pg_backend_pid()").integer(0, 0)
        guard trustsPoolers || number == Int64(PQbackendPID(handle)) else { return }
        statements = StatementCache(age: age)
    }

    private func noteFault(_ error: PostgresError, of step: StatementCache.Step) {
        guard case .known = step else { return }
        if error.isStatementMissing { fault = .missing }
        if error.isStatementChanged { fault = .changed }
    }

    private func checked(_ result: OpaquePointer?) throws -> PostgresResult {
        guard let result else { throw PostgresError(connection: handle) }
        switch PQresultStatus(result) {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY: return PostgresResult(result)
        default:
            let error = PostgresError(result)
            PQclear(result)
            throw error.state.isEmpty ? PostgresError(connection: handle) : error
        }
    }

    /// Ends an open transaction; returns false if the connection can no longer be used.
    package func endTransaction() -> Bool {
        if PQpipelineStatus(handle) != PQ_PIPELINE_OFF { return false }
        if isInTransaction { PQclear(PQexec(handle, "ROLLBACK")) }
        guard fault == nil, !isBroken, PQtransactionStatus(handle) == PQTRANS_IDLE else {
            return false
        }
        guard statements?.isDue == true else { return true }
        statements?.forget()
        return (try? execute("DEALLOCATE ALL")) != nil
    }

    // MARK: - Notifications

    /// The socket, which becomes readable when data arrives.
    package var socket: Int32 { PQsocket(handle) }

    /// Reads the received data; returns whether there was a notification.
    package func takeNotifications() -> Bool {
        guard PQconsumeInput(handle) == 1 else { return false }
        var isAny = false
        while let note = PQnotifies(handle) {
            PQfreemem(note)
            isAny = true
        }
        return isAny
    }
}
