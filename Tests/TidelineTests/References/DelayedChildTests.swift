// Deletes of parents while the operations that take their children away are delayed: by a server that fails to process
// them, by a rejection, or by a conflict.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct DelayedChildTests {
    /// Rejects the requests on one row, at first.
    private final class Gate: Transport {
        private let inner: any Transport
        private let target: String
        private let state: Mutex<(status: Int, left: Int)>
        private let batches = Mutex<[String]>([])

        init(_ inner: any Transport, _ target: String, status: Int, times: Int = 1) {
            (self.inner, self.target) = (inner, target)
            state = Mutex((status, times))
        }

        /// The bodies of the batches.
        var bodies: [String] { batches.withLock { $0 } }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            guard request.url.path().hasSuffix("/$batch") else {
                return try await inner.send(request)
            }
            batches.withLock { $0.append(String(decoding: request.body ?? [], as: UTF8.self)) }
            let (rest, responses) = BatchChanges.without(request) { _, target, _ in
                guard target.hasSuffix(self.target) else { return nil }
                return state.withLock { state in
                    guard state.left > 0 else { return nil }
                    state.left -= 1
                    let problem = #"{"title":"Rejected","status":\#(state.status)}"#
                    return (state.status, Array(problem.utf8))
                }
            }
            var response = try await inner.send(rest)
            response.headers["Accept-Encoding"] = nil
            return BatchChanges.adding(responses, to: response)
        }
    }

    /// A device that has all rows, with an invoice `i` for job `j`, behind a gate.
    private func scene(_ target: String, status: Int) async throws -> (FieldScene, Device, Gate) {
        let scene = try await FieldScene()
        try await scene.fill()
        try await scene.other.client.syncTable(Field.Invoice.self)
            .insert(Field.Invoice(id: "i", jobID: "j"))
        try await scene.other.client.syncTable(Field.Customer.self)
            .insert(Field.Customer(id: "d", name: "Lübeck"))
        #expect(try await scene.other.push() == nil)
        let gate = Gate(scene.server.transport, target, status: status)
        let device = try await Device(gate, tables: Field.models)
        try await scene.pull(device)
        return (scene, device, gate)
    }

    @Test("The delete of a parent is sent after the delete of a child that failed once")
    func failed() async throws {
        let (scene, device, _) = try await scene("Invoice/i", status: 500)
        try await device.client.syncTable(Field.Invoice.self).delete(id: "i")
        try await device.client.syncTable(Field.Job.self).delete(id: "j")
        #expect(try await device.push() == nil)
        #expect(try await scene.serverContents() == ["Customer c d", "Job k", "Note n"])
        #expect(try await device.queue().isEmpty)
    }

    @Test("The delete of a parent waits without an error while the delete of a child is parked")
    func parked() async throws {
        let (scene, device, gate) = try await scene("Invoice/i", status: 422)
        try await device.client.syncTable(Field.Invoice.self).delete(id: "i")
        try await device.client.syncTable(Field.Job.self).delete(id: "j")
        let error = try #require(try await device.push()?.errors.first)
        #expect(try await device.context.operationErrors().map(\.itemID) == ["i"])
        #expect(try await scene.serverContents().contains("Job j k"))
        let sent = gate.bodies.count
        #expect(try await device.push()?.errors.count == 1)
        #expect(gate.bodies.count == sent)
        try await error.retry()
        #expect(try await device.push() == nil)
        #expect(try await scene.serverContents() == ["Customer c d", "Job k", "Note n"])
    }

    @Test("A parent is not deleted if the user discards the delete of its child")
    func kept() async throws {
        let (scene, device, _) = try await scene("Invoice/i", status: 422)
        try await device.client.syncTable(Field.Invoice.self).delete(id: "i")
        try await device.client.syncTable(Field.Job.self).delete(id: "j")
        let error = try #require(try await device.push()?.errors.first)
        try await error.cancelOperationAndDiscardItem()
        let errors = try #require(try await device.push()?.errors)
        let reasons = errors.compactMap(\.brokenReference?.reason)
        #expect(reasons == [.rowIsReferenced])
        #expect(try await scene.serverContents().contains("Job j k"))
    }

    @Test("A child in conflict that moved to another parent is not deleted with the old one")
    func conflict() async throws {
        let (scene, device, _) = try await scene("none", status: 500)
        try await scene.other.client.syncTable(Field.Job.self).update(id: "k") {
            $0.title = "Valve, urgent"
        }
        #expect(try await scene.other.push() == nil)
        try await device.client.syncTable(Field.Invoice.self).delete(id: "i")
        try await device.client.syncTable(Field.Job.self).update(id: "k") { $0.customerID = "d" }
        try await device.client.syncTable(Field.Customer.self).delete(id: "c")
        let error = try #require(try await device.push()?.errors.first)
        #expect(error.itemID == "k")
        #expect(error.serverItem?["title"] == "Valve, urgent")
        #expect(try await scene.serverContents().contains("Job j k"))
        try await error.keepMine()
        #expect(try await device.push() == nil)
        #expect(try await scene.serverContents() == ["Customer d", "Job k", "Note n"])
        let job = try await scene.other.client.table(Field.Job.self).read(id: "k")
        #expect(job?.title == "Valve, urgent")
    }

    @Test("Transactions that wait for each other's children are sent together")
    func cycle() async throws {
        let (scene, device, _) = try await scene("none", status: 500)
        try await device.context.transaction { transaction in
            try transaction.table(Field.Customer.self).insert(Field.Customer(id: "e"))
            try transaction.table(Field.Job.self).insert([
                Field.Job(id: "x", customerID: "d"), Field.Job(id: "y", customerID: "e"),
            ])
        }
        #expect(try await device.push() == nil)
        try await device.client.syncTable(Field.Job.self).update(id: "x") { $0.customerID = nil }
        try await device.context.transaction { transaction in
            try transaction.table(Field.Job.self).update(id: "y") { $0.customerID = nil }
            try transaction.table(Field.Customer.self).delete(id: "d")
        }
        // The change of `x` joins this transaction, and stays before the delete of `d`.
        try await device.context.transaction { transaction in
            try transaction.table(Field.Job.self).update(id: "x") { $0.title = "Pump" }
            try transaction.table(Field.Customer.self).delete(id: "e")
        }
        #expect(try await device.push() == nil)
        #expect(try await device.queue().isEmpty)
        let contents = try await scene.serverContents()
        #expect(contents.prefix(2) == ["Customer c", "Job j k x y"])
    }
}
