// DatabaseError: the reason why a server's database cannot be used, as a message for its operator.

import TidelineCore

/// The reason why a database cannot be used; nothing in it was changed.
public struct DatabaseError: Error, Sendable, CustomStringConvertible {
    /// The category of the error.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String, Sendable {
            case missing
            case notPermitted
            case inUse
            case foreign
            case newerFormat
            case staleLog
            case full
            case damaged
            case exists
            case schemaChange
            case unavailable
        }
        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// The file or its folder does not exist.
        public static let missing = Self(.missing)
        /// The process may not read or write the file.
        public static let notPermitted = Self(.notPermitted)
        /// Another server or program is using the file.
        public static let inUse = Self(.inUse)
        /// The file is not a database, or not one that this server created.
        public static let foreign = Self(.foreign)
        /// A newer server created the file.
        public static let newerFormat = Self(.newerFormat)
        /// The log next to the file belongs to another file.
        public static let staleLog = Self(.staleLog)
        /// The disk is full.
        public static let full = Self(.full)
        /// The contents of the file are damaged.
        public static let damaged = Self(.damaged)
        /// The file to be created already exists.
        public static let exists = Self(.exists)
        /// The declared tables are invalid, or do not match the stored tables.
        public static let schemaChange = Self(.schemaChange)
        /// Any other reason.
        public static let unavailable = Self(.unavailable)

        /// The name of the code.
        public var description: String { kind.rawValue }
    }

    /// The category of the error.
    public var code: Code
    /// The description of the error, and how to fix it.
    public var message: String

    /// The message.
    public var description: String { message }

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}
extension DatabaseError {
    /// The wall clock is implausibly far ahead of the last time in the database.
    package static func doubtedClock(_ place: String, now: Int64, known: Int64) -> DatabaseError {
        let days = (now - known) / 86_400_000_000
        return DatabaseError(
            .unavailable,
            "The wall clock of this machine shows \(Timestamp(microseconds: now).text), \(days) days later "
                + "than the latest time in '\(place)'. If the wall clock is right, run the command with "
                + "--trust-clock."
        )
    }
}
