// BatchAnswers: the body of the response to a batch.

import TidelineCore

/// A writer that joins the answers to the requests of a batch in one body.
package enum BatchAnswers {
    /// Returns the body, with an answer for each request in order.
    package static func body(_ envelope: BatchEnvelope, _ answers: [ServerResponse]) -> [UInt8] {
        let size = answers.reduce(64) { $0 + $1.body.count + 512 }
        var writer = JSONWriter(capacity: size)
        writer.raw("{\"responses\":[")
        var isFirst = true
        for unit in envelope.units {
            for place in unit.requests {
                if !isFirst { writer.byte(",") }
                isFirst = false
                write(answers[place], envelope.requests[place].id, unit.group, &writer)
            }
        }
        writer.raw("]}")
        return writer.bytes
    }

    private static func write(
        _ answer: ServerResponse,
        _ id: String,
        _ group: String?,
        _ writer: inout JSONWriter
    ) {
        writer.raw("{\"id\":")
        writer.string(id)
        if let group {
            writer.raw(",\"atomicityGroup\":")
            writer.string(group)
        }
        writer.raw(",\"status\":")
        writer.integer(Int64(answer.status))
        let type = write(answer.headers, &writer)
        if !answer.body.isEmpty {
            writer.raw(",\"body\":")
            write(answer.body, BatchContent(type: type), &writer)
        }
        writer.byte("}")
    }

    /// Writes the headers, each name in lower case and only once; returns the media type of the body.
    private static func write(_ headers: HTTPFields, _ writer: inout JSONWriter) -> String? {
        writer.raw(",\"headers\":{")
        var type: String?
        let fields = headers.all
        for (place, field) in fields.enumerated() {
            if fields[..<place].contains(where: { $0.isNamed(field.name) }) { continue }
            let comesAgain = fields[(place + 1)...].contains { $0.isNamed(field.name) }
            let value = comesAgain ? headers[field.name] ?? field.value : field.value
            if ASCII.equal(field.name, "content-type") { type = value }
            if place > 0 { writer.byte(",") }
            write(name: field.name, &writer)
            writer.byte(":")
            writer.string(value)
        }
        writer.byte("}")
        return type
    }

    /// Writes a name in lower case.
    private static func write(name: String, _ writer: inout JSONWriter) {
        guard name.utf8.allSatisfy(HTTPFields.isNameByte) else {
            return writer.string(name.lowercased())
        }
        writer.byte("\"")
        for byte in name.utf8 { writer.bytes.append(ASCII.lower(byte)) }
        writer.byte("\"")
    }

    private static func write(
        _ body: [UInt8],
        _ content: BatchContent,
        _ writer: inout JSONWriter
    ) {
        switch content {
        case .json: writer.raw(body)
        case .text: writer.string(String(decoding: body, as: UTF8.self))
        case .binary: writer.string(Base64URL.encode(body))
        }
    }
}

extension ServerResponse {
    /// Returns the answer of an app's endpoint; its body is marked as JSON only if it is valid JSON, so that it
    /// cannot break the batch.
    package func checkedForBatch() -> ServerResponse {
        guard !body.isEmpty, BatchContent(type: headers["Content-Type"]) == .json else {
            return self
        }
        let isJSON = body.withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes)
            return (try? reader.rawValue()) != nil && (try? reader.end()) != nil
        }
        if isJSON { return self }
        var result = self
        result.headers["Content-Type"] = "application/octet-stream"
        return result
    }
}
