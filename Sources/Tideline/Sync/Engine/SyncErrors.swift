// The fixed messages about store, queue, push and pull.

import Foundation
import TidelineCore
import TidelineSQLite

extension SyncError {
    package static func storeNotInitialized() -> SyncError {
        SyncError(
            .storeNotInitialized,
            "The store is not open. Call syncContext.initialize(store:tables:) first."
        )
    }

    package static func unknownTable(_ name: String, known: [String]) -> SyncError {
        SyncError(
            .unknownTable,
            """
            Table '\(name)' is not synced. Add it to 'tables:' or 'schemas:' of initialize. \
            Known tables: \(known.sorted().joined(separator: ", ")).
            """
        )
    }

    /// The error for merge rules with columns that the table does not have, or that no table has if
    /// `table` is nil.
    static func unknownMergeColumns(_ columns: [String], table: String? = nil) -> SyncError {
        let place =
            table.map { "of table '\($0)' name columns that it does not have" }
            ?? "of all tables name columns that none of them has"
        return SyncError(
            .invalidModel,
            """
            The merge rules \(place): \(columns.joined(separator: ", ")). Use the names in the \
            CodingKeys of the table's type.
            """
        )
    }

    static func defaultRequired(_ model: String, _ property: String, table: String) -> SyncError {
        SyncError(
            .defaultRequired,
            """
            Cannot open table '\(table)': '\(model)' has a new property '\(property)', older rows have no \
            value for it, and its default is not known. Write in '\(model)': static let defaults = \
            \(model)(...), with a value for each property without a default value. Or make the property optional.
            """
        )
    }

    static func columns(of table: String, _ fault: String) -> SyncError {
        SyncError(.invalidModel, "The columns of table '\(table)' cannot be used: \(fault)")
    }

    static func references(of table: String, _ fault: String) -> SyncError {
        SyncError(.invalidModel, "The references of table '\(table)' cannot be used: \(fault)")
    }

    static func tableName(_ name: String, _ fault: String) -> SyncError {
        SyncError(
            .invalidModel,
            "Table name '\(name)' cannot be used: \(fault). Give the table another name."
        )
    }

    static func tableTwice(_ name: String) -> SyncError {
        SyncError(
            .invalidModel,
            "Table '\(name)' is named twice. Give each record type a 'tableName' of its own."
        )
    }

    static func reservedTable(_ name: String) -> SyncError {
        SyncError(
            .invalidModel,
            "Table name '\(name)' is reserved by the store. Give the table another name."
        )
    }

    static func alreadyExists(table: String, id: String) -> SyncError {
        SyncError(
            .alreadyExists,
            "Row '\(id)' of table '\(table)' already exists. Update it, or insert with another id."
        )
    }

    static func notFound(table: String, id: String) -> SyncError {
        SyncError(
            .notFound,
            "Row '\(id)' of table '\(table)' is not on this device. Pull it, or insert it."
        )
    }

    static func pendingOperations(table: String) -> SyncError {
        SyncError(
            .pendingOperations,
            """
            Table '\(table)' has pending changes. Push first, or purge with 'force: true', which \
            discards them.
            """
        )
    }

    static func errorResolved() -> SyncError {
        SyncError(
            .notFound,
            "This error is already resolved: its operation was released, sent or discarded. "
                + "Call operationErrors() for the remaining errors."
        )
    }

