// ServerRecorder: stands before the server of a world and writes down what it answered.

import Foundation
import Synchronization
import Tideline
import TidelineCore

/// Every state that a row had on the server, and what each request did.
final class ServerRecorder: Transport {
    private struct State {
        /// Texts that a row had on the server, by id.
        var texts: [String: Set<String>] = [:]
        var ranks: [String: Set<Int>] = [:]
        /// Rows that a DELETE removed or found removed.
        var deleted: Set<String> = []
        /// The states that requests came to, which is one where a repeat got the first answer.
        var effects: [String: Set<String>] = [:]
        var requests = 0
        var history: UInt64 = 14_695_981_039_346_656_037
    }

    private let server: WorldServer
    private let events = WorldEvents()
    private let state = Mutex(State())

    init(_ server: WorldServer) { self.server = server }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let response = try await server.transport.send(request)
        let calls = RecordedCall.calls(request, response)
        state.withLock { state in
            state.requests += 1
            for call in calls { record(call, &state) }
        }
        if calls.contains(where: \.isChange) { events.tellChange() }
        return response
    }

    /// The events of our server; the original ones have none.
    func stream(_ request: TransportRequest) async throws -> TransportStream {
        guard server.isOurs else { return try await server.transport.stream(request) }
        return events.listen()
    }

    private func record(_ call: RecordedCall, _ state: inout State) {
        let key = "\(call.method) \(call.target) \(call.ifMatch ?? "") \(call.body)"
        Self.mix(&state.history, key)
        Self.mix(&state.history, "\(call.status)")
        if call.method == "DELETE", call.isChange || [404, 410].contains(call.status) {
            state.deleted.insert(call.itemID)
        }
        guard call.isChange else { return }
        // The original servers know no repeats: nothing but a condition keeps one from taking effect
        // again, and an insert that comes late, after a delete, has none.
        if server.isOurs || call.ifMatch != nil {
            state.effects[key, default: []].insert(call.tag ?? "")
        }
        if let row = call.row, let text = row["text"]?.text {
            state.texts[row.id, default: []].insert(text)
            if case .integer(let rank) = row["rank"] {
                state.ranks[row.id, default: []].insert(Int(rank))
            }
        }
    }

    private static func mix(_ hash: inout UInt64, _ text: String) {
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 1_099_511_628_211 }
    }

    /// Whether a row had this text on the server at some time.
    func had(_ text: String, _ id: String) -> Bool {
        state.withLock { $0.texts[id]?.contains(text) == true }
    }

    /// Whether a row had this rank on the server at some time.
    func had(_ rank: Int, _ id: String) -> Bool {
        state.withLock { $0.ranks[id]?.contains(rank) == true }
    }

    /// Whether a delete of a row came through at some time.
    func wasDeleted(_ id: String) -> Bool { state.withLock { $0.deleted.contains(id) } }

    /// A request that took effect more than once.
    var doubled: String? {
        state.withLock { state in
            state.effects.filter { $0.value.count > 1 }.keys.sorted().first
        }
    }

    var report: (requests: Int, history: UInt64) {
        state.withLock { ($0.requests, $0.history) }
    }
}
