// ScreenTests: what the screens of one phone show, without a network.

import Foundation
import Testing
import Tideline
import TidelineTestKit

@testable import FieldServiceModel

@Suite(.timeLimit(.minutes(10))) @MainActor
struct ScreenTests {
    @Test("Customers are in localized order, and a search finds the beginning of a word")
    func customers() async throws {
        let anna = try await TwoPhones().anna
        for customer in [Customer.zeta, .aerzte, .anker] { await anna.save(customer) }
        try await until { anna.customers.items.map(\.id) == ["anker", "aerzte", "zeta"] }

        anna.searchText = "arz"
        try await until { anna.customers.items.map(\.id) == ["aerzte"] }
        anna.searchText = ""
        anna.city = "Kiel"
        try await until { anna.customers.items.map(\.id) == ["anker", "zeta"] }
        anna.searchText = "zet"
        try await until { anna.customers.items.map(\.id) == ["zeta"] }
    }

    @Test("A customer shows the three newest open jobs and the number of jobs in each status")
    func customer() async throws {
        let anna = try await TwoPhones().anna
        await anna.save(Customer.anker)
        let screen = anna.screen(ofCustomer: "anker")
        for hour in 1...5 {
            await anna.save(
                Job(id: "\(hour)", customerID: "anker", title: "Boiler", openedAt: at(hour))
            )
        }
        try await until { screen.value?.openJobs.map(\.id) == ["5", "4", "3"] }

        var job = try #require(screen.value?.openJobs.first)
        job.status = .done
        await anna.save(job)
        try await until { screen.value?.openJobs.map(\.id) == ["4", "3", "2"] }
        #expect(screen.value?.jobCounts == [.open: 4, .done: 1])

        await anna.cancelJobs(of: .anker)
        try await until { screen.value?.jobCounts == [.cancelled: 4, .done: 1] }
    }

    @Test("A job shows its customer, its visits and parts, and their sums")
    func job() async throws {
        let anna = try await TwoPhones().anna
        await fill(anna)
        let screen = try await anna.read { try JobScreen($0, job: "boiler") }
        #expect(screen.customer == (try await anna.all(Customer.self).first))
        #expect(screen.visits.map(\.id) == ["morning", "noon"])
        #expect(screen.parts.map(\.name) == ["Pump", "valve"])
        #expect(screen.minutes == 90)
        #expect(screen.cents == 13_000)
        #expect(anna.problem == nil)
    }

    @Test(
        "A day shows its visits with job and customer, and the urgent jobs of a city",
        arguments: [("Kiel", ["door"]), (nil, ["door"]), ("Husum", [])]
    )
    func day(city: String?, urgent: [Job.ID]) async throws {
        let anna = try await TwoPhones().anna
        await fill(anna)
        let day = DateInterval(start: at(0), duration: 86_400)
        let screen = try await anna.read { try DayScreen($0, day: day, city: city) }
        #expect(screen.entries.map(\.id) == ["morning", "noon"])
        #expect(screen.entries.map(\.job?.title) == ["Boiler", "Boiler"])
        #expect(screen.entries.map(\.customer?.id) == ["anker", "anker"])
        #expect(screen.urgentJobs.map(\.id) == urgent)
    }

    @Test("Minutes and costs are added by status and by customer, and follow each change")
    func totals() async throws {
        let anna = try await TwoPhones().anna
        await fill(anna)
        try await until {
            anna.totals.value?.byStatus == [
                Totals.Line(id: "done", name: "done", minutes: 90, cents: 13_000),
                Totals.Line(id: "open", name: "open", minutes: 15, cents: 0),
            ]
        }
        #expect(
            anna.totals.value?.byCustomer == [
                Totals.Line(id: "anker", name: "anker", minutes: 90, cents: 13_000),
                Totals.Line(id: "zeta", name: "zeta", minutes: 15, cents: 0),
            ]
        )
        await anna.save(Visit(id: "late", jobID: "door", minutes: 100))
        try await until { anna.totals.value?.byCustomer.map(\.minutes) == [115, 90] }
    }

    private func fill(_ phone: FieldService) async {
        for customer in [Customer.anker, .zeta] { await phone.save(customer) }
        await phone.plan(
            Job(id: "boiler", customerID: "anker", title: "Boiler", status: .done),
            Visit(id: "noon", jobID: "boiler", start: at(12), end: at(13), minutes: 60)
        )
        await phone.save(
            Visit(id: "morning", jobID: "boiler", start: at(8), end: at(9), minutes: 30)
        )
        await phone.plan(
            Job(id: "door", customerID: "zeta", title: "Door", tags: ["urgent"]),
            Visit(id: "tomorrow", jobID: "door", start: at(24), minutes: 15)
        )
        await phone.save(Part(id: "1", jobID: "boiler", name: "valve", quantity: 4, cents: 250))
        await phone.save(Part(id: "2", jobID: "boiler", name: "Pump", cents: 12_000))
    }
}
