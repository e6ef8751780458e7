// JSON: a validated JSON text, stored as text so that numbers keep all their digits.

import Foundation

/// A JSON document as a string, validated on creation and stored without white space.
///
/// Two documents are equal if their strings are equal, so the order of members matters.
public struct JSON: Hashable, Sendable, CustomStringConvertible {
    /// The document, without white space between its tokens.
    public let text: String

    /// Validates `text` strictly (RFC 8259); also rejects duplicate names and a depth over 64.
    ///
    /// - Throws: ``JSONError`` with the position of the first error.
    public init(_ text: String) throws {
        var copy = text
        self.text = try copy.withUTF8 { bytes in
            var reader = JSONReader(bytes)
            let span = try reader.rawValue()
            try reader.end()
            return JSON.compact(bytes, span)
        }
    }

    /// Encodes a value with `JSONEncoder`, with members sorted by name and dates rounded to
    /// milliseconds.
    ///
    /// - Throws: `EncodingError` for a number that is not finite or a date outside the years 1 to
    ///   9999, and any error that the value throws while it encodes itself.
    public init(encoding value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .custom { date, encoder in
            guard let timestamp = Timestamp(millisecondOf: date) else {
                throw EncodingError.invalidValue(
                    date,
                    EncodingError.Context(
                        codingPath: encoder.codingPath,
                        debugDescription: "a date outside the years 1 to 9999"
                    )
                )
            }
            var container = encoder.singleValueContainer()
            try container.encode(timestamp.text)
        }
        try self.init(String(decoding: encoder.encode(value), as: UTF8.self))
    }

    package init(checked text: String) {
        self.text = text
    }

    /// Decodes the document with the rules of `JSONDecoder`; dates are ISO 8601 strings with an
    /// offset.
    ///
    /// - Throws: `DecodingError` if the document does not fit the type.
    public func decode<T: Decodable>(_ type: T.Type) throws -> T {
        if let value = DocumentDecoder.decode(type, from: text) { return value }
        return try Self.decoder.decode(type, from: Data(text.utf8))
    }

    /// Returns a decoder for the document, for callers that know the type only at run time.
    ///
    /// - Throws: `DecodingError`.
    package func makeDecoder() throws -> any Decoder {
        // DocumentDecoder leaves some documents to JSONDecoder, but only after decoding has begun,
        // which is too late here.
        try Self.decoder.decode(CapturedDecoder.self, from: Data(text.utf8)).decoder
    }

    private struct CapturedDecoder: Decodable {
        let decoder: any Decoder

        init(from decoder: any Decoder) throws { self.decoder = decoder }
    }

    private static var decoder: JSONDecoder {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .custom { decoder in
            let container = try decoder.singleValueContainer()
            let text = try container.decode(String.self)
            guard let timestamp = Timestamp(text) else {
                throw DecodingError.dataCorruptedError(
                    in: container,
                    debugDescription: "not an ISO 8601 date with offset"
                )
            }
            return timestamp.appDate
        }
        return decoder
    }

    /// The document as a string.
    public var description: String { text }

    /// Returns the bytes of a valid value without white space between tokens.
    package static func compact(_ bytes: UnsafeBufferPointer<UInt8>, _ span: Range<Int>) -> String {
        var result: [UInt8] = []
        result.reserveCapacity(span.count)
        var inString = false
        var index = span.lowerBound
        while index < span.upperBound {
            let byte = bytes[index]
            if inString {
                result.append(byte)
                if byte == UInt8(ascii: "\\") {
                    index += 1
                    result.append(bytes[index])
                } else if byte == UInt8(ascii: "\"") {
                    inString = false
                }
            } else if byte > 0x20 {
                result.append(byte)
                inString = byte == UInt8(ascii: "\"")
            }
            index += 1
        }
        return String(decoding: result, as: UTF8.self)
    }
}
