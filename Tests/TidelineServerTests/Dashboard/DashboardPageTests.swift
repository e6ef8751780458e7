// The files of the dashboard page in the binary: complete, small, and self-contained.

import Foundation
import ServerTestSupport
import Testing
import TidelineDashboard
import TidelineServer
import TidelineServerCore

@Suite struct DashboardPageTests {
    private static let files = DashboardPage.files.map { file in
        (name: file.name, text: String(decoding: file.body, as: UTF8.self))
    }

    @Test("The page refers to exactly the files in the binary")
    func everyReferencedFileExists() throws {
        let names = Set(Self.files.map(\.name))
        var asked: Set<String> = []
        for (_, text) in Self.files {
            for match in text.matches(of: /(?:\/\$admin\/page\/|from '\.\/)([A-Za-z.]+)/) {
                asked.insert(String(match.1))
            }
        }
        #expect(asked.isSubset(of: names), "\(asked.subtracting(names))")
        #expect(names.subtracting(asked) == ["index.html"])
    }

    @Test("The files of the page have less than 150 kB in total") func theFilesAreSmall() {
        #expect(DashboardPage.files.reduce(0) { $0 + $1.body.count } < 150_000)
    }

    @Test(
        "The page interprets no stored value as code and loads nothing from other origins",
        arguments: [
            "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
            "new Function",
            "localStorage", "document.cookie", "https://",
        ]
    )
    func noWordThatInterpretsStoredValues(word: String) {
        for (name, text) in Self.files { #expect(!text.contains(word), "\(name)") }
    }

    @Test("The server serves each file of the page") func theServerServesThePage() async throws {
        var configuration = ServerConfiguration()
        configuration.port = 0
        configuration.database = .memory
        configuration.tables = [TestServer.todo]
        let dashboard = configuration.makeDashboard()
        let server = try await TestServer(dashboard: dashboard)
        for (name, text) in Self.files {
            let answer = await server.handler.handle(
                ServerRequest(
                    method: "GET",
                    path: name == "index.html" ? "/" : "/$admin/page/\(name)",
                    headers: ["Host": "localhost"]
                )
            )
            #expect(answer.status == 200 && answer.text == text, "\(name)")
        }
    }

    @Test(
        "Valid dashboard keys are read and invalid ones are rejected",
        arguments: [
            (#"{"dashboard":{"mode":"readOnly","devices":5,"slowRequests":6,"slowTime":0.5}}"#, ""),
            (#"{"dashboard":{"mode":"open"}}"#, "dashboard.mode"),
            (#"{"dashboard":{"devices":-1}}"#, "dashboard.devices"),
            (#"{"dashboard":{"page":1}}"#, "dashboard.page"),
        ]
    )
    func invalidKeysAreRejected(json: String, fault: String) throws {
        do throws(ConfigurationError) {
            let dashboard = try ServerConfiguration(json: Array(json.utf8)).dashboard
            #expect(fault.isEmpty)
            #expect(dashboard.mode == .readOnly && dashboard.devices == 5)
            #expect(dashboard.slowRequests == 6 && dashboard.slowTime == .milliseconds(500))
        } catch {
            #expect(!fault.isEmpty && error.description.contains(fault))
        }
    }

    @Test("The settings contain neither passwords nor the names of key files")
    func settingsInForceContainNoSecret() async throws {
        var configuration = ServerConfiguration()
        configuration.database = .postgres(url: "postgres://me:hush@db.example/todo")
        configuration.metrics.keyFile = "/etc/hush.key"
        configuration.tls = .init(certificateFile: "/etc/open.pem", keyFile: "/etc/hush.pem")
        let server = try await TestServer(dashboard: configuration.makeDashboard())
        let answer = await server.handler.handle(
            ServerRequest(method: "GET", path: "/$admin/overview", headers: ["Host": "localhost"])
        )
        #expect(answer.status == 200 && answer.text.contains("limits.pageBytes"))
        #expect(!answer.text.contains("hush") && answer.text.contains("open.pem"))
    }
}
