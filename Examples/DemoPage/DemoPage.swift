// demo-page: a server and two phones in one process, with a web page to try them by hand.
//
// It uses a server with a database file, two clients, each with its own store, and requests over
// sockets. The page only shows their state and forwards clicks.

import Dispatch
import Foundation
import Tideline
import TidelineServer
import TodoAppModel

@main
struct DemoPage {
    static func main() async {
        let arguments = Array(CommandLine.arguments.dropFirst())
        guard let port = port(in: arguments) else {
            complain("usage: demo-page [--port N]")
            exit(2)
        }
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "tideline-demo-\(UUID().uuidString.prefix(8))")
        var code: Int32 = 0
        do {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try await serve(port: port, in: folder)
        } catch {
            complain("\(error)")
            code = 1
        }
        await remove(folder)
        exit(code)
    }

    /// Retries, because a database that is being closed may remove its own files at the same time.
    private static func remove(_ folder: URL) async {
        for _ in 0..<100 {
            try? FileManager.default.removeItem(at: folder)
            guard FileManager.default.fileExists(atPath: folder.path) else { return }
            try? await Task.sleep(for: .milliseconds(20))
        }
        complain("cannot remove \(folder.path)")
    }

    @MainActor
    private static func serve(port: Int, in folder: URL) async throws {
        let signals = EndSignals()
        let phones = Phones()
        let server = TidelineServer(configuration: configuration(phones, port: port, in: folder))
        let url = try await server.start()
        try await phones.open(server: url, in: folder)
        let lines = """
            Two phones and their server: \(url.absoluteString)\(DemoEndpoints.path)
            The server's dashboard:      \(url.absoluteString)/
            Press Ctrl-C to stop; nothing is saved.

            """
        FileHandle.standardOutput.write(Data(lines.utf8))
        showInBrowser("\(url.absoluteString)\(DemoEndpoints.path)")
        await signals.wait()
        await phones.close()
        await server.stop()
    }

    private static func configuration(
        _ phones: Phones,
        port: Int,
        in folder: URL
    ) -> ServerConfiguration {
        var configuration = ServerConfiguration()
        configuration.port = port
        configuration.database = .sqlite(path: folder.appending(path: "server.db").path)
        configuration.log.level = .warning
        configuration.tables = [
            TableDefinition(
                TodoItem.tableName,
                columns: [
                    ColumnDefinition("text", .string, nullable: false),
                    ColumnDefinition("complete", .boolean, nullable: false),
                ]
            )
        ]
        configuration.endpoints = DemoEndpoints.all(phones)
        return configuration
    }

    /// Opens the page in a browser if there is a display; otherwise the user opens the printed address.
    private static func showInBrowser(_ address: String) {
        #if os(macOS)
        let opener = "open"
        #else
        let environment = ProcessInfo.processInfo.environment
        guard environment["DISPLAY"] != nil || environment["WAYLAND_DISPLAY"] != nil else { return }
        let opener = "xdg-open"
        #endif
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [opener, address]
        try? process.run()
    }

    /// Returns the port to listen on, or nil if the arguments are invalid.
    private static func port(in arguments: [String]) -> Int? {
        if arguments.isEmpty { return 0 }
        guard arguments.count == 2, arguments[0] == "--port", let port = Int(arguments[1]),
            (0...65535).contains(port)
        else { return nil }
        return port
    }

    private static func complain(_ text: String) {
        FileHandle.standardError.write(Data("demo-page: \(text)\n".utf8))
    }
}

/// A handler for the signals of Ctrl-C and `kill`.
private final class EndSignals {
    private let stream: AsyncStream<Void>
    private let sources: [any DispatchSourceSignal]

    init() {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        self.stream = stream
        sources = [SIGTERM, SIGINT].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { continuation.yield() }
            source.activate()
            return source
        }
    }

    func wait() async {
        for await _ in stream { return }
    }
}
