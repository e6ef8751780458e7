// CallerNetwork: what of an IP address is a caller. Pure.

package enum CallerNetwork {
    /// An address of IPv4 as it is, of one of IPv6 the first half: whoever has one has all that begin so.
    ///
    /// `address` is as the system writes it, maybe with a zone behind `%`.
    package static func name(of address: String) -> String {
        let bare = address.prefix { $0 != "%" }
        guard bare.contains(":") else { return address }
        let parts = bare.split(separator: ":", omittingEmptySubsequences: false)
        // Two colons in a row stand for as many groups of zeros as are missing.
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
