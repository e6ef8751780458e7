// Jobs: reads and writes of a model as apps have them, with a nested value, a list, a decimal, an enum and a URL.

import Foundation
import Tideline

struct Job: SyncRecord {
    struct Address: Codable, Hashable {
        var street = ""
        var city = ""
        var postcode = ""
    }

    enum Status: String, Codable { case open, started, done }

    var id = Self.newID()
    var customerID = ""
    var title = ""
    var notes: String?
    var status = Status.open
    var isUrgent = false
    var minutes = 0
    var distance = 0.0
    var price = Decimal()
    var tags: [String] = []
    var address = Address()
    var link: URL?
    var due: Date?
    var updatedAt: Date?

    static func numbered(_ number: Int) -> Job {
        Job(
            id: "00000000-0000-7000-8000-\(String(100_000_000_000 + number))",
            customerID: "customer \(number / 20)",
            title: "Repair the boiler \(number)",
            notes: number % 2 == 0 ? "Ring twice, and bring a long ladder." : nil,
            status: number % 3 == 0 ? .open : .done,
            isUrgent: number % 7 == 0,
            minutes: number % 480,
            distance: Double(number % 100) / 4,
            price: Decimal(number % 10_000) / 100,
            tags: ["heating", number % 2 == 0 ? "urgent" : "routine"],
            address: Address(
                street: "Hafenstraße \(number % 100)",
                city: "Kiel",
                postcode: "24103"
            ),
            link: URL(string: "https://jobs.example/\(number)"),
            due: Date(timeIntervalSince1970: 1_790_000_000 + Double(number))
        )
    }
}

struct Jobs {
    let directory: String
    let rows: Int
    /// The time for each kind of work.
    let time: Duration

    func measure() async throws {
        let path = "\(directory)/\(UUID().uuidString).sqlite"
        let store = try SQLiteStore(path: path)
        let client = try await SyncClient.open(
            endpoint: try url("http://127.0.0.1:9"),
            store: store,
            tables: [Job.self]
        )
        let table = try client.syncTable(Job.self)
        let jobs = (0..<rows).map(Job.numbered)
        _ = try await table.insert(Array(jobs.prefix(100)).map(renamed))
        let usage = Usage()
        _ = try await table.insert(jobs)
        Bench.report("jobs: insert \(rows) at once", usage.seconds / Double(rows) * 1e6, "us/row")
        var (seconds, turns) = (0.0, 0.0)
        let whole = Usage()
        while whole.seconds < time.seconds || turns < 3 {
            let usage = Usage()
            let count = try await table.read().count
            seconds += usage.seconds
            guard count == rows + 100 else { throw BenchError("\(count) jobs were read") }
            turns += 1
        }
        Bench.report("jobs: read \(rows)", seconds / turns / Double(rows) * 1e6, "us/row")
        try await Device.remove(store, path)
    }

    private func renamed(_ job: Job) -> Job {
        var job = job
        job.id += "-first"
        return job
    }

    private func url(_ text: String) throws -> URL {
        guard let url = URL(string: text) else { throw BenchError("no URL: \(text)") }
        return url
    }
}
