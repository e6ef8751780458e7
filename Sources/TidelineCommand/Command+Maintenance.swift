// Command+Maintenance: maintenance by an operator: certificates, and the database as a file.

import Foundation
import TidelineServer
import TidelineServerCore

/// A task that failed, and the reason.
struct Failure: Error {
    var task: String
    var cause: any Error
}

// MARK: - Certificates

extension Command {
    static func makeCertificate(
        for hosts: [String],
        in directory: String,
        _ isJSON: Bool
    ) throws {
        let created = try naming("No certificate was created") {
            try ServerCertificate.make(hosts: hosts, directory: directory)
        }
        let report = Report([
            "authorityFile": .text(created.authorityFile),
            "certificateFile": .text(created.tls.certificateFile),
            "keyFile": .text(created.tls.keyFile),
            "isAuthorityKept": .flag(created.isAuthorityKept),
        ])
        try printLine(isJSON ? report.json : created.description)
    }
}

// MARK: - The database

extension Command {
    private static func naming<Result>(
        _ task: String,
        _ body: () throws -> Result
    ) throws
        -> Result
    {
        do {
            return try body()
        } catch {
            throw Failure(task: task, cause: error)
        }
    }

    static func backup(
        _ configuration: ServerConfiguration,
        _ file: String?,
        _ isJSON: Bool
    ) throws {
        let database = try naming("No backup was created") { try ServerDatabase(configuration) }
        guard let file else { return try advise(database, isJSON) }
        let progress = Progress.ofBackup(configuration, to: file, isJSON)
        defer { progress?.end() }
        let bytes = try naming("No backup was created") { try database.backup(to: file) }
        progress?.end()
        guard !isJSON else {
            return try printLine(Report(["file": .text(file), "bytes": .integer(bytes)]).json)
        }
        try printLine("backup in \(file), \(bytes) bytes")
    }

    /// Explains how to back up a PostgreSQL database; the exit code shows whether backups are set up.
    private static func advise(_ database: ServerDatabase, _ isJSON: Bool) throws {
        let advice = try naming("Cannot read the backup settings") { try database.backupAdvice() }
        guard let advice else { throw UsageError("backup needs FILE; see tideline --help.") }
        if isJSON {
            try printLine(
                Report([
                    "isReady": .flag(advice.isReady),
                    "advice": .text(advice.description),
                ])
                .json
            )
        } else {
            try printLine(advice.description)
        }
        if !advice.isReady { exit(1) }
    }

    static func copy(
        from source: ServerConfiguration.Database,
        to target: ServerConfiguration.Database,
        _ isJSON: Bool
    ) throws {
        var counts: [(part: String, count: Int)] = []
        let progress = Progress("copy", isJSON: isJSON)
        defer { progress?.end() }
        let leftOut = try naming("The copy is incomplete") {
            try ServerDatabase.copy(from: source, to: target) { part, count in
                progress?.take(part, count)
                if counts.last?.part == part {
                    counts[counts.count - 1].count += count
                } else {
                    counts.append((part, count))
                }
            }
        }
        progress?.end()
        guard !isJSON else {
            let parts = counts.filter { $0.count > 0 }.map { part, count in
                Report(["part": .text(part), "count": .integer(Int64(count))])
            }
            var report = Report(["copied": .list(parts)])
            if !leftOut.isEmpty { report["leftOut"] = .texts(leftOut) }
            return try printLine(report.json)
        }
        for (part, count) in counts where count > 0 { try printLine("\(part): \(count)") }
        if !leftOut.isEmpty {
            try printLine("Not copied, because not declared: \(leftOut.joined(separator: ", "))")
        }
        try printLine(
            "Copied. Devices continue to sync when a server with the same tables serves the copy."
        )
    }

    static func restore(
        _ configuration: ServerConfiguration,
        _ backup: String,
        _ isJSON: Bool
    ) throws {
        let progress = Progress.ofRestore(configuration, from: backup, isJSON)
        defer { progress?.end() }
        if ServerDatabase.mayLackItsLog(backup) {
            complain(
                "Note: '\(backup)' was not created by 'tideline backup'. If it was copied while a server ran, "
                    + "or after it was killed, the changes in its log '\(backup)-wal' are missing."
            )
        }
        let (epoch, former) = try naming("Nothing was restored") {
            try ServerDatabase(configuration).restore(from: backup)
        }
        progress?.end()
        guard case .sqlite(let path) = configuration.database else { return }
        guard !isJSON else {
            let report = Report([
                "file": .text(path), "epoch": .text(epoch), "former": Report.Item(former),
            ])
            return try printLine(report.json)
        }
        if let former { try printLine("the replaced database is now \(former)") }
        try printLine(
            "restored to \(path); new epoch \(epoch): clients keep their changes and pull everything "
                + "from the start"
        )
    }

    static func purgeTombstones(
        _ configuration: ServerConfiguration,
        _ tables: [String]?,
        _ days: Int,
        trustsClock: Bool,
        _ isJSON: Bool
    ) throws {
        let progress = Progress("purge-tombstones", isJSON: isJSON)
        defer { progress?.end() }
        let removed = try naming("No deleted rows were removed") {
            try ServerDatabase(configuration).purgeTombstones(
                of: tables,
                olderThan: days,
                trustsClock: trustsClock
            ) {
                progress?.take($0, $1)
            }
        }
        progress?.end()
        let report = Report([
            "tables": .list(
                removed.map {
                    Report(["name": .text($0.table), "removed": .integer(Int64($0.rows))])
                }
            )
        ])
        try printLine(isJSON ? report.json : report.text)
    }

