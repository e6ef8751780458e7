// LogWriterTests: the log when the other end of the pipe is not read.

import Foundation
import Testing
import TidelineServer

@Suite struct LogWriterTests {
    private static let line = Array((String(repeating: "x", count: 99) + "\n").utf8)

    @Test("A full pipe loses log lines and delays no caller")
    func aFullPipeLosesLinesAndDelaysNoCaller() {
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        let (reader, end) = (ends[0], ends[1])
        // The pipe is full before the writer begins; otherwise the last line might fit and no loss would be reported.
        #expect(fcntl(end, F_SETFL, O_NONBLOCK) == 0)
        while write(end, Self.line, Self.line.count) > 0 {}
        #expect(errno == EAGAIN)
        #expect(fcntl(end, F_SETFL, 0) == 0)
        let writer = LogWriter(end, bytesMax: 10_000)
        for _ in 0..<200 { _ = writer.put(Self.line) }
        #expect(writer.lost.current == 100)
        for _ in 0..<500 { _ = writer.put(Self.line) }
        #expect(writer.lost.current == 600)
        // As soon as there is space, the writer reports how many lines were lost.
        var reported = 0
        var buffer = [UInt8](repeating: 0, count: 4096)
        while reported == 0 {
            _ = read(reader, &buffer, buffer.count)
            reported = writer.put(Self.line)
        }
        #expect(reported > 0 && reported <= writer.lost.current)
        Thread.detachNewThread {
            var rest = [UInt8](repeating: 0, count: 65_536)
            while read(reader, &rest, rest.count) > 0 {}
            close(reader)
        }
        writer.flush()
        #expect(writer.put(Self.line) == 0)
        writer.flush()
        close(end)
    }
}
