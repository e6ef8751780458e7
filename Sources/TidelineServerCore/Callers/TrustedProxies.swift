// TrustedProxies: finds the address of the caller. Pure.
//
// A proxy appends the address of its peer to the list that it received. So the list is read from its end for as long
// as the address that reported an entry is trusted; the first address that is not a trusted proxy is the caller's.
// Earlier entries may be forged. Only the field that the proxies write is read, because they would pass the other one
// through as the caller sent it.

package import TidelineCore

/// The proxies whose report of a client's address the server trusts.
package struct TrustedProxies: Hashable, Sendable {
    /// The header field that the proxies write.
    package enum Header: String, Hashable, Sendable, CaseIterable {
        case xForwardedFor = "X-Forwarded-For"
        /// The field of RFC 7239.
        case forwarded = "Forwarded"
    }

    package static let none = TrustedProxies([])

    /// The address of a caller that no trusted proxy has reported.
    ///
    /// It is not a valid address, so no network contains it.
    package static let unknown = "unknown"

    private let networks: [IPNetwork]
    private let header: Header

    package init(_ networks: [IPNetwork], header: Header = .xForwardedFor) {
        self.networks = networks
        self.header = header
    }

    /// Returns the address of the caller: `peer` itself, unless it is a trusted proxy.
    package func caller(peer: String, headers: HTTPFields) -> String {
        guard !networks.isEmpty else { return peer }
        guard var caller = IPAddress(peer) else { return Self.unknown }
        for field in Array(headers).reversed() where field.isNamed(header.rawValue) {
            guard let hops = Self.hops(field.value, header) else {
                return trusts(caller) ? Self.unknown : caller.text
            }
            for hop in hops.reversed() {
                guard trusts(caller) else { return caller.text }
                guard let hop else { return Self.unknown }
                caller = hop
            }
        }
        return caller.text
    }

    /// Whether a peer is a trusted proxy.
    package func trusts(peer: String) -> Bool {
        guard !networks.isEmpty else { return false }
        return IPAddress(peer).map { trusts($0) } ?? false
    }

    private func trusts(_ address: IPAddress) -> Bool {
        networks.contains { $0.contains(address) }
    }

    /// Returns the addresses of a field.
    ///
    /// An element that is not an address is nil. The result is nil if the field cannot be split unambiguously.
    private static func hops(_ text: String, _ header: Header) -> [IPAddress?]? {
        switch header {
        case .xForwardedFor:
            text.utf8.split(separator: UInt8(ascii: ",")).compactMap {
                (part) -> IPAddress?? in
                let node = Substring(part).trimmed
                return node.isEmpty ? nil : .some(IPAddress(node: node))
            }
        case .forwarded: ForwardedField.nodes(text)?.map { $0.flatMap { IPAddress(node: $0[...]) } }
        }
    }
}

extension Substring {
    /// The string without spaces and tabs at both ends.
    fileprivate var trimmed: Substring {
        var text = drop { $0 == " " || $0 == "\t" }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }
}

/// The field `Forwarded` of RFC 7239.
enum ForwardedField {
    /// Returns the value of `for` in each element, nil if the element has none; nil for a malformed field.
    static func nodes(_ text: String) -> [String?]? {
        var scanner = Scanner(rest: Array(text.utf8)[...])
        var nodes: [String?] = []
        while true {
            scanner.skipSpace()
            if scanner.take(",") { continue }
            guard !scanner.rest.isEmpty else { return nodes }
            guard let node = element(&scanner) else { return nil }
            nodes.append(node)
            scanner.skipSpace()
            guard scanner.rest.isEmpty || scanner.take(",") else { return nil }
        }
    }

    /// Parses the pairs of an element, which semicolons separate; returns nil if they are malformed.
    private static func element(_ scanner: inout Scanner) -> String?? {
        var node: String?
        repeat {
            guard let name = scanner.token(), scanner.take("="), let value = scanner.value() else {
                // An empty pair is malformed: between two semicolons, or after the last one.
                guard scanner.isAtEndOfPair else { return nil }
                continue
            }
            guard ASCII.equal(name, "for") else { continue }
            guard node == nil else { return nil }
            node = value
        } while scanner.take(";")
        return .some(node)
    }

    private struct Scanner {
        var rest: ArraySlice<UInt8>

        var isAtEndOfPair: Bool { rest.first.map { $0 == 0x3B || $0 == 0x2C } ?? true }

        mutating func skipSpace() { rest = rest.drop { $0 == 0x20 || $0 == 0x09 } }

        mutating func take(_ character: Unicode.Scalar) -> Bool {
            guard let first = rest.first, UInt32(first) == character.value else { return false }
            rest.removeFirst()
            return true
        }

        mutating func token() -> String? {
            let token = rest.prefix(while: Self.isOfToken)
            rest = rest.dropFirst(token.count)
            return token.isEmpty ? nil : String(decoding: token, as: UTF8.self)
        }

        mutating func value() -> String? {
            guard take("\"") else { return token() }
            var bytes: [UInt8] = []
            while let byte = rest.popFirst() {
                switch byte {
                case 0x22: return String(decoding: bytes, as: UTF8.self)
                case 0x5C:
                    guard let next = rest.popFirst() else { return nil }
                    bytes.append(next)
                default: bytes.append(byte)
                }
            }
            return nil
        }

        private static func isOfToken(_ byte: UInt8) -> Bool {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
            default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
            }
        }
    }
}
