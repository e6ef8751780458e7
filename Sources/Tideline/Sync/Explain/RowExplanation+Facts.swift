// RowExplanation+Facts: derives the reasons for a row's state from the facts in the store.
//
// Pure. Facts go in, reasons come out. A message never has the contents of a row.

import Foundation
import TidelineCore

extension RowExplanation {
    /// Explains the state of a row from its facts.
    package init(_ facts: RowFacts) {
        self.init(table: facts.table, itemID: facts.itemID, reasons: [])
        addPresence(facts)
        for (index, operation) in facts.operations.enumerated() {
            addOperation(operation, isFirst: index == 0, facts)
        }
        guard !facts.isOfLocalTable else {
            add(
                .localOnly,
                "Table '\(facts.table)' stays on the device ('isLocalOnly'): its rows are neither pulled "
                    + "nor sent."
            )
            return
        }
        addServerState(facts)
        if facts.row != nil { addMembership(facts) }
        addPulls(facts)
    }

    private mutating func add(_ code: Code, _ message: String) {
        reasons.append(Reason(code: code, message: message))
    }

    // MARK: - Presence

    private mutating func addPresence(_ facts: RowFacts) {
        if facts.row != nil {
            add(.here, "The row is on this device.")
        } else if facts.operations.last?.kind == .delete {
            add(.absent, "The row is not on this device: it was deleted here.")
        } else {
            add(.absent, "The row is not on this device.")
        }
    }

    // MARK: - The operation queue

    private mutating func addOperation(
        _ operation: QueuedOperation,
        isFirst: Bool,
        _ facts: RowFacts
    ) {
        let name = "The \(operation.kind)"
        if let damage = operation.damage {
            add(
                .damaged,
                "\(name) cannot be sent: its stored column '\(damage.column)' cannot be read. "
                    + "Discard the operation through its error, then edit the row again."
            )
        } else if operation.state == .parked {
            add(.parked, Self.parked(name, facts.rejection))
        } else if operation.state == .attempted {
            add(.attempted, Self.attempted(name, operation))
        } else if isFirst {
            add(
                .unsent,
                "\(name) is pending"
                    + (operation.outcomeUnknown ? "" : ": it has not been sent yet")
                    + ". The next push sends it."
            )
        } else {
            add(
                .behind,
                "\(name) is pending: it is sent after the previous operation on the row."
            )
        }
        guard operation.outcomeUnknown || operation.state == .attempted else { return }
        add(
            .outcomeUnknown,
            "An attempt was sent, but no response was stored. The server may have applied it. A push "
                + "finds out before it sends anything else for the row."
        )
    }

    private static func parked(_ name: String, _ rejection: RowFacts.Rejection?) -> String {
        let status = rejection?.statusCode.map { " (\($0))" } ?? ""
        let reason = rejection.map { " \($0.message)" } ?? ""
        return "\(name) was rejected by the server\(status) and is not resent automatically."
            + "\(reason) Resolve it with one of the error's three actions, or edit the row."
    }

    private static func attempted(_ name: String, _ operation: QueuedOperation) -> String {
        let count = operation.attempts == 1 ? "once" : "\(operation.attempts) times"
        let first = operation.frozen?.firstSent ?? ""
        return "\(name) was sent \(count)\(first.isEmpty ? "" : ", first at \(first),") and its "
            + "outcome is not known yet. The next push resends the same bytes."
    }

    // MARK: - The server's state

    private mutating func addServerState(_ facts: RowFacts) {
        guard let first = facts.operations.first else {
            guard let row = facts.row else { return }
            if let lost = facts.lost { return addLoss(lost, row) }
            if facts.isOfFormerEpoch {
                add(
                    .formerEpoch,
                    "The row was pulled before the server was restored from a backup, and has not been "
                        + "requested since. The next pulls of the queries that contain it check "
                        + "whether the server still has it."
                )
            }
            if let version = row.version, facts.isUncertain {
                add(
                    .changedHere,
                    "The row has server version \(version), but its values may differ from the "
                        + "server's: they were set when an operation was discarded, or changed in the "
                        + "file. verify(queryID:repair:) compares them and restores the server's values."
                )
            } else if let version = row.version {
                add(.serverVersion, "The row matches server version \(version).")
            } else {
                add(
                    .localOnly,
                    "The row is on this device only: the server never returned a version of it, and "
                        + "no operation is pending. To send it, delete it and insert it again."
                )
            }
            return
        }
        addBaseVersion(of: first, last: facts.operations.last ?? first)
        switch first.basis.latest {
        case .row(let row):
            let version = row.version.map { "version \($0)" } ?? "another version"
            add(
                .newerOnServer,
                "The server now has \(version) of the row, which is used when the row's operations "
                    + "are complete."
            )
        case .deleted:
            add(
                .newerOnServer,
                "The server has deleted the row, which takes effect here when the row's operations "
                    + "are complete."
            )
        case nil: break
        }
    }

