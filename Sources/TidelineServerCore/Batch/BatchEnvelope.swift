// BatchEnvelope: the requests of a batch, and the units in which they succeed or fail.

package import TidelineCore

/// A parsed batch, none of whose requests has been executed yet.
package struct BatchEnvelope: Sendable {
    /// The requests, in the order in which they were sent.
    package var requests: [BatchRequest] = []
    /// The single requests and the atomicity groups, in order.
    package var units: [BatchUnit] = []
    /// Whether the body says that the batch is a dry run.
    package var isDryRun = false

    /// Returns the table of a request, which an earlier request may have named; nil for none.
    func table(of place: Int) -> String? {
        var place = place
        while true {
            switch (requests[place].route, requests[place].target) {
            case (.table(let name)?, _), (.row(let name, _)?, _): return name
            case (_, .row(let earlier, _, _)) where earlier < place: place = earlier
            case (.health?, _), (.ready?, _), (.metrics?, _), (.batch?, _), (.events?, _),
                (.schema?, _), (.endpoint?, _), (.dashboard?, _), (.admin?, _), (.unknown?, _),
                (nil, _):
                return nil
            }
        }
    }
}

extension BatchEnvelope {
    /// Rejects requests that a dry run cannot undo, or whose result would depend on undone writes.
    func checkDryRun() throws {
        guard let unit = units.first(where: { $0.kind != .write }) else { return }
        throw ServerError.badBatch(
            "requests[\(unit.requests.lowerBound)]",
            "a dry run may contain only writes to tables"
        )
    }
}

/// A request of a batch.
package final class BatchRequest: Sendable {
    /// The id of the request and of its answer.
    package let id: String
    /// The method, in upper case.
    package let method: String
    package let target: BatchTarget
    /// The route of the path; nil for a row of another request, and for a path without a route.
    package let route: Route?
    /// The headers of this request, without those of the batch.
    package let headers: HTTPFields
    package let body: [UInt8]
    /// Whether the request has a condition (`if`), which the server does not support.
    package let hasCondition: Bool

    init(
        id: String,
        method: String,
        target: BatchTarget,
        route: Route?,
        headers: HTTPFields,
        body: [UInt8],
        hasCondition: Bool
    ) {
        self.id = id
        self.method = method
        self.target = target
        self.route = route
        self.headers = headers
        self.body = body
        self.hasCondition = hasCondition
    }

    /// Returns the request with another body.
    func with(body: [UInt8]) -> BatchRequest {
        BatchRequest(
            id: id,
            method: method,
            target: target,
            route: route,
            headers: headers,
            body: body,
            hasCondition: hasCondition
        )
    }
}

/// The target of a request in a batch.
package enum BatchTarget: Hashable, Sendable {
    /// A path and a query, as in a request line.
    case path(String, query: String)
    /// The row that an earlier request creates or names, with the rest of the path.
    case row(of: Int, rest: String, query: String)
}

/// Requests that are executed together: all of them or none.
package struct BatchUnit: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// Writes to tables, which can share a transaction with adjacent writes.
        case write
        /// A read, or a call of an endpoint.
        case single
    }

    package var kind: Kind
    /// The indexes of its requests.
    package var requests: Range<Int>
    /// The name of the atomicity group; nil for a request by itself.
    package var group: String?
    /// The earlier units that must succeed before this one is executed.
    package var dependsOn: [Int]

    package init(
        kind: Kind,
        requests: Range<Int>,
        group: String? = nil,
        dependsOn: [Int] = []
    ) {
        self.kind = kind
        self.requests = requests
        self.group = group
        self.dependsOn = dependsOn
    }
}

extension ServerError {
    /// Returns the rejection of a malformed batch, of which no request is executed.
    static func badBatch(_ place: String, _ fault: String, position: Int? = nil) -> ServerError {
        .badRequest("The batch is malformed: \(place): \(fault).", position: position)
    }

    /// The rejection of a single write with the preference for a dry run, which must not be executed.
    static let dryRunAlone = badRequest(
        "Only a batch can be a dry run. Send the request in POST /$batch with 'Prefer: \(Preferences.dryRun)'."
    )

    /// The rejection of a write that needs a table or a column that a dry run would have to create.
    static let dryRunGrows = badRequest(
        "The write needs a new table or column, which a dry run does not create."
    )

    static let multipartBatch = ServerError(
        415,
        "Batches must be JSON, not multipart/mixed. Send "
            + "{\"requests\":[{\"id\":…,\"method\":…,\"url\":…}]} as 'application/json'."
    )

    static func tooManyRequests(_ limit: Int) -> ServerError {
        ServerError(413, "A batch may have at most \(limit) requests (limits.batchRequests).")
    }

    static func batchTooLarge(_ limit: Int) -> ServerError {
        ServerError(413, "A batch may have at most \(limit) bytes (limits.batchBytes).")
    }

    /// Returns the rejection of a batch whose answers are too large.
    ///
    /// The status is not 413, which would mean that the request itself is too large.
    static func batchAnswersTooLarge(_ limit: Int) -> ServerError {
        ServerError(
            503,
            "Not executed: the responses of this batch already have \(limit) bytes "
                + "(limits.batchAnswerBytes). Send the request again, by itself or in another batch.",
            headers: ["Retry-After": "0"],
            code: .batchAnswersTooLarge
        )
    }

    package static let batchMemoryFull = ServerError(
        503,
        "Not executed: too many large responses wait for their callers (limits.answersBytes). Send the "
            + "request again, by itself or in another batch.",
        headers: ["Retry-After": "0"],
        code: .batchAnswersTooLarge
    )

    static let dependencyFailed = ServerError(
        424,
        "Not executed: a request or group that it depends on failed.",
        code: .dependencyFailed
    )

    static let groupFailed = ServerError(
        424,
        "Not executed: another request of its atomicity group failed.",
        code: .groupFailed
    )

    static let notProcessed = ServerError(
        424,
        "Not executed: an earlier request failed, and 'Prefer: continue-on-error' was not sent.",
        code: .notProcessed
    )

    static let noConditions = ServerError(
        424,
        "Not executed: the member 'if' of a batch is not supported. Leave it out.",
        code: .conditionsNotSupported
    )
}
