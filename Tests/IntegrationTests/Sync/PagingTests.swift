// PagingTests: pulls of several pages, without and during other writes, against all backends.

import Foundation
import Synchronization
import Testing
import Tideline

struct PagingTests {
    /// Inserts rows by requests, several at a time, so that many share a millisecond.
    private func fill(_ backend: Backend, _ count: Int) async throws {
        try await withThrowingTaskGroup { group in
            for worker in 0..<8 {
                group.addTask {
                    for number in stride(from: worker, to: count, by: 8) {
                        let body = #"{"id":"n\#(number)","text":"text","rank":\#(number % 10)}"#
                        let answer = try await backend.wire.send("POST", "/tables/Note", body)
                        #expect(answer.status == 201)
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    @Test("A pull reads all pages", arguments: BackendKind.allCases)
    func pullReadsAllPages(through kind: BackendKind) async throws {
        try await withBackend(kind) { backend in
            try await fill(backend, 250)
            let device = try await backend.device()
            let result = try await device.sync()
            #expect(result.requests >= 250 / 40)
            #expect(result.applied >= 250)
            #expect(try await device.notes.count() == 250)
            try await expectAgreement(device)
            let whole = try await device.notes.pull(queryID: nil)
            #expect(whole.applied == 250)
            try await expectAgreement(device)
        }
    }

    @Test(
        "A remote read follows all pages with its order, limit, offset and filter",
        arguments: BackendKind.allCases
    )
    func remoteReadsFollowAllPages(through kind: BackendKind) async throws {
        try await withBackend(kind) { backend in
            try await fill(backend, 130)
            let table = try await backend.device().client.table(Note.self)
            let order: [SortTerm<Note>] = [.descending(\.rank), .ascending(\.id)]
            let all = try await table.read(sortedBy: order)
            #expect(Set(all.map(\.id)).count == 130 && all.count == 130)
            #expect(all.map { -($0.rank ?? 0) } == all.map { -($0.rank ?? 0) }.sorted())
            let part = try await table.read(sortedBy: order, limit: 75, offset: 20)
            #expect(part == Array(all[20..<95]))
            let some = try await table.read(where: { $0.rank >= 5 }, sortedBy: order)
            #expect(some == all.filter { ($0.rank ?? 0) >= 5 })
            #expect(try await table.count() == 130)
            #expect(try await table.count(where: { $0.rank >= 5 }) == some.count)
        }
    }

    @Test("A pull with a filter reads only the matching rows", arguments: BackendKind.allCases)
    func filteredPullReadsAllPages(through kind: BackendKind) async throws {
        try await withBackend(kind) { backend in
            try await fill(backend, 200)
            let device = try await backend.device()
            try await device.notes.pull(queryID: "some", where: { $0.rank >= 5 })
            #expect(try await device.notes.count() == 100)
            let server = try await device.serverRows().filter { row in
                guard case .integer(let rank) = row.value["rank"] else { return false }
                return rank >= 5
            }
            #expect(try await device.rows() == server)
        }
    }

    @Test(
        "Rows that change between the pages of a pull are neither lost nor outdated",
        arguments: BackendKind.allCases
    )
    func pullDuringOtherWrites(through kind: BackendKind) async throws {
        try await withBackend(kind) { backend in
            try await fill(backend, 200)
            let wire = backend.wire
            let transport = MeddlingTransport(inner: backend.transport) { page in
                guard page <= 6 else { return }
                // One row before the cursor, one after it, a delete and an insert.
                for id in ["n\(page)", "n\(199 - page)"] {
                    let body = #"{"text":"page \#(page)"}"#
                    let answer = try await wire.send("PATCH", "/tables/Note/\(id)", body)
                    #expect(answer.status == 200)
                }
                _ = try await wire.send("DELETE", "/tables/Note/n\(50 + page)")
                _ = try await wire.send("POST", "/tables/Note", #"{"id":"new\#(page)"}"#)
            }
            let device = try await backend.device(through: transport)
            try await device.sync()
            try await device.sync()
            try await expectAgreement(device)
            #expect(try await device.notes.count() == 200)
        }
    }
}

/// Runs a closure before every requested page.
private final class MeddlingTransport: Transport {
    private let inner: any Transport
    private let meddle: @Sendable (Int) async throws -> Void
    private let pages = Mutex(0)

    init(inner: any Transport, meddle: @escaping @Sendable (Int) async throws -> Void) {
        self.inner = inner
        self.meddle = meddle
    }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        if request.method == "GET" {
            let page = pages.withLock { pages in
                pages += 1
                return pages
            }
            try await meddle(page)
        }
        return try await inner.send(request)
    }
}
