// DemoPageTests: a user's actions on the page with two phones, as the requests of the page.

import Foundation
import Testing
import Tideline

extension ProcessTests {
    struct DemoPageTests {
        /// The page, as a browser uses it.
        private struct Page {
            let wire: Wire

            func act(_ phone: Int, _ verb: String, _ more: [String: Any] = [:]) async throws -> Int
            {
                var action = more
                action["phone"] = phone
                action["verb"] = verb
                let body = try JSONSerialization.data(withJSONObject: action)
                return try await wire.send(
                    "POST",
                    "/api/demo/act",
                    String(decoding: body, as: UTF8.self)
                ).status
            }

            func phone(_ number: Int) async throws -> [String: Any] {
                let state = try await wire.send("GET", "/api/demo/state").object
                let phones = try #require(state["phones"] as? [[String: Any]])
                return try #require(phones.count > number ? phones[number] : nil)
            }

            /// The only one of a phone's items, operations or conflicts; nil if there are none or several.
            func only(_ what: String, of number: Int) async throws -> [String: Any]? {
                let found = try await phone(number)[what] as? [[String: Any]] ?? []
                return found.count == 1 ? found[0] : nil
            }

            func shows(_ text: String, _ number: Int) async throws -> [String: Any] {
                try await eventually("'\(text)' on phone \(number)") {
                    let item = try await only("items", of: number)
                    return item?["text"] as? String == text ? item : nil
                }
            }
        }

        private func withPage(_ body: (Page, ChildProcess) async throws -> Void) async throws {
            try await withWorkspace { workspace in
                let process = try workspace.start(
                    .demoPage,
                    [],
                    environment: ["TMPDIR": workspace.directory]
                )
                let address = try await eventually("an address; \(process.error)") {
                    process.output.split(separator: "\n").first { $0.contains("/api/demo") }
                }
                let text = try #require(address.split(separator: " ").last)
                let url = try #require(URL(string: String(text.dropLast("/api/demo".count))))
                try await body(Page(wire: Wire(endpoint: url, transport: CurlTransport())), process)
            }
        }

        @Test("Two phones of the demo page resolve a conflict")
        func twoPhonesResolveAConflict() async throws {
            try await withPage { page, _ in
                #expect(try await page.act(0, "add", ["text": "Milk"]) == 200)
                let id = try #require(try await page.shows("Milk", 1)["id"] as? String)
                for phone in 0...1 {
                    #expect(try await page.act(phone, "network", ["isOn": false]) == 200)
                }
                #expect(try await page.act(0, "rename", ["id": id, "text": "Oat milk"]) == 200)
                #expect(try await page.act(1, "rename", ["id": id, "text": "Two bottles"]) == 200)
                _ = try await page.shows("Oat milk", 0)
                _ = try await page.shows("Two bottles", 1)
                let waiting = try await page.only("queue", of: 0)
                #expect(waiting?["kind"] as? String == "update")
                #expect(waiting?["text"] as? String == "Oat milk")
                #expect(try await page.act(0, "network", ["isOn": true]) == 200)
                _ = try await eventually("an empty queue") {
                    (try await page.phone(0)["queue"] as? [Any])?.isEmpty == true ? () : nil
                }
                #expect(try await page.act(1, "network", ["isOn": true]) == 200)
                let conflict = try await eventually("a conflict") {
                    try await page.only("conflicts", of: 1)
                }
                #expect(conflict["mine"] as? String == "Two bottles (to do)")
                #expect(conflict["theirs"] as? String == "Oat milk (to do)")
                let name = try #require(conflict["id"] as? String)
                #expect(try await page.act(1, "keepMine", ["id": name]) == 200)
                _ = try await page.shows("Two bottles", 0)
                #expect(try await page.act(0, "delete", ["id": id]) == 200)
                _ = try await eventually("the delete on the other phone") {
                    (try await page.phone(1)["items"] as? [Any])?.isEmpty == true ? () : nil
                }
            }
        }

        @Test("The demo page rejects unknown actions and requests from forms of other sites")
        func unknownActionsAreRejected() async throws {
            try await withPage { page, process in
                #expect(try await page.act(2, "add", ["text": "x"]) == 404)
                #expect(try await page.act(0, "delete", ["id": "nobody"]) == 404)
                #expect(try await page.act(0, "explode") == 400)
                // Like a form on another site.
                let form = try await page.wire.transport.send(
                    TransportRequest(
                        method: "POST",
                        url: page.wire.endpoint.appending(path: "/api/demo/act"),
                        headers: ["Content-Type": "text/plain"],
                        body: Array(#"{"phone":0,"verb":"add","text":"x"}"#.utf8),
                        timeout: .seconds(20)
                    )
                )
                #expect(form.status == 400)
                for name in ["", "/style.css", "/demo.js"] {
                    #expect(try await page.wire.send("GET", "/api/demo\(name)").status == 200)
                }
                process.send(SIGTERM)
                #expect(try await process.wait() == .exit(0))
            }
        }

        @Test("The demo page removes its files when it exits") func noFilesAreKept() async throws {
            try await withWorkspace { workspace in
                let place = workspace.path("temporary")
                try FileManager.default.createDirectory(
                    atPath: place,
                    withIntermediateDirectories: true
                )
                let process = try workspace.start(.demoPage, [], environment: ["TMPDIR": place])
                _ = try await eventually("a start; \(process.error)") {
                    process.output.contains("Ctrl-C") ? () : nil
                }
                #expect(try FileManager.default.contentsOfDirectory(atPath: place).count == 1)
                process.send(SIGINT)
                #expect(try await process.wait() == .exit(0))
                #expect(try FileManager.default.contentsOfDirectory(atPath: place).isEmpty)
            }
        }

        @Test("The demo page rejects invalid arguments")
        func invalidArgumentsAreRejected() async throws {
            try await withWorkspace { workspace in
                for words in [["--port"], ["--port", "70000"], ["--prot", "1"], ["x"]] {
                    let finished = try await workspace.run(.demoPage, words)
                    #expect(finished.code == 2)
                    #expect(finished.error.contains("--port N"))
                }
            }
        }
    }
}
