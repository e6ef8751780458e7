// IPAddress: an address of IPv4 or IPv6 as its bytes, and networks of them. Pure.

import Foundation

/// An IP address; an IPv4-mapped IPv6 address equals its IPv4 address.
package struct IPAddress: Hashable, Sendable {
    /// The bytes of the address, four or sixteen.
    let bytes: [UInt8]

    /// Parses dotted or colon notation; rejects text with anything before or after it.
    package init?(_ text: some StringProtocol) {
        let text = String(text)
        var four = in_addr()
        var six = in6_addr()
        // The system's function would stop reading at a NUL.
        guard !text.utf8.contains(0) else { return nil }
        if inet_pton(AF_INET, text, &four) == 1 {
            bytes = withUnsafeBytes(of: four) { Array($0) }
        } else if inet_pton(AF_INET6, text, &six) == 1 {
            let all = withUnsafeBytes(of: six) { Array($0) }
            bytes = all.starts(with: Self.mapped) ? Array(all.dropFirst(Self.mapped.count)) : all
        } else {
            return nil
        }
    }

    /// Parses the notations that proxies use: an address, with or without brackets and a port.
    init?(node: Substring) {
        if node.hasPrefix("[") {
            guard let end = node.firstIndex(of: "]"),
                Self.isPort(node[node.index(after: end)...])
            else { return nil }
            let inside = node[node.index(after: node.startIndex)..<end]
            guard inside.contains(":") else { return nil }
            self.init(inside)
        } else if let colon = node.firstIndex(of: ":"), node.lastIndex(of: ":") == colon {
            guard Self.isPort(node[colon...]) else { return nil }
            self.init(node[..<colon])
        } else {
            self.init(node)
        }
    }

    /// Whether the text is empty, or a colon and a number.
    private static func isPort(_ text: Substring) -> Bool {
        if text.isEmpty { return true }
        let digits = text.dropFirst()
        return text.first == ":" && UInt16(digits) != nil && digits.first?.isNumber == true
    }

    private static let mapped: [UInt8] = Array(repeating: 0, count: 10) + [0xFF, 0xFF]

    /// Whether the address is a loopback address.
    package var isLoopback: Bool {
        bytes.count == 4
            ? bytes[0] == 127 : bytes.dropLast().allSatisfy { $0 == 0 } && bytes[15] == 1
    }

    /// The address in the system's notation.
    package var text: String {
        let family = bytes.count == 4 ? AF_INET : AF_INET6
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) {
            guard
                let text = inet_ntop(family, bytes, $0.baseAddress, socklen_t($0.count))
            else { return "" }
            return String(cString: text)
        }
    }
}

/// An address, or all addresses that begin with the same bits, such as `10.0.0.0/8`.
package struct IPNetwork: Hashable, Sendable {
    private let address: IPAddress
    private let bits: Int

    /// Parses a network; nil if it is not an address, if the prefix is too long, or if bits after the prefix
    /// are set, which would be a mistake.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let address = IPAddress(first) else { return nil }
        self.address = address
        let most = address.bytes.count * 8
        guard parts.count == 2 else {
            bits = most
            return
        }
        // The prefix of an IPv4-mapped network counts bits that the IPv4 address does not have.
        let isMapped = most == 32 && first.contains(":")
        guard !isMapped, let bits = Int(parts[1]), (0...most).contains(bits),
            String(bits) == parts[1]
        else { return nil }
        self.bits = bits
        guard (bits..<most).allSatisfy({ !Self.bit($0, of: address) }) else { return nil }
    }

    package func contains(_ other: IPAddress) -> Bool {
        guard other.bytes.count == address.bytes.count else { return false }
        let whole = bits / 8
        guard other.bytes[..<whole] == address.bytes[..<whole] else { return false }
        return (whole * 8..<bits).allSatisfy {
            Self.bit($0, of: other) == Self.bit($0, of: address)
        }
    }

    private static func bit(_ place: Int, of address: IPAddress) -> Bool {
        address.bytes[place / 8] & (0x80 >> UInt8(place % 8)) != 0
    }
}
