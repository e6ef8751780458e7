// WorldDevice+Transactions: edits of several rows in a single transaction.

import Tideline

extension WorldDevice {
    /// Draws the other rows that the user changes in the same transaction as the given row; nil for
    /// no transaction.
    func otherRowsToEdit(with id: String, among ids: [String]) -> [String]? {
        draw { generator in
            guard generator.chance(30) else { return nil }
            let others = ids.filter { $0 != id }.shuffled(using: &generator)
            return Array(others.prefix(generator.chance(70) ? 1 : 2))
        }
    }

    /// Sets the same text in several rows in one transaction, and inserts rows that do not exist.
    func editTogether(_ ids: [String]) async throws {
        let text = nextText()
        let client = try client()
        story?.add(name, "sets text \(text) of \(ids.joined(separator: ", ")) in one transaction")
        for id in ids { try await noteFlight(of: id, client) }
        transactions.begin(text, rows: ids, by: name)
        let inserted = try await client.syncContext.transaction { [self] transaction in
            let todos = try transaction.table(WorldItem.self)
            var inserted: [String] = []
            for id in ids {
                if try todos.read(id: id) != nil {
                    try todos.update(id: id) { $0.text = text }
                } else {
                    noteVanished(id)
                    try todos.insert(WorldItem(id: id, text: text))
                    inserted.append(id)
                }
            }
            return inserted
        }
        for id in ids { note(id, .text(text)) }
        for id in inserted { noteRank(id, nil) }
        resolved(ids.filter { !inserted.contains($0) })
    }
}
