// Todo: the quickstart app as a terminal program. Only `sync` and `list --remote` need the network.

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
            \(error.summary) \
            \(Conflicts.reasons(error.errors)) See 'todo conflicts'.
            """
        case let error as PushError: error.description
        case let error as SyncError: error.words
        default: "\(error)"
        }
    }

    private static func fail(_ message: String, code: Int32 = 1) -> Never {
        let text = Terminal.printable(message, keepingLines: true)
        FileHandle.standardError.write(Data("todo: \(text)\n".utf8))
        exit(code)
    }
}

extension PushError {
    /// Summarizes the errors of the changes that were not accepted.
    fileprivate var summary: String {
        let isRejected = errors.contains { $0.statusCode != nil }
        switch (errors.count, isRejected) {
        case (1, true): return "The server rejected a change."
        case (1, false): return "A change cannot be sent."
        case (_, true): return "The server rejected some changes."
        case (_, false): return "Some changes cannot be sent."
        }
    }
}

extension SyncError {
    /// The message with a remedy for users of this program, because the SDK's remedies are calls in Swift.
    var words: String {
        let remedy: String
        switch code {
        case .rowDoesNotFit: remedy = "'todo rm' removes it from all devices."
        case .insecureEndpoint:
            remedy = "Use an https address, or allow this one with --allow-insecure-endpoint."
        default: return message
        }
        guard let end = message.range(of: ". ") else { return message }
        return message[..<end.lowerBound] + ". " + remedy
    }
}

/// An invalid command line.
struct UsageError: Error {
    var message: String
}

/// A command that cannot be applied to the contents of the store.
struct Mistake: Error {
    var message: String
}

/// A sync whose push was partly rejected, and whose pull failed too.
struct SyncFailure: Error {
    var rejected: PushError
    var pull: any Error
}
