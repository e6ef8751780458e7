// PostgresStatement: a statement with its parameters, as libpq sends them.

import CLibPQ
import Foundation
package import TidelineCore

/// A parameter of a statement.
package enum PostgresParameter: Hashable, Sendable {
    case value(SQLValue)
    /// An array, sent as its string form; the statement specifies the element type: `$1::bigint[]`.
    case array([SQLValue])
    /// A value as a string; the statement specifies its type: `$1::timestamptz`.
    case untyped(String)
}

/// A statement with its parameters.
package struct PostgresStatement: Sendable {
    package var text: String
    package var parameters: [PostgresParameter]
    /// Whether to prepare the statement, because it is often repeated and its plan is the same for all values.
    package var isPrepared = false

    package init(_ text: String, _ parameters: [PostgresParameter] = []) {
        self.text = text
        self.parameters = parameters
    }

    package init(_ text: String, values: [SQLValue]) {
        self.init(text, values.map { .value($0) })
    }

    package init(_ sql: SQL) {
        self.init(sql.text(for: .postgres), values: sql.bindings)
    }

    /// The same statement, which is prepared if the connection caches statements.
    package var prepared: PostgresStatement {
        var prepared = self
        prepared.isPrepared = true
        return prepared
    }
}

/// The parameters as libpq's arrays, valid while a call uses them.
struct ParameterBuffer {
    private(set) var types: [Oid] = []
    private(set) var lengths: [Int32] = []
    private(set) var formats: [Int32] = []
    /// The position of each value in `bytes`; nil for null.
    private var starts: [Int?] = []
    private var bytes: [UInt8] = []

    init(_ parameters: [PostgresParameter]) {
        for parameter in parameters {
            switch parameter {
            case .value(.null), .value(.program): append(0, nil, 0)
            case .value(.integer(let value)):
                append(tideline_int8, withUnsafeBytes(of: value.bigEndian) { Array($0) }, 1)
            case .value(.real(let value)):
                append(
                    tideline_float8,
                    withUnsafeBytes(of: value.bitPattern.bigEndian) { Array($0) },
                    1
                )
            case .value(.text(let text)): append(tideline_text, Array(text.utf8), 0)
            case .value(.blob(let data)): append(tideline_bytea, Array(data), 1)
            case .array(let values): append(0, Self.array(values), 0)
            case .untyped(let text): append(0, Array(text.utf8), 0)
            }
        }
    }

    private mutating func append(_ type: Oid, _ value: [UInt8]?, _ format: Int32) {
        types.append(type)
        formats.append(format)
        lengths.append(Int32(value?.count ?? 0))
        starts.append(value == nil ? nil : bytes.count)
        if let value {
            bytes += value
            // A string ends with a zero byte, whatever length is declared for it.
            bytes.append(0)
        }
    }

    func withPointers<Result>(
        _ body: ([UnsafePointer<CChar>?]) throws -> Result
    ) rethrows -> Result {
        try bytes.withUnsafeBytes { buffer in
            try body(
                starts.map { start in
                    start.flatMap { start in
                        buffer.baseAddress.map { ($0 + start).assumingMemoryBound(to: CChar.self) }
                    }
                }
            )
        }
    }

    /// Returns the string form of an array: `{"a","b",NULL}`.
    private static func array(_ values: [SQLValue]) -> [UInt8] {
        var bytes: [UInt8] = [UInt8(ascii: "{")]
        for (place, value) in values.enumerated() {
            if place > 0 { bytes.append(UInt8(ascii: ",")) }
            switch value {
            case .null, .program: bytes += Array("NULL".utf8)
            case .integer(let number): bytes += Array(String(number).utf8)
            case .real(let number): bytes += Array("\"\(number)\"".utf8)
            case .text(let text): quote(text.utf8, to: &bytes)
            case .blob(let data): quote(("\\x" + hex(data)).utf8, to: &bytes)
            }
        }
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }

    private static func quote(_ text: some Sequence<UInt8>, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text {
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") {
                bytes.append(UInt8(ascii: "\\"))
            }
            bytes.append(byte)
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private static func hex(_ data: Data) -> String {
        let digits = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        text.reserveCapacity(data.count * 2)
        for byte in data {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }
}
