// NestedConditionTests: conditions on nested values and arrays, in closures, predicates and orders, and conditions that
// are made outside of a query.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

private enum Tag: String, Codable, Hashable {
    case urgent
    case indoor
}

private struct Job: SyncRecord, Hashable {
    struct Address: Codable, Hashable {
        var city = ""
        var postCode: String?
        var geo: Geo?
        var floor = 0
        var isOpen = false
        var isLocked: Bool?
        var price = Decimal(0)
        var since: Date?
        var owner: UUID?
        var kind: Tag?

        enum CodingKeys: String, CodingKey {
            case city
            case postCode = "post-code"
            case geo, floor, isOpen, isLocked, price, since, owner, kind
        }
    }

    struct Geo: Codable, Hashable {
        var lat = 0.0
        var name: String?
    }

    struct Visit: Codable, Hashable {
        var city = ""
        var isDone = false
        var notes: [String] = []
    }

    var id = ""
    var title = ""
    var address = Address()
    var billing: Address?
    var tags: [String] = []
    var kinds: [Tag]?
    var numbers: Set<Int> = []
    var days: [Date] = []
    var keys: [UUID] = []
    var visits: [Visit] = []
    var updatedAt: Date?

    static let isUrgent = RecordCondition<Job> { $0.tags.contains("urgent") }
    static let isInKiel = RecordCondition<Job> { $0.address.city == "Kiel" }
}

private let day = Date(timeIntervalSince1970: 1_700_000_000)
private let key = UUID()
private let tenth = Decimal(string: "0.1") ?? 0
private let cities = ["Kiel", "Bonn"]

private let jobs: [Job] = [
    Job(
        id: "1",
        title: "Kiel",
        address: Job.Address(
            city: "Kiel",
            postCode: "24103",
            geo: Job.Geo(lat: 54.5, name: "port"),
            floor: 2,
            isOpen: true,
            price: tenth,
            since: day,
            owner: key,
            kind: .urgent
        ),
        billing: Job.Address(city: "Bonn", geo: Job.Geo(lat: 1), isOpen: true, isLocked: true),
        tags: ["urgent", "Kiel"],
        kinds: [.urgent],
        numbers: [1, 2],
        days: [day, day + 1],
        keys: [key],
        visits: [
            Job.Visit(city: "Kiel", isDone: true, notes: ["a", "b"]), Job.Visit(city: "Bonn"),
        ]
    ),
    Job(
        id: "2",
        title: "b",
        address: Job.Address(city: "kiel", geo: Job.Geo(), floor: -3, isLocked: false),
        tags: ["Urgent"],
        kinds: [],
        numbers: [3],
        visits: [Job.Visit(city: "Bonn", isDone: true), Job.Visit(city: "Kiel")]
    ),
    Job(
        id: "3",
        address: Job.Address(city: "Bonn", floor: 10, price: 5, since: day + 1, owner: UUID()),
        billing: Job.Address(),
        kinds: [.indoor, .urgent],
        visits: [Job.Visit(city: "Kiel", isDone: true)]
    ),
    Job(id: "4", title: "d"),
]

/// A condition as a closure and as a predicate, and the same condition in Swift.
private struct Form: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var closure: @Sendable (Columns<Job>) throws -> Condition
    var predicate: Predicate<Job>?
    var holds: @Sendable (Job) -> Bool

    init(
        _ name: String,
        _ closure: @escaping @Sendable (Columns<Job>) throws -> Condition,
        _ predicate: Predicate<Job>,
        _ holds: @escaping @Sendable (Job) -> Bool
    ) {
        testDescription = name
        self.closure = closure
        self.predicate = predicate
        self.holds = holds
    }

    init(
        _ name: String,
        _ closure: @escaping @Sendable (Columns<Job>) throws -> Condition,
        _ holds: @escaping @Sendable (Job) -> Bool
    ) {
        testDescription = name
        self.closure = closure
        self.holds = holds
    }
}

