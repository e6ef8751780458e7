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
        } catch let error as Mistake {
            fail(error.message)
        } catch let error as PushError {
            fail(error.description + (error.errors.isEmpty ? "" : "\nSee 'todo conflicts'."))
        } catch let error as SyncError {
            fail(error.message)
        } catch {
            fail("\(error)")
        }
    }

    private static func fail(_ message: String, code: Int32 = 1) -> Never {
        FileHandle.standardError.write(Data("todo: \(message)\n".utf8))
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
