// JSONMembers: edits and merges of JSON documents, member by member, for client and server.
//
// Pure functions. Objects are compared, changed and merged by member, at every depth. An array
// counts as one value, unless a model's edit of the array is applied to a different state: see
// `JSONEdit.ofModel`.

/// A parsed document.
///
/// Scalars keep their original text, so numbers keep all their digits.
package indirect enum JSONDocument: Sendable {
    /// The members, in document order; names are UTF-8 bytes without escapes.
    case object([Member])
    /// The elements, in order.
    case array([JSONDocument])
    /// A string, number, boolean, or null.
    case scalar(JSONElement)

    /// A member of an object.
    package struct Member: Sendable {
        package var name: [UInt8]
        package var value: JSONDocument
    }

    /// Parses a document; nil if its text is not valid JSON.
    package init?(_ json: JSON) {
        let parsed = Array(json.text.utf8).withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes)
            return try? JSONDocument(&reader)
        }
        guard let parsed else { return nil }
        self = parsed
    }

    private init(_ reader: inout JSONReader) throws {
        // A copy of the reader looks ahead at the token, so that a scalar can then be read with its
        // text.
        var ahead = reader
        switch try ahead.value() {
        case .object:
            reader = ahead
            var members: [Member] = []
            try reader.beginObject()
            while let name = try reader.nextMember() {
                let bytes = Array(reader.text(name).utf8)
                members.append(Member(name: bytes, value: try JSONDocument(&reader)))
            }
            self = .object(members)
        case .array:
            reader = ahead
            var elements: [JSONDocument] = []
            try reader.beginArray()
            while try reader.nextElement() { elements.append(try JSONDocument(&reader)) }
            self = .array(elements)
        case .null, .bool, .number, .string:
            self = .scalar(try JSONElement(&reader))
        }
    }

    /// The document in its stored form.
    package var json: JSON {
        var writer = JSONWriter()
        write(to: &writer)
        return JSON(checked: String(decoding: writer.bytes, as: UTF8.self))
    }

    private func write(to writer: inout JSONWriter) {
        switch self {
        case .scalar(let scalar): writer.raw(scalar.text)
        case .array(let elements):
            writer.byte("[")
            for (index, element) in elements.enumerated() {
                if index > 0 { writer.byte(",") }
                element.write(to: &writer)
            }
            writer.byte("]")
        case .object(let members):
            writer.byte("{")
            for (index, member) in members.enumerated() {
                if index > 0 { writer.byte(",") }
                writer.string(String(decoding: member.name, as: UTF8.self))
                writer.byte(":")
                member.value.write(to: &writer)
            }
            writer.byte("}")
        }
    }

    /// The members by name; nil if the document is not an object.
    fileprivate var members: [[UInt8]: JSONDocument]? {
        guard case .object(let members) = self else { return nil }
        return Dictionary(
            members.map { ($0.name, $0.value) },
            uniquingKeysWith: { _, last in last }
        )
    }

    /// The maximum number of members that decoding adds to a document.
    package static let missingMembersMax = 256

    /// The member at a path of names; nil if there is none.
    package func value(at path: [[UInt8]]) -> JSONDocument? {
        guard let name = path.first else { return self }
        return members?[name]?.value(at: Array(path.dropFirst()))
    }

    /// Returns the paths of the members that differ between two objects, including members of
    /// nested objects.
    package static func differences(
        _ one: JSONDocument,
        _ two: JSONDocument
    ) -> [[[UInt8]]] {
        guard let old = one.members, let new = two.members else { return one == two ? [] : [[]] }
        return Set(old.keys).union(new.keys).flatMap { name -> [[[UInt8]]] in
            guard let before = old[name], let after = new[name] else { return [[name]] }
            return differences(before, after).map { [name] + $0 }
        }
    }

    /// Returns the document with the member at a path of names set or removed; unchanged if the
    /// object that would contain the member does not exist.
    package func setting(_ value: JSONDocument?, at path: [[UInt8]]) -> JSONDocument {
        guard let name = path.first else { return value ?? self }
        guard case .object(var members) = self else { return self }
        let index = members.firstIndex { $0.name == name }
        if path.count > 1 {
            guard let index else { return self }
            members[index].value = members[index].value
                .setting(value, at: Array(path.dropFirst()))
        } else if let value, let index {
            members[index].value = value
        } else if let value {
            members.append(Member(name: name, value: value))
        } else if let index {
            members.remove(at: index)
        }
        return .object(members)
    }

    /// Returns the document with one more member; nil if its object does not exist or already has
    /// the member.
    package func adding(_ value: JSONDocument, at path: [[UInt8]]) -> JSONDocument? {
        guard let name = path.first, case .object(var members) = self else { return nil }
        let index = members.firstIndex { $0.name == name }
        if path.count == 1 {
            guard index == nil else { return nil }
            members.append(Member(name: name, value: value))
        } else {
            guard let index,
                let inner = members[index].value.adding(value, at: Array(path.dropFirst()))
            else { return nil }
            members[index].value = inner
        }
        return .object(members)
    }

    /// Returns the number of members that two objects have in common; 0 for other documents.
    fileprivate func likeness(to other: JSONDocument) -> Int {
        guard let one = members, let two = other.members else { return 0 }
        return one.count { name, value in two[name] == value }
    }

    /// The member `id` of an object, if it is a string or a number.
    fileprivate var identity: JSONDocument? {
        guard let id = members?[Array("id".utf8)], case .scalar(let scalar) = id,
            scalar.text != "null"
        else { return nil }
        return id
    }
}