    /// The error text of a rejected operation; `contested` names columns that both sides changed.
    static func rejectedOperation(
        _ operation: QueuedOperation,
        _ server: ServerState?,
        _ answer: PushAnswer,
        _ contested: [String] = []
    ) -> String {
        let what =
            "The \(operation.kind) of row '\(operation.itemID)' in table '\(operation.table)'"
        switch server {
        case .row:
            let names = contested.prefix(contestedMax).joined(separator: ", ")
            let columns = contested.isEmpty ? "" : " to the same columns: \(names)"
            return """
                \(what) conflicts with another change on the server (\(answer.status))\(columns). \
                Resolve the conflict with both rows.
                """
        case .deleted:
            return """
                \(what) conflicts with a delete on the server (\(answer.status)). Discard or retry it.
                """
        case nil where answer.status == 503:
            return """
                \(what) was not executed: the responses to its transaction exceed the server's limit \
                'limits.batchAnswerBytes' (503). Raise the limit and retry the operation, or discard \
                operations of the transaction and make the changes in smaller ones.
                """
        case nil where answer.isOfUndoneState:
            return """
                \(what) was rejected by the server (\(answer.status)) because a delete in the same \
                transaction changes or deletes the row there. Discard one of the two operations, or make the \
                changes in separate transactions.
                """
        case nil where answer.status == 413 && operation.group != nil:
            return """
                \(what) was rejected by the server because its transaction is too large \
                (413)\(reason(answer)). A retry resends the same transaction. Discard operations of it \
                and make the changes in smaller transactions ('SyncLimits.transactionBytesMax' limits \
                them), or raise 'limits.batchBytes' on the server.
                """
        case nil:
            let reason = reason(answer)
            let end = reason.hasSuffix(".") ? "" : "."
            return "\(what) was rejected by the server (\(answer.status))\(reason)\(end)"
        }
    }

    private static func reason(_ answer: PushAnswer) -> String {
        answer.message.map { ": \($0)" } ?? ""
    }

    /// The error text of an operation whose conflict handler threw an error.
    ///
    /// The text contains only the type of the handler's error, because its description may contain
    /// values of the row.
    static func failedHandler(_ operation: QueuedOperation, _ error: any Error) -> String {
        let reason = (error as? SyncError)?.message ?? "it threw \(type(of: error))."
        return """
            The conflict handler failed for row '\(operation.itemID)' in table \
            '\(operation.table)': \(reason) Resolve the conflict with both rows.
            """
    }

    /// The part of an error text about merge rules that returned values that their columns cannot
    /// hold; nil if there are none.
    static func failedRules(_ faults: [String: String]) -> String? {
        guard !faults.isEmpty else { return nil }
        let reasons = faults.sorted { $0.key < $1.key }.prefix(contestedMax).map {
            "the value for column '\($0.key)' \($0.value)"
        }
        return "A merge rule failed: \(reasons.joined(separator: "; ")). Fix the rule."
    }

    /// The error text of an operation that was parked because another operation of its transaction
    /// was.
    static func stoppedWithGroup(
        _ operation: QueuedOperation,
        because cause: QueuedOperation
    ) -> String {
        """
        The \(operation.kind) of row '\(operation.itemID)' in table '\(operation.table)' was not \
        executed because the \(cause.kind) of row '\(cause.itemID)' in table '\(cause.table)', which \
        is in the same transaction, failed. A retry of either operation resends the transaction. If you \
        discard the other operation, retry or discard this one, too.
        """
    }

    /// The error text of an operation whose row was edited every time its handler ran.
    static func restlessRow(_ operation: QueuedOperation) -> String {
        """
        Row '\(operation.itemID)' in table '\(operation.table)' was edited during each call of \
        the conflict handler. Resolve the conflict with both rows.
        """
    }

    /// The maximum number of contested columns that a message names.
    private static let contestedMax = 10

    /// The error text of an update that is not sent because the row, with the server's values,
    /// breaks a rule that compares columns.
    static func brokenComparison(
        _ operation: QueuedOperation,
        _ violation: RuleViolation
    ) -> String {
        """
        \(name(of: operation)) was not sent, because the row breaks a rule together with the server's values. \
        \(violation.message) Resolve the conflict with both rows.
        """
    }

    /// The error text of an operation that is not sent because a value of a newly synced table or
    /// column breaks a rule.
    static func brokenRule(_ operation: QueuedOperation, _ violation: RuleViolation) -> String {
        """
        \(name(of: operation)) was not sent, because an update of the app began to synchronize \
        the table or some of its columns, and a value breaks a rule. \(violation.message) \
        Correct the value, and resolve the error with the corrected row.
        """
    }

