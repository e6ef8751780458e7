// Waits that the server asked for with `Retry-After`: what they hold back, and where they are kept.

import Foundation
import TidelineCore

extension RemoteService {
    /// The server's time, as far as its answers tell it.
    var serverTime: Date { clock.time(at: environment.now()) }

    /// How much is left of the wait that the server asked for.
    var busyTime: Duration {
        busy.period?.remaining(at: environment.now(), uptime: environment.uptime()) ?? .zero
    }

    /// Until when the server asked to be sent no requests; nil if it did not, or if that time is over.
    var busyUntil: Date? {
        let time = busyTime
        guard time > .zero else { return nil }
        return environment.now().addingTimeInterval(TimeInterval(time.components.seconds))
    }

    /// Takes note of an answer: it may ask for a wait, or end one.
    ///
    /// `number` is the count of ``SharedBusyPeriod`` when the request was sent; `isSuccess` is whether the answer
    /// shows that the server does its work.
    func hear(status: Int, headers: HTTPFields, sentAt number: Int, isSuccess: Bool) {
        if let wait = Self.asked(status: status, headers, serverTime), wait > .zero {
            guard heedsRetryAfter else { return }
            busy.begin(
                BusyPeriod(
                    received: environment.now(),
                    length: wait,
                    lengthMax: limits.retryAfterMax,
                    uptime: environment.uptime()
                ),
                sentAt: number
            )
        } else if isSuccess {
            busy.end(sentAt: number)
        }
    }

    /// Takes note of the answer to a whole request.
    func hear(_ response: TransportResponse, sentAt number: Int) {
        hear(
            status: response.status,
            headers: response.headers,
            sentAt: number,
            isSuccess: response.showsWork
        )
    }

    /// Takes note of the answers inside a batch: a wait holds for the server only if each of them asks for one.
    ///
    /// A 429 is said of the caller, so one of them is enough.
    func hear(_ answers: [TransportResponse], sentAt number: Int) {
        let all = answers.map { ($0, Self.asked(status: $0.status, $0.headers, serverTime)) }
        let isOfAll = all.allSatisfy { ($0.1 ?? .zero) > .zero }
        let waits = isOfAll ? all : all.filter { $0.0.status == 429 && ($0.1 ?? .zero) > .zero }
        guard let longest = waits.max(by: { ($0.1 ?? .zero) < ($1.1 ?? .zero) }) else { return }
        hear(longest.0, sentAt: number)
    }

    /// The wait that an answer asks for, if it is one of a busy server or of something in front of it.
    private static func asked(
        status: Int,
        _ headers: HTTPFields,
        _ serverTime: Date
    ) -> Duration? {
        guard [408, 413, 429].contains(status) || status >= 500 else { return nil }
        return headers["Retry-After"].flatMap {
            RetryAfter.wait($0, date: headers["Date"], serverTime: serverTime)
        }
    }
}

extension TransportResponse {
    /// Whether the server did its work, whatever it decided; not a page of something in between.
    fileprivate var showsWork: Bool {
        guard status < 500, status != 408, status != 429 else { return false }
        if AnswerProof.isServers(self) { return true }
        let start = body.first { $0 != 0x20 && !(9...13).contains($0) }
        return (200..<300).contains(status)
            && [nil, UInt8(ascii: "{"), UInt8(ascii: "[")].contains(start)
    }
}

extension SyncEngine {
    /// How much is left of the wait that the server asked for.
    var busyTime: Duration { (try? remote.get().busyTime) ?? .zero }

    /// Until when the server asked to be sent no requests.
    var busyUntil: Date? { try? remote.get().busyUntil }

    /// Whether the time that the server asked for is over, and no answer has come since.
    var wasBusy: Bool {
        guard let remote = try? remote.get() else { return false }
        return remote.busy.period != nil && remote.busyTime == .zero
    }

    /// - Throws: ``SyncError`` with code `offline` while the server asks to be sent no requests.
    func checkBusy() throws {
        if let until = busyUntil { throw SyncError.busy(until: until) }
    }

    /// Holds a request back while the server asks for a wait: a short one is waited out.
    ///
    /// - Throws: ``SyncError`` with code `offline`.
    func awaitEndOfBusy() async throws {
        let time = busyTime
        guard time > .zero else { return }
        guard time <= limits.retryDelayMax else { return try checkBusy() }
        try await calls.sleep(time)
    }

    /// Holds a push with something to send back.
    ///
    /// - Throws: ``SyncError`` with code `offline`.
    func awaitEndOfBusyBeforePush() async throws {
        guard busyTime > .zero, try await hasSendable() else { return }
        try await awaitEndOfBusy()
    }

    /// Returns the service for the request of one operation.
    ///
    /// If the server failed an operation in earlier pushes while it did other work, its `Retry-After` says
    /// nothing about other requests.
    func service(for operations: [QueuedOperation]) throws -> RemoteService {
        var service = try remote.get()
        service.heedsRetryAfter = operations.contains { $0.failedPushes == 0 }
        return service
    }
}

extension SyncError {
    /// The server asked to be sent no requests.
    static func busy(until: Date) -> SyncError {
        SyncError(
            .offline,
            """
            The server is busy and asked for no requests before \(Timestamp(until).text) (Retry-After). \
            Nothing is lost; sync again then.
            """
        )
    }
}

extension QueueReader {
    fileprivate static func busyID(_ endpoint: String) -> Value { .string("busy|\(endpoint)") }

    /// The wait that the server behind an endpoint asked for, as it is stored.
    func busyPeriod(_ endpoint: String) throws -> String? {
        try store.row(id: Self.busyID(endpoint), in: SystemTables.config)?["value"]?.text
    }
}

extension QueueTransaction {
    func setBusyPeriod(_ period: BusyPeriod?, _ endpoint: String) throws {
        let id = QueueReader.busyID(endpoint)
        guard let period else {
            try store.delete(ids: [id], in: SystemTables.config)
            return
        }
        let row: Row = [
            "id": id, "key": "busy", "keyType": 3, "table": "", "value": .string(period.text),
        ]
        try store.put([row], in: SystemTables.config)
    }
}
