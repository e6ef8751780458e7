// EndpointRules: which addresses may be used, and which are one and the same origin.
//
// Pure. Tokens and ids go only to the endpoint's origin, so these rules are strict: what is
// not surely loopback is not loopback, what is not surely the same is not the same.

package import Foundation

package enum EndpointRules {
    /// Checks that an address may be used: https, or http to this machine.
    ///
    /// - Parameters:
    ///   - url: An absolute URL.
    ///   - allowsInsecure: Whether plain http may leave this machine.
    /// - Throws: ``TransportError`` with code `insecure` or `invalidRequest`.
    package static func check(_ url: URL, allowsInsecure: Bool) throws(TransportError) {
        guard let host = url.host(), !host.isEmpty else {
            throw .invalidRequest("The address has no host. Write it as https://host/path.")
        }
        guard url.user() == nil, url.password() == nil else {
            throw .invalidRequest(
                "The address contains credentials. Give them as 'authentication' instead."
            )
        }
        switch url.scheme?.lowercased() {
        case "https":
            return
        case "http":
            guard allowsInsecure || isLoopback(host) else { throw .insecure(url) }
        default:
            throw .invalidRequest("The address is not an http or https URL. Use https.")
        }
    }

    /// Checks that an address may be that of a server: requests put their paths and queries behind it.
    ///
    /// - Parameters:
    ///   - url: An absolute URL.
    ///   - allowsInsecure: Whether plain http may leave this machine.
    /// - Throws: ``TransportError`` with code `insecure` or `invalidRequest`.
    package static func check(endpoint url: URL, allowsInsecure: Bool) throws(TransportError) {
        try check(url, allowsInsecure: allowsInsecure)
        // In text that is a URL these two stand nowhere else.
        guard !url.absoluteString.contains(where: { $0 == "?" || $0 == "#" }) else {
            throw .invalidRequest(
                """
                The endpoint has a query or a fragment (what follows '?' or '#'), which no request \
                could keep. Write it as https://host/path.
                """
            )
        }
    }

    /// Whether two addresses have the same scheme, host and port.
    package static func sameOrigin(_ one: URL, _ other: URL) -> Bool {
        guard let oneHost = one.host()?.lowercased(), !oneHost.isEmpty,
            let otherHost = other.host()?.lowercased(), oneHost == otherHost,
            let onePort = port(of: one), let otherPort = port(of: other)
        else { return false }
        return one.scheme?.lowercased() == other.scheme?.lowercased() && onePort == otherPort
    }

    /// One text for an address however it was written: origin and path, without a slash at the end.
    ///
    /// What was learned from a server is kept with it, and counts only while it is the same.
    package static func normalized(_ url: URL) -> String {
        var path = url.path(percentEncoded: true)
        while path.hasSuffix("/") { path.removeLast() }
        let scheme = url.scheme?.lowercased() ?? ""
        let port = port(of: url).map(String.init) ?? ""
        return "\(scheme)://\(url.host()?.lowercased() ?? ""):\(port)\(path)"
    }

    /// Whether a host is this machine: 127.0.0.0/8, ::1 or localhost.
    package static func isLoopback(_ host: String) -> Bool {
        var host = host.lowercased()
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        if host == "localhost" || host == "::1" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy(isOctet)
    }

    /// Whether answers from there are asked for compressed: on this machine that only takes time.
    package static func asksForCompression(_ url: URL) -> Bool {
        !(url.host().map(isLoopback) ?? false)
    }

    /// The origin in words: scheme, host and port, nothing that could be private.
    package static func name(of url: URL) -> String {
        let port = url.port.map { ":\($0)" } ?? ""
        let host = url.host() ?? "?"
        let isAddress = host.contains(":") && !host.hasPrefix("[")
        return "\(url.scheme ?? "?")://\(isAddress ? "[\(host)]" : host)\(port)"
    }

    /// A number up to 255 without leading zeros, which some readers take as octal.
    private static func isOctet(_ text: Substring) -> Bool {
        guard text.utf8.count <= 3, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let number = UInt8(text)
        else { return false }
        return String(number) == text
    }

    private static func port(of url: URL) -> Int? {
        if let port = url.port { return port }
        switch url.scheme?.lowercased() {
        case "https": return 443
        case "http": return 80
        default: return nil
        }
    }
}
