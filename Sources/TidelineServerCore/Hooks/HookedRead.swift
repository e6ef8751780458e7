// HookedRead: the hooks around lists and single rows.

import TidelineCore

/// The hooks around reads.
struct ReadHooks {
    let log: ServerLog

    func before(_ call: TableCall, _ table: Table, _ id: String?) async throws {
        guard let hook = table.hooks?.beforeRead else { return }
        let read = Self.read(call, table, id)
        try await rejecting { try await hook(read) }
    }

    /// Runs the hook after a read; its errors are only logged, because the rows were found.
    func after(_ call: TableCall, _ table: Table, _ id: String?, rows: Int) async {
        guard let hook = table.hooks?.afterRead else { return }
        do {
            try await hook(Self.read(call, table, id), rows)
        } catch {
            log.write(
                .error,
                "a hook failed after a read",
                ["request": call.request.id, "table": table.name, "cause": "\(error)"]
            )
        }
    }

    private static func read(_ call: TableCall, _ table: Table, _ id: String?) -> TableRead {
        TableRead(table: table.name, id: id, user: call.user, requestID: call.request.id)
    }
}
