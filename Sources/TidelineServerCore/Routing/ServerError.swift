// ServerError: a rejection of a request, which becomes a problem document (RFC 9457).
//
// Messages name JSON members, options and limits, never the contents of rows.

package import TidelineCore

/// A rejection of a request, with its reason.
package struct ServerError: Error, Sendable, CustomStringConvertible {
    package var status: Int
    package var message: String
    /// The byte offset in the body or in an option's value.
    package var position: Int?
    package var headers: HTTPFields
    /// The error's code for programs, if the status is not specific enough.
    package var code: ErrorCode?
    /// The reference that the write would break, for ``ErrorCode/parentNotFound`` and
    /// ``ErrorCode/rowIsReferenced``.
    package var reference: Reference?
    /// The columns that the error is about, for programs.
    package var columns: [String] = []

    package init(
        _ status: Int,
        _ message: String,
        position: Int? = nil,
        headers: HTTPFields = [:],
        code: ErrorCode? = nil
    ) {
        self.status = status
        self.message = message
        self.position = position
        self.headers = headers
        self.code = code
    }

    /// The message, for commands that print the error.
    package var description: String { message }

    package static func badRequest(_ message: String, position: Int? = nil) -> ServerError {
        ServerError(400, message, position: position)
    }

    package static func malformed(_ error: JSONError) -> ServerError {
        ServerError(400, "The body is not valid JSON: \(error.message).", position: error.position)
    }

    /// Creates the rejection of a row that breaks a rule of its table.
    ///
    /// The status is 409 if another row breaks the rule together with it, otherwise 400.
    package init(_ violation: RuleViolation) {
        self.init(
            violation.code == .notUnique ? 409 : 400,
            violation.message,
            code: ErrorCode(rawValue: violation.code.rawValue)
        )
        columns = violation.columns
    }

    package static let noSuchPath = ServerError(
        404,
        "This path does not exist.",
        code: .noSuchPath
    )

    /// The rejection for an unknown table; its code prevents clients from treating a row of the table as
    /// deleted.
    package static let noSuchTable = ServerError(
        404,
        "The table does not exist.",
        code: .noSuchTable
    )

    /// The rejection for a missing row; its code distinguishes it from a proxy's 404 page.
    package static let noSuchRow = ServerError(404, "The row does not exist.", code: .noSuchRow)

    package static let gone = ServerError(410, "The row was deleted.", code: .rowDeleted)

    private static func linkIsOver(_ reason: String, code: ErrorCode) -> ServerError {
        ServerError(
            410,
            "\(reason) after this link was created. Read the whole list again.",
            code: code
        )
    }

    /// The rejection of an outdated delta link; the message contains the horizon, before which links are too old.
    package static func deltaExpired(_ clock: TableClock) -> ServerError {
        var error = linkIsOver("Tombstones were purged", code: .deltaExpired)
        if let horizon = clock.horizonText { error.headers.append("Tideline-Horizon", horizon) }
        return error
    }

    package static let epochChanged = linkIsOver(
        "The database was restored from a backup",
        code: .epochChanged
    )

    package static let schemaChanged = linkIsOver(
        "The table's columns changed",
        code: .schemaChanged
    )

    package static let viewChanged = linkIsOver(
        "The rows that you may see changed",
        code: .viewChanged
    )

    package static let notADeltaLink = badRequest(
        "Option '$deltatoken' is not from a link of this query."
    )

    package static func methodNotAllowed(_ allowed: String) -> ServerError {
        ServerError(
            405,
            allowed.isEmpty ? "This path accepts no method." : "Allowed methods: \(allowed).",
            headers: ["Allow": allowed]
        )
    }

    /// The rejection of a request without credentials, which has no error code (RFC 6750 section 3.1).
    package static let notSignedIn = ServerError(
        401,
        "The request has no token. Send one in X-ZUMO-AUTH or as 'Authorization: Bearer'.",
        headers: ["WWW-Authenticate": "Bearer realm=\"tideline\""]
    )

    /// The rejection of a token; the reason must contain neither a part of the token nor '"' or '\'.
    package static func invalidToken(_ reason: String) -> ServerError {
        let shown = reason.filter { $0 != "\"" && $0 != "\\" && $0.isASCII }
        return ServerError(
            401,
            reason,
            headers: [
                "WWW-Authenticate":
                    "Bearer error=\"invalid_token\", error_description=\"\(shown)\""
            ]
        )
    }

    package static let metricsAreLocal = ServerError(
        403,
        "Without authentication, this path is served only if the server listens on a loopback address "
            + "and the request comes from that machine, to localhost or 127.0.0.1."
    )

    package static let metricsNeedTheirKey = ServerError(
        401,
        "The metrics require their key (metrics.keyFile). Send it as 'Authorization: Bearer'.",
        headers: ["WWW-Authenticate": "Bearer realm=\"tideline\""]
    )

    package static func deleteNotAllowed(_ allowed: String) -> ServerError {
        ServerError(
            405,
            "Member 'deleted': deletes are disabled for this table.",
            headers: ["Allow": allowed]
        )
    }

    package static let noSoftDelete = ServerError(
        400,
        "Member 'deleted': this table has no soft delete. Send DELETE."
    )

    package static let notJSON = ServerError(
        415,
        "The body must be JSON. Send 'Content-Type: application/json'.",
        code: .notJSON
    )

    /// The rejection of an encoded body, with the accepted codings (RFC 9110 section 15.5.16).
    package static let codedBody = ServerError(
        415,
        "The body has a content coding. Only 'identity' is supported. Send the body uncompressed.",
        headers: ["Accept-Encoding": "identity"]
    )

    package static let codedBatch = ServerError(
        415,
        "The batch has a content coding other than 'gzip'. Send it with gzip or uncompressed.",
        headers: ["Accept-Encoding": "gzip"]
    )

    package static let damagedGzip = badRequest(
        "The body is not a complete gzip member (RFC 1952), or its checksum or length is wrong."
    )

    package static func testNotAllowed(_ allowed: String) -> ServerError {
        ServerError(
            405,
            "JSON Patch: 'test', 'copy' and 'move' read the row, but reads are disabled for this table.",
            headers: ["Allow": allowed]
        )
    }

    package static let notAnOperator = ServerError(
        403,
        "Only the users in authentication.operators have access."
    )

    package static let mayNotListen = ServerError(
        403,
        "Reads, and therefore events, are disabled for a table of the list."
    )

    package static let systemChange = ServerError(
        400,
        "A PATCH cannot change 'id', 'version' and 'updatedAt'. Leave them out or send the stored "
            + "values."
    )

    package static let outsideView = ServerError(
        403,
        "The change would make the row invisible to you."
    )

    package static func tooManyPatchSteps(_ limit: Int) -> ServerError {
        badRequest("A JSON Patch may have at most \(limit) operations (limits.patchSteps).")
    }

    package static func rowTooLarge(_ limit: Int) -> ServerError {
        ServerError(413, "A row may have at most \(limit) bytes (limits.rowBytes).")
    }

    package static func busy(_ message: String) -> ServerError {
        ServerError(503, message, headers: ["Retry-After": "1"])
    }

    /// The rejection of a caller who exceeded a rate and has to wait.
    static func askedForTooMuch(_ rejection: CallerRates.Rejection) -> ServerError {
        ServerError(
            429,
            "Rate limit exceeded (\(rejection.limit)). Retry in \(rejection.seconds) seconds.",
            headers: ["Retry-After": String(rejection.seconds)],
            code: .tooManyRequests
        )
    }

    package static let tooManyWrites = busy(
        "Too many writes are waiting (limits.writeQueue). Retry shortly."
    )

    package static let tooManyOwnWrites = busy(
        "Your writes fill half of the write queue (limits.writeQueue) while other callers wait. Retry shortly."
    )

    package static let queryTooSlow = busy(
        "The query waited longer than limits.queryTime allows. Retry shortly."
    )

    package static let queryTooExpensive = badRequest(
        "The query takes longer than limits.queryTime allows. Narrow it, or ask the operator for an index."
    )

    package static let queryTooComplex = badRequest(
        "The query has too many nested calls or literals for the database. Use fewer of them."
    )

    package static let noFiles = busy(
        "The server cannot open a file that the query needs. Retry shortly."
    )

    package static let stopping = busy("The server is stopping. Retry shortly.")

    package static let notCommitted = busy("The change could not be committed. Retry shortly.")

    package static let answerMemoryFull = busy(
        "Too many large responses wait for their callers (limits.answersBytes). Retry shortly."
    )

    /// The error for log and metrics after the caller has disconnected.
    package static let cancelled = busy("The request was cancelled. Send it again.")

    package static let notWritable = busy(
        "The database is not writable; the server's log contains the reason. Retry shortly."
    )

    /// The rejection of a write because another program has locked the database, or the disk is slow.
    package static let writesWait = busy(
        "Writes wait longer than a second because another program has locked the database or the disk "
            + "is slow. Retry shortly."
    )

    /// The rejection of a write because the row has too many ancestors to check for pending cascades.
    static let cascadePending = busy(
        "Rows that refer to deleted rows are still being deleted, and this row may be one of them. Retry shortly."
    )

    /// The rejection of a request for a table that another server has changed to match its own configuration.
    package static let tableChanged = busy(
        "The table in the database changed after this server started. Restart the server."
    )

    /// The rejection of a request whose table had a different schema version at each restart.
    package static let tableChanging = busy(
        "Other servers are changing the table. Retry shortly."
    )

    package static let databaseAway = busy(
        "The database does not respond. Retry shortly."
    )

    /// The rejection of a write whose outcome only the database knows.
    package static let outcomeUnknown = ServerError(
        503,
        "The connection to the database was lost during the commit, so the change may have been stored. "
            + "Repeat the request with its Repeatability-Request-ID, or read the row first.",
        headers: ["Retry-After": "1"],
        code: .outcomeUnknown
    )

    package static let valueNotKept = badRequest(
        "A value of the row is outside the range of its column's type in the database."
    )

    package static let constraintBroken = badRequest(
        "A constraint in the database, which is not one of this server's rules, rejected the row."
    )

    package static let indexedTooLong = ServerError(
        413,
        "A value of an indexed column is longer than an index of the database allows."
    )

    package static let failed = ServerError(500, "The server failed. Its log contains the reason.")
}

