// Doctor+Clocks: checks whether table clocks are ahead of the server's wall clock.
//
// A wall clock that was ahead for a moment has a lasting effect: the table clock never goes back, so
// all later changes of the table get times in the future.

import Foundation
import Tideline
import TidelineCore
import TidelineServerCore

extension Doctor {
    /// Reports tables whose changes have times in the future.
    ///
    /// The server reports to operators how far each table clock is ahead. For the tables of a store, the check
    /// reads the newest row that the caller may see.
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
                "The table clock is \(seconds) s ahead of the server's wall clock, which must have been wrong "
                    + "at some time. All changes since then have times in the future. Run "
                    + "'tideline reset-clocks' on the server."
            )
        }
    }

    /// Returns how many seconds the newest row is ahead of the server's wall clock; nil if it cannot be
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
