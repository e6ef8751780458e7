// WorldDevice+Transactions: users who change several rows as one.

import Tideline

extension WorldDevice {
    /// Other rows that are changed in one transaction with a row, where this user does so now.
    func othersToEdit(with id: String, among ids: [String]) -> [String]? {
        draw { generator in
            guard generator.chance(30) else { return nil }
            let others = ids.filter { $0 != id }.shuffled(using: &generator)
            return Array(others.prefix(generator.chance(70) ? 1 : 2))
        }
    }

    /// Gives rows one text in one transaction; those that are not here are inserted.
    func editTogether(_ ids: [String]) async throws {
        let text = nextText()
        let client = try client()
        story?.tell(name, "sets text \(text) of \(ids.joined(separator: ", ")) in one")
        for id in ids { try await noteFlight(of: id, client) }
        transactions.begin(text, rows: ids, by: name)
        let inserted = try await client.syncContext.transaction { transaction in
            let todos = try transaction.table(WorldItem.self)
            var inserted: [String] = []
            for id in ids {
                if try todos.read(id: id) != nil {
                    try todos.update(id: id) { $0.text = text }
                } else {
                    try todos.insert(WorldItem(id: id, text: text))
                    inserted.append(id)
                }
            }
            return inserted
        }
        for id in ids { note(id, .text(text)) }
        for id in inserted { noteRank(id, nil) }
    }
}
