// PushBatch: the requests and responses of `POST /$batch`.

import Foundation
import TidelineCore

/// A request with several operations, and its response (OData JSON Format 4.01, section 19).
enum PushBatch {
    /// Returns the body of `POST /$batch`, with the frozen bytes of each operation.
    ///
    /// `root` is the path of the endpoint, without a trailing slash.
    static func body(
        _ operations: [QueuedOperation],
        root: String,
        isDryRun: Bool = false
    ) -> [UInt8] {
        let size = operations.reduce(64) { $0 + ($1.frozen?.body?.utf8.count ?? 0) + 320 }
        var writer = JSONWriter(capacity: size)
        // A server that does not support dry runs rejects a body with this JSON member.
        writer.raw(isDryRun ? "{\"dryRun\":true,\"requests\":[" : "{\"requests\":[")
        for unit in PushGroups.units(of: operations) {
            for index in unit {
                if index > 0 { writer.byte(",") }
                let group = unit.count > 1 ? unit.lowerBound + 1 : nil
                write(operations[index], id: index + 1, group: group, root, &writer)
            }
        }
        writer.raw("]}")
        return writer.bytes
    }

    /// Returns the body of a batch with one request.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - target: Its path and query.
    /// - Returns: The JSON text.
    static func body(_ request: RemoteService.Request, target: String) -> [UInt8] {
        var writer = JSONWriter(capacity: target.utf8.count + (request.body?.count ?? 0) + 320)
        writer.raw("{\"requests\":[{\"id\":\"1\",\"method\":")
        writer.string(request.method)
        writer.raw(",\"url\":")
        writer.string(target)
        writer.raw(",\"headers\":{")
        var headers = request.headers
        if request.body != nil { headers["Content-Type"] = "application/json" }
        for (place, field) in headers.enumerated() {
            if place > 0 { writer.byte(",") }
            writer.string(field.name)
            writer.byte(":")
            writer.string(field.value)
        }
        writer.byte("}")
        if let body = request.body, !body.isEmpty {
            writer.raw(",\"body\":")
            writer.raw(body)
        }
        writer.raw("}]}")
        return writer.bytes
    }

    /// Writes one request of a batch; the server executes the requests with the same `group`
    /// atomically.
    private static func write(
        _ operation: QueuedOperation,
        id: Int,
        group: Int?,
        _ root: String,
        _ writer: inout JSONWriter
    ) {
        guard let frozen = operation.frozen else { return }
        writer.raw("{\"id\":\"")
        writer.integer(Int64(id))
        if let group {
            writer.raw("\",\"atomicityGroup\":\"g")
            writer.integer(Int64(group))
        }
        writer.raw("\",\"method\":")
        writer.string(frozen.method)
        writer.raw(",\"url\":")
        writer.string(
            root
                + TableEndpoint.path(
                    operation.table,
                    id: operation.kind == .insert ? nil : operation.itemID,
                    query: frozen.query
                )
        )
        writer.raw(",\"headers\":{")
        var headers = OperationRequest.headers(frozen)
        if frozen.body != nil { headers["Content-Type"] = "application/json" }
        for (place, field) in headers.enumerated() {
            if place > 0 { writer.byte(",") }
            writer.string(field.name)
            writer.byte(":")
            writer.string(field.value)
        }
        writer.byte("}")
        if let body = frozen.body {
            writer.raw(",\"body\":")
            writer.raw(body)
        }
        writer.byte("}")
    }

    /// Returns the responses, indexed by their requests; nil if `response` is not a batch response.
    static func answers(_ response: TransportResponse, count: Int) -> [TransportResponse?]? {
        guard response.status == 200 else { return nil }
        return response.body.withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes, outside: 3)
            return try? answers(&reader, count)
        }
    }

    private struct NoBatch: Error {}

    private static func answers(
        _ reader: inout JSONReader,
        _ count: Int
    ) throws -> [TransportResponse?] {
        guard case .object = try reader.value() else { throw NoBatch() }
        try reader.beginObject()
        var result: [TransportResponse?]?
        while let name = try reader.nextMember() {
            guard reader.text(name) == "responses" else {
                try reader.skip(try reader.value())
                continue
            }
            guard case .array = try reader.value() else { throw NoBatch() }
            var answers = [TransportResponse?](repeating: nil, count: count)
            try reader.beginArray()
            while try reader.nextElement() {
                let (place, answer) = try answer(&reader)
                if answers.indices.contains(place) { answers[place] = answer }
            }
            result = answers
        }
        try reader.end()
        guard let result else { throw NoBatch() }
        return result
    }

    private static func answer(
        _ reader: inout JSONReader
    ) throws -> (place: Int, answer: TransportResponse) {
        guard case .object = try reader.value() else { throw NoBatch() }
        try reader.beginObject()
        var place: Int?
        var status: Int?
        var headers = HTTPFields()
        var body: [UInt8] = []
        while let name = try reader.nextMember() {
            switch reader.text(name) {
            case "id":
                guard case .string(let span) = try reader.value() else { throw NoBatch() }
                // Ids are numbers that start at 1. Any other id does not belong to a request.
                place = Int(reader.text(span)).flatMap { $0 > 0 ? $0 - 1 : nil }
            case "status":
                guard case .number(let span) = try reader.value() else { throw NoBatch() }
                status = reader.integer(span).flatMap { Int(exactly: $0) }
            case "headers":
                headers = try fields(&reader)
            case "body":
                body = try raw(&reader)
            default:
                try reader.skip(try reader.value())
            }
        }
        guard let place, let status else { throw NoBatch() }
        return (place, TransportResponse(status: status, headers: headers, body: body))
    }

    private static func fields(_ reader: inout JSONReader) throws -> HTTPFields {
        guard case .object = try reader.value() else { throw NoBatch() }
        var fields = HTTPFields()
        try reader.beginObject()
        while let name = try reader.nextMember() {
            let text = reader.text(name)
            guard case .string(let span) = try reader.value() else { throw NoBatch() }
            fields[text] = reader.text(span)
        }
        return fields
    }

    /// Returns the bytes of a JSON value; for a string, the bytes of its text.
    private static func raw(_ reader: inout JSONReader) throws -> [UInt8] {
        let start = reader.position
        let token = try reader.value()
        if case .string(let span) = token { return Array(reader.text(span).utf8) }
        try reader.skip(token)
        let bytes = reader.bytes[start..<reader.position]
        return Array(bytes.drop { $0 == 0x20 || $0 == 0x0A || $0 == 0x0D || $0 == 0x09 })
    }
}
