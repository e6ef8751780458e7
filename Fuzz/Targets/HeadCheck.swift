// HeadCheck: the framing, target, path, query and fields of a request head.

import Foundation
import TidelineCore
import TidelineHTTP
import TidelineServerCore

final class HeadCheck {
    private let table = Table(
        TableDefinition("T", columns: [ColumnDefinition("a", .string)])
    )

    func run(_ input: UnsafeBufferPointer<UInt8>) throws {
        let rest = UnsafeBufferPointer(rebasing: input.dropFirst())
        do {
            switch input[0] & 7 {
            case 0: try framing(rest)
            case 1: try target(rest)
            case 2: try query(String(decoding: rest, as: UTF8.self))
            case 3: try conditions(rest)
            case 4: try fields(rest)
            case 5: try dates(String(decoding: rest, as: UTF8.self))
            case 6: try RequestCheck().run(rest)
            default: try values(String(decoding: rest, as: UTF8.self))
            }
        } catch let error as ServerError {
            try demand((400..<500).contains(error.status), "a bad head is the caller's fault")
        }
    }

    private typealias Field = (name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer)

    /// Splits the input into fields, one per line; the value follows the colon.
    private func lines(_ bytes: UnsafeBufferPointer<UInt8>) -> [Field] {
        bytes.split(separator: UInt8(ascii: "\n")).map { line in
            let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.endIndex
            let name = UnsafeBufferPointer(rebasing: line[..<colon])
            let value = UnsafeBufferPointer(rebasing: line[colon...].dropFirst())
            return (UnsafeRawBufferPointer(name), UnsafeRawBufferPointer(value))
        }
    }

    /// Checks that an accepted head can be interpreted in only one way.
    private func framing(_ bytes: UnsafeBufferPointer<UInt8>) throws {
        let lines = lines(bytes)
        var check = FramingCheck()
        for line in lines { check.field(name: line.name, value: line.value) }
        check.finish(isVersion11: true)
        guard check.problem == nil else { return }
        func values(_ name: String) -> [String] {
            lines.filter { String(decoding: $0.name, as: UTF8.self).lowercased() == name }
                .map { String(decoding: $0.value, as: UTF8.self) }
        }
        try demand(values("host").count == 1, "there is one Host")
        let lengths = values("content-length")
        let encodings = values("transfer-encoding")
        try demand(lengths.count + encodings.count <= 1, "the body is framed in one way")
        if let length = check.contentLength, length < 1 << 50 {
            try demand(
                lengths.first.flatMap { Int($0) } == length,
                "the length is the sent one"
            )
        }
        try demand(check.isChunked == !encodings.isEmpty, "an encoding is a chunked one")
        try demand(encodings.allSatisfy { $0.lowercased() == "chunked" }, "chunked is chunked")
        try demand(
            !bytes.contains { $0 < 0x20 && $0 != 0x09 && $0 != 0x0A || $0 == 0x7F },
            "no control character passes"
        )
    }

    private func target(_ bytes: UnsafeBufferPointer<UInt8>) throws {
        guard let target = RequestTarget(UnsafeRawBufferPointer(bytes)) else { return }
        let path = target.path.utf8
        try demand(target.path == "*" || path.first == UInt8(ascii: "/"), "a target has a path")
        try demand(!path.contains(UInt8(ascii: "?")), "the query is behind the path")
        if target.path != "*" {
            switch try Route(path: target.path) {
            case .row(let table, let id):
                let path = "/tables/" + PercentCoding.encode(table) + "/" + PercentCoding.encode(id)
                try demand(try Route(path: path) == .row(table: table, id: id), "a path comes back")
                _ = ItemID.fault(in: id)
            case .table(let name): _ = TableDefinition.nameFault(name)
            default: break
            }
        }
        try query(target.query)
    }

    private func query(_ text: String) throws {
        let parameters = try QueryParameters(text)
        let encoded = parameters.all
            .map { PercentCoding.encode($0.name) + "=" + PercentCoding.encode($0.value) }
            .joined(separator: "&")
        try demand(try QueryParameters(encoded).all == parameters.all, "a query comes back")
        _ = try RequestHead([:]).generation(parameters)
        for generation in [Generation.classic, .datasync] {
            let options = try ListOptions(parameters, generation: generation)
            _ = try ListPlan(
                options,
                table: table,
                generation: generation,
                limits: ServerLimits(),
                isDynamic: false,
                now: 0
            )
        }
    }

    private func conditions(_ bytes: UnsafeBufferPointer<UInt8>) throws {
        let texts = lines(bytes).map { String(decoding: $0.value, as: UTF8.self) }
        var fields = Preconditions.Fields()
        fields.ifMatch = texts.first
        fields.ifNoneMatch = texts.dropFirst().first
        fields.ifUnmodifiedSince = texts.dropFirst(2).first
        fields.ifModifiedSince = texts.dropFirst(3).first
        let conditions = try Preconditions(fields)
        for isRead in [true, false] {
            _ = conditions.evaluate(version: 7, updatedAt: 1_800_000_000_500_000, isRead: isRead)
        }
    }

    private func fields(_ bytes: UnsafeBufferPointer<UInt8>) throws {
        var fields = HTTPFields()
        for line in lines(bytes) {
            fields.append(
                String(decoding: line.name, as: UTF8.self),
                String(decoding: line.value, as: UTF8.self)
            )
        }
        let head = RequestHead(fields)
        _ = ContentCoding.acceptsGzip(fields)
        _ = (head.bodyType, head.asksForPathLinks, head.includesDeleted)
        if let size = head.preferences.pageSize { try demand(size > 0, "a page has rows") }
        _ = try head.generation(QueryParameters(""))
    }

    private func dates(_ text: String) throws {
        if let seconds = HTTPDate.seconds(text) {
            let written = HTTPDate.text(microseconds: seconds * 1_000_000)
            try demand(HTTPDate.seconds(written) == seconds, "'\(text)' comes back")
        }
        if let timestamp = Timestamp(text) {
            var bytes: [UInt8] = []
            timestamp.write(to: &bytes)
            let written = String(decoding: bytes, as: UTF8.self)
            let again = Timestamp(written)
            try demand(again?.milliseconds == timestamp.milliseconds, "'\(text)' comes back")
        }
    }

    /// Checks that canonical text is not changed when it is made canonical again.
    private func values(_ text: String) throws {
        if let decimal = DecimalText.parse(text) {
            let canonical = DecimalText.canonical(decimal)
            let again = DecimalText.parse(canonical).map(DecimalText.canonical)
            try demand(again == canonical, "'\(text)' is the decimal \(canonical)")
        }
        for canonical in [DayText.canonical, TimeText.canonical, GuidText.canonical]
            as [(String) -> String?]
        {
            guard let once = canonical(text) else { continue }
            try demand(canonical(once) == once, "'\(text)' is '\(once)'")
        }
    }
}
