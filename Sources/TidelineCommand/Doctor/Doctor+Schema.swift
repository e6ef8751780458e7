// Doctor+Schema: checks whether the server's tables have the columns of a device's tables, and
// whether an index is missing for observed pulls.
//
// It finds out the columns by $select, which any caller may use. The server reports indexes only to
// operators. With the schema document of an app's models it compares everything that both declare.

import Foundation
import Tideline
import TidelineCore
import TidelineServer
import TidelineServerCore

/// The tables as `/$admin/overview` reports them to an operator.
struct ServerTables: Sendable {
    struct Table: Sendable {
        var name: String
        var columns: [String]
        /// The first column of each index.
        var indexed: Set<String>
        /// The seconds that the table clock is ahead of the server's wall clock.
        var clockAhead: Int
    }

    /// A slow pull, without the values of its filter.
    struct SlowPull: Hashable, Sendable {
        var table: String
        var filter: String
    }

    /// The tables by their names in lower case.
    private(set) var tables: [String: Table] = [:]
    private(set) var isDynamic = false
    private(set) var slow: [SlowPull] = []
    /// The database checks that failed, in the words of the server.
    private(set) var warnings: [String] = []

    /// Returns nil if the body is not a response of `/$admin/overview`.
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

    /// Returns the text after `$filter=` in a query whose values were replaced.
    static func filter(in query: String) -> String? {
        query.split(separator: "&").lazy.compactMap { option -> String? in
            guard option.lowercased().hasPrefix("$filter=") else { return nil }
            return String(option.dropFirst(8))
        }.first
    }

    /// Returns the columns that a filter names, if no index begins with one of them.
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
    /// Reports missing indexes for slow pulls, and for the pulls of a store.
    func checkIndexes(_ tables: ServerTables, _ store: Report?, _ findings: inout Findings) {
        var reported: Set<String> = []
        func check(_ table: String, _ filter: String, _ who: String) {
            guard let columns = tables.unindexed(table, filter),
                reported.insert("\(table) \(columns)".lowercased()).inserted
            else { return }
            let first = columns[0]
            findings.add(
                "indexes \(table)",
                .warning,
                "\(who) filters by \(columns.joined(separator: ", ")), but no index begins with one of "
                    + "them. If the table is large, add \"indexes\": [[\"\(first)\", \"updatedAt\"]] "
                    + "to its declaration, and restart the server."
            )
        }
        for pull in tables.slow { check(pull.table, pull.filter, "A slow request") }
        for cursor in store?.reports("cursors") ?? [] {
            guard let table = cursor.string("table"), let filter = cursor.string("filter") else {
                continue
            }
            check(table, filter, "The device's query '\(cursor.string("query") ?? "")'")
        }
    }

    /// Reports columns of a device's table that the server's table lacks.
    func checkColumns(
        _ table: Report,
        _ local: Set<String>,
        _ path: String,
        _ asker: Asker,
        _ tables: ServerTables?,
        _ findings: inout Findings
    ) async {
        guard let name = table.string("name"), case .texts(let stored)? = table["columns"] else {
            return
        }
        let columns = stored.filter { !local.contains("\(name).\($0)") }
        let place = "columns \(name)"
        let missing: [String]
        if let known = tables?.tables[name.lowercased()] {
            let system = ["id", "createdat", "updatedat", "version", "deleted"]
            let served = Set(known.columns.map { $0.lowercased() } + system)
            missing = columns.filter { !served.contains($0.lowercased()) }
        } else {
            var rejected: [String] = []
            for column in columns where await isRejected([column], path, asker) {
                rejected.append(column)
            }
            missing = rejected
        }
        guard !missing.isEmpty else {
            return findings.add(place, .fine, "The server has all columns of the device.")
        }
        let names = missing.joined(separator: ", ")
        if tables?.isDynamic == true {
            findings.add(place, .fine, "The first write creates the missing columns: \(names).")
        } else {
            findings.add(
                place,
                .fault,
                "The server's table lacks \(names): it rejects writes to these columns. Declare them in "
                    + "the server's configuration, and restart the server."
            )
        }
    }

    /// Whether the server rejects these columns; an unrelated error does not count as a rejection.
    private func isRejected(_ columns: [String], _ path: String, _ asker: Asker) async -> Bool {
        let names = columns.joined(separator: ",")
        let allowed = CharacterSet.alphanumerics
        guard let query = names.addingPercentEncoding(withAllowedCharacters: allowed) else {
            return false
        }
        let answer = try? await asker.get("/tables/\(path)?$top=1&$select=\(query)", signed: true)
        return answer?.status == 400
    }
}

// MARK: - Models

extension Doctor {
    /// Reports the differences between the models of an app and the server's tables.
    func checkModels(_ findings: inout Findings) async {
        guard let models else { return }
        do {
            let source = SchemaSource.server(server, token: token, authority: authority)
            let app = try await SchemaSource.file(models).document()
            let differences = app.differences(from: try await source.document())
            if differences.isEmpty {
                findings.add("models", .fine, "The server has the tables of the app's models.")
            }
            for difference in differences {
                findings.add("models \(difference.table)", .fault, "\(difference).")
            }
        } catch {
            findings.add("models", .fault, "\(error)")
        }
    }

    /// Reports the differences that the app on the device found when it last compared its models with a server.
    func checkStoredDifferences(_ store: Report, _ findings: inout Findings) {
        for found in store.reports("differences") {
            guard let table = found.string("table"), let reason = found.string("difference") else {
                continue
            }
            let place = found.string("column").map { "\(table).\($0)" } ?? table
            let server = found.string("endpoint") ?? "its server"
            findings.add(
                "schema \(table)",
                .warning,
                "The app on the device does not match \(server): \(place): \(reason)."
            )
        }
    }
}

// MARK: - Certificate

extension Doctor {
    private static let daySeconds = 86_400
    /// How many days before its expiry a certificate causes a warning; tools usually renew it a month before.
    private static let warningDays = 14

    /// Reports when the server's certificate expires, without checking the authority that signed it.
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
                "The certificate expired at \(until). Renew it, then have the server reload it (SIGHUP)."
            )
        } else if days < Self.warningDays {
            findings.add(
                "certificate",
                .warning,
                "The certificate expires in \(days) days, at \(until). Check the tool that renews it."
            )
        } else {
            findings.add("certificate", .fine, "The certificate is valid until \(until).")
        }
    }
}