private let forms: [Form] = [
    Form(
        "city",
        { $0.address.city == "Kiel" },
        #Predicate { $0.address.city == "Kiel" },
        { $0.address.city == "Kiel" }
    ),
    Form(
        "not city",
        { $0.address.city != "Kiel" },
        #Predicate { $0.address.city != "Kiel" },
        { $0.address.city != "Kiel" }
    ),
    Form(
        "coding key",
        { $0.address.postCode == "24103" },
        #Predicate { $0.address.postCode == "24103" },
        { $0.address.postCode == "24103" }
    ),
    Form(
        "null",
        { $0.address.postCode == nil },
        #Predicate { $0.address.postCode == nil },
        { $0.address.postCode == nil }
    ),
    Form(
        "two levels",
        { $0.address.geo.lat > 1.5 },
        #Predicate { $0.address.geo?.lat ?? 0 > 1.5 },
        { $0.address.geo?.lat ?? 0 > 1.5 }
    ),
    Form(
        "optional member of an optional",
        { $0.address.geo.name == "port" },
        #Predicate { $0.address.geo?.name == "port" },
        { $0.address.geo?.name == "port" }
    ),
    Form(
        "optional value",
        { $0.billing.city == "Bonn" },
        #Predicate { $0.billing?.city == "Bonn" },
        { $0.billing?.city == "Bonn" }
    ),
    Form(
        "no value",
        { $0.billing == nil },
        #Predicate { $0.billing == nil },
        { $0.billing == nil }
    ),
    Form(
        "integer",
        { $0.address.floor >= 2 && $0.address.floor < 10 },
        #Predicate { $0.address.floor >= 2 && $0.address.floor < 10 },
        { $0.address.floor >= 2 && $0.address.floor < 10 }
    ),
    Form("sum", { $0.address.floor + 1 > 3 }, { $0.address.floor + 1 > 3 }),
    Form(
        "condition",
        { $0.address.isOpen },
        #Predicate { $0.address.isOpen },
        { $0.address.isOpen }
    ),
    Form("not", { !$0.address.isOpen }, #Predicate { !$0.address.isOpen }, { !$0.address.isOpen }),
    Form("optional condition", { $0.billing.isLocked }, { $0.billing?.isLocked == true }),
    Form("optional value's condition", { $0.billing.isOpen }, { $0.billing?.isOpen == true }),
    Form("decimal", { $0.address.price == tenth }, { $0.address.price == tenth }),
    Form(
        "date",
        { $0.address.since > day },
        { $0.address.since.map { $0 > day } ?? false }
    ),
    Form("same date", { $0.address.since == day }, { $0.address.since == day }),
    Form("year", { $0.address.since.year == 2023 }, { $0.address.since != nil }),
    Form("uuid", { $0.address.owner == key }, { $0.address.owner == key }),
    Form("enum", { $0.address.kind == .urgent }, { $0.address.kind == .urgent }),
    Form(
        "text",
        { $0.address.city.lowercased() == "kiel" && $0.address.city.hasPrefix("K") },
        { $0.address.city == "Kiel" }
    ),
    Form(
        "list of cities",
        { $0.address.city.isIn(cities) },
        #Predicate { cities.contains($0.address.city) },
        { cities.contains($0.address.city) }
    ),
    Form(
        "two columns",
        { $0.address.city == $0.title },
        #Predicate { $0.address.city == $0.title },
        { $0.address.city == $0.title }
    ),
    Form(
        "two members",
        { $0.address.isOpen == $0.billing.isOpen },
        {
            $0.address.isOpen == $0.billing?.isOpen
        }
    ),
    Form(
        "tag",
        { $0.tags.contains("urgent") },
        #Predicate { $0.tags.contains("urgent") },
        { $0.tags.contains("urgent") }
    ),
    Form(
        "no tag",
        { !$0.tags.contains("urgent") },
        #Predicate { !$0.tags.contains("urgent") },
        { !$0.tags.contains("urgent") }
    ),
    Form(
        "tag of a column",
        { $0.tags.contains($0.title) },
        #Predicate { $0.tags.contains($0.title) },
        { $0.tags.contains($0.title) }
    ),
    Form("enums", { $0.kinds.contains(.urgent) }, { $0.kinds?.contains(.urgent) == true }),
    Form(
        "set",
        { $0.numbers.contains(2) },
        #Predicate { $0.numbers.contains(2) },
        { $0.numbers.contains(2) }
    ),
    Form("dates", { $0.days.contains(day) }, { $0.days.contains(day) }),
    Form(
        "uuids",
        { $0.keys.contains(key) },
        #Predicate { $0.keys.contains(key) },
        { $0.keys.contains(key) }
    ),
    Form(
        "empty",
        { $0.tags.isEmpty },
        #Predicate { $0.tags.isEmpty },
        { $0.tags.isEmpty }
    ),
    Form("empty or null", { $0.kinds.isEmpty }, { $0.kinds?.isEmpty ?? true }),
    Form(
        "count",
        { $0.visits.count > 1 },
        #Predicate { $0.visits.count > 1 },
        { $0.visits.count > 1 }
    ),
    Form(
        "elements",
        { $0.visits.contains { $0.city == "Kiel" && $0.isDone } },
        #Predicate { $0.visits.contains { $0.city == "Kiel" && $0.isDone } },
        { $0.visits.contains { $0.city == "Kiel" && $0.isDone } }
    ),
    Form(
        "element's text",
        { $0.tags.contains { $0.lowercased() == "urgent" } },
        { $0.tags.contains { $0.lowercased() == "urgent" } }
    ),
    Form(
        "all",
        { $0.visits.allSatisfy { $0.isDone } },
        #Predicate { $0.visits.allSatisfy { $0.isDone } },
        { $0.visits.allSatisfy { $0.isDone } }
    ),
    Form(
        "elements of elements",
        { $0.visits.contains { visit in visit.notes.contains { $0 == "a" && visit.isDone } } },
        #Predicate {
            $0.visits.contains { visit in visit.notes.contains { $0 == "a" && visit.isDone } }
        },
        { $0.visits.contains { visit in visit.notes.contains { $0 == "a" && visit.isDone } } }
    ),
    Form(
        "array of an optional",
        { $0.visits.contains { $0.notes.contains("b") } },
        #Predicate { $0.visits.contains { $0.notes.contains("b") } },
        { $0.visits.contains { $0.notes.contains("b") } }
    ),
]