extension JSONDocument: Equatable {
    /// Whether two documents have the same value, regardless of the order of members.
    package static func == (left: JSONDocument, right: JSONDocument) -> Bool {
        switch (left, right) {
        case (.scalar(let one), .scalar(let two)): return one == two
        case (.array(let one), .array(let two)): return one == two
        case (.object(let one), .object(let two)):
            guard one.count == two.count else { return false }
            let others = right.members ?? [:]
            return one.allSatisfy { others[$0.name] == $0.value }
        case (.scalar, _), (.array, _), (.object, _): return false
        }
    }
}

/// An edit of a document, which can be applied to another state of it.
package struct JSONEdit {
    /// The document that the edit started from.
    package let base: JSONDocument
    /// The document after the edit.
    package let edited: JSONDocument
    /// Whether a model encoded `base`, in which case `base` may lack members of the other state.
    ///
    /// If so, arrays are merged element by element, and the elements keep members that the model
    /// does not know. Otherwise, an array is a single value.
    package var ofModel = false

    package init(from base: JSONDocument, to edited: JSONDocument, ofModel: Bool = false) {
        (self.base, self.edited, self.ofModel) = (base, edited, ofModel)
    }

    /// Returns `current` with the members that the edit added, changed, or removed.
    package func applied(to current: JSONDocument) -> JSONDocument {
        if base == edited { return current }
        switch (base, edited, current) {
        case (.object, .object(let new), .object(let known)):
            let (old, after, now) = (
                base.members ?? [:], edited.members ?? [:], current.members ?? [:]
            )
            var result: [JSONDocument.Member] = []
            for member in known {
                switch (old[member.name], after[member.name]) {
                case (nil, nil): result.append(member)
                case (.some, nil): break
                case (nil, let value?):
                    result.append(JSONDocument.Member(name: member.name, value: value))
                case (let before?, let value?):
                    let value = step(before, value).applied(to: member.value)
                    result.append(JSONDocument.Member(name: member.name, value: value))
                }
            }
            // A member that the other state removed stays removed if the edit did not change it.
            for member in new where now[member.name] == nil && old[member.name] != member.value {
                result.append(member)
            }
            return .object(result)
        case (.array(let old), .array(let new), .array(let now)) where ofModel:
            guard old.count == now.count else { return edited }
            let pairs = Self.pairs(new, old)
            return .array(
                new.indices.map { index in
                    guard let place = pairs[index] else { return new[index] }
                    return step(old[place], new[index]).applied(to: now[place])
                }
            )
        default: return edited
        }
    }

    private func step(_ base: JSONDocument, _ edited: JSONDocument) -> JSONEdit {
        JSONEdit(from: base, to: edited, ofModel: ofModel)
    }

    /// Returns the position before the edit for each element of an edited array; nil for a new
    /// element.
    ///
    /// Pairs elements with the same `id` first, and then equal elements. If both sides have the
    /// same number of elements left, they are paired in order. Otherwise, elements with the most
    /// equal members are paired.
    private static func pairs(_ new: [JSONDocument], _ old: [JSONDocument]) -> [Int?] {
        var pairs = [Int?](repeating: nil, count: new.count)
        var free = Set(old.indices)
        func pair(by key: (JSONDocument) -> String?) {
            var places: [String: [Int]] = [:]
            for place in old.indices.reversed() where free.contains(place) {
                if let key = key(old[place]) { places[key, default: []].append(place) }
            }
            for index in new.indices where pairs[index] == nil {
                guard let key = key(new[index]), let place = places[key]?.popLast() else {
                    continue
                }
                pairs[index] = place
                free.remove(place)
            }
        }
        pair { $0.identity?.json.text }
        pair { $0.json.text }
        var left = new.indices.filter { pairs[$0] == nil && new[$0].identity == nil }
        var places = free.filter { old[$0].identity == nil }.sorted()
        if left.count == places.count {
            for (index, place) in zip(left, places) { pairs[index] = place }
            return pairs
        }
        guard left.count * places.count <= likenessesMax else { return pairs }
        while true {
            // Pairs the elements with the most in common first, because the least edited element is
            // the most certain match.
            var best = (likeness: 0, index: 0, place: 0)
            for index in left {
                for place in places {
                    let likeness = new[index].likeness(to: old[place])
                    if likeness > best.likeness { best = (likeness, index, place) }
                }
            }
            guard best.likeness > 0 else { return pairs }
            pairs[best.index] = best.place
            left.removeAll { $0 == best.index }
            places.removeAll { $0 == best.place }
        }
    }

    /// The maximum number of pairs of elements that are compared.
    private static let likenessesMax = 2500
}

