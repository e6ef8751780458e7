// CannedTable: a fake server that takes almost no time. It cuts its pages out of one prepared text.

import Foundation
import Tideline

struct CannedTable: Transport {
    enum Identifiers: String {
        case random
        /// The ids, ordered by time like those of the SDK and the server.
        case v7
    }

    /// The JSON of all rows in sequence, each followed by a comma.
    private let text: [UInt8]
    /// The offset of each row, and the end of the last one.
    private let starts: [Int]

    init(rows: Int, _ identifiers: Identifiers) {
        var text: [UInt8] = []
        var starts = [0]
        var generator = SystemRandomNumberGenerator()
        let begin: UInt64 = 1_577_836_800_000
        for number in 0..<rows {
            let instant = begin + UInt64(number) * 7
            let id = Self.id(identifiers, instant, &generator)
            let time = Self.time(instant)
            text +=
                """
                {"id":"\(id)","text":"item \(10_000_000 + number) abcdefghijklmnopqrstuvwxyz",\
                "complete":\(number % 2 == 1),"createdAt":"\(time)","updatedAt":"\(time)",\
                "version":"AAZg\(10_000_000 + number)","deleted":false},
                """.utf8
            starts.append(text.count)
        }
        self.text = text
        self.starts = starts
    }

    private static func id(
        _ identifiers: Identifiers,
        _ milliseconds: UInt64,
        _ generator: inout SystemRandomNumberGenerator
    ) -> String {
        guard identifiers == .v7 else { return UUID().uuidString.lowercased() }
        func hex(_ number: UInt64, _ digits: Int) -> String {
            let text = String(number, radix: 16)
            return String(repeating: "0", count: digits - text.count) + text
        }
        return [
            hex(milliseconds >> 16, 8), hex(milliseconds & 0xFFFF, 4),
            hex(0x7000 | generator.next(upperBound: UInt64(0x1000)), 4),
            hex(0x8000 | generator.next(upperBound: UInt64(0x4000)), 4),
            hex(generator.next(upperBound: UInt64(1) << 48), 12),
        ].joined(separator: "-")
    }

    private static let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)

    private static func time(_ milliseconds: UInt64) -> String {
        Date(timeIntervalSince1970: Double(milliseconds) / 1000).formatted(style)
    }

    /// Returns the page that starts at `at`, of the size that the request prefers.
    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let query = request.url.query ?? ""
        let rows = starts.count - 1
        let first = query.hasPrefix("at=") ? Int(query.dropFirst(3)) ?? rows : 0
        let prefer = request.headers["Prefer"] ?? ""
        let size = prefer.firstRange(of: "maxpagesize=").map { range in
            Int(prefer[range.upperBound...].prefix(while: \.isNumber)) ?? 1000
        }
        let end = min(rows, first + (size ?? 1000))
        var body = Array("{\"items\":[".utf8)
        body.reserveCapacity(starts[end] - starts[first] + 100)
        // Without the last comma.
        body += text[starts[first]..<max(starts[first], starts[end] - 1)]
        let link = end < rows ? "nextLink\":\"at=\(end)" : "@odata.deltaLink\":\"at=\(rows)"
        body += "],\"\(link)\"}".utf8
        return TransportResponse(
            status: 200,
            headers: ["Preference-Applied": "odata.track-changes", "Tideline-Epoch": "canned"],
            body: body
        )
    }
}
