// Repeatability: writes that may be sent twice and are executed once (OASIS Repeatable Requests 1.0).
//
// The ledger of a database stores, for each write with an idempotency key, a digest of the request and the answer, in
// the transaction of the write. Rejections are not stored: a rejected caller may retry.

import TidelineCore

/// The idempotency key of a write.
package struct RepeatKey: Hashable, Sendable {
    /// The id of the user; nil for a caller without a token.
    ///
    /// The same request id of another caller is a different key.
    package var caller: String?
    /// The caller's id for the request.
    package var requestID: String
    /// When the caller first sent the request, in microseconds since 1970.
    package var firstSent: Int64
    /// The digest of the request, which is equal for equal requests.
    package var digest: [UInt8]

    package init(caller: String?, requestID: String, firstSent: Int64, digest: [UInt8]) {
        self.caller = caller
        self.requestID = requestID
        self.firstSent = firstSent
        self.digest = digest
    }

    /// The maximum number of characters of a request id.
    private static let requestIDMax = 128

    /// Whether an id consists of visible ASCII characters.
    private static func isWellFormed(_ id: String) -> Bool {
        (1...requestIDMax).contains(id.utf8.count) && id.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }
}

extension RepeatKey {
    /// The header fields as they were sent.
    package struct Fields: Hashable, Sendable {
        package var requestID: String?
        package var firstSent: String?

        package init() {}
    }

    /// Parses the fields of a request.
    ///
    /// Returns nil if there are none; throws a rejection with 400 unless both are present and well formed.
    init?(_ fields: Fields, caller: String?, digest: () -> [UInt8]) throws {
        if fields.requestID == nil && fields.firstSent == nil { return nil }
        guard let requestID = fields.requestID, let firstSent = fields.firstSent else {
            throw ServerError.repeatability(
                "Repeatability-Request-ID and Repeatability-First-Sent must be sent together."
            )
        }
        guard Self.isWellFormed(requestID) else {
            throw ServerError.repeatability(
                "Repeatability-Request-ID must be one string of 1 to \(Self.requestIDMax) visible "
                    + "characters."
            )
        }
        let time = HTTPDate.seconds(firstSent)?.multipliedReportingOverflow(by: 1_000_000)
        guard let time, !time.overflow else {
            throw ServerError.repeatability(
                "Repeatability-First-Sent must be a date such as 'Sun, 06 Nov 1994 08:49:37 GMT'."
            )
        }
        self.init(
            caller: caller,
            requestID: requestID,
            firstSent: time.partialValue,
            digest: digest()
        )
    }

    /// How far a caller's clock may be ahead, in microseconds.
    ///
    /// If a write's time is further ahead, the server cannot later determine whether its entry was removed,
    /// because it compares that time with the horizon of removed entries, which is in the past.
    package static let aheadMax: Int64 = 300_000_000

    /// Whether the key's `Repeatability-First-Sent` is in the future.
    package func isAhead(now: Int64) -> Bool { firstSent > now + Self.aheadMax }

    /// Returns whether the ledger may have had an entry for this write and removed it.
    ///
    /// - Parameters:
    ///   - now: The time of the server.
    ///   - days: The number of days for which the ledger keeps entries.
    ///   - horizon: The latest time of a removed entry: when its write was received, or first sent if that is
    ///     later; nil for none.
    /// - Returns: False only if it is certain that the write was never executed.
    package func mayBeForgotten(now: Int64, days: Int, horizon: Int64?) -> Bool {
        if firstSent < now - Int64(days) * 86_400_000_000 { return true }
        return horizon.map { firstSent <= $0 } ?? false
    }
}

extension TableCall {
    /// Returns the idempotency key of a write; nil if it has none.
    func repeatKey(table: String, id: String?) throws -> RepeatKey? {
        try RepeatKey(head.repeatability, caller: user?.id) { digest(table, id) }
    }

    /// Returns the id for the new row of a write with an idempotency key; nil for other writes.
    ///
    /// The id is the same each time, so that references to the row within a batch remain valid when the batch
    /// is repeated.
    func repeatableID() throws -> String? {
        guard let key = try RepeatKey(head.repeatability, caller: user?.id, digest: { [] }) else {
            return nil
        }
        let hash = SHA256.hash("\(key.caller.map { "=" + $0 } ?? "")\n\(key.requestID)".utf8)
        func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
            bytes.reduce(0) { $0 << 8 | UInt64($1) }
        }
        return TimeOrderedID.make(
            milliseconds: key.firstSent / 1000,
            random: (number(hash[..<8]), number(hash[8..<16]))
        )
    }

    /// Returns half of a SHA-256 hash of everything that identifies the write.
    private func digest(_ table: String, _ id: String?) -> [UInt8] {
        let conditions = head.conditions
        var hash = SHA256()
        // No part contains a zero except the body, which is the last.
        hash.update(request.method, endedBy: 0)
        hash.update(table.lowercased(), endedBy: 0)
        hash.update(id ?? "", endedBy: 0)
        hash.update(id == nil ? "table" : "row", endedBy: 0)
        hash.update(request.query, endedBy: 0)
        hash.update(generation == .classic ? "2" : "3", endedBy: 0)
        hash.update(head.options, endedBy: 0)
        hash.update(head.contentType ?? "", endedBy: 0)
        hash.update(conditions.ifMatch ?? "", endedBy: 0)
        hash.update(conditions.ifNoneMatch ?? "", endedBy: 0)
        hash.update(conditions.ifUnmodifiedSince ?? "", endedBy: 0)
        hash.update(conditions.ifModifiedSince ?? "", endedBy: 0)
        hash.update(request.body)
        return hash.finish(prefix: 16)
    }
}

extension ServerError {
    private static let field = "Repeatability-Result"

    static func repeatability(_ message: String) -> ServerError {
        ServerError(400, message, headers: [field: "rejected"], code: .repeatability)
    }

    /// The rejection of a key for a whole batch, whose requests are executed and repeated one by one.
    static let namedBatch = repeatability(
        "Repeatability-Request-ID and Repeatability-First-Sent do not apply to a batch. Send them in the "
            + "'headers' of each request of the batch."
    )

    /// The rejection of a request id that was used for a different request.
    package static let anotherRequest = ServerError(
        400,
        "A different request used this Repeatability-Request-ID. Send each request with its own id.",
        headers: [field: "rejected"],
        code: .repeatabilityMismatch
    )

    /// The rejection of a write whose entry the ledger may have removed, so that its outcome is unknown.
    package static let forgottenRequest = ServerError(
        412,
        "Repeatability-First-Sent is older than the idempotency ledger (limits.ledgerDays, "
            + "limits.ledgerBytes). Read the row, and decide whether the request is still needed.",
        headers: [field: "rejected"],
        code: .repeatabilityExpired
    )

    /// The rejection of a write whose outcome could not be found later, because its time is in the future.
    package static let requestFromTheFuture = ServerError(
        412,
        "Repeatability-First-Sent is more than \(RepeatKey.aheadMax / 1_000_000) seconds ahead of the "
            + "server's clock. Set it according to the 'Date' of this response, and send the request again.",
        headers: [field: "rejected"],
        code: .repeatabilityAhead
    )

    /// Returns the rejection for a request whose key was accepted and whose row was read.
    func accepted() -> ServerError {
        guard headers[Self.field] == nil, status < 500 else { return self }
        var error = self
        error.headers.append(Self.field, "accepted")
        return error
    }
}