extension ServerResponse {
    /// Creates the problem document of a rejection.
    package init(_ error: ServerError) {
        var writer = JSONWriter()
        writer.raw("{\"title\":")
        writer.string(Self.title(error.status))
        writer.raw(",\"status\":")
        writer.integer(Int64(error.status))
        // RFC 9457 has the name `detail`; clients of all generations read `error`.
        writer.raw(",\"detail\":")
        writer.string(error.message)
        writer.raw(",\"error\":")
        writer.string(error.message)
        if let code = error.code {
            writer.raw(",\"code\":")
            writer.string(code.rawValue)
        }
        if let reference = error.reference {
            writer.raw(",\"column\":")
            writer.string(reference.column)
            writer.raw(",\"table\":")
            writer.string(reference.table)
        }
        if !error.columns.isEmpty {
            writer.raw(",\"columns\":[")
            for (place, column) in error.columns.enumerated() {
                if place > 0 { writer.byte(",") }
                writer.string(column)
            }
            writer.byte("]")
        }
        if let position = error.position {
            writer.raw(",\"position\":")
            writer.integer(Int64(position))
        }
        writer.raw("}")
        var headers = error.headers
        headers.append("Content-Type", "application/problem+json")
        self.init(status: error.status, headers: headers, body: writer.bytes)
    }

    private static func title(_ status: Int) -> String {
        switch status {
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 409: "Conflict"
        case 410: "Gone"
        case 412: "Precondition Failed"
        case 413: "Content Too Large"
        case 415: "Unsupported Media Type"
        case 424: "Failed Dependency"
        case 503: "Service Unavailable"
        default: status < 500 ? "Rejected" : "Internal Server Error"
        }
    }
}
