// Verifications by a device whose server was restored, before a pull has read the restored rows.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct VerifyAfterRestoreTests {
    /// Other rows, so that a range of a digest has several rows.
    private static let others = (10..<50).map { "i\($0)" }

    private static func texts(_ rows: [Todo]) -> [String: String] {
        let rows = rows.filter { !others.contains($0.id) }
        return Dictionary(uniqueKeysWithValues: rows.map { ($0.id, $0.text) })
    }

    /// Returns a device with all rows, and a backup without the row `late` and the last state of `changed`.
    ///
    /// In the backup, `changed` is in both queries of the device; now it is in the query `all` only.
    private static func device(
        _ server: RestorableServer,
        _ transport: any Transport
    ) async throws -> (device: Device, backup: String) {
        // A page has one row.
        var limits = SyncLimits()
        limits.pageRowsFirst = 1
        let device = try await Device(transport, limits: limits)
        try await device.todos().insert(others.map { Todo(id: $0) })
        try await device.todos().insert([
            Todo(id: "kept", text: "kept"), Todo(id: "changed", text: "before"),
        ])
        try await device.context.push()
        let backup = try server.backup()
        try await device.todos().insert(Todo(id: "late", text: "late"))
        try await device.todos().update(id: "changed") {
            $0.text = "after"
            $0.complete = true
        }
        try await device.context.push()
        try await device.todos().pull(queryID: "all")
        try await device.todos().pull(queryID: "open", where: { !$0.complete })
        return (device, backup)
    }

    /// Expects that the pulls report both lost rows, and that both can be sent again.
    private static func expectKept(_ device: Device) async throws {
        let all = ["kept": "kept", "changed": "after", "late": "late"]
        #expect(texts(try await device.todos().read()) == all)
        for queryID in ["open", "all"] {
            if queryID == "all" {
                try await device.todos().pull(queryID: queryID)
            } else {
                try await device.todos().pull(queryID: queryID, where: { !$0.complete })
            }
        }
        #expect(try await device.context.lostRows().map(\.itemID) == ["changed", "late"])
        try await device.context.sendLostRowsAgain()
        try await device.context.push()
        let there = try await device.client.table(Todo.self).read()
        #expect(texts(there) == all)
    }

    @Test("A repair does not replace a lost state that only another query contains")
    func otherQuery() async throws {
        try await withRestorableServer { server in
            let (device, backup) = try await Self.device(server, server)
            try await server.restore(backup)
            let result = try await device.todos().verify(queryID: "open", repair: true)
            #expect(result.repaired == 0 && result.lost == 2)
            try await Self.expectKept(device)
        }
    }

    enum RestoreTime: CaseIterable {
        case afterTheDigest, afterTheFirstPage
    }

    /// A transport that restores the server after one of its responses.
    private final class RestoringTransport: Transport {
        private let inner: RestorableServer
        private let time: RestoreTime
        private let backup = Mutex<String?>(nil)

        init(_ inner: RestorableServer, _ time: RestoreTime) {
            (self.inner, self.time) = (inner, time)
        }

        func restoreOnce(_ backup: String) { self.backup.withLock { $0 = backup } }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            let response = try await inner.send(request)
            let isDigest = request.url.path().hasSuffix("$digest")
            guard isDigest == (time == .afterTheDigest) else { return response }
            let backup = backup.withLock { backup in
                defer { backup = nil }
                return backup
            }
            if let backup { try await inner.restore(backup) }
            return response
        }

        func stream(_ request: TransportRequest) async throws -> TransportStream {
            try await inner.stream(request)
        }
    }

    @Test(
        "A repair removes and replaces nothing if the server is restored during the verification",
        arguments: ["all", nil],
        RestoreTime.allCases
    )
    func restoredDuringTheVerification(queryID: String?, time: RestoreTime) async throws {
        try await withRestorableServer { server in
            let restoring = RestoringTransport(server, time)
            let (device, backup) = try await Self.device(server, restoring)
            // Another device has changed the rows, so that all digests differ.
            let other = try await Device(server)
            try await other.todos().pull(queryID: "all")
            for id in Self.others + ["kept", "changed", "late"] {
                try await other.todos().update(id: id) { $0.rank = 1 }
            }
            try await other.context.push()
            restoring.restoreOnce(backup)
            let result = try await device.todos().verify(queryID: queryID, repair: true)
            #expect(result.repaired == 0)
            #expect(result.lost == 2)
            try await Self.expectKept(device)
        }
    }
}
