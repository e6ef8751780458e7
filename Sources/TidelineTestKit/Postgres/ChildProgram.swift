// ChildProgram: runs other programs.
//
// Foundation's Process is not thread-safe: two concurrent instances crashed while they copied
// descriptors, and an interrupted call is a fatal error. Therefore, this code uses posix_spawnp,
// writes output to files, and repeats an interrupted wait.

import Foundation

/// A runner of other programs, which any number of threads can use at the same time.
package enum ChildProgram {
    /// Runs a program until it ends.
    ///
    /// - Parameter command: The program, looked up on the PATH, and its arguments.
    /// - Returns: The program's standard output.
    /// - Throws: ``PostgresCluster/Missing`` with the program's standard error if the program
    ///   fails.
    @discardableResult
    static func run(_ command: [String]) throws -> String {
        let files = FileManager.default.temporaryDirectory.path + "/tideline-\(UUID().uuidString)"
        let (output, errors) = (files + ".out", files + ".err")
        defer {
            unlink(output)
            unlink(errors)
        }
        let child = try spawn(command, input: nil, output: output, errors: errors)
        var status: Int32 = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        guard status == 0 else {
            let words = try String(contentsOfFile: errors, encoding: .utf8)
            throw PostgresCluster.Missing(description: "'\(command.first ?? "")' failed: \(words)")
        }
        return try String(contentsOfFile: output, encoding: .utf8)
    }

    /// A running script that reads from a pipe and must end when the pipe is closed.
    package final class Guarded: Sendable {
        // Closes the tests' descriptors; otherwise, a server would inherit the tests' sockets and
        // keep them open.
        private static let closing = """
            for file in /dev/fd/*; do ((${file##*/} < 3)) || eval "exec ${file##*/}>&-"; done 2>/dev/null

            """
        private let lifeline: Int32

        /// Starts a script whose output is discarded.
        ///
        /// - Parameters:
        ///   - script: The script that bash runs.
        ///   - arguments: The arguments of the script, starting with `$1`.
        /// - Throws: ``PostgresCluster/Missing`` if the script cannot be started.
        package init(script: String, _ arguments: [String]) throws {
            var ends: [Int32] = [0, 0]
            guard pipe(&ends) == 0 else { throw fault("pipe", errno) }
            lifeline = ends[1]
            _ = fcntl(lifeline, F_SETFD, FD_CLOEXEC)
            defer { close(ends[0]) }
            let command = ["bash", "-c", Self.closing + script, "bash"] + arguments
            _ = try spawn(command, input: ends[0], output: "/dev/null", errors: "/dev/null")
        }

        deinit { close(lifeline) }
    }

    private static func fault(_ what: String, _ code: Int32) -> PostgresCluster.Missing {
        PostgresCluster.Missing(description: "'\(what)' failed: \(String(cString: strerror(code)))")
    }

    private static func spawn(
        _ command: [String],
        input: Int32?,
        output: String,
        errors: String
    ) throws -> pid_t {
        #if canImport(Darwin)
        var actions: posix_spawn_file_actions_t?
        #else
        var actions = posix_spawn_file_actions_t()
        #endif
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let input {
            posix_spawn_file_actions_adddup2(&actions, input, 0)
        } else {
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        for (number, file) in [(Int32(1), output), (Int32(2), errors)] {
            let mode = O_WRONLY | O_CREAT | O_TRUNC
            posix_spawn_file_actions_addopen(&actions, number, file, mode, 0o600)
        }
        var arguments: [UnsafeMutablePointer<CChar>?] = command.map { strdup($0) } + [nil]
        let values = ProcessInfo.processInfo.environment.map { "\($0.key)=\($0.value)" }
        var environment: [UnsafeMutablePointer<CChar>?] = values.map { strdup($0) } + [nil]
        defer { for text in arguments + environment { free(text) } }
        var child: pid_t = 0
        let name = command.first ?? ""
        let code = posix_spawnp(&child, name, &actions, nil, &arguments, &environment)
        guard code == 0 else { throw fault(name, code) }
        return child
    }
}
