// PullClients: the pull algorithms of the original clients in their smallest form.
//
// Each follows its description (classic-protocol.md 3.7.2, datasync-protocol.md 13, 14.4) and sends requests through
// the in-process server. `served` runs after each page that the server returned.

import Foundation
import TidelineCore
import TidelineServerCore

/// A device: its rows with their versions by id, and its token.
package struct Device: Sendable {
    package enum Algorithm: String, CaseIterable, Sendable {
        case iOS
        case dotNet
        case javaScript
        case android
        /// The client of Datasync 6.
        case datasync6
        /// The client of the toolkit.
        case datasync8
    }

    package let algorithm: Algorithm
    package let server: TestServer
    package var size = 50
    package var rows: [String: String] = [:]
    package var token: String?
    package var requests = 0

    package init(_ algorithm: Algorithm, _ server: TestServer, size: Int = 50) {
        self.algorithm = algorithm
        self.server = server
        self.size = size
    }

    package mutating func pull(served: () async -> Void = {}) async throws {
        switch algorithm {
        case .iOS: try await pullAsIOS(served)
        case .dotNet: try await pullAsDotNet(served)
        case .javaScript, .android: try await pullByLastRow(served)
        case .datasync6: try await pullByLinks("X-ZUMO-Options", served)
        case .datasync8: try await pullByLinks(nil, served)
        }
    }

    private static let start = "1970-01-01T00:00:00.000Z"

    struct Page {
        var rows: [[String: Any]]
        var next: String?

        var last: String? { rows.last?["updatedAt"] as? String }
        var latest: String? { rows.compactMap { $0["updatedAt"] as? String }.max() }
    }

    package struct Failure: Error {
        package var status: Int
        package var text: String
    }

    private mutating func page(
        _ target: String,
        classic: Bool = true,
        headers: HTTPFields = [:],
        _ served: () async -> Void
    ) async throws -> Page {
        requests += 1
        let answer = await server.send("GET", target, classic: classic, headers: headers)
        guard answer.status == 200 else { throw Failure(status: answer.status, text: answer.text) }
        for row in answer.rows {
            guard let id = row["id"] as? String, let version = row["version"] as? String else {
                throw Failure(status: 200, text: "a row without id or version")
            }
            rows[id] = row["deleted"] as? Bool == true ? nil : version
        }
        await served()
        var next = answer.row["nextLink"] as? String
        if let link = answer.headers["Link"], let end = link.firstIndex(of: ";") {
            next = String(link[..<end].dropFirst("http://example.test:8080".count))
        }
        return Page(rows: answer.rows, next: next)
    }

    private func target(since token: String?, skip: Int?, literal: String? = nil) -> String {
        var parts: [String] = []
        if let token {
            parts.append("$filter=(updatedAt ge datetimeoffset'\(literal ?? token)')")
        }
        parts += ["$orderby=updatedAt", "$top=\(size)", "__includeDeleted=true"]
        if let skip { parts.append("$skip=\(skip)") }
        return "/tables/TodoItem?" + parts.joined(separator: "&")
    }

    // MARK: - Classic

    private mutating func pullAsIOS(_ served: () async -> Void) async throws {
        var latest = token ?? Self.start
        var since = latest
        var skip = 0
        while true {
            let page = try await page(target(since: since, skip: skip), served)
            guard let last = page.latest else { return }
            latest = max(latest, last)
            if since < latest {
                (token, since, skip) = (latest, latest, 0)
            } else {
                skip += page.rows.count
            }
        }
    }

    private mutating func pullAsDotNet(_ served: () async -> Void) async throws {
        var since = token ?? Self.start
        var latest = since
        var skip = 0
        var position = 0
        while true {
            let literal = since.replacing("Z", with: "0000%2B00:00")
            var page = try await page(target(since: since, skip: skip, literal: literal), served)
            var isEmpty = page.rows.isEmpty
            while true {
                position += page.rows.count
                if let last = page.latest { latest = max(latest, last) }
                guard let next = page.next else { break }
                page = try await self.page(next, served)
                isEmpty = page.rows.isEmpty
            }
            if isEmpty { break }
            if latest > since {
                (token, since, skip, position) = (latest, latest, 0, 0)
            } else {
                skip = position
            }
        }
        token = latest
    }

    /// JavaScript and Android: the token is the time of the last row; `$skip` grows while the time stays the same.
    private mutating func pullByLastRow(_ served: () async -> Void) async throws {
        var since = token ?? (algorithm == .javaScript ? "1969-12-31T08:00:00.000Z" : nil)
        var skip = 0
        while true {
            let target = target(since: since, skip: skip > 0 ? skip : nil)
            let page = try await page(target, served)
            if algorithm == .javaScript { token = since }
            guard let last = page.last else { return }
            if algorithm == .android { token = last }
            if last == since {
                skip += page.rows.count
            } else {
                (since, skip) = (last, 0)
            }
        }
    }

    // MARK: - Datasync

    private mutating func pullByLinks(_ option: String?, _ served: () async -> Void) async throws {
        let headers: HTTPFields = option.map { [$0: "nextLink=path"] } ?? [:]
        var parts = ["$orderby=updatedAt", "$count=true"]
        if let token {
            parts.insert("$filter=(updatedAt gt cast(\(token),Edm.DateTimeOffset))", at: 0)
        }
        if token != nil || algorithm == .datasync8 { parts.append("__includedeleted=true") }
        var target: String? = "/tables/TodoItem?" + parts.joined(separator: "&")
        while let current = target {
            let page = try await page(current, classic: false, headers: headers, served)
            if let last = page.latest { token = max(token ?? last, last) }
            target = page.next.map { option == nil ? "/tables/TodoItem?" + $0 : $0 }
        }
    }
}
