// Todo: the quickstart app as a terminal program. Everything but `sync` works with no network.

import Foundation
import Tideline

@main
struct Todo {
    static func main() async {
        do {
            let options = try Options(
                Array(CommandLine.arguments.dropFirst()),
                environment: ProcessInfo.processInfo.environment
            )
            try await Commands(options).run()
        } catch let error as UsageError {
            fail("\(error.message)\n\n\(Options.usage)", code: 2)
        } catch {
            fail(text(of: error))
        }
    }

    private static func text(of error: any Error) -> String {
        switch error {
        case let error as Mistake: error.message
        case let error as SyncFailure:
            "\(text(of: error.rejected))\n\(text(of: error.pull))"
        case let error as PushError where error.status == .operationErrors:
            """
            The server rejected \(error.errors.count == 1 ? "a change" : "some changes"). \
            \(error.errors.map(\.message).joined(separator: " ")) See 'todo conflicts'.
            """
        case let error as PushError: error.description
        case let error as SyncError where error.code == .insecureEndpoint:
            "\(error.message) Here: --allow-insecure-endpoint."
        case let error as SyncError: error.message
        default: "\(error)"
        }
    }

    private static func fail(_ message: String, code: Int32 = 1) -> Never {
        let text = Terminal.printable(message, keepingLines: true)
        FileHandle.standardError.write(Data("todo: \(text)\n".utf8))
        exit(code)
    }
}

/// A command line that means nothing.
struct UsageError: Error {
    var message: String
}

/// A command that does not fit what is in the store.
struct Mistake: Error {
    var message: String
}

/// A sync whose push was rejected in part, and whose pull failed too.
struct SyncFailure: Error {
    var rejected: PushError
    var pull: any Error
}
