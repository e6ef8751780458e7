// BatchRun: performs batches.
//
// Consecutive writes are prepared one after another, performed together, and answered one by one. The answer to a
// request is the one that it would have got by itself, except for headers that an HTTP message has only once: the
// answer to the batch has those.

import TidelineCore

/// The runner of one batch, which performs the steps of ``BatchMachine`` on tables and endpoints.
struct BatchRun {
    private let service: TableService
    private let user: User?
    private let batch: ServerRequest
    private let envelope: BatchEnvelope
    /// Performs one request that does not write to a table.
    private let perform: (ServerRequest) async -> ServerResponse
    private let continuesOnError: Bool
    /// Whether the writes are undone.
    private let isDryRun: Bool
    /// The batch's headers, which apply to each request that does not override them.
    private let shared: HTTPFields
    private let tokens: HTTPFields

    private var machine: BatchMachine
    private var answers: [ServerResponse?]
    private let reservation: AnswerReservation
    private var budget: AnswerBudget
    /// The row of each prepared request for a row.
    private var rows: [(table: String, id: String)?]

    init(
        _ envelope: BatchEnvelope,
        of batch: ServerRequest,
        user: User?,
        service: TableService,
        continuesOnError: Bool,
        isDryRun: Bool,
        reservation: AnswerReservation,
        perform: @escaping (ServerRequest) async -> ServerResponse
    ) throws {
        self.envelope = envelope
        self.batch = batch
        self.user = user
        self.service = service
        self.perform = perform
        self.continuesOnError = continuesOnError
        self.isDryRun = isDryRun
        self.reservation = reservation
        budget = AnswerBudget(
            bytesMax: service.settings.limits.batchAnswerBytes,
            reservation: reservation
        )
        machine = BatchMachine(envelope.units, continuesOnError: continuesOnError)
        answers = Array(repeating: nil, count: envelope.requests.count)
        rows = Array(repeating: nil, count: envelope.requests.count)
        var shared = HTTPFields()
        var tokens = HTTPFields()
        if let host = batch.headers["Host"] { shared.append("Host", host) }
        let parameter = try QueryParameters(batch.query).values("zumo-api-version").first
        if let version = parameter ?? batch.headers[Self.version] {
            shared.append(Self.version, version)
        }
        if let device = batch.headers[RecentDevices.field] {
            shared.append(RecentDevices.field, device)
        }
        for name in ["Authorization", "X-ZUMO-AUTH"] {
            if let token = batch.headers[name] { tokens.append(name, token) }
        }
        self.shared = shared
        self.tokens = tokens
    }

    private static let version = "ZUMO-API-VERSION"

    /// Executes the batch; returns an answer for each request.
    mutating func run() async -> [ServerResponse] {
        while true {
            switch machine.next() {
            case .ask(let unit): await ask(unit)
            case .write(let units): await write(units)
            case .finish: return zip(answers, unitOfRequests()).map { $0 ?? left($1) }
            }
        }
    }

    private func unitOfRequests() -> [Int] {
        envelope.units.indices.flatMap { unit in
            envelope.units[unit].requests.map { _ in unit }
        }
    }

    private func left(_ unit: Int) -> ServerResponse {
        let isDependent = machine.ends[unit] == .dependencyFailed
        return ServerResponse(isDependent ? ServerError.dependencyFailed : .notProcessed)
    }

    private mutating func put(_ place: Int, _ answer: ServerResponse) {
        var answer = answer
        if let id = envelope.requests[place].headers[Self.requestID],
            RequestIDs.isWellFormed(id)
        {
            answer.headers.append(Self.requestID, id)
        }
        budget.take(bytes: answer.body.count)
        reservation.recordFinished(budget.bytes)
        answers[place] = answer
    }

    // MARK: - Separate requests

    private static let requestID = "X-Request-ID"