    static func audit(
        _ configuration: ServerConfiguration,
        _ query: AuditQuery,
        _ isJSON: Bool
    ) throws {
        let entries = try naming("The audit cannot be read") {
            try ServerDatabase(configuration).audit(query)
        }
        let report = Report([
            "changes": .list(
                entries.map { entry in
                    Report([
                        "time": .time(entry.timestamp), "table": .text(entry.table),
                        "id": .text(entry.id), "action": .text(entry.action.rawValue),
                        "user": Report.Item(entry.author.user),
                        "device": Report.Item(entry.author.device),
                        "dashboard": .flag(entry.author.isDashboard),
                        "version": .text(RowVersion.text(entry.timestamp)),
                        "columns": .texts(entry.columns),
                    ])
                }
            )
        ])
        if entries.isEmpty, let missing = missingAudit(query.table, configuration) {
            complain(missing)
        }
        try printLine(isJSON ? report.json : report.text)
    }

    /// Returns the reason why no entries are found; nil if the requested table is audited.
    private static func missingAudit(
        _ table: String?,
        _ configuration: ServerConfiguration
    ) -> String? {
        let names = configuration.tables.filter(\.audit).map { $0.name.lowercased() }
        guard let table else {
            return names.isEmpty ? "No table of the configuration has 'audit'." : nil
        }
        if names.contains(table.lowercased()) { return nil }
        return "Table '\(table)' has no 'audit' in the configuration."
    }

    static func run(_ bench: Bench, _ isJSON: Bool) async throws {
        let (report, isClean): (Report, Bool)
        let signals = Signals()
        let stop = StopFlag()
        let progress = Progress("bench", isJSON: isJSON)
        defer { progress?.end() }
        signals.raise(stop) {
            progress?.end()
            complain(
                "Interrupted. The requests in progress are finished, and the inserted rows deleted. A second "
                    + "signal ends immediately and leaves the rows."
            )
        }
        do {
            (report, isClean) = try await bench.run(stop: stop)
            progress?.end()
        } catch {
            throw Failure(task: "The server was not measured", cause: error)
        }
        // Keeps the signals alive until here: they are the only owner of the handlers.
        withExtendedLifetime(signals) {}
        try printLine(isJSON ? report.json : report.text)
        if !isClean { exit(1) }
    }

    static func inspect(_ file: String, _ isJSON: Bool) throws {
        let report = try naming("The file cannot be inspected") {
            try FileInspection.report(of: file)
        }
        try printLine(isJSON ? report.json : report.text)
    }

    static func inspect(_ configuration: ServerConfiguration, _ isJSON: Bool) throws {
        let report = try naming("The database cannot be inspected") {
            try ServerDatabase(configuration).report()
        }
        try printLine(isJSON ? report.json : report.text)
    }

    static func restored(_ configuration: ServerConfiguration, _ isJSON: Bool) throws {
        let epoch = try naming("The epoch was not changed") {
            try ServerDatabase(configuration).renewEpoch()
        }
        guard !isJSON else { return try printLine(Report(["epoch": .text(epoch)]).json) }
        try printLine("new epoch \(epoch): clients keep their changes and pull from the start")
    }

    static func resetClocks(
        _ configuration: ServerConfiguration,
        _ tables: [String]?,
        _ isJSON: Bool
    ) throws {
        let (epoch, reset) = try naming("No table clock was reset") {
            try ServerDatabase(configuration).resetClocks(of: tables)
        }
        guard !isJSON else {
            let tables = reset.map {
                Report(["name": .text($0.table), "rows": .integer(Int64($0.rows))])
            }
            return try printLine(
                Report(["epoch": Report.Item(epoch), "tables": .list(tables)]).json
            )
        }
        guard let epoch else {
            return try printLine("No table clock is ahead of the wall clock; nothing was changed.")
        }
        for (table, rows) in reset {
            try printLine("\(table): the table clock is reset, \(rows) rows have new versions")
        }
        try printLine("new epoch \(epoch): clients keep their changes and pull from the start")
    }

    static func migrate(
        _ configuration: ServerConfiguration,
        isApplied: Bool,
        showsSQL: Bool,
        _ isJSON: Bool
    ) throws {
        let progress = Progress("migrate", isJSON: isJSON)
        defer { progress?.end() }
        let plan = try naming("The tables were not changed") {
            let database = try ServerDatabase(configuration)
            guard isApplied else { return try database.migrationPlan() }
            return try database.migrate { progress?.take($0, $1) }
        }
        progress?.end()
        guard !isJSON else {
            let report = Report([
                "isEmpty": .flag(plan.isEmpty), "isApplied": .flag(isApplied && !plan.isEmpty),
                "changesValues": .flag(plan.changesValues),
                "steps": .list(plan.steps.map { Report(["text": .text($0)]) }),
                "statements": .list(
                    showsSQL ? plan.statements.map { Report(["text": .text($0)]) } : []
                ),
            ])
            return try printLine(report.json)
        }
        if !plan.steps.isEmpty { try printLine(plan.description) }
        if showsSQL, !plan.isEmpty {
            for statement in plan.statements { try printLine("\n" + statement + ";") }
        }
        if plan.isEmpty {
            try printLine("Nothing to do: the tables match the configuration.")
        } else if isApplied {
            try printLine("Done.")
        } else {
            try printLine(
                """
                Nothing was changed yet. Make a backup (tideline backup FILE), stop the server, \
                then run: tideline migrate --apply
                """
            )
        }
    }
}
