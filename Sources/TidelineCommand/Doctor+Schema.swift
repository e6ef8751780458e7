// Doctor+Schema: whether the server's tables have what a device's have, and whether an index is missing
// for the pulls that are seen.
//
// The columns are asked for as any caller may, by $select; the indexes are told to operators only.

import Foundation
import Tideline
import TidelineCore
import TidelineServer
import TidelineServerCore

/// What `/$admin/overview` tells an operator of the tables.
struct ServerTables: Sendable {
    struct Table: Sendable {
        var name: String
        var columns: [String]
        /// The first column of each.
        var indexed: Set<String>
        /// How far the clock of the table is ahead of the server's wall clock.
        var clockAhead: Int
    }

    /// A pull that took long, without the values of its filter.
    struct SlowPull: Hashable, Sendable {
        var table: String
        var filter: String
    }

    /// By their names in lower case.
    private(set) var tables: [String: Table] = [:]
    private(set) var isDynamic = false
    private(set) var slow: [SlowPull] = []
    /// The checks on the database that do not work, in the words of the server.
    private(set) var warnings: [String] = []

    /// nil for what is no such answer.
    init?(_ body: [UInt8]) {
        let object = (try? JSONSerialization.jsonObject(with: Data(body))) as? [String: Any]
        guard let object, let tables = object["tables"] as? [[String: Any]] else { return nil }
        isDynamic = object["dynamicSchema"] as? Bool ?? false
        warnings = (object["warnings"] as? [[String]] ?? []).compactMap { $0.last }
        for table in tables {
            guard let name = table["name"] as? String else { continue }
            let columns = (table["columns"] as? [[String: Any]] ?? []).compactMap {
                $0["name"] as? String
            }
            let indexes = table["indexes"] as? [String] ?? []
            let first = indexes.compactMap { $0.split(separator: ",").first?.lowercased() }
            self.tables[name.lowercased()] = Table(
                name: name,
                columns: columns,
                indexed: Set(first),
                clockAhead: table["clockAheadSeconds"] as? Int ?? 0
            )
        }
        for request in object["slow"] as? [[String: Any]] ?? [] {
            guard request["method"] as? String == "GET", let path = request["path"] as? String,
                let table = path.split(separator: "/").dropFirst().first,
                let filter = Self.filter(in: request["query"] as? String ?? "")
            else { continue }
            let pull = SlowPull(table: String(table), filter: filter)
            if !slow.contains(pull) { slow.append(pull) }
        }
    }

    /// What stands behind `$filter=` in the shape of a query.
    static func filter(in query: String) -> String? {
        query.split(separator: "&").lazy.compactMap { option -> String? in
            guard option.lowercased().hasPrefix("$filter=") else { return nil }
            return String(option.dropFirst(8))
        }.first
    }

    /// The columns that a filter names, when no index begins with one of them.
    func unindexed(_ table: String, _ filter: String) -> [String]? {
        guard let table = tables[table.lowercased()] else { return nil }
        let words = Set(
            filter.lowercased().split { !($0.isLetter || $0.isNumber || $0 == "_") }.map(
                String.init
            )
        )
        let named = table.columns.filter { words.contains($0.lowercased()) }
        guard !named.isEmpty, named.allSatisfy({ !table.indexed.contains($0.lowercased()) }) else {
            return nil
        }
        return named
    }
}

extension Doctor {
    /// Names indexes that are missing for pulls that took long, and for those of a store.
    func checkIndexes(_ tables: ServerTables, _ store: Report?, _ findings: inout Findings) {
        var told: Set<String> = []
        func tell(_ table: String, _ filter: String, _ who: String) {
            guard let columns = tables.unindexed(table, filter),
                told.insert("\(table) \(columns)".lowercased()).inserted
            else { return }
            let first = columns[0]
            findings.add(
                "indexes \(table)",
                .warning,
                "\(who) filters by \(columns.joined(separator: ", ")), and no index begins with that. "
                    + "When the table is large: \"indexes\": [[\"\(first)\", \"updatedAt\"]] in its "
                    + "declaration, and a restart."
            )
        }
        for pull in tables.slow { tell(pull.table, pull.filter, "A slow request") }
        for cursor in store?.reports("cursors") ?? [] {
            guard let table = cursor.string("table"), let filter = cursor.string("filter") else {
                continue
            }
            tell(table, filter, "The device's query '\(cursor.string("query") ?? "")'")
        }
    }

    /// Names the columns of a device's table that the server's has not.
    func checkColumns(
        _ table: Report,
        _ path: String,
        _ asker: Asker,
        _ tables: ServerTables?,
        _ findings: inout Findings
    ) async {
        guard let name = table.string("name"), case .texts(let columns)? = table["columns"] else {
            return
        }
        let place = "columns \(name)"
        let missing: [String]
        if let known = tables?.tables[name.lowercased()] {
            let system = ["id", "createdat", "updatedat", "version", "deleted"]
            let served = Set(known.columns.map { $0.lowercased() } + system)
            missing = columns.filter { !served.contains($0.lowercased()) }
        } else {
            var refused: [String] = []
            for column in columns where await isRefused([column], path, asker) {
                refused.append(column)
            }
            missing = refused
        }
        guard !missing.isEmpty else {
            return findings.add(place, .fine, "The server has all columns of the device.")
        }
        let names = missing.joined(separator: ", ")
        if tables?.isDynamic == true {
            findings.add(place, .fine, "The first write makes what the server lacks: \(names).")
        } else {
            findings.add(
                place,
                .fault,
                "The server's table lacks \(names): what a device writes there is refused. Declare it in "
                    + "the server's configuration, and restart."
            )
        }
    }

    /// Whether the server knows no such column; an answer that says nothing of it is no refusal.
    private func isRefused(_ columns: [String], _ path: String, _ asker: Asker) async -> Bool {
        let names = columns.joined(separator: ",")
        let allowed = CharacterSet.alphanumerics
        guard let query = names.addingPercentEncoding(withAllowedCharacters: allowed) else {
            return false
        }
        let answer = try? await asker.get("/tables/\(path)?$top=1&$select=\(query)", signed: true)
        return answer?.status == 400
    }
}

// MARK: - The certificate

extension Doctor {
    private static let daySeconds = 86_400
    /// What renews certificates does so a month before their end.
    private static let warningDays = 14

    /// Until when the certificate holds that the server shows, whoever signed it.
    func checkCertificate(_ findings: inout Findings) async {
        guard server.scheme == "https", let host = server.host else { return }
        let port = server.port ?? 443
        let bare = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        let end = await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(returning: ShownCertificate.end(host: bare, port: port))
            }
        }
        guard let end else { return }
        let until = Timestamp(microseconds: end * 1_000_000).text
        let left = Int(end - Self.now / 1_000_000)
        let days = left / Self.daySeconds
        if left <= 0 {
            findings.add(
                "certificate",
                .fault,
                "The certificate ended at \(until). Renew it, then have the server read it (SIGHUP)."
            )
        } else if days < Self.warningDays {
            findings.add(
                "certificate",
                .warning,
                "The certificate ends in \(days) days, at \(until): what renews it has failed."
            )
        } else {
            findings.add("certificate", .fine, "The certificate holds until \(until).")
        }
    }
}
