// ServerOperations: requests to a server with a database file, without a socket.

import Foundation
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite

extension Operation {
    static let serverOperations = [
        Operation(name: "create", count: 100, runs: 20) { directory in
            let server = try await MeasuredServer(in: directory)
            return {
                let requests = server.creates(100)
                return { try await server.send(requests, expecting: 201) }
            }
        },
        Operation(name: "update", count: 100, runs: 20) { directory in
            let server = try await MeasuredServer(in: directory)
            return {
                let requests = try await server.updates(100)
                return { try await server.send(requests, expecting: 200) }
            }
        },
        Operation(name: "batch-row", count: 500, runs: 20) { directory in
            let server = try await MeasuredServer(in: directory)
            return {
                let requests = (0..<5).map { _ in server.batch(rows: 100) }
                return { try await server.send(requests, expecting: 200, rowsCreated: 100) }
            }
        },
        Operation(name: "pull-page", count: 500) { directory in
            let server = try await MeasuredServer(in: directory)
            let page = try await server.pullPage(rows: 50, of: 2000)
            return {
                let requests = Array(repeating: page, count: 500)
                return { try await server.send(requests, expecting: 200) }
            }
        },
        Operation(name: "empty-delta", count: 500) { directory in
            let server = try await MeasuredServer(in: directory)
            let delta = try await server.emptyDelta(rows: 100)
            return {
                let requests = Array(repeating: delta, count: 500)
                return { try await server.send(requests, expecting: 200) }
            }
        },
    ]
}

/// A server with a database file, as the program `tideline` opens it.
final class MeasuredServer: Sendable {
    private static let path = "/tables/TodoItem"

    let handler: RequestHandler
    private let environment = FixedEnvironment()

    init(in directory: String) async throws {
        let environment = environment
        var options = SQLiteTableStore.Options()
        options.now = { environment.now() }
        // No purge begins during a run.
        options.purgeInterval = .seconds(86_400)
        let columns = try RecordSchema.of(TodoItem.self).table.columns
        var settings = ServerSettings(tables: [TableDefinition("TodoItem", columns: columns)])
        settings.environment = ServerEnvironment(
            now: { environment.now() },
            makeID: { environment.makeID() }
        )
        let store = try SQLiteTableStore(path: "\(directory)/server.db", options: options)
        handler = RequestHandler(try await TableService(settings, store: store))
    }

    // MARK: - Requests

    private func request(
        _ method: String,
        _ path: String,
        query: String = "",
        headers: HTTPFields = [:],
        _ body: String = ""
    ) -> ServerRequest {
        var fields: HTTPFields = [
            "Host": "localhost:8080", "User-Agent": "Tideline/0.1", "Accept": "application/json",
            "ZUMO-API-VERSION": "3.0.0",
        ]
        for field in headers { fields.append(field.name, field.value) }
        if !body.isEmpty { fields.append("Content-Type", "application/json") }
        return ServerRequest(
            method: method,
            path: path,
            query: query,
            headers: fields,
            body: Array(body.utf8)
        )
    }

    func creates(_ count: Int) -> [ServerRequest] {
        (0..<count).map { number in
            request("POST", Self.path, TodoItem.json(number: number, id: environment.makeID()))
        }
    }

    /// Creates rows, and returns a conditional update for each of them.
    func updates(_ count: Int) async throws -> [ServerRequest] {
        var updates: [ServerRequest] = []
        for number in 0..<count {
            let id = environment.makeID()
            let body = TodoItem.json(number: number, id: id)
            let response = await handler.handle(request("POST", Self.path, body))
            guard response.status == 201, let tag = response.headers["ETag"] else {
                throw WrongResult("POST: \(response.status)")
            }
            updates.append(
                request(
                    "PATCH",
                    "\(Self.path)/\(id)",
                    headers: ["If-Match": tag],
                    "{\"text\":\"edit \(10_000_000 + number) abcdefghijklmnopqrstuvwxyz\"}"
                )
            )
        }
        return updates
    }