    /// The error for an `operation` that cannot be sent, because it cannot be decoded or its row is
    /// not in the store.
    static func unsendable(_ operation: QueuedOperation) -> SyncError {
        let what = name(of: operation)
        guard let damage = operation.damage else {
            return SyncError(
                .notFound,
                """
                \(what) cannot be sent: the row is not in the store. Discard it with \
                cancelOperationAndDiscardItem(), or pass the row to updateOperationAndRetry(with:).
                """
            )
        }
        return SyncError(
            .storeFailure,
            """
            \(what) cannot be sent: column '\(damage.column)' of its row in \
            MS_TableOperations cannot be read. Discard it with cancelOperationAndDiscardItem(), and \
            make the change again.
            """
        )
    }

    /// The error text of an operation that is not sent and has no stored error.
    ///
    /// Set `isNamed` if the app declares the operation's table.
    static func waiting(_ operation: QueuedOperation, isNamed: Bool) -> String {
        if operation.damage != nil { return unsendable(operation).message }
        let what = name(of: operation)
        guard isNamed else {
            return """
                \(what) cannot be sent: the app does not declare the table. Add it to 'tables:' or \
                'schemas:' of initialize, or discard the operation with \
                cancelOperationAndDiscardItem().
                """
        }
        return """
            \(what) was rejected by the server, and its response is no longer in the store. Resolve \
            it with one of the three actions of this error, or edit the row.
            """
    }

    /// Returns the description of an operation in a message, with its number.
    private static func name(of operation: QueuedOperation) -> String {
        let row = operation.itemID.isEmpty ? "a row" : "row '\(operation.itemID)'"
        let place = operation.table.isEmpty ? "" : " in table '\(operation.table)'"
        return "Operation \(operation.id), the \(operation.kind) of \(row)\(place),"
    }

    package static func storeFailure(_ cause: any Error) -> SyncError {
        let text = (cause as? SyncError)?.message ?? "\(cause)"
        let isUnavailable = isOfUnavailableFile(cause)
        var error = SyncError(
            isUnavailable ? .storeUnavailable : .storeFailure,
            isUnavailable
                ? """
                The store on the device cannot be read or written right now: \(text) Nothing is lost. \
                Try again when the device is unlocked.
                """
                : "The store on the device failed: \(text)"
        )
        error.cause = cause
        return error
    }

    /// Returns whether an error of an app's own store means that the store's file is temporarily
    /// unavailable.
    private static func isOfUnavailableFile(_ error: any Error) -> Bool {
        if let error = error as? SQLiteError { return error.isUnavailable }
        // Compares domain and number, because on some platforms a cast to an error type of
        // Foundation ignores the domain.
        let error = error as NSError
        switch error.domain {
        case NSPOSIXErrorDomain:
            return [EPERM, EACCES, EIO].map { Int($0) }.contains(error.code)
        case NSCocoaErrorDomain:
            let codes: [CocoaError.Code] = [.fileReadNoPermission, .fileWriteNoPermission]
            return codes.map(\.rawValue).contains(error.code)
        default: return false
        }
    }

    static func offline(_ cause: TransportError) -> SyncError {
        var error = SyncError(.offline, "The server could not be reached: \(cause.message)")
        error.cause = cause
        return error
    }

    static func badEndpoint(_ cause: TransportError) -> SyncError {
        SyncError(
            cause.code == .insecure ? .insecureEndpoint : .badRequest,
            cause.message,
            cause: cause
        )
    }

    static func badLink() -> SyncError {
        SyncError(
            .badResponse,
            "The server sent a next link that is not a URL. Nothing was lost. Check the server's links."
        )
    }

    static func endlessLinks(_ table: String) -> SyncError {
        SyncError(
            .badResponse,
            """
            The pages of '\(table)' do not end: a next link leads to its own page, or there are more \
            than 'pagesMax' pages. Check the server's links.
            """
        )
    }

    static func linkToOtherOrigin() -> SyncError {
        SyncError(
            .badResponse,
            "The server sent a next link to another origin. It was not followed. Check the server's links."
        )
    }

