// DocumentDecoderTests: documents are decoded as JSONDecoder decodes them, with the same values and errors.

import Foundation
import Testing
import TidelineCore

@Suite struct DocumentDecoderTests {
    private struct Address: Codable, Hashable {
        var street: String
        var city: String?
        var number = 0
    }

    private enum Size: String, Codable { case small, large }

    private enum Shape: Codable, Hashable {
        case circle(radius: Double)
        case square(Int)
        case point
    }

    private struct Everything: Codable, Hashable {
        var text: String
        var flag: Bool?
        var real: Double?
        var half: Float?
        var tiny: Int8?
        var big: UInt64?
        var size: Size?
        var shape: Shape?
        var when: Date?
        var link: URL?
        var bytes: Data?
        var price: Decimal?
        var id: UUID?
        var address: Address?
        var addresses: [Address]?
        var names: [String: [Int?]]?
        var matrix: [[Double]]?
    }

    /// A type that handles errors of the decoder.
    private struct Lenient: Codable, Hashable {
        var value: String

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let number = try? container.decode(Int.self) {
                value = "integer \(number)"
            } else if let price = try? container.decode(Decimal.self) {
                value = "decimal \(price)"
            } else if let text = try? container.decode(String.self) {
                value = "text \(text)"
            } else {
                value = "another"
            }
        }
    }

    /// A type that reads its members in its own way.
    private struct ByHand: Codable, Hashable {
        var names: [String] = []
        var first: String?
        var rest: [String] = []
        var city: String?

        private enum Key: String, CodingKey { case list, address }
        private enum AddressKey: String, CodingKey { case city }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Key.self)
            names = container.allKeys.map(\.rawValue).sorted()
            var list = try container.nestedUnkeyedContainer(forKey: .list)
            first = try list.decodeNil() ? nil : list.decode(String.self)
            while !list.isAtEnd { rest.append(try list.decode(String.self)) }
            rest.append("\(list.count ?? -1) \(list.currentIndex)")
            city = try container.nestedContainer(keyedBy: AddressKey.self, forKey: .address)
                .decodeIfPresent(String.self, forKey: .city)
        }
    }

    static let documents = [
        #"{"text":"x","bytes":"AAEC","price":0.1}"#,
        #"{"text":"x","id":"6BA7B810-9DAD-11D1-80B4-00C04FD430C8"}"#,
        "12345678901234567890123", #""text""#, #""a\nb""#, #""\ud83d\ude00""#, "[]", "{}",
        "[1,2,3]", #"["a","b"]"#, #"["a",null]"#, "[null,1]", #"["a\"b"]"#, "[[1.5],[2]]",
        #"{"text":"x"}"#, #"{"text":null}"#, #"{"text":1}"#, #"{"te\u0078t":"x"}"#,
        #"{"text":"x","flag":true,"real":2,"half":0.1,"tiny":-128,"big":18446744073709551615}"#,
        #"{"text":"x","tiny":128}"#, #"{"text":"x","tiny":1.0}"#, #"{"text":"x","flag":1}"#,
        #"{"text":"x","size":"large","shape":{"circle":{"radius":1.5}}}"#,
        #"{"text":"x","size":"huge"}"#, #"{"text":"x","shape":{"square":{"_0":2}}}"#,
        #"{"text":"x","shape":{"point":{}}}"#, #"{"text":"x","shape":{}}"#,
        #"{"text":"x","shape":{"point":{},"square":{"_0":1}}}"#,
        #"{"text":"x","when":"2026-11-29T02:55:11.125Z"}"#, #"{"text":"x","when":"today"}"#,
        #"{"text":"x","link":"https://example.com/a b"}"#, #"{"text":"x","link":""}"#,
        #"{"text":"x","bytes":"AAEC","price":0.1,"id":"6BA7B810-9DAD-11D1-80B4-00C04FD430C8"}"#,
        #"{"text":"x","bytes":"?"}"#, #"{"text":"x","id":"6BA7"}"#,
        #"{"text":"x","address":{"street":"s","number":1,"more":[{"a":[1]}]}}"#,
        #"{"text":"x","address":{"street":"s"}}"#, #"{"text":"x","address":{}}"#,
        #"{"street":"s","number":7}"#, #"{"street":"s","city":"é","number":7}"#,
        #"{"text":"x","addresses":[{"street":"a","number":1},{"street":"b","number":2}]}"#,
        #"{"text":"x","names":{"a":[1,null],"b":[]},"matrix":[[1,2.5],[]]}"#,
        #"{"text":"x","names":{"a\"b":[1]}}"#, #"{"a":1,"b":2}"#, #"{"1":1,"2":2}"#,
        #"{"list":["a","b"],"address":{"city":"Kiel"}}"#, #"{"list":[null,"b"],"address":{}}"#,
        #"{"list":[],"address":{}}"#, #"{"list":["a"],"address":null,"other":1}"#,
    ]

    @Test("A document is decoded with the same result as by JSONDecoder", arguments: documents)
    func isDecodedAsByJSONDecoder(_ text: String) throws {
        try compare(Everything.self, text)
        try compare(Address.self, text)
        try compare(Lenient.self, text)
        try compare([Lenient].self, text)
        try compare(ByHand.self, text)
        try compare([String].self, text)
        try compare([String?].self, text)
        try compare([Int].self, text)
        try compare([[Double]].self, text)
        try compare([String: Int].self, text)
        try compare([Int: Int].self, text)
        try compare(Int.self, text)
        try compare(Double.self, text)
        try compare(Decimal.self, text)
        try compare(String?.self, text)
        try compare(URL.self, text)
        try compare(Set<String>.self, text)
    }

    private func compare<T: Decodable & Equatable>(_ type: T.Type, _ text: String) throws {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .custom { decoder in
            let text = try decoder.singleValueContainer().decode(String.self)
            guard let timestamp = Timestamp(text) else { throw CocoaError(.coderInvalidValue) }
            return timestamp.appDate
        }
        let wanted = Result { try decoder.decode(type, from: Data(text.utf8)) }
        let found = Result { try JSON(text).decode(type) }
        switch (wanted, found) {
        case (.success(let one), .success(let two)): #expect(one == two, "\(type): \(text)")
        case (.failure, .failure(let error)):
            #expect(error is DecodingError, "\(type): \(text): \(error)")
        case (.success, .failure), (.failure, .success):
            Issue.record("\(type): \(text): \(found) instead of \(wanted)")
        }
    }
}
