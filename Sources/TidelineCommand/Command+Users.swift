// Command+Users: commands for the data of one user, and to compact a database.

import Foundation
import TidelineServer
import TidelineServerCore

extension Command {
    /// Prints each row and entry of a user as a line of JSON.
    static func export(_ configuration: ServerConfiguration, _ user: String) throws {
        do {
            try ServerDatabase(configuration).export(user: user) { try printLine($0) }
        } catch let error as Failure {
            throw error
        } catch {
            throw Failure(task: "The export is incomplete", cause: error)
        }
    }

    /// Prints the data of a user in the database, and removes it if requested.
    static func forget(
        _ configuration: ServerConfiguration,
        _ user: String,
        isApplied: Bool,
        _ isJSON: Bool
    ) throws {
        try change(configuration, user, isApplied: isApplied, isJSON, .forget) {
            try $0.forget(user: user)
        }
    }

    /// Prints the data of a user in the database, and transfers it to another user if requested.
    static func renameOwner(
        _ configuration: ServerConfiguration,
        _ user: String,
        to name: String,
        isApplied: Bool,
        _ isJSON: Bool
    ) throws {
        try change(configuration, user, isApplied: isApplied, isJSON, .rename(name)) {
            try $0.rename(user: user, to: name)
        }
    }

    private enum Change {
        case forget
        case rename(String)

        var task: String {
            switch self {
            case .forget: "Nothing was removed"
            case .rename: "Nothing was renamed"
            }
        }

        var done: String {
            switch self {
            case .forget:
                "Removed. Devices pull these tables from the start. Backups still have the data."
            case .rename:
                "Renamed. Devices pull these tables from the start; their pending changes are accepted."
            }
        }
    }

    private static func change(
        _ configuration: ServerConfiguration,
        _ user: String,
        isApplied: Bool,
        _ isJSON: Bool,
        _ change: Change,
        _ apply: (ServerDatabase) throws -> Void
    ) throws {
        let counts: [(part: String, count: Int)]
        let owned: [String]
        do {
            let database = try ServerDatabase(configuration)
            owned = database.ownedTables
            counts = try database.export(user: user)
            if isApplied, !counts.isEmpty { try apply(database) }
        } catch {
            throw Failure(task: change.task, cause: error)
        }
        let isChanged = isApplied && !counts.isEmpty
        guard !isJSON else {
            return try printLine(
                Report([
                    "isApplied": .flag(isChanged), "ownerTables": .texts(owned),
                    "parts": .list(
                        counts.map {
                            Report(["part": .text($0.part), "count": .integer(Int64($0.count))])
                        }
                    ),
                ])
                .json
            )
        }
        for (part, count) in counts { try printLine("\(part): \(count)") }
        if owned.isEmpty {
            try printLine("No table of the configuration has an owner: no rows were searched.")
        } else {
            try printLine("Searched for rows in: \(owned.joined(separator: ", "))")
        }
        if counts.isEmpty {
            try printLine("The database has no data of this user.")
        } else if isChanged {
            try printLine(change.done)
        } else {
            try printLine(
                "Nothing was changed yet. Make a backup, then run the command with --apply."
            )
        }
    }

    static func compact(_ configuration: ServerConfiguration, _ isJSON: Bool) throws {
        let (before, after): (Int64, Int64)
        do {
            (before, after) = try ServerDatabase(configuration).compact()
        } catch {
            throw Failure(task: "The database was not compacted", cause: error)
        }
        let report = Report(["bytesBefore": .integer(before), "bytesAfter": .integer(after)])
        try printLine(isJSON ? report.json : "\(before) bytes before, \(after) bytes now")
    }
}