    private mutating func addLoss(_ lost: RowFacts.Lost, _ row: Row) {
        let state =
            switch lost {
            case .nothing: "does not have it"
            case .deletion: "has it as a deleted row"
            case .version(let version):
                "has \(version.map { "version \($0)" } ?? "another version") of it"
            }
        add(
            .lost,
            "The row has server version \(row.version ?? "unknown"). The server was then restored from "
                + "a backup and \(state). The row stays on this device until you send it again or "
                + "discard it: see SyncContext.lostRows()."
        )
    }

    private mutating func addBaseVersion(of first: QueuedOperation, last: QueuedOperation) {
        if let older = last.basisVersion {
            let version = older.isEmpty ? "an older server version" : "server version \(older)"
            add(.basis, "The change is based on \(version).")
        } else if let base = first.basis.base {
            let version =
                base.version.map { "server version \($0)" } ?? "a server row without a version"
            add(.basis, "The change is based on \(version).")
        } else if first.kind == .insert {
            add(.basis, "The row is new: the server has not returned a version of it.")
        }
    }

    // MARK: - Queries

    private mutating func addMembership(_ facts: RowFacts) {
        let bits = facts.membershipBits ?? 0
        let names = facts.queries.filter { $0.bits & bits != 0 }.map { "'\($0.id)'" }
        let isInUnnamed = bits & (1 << Int64(QueryHold.withoutID)) != 0
        let isPending = !facts.operations.isEmpty
        guard !names.isEmpty || isInUnnamed else {
            if facts.lost != nil || facts.isOfFormerEpoch { return }
            switch facts.membershipBits {
            // A local change stays until it is sent.
            case nil where isPending: break
            case nil:
                add(
                    .unheld,
                    "No query has returned the row yet. When a query is next read completely and "
                        + "does not return the row either, the row is removed."
                )
            case 0:
                let end = isPending ? " after its operations are complete." : "."
                add(.unheld, "No query contains the row: the next pull removes it\(end)")
            default:
                add(.held, "A query that is no longer known contains the row, until a purge.")
            }
            return
        }
        let query = names.count == 1 ? "The query" : "The queries"
        let named = names.isEmpty ? "" : "\(query) \(names.joined(separator: ", "))"
        let unnamed = named.isEmpty ? "A query without an id" : " and a query without an id"
        let verb = names.count + (isInUnnamed ? 1 : 0) == 1 ? "contains" : "contain"
        add(
            .held,
            "\(named)\(isInUnnamed ? unnamed : "") \(verb) the row"
                + (isPending ? ", until the server reports otherwise." : ".")
        )
    }

    private mutating func addPulls(_ facts: RowFacts) {
        guard facts.lastPull != nil || !facts.queries.isEmpty else {
            // A pending row does not need a pull.
            if facts.operations.isEmpty {
                add(.neverPulled, "Table '\(facts.table)' was never pulled. Pull it.")
            }
            return
        }
        for query in facts.queries {
            if !query.isOfThisEndpoint {
                add(
                    .otherEndpoint,
                    "The query '\(query.id)' was pulled from another server: its next pull starts "
                        + "over."
                )
            } else if query.isUnfinished {
                add(
                    .reading,
                    "The pull of query '\(query.id)' is incomplete: some rows have not been received. "
                        + "Pull it again."
                )
            }
        }
        if facts.row == nil, facts.operations.isEmpty {
            let names = facts.queries.map { "'\($0.id)'" }.joined(separator: ", ")
            add(
                .notPulled,
                "No pull returned the row, or a pull removed it: the server has no such row, or it "
                    + "matches none of the queries\(names.isEmpty ? "" : " " + names), or this "
                    + "caller may not see it, or it was created after the last pull. A remote read "
                    + "of this id shows which."
            )
        }
        if let lastPull = facts.lastPull {
            add(
                .lastPull,
                "The table was last pulled at \(lastPull.formatted(.iso8601)). Later changes on the "
                    + "server are not on this device."
            )
        }
    }
}
