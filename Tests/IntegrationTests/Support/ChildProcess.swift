// ChildProcess: a program started by a test. Its output goes to files, and a separate thread waits for it, so that the
// pool is never blocked.

import Foundation
import Synchronization

final class ChildProcess: Sendable {
    enum End: Hashable, Sendable {
        case exit(Int32)
        case signal(Int32)
    }

    let pid: pid_t
    private let outputPath: String
    private let errorPath: String
    private let ended = Mutex<End?>(nil)

    /// Starts a program; its output goes to `files` with `.out` and `.err` appended, errors to `errors` if it is given.
    ///
    /// A listening socket is passed on as systemd does.
    init(
        _ program: String,
        _ arguments: [String],
        environment: [String: String],
        files: String,
        errors: String?,
        handing socket: Int32? = nil
    ) throws {
        outputPath = files + ".out"
        errorPath = errors ?? files + ".err"
        // The environment contains the id of the process, which a shell knows before it becomes the program.
        let shell = ["-c", "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"", "sh", program]
        pid = try Self.spawn(
            socket == nil ? program : "/bin/sh",
            socket == nil ? arguments : shell + arguments,
            environment,
            outputPath,
            errorPath,
            socket
        )
        Thread.detachNewThread { [self] in reap() }
    }

    // Descriptors that are closed for the child: other tests' sockets, which would stay open in it after those tests.
    // Resets the signals, which a process inherits from the test runner.
    private static func spawn(
        _ program: String,
        _ arguments: [String],
        _ environment: [String: String],
        _ outputPath: String,
        _ errorPath: String,
        _ socket: Int32?
    ) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        let create = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND
        posix_spawn_file_actions_addopen(&actions, 1, outputPath, create, 0o600)
        posix_spawn_file_actions_addopen(&actions, 2, errorPath, create, 0o600)
        if let socket { posix_spawn_file_actions_adddup2(&actions, socket, 3) }
        for descriptor in Int32(socket == nil ? 3 : 4)..<1024 {
            posix_spawn_file_actions_addclose(&actions, descriptor)
        }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        for signal in [SIGINT, SIGTERM, SIGPIPE, SIGHUP] { sigaddset(&signals, signal) }
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(
            &attributes,
            Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)
        )
        let words = ([program] + arguments).map { strdup($0) } + [nil]
        let variables = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in words + variables { free(text) } }
        var pid: pid_t = 0
        let code = posix_spawn(&pid, program, &actions, &attributes, words, variables)
        guard code == 0 else {
            throw TestFailure("cannot start \(program): \(String(cString: strerror(code)))")
        }
        return pid
    }

    private func reap() {
        var info = siginfo_t()
        // The process stays a zombie until this has the lock, so that no signal reaches another process.
        while waitid(P_PID, id_t(pid), &info, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        ended.withLock { ended in
            var status: Int32 = 0
            waitpid(pid, &status, 0)
            let signal = status & 0x7F
            ended = signal == 0 ? .exit(status >> 8 & 0xFF) : .signal(signal)
        }
    }

    /// Sends a signal; does nothing if the process has ended.
    func send(_ signal: Int32) {
        ended.withLock { ended in
            if ended == nil { kill(pid, signal) }
        }
    }

    var end: End? { ended.withLock { $0 } }

    /// Waits for the process to end.
    func wait(within limit: Duration = .seconds(20)) async throws -> End {
        try await eventually("end of process \(pid); stderr: \(error)", within: limit) { end }
    }

    /// Kills the process and waits until it has ended.
    ///
    /// - Returns: How it ended, which may have been earlier and by itself.
    @discardableResult
    func destroy() async throws -> End {
        send(SIGKILL)
        return try await wait()
    }

    /// Its standard output so far.
    var output: String { Self.text(outputPath) }

    /// Its standard error so far.
    var error: String { Self.text(errorPath) }

    private static func text(_ path: String) -> String {
        var status = stat()
        // Waiting for a pipe would block.
        guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return "" }
        return String(decoding: FileManager.default.contents(atPath: path) ?? Data(), as: UTF8.self)
    }
}
