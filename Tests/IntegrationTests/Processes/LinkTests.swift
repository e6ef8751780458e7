// LinkTests: next links of both generations, followed unchanged over a real socket.

import Foundation
import Testing
import Tideline

extension ProcessTests {
    struct LinkTests {
        private func withRows(
            _ configuration: String = ServerProcess.configuration,
            _ body: (Wire, ServerProcess) async throws -> Void
        ) async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: configuration
                )
                let wire = Wire(endpoint: server.url, transport: CurlTransport())
                for number in 0..<110 {
                    let text = number % 2 == 0 ? "caf\u{E9} & 100%" : "tea"
                    let body = #"{"id":"n\#(number)","text":"\#(text)","rank":\#(number % 7)}"#
                    let answer = try await wire.send("POST", "/tables/Note", body)
                    #expect(answer.status == 201)
                }
                try await body(wire, server)
            }
        }

        static let queries = [
            "", "$orderby=rank%20desc,text", "$filter=text%20eq%20'caf%C3%A9%20%26%20100%25'",
            "$top=60&$skip=5", "$select=id,text&$orderby=updatedAt", "$orderby=id&a=b%26c",
        ]

        @Test("A classic client that follows Link headers reads each row once")
        func classicLinks() async throws {
            try await withRows { wire, server in
                for query in Self.queries { try await followClassic(query, wire, server.port) }
            }
        }

        private func followClassic(_ query: String, _ wire: Wire, _ port: Int) async throws {
            var target = "/tables/Note?" + query
            var ids: [String] = []
            var requests = 0
            while requests < 10 {
                requests += 1
                let answer = try await wire.send("GET", target, classic: true)
                try #require(answer.status == 200)
                ids += answer.ids
                guard let link = answer.headers["Link"] else { break }
                #expect(link.hasPrefix("http://127.0.0.1:\(port)/tables/Note?"))
                #expect(link.hasSuffix("; rel=next"))
                target = String(link.dropLast("; rel=next".count))
            }
            // $top is the page size in this generation, $skip the number of rows before the first.
            try await expectWhole(ids, query, wire, top: nil)
            #expect(requests > 1)
        }

        @Test("A client that follows next links reads each row once")
        func nextLinks() async throws {
            try await withRows { wire, _ in
                for query in Self.queries {
                    try await follow(query, wire, asPath: false)
                    try await follow(query, wire, asPath: true)
                }
            }
        }

        private func follow(_ query: String, _ wire: Wire, asPath: Bool) async throws {
            let headers: HTTPFields = asPath ? ["X-ZUMO-Options": "nextLink=path"] : [:]
            var target = "/tables/Note?" + query
            var ids: [String] = []
            var requests = 0
            while requests < 10 {
                requests += 1
                let answer = try await wire.send("GET", target, headers: headers)
                try #require(answer.status == 200)
                ids += answer.ids
                guard let link = answer.object["nextLink"] as? String else { break }
                #expect(link.hasPrefix("/tables/Note?") == asPath)
                target = asPath ? link : "/tables/Note?" + link
            }
            try await expectWhole(ids, query, wire, top: 60)
            #expect(requests > 1)
        }

        /// Expects all rows of the query, each once: as many as the server counts, within the window.
        private func expectWhole(
            _ ids: [String],
            _ query: String,
            _ wire: Wire,
            top: Int?
        ) async throws {
            #expect(Set(ids).count == ids.count)
            let filter = query.split(separator: "&").first { $0.hasPrefix("$filter") } ?? ""
            let counted = try await wire.send("GET", "/tables/Note?$count=true&\(filter)")
            let count = try #require(counted.object["count"] as? Int)
            let window = query.contains("$top=60") ? top ?? count - 5 : count
            #expect(ids.count == window)
        }

        @Test("Links begin with the configured public URL")
        func linksUseThePublicURL() async throws {
            let configuration = ServerProcess.configuration.replacing(
                "\"tables\": {\n",
                with: "\"publicURL\": \"https://todo.example/api/\", \"tables\": {\n",
                maxReplacements: 1
            )
            try await withRows(configuration) { wire, _ in
                let answer = try await wire.send("GET", "/tables/Note", classic: true)
                let prefix = "https://todo.example/api/tables/Note?"
                #expect(answer.headers["Link"]?.hasPrefix(prefix) == true)
            }
        }
    }
}
