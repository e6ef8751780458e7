// ResponseHeadTests: heads line by line, as libcurl passes them.

import Testing
import Tideline
import TidelineCore

@Suite struct ResponseHeadTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var lines: [String]
        var status: Int
        var fields: [String] = []
        var isComplete = true
        var isMalformed = false

        var testDescription: String { lines.joined(separator: "|") }
    }

    static let cases: [Case] = [
        Case(lines: [], status: 0, isComplete: false),
        Case(lines: ["HTTP/1.1 200 OK\r\n"], status: 200, isComplete: false),
        Case(lines: ["HTTP/1.1 200 OK\r\n", "\r\n"], status: 200),
        Case(lines: ["HTTP/1.1 200\n", "\n"], status: 200),
        Case(
            lines: [
                "HTTP/1.1 200 OK\r\n", "ETag:  \"1\" \t\r\n", "X-A:\r\n", "x-a: b:c\r\n", "\r\n",
            ],
            status: 200,
            fields: ["ETag=\"1\"", "X-A=", "x-a=b:c"]
        ),
        Case(
            lines: ["HTTP/1.1 200 OK\r\n", "X-A: one\r\n", "  two\r\n", "X-B: 1\r\n", "\r\n"],
            status: 200,
            fields: ["X-A=one two", "X-B=1"]
        ),
        Case(
            lines: [
                "HTTP/1.1 100 Continue\r\n", "\r\n", "HTTP/1.1 103 Hints\r\n", "Link: x\r\n",
                "\r\n",
                "HTTP/1.1 201 Created\r\n", "X-A: 1\r\n", "\r\n",
            ],
            status: 201,
            fields: ["X-A=1"]
        ),
        Case(lines: ["HTTP/1.1 100 Continue\r\n", "\r\n"], status: 0, isComplete: false),
        Case(
            lines: ["HTTP/1.1 200 OK\r\n", "\r\n", "X-Trailer: 1\r\n", "\r\n"],
            status: 200
        ),
        Case(
            lines: ["HTTP/1.1 200 OK\r\n", "Content-Le"],
            status: 200,
            isComplete: false,
            isMalformed: true
        ),
        Case(lines: ["HTTP/1.1 20"], status: 0, isComplete: false, isMalformed: true),
        Case(lines: ["HTTP/1.1 2000 OK\r\n"], status: 0, isComplete: false, isMalformed: true),
        Case(lines: ["HTTP/1.1 OK\r\n"], status: 0, isComplete: false, isMalformed: true),
        Case(
            lines: ["HTTP/1.1 200 OK\r\n", "no colon\r\n", "\r\n"],
            status: 200,
            isMalformed: true
        ),
        Case(
            lines: ["HTTP/1.1 200 OK\r\n", ": no name\r\n", "\r\n"],
            status: 200,
            isMalformed: true
        ),
    ]

    @Test("Each response head is parsed line by line", arguments: cases) func reads(_ test: Case) {
        var head = ResponseHead()
        for line in test.lines {
            let isAccepted = Array(line.utf8).withUnsafeBufferPointer { head.append($0) }
            #expect(isAccepted)
        }
        #expect(head.status == test.status)
        #expect(head.isComplete == test.isComplete)
        #expect(head.isMalformed == test.isMalformed)
        if test.isComplete {
            #expect(head.fields.map { "\($0.name)=\($0.value)" } == test.fields)
        }
    }

    @Test("An endless response head is rejected") func endlessHeadsAreRejected() {
        var head = ResponseHead()
        let line = Array("HTTP/1.1 100 Continue\r\n".utf8)
        var count = 0
        while line.withUnsafeBufferPointer({ head.append($0) }) {
            count += line.count
            _ = Array("\r\n".utf8).withUnsafeBufferPointer { head.append($0) }
            guard count <= ResponseHead.bytesMax else { break }
        }
        #expect(count <= ResponseHead.bytesMax)
    }
}