    private func request(_ place: Int) throws -> ServerRequest {
        let request = envelope.requests[place]
        let path: String
        let query: String
        switch request.target {
        case .path(let own, let text): (path, query) = (own, text)
        case .row(let other, let rest, let text):
            guard let row = rows[other] else { throw ServerError.dependencyFailed }
            (path, query) = (Self.path(row.table, row.id) + rest, text)
        }
        var headers = HTTPFields()
        headers.reserveCapacity(request.headers.all.count + shared.all.count)
        for field in request.headers { headers.append(field.name, field.value) }
        for field in shared where request.headers[field.name] == nil {
            headers.append(field.name, field.value)
        }
        var result = ServerRequest(
            method: request.method,
            path: path,
            query: query,
            headers: headers,
            body: request.body
        )
        let id = request.headers[Self.requestID] ?? ""
        result.id = RequestIDs.isWellFormed(id) ? id : batch.id
        return result
    }

    // MARK: - Reads and endpoints

    private mutating func ask(_ unit: Int) async {
        let place = envelope.units[unit].requests.lowerBound
        let answer = await answer(place)
        put(place, answer)
        machine.ended(unit, answer.status < 400 ? .succeeded : .failed)
    }

    private mutating func answer(_ place: Int) async -> ServerResponse {
        do {
            if envelope.requests[place].hasCondition { throw ServerError.noConditions }
            try budget.check()
            var request = try request(place)
            for field in tokens { request.headers.append(field.name, field.value) }
            if case .row(let table, let id)? = try? Route(path: request.path) {
                rows[place] = (table, id)
            }
            let answer = await perform(request).checkedForBatch()
            // The result of a write has to be reported; the result of an endpoint that only reads
            // can be dropped.
            let isRead = request.method == "GET"
            if isRead, !budget.fits(bytes: answer.body.count) { throw ServerError.batchMemoryFull }
            return answer
        } catch {
            return service.rejection(error, of: batch.id)
        }
    }

    private static func path(_ table: String, _ id: String) -> String {
        "/tables/" + PercentCoding.encode(table) + "/" + PercentCoding.encode(id)
    }

    // MARK: - Writes

    private mutating func write(_ units: [Int], attempt: Int = 1) async {
        var groups: [PreparedGroup] = []
        var tried: [Int] = []
        var places: [Int: Int] = [:]
        var rejected: (unit: Int, answers: [ServerResponse])?
        for unit in units {
            if machine.lacksDependency(unit) {
                machine.ended(unit, .dependencyFailed)
                continue
            }
            let (writes, rejections) = await prepare(unit)
            guard rejections.isEmpty else {
                if !continuesOnError {
                    // Whether this rejection applies is known only after the units before it have ended.
                    rejected = (unit, rejections)
                    break
                }
                reject(unit, rejections)
                continue
            }
            places[unit] = groups.count
            let others = envelope.units[unit].dependsOn.compactMap { places[$0] }
            groups.append(PreparedGroup(writes, dependsOn: others))
            tried.append(unit)
            // Columns that this unit adds to the tables are available to the requests after it. A dry run adds no
            // columns, and all of its units share one transaction.
            if !isDryRun, writes.contains(where: { $0.table.needsGrowth }) { break }
        }
        let outcomes = await service.writes.perform(
            groups,
            stopsAtFailure: !continuesOnError,
            budget: budget,
            isDryRun: isDryRun
        )
        if attempt < OutdatedTable.attemptsMax, learns(outcomes) {
            return await write(tried + (rejected.map { [$0.unit] } ?? []), attempt: attempt + 1)
        }
        var isWhole = true
        for (index, outcome) in outcomes.enumerated() {
            take(outcome, of: tried[index], groups[index].writes)
            if !outcome.isDone { isWhole = false }
        }
        if let rejected, isWhole { reject(rejected.unit, rejected.answers) }
    }

    /// Returns whether no unit was executed because other servers had changed tables.
    ///
    /// The definitions of the tables are now loaded.
    private func learns(_ outcomes: [GroupOutcome]) -> Bool {
        guard !outcomes.contains(where: \.isDone) else { return false }
        var hasLearned = false
        for case .failed(_, let outdated as OutdatedTable) in outcomes {
            do { try service.learn(outdated) } catch { return false }
            hasLearned = true
        }
        return hasLearned
    }

