// RowExplanation: the reasons for a row's state on the device, as sentences and codes.

/// An explanation of why a row is on this device, is missing, is out of date, or was not sent.
///
/// ```swift
/// let why = try await client.syncContext.explain(table: "TodoItem", id: milk.id)
/// print(why)
/// // The row is on this device.
/// // The update is pending: it has not been sent yet. The next push sends it.
/// // The change is based on server version AAAAAAAAB9E=.
/// // The query 'openItems' contains the row.
/// ```
///
/// The explanation contains no values of the row except its id and its versions.
public struct RowExplanation: Sendable, Hashable, CustomStringConvertible {
    /// A fact, and what it means.
    public struct Reason: Sendable, Hashable, CustomStringConvertible {
        /// The code that identifies the kind of fact.
        public var code: Code
        /// The fact in one or two sentences, with the remedy if something is wrong.
        public var message: String

        /// The message.
        public var description: String { message }
    }

    /// The code of a reason.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        private let name: String

        private init(_ name: String) { self.name = name }

        /// The row is on this device.
        public static let here = Self("here")
        /// The row is not on this device.
        public static let absent = Self("absent")
        /// An operation was never sent.
        public static let unsent = Self("unsent")
        /// An operation was sent, and its outcome is not known yet; it is resent unchanged.
        public static let attempted = Self("attempted")
        /// An attempt may have taken effect on the server although its outcome was never received.
        public static let outcomeUnknown = Self("outcomeUnknown")
        /// The server rejected an operation, which waits for the app.
        public static let parked = Self("parked")
        /// An operation in the queue cannot be read.
        public static let damaged = Self("damaged")
        /// An operation has to wait for the previous operation on the row.
        public static let behind = Self("behind")
        /// The version of the server's row that the local change is based on.
        public static let basis = Self("basis")
        /// A newer state of the row on the server is known, and is used when the operations are
        /// complete.
        public static let newerOnServer = Self("newerOnServer")
        /// The row is unchanged since the server sent it with a version.
        public static let serverVersion = Self("serverVersion")
        /// The values of the row may differ from the values that the server sent with the row's
        /// version.
        public static let changedHere = Self("changedHere")
        /// The server has never sent the row and no operation is pending, or the row's table stays
        /// on the device.
        public static let localOnly = Self("localOnly")
        /// A restored server has lost the row, or has only an older state of it.
        public static let lost = Self("lost")
        /// The row was pulled before the server was restored, and has not been requested since
        /// then.
        public static let formerEpoch = Self("formerEpoch")
        /// The queries that hold the row.
        public static let held = Self("held")
        /// No query holds the row.
        public static let unheld = Self("unheld")
        /// The table has never been pulled.
        public static let neverPulled = Self("neverPulled")
        /// The pull of a query is incomplete.
        public static let reading = Self("reading")
        /// A query was pulled from another server.
        public static let otherEndpoint = Self("otherEndpoint")
        /// No pull has returned the row.
        public static let notPulled = Self("notPulled")
        /// The time of the table's last pull; changes made after it are not on this device.
        public static let lastPull = Self("lastPull")

        /// The name of the code.
        public var description: String { name }
    }

    /// The table's name.
    public var table: String
    /// The row's id.
    public var itemID: String
    /// The reasons, with the most important one first.
    public var reasons: [Reason]

    /// Whether the row is on this device.
    public var isHere: Bool { has(.here) }

    /// Returns whether a reason has this code.
    public func has(_ code: Code) -> Bool { reasons.contains { $0.code == code } }

    /// The messages of all reasons, one on each line.
    public var description: String { reasons.map(\.message).joined(separator: "\n") }
}
