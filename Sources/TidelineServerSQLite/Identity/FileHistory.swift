// FileHistory: recognizes an earlier state of a file.
//
// The file has an identity that each start replaces. The lock file next to it contains the same identity and the newest
// commit timestamp. A copy that was put back by hand has a different identity or an older commit, so links and cursors
// of devices may refer to changes that it does not have.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The record of a database file that is stored outside of it.
struct FileRecord: Hashable, Sendable {
    /// The identity; two of them while a start replaces the first with the second.
    var identities: [String]
    /// The newest commit timestamp that a server has recorded.
    var timestamp: Int64

    var text: String { "\(timestamp) \(identities.joined(separator: " "))" }

    init(identities: [String], timestamp: Int64) {
        self.identities = identities
        self.timestamp = timestamp
    }

    /// Parses a record; nil if it is invalid.
    init?(_ text: some StringProtocol) {
        let parts = text.split(separator: " ").map { String($0) }
        guard let first = parts.first, let timestamp = Int64(first), parts.count > 1 else {
            return nil
        }
        self.init(identities: Array(parts.dropFirst()), timestamp: timestamp)
    }
}

/// The identity of a database file, stored in the file.
struct FileIdentity: Hashable, Sendable {
    var name: String
    /// The number of the file in its file system.
    var inode: Int64

    /// The identity of a backup until a server is started with it.
    static let backup = "backup"

    static let table = """
        CREATE TABLE IF NOT EXISTS "tideline_file" (
            "identity" TEXT    NOT NULL,
            "inode"    INTEGER NOT NULL
        ) STRICT
        """

    /// Reads the identity; nil for a file that no server of this storage format has used.
    static func read(_ database: Database) throws -> FileIdentity? {
        guard try database.integer(ServerSchema.hasTable, [.text("tideline_file")]) != 0 else {
            return nil
        }
        let statement = try database.prepare(
            "SELECT \"identity\", \"inode\" FROM \"tideline_file\""
        )
        defer { statement.reset() }
        guard try statement.step() else { return nil }
        return FileIdentity(name: statement.text(0), inode: statement.integer(1))
    }

    func put(_ database: Database) throws {
        try Self.remove(database)
        try database.prepare("INSERT INTO \"tideline_file\" VALUES (?1, ?2)")
            .run([.text(name), .integer(inode)])
    }

    /// Removes the identity, so that the next start compares nothing.
    static func remove(_ database: Database) throws {
        try database.execute(table)
        try database.execute("DELETE FROM \"tideline_file\"")
    }

    /// Returns the newest commit timestamp of all tables.
    static func timestamp(_ database: Database) throws -> Int64 {
        try database.integer("SELECT coalesce(max(\"stamp\"), 0) FROM \"tideline_tables\"") ?? 0
    }
}

/// The result of the comparison of a database file with the record that its server left.
enum FileHistory: Hashable, Sendable {
    /// The file is as a server left it, or it has no record.
    case same
    /// The file may lack commits that devices know, for this reason.
    case changed(String)

    /// Compares a file with its recorded history.
    ///
    /// - Parameters:
    ///   - inside: The identity in the file.
    ///   - outside: The record next to it.
    ///   - inode: The number of the file.
    ///   - timestamp: The newest commit timestamp in the file.
    init(inside: FileIdentity?, outside: FileRecord?, inode: Int64, timestamp: Int64) {
        switch (inside, outside) {
        case (nil, nil): self = .same
        case (let inside?, _) where inside.name == FileIdentity.backup:
            self = .changed("it is a backup that was not restored with 'tideline restore'")
        case (let inside?, nil) where inside.inode == inode: self = .same
        case (_, nil):
            self = .changed(
                "it is a copy, and the lock file that shows how old it may be is missing"
            )
        case (let inside?, let outside?) where outside.identities.contains(inside.name):
            self =
                timestamp < outside.timestamp
                ? .changed("it lacks commits that the server has acknowledged") : .same
        case (_, _?): self = .changed("the file at its path was replaced")
        }
    }
}