    /// Returns a batch of inserts, each with an idempotency key, as a client pushes them.
    func batch(rows: Int) -> ServerRequest {
        let sent = HTTPDate.text(microseconds: FixedEnvironment.start)
        let parts = (1...rows).map { number in
            """
            {"id":"\(number)","method":"POST","url":"\(Self.path)","headers":{\
            "Repeatability-Request-ID":"\(environment.makeID())","Repeatability-First-Sent":"\(sent)"},\
            "body":\(TodoItem.json(number: number, id: environment.makeID()))}
            """
        }
        return request("POST", "/$batch", "{\"requests\":[\(parts.joined(separator: ","))]}")
    }

    /// Creates rows.
    func fill(rows: Int) async throws {
        for start in stride(from: 0, to: rows, by: 1000) {
            let count = min(1000, rows - start)
            try await send([batch(rows: count)], expecting: 200, rowsCreated: count)
        }
    }

    /// Fills the table, and returns the request for a page from its middle.
    func pullPage(rows: Int, of all: Int) async throws -> ServerRequest {
        try await fill(rows: all)
        let list = await handler.handle(
            request("GET", Self.path, query: "$orderby=updatedAt&$skip=\(all / 2)&$top=1")
        )
        guard let middle = try list.members["items"] as? [[String: Any]],
            let time = middle.first?["updatedAt"] as? String
        else { throw WrongResult("GET: \(list.status)") }
        let page = request(
            "GET",
            Self.path,
            query: "$filter=(updatedAt%20ge%20\(time))&$orderby=updatedAt&__includeDeleted=true",
            headers: ["Prefer": "odata.maxpagesize=\(rows), odata.track-changes"]
        )
        let count = try await handler.handle(page).members["items"] as? [Any]
        guard count?.count == rows else { throw WrongResult("a page of \(count?.count ?? 0) rows") }
        return page
    }

    /// Fills the table, and returns the request for the changes since then.
    func emptyDelta(rows: Int) async throws -> ServerRequest {
        try await fill(rows: rows)
        let headers: HTTPFields = ["Prefer": "odata.maxpagesize=1000, odata.track-changes"]
        let list = await handler.handle(
            request(
                "GET",
                Self.path,
                query: "$orderby=updatedAt&__includeDeleted=true",
                headers: headers
            )
        )
        guard let link = try list.members["@odata.deltaLink"] as? String,
            let query = link.split(separator: "?").last
        else { throw WrongResult("GET: \(list.status), without a delta link") }
        let delta = request("GET", Self.path, query: String(query), headers: headers)
        let count = try await handler.handle(delta).members["items"] as? [Any]
        guard count?.isEmpty == true else { throw WrongResult("a delta with rows") }
        return delta
    }

    // MARK: - Responses

    /// Sends requests one after the other; allocates nothing itself.
    ///
    /// - Throws: ``WrongResult`` if a response has another status, or a batch created fewer rows.
    func send(
        _ requests: [ServerRequest],
        expecting status: Int,
        rowsCreated: Int = 0
    ) async throws {
        for request in requests {
            let response = await handler.handle(request)
            guard response.status == status else {
                let text = String(decoding: response.body, as: UTF8.self)
                throw WrongResult("\(request.method) \(request.path): \(response.status) \(text)")
            }
            guard rowsCreated == 0 || response.created == rowsCreated else {
                throw WrongResult("a batch created \(response.created) of \(rowsCreated) rows")
            }
        }
    }
}

extension ServerResponse {
    fileprivate var members: [String: Any] {
        get throws {
            try JSONSerialization.jsonObject(with: Data(body)) as? [String: Any] ?? [:]
        }
    }

    /// The number of requests of a batch that created a row.
    fileprivate var created: Int {
        let text: StaticString = "\"status\":201"
        let size = text.utf8CodeUnitCount
        return body.withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress, bytes.count >= size else { return 0 }
            return (0...bytes.count - size).count { memcmp(start + $0, text.utf8Start, size) == 0 }
        }
    }
}
