// RowExplanation+Facts: derives the reasons for a row's state from the facts in the store.
//
// Pure: facts in, reasons out. No contents of rows enter a message.

import Foundation
import TidelineCore

extension RowExplanation {
    /// Explains a row by its facts.
    package init(_ facts: RowFacts) {
        self.init(table: facts.table, itemID: facts.itemID, reasons: [])
        tellPlace(facts)
        for (index, operation) in facts.operations.enumerated() {
            tell(operation, isFirst: index == 0, facts)
        }
        tellServerSide(facts)
        if facts.row != nil { tellHolders(facts) }
        tellPulls(facts)
    }

    private mutating func add(_ code: Code, _ message: String) {
        reasons.append(Reason(code: code, message: message))
    }

    // MARK: - Here or not

    private mutating func tellPlace(_ facts: RowFacts) {
        if facts.row != nil {
            add(.here, "The row is on this device.")
        } else if facts.operations.last?.kind == .delete {
            add(.absent, "The row is not on this device: it was deleted here.")
        } else {
            add(.absent, "The row is not on this device.")
        }
    }

    // MARK: - The queue

    private mutating func tell(_ operation: QueuedOperation, isFirst: Bool, _ facts: RowFacts) {
        let name = "The \(operation.kind)"
        if let damage = operation.damage {
            add(
                .damaged,
                "\(name) cannot be sent: column '\(damage.column)' of its entry in the queue "
                    + "cannot be read. Discard it by its error, then edit the row again."
            )
        } else if operation.state == .parked {
            add(.parked, Self.parked(name, facts.rejection))
        } else if operation.state == .attempted {
            add(.attempted, Self.attempted(name, operation))
        } else if isFirst {
            add(
                .unsent,
                "\(name) waits to be sent"
                    + (operation.outcomeUnknown ? "" : ": nothing was tried yet")
                    + ". The next push sends it."
            )
        } else {
            add(.behind, "\(name) waits for the operation before it, and is sent after it.")
        }
        guard operation.outcomeUnknown || operation.state == .attempted else { return }
        add(
            .outcomeUnknown,
            "No answer to an attempt of it was stored: the server may have done it. A push finds "
                + "that out before anything else is done to the row."
        )
    }

    private static func parked(_ name: String, _ rejection: RowFacts.Rejection?) -> String {
        let status = rejection?.statusCode.map { " (\($0))" } ?? ""
        let said = rejection.map { " \($0.message)" } ?? ""
        return "\(name) was rejected by the server\(status) and is not sent again by itself.\(said)"
            + " Settle it by one of the three actions of its error, or edit the row."
    }

    private static func attempted(_ name: String, _ operation: QueuedOperation) -> String {
        let count = operation.attempts == 1 ? "once" : "\(operation.attempts) times"
        let first = operation.frozen?.firstSent ?? ""
        return "\(name) was sent \(count)\(first.isEmpty ? "" : ", first at \(first),") and is not "
            + "settled. The next push sends the same bytes again."
    }

    // MARK: - The server's side

    private mutating func tellServerSide(_ facts: RowFacts) {
        guard let first = facts.operations.first else {
            guard let row = facts.row else { return }
            if let lost = facts.lost { return tell(lost, row) }
            if facts.isOfFormerEpoch {
                add(
                    .formerEpoch,
                    "It was pulled before the server was restored from a backup, and is not looked for "
                        + "there yet: the pulls of the queries that hold it do that."
                )
            }
            if let version = row.version, facts.isUncertain {
                add(
                    .changedHere,
                    "The server gave it as version \(version), and its values are not known to be "
                        + "those of the server: they were set when an operation was dropped, or in "
                        + "the file. verify(queryID:repair:) compares them and puts the server's back."
                )
            } else if let version = row.version {
                add(.serverVersion, "It is what the server gave as version \(version).")
            } else {
                add(
                    .localOnly,
                    "The server never gave it a version, and nothing waits to be sent: it is on "
                        + "this device only. To send it, delete it and insert it again."
                )
            }
            return
        }
        tellBasis(of: first, last: facts.operations.last ?? first)
        switch first.basis.latest {
        case .row(let row):
            add(
                .newerOnServer,
                "The server has it as version \(row.version ?? "unknown") by now, which waits "
                    + "until the queue is done with the row."
            )
        case .deleted:
            add(
                .newerOnServer,
                "The server has deleted it by now, which waits until the queue is done with the "
                    + "row."
            )
        case nil: break
        }
    }

