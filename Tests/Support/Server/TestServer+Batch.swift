// TestServer+Batch: sends a request as a batch of one, and unpacks its response, so that tests of single requests also
// run through batches.

import Foundation
import TidelineCore
package import TidelineServerCore

extension ServerRequest {
    /// Nil for a request that a batch cannot express, or that concerns the batch itself.
    package func asBatch() -> ServerRequest? {
        guard ["GET", "POST", "PATCH", "PUT", "DELETE"].contains(method),
            !path.hasPrefix("/health"), path != "/metrics", path != "/$batch"
        else { return nil }
        var outer: HTTPFields = ["Content-Type": "application/json"]
        var inner: [String: String] = [:]
        for field in headers {
            switch field.name.lowercased() {
            case "host", "x-zumo-auth", "authorization", "origin", "x-request-id":
                outer.append(field.name, field.value)
            case "content-encoding": return nil
            default:
                guard inner.updateValue(field.value, forKey: field.name) == nil else { return nil }
            }
        }
        let url = query.isEmpty ? path : path + "?" + query
        var part = BatchPart("1", method, url, headers: inner)
        if !body.isEmpty {
            guard method != "GET", method != "DELETE", let text = bodyText else { return nil }
            part.members.append(("body", text))
        }
        var result = ServerRequest(method: "POST", path: "/$batch", headers: outer)
        result.body = Array("{\"requests\":[\(part.json)]}".utf8)
        return result
    }

    /// The body as a batch contains it; nil for null, and for malformed JSON where JSON is expected.
    private var bodyText: String? {
        let text = String(decoding: body, as: UTF8.self)
        let type = headers["Content-Type"]?.lowercased() ?? "application/json"
        guard type.contains("json") else {
            return (try? JSONEncoder().encode(text)).map { String(decoding: $0, as: UTF8.self) }
        }
        return body.withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes)
            guard let token = try? reader.value() else { return nil }
            if case .null = token { return nil }
            guard (try? reader.skip(token, checksNames: false)) != nil,
                (try? reader.end()) != nil
            else { return nil }
            return text
        }
    }
}

extension ServerResponse {
    /// The only response in a batch, with the headers of the batch; a rejected batch is returned as it is.
    package func outOfBatch() -> ServerResponse {
        guard status == 200, let part = parts.first, parts.count == 1 else { return self }
        var result = ServerResponse(status: part["status"] as? Int ?? 0)
        for (name, value) in partHeaders(0) { result.headers.append(name, value) }
        for name in Self.shared where headers[name] != nil {
            result.headers.append(name, headers[name] ?? "")
        }
        guard let text = part["body"] as? String else {
            result.body = rawBody
            return result
        }
        result.body = Array(text.utf8)
        return result
    }

    package static let shared = [
        "Cache-Control", "Vary", "X-Request-ID", "Access-Control-Allow-Origin",
        "Access-Control-Expose-Headers",
    ]

    /// The headers of the response itself, by lowercase name.
    package var comparableHeaders: [String: String] {
        var result: [String: String] = [:]
        for field in headers where !Self.shared.contains(field.name) {
            if field.name.lowercased() == "x-request-id" { continue }
            // The epoch is that of the test server's own database.
            // Only the batch response has the schema.
            let others = ["cache-control", "vary", "tideline-epoch", "tideline-schema"]
            if others.contains(field.name.lowercased()) { continue }
            result[field.name.lowercased()] = field.value
        }
        return result
    }

    /// The bytes of the member `body` of the only response, which is its last member.
    private var rawBody: [UInt8] {
        let mark = Array("},\"body\":".utf8)
        let end = Array("}]}".utf8)
        guard let start = body.firstRange(of: mark), body.suffix(3).elementsEqual(end) else {
            return []
        }
        return Array(body[start.upperBound..<body.count - 3])
    }
}
