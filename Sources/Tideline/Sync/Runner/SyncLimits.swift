// SyncLimits: the bounds of a client, each with its reason.

/// The bounds of a client.
public struct SyncLimits: Sendable, Hashable {
    /// How often an operation or a page is tried in one push or pull.
    ///
    /// Only 408, 429, 5xx and answers that cannot be read are tried again.
    public var attemptsMax = 4

    /// The wait before the second attempt; it doubles from then on.
    public var retryDelayFirst: Duration = .milliseconds(500)

    /// The longest wait between two attempts, to which up to a quarter is added by chance; where
    /// the server asks for more, the push or pull ends.
    public var retryDelayMax: Duration = .seconds(30)

    /// How long one request may take.
    public var requestTimeMax: Duration = .seconds(60)

    /// How often one push settles a conflict of the same operation by sending again.
    ///
    /// Another device that writes without a pause could keep it busy for ever.
    public var conflictsMax = 8

    /// How many rows a pull asks for first.
    public var pageRowsFirst = 1000

    /// How many rows a pull asks for at most, once pages come quickly.
    ///
    /// A page is in memory whole, and the one behind it meanwhile.
    public var pageRowsMax = 4000

    /// How long a page may take; one that takes longer makes the next one smaller.
    public var pageTimeWanted: Duration = .seconds(4)

    /// How many pages one pull takes before it is ended as faulty.
    ///
    /// A server whose next links lead in a circle would never end it.
    public var pagesMax = 1_000_000

    /// How long the server's events may be silent before they are opened anew.
    public var liveSilenceMax: Duration = .seconds(90)

    /// How many handed-out rows a table remembers, for records without a `version`.
    public var handedOutRowsMax = 20_000

    /// The default limits.
    public init() {}
}
