// CallerGate: the sender of a request, and its admission by token, rate and number of queries.

import TidelineCore

/// The admission of requests by caller.
struct CallerGate: Sendable {
    let settings: ServerSettings
    /// The rates of callers; nil if they are not limited.
    let rates: CallerRates?
    /// The counts of each caller's concurrent queries; nil if they are not limited.
    let queries: CallerQueries?

    init(_ settings: ServerSettings) {
        self.settings = settings
        rates = CallerRates(settings.limits)
        queries = CallerQueries(settings.limits)
    }

    /// Returns the sender of the request; nil without a token, or if authentication is not configured.
    func user(of request: ServerRequest) async throws -> User? {
        guard let authenticator = settings.authenticator else { return nil }
        do {
            let now = settings.environment.now()
            return try await authenticator.currentToken(of: request.headers, now: now)?.user
        } catch {
            settings.traffic.tokensRejected.add()
            noteRejection(.tokens, "address " + request.address)
            throw error
        }
    }

    /// Returns the sender of the request and admits it; a request with a rejected token is counted for its
    /// address.
    ///
    /// `isBatch` comes from the route, because paths such as `/%24batch` and `/$Batch/` also name the batch
    /// route.
    func admit(_ request: ServerRequest, isBatch: Bool = false) async throws -> User? {
        let user = try await countedUser(of: request, isBatch: isBatch)
        try checkRate(request, user, isBatch: isBatch)
        return user
    }

    /// Returns the sender of a request that is always admitted; a rejected token is counted, because checking
    /// it took time.
    func countedUser(of request: ServerRequest, isBatch: Bool = false) async throws -> User? {
        do {
            return try await user(of: request)
        } catch {
            try checkRate(request, nil, isBatch: isBatch)
            throw error
        }
    }

    /// Rejects a request with 429 if its caller exceeds the rate.
    func checkRate(_ request: ServerRequest, _ user: User?, isBatch: Bool = false) throws {
        guard let rates else { return }
        let isWrite = request.method != "GET" && !isBatch
        let cost = CallerRates.Cost(
            requests: 1,
            writes: isWrite ? 1 : 0,
            bytes: request.body.count
        )
        let now = settings.environment.now()
        guard let rejection = rates.take(cost, of: Self.name(of: request, user), now: now) else {
            return
        }
        settings.traffic.tooMany.add()
        noteRejection(.limits, Self.name(of: request, user))
        throw ServerError.askedForTooMuch(rejection)
    }

    /// Charges the parts of a request that were not counted on admission: the other requests of a batch, which was
    /// admitted as one request, and the bytes in addition to those that were sent.
    func charge(
        requests: Int = 1,
        writes: Int = 0,
        bytes: Int = 0,
        of request: ServerRequest,
        _ user: User?
    ) {
        guard let rates else { return }
        let cost = CallerRates.Cost(requests: max(0, requests - 1), writes: writes, bytes: bytes)
        rates.charge(cost, of: Self.name(of: request, user), now: settings.environment.now())
    }

    /// Returns the name of the caller: the user, or the network of a caller without a token.
    static func name(of request: ServerRequest, _ user: User?) -> String {
        user.map { "user " + $0.id } ?? "address " + CallerNetwork.name(of: request.address)
    }

    /// Answers an admitted request; a read, or a batch, is counted as a query until then.
    func counting<Answer>(
        _ request: ServerRequest,
        _ user: User?,
        isBatch: Bool = false,
        _ body: () async throws -> Answer
    ) async throws -> Answer {
        let reads = request.method == "GET" || isBatch
        guard let queries, reads else { return try await body() }
        let caller = Self.name(of: request, user)
        guard queries.begin(caller) else {
            settings.traffic.tooMany.add()
            noteRejection(.limits, caller)
            throw ServerError.queriesUnderWay
        }
        defer { queries.end(caller) }
        return try await body()
    }

    /// Records a rejected request, and logs the line that is due.
    func noteRejection(_ kind: RejectionLog.Kind, _ caller: String) {
        let now = settings.environment.now()
        guard let line = settings.traffic.rejections.note(kind, caller, now: now) else { return }
        let fields: KeyValuePairs = [
            "caller": line.caller, "requests": "\(line.ofCaller)", "ofAll": "\(line.count)",
        ]
        switch kind {
        case .tokens: settings.log.write(.warning, "tokens are rejected", fields)
        case .limits: settings.log.write(.warning, "callers exceed their limits", fields)
        }
    }
}
