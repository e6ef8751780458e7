// Doctor+Clocks: checks whether table clocks are ahead of the server's wall clock.
//
// A wall clock that was ahead for a moment has a lasting effect: all later changes of a table are
// dated after the last one.

import Foundation
import Tideline
import TidelineCore
import TidelineServerCore

extension Doctor {
    /// Names tables whose changes are dated in the future.
    ///
    /// The server reports them to an operator; for the tables of a store the newest row that the
    /// caller may see is read.
    func checkTableClocks(
        _ tables: ServerTables?,
        _ store: Report?,
        _ asker: Asker,
        _ findings: inout Findings
    ) async {
        var ahead: [String: Int] = [:]
        for table in tables?.tables.values.map({ $0 }) ?? [] where table.clockAhead > 0 {
            ahead[table.name.lowercased()] = table.clockAhead
        }
        let names = store?.reports("tables").compactMap { $0.string("name") } ?? []
        for name in names where ahead[name.lowercased()] == nil {
            ahead[name.lowercased()] = await newestAhead(name, asker)
        }
        for (table, seconds) in ahead.sorted(by: { $0.key < $1.key }) where seconds > 0 {
            findings.add(
                "clock of \(table)",
                .warning,
                "The clock of the table is \(seconds) s ahead of the server's: the server's clock was "
                    + "ahead once, and all changes are dated in the future since. Run "
                    + "'tideline reset-clocks' there."
            )
        }
    }

    /// Returns how many seconds the newest row is ahead of the server's clock; nil if it cannot be
    /// read.
    private func newestAhead(_ name: String, _ asker: Asker) async -> Int? {
        let allowed = CharacterSet.urlPathAllowed.subtracting(CharacterSet(charactersIn: "/"))
        guard let path = name.addingPercentEncoding(withAllowedCharacters: allowed),
            let answer = try? await asker.get(
                "/tables/\(path)?$orderby=updatedAt%20desc&$top=1&$select=id,updatedAt"
                    + "&__includedeleted=true",
                signed: true
            ),
            answer.status == 200, let date = answer.headers["Date"],
            let now = HTTPDate.seconds(date),
            let object = try? JSONSerialization.jsonObject(with: Data(answer.body)),
            let row = ((object as? [String: Any])?["items"] as? [[String: Any]])?.first,
            let text = row["updatedAt"] as? String, let time = Timestamp(text)
        else { return nil }
        let seconds = ClockAhead.seconds(time.microseconds, now: now * 1_000_000)
        return Int(clamping: seconds)
    }
}
