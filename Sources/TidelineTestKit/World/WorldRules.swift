// WorldRules: simulated users who enter values that the model's rules reject.

import Tideline
import TidelineCore

/// A user's attempts to store values that break a rule, which the device must reject before it
/// queues them.
enum WorldRules {
    /// The number of edits between two attempts.
    private static let every = 5

    /// Tries to store a value that breaks a rule; most calls do nothing.
    ///
    /// - Returns: A description of the problem; nil if the device rejected the value.
    static func attempt(
        _ id: String,
        exists: Bool,
        in table: SyncTable<WorldItem>,
        turn: Int
    ) async throws -> String? {
        guard turn.isMultiple(of: every) else { return nil }
        let text = turn.isMultiple(of: 2) ? "" : String(repeating: "x", count: 25)
        do {
            if exists {
                try await table.update(id: id) { $0.text = text }
            } else {
                try await table.insert(WorldItem(id: id, text: text))
            }
            return "A value that breaks a rule was stored in \(id)."
        } catch let error as SyncError where error.code == .ruleBroken {
            return nil
        }
    }
}
