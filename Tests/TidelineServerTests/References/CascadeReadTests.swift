// CascadeReadTests: what readers learn of a cascade by digests, events and delta links, on both databases.

import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

@Suite struct CascadeReadTests {
    /// The limits of rows with which a cascade runs in one transaction, and in steps.
    private static let cascadeRows = [1000, 3]

    private static func with(
        _ onPostgres: Bool,
        _ cascadeRows: Int,
        traffic: ServerTraffic = ServerTraffic(),
        relay: ((any TableStore) -> any TableStore)? = nil,
        _ body: (TestServer) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            let url = onPostgres ? try PostgresCluster.shared().database() : nil
            var limits = ServerLimits()
            limits.cascadeRows = cascadeRows
            let server = try await TestServer(
                FieldService.tables(),
                path: onPostgres ? nil : directory + "/a.db",
                onPostgres: onPostgres,
                database: url,
                limits: limits,
                traffic: traffic,
                relay: relay
            )
            try await body(server)
            await server.store.stop()
        }
    }

    /// Stores the customers `c` and `d` with five jobs, each with two visits, and three notes.
    private static func fill(_ server: TestServer) async {
        func put(_ table: String, _ id: String, _ values: [String: String?] = [:]) async {
            let body = FieldService.json(id, values)
            let answer = await server.send("POST", "/tables/\(table)", body)
            #expect(answer.status == 201, "\(answer.text)")
        }
        for customer in ["c", "d"] {
            await put("Customer", customer)
            for number in 1...5 {
                let job = "\(customer)\(number)"
                await put("Job", job, ["customerID": customer])
                for visit in ["x", "y"] { await put("Visit", job + visit, ["jobID": job]) }
            }
            for note in 1...3 { await put("Note", "\(customer)\(note)", ["customerID": customer]) }
        }
    }

    /// Waits until no row refers to the first customer or to one of its jobs.
    private static func untilDone(_ server: TestServer) async throws {
        try await until {
            var ids = await server.send("GET", "/tables/Job").ids
            ids += await server.send("GET", "/tables/Visit").ids
            ids += await server.send("GET", "/tables/Note?$filter=customerID ne null").ids
            return ids.allSatisfy { $0.hasPrefix("d") }
        }
    }

    /// Returns the versions of the rows of a table, by their ids.
    private static func versions(
        _ table: String,
        _ server: TestServer
    ) async throws -> [String: String] {
        let list = await server.send("GET", "/tables/\(table)")
        try #require(list.status == 200, "\(list.text)")
        var versions: [String: String] = [:]
        for row in list.rows {
            let id = try #require(row["id"] as? String)
            versions[id] = try #require(row["version"] as? String)
        }
        return versions
    }

    /// Compares the digest of a table with the one that a device computes from rows with these versions.
    private static func expectDigest(
        _ table: String,
        of versions: [String: String],
        _ server: TestServer
    ) async throws {
        let answer = await server.send("GET", "/tables/\(table)/$digest")
        try #require(answer.status == 200, "\(answer.text)")
        var bytes: [UInt8] = []
        for (id, version) in versions.sorted(by: { $0.key < $1.key }) {
            bytes += Array(id.utf8) + [0] + Array(version.utf8) + [0x0A]
        }
        #expect(answer.row["count"] as? Int == versions.count)
        #expect(answer.row["digest"] as? String == SHA256.hex(SHA256.hash(bytes)))
    }

    // MARK: - Digests

    @Test(
        "The digest of a child table has no row that a cascade has deleted",
        arguments: FieldService.backends,
        cascadeRows
    )
    func digestsAfterCascade(_ onPostgres: Bool, _ cascadeRows: Int) async throws {
        try await Self.with(onPostgres, cascadeRows) { server in
            await Self.fill(server)
            let jobs = try await Self.versions("Job", server)
            let visits = try await Self.versions("Visit", server)
            try await Self.expectDigest("Visit", of: visits, server)
            #expect(await server.send("DELETE", "/tables/Customer/c").status == 204)
            try await Self.untilDone(server)
            try await Self.expectDigest("Job", of: jobs.filter { $0.key.hasPrefix("d") }, server)
            try await Self.expectDigest(
                "Visit",
                of: visits.filter { $0.key.hasPrefix("d") },
                server
            )
        }
    }

    @Test(
        "The digest of a child table has the new versions of the rows that 'setNull' has changed",
        arguments: FieldService.backends,
        cascadeRows
    )
    func digestsAfterSetNull(_ onPostgres: Bool, _ cascadeRows: Int) async throws {
        try await Self.with(onPostgres, cascadeRows) { server in
            await Self.fill(server)
            let before = try await Self.versions("Note", server)
            #expect(await server.send("DELETE", "/tables/Customer/c").status == 204)
            try await Self.untilDone(server)
            let after = try await Self.versions("Note", server)
            let changed = before.keys.filter { before[$0] != after[$0] }.sorted()
            #expect(changed == ["c1", "c2", "c3"])
            #expect(after.count == 6)
            try await Self.expectDigest("Note", of: after, server)
        }
    }

    // MARK: - Events

    /// Waits until a listener has an event for each of some tables.
    private static func expect(
        _ tables: [String],
        _ listener: inout EventListener,
        _ feed: inout EventFeed
    ) async throws {
        var text = ""
        try await until {
            listener.note(feed.refresh())
            text += String(decoding: listener.next(feed.timestamps), as: UTF8.self)
            return tables.allSatisfy { text.contains("data: {\"table\":\"\($0)\"}") }
        }
    }

    @Test(
        "A listener gets an event for each table that a cascade changes",
        arguments: FieldService.backends
    )
    func events(_ onPostgres: Bool) async throws {
        let traffic = ServerTraffic()
        try await Self.with(onPostgres, 1000, traffic: traffic) { server in
            await Self.fill(server)
            var feed = traffic.events.attach(wake: {})
            let answer = await server.send("GET", "/$events?tables=Job,Visit,Note")
            var listener = try #require(answer.stream).listener(feed)
            #expect(await server.send("DELETE", "/tables/Customer/c").status == 204)
            try await Self.expect(["Job", "Visit", "Note"], &listener, &feed)
        }
    }

    @Test(
        "A listener gets an event for each table that the steps of a cascade change",
        arguments: FieldService.backends
    )
    func eventsOfSteps(_ onPostgres: Bool) async throws {
        let traffic = ServerTraffic()
        func relay(_ store: any TableStore) -> any TableStore {
            RelayedStore(store, holdsCascades: true)
        }
        try await Self.with(onPostgres, 3, traffic: traffic, relay: relay) { server in
            await Self.fill(server)
            var feed = traffic.events.attach(wake: {})
            let parents = await server.send("GET", "/$events?tables=Customer")
            let children = await server.send("GET", "/$events?tables=Job,Visit,Note")
            var parentListener = try #require(parents.stream).listener(feed)
            var listener = try #require(children.stream).listener(feed)
            #expect(await server.send("DELETE", "/tables/Customer/c").status == 204)
            // Both listeners learn of the same commits.
            try await until {
                let changed = feed.refresh()
                parentListener.note(changed)
                listener.note(changed)
                return parentListener.isPending
            }
            #expect(!listener.isPending)
            let store = try #require(server.store as? RelayedStore)
            try await store.releaseCascades()
            try await Self.expect(["Job", "Visit", "Note"], &listener, &feed)
        }
    }

    // MARK: - Delta links

    @Test(
        "A device that pulls small pages during the steps gets each deletion once",
        arguments: FieldService.backends
    )
    func pages(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres, 3) { server in
            await Self.fill(server)
            var target = try await FieldService.deltaLink("Visit") { target, headers in
                await server.send("GET", target, headers: headers)
            }
            #expect(await server.send("DELETE", "/tables/Customer/c").status == 204)
            var removed: [String] = []
            func pull() async throws {
                var isLast = false
                while !isLast {
                    let page = await server.send(
                        "GET",
                        target,
                        headers: ["Prefer": "maxpagesize=2"]
                    )
                    try #require(page.status == 200, "\(page.text)")
                    #expect(page.rows.count <= 2)
                    removed += page.rows.filter { $0["@removed"] != nil }.map {
                        $0["id"] as? String ?? "?"
                    }
                    isLast = page.deltaLink != nil
                    let next = try #require(page.deltaLink ?? page.row["nextLink"] as? String)
                    target = "/tables/Visit?" + next
                }
            }
            try await until {
                try await pull()
                return removed.count >= 10
            }
            try await Self.untilDone(server)
            try await pull()
            let visits = (1...5).flatMap { ["c\($0)x", "c\($0)y"] }
            #expect(removed.sorted() == visits)
        }
    }

    @Test("The steps delete each row after its parent", arguments: FieldService.backends)
    func order(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres, 3) { server in
            await Self.fill(server)
            #expect(await server.send("DELETE", "/tables/Customer/c").status == 204)
            try await Self.untilDone(server)
            /// Returns the time of each tombstone, and its parent.
            func tombstones(
                _ table: String,
                _ column: String
            ) async throws -> [String: (time: String, parent: String?)] {
                let list = await server.send("GET", "/tables/\(table)?__includeDeleted=true")
                var found: [String: (time: String, parent: String?)] = [:]
                for row in list.rows where row["deleted"] as? Bool == true {
                    let id = try #require(row["id"] as? String)
                    let time = try #require(row["updatedAt"] as? String)
                    found[id] = (time, row[column] as? String)
                }
                return found
            }
            let customers = try await tombstones("Customer", "name")
            let jobs = try await tombstones("Job", "customerID")
            let visits = try await tombstones("Visit", "jobID")
            #expect(customers.count == 1 && jobs.count == 5 && visits.count == 10)
            for (children, parents) in [(jobs, customers), (visits, jobs)] {
                for (id, child) in children {
                    let parentTime = try #require(parents[child.parent ?? ""]?.time)
                    #expect(parentTime <= child.time, "\(id)")
                }
            }
        }
    }
}
