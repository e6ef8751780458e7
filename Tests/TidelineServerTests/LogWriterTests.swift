// LogWriterTests: the log when nobody reads the other end.

import Foundation
import Testing
import TidelineServer

@Suite struct LogWriterTests {
    private static let line = Array((String(repeating: "x", count: 99) + "\n").utf8)

    @Test func aStuckPipeLosesLinesAndHoldsUpNobody() {
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        let (reader, end) = (ends[0], ends[1])
        let writer = LogWriter(end, bytesMax: 10_000)
        // The pipe takes 64 KiB, and the writer 100 lines more.
        for _ in 0..<2000 { _ = writer.put(Self.line) }
        #expect(writer.lost.current > 0)
        let lost = writer.lost.current
        for _ in 0..<500 { _ = writer.put(Self.line) }
        #expect(writer.lost.current > lost)
        // As soon as there is room, it is told how many were lost before.
        var told = 0
        var buffer = [UInt8](repeating: 0, count: 4096)
        while told == 0 {
            _ = read(reader, &buffer, buffer.count)
            told = writer.put(Self.line)
        }
        #expect(told > 0 && told <= writer.lost.current)
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