    private mutating func tell(_ lost: RowFacts.Lost, _ row: Row) {
        let has =
            switch lost {
            case .nothing: "has no such row"
            case .deletion: "has it as deleted"
            case .version(let version): "has it as version \(version ?? "unknown")"
            }
        add(
            .lost,
            "It is version \(row.version ?? "unknown") of the server, which was restored from a backup since "
                + "and \(has). It stays here until you send it again or discard it: "
                + "SyncContext.lostRows()."
        )
    }

    private mutating func tellBasis(of first: QueuedOperation, last: QueuedOperation) {
        if let older = last.basisVersion {
            let version = older.isEmpty ? "an older version" : "version \(older)"
            add(.basis, "It is based on \(version) of the server.")
        } else if let base = first.basis.base {
            let version = base.version.map { "version \($0)" } ?? "a state without a version"
            add(.basis, "It is based on \(version) of the server.")
        } else if first.kind == .insert {
            add(.basis, "It is new: the server has given no version of it.")
        }
    }

    // MARK: - Queries

    private mutating func tellHolders(_ facts: RowFacts) {
        let bits = facts.heldBits ?? 0
        var holders = facts.queries.filter { $0.bits & bits != 0 }.map { "'\($0.id)'" }
        if bits & (1 << Int64(QueryHold.withoutID)) != 0 {
            holders.append("of a pull without a query id")
        }
        let isPending = !facts.operations.isEmpty
        guard !holders.isEmpty else {
            if facts.lost != nil || facts.isOfFormerEpoch { return }
            switch facts.heldBits {
            // A change that was made here is kept until it is sent.
            case nil where isPending: break
            case nil:
                add(.unheld, "No query has reported it. It stays until one does, or until a purge.")
            case 0:
                let end = isPending ? " after its operations are done." : "."
                add(.unheld, "No query holds it: it leaves with the next pull\(end)")
            default: add(.held, "A query that is not known any more holds it, until a purge.")
            }
            return
        }
        let what = holders.count == 1 ? "The query" : "The queries"
        let hold = holders.count == 1 ? "holds" : "hold"
        let names = holders.joined(separator: ", ")
        add(
            .held,
            "\(what) \(names) \(hold) it"
                + (isPending ? ", until the server tells otherwise." : ".")
        )
    }

    private mutating func tellPulls(_ facts: RowFacts) {
        guard facts.lastPull != nil || !facts.queries.isEmpty else {
            // A row that is pending lacks nothing.
            if facts.operations.isEmpty {
                add(.neverPulled, "Table '\(facts.table)' was never pulled. Pull it.")
            }
            return
        }
        for query in facts.queries {
            if !query.isOfThisEndpoint {
                add(
                    .otherEndpoint,
                    "The query '\(query.id)' was pulled from another server: its next pull begins "
                        + "anew."
                )
            } else if query.isUnfinished {
                add(
                    .reading,
                    "The query '\(query.id)' was not read to its end: some of its rows are still "
                        + "to come. Pull it again."
                )
            }
        }
        if facts.row == nil, facts.operations.isEmpty {
            let names = facts.queries.map { "'\($0.id)'" }.joined(separator: ", ")
            add(
                .notPulled,
                "No pull brought it, or it left: the server has no such row, or it matches none "
                    + "of the queries\(names.isEmpty ? "" : " " + names), or this caller may not "
                    + "see it, or it came since. A remote read of this id shows which."
            )
        }
        if let lastPull = facts.lastPull {
            add(
                .lastPull,
                "The table was last pulled at \(lastPull.formatted(.iso8601)): what changed on "
                    + "the server since is not here."
            )
        }
    }
}
