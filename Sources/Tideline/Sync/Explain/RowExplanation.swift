// RowExplanation: why a row is on the device as it is, in words and as codes.

/// Why a row is on this device as it is, is missing, is old, or was not sent.
///
/// ```swift
/// let why = try await client.syncContext.explain(table: "TodoItem", id: milk.id)
/// print(why)
/// // The row is on this device.
/// // The update waits to be sent: nothing was tried yet. The next push sends it.
/// // It is based on version AAAAAAAAB9E= of the server.
/// // The query 'openItems' holds it.
/// ```
///
/// It contains no values of the row except its id and its versions.
public struct RowExplanation: Sendable, Hashable, CustomStringConvertible {
    /// One fact and what it means.
    public struct Reason: Sendable, Hashable, CustomStringConvertible {
        /// The kind of fact.
        public var code: Code
        /// The fact in a sentence or two, and how to fix it if something is wrong.
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
        /// An operation was sent and has no outcome yet; it is sent again unchanged.
        public static let attempted = Self("attempted")
        /// An attempt may have taken effect on the server although its outcome was never received.
        public static let outcomeUnknown = Self("outcomeUnknown")
        /// The server rejected an operation, which waits for the app.
        public static let parked = Self("parked")
        /// An entry of the queue cannot be read.
        public static let damaged = Self("damaged")
        /// An operation waits for the one before it.
        public static let behind = Self("behind")
        /// Which version of the server the local change is based on.
        public static let basis = Self("basis")
        /// A newer state of the server is known, and waits for the operations to end.
        public static let newerOnServer = Self("newerOnServer")
        /// The row is as the server sent it under a version.
        public static let serverVersion = Self("serverVersion")
        /// The row may have other values than those that the server sent under its version.
        public static let changedHere = Self("changedHere")
        /// The server never sent the row, and no operation is pending.
        public static let localOnly = Self("localOnly")
        /// A restored server lost the row, or has it in an older state only.
        public static let lost = Self("lost")
        /// The row was pulled before the server was restored, and was not requested since.
        public static let formerEpoch = Self("formerEpoch")
        /// Which queries hold the row.
        public static let held = Self("held")
        /// No query holds the row.
        public static let unheld = Self("unheld")
        /// The table was never pulled.
        public static let neverPulled = Self("neverPulled")
        /// A query was not read to its end.
        public static let reading = Self("reading")
        /// A query was pulled from another server.
        public static let otherEndpoint = Self("otherEndpoint")
        /// No pull brought the row.
        public static let notPulled = Self("notPulled")
        /// When the table was last pulled: what changed since is not here.
        public static let lastPull = Self("lastPull")

        /// The name of the code.
        public var description: String { name }
    }

    /// The table's name.
    public var table: String
    /// The row's id.
    public var itemID: String
    /// The reasons, the most important first.
    public var reasons: [Reason]

    /// Whether the row is on this device.
    public var isHere: Bool { has(.here) }

    /// Whether a reason of this code is among them.
    public func has(_ code: Code) -> Bool { reasons.contains { $0.code == code } }

    /// The reasons, one on each line.
    public var description: String { reasons.map(\.message).joined(separator: "\n") }
}