@Suite struct NestedConditionTests {
    private static let schema = TableDefinition(
        "Job",
        columns: [
            ColumnDefinition("title", .string), ColumnDefinition("address", .json),
            ColumnDefinition("billing", .json), ColumnDefinition("tags", .json),
            ColumnDefinition("kinds", .json), ColumnDefinition("numbers", .json),
            ColumnDefinition("days", .json), ColumnDefinition("keys", .json),
            ColumnDefinition("visits", .json),
        ]
    )

    private static func device(
        _ transport: any Transport,
        _ store: any LocalStore = MemoryStore()
    ) async throws -> Device {
        try await Device(transport, store: store, tables: [Job.self])
    }

    @Test(
        "A condition finds the records that the same Swift condition finds",
        arguments: StoreKind.allCases
    )
    func holds(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let device = try await Self.device(
                ScriptedTransport(),
                try kind.stores(in: path)("one")
            )
            let table = try device.client.syncTable(Job.self)
            for job in jobs { try await table.insert(job) }
            for form in forms {
                let wanted = jobs.filter(form.holds).map(\.id)
                #expect(!wanted.isEmpty && wanted.count < jobs.count, "\(form.testDescription)")
                let found = try await table.read(where: form.closure, sortedBy: [.ascending(\.id)])
                #expect(found.map(\.id) == wanted, "\(form.testDescription)")
                guard let predicate = form.predicate else { continue }
                let same = try await table.read(where: predicate, sortedBy: [.ascending(\.id)])
                #expect(same.map(\.id) == wanted, "\(form.testDescription)")
            }
        }
    }

    @Test("The server finds the same records, and a pull stores and removes them")
    func pulls() async throws {
        let server = try await InProcessServer(tables: [Self.schema])
        let writer = try await Self.device(server.transport).client.table(Job.self)
        for job in jobs { try await writer.insert(job) }
        for (number, form) in forms.enumerated() {
            let wanted = jobs.filter(form.holds).map(\.id)
            let found = try await writer.read(where: form.closure, sortedBy: [.ascending(\.id)])
            #expect(found.map(\.id) == wanted, "\(form.testDescription)")
            let device = try await Self.device(server.transport)
            let table = try device.client.syncTable(Job.self)
            try await table.pull(queryID: "q\(number)", where: form.closure)
            #expect(try await table.read(sortedBy: [.ascending(\.id)]).map(\.id) == wanted)
            let report = try await table.verify(queryID: "q\(number)")
            #expect(report.isEqual, "\(form.testDescription)")
        }
    }

    @Test("A row that no longer matches a condition on its array is removed from the device")
    func leaves() async throws {
        let server = try await InProcessServer(tables: [Self.schema])
        let writer = try await Self.device(server.transport).client.table(Job.self)
        for job in jobs { try await writer.insert(job) }
        let device = try await Self.device(server.transport)
        let table = try device.client.syncTable(Job.self)
        let pull = { try await table.pull(queryID: "a", where: { Job.isUrgent($0) }) }
        _ = try await pull()
        #expect(try await table.read().map(\.id) == ["1"])
        try await writer.update(id: "1") { $0.tags = ["later"] }
        try await writer.update(id: "4") { $0.tags = ["urgent"] }
        _ = try await pull()
        #expect(try await table.read().map(\.id) == ["4"])
    }

    @Test("Records are ordered by a property of a nested value")
    func orders() async throws {
        try await withTemporaryFile { path in
            for kind in StoreKind.allCases {
                let store = try await kind.stores(in: path)("\(kind)")
                let device = try await Self.device(ScriptedTransport(), store)
                let table = try device.client.syncTable(Job.self)
                for job in jobs { try await table.insert(job) }
                func order(_ terms: SortTerm<Job>...) async throws -> [String] {
                    try await table.read(sortedBy: terms).map(\.id)
                }
                #expect(try await order(.ascending(\.address.city)) == ["4", "3", "1", "2"])
                #expect(try await order(.descending(\.address.floor)) == ["3", "1", "4", "2"])
                #expect(
                    try await order(.ascending(\.address.price), .descending(\.id)) == [
                        "4", "2", "1", "3",
                    ]
                )
                #expect(try await order(.descending(\.address.since)) == ["3", "1", "2", "4"])
                #expect(try await order(.descending(\.address.geo?.lat)) == ["1", "2", "3", "4"])
                #expect(try await order(.descending(\.billing?.city)) == ["1", "3", "2", "4"])
                #expect(try await order(.descending(\.address.isOpen)) == ["1", "2", "3", "4"])
                #expect(try await order(.descending(\.address.kind)) == ["1", "2", "3", "4"])
            }
        }
        let server = try await InProcessServer(tables: [Self.schema])
        let remote = try await Self.device(server.transport).client.table(Job.self)
        for job in jobs { try await remote.insert(job) }
        let found = try await remote.read(sortedBy: [.descending(\.address.floor)])
        #expect(found.map(\.id) == ["3", "1", "4", "2"])
        for term in [SortTerm<Job>.ascending(\.tags.count), .ascending(\.address.geo)] {
            let error = #expect(throws: SyncError.self) { try Query<Job>().sorted(by: term) }
            #expect(error?.code == .unsupportedQuery)
        }
    }

    @Test("Conditions can be declared outside of a query, and combined")
    func combined() async throws {
        let device = try await Self.device(ScriptedTransport())
        let table = try device.client.syncTable(Job.self)
        for job in jobs { try await table.insert(job) }
        func ids(_ condition: RecordCondition<Job>) async throws -> [String] {
            try await table.read(try Query(where: condition).sorted(by: .ascending(\.id))).items
                .map(\.id)
        }
        #expect(try await ids(Job.isUrgent && Job.isInKiel) == ["1"])
        #expect(try await ids(Job.isUrgent || !Job.isInKiel) == ["1", "2", "3", "4"])
        #expect(try await ids(!Job.isUrgent && !Job.isInKiel) == ["2", "3", "4"])
        #expect(try await table.count(where: { Job.isInKiel($0) && $0.title == "x" }) == 0)
        let open = try Query<Job>().filter { $0.visits.contains { $0.isDone } }
        #expect(try await table.read(open).items.count == 3)
        let kiel = try open.filter(Job.isInKiel).filter { $0.address.floor > 1 }
        #expect(try await table.read(kiel).items.map(\.id) == ["1"])
        #expect(try Query<Job>().filter { _ in true }.filter == nil)
        let broken = RecordCondition<Job> { $0.address.summary == "a" }
        let error = #expect(throws: SyncError.self) { try Query(where: !broken && Job.isUrgent) }
        #expect(error?.code == .unsupportedQuery)
    }

    @Test("A row without a nested value matches the default of its property")
    func defaults() async throws {
        let device = try await Self.device(ScriptedTransport())
        try await device.seed([["id": "a", "title": "x"]], "Job")
        let table = try device.client.syncTable(Job.self)
        let record = try #require(try await table.read(id: "a"))
        #expect(record.tags.isEmpty)
        #expect(try await table.count(where: { $0.tags.isEmpty && $0.tags.count == 0 }) == 1)
        #expect(try await table.count(where: { $0.tags.contains("urgent") }) == 0)
        #expect(try await table.count(where: { $0.billing.city == nil }) == 1)
    }

    @Test("Nested conditions are written as OData filters")
    func trees() throws {
        func text(_ condition: (Columns<Job>) throws -> Condition) throws -> String {
            try ODataWriter(.v4).filter(try Filter(for: Job.self, where: condition).expression)
        }
        #expect(try text { $0.address.postCode == "1" } == "address/post-code eq '1'")
        #expect(try text { $0.address.geo.lat > 1 } == "address/geo/lat gt 1.0")
        #expect(try text { $0.tags.contains("a") } == "tags/any(x:x eq 'a')")
        #expect(try text { $0.kinds.contains(.indoor) } == "kinds/any(x:x eq 'indoor')")
        #expect(
            try text { $0.visits.contains { $0.notes.isEmpty } }
                == "visits/any(x:not(x/notes/any()))"
        )
        #expect(
            try text { $0.visits.contains { visit in visit.notes.contains { $0 == visit.city } } }
                == "visits/any(x:x/notes/any(x1:x1 eq x/city))"
        )
        #expect(try text { $0["a"]["b"]["c"] == 1 } == "a/b/c eq 1")
        #expect(try text { $0["a"].contains { $0 == 1 } } == "a/any(x:x eq 1)")
        #expect(try text { $0.address["x", as: Int.self] == 1 } == "address/x eq 1")
        #expect(
            try text { $0.address.owner == key }
                == "cast(address/owner,Edm.Guid) eq \(key.uuidString.lowercased())"
        )
    }

    @Test("Conditions on the elements of two columns work on the device and are not sent")
    func twoColumns() async throws {
        let device = try await Self.device(ScriptedTransport())
        let table = try device.client.syncTable(Job.self)
        for job in jobs { try await table.insert(job) }
        let condition = { @Sendable (job: Columns<Job>) in
            job.visits.contains { visit in visit.isDone && job.tags.contains { $0 == visit.city } }
        }
        #expect(try await table.read(where: condition).map(\.id) == ["1"])
        let urgent = { @Sendable (job: Columns<Job>) -> Condition in
            let isUrgent = job.tags.contains("urgent")
            return job.visits.contains { $0.isDone && isUrgent }
        }
        #expect(try await table.read(where: urgent).map(\.id) == ["1"])
        let error = await #expect(throws: SyncError.self) {
            try await device.client.table(Job.self).read(where: condition)
        }
        #expect(error?.code == .unsupportedQuery)
    }

    @Test("A condition that an original server cannot read is not sent to it")
    func originals() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport, tables: [Job.self], generation: .classic)
        let error = await #expect(throws: SyncError.self) {
            try await device.client.table(Job.self).read(where: { $0.tags.contains("urgent") })
        }
        #expect(error?.code == .unsupportedQuery)
        #expect(error?.message.contains("protocol 2.x") == true)
        #expect(transport.sent.isEmpty)
    }

    @Test("An unsupported condition throws an error that names its type")
    func unsupported() throws {
        func message(_ condition: (Columns<Job>) throws -> Condition) -> String {
            let error = #expect(throws: SyncError.self) {
                try Filter(for: Job.self, where: condition)
            }
            #expect(error?.code == .unsupportedQuery)
            return error?.message ?? ""
        }
        #expect(message { $0.title.hashValue == 3 }.contains("String"))
        #expect(message { $0.address.summary == "a" }.contains("Address"))
        #expect(message { $0.updatedAt.timeIntervalSince1970 == 1 }.contains("Date"))
    }
}

extension Job.Address {
    fileprivate var summary: String { city }
}
