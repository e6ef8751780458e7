// TwoPhoneTests: what two technicians see who work offline and sync now and then.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit

@testable import FieldServiceModel

@Suite(.timeLimit(.minutes(10))) @MainActor
struct TwoPhoneTests {
    @Test("The models fit the tables of server.json")
    func schema() throws {
        let app = try SchemaDocument(
            of: [Customer.self, Job.self, Visit.self, Part.self]
        )
        let server = try SchemaDocument(TwoPhones.tables().map(SchemaDocument.Table.init))
        #expect(app.differences(from: server).map(\.description) == [])
    }

    @Test("Offline edits of different properties of one job are combined")
    func merge() async throws {
        let phones = try await withJob()
        await phones.anna.change("boiler") { $0.title = "Boiler in the cellar" }
        await phones.ben.change("boiler") { $0.status = .done }
        await phones.sync()
        for phone in [phones.anna, phones.ben] {
            let job = try await phone.all(Job.self)[0]
            #expect(job.title == "Boiler in the cellar")
            #expect(job.status == .done)
            #expect(phone.problem == nil)
        }
    }

    @Test(
        "If two phones edit one property, the user of the second phone chooses",
        arguments: [true, false]
    )
    func conflict(keepsMine: Bool) async throws {
        let phones = try await withJob()
        await phones.anna.change("boiler") {
            $0.title = "Boiler in the cellar"
            $0.tags = ["urgent"]
        }
        await phones.ben.change("boiler") { $0.title = "Old boiler" }
        await phones.sync()
        try await until { phones.ben.rejectedChanges.map(\.title) == ["Job Old boiler"] }

        let change = phones.ben.rejectedChanges[0]
        if keepsMine {
            await phones.ben.keepMine(change)
        } else {
            await phones.ben.discard(change)
        }
        await phones.ben.refresh()
        await phones.sync()
        for phone in [phones.anna, phones.ben] {
            let job = try await phone.all(Job.self)[0]
            #expect(job.title == (keepsMine ? "Old boiler" : "Boiler in the cellar"))
            #expect(job.tags == ["urgent"])
        }
    }

    @Test("Deleting a customer deletes the jobs and visits on all phones")
    func cascade() async throws {
        let phones = try await withJob()
        await phones.anna.delete(Customer.anker)
        #expect(try await phones.anna.all(Visit.self) == [])
        await phones.sync()
        for phone in [phones.anna, phones.ben] {
            #expect(try await phone.all(Customer.self) == [])
            #expect(try await phone.all(Job.self) == [])
            #expect(try await phone.all(Visit.self) == [])
        }
    }

    @Test("A customer whose jobs have parts cannot be deleted, even offline")
    func restrictOffline() async throws {
        let phones = try await withJob()
        await phones.anna.save(Part(id: "pump", jobID: "boiler", name: "Pump"))
        await phones.anna.delete(Customer.anker)
        #expect(phones.anna.problem?.contains("rows of table 'Part' refer to") == true)
        #expect(try await phones.anna.all(Visit.self).map(\.id) == ["first"])
    }

    @Test("A deleted customer returns if its jobs have parts on another phone")
    func restrict() async throws {
        let phones = try await withJob()
        await phones.ben.save(Part(id: "pump", jobID: "boiler", name: "Pump"))
        await phones.ben.refresh()
        await phones.anna.delete(Customer.anker)
        await phones.anna.refresh()
        try await until { phones.anna.rejectedChanges.map(\.title) == ["Job Boiler"] }

        // The customer and the visit come back with the job.
        await phones.anna.discard(phones.anna.rejectedChanges[0])
        await phones.sync()
        #expect(try await phones.anna.all(Customer.self).map(\.id) == ["anker"])
        #expect(try await phones.ben.all(Part.self).map(\.jobID) == ["boiler"])
    }

    @Test("A part outlives the visit that it belongs to")
    func setNull() async throws {
        let phones = try await withJob()
        await phones.anna.save(Part(id: "pump", jobID: "boiler", visitID: "first", name: "Pump"))
        await phones.sync()
        await phones.ben.delete(try await phones.ben.all(Visit.self)[0])
        await phones.ben.refresh()
        await phones.sync()
        for phone in [phones.anna, phones.ben] {
            #expect(try await phone.all(Part.self).map(\.visitID) == [nil])
        }
    }

