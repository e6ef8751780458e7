// CallerNetwork: callers without a token. Pure.

/// The part of an IP address that identifies a caller.
package enum CallerNetwork {
    /// Returns an IPv4 address unchanged, or the first half of an IPv6 address.
    ///
    /// The owner of one IPv6 address has all addresses with the same prefix.
    ///
    /// `address` is in the system's notation, possibly with a zone after `%`.
    package static func name(of address: String) -> String {
        let bare = address.prefix { $0 != "%" }
        guard bare.contains(":") else { return address }
        let parts = bare.split(separator: ":", omittingEmptySubsequences: false)
        // Two consecutive colons replace as many groups of zeros as are missing.
        var groups: [Substring] = []
        for (index, part) in parts.enumerated() {
            if part.isEmpty, index > 0, index < parts.count - 1 {
                let given = parts.count { !$0.isEmpty }
                groups += Array(repeating: "0", count: max(0, groupsOfAll - given))
            } else if !part.isEmpty {
                groups.append(part)
            }
        }
        return groups.prefix(groupsOfNetwork).joined(separator: ":") + "::/64"
    }

    private static let groupsOfAll = 8
    private static let groupsOfNetwork = 4
}
