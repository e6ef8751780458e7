// Output: writes to standard output, and reports when that fails.

import Foundation

/// An error of standard output, which did not accept the text.
struct OutputError: Error, CustomStringConvertible {
    var reason: String

    var description: String {
        "standard output takes nothing (\(reason)). What was to be done is done; look at the disk or "
            + "the pipe that it goes to."
    }
}

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

    /// Occupies the numbers of closed standard streams, so that no file gets one of them and is
    /// written to by mistake.
    ///
    /// Writes to them fail as before.
    static func guardStreams() {
        for stream in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO]
        where fcntl(stream, F_GETFD) < 0 {
            // `open` returns the lowest free number, which is this one: those below are taken.
            _ = open("/dev/null", O_RDONLY)
        }
    }
}