    private mutating func reject(_ unit: Int, _ rejections: [ServerResponse]) {
        for (place, answer) in zip(envelope.units[unit].requests, rejections) { put(place, answer) }
        machine.ended(unit, .failed)
    }

    /// Returns the answers for a unit whose member was rejected; nil stands for all members.
    private mutating func reject(_ unit: Int, at member: Int?, _ rejection: ServerResponse) {
        let others = ServerResponse(ServerError.groupFailed)
        let answers = envelope.units[unit].requests.enumerated().map { offset, _ in
            member == nil || offset == member ? rejection : others
        }
        reject(unit, answers)
    }

    /// Returns the writes of a unit, or an answer for each of its requests if it is rejected.
    private mutating func prepare(
        _ unit: Int
    ) async -> (writes: [PreparedWrite], rejections: [ServerResponse]) {
        let requests = envelope.units[unit].requests
        var writes: [PreparedWrite] = []
        writes.reserveCapacity(requests.count)
        var grown = GrownTables()
        for place in requests {
            do {
                let write = try await prepare(request: place, grown)
                grown.take(write)
                rows[place] = (write.table.name, write.operation.id)
                writes.append(write)
            } catch {
                let inner = envelope.requests[place]
                let table = envelope.table(of: place)
                let rejection = self.rejection(error, as: inner.body, table: table)
                let others = ServerResponse(ServerError.groupFailed)
                return ([], requests.map { $0 == place ? rejection : others })
            }
        }
        return (writes, [])
    }

    private func prepare(
        request place: Int,
        _ grown: GrownTables
    ) async throws -> PreparedWrite {
        if envelope.requests[place].hasCondition { throw ServerError.noConditions }
        let request = try request(place)
        let call = try TableCall(
            request,
            user: user,
            now: service.settings.environment.now()
        )
        switch try envelope.requests[place].route ?? Route(path: request.path) {
        case .table(let table):
            return try await service.writes.prepare(
                call,
                table: table,
                id: nil,
                grown: grown
            )
        case .row(let table, let id):
            return try await service.writes.prepare(
                call,
                table: table,
                id: id,
                grown: grown
            )
        case .health, .ready, .metrics, .batch, .events, .schema, .endpoint, .dashboard, .admin,
            .unknown:
            throw ServerError.noSuchPath
        }
    }

    private mutating func take(
        _ outcome: GroupOutcome,
        of unit: Int,
        _ writes: [PreparedWrite]
    ) {
        let requests = envelope.units[unit].requests
        switch outcome {
        case .done(let outcomes):
            for (offset, place) in requests.enumerated() {
                put(place, answer(writes[offset], outcomes[offset]))
            }
            machine.ended(unit, .succeeded)
        case .rejected(let member, let outcome):
            reject(unit, at: member, answer(writes[member], outcome))
        case .failed(let member, let error):
            let write = writes.count == 1 ? writes[0] : member.map { writes[$0] }
            let body = write?.call.request.body ?? []
            reject(unit, at: member, rejection(error, as: body, table: write?.table.name))
        case .dependencyFailed, .notReached:
            // The machine has recorded how this unit ended.
            break
        }
    }

    private func answer(_ write: PreparedWrite, _ outcome: WriteOutcome) -> ServerResponse {
        do {
            let answer = try service.writes.answer(write, outcome)
            return isDryRun ? answer.ofDryRun() : answer
        } catch {
            let body = write.call.request.body
            let answer = rejection(error, as: body, table: write.table.name)
            return isDryRun ? answer.ofDryRun() : answer
        }
    }

    /// Returns the answer to a rejected request, with the names of columns that its body has.
    private func rejection(_ error: any Error, as body: [UInt8], table: String?) -> ServerResponse {
        let named = table.map { service.catalog.named(error, as: body, table: $0) } ?? error
        return service.rejection(named, of: batch.id)
    }
}

extension ServerResponse {
    /// Returns the answer without the statement that the request was handled under its key.
    fileprivate func ofDryRun() -> ServerResponse {
        var answer = self
        answer.headers["Repeatability-Result"] = nil
        return answer
    }
}
