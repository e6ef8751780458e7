// ServerWait: the waits that the server asks for with `Retry-After`, and the requests that they
// delay.

import Foundation
import TidelineCore

extension RemoteService {
    /// The server's time, according to its responses.
    var serverTime: Date { clock.time(at: environment.now()) }

    /// The remaining time of the wait that the server asked for.
    var busyTime: Duration {
        busy.period?.remaining(at: environment.now(), uptime: environment.uptime()) ?? .zero
    }

    /// The end of the wait that the server asked for; nil if it did not ask for one, or if the wait
    /// is over.
    var busyUntil: Date? {
        let time = busyTime
        guard time > .zero else { return nil }
        return environment.now().addingTimeInterval(TimeInterval(time.components.seconds))
    }

    /// Evaluates a response, which may ask for a wait or end one.
    ///
    /// `number` is the ``SharedBusyPeriod/number`` when the request was sent. `isSuccess` is true
    /// if the response shows that the server works.
    func note(status: Int, headers: HTTPFields, sentAt number: Int, isSuccess: Bool) {
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

    /// Evaluates the response to a complete request.
    func note(_ response: TransportResponse, sentAt number: Int) {
        note(
            status: response.status,
            headers: response.headers,
            sentAt: number,
            isSuccess: response.showsWork
        )
    }

    /// Evaluates the responses inside a batch.
    ///
    /// A wait applies to the whole server only if every response asks for one. A single 429 is
    /// enough, however, because it concerns the caller.
    func note(_ answers: [TransportResponse], sentAt number: Int) {
        let all = answers.map { ($0, Self.asked(status: $0.status, $0.headers, serverTime)) }
        let isOfAll = all.allSatisfy { ($0.1 ?? .zero) > .zero }
        let waits = isOfAll ? all : all.filter { $0.0.status == 429 && ($0.1 ?? .zero) > .zero }
        guard let longest = waits.max(by: { ($0.1 ?? .zero) < ($1.1 ?? .zero) }) else { return }
        note(longest.0, sentAt: number)
    }

    /// Returns the wait that a response asks for, if it comes from a busy server or a proxy.
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
    /// Whether the server processed the request, whatever the outcome; false for a response from a
    /// proxy.
    fileprivate var showsWork: Bool {
        guard status < 500, status != 408, status != 429 else { return false }
        if AnswerProof.isServers(self) { return true }
        let start = body.first { $0 != 0x20 && !(9...13).contains($0) }
        return (200..<300).contains(status)
            && [nil, UInt8(ascii: "{"), UInt8(ascii: "[")].contains(start)
    }
}

/// The wait that the server asked for with `Retry-After`.
struct ServerWait {
    let engine: SyncEngine

    /// The remaining time of the wait that the server asked for.
    var remaining: Duration { (try? engine.remote.get().busyTime) ?? .zero }

    /// The end of the wait that the server asked for.
    var until: Date? { try? engine.remote.get().busyUntil }

    /// Whether the wait that the server asked for is over and no successful response has arrived
    /// since it began.
    var hasEnded: Bool {
        guard let remote = try? engine.remote.get() else { return false }
        return remote.busy.period != nil && remote.busyTime == .zero
    }

    /// - Throws: ``SyncError`` with code `offline` if the server has asked for a wait that is not
    ///   over.
    func check() throws {
        if let until = until { throw SyncError.busy(until: until) }
    }

    /// Delays a request until the end of a wait that the server asked for, if the wait is short.
    ///
    /// - Throws: ``SyncError`` with code `offline` if the wait is long.
    func sleep() async throws {
        let time = remaining
        guard time > .zero else { return }
        guard time <= engine.limits.retryDelayMax else { return try check() }
        try await engine.calls.sleep(time)
    }

    /// Delays a push until the end of a wait that the server asked for, if the queue has operations
    /// that can be sent.
    ///
    /// - Throws: ``SyncError`` with code `offline` if the wait is long.
    func sleepBeforePush() async throws {
        guard remaining > .zero, try await engine.hasSendable() else { return }
        try await sleep()
    }
}

extension SyncError {
    /// The error for a call during a wait that the server asked for.
    static func busy(until: Date) -> SyncError {
        SyncError(
            .offline,
            """
            The server is busy and asked for no requests before \(Timestamp(until).text) (Retry-After). \
            Nothing is lost. Sync again then.
            """
        )
    }
}