extension JSONDocument {
    /// Merges two changes of a document; nil if both changed the same member to different values.
    ///
    /// If both sides replaced one member with another, the result is also nil, because an enum with
    /// associated values changes its case this way.
    package static func merged(
        base: JSONDocument,
        mine: JSONDocument,
        theirs: JSONDocument
    ) -> JSONDocument? {
        if mine == theirs || mine == base { return theirs }
        if theirs == base { return mine }
        guard case .object(let own) = mine, case .object(let others) = theirs,
            let old = base.members, let one = mine.members, let two = theirs.members
        else { return nil }
        let isReplaced = old.keys.contains { one[$0] == nil && two[$0] == nil }
        let adds = own.contains { old[$0.name] == nil && two[$0.name] == nil }
        let othersAdd = others.contains { old[$0.name] == nil && one[$0.name] == nil }
        if isReplaced, adds, othersAdd { return nil }
        var result: [Member] = []
        for name in others.map(\.name) + own.map(\.name).filter({ two[$0] == nil }) {
            let (before, wanted, other) = (old[name], one[name], two[name])
            if wanted == other || wanted == before {
                if let other { result.append(Member(name: name, value: other)) }
            } else if other == before {
                if let wanted { result.append(Member(name: name, value: wanted)) }
            } else if let before, let wanted, let other,
                let value = merged(base: before, mine: wanted, theirs: other)
            {
                result.append(Member(name: name, value: value))
            } else {
                return nil
            }
        }
        return .object(result)
    }
}

extension JSON {
    /// Whether the document is an object; only objects are changed member by member.
    package var isObject: Bool { text.utf8.first == UInt8(ascii: "{") }

    /// Returns this document with the differences between two other states applied to it.
    package func applying(from base: JSON, to edited: JSON, ofModel: Bool = false) -> JSON {
        // No parsing is needed if both states are the same.
        if base.text.utf8.elementsEqual(text.utf8) { return edited }
        guard let old = JSONDocument(base), let new = JSONDocument(edited),
            let current = JSONDocument(self)
        else { return edited }
        return JSONEdit(from: old, to: new, ofModel: ofModel).applied(to: current).json
    }

    /// Merges two changes of an object; nil if a document is not an object, or if both sides
    /// changed the same member to different values.
    package static func merged(base: JSON, mine: JSON, theirs: JSON) -> JSON? {
        guard base.isObject, mine.isObject, theirs.isObject, let old = JSONDocument(base),
            let own = JSONDocument(mine), let other = JSONDocument(theirs)
        else { return nil }
        return JSONDocument.merged(base: old, mine: own, theirs: other)?.json
    }
}

extension Value {
    /// Whether the value is a JSON object or array.
    package var isObjectOrArray: Bool {
        guard case .json(let document) = self else { return false }
        return document.isObject || document.text.utf8.first == UInt8(ascii: "[")
    }

    /// Returns this value with the differences between two other states applied to it.
    ///
    /// JSON documents are changed member by member; for any other value, the result is the edited
    /// value.
    package func applying(from base: Value?, to edited: Value, ofModel: Bool = false) -> Value {
        guard case .json(let current) = self, case .json(let old)? = base,
            case .json(let new) = edited
        else { return edited }
        return .json(current.applying(from: old, to: new, ofModel: ofModel))
    }
}