    @Test(
        "A job without its deleted customer is parked, and the user moves it or restores it",
        arguments: ["zeta", "anker"]
    )
    func orphan(parent: Customer.ID) async throws {
        let phones = try await withJob()
        await phones.ben.save(Customer.zeta)
        await phones.anna.delete(Customer.anker)
        await phones.ben.save(Job(id: "door", customerID: "anker", title: "Door"))
        await phones.anna.refresh()
        await phones.ben.refresh()
        try await until { phones.ben.rejectedChanges.map(\.title) == ["Job Door"] }
        #expect(try await phones.ben.all(Job.self).map(\.id) == ["door"])

        let change = phones.ben.rejectedChanges[0]
        #expect(change.missingParent == "Customer")
        if parent == "zeta" {
            await phones.ben.move(change, to: .zeta)
        } else {
            await phones.ben.restoreParent(of: change)
        }
        #expect(phones.ben.problem == nil)
        await phones.ben.refresh()
        await phones.sync()
        #expect(phones.ben.problem == nil)
        try await until { phones.ben.rejectedChanges.isEmpty }
        for phone in [phones.anna, phones.ben] {
            #expect(try await phone.all(Job.self).map(\.customerID) == [parent])
            #expect(try await phone.all(Customer.self).map(\.id).contains(parent))
        }
    }

    @Test("A customer with a used number is rejected, and another number releases the change")
    func unique() async throws {
        let phones = try await TwoPhones()
        await phones.anna.save(Customer.anker)
        await phones.ben.save(Customer(id: "twin", number: Customer.anker.number, name: "Twin"))
        await phones.sync()
        try await until { phones.ben.rejectedChanges.map(\.title) == ["Customer Twin"] }
        #expect(phones.ben.rejectedChanges[0].error.brokenRule?.columns == ["number"])

        var twin = try await phones.ben.all(Customer.self)[1]
        twin.number = "9"
        await phones.ben.save(twin)
        await phones.sync()
        #expect(try await phones.anna.all(Customer.self).map(\.number) == ["1", "9"])
        try await until { phones.ben.rejectedChanges.isEmpty }
    }

    @Test("A visit that ends before it begins is rejected on the phone, before it is queued")
    func comparison() async throws {
        let phones = try await withJob()
        await phones.anna.save(Visit(id: "wrong", jobID: "boiler", start: at(9), end: at(8)))
        #expect(phones.anna.problem?.contains("'start'") == true)
        #expect(try await phones.anna.all(Visit.self).map(\.id) == ["first"])
        #expect(try await phones.anna.client.syncContext.pendingOperationCount == 0)
    }

    @Test("A dry run says which change the server would reject, and changes nothing")
    func dryRun() async throws {
        let phones = try await withJob()
        await phones.ben.save(Customer.zeta)
        await phones.ben.save(Customer(id: "twin", number: Customer.anker.number, name: "Twin"))
        let run = try #require(await phones.ben.dryRun())
        #expect(run.operations.map(\.itemID) == ["zeta", "twin"])
        #expect(run.operations[0].outcome == .accepted)
        guard case .rejected(let rejection) = run.operations[1].outcome else {
            Issue.record("The number of the twin is taken.")
            return
        }
        #expect(rejection.brokenRule?.columns == ["number"])
        await phones.anna.refresh()
        #expect(try await phones.anna.all(Customer.self).map(\.id) == ["anker"])
        #expect(phones.ben.rejectedChanges.isEmpty)
    }

    /// Returns two phones that have a customer with a job and a visit.
    private func withJob() async throws -> TwoPhones {
        let phones = try await TwoPhones()
        await phones.anna.save(Customer.anker)
        await phones.anna.plan(
            Job(id: "boiler", customerID: "anker", title: "Boiler"),
            Visit(id: "first", jobID: "boiler", technician: "Anna", start: at(8), end: at(9))
        )
        await phones.sync()
        #expect(try await phones.ben.all(Visit.self).map(\.id) == ["first"])
        return phones
    }
}

extension FieldService {
    /// Edits a job as the user sees it.
    fileprivate func change(_ id: Job.ID, _ edit: (inout Job) -> Void) async {
        guard var job = try? await client.syncTable(Job.self).read(id: id) else { return }
        edit(&job)
        await save(job)
    }
}
