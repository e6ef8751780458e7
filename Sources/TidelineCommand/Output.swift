// Output: prints lines.

import Foundation

/// An error while writing to standard output.
struct OutputError: Error, CustomStringConvertible {
    var reason: String

    var description: String {
        "cannot write to standard output (\(reason)). The command itself is done; check the disk or "
            + "the pipe that receives its output."
    }
}

/// The standard output of a command, which reports when writing fails.
enum Output {
    /// Writes a complete line.
    ///
    /// - Throws: ``OutputError`` if standard output is closed, full, or a pipe without a reader.
    static func print(_ text: String) throws(OutputError) {
        var rest = Array((text + "\n").utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(STDOUT_FILENO, $0.baseAddress, $0.count) }
            if count < 0 {
                if errno == EINTR { continue }
                throw OutputError(reason: String(cString: strerror(errno)))
            }
            rest = rest.dropFirst(count)
        }
    }

    /// Opens `/dev/null` for closed standard streams, so that other files do not get their descriptors.
    ///
    /// Writes to these streams still fail.
    static func guardStreams() {
        for stream in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO]
        where fcntl(stream, F_GETFD) < 0 {
            // `open` returns the lowest free descriptor, which is this one: those below are in use.
            _ = open("/dev/null", O_RDONLY)
        }
    }
}