    /// The error of a pull; `answer` is the last response, if one arrived.
    static func pullFailed(
        _ failure: PullMachine.Failure,
        table: String,
        answer: AnswerOutline?,
        server: String
    ) -> SyncError {
        switch (failure, answer) {
        case (.unproven, let answer?):
            unexpectedAnswer(
                answer,
                from: server,
                to: "the pull of '\(table)'",
                isProven: false
            )
        case (.network, let answer?), (.badPage, let answer?):
            unexpectedAnswer(answer, from: server, to: "the pull of '\(table)'")
        case (.rejected(300..<400), let answer?),
            (.rejected(404), let answer?) where answer.problem == nil,
            (.rejected(410), let answer?) where answer.problem == nil:
            unexpectedAnswer(answer, from: server, to: "the pull of '\(table)'")
        case (.network, nil):
            SyncError(
                .offline,
                "The server did not respond to the pull of '\(table)'. Pull again later."
            )
        case (.unauthorized, _):
            signInWanted("pull of '\(table)'", reason: answer?.problem)
        case (.rejected(let status), _):
            rejected("the pull of '\(table)'", status, answer?.problem)
        case (.badPage, nil), (.unproven, nil):
            SyncError(
                .badResponse,
                "The response to the pull of '\(table)' is not a page of rows. Check the endpoint."
            )
        case (.tooManyPages, _):
            endlessLinks(table)
        case (.missingLink, _):
            SyncError(
                .badResponse,
                """
                The server started change tracking for '\(table)', but returned a page with neither a \
                next link nor a delta link twice. Check the server, and that no proxy changes its \
                responses. A pull without a query id needs no such link.
                """
            )
        case (.changingServer, _):
            SyncError(
                .badResponse,
                """
                The server invalidated the cursor of the pull of '\(table)' twice. Check that all \
                servers behind the endpoint use the same database, then pull again.
                """
            )
        }
    }

    /// The error of a verification; `answer` is the response that lacks the digest or the rows of a
    /// range.
    package static func verifyFailed(
        _ failure: PullMachine.Failure,
        table: String,
        answer: AnswerOutline,
        server: String
    ) -> SyncError {
        switch failure {
        case .unproven:
            unexpectedAnswer(
                answer,
                from: server,
                to: "the verification of '\(table)'",
                isProven: false
            )
        case .rejected(404), .rejected(405), .rejected(501):
            SyncError(
                .serverError,
                """
                The server has no $digest for '\(table)' (\(answer.status)): verify needs a Tideline \
                server that has this table. Nothing was changed; a pull works with other servers too.
                """,
                statusCode: answer.status
            )
        case .unauthorized:
            pullFailed(failure, table: table, answer: answer, server: server)
        case .rejected(let status) where 400..<500 ~= status:
            rejected("the verification of '\(table)'", status, answer.problem)
        case .network, .rejected, .badPage, .tooManyPages, .changingServer, .missingLink:
            unexpectedAnswer(answer, from: server, to: "the verification of '\(table)'")
        }
    }

    /// The server rejected the token of a request, or requires one (401).
    static func signInWanted(_ what: String, reason: String?) -> SyncError {
        let text = reason.map { ": \($0)" } ?? ""
        let end = text.hasSuffix(".") ? "" : "."
        return SyncError(
            .unauthorized,
            "The server requires authentication for the \(what) (401)\(text)\(end) Sign in, and sync again.",
            statusCode: 401
        )
    }

    private static func rejected(_ what: String, _ status: Int, _ reason: String?) -> SyncError {
        let remedy =
            status == 404
            ? "Check the endpoint, and that the server has this table."
            : "Check what the server permits for this table."
        let text = reason.map { ": \($0)" } ?? ""
        let end = text.hasSuffix(".") ? "" : "."
        return SyncError(
            SyncError.Code(answer: status),
            "The server rejected \(what) (\(status))\(text)\(end) \(remedy)",
            statusCode: status
        )
    }

    static func cancelled(_ what: String, _ cause: CancellationError) -> SyncError {
        SyncError(
            .cancelled,
            "The \(what) was cancelled. Changes stored so far are kept. Call it again to continue.",
            cause: cause
        )
    }
}
