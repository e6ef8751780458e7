// EndpointRules: checks the addresses of servers.
//
// Pure. Tokens and ids are sent only to the endpoint's origin, so these rules are strict. In case
// of doubt, an address is not loopback, and two addresses do not have the same origin.

package import Foundation

/// The rules that decide which addresses may be used and which have the same origin.
package enum EndpointRules {
    /// Checks that an address may be used: https, or plain http to this machine.
    ///
    /// - Parameters:
    ///   - url: An absolute URL.
    ///   - allowsInsecure: Whether plain http to another machine is allowed.
    /// - Throws: ``TransportError`` with code `insecure` or `invalidRequest`.
    package static func check(_ url: URL, allowsInsecure: Bool) throws(TransportError) {
        guard let host = url.host(), !host.isEmpty else {
            throw .invalidRequest("The address has no host. Write it as https://host/path.")
        }
        guard url.user() == nil, url.password() == nil else {
            throw .invalidRequest(
                "The address contains credentials. Pass them as 'authentication' instead."
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

    /// Checks that an address can be a server's endpoint, to which requests append paths and
    /// queries.
    ///
    /// - Parameters:
    ///   - url: An absolute URL.
    ///   - allowsInsecure: Whether plain http to another machine is allowed.
    /// - Throws: ``TransportError`` with code `insecure` or `invalidRequest`.
    package static func check(endpoint url: URL, allowsInsecure: Bool) throws(TransportError) {
        try check(url, allowsInsecure: allowsInsecure)
        // These two characters cannot occur anywhere else in the text of a URL.
        guard !url.absoluteString.contains(where: { $0 == "?" || $0 == "#" }) else {
            throw .invalidRequest(
                """
                The endpoint has a query or a fragment (the part after '?' or '#'), which requests \
                would lose. Write it as https://host/path.
                """
            )
        }
    }

    /// Returns whether two addresses have the same scheme, host, and port.
    package static func sameOrigin(_ one: URL, _ other: URL) -> Bool {
        guard let oneHost = one.host()?.lowercased(), !oneHost.isEmpty,
            let otherHost = other.host()?.lowercased(), oneHost == otherHost,
            let onePort = port(of: one), let otherPort = port(of: other)
        else { return false }
        return one.scheme?.lowercased() == other.scheme?.lowercased() && onePort == otherPort
    }

    /// Returns an address in normalized form: origin and path, without a trailing slash.
    ///
    /// Facts about a server are stored under this string and apply only to that server.
    package static func normalized(_ url: URL) -> String {
        var path = url.path(percentEncoded: true)
        while path.hasSuffix("/") { path.removeLast() }
        let scheme = url.scheme?.lowercased() ?? ""
        let port = port(of: url).map(String.init) ?? ""
        return "\(scheme)://\(url.host()?.lowercased() ?? ""):\(port)\(path)"
    }

    /// Returns whether a host is this machine: 127.0.0.0/8, ::1 or localhost.
    package static func isLoopback(_ host: String) -> Bool {
        var host = host.lowercased()
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        if host == "localhost" || host == "::1" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy(isOctet)
    }

    /// Returns whether the transport should request compressed responses.
    ///
    /// On the same machine, compression would only cost time.
    package static func asksForCompression(_ url: URL) -> Bool {
        !(url.host().map(isLoopback) ?? false)
    }

    /// Returns the origin for messages: scheme, host, and port, without private parts.
    package static func name(of url: URL) -> String {
        let port = url.port.map { ":\($0)" } ?? ""
        let host = url.host() ?? "?"
        let isAddress = host.contains(":") && !host.hasPrefix("[")
        return "\(url.scheme ?? "?")://\(isAddress ? "[\(host)]" : host)\(port)"
    }

    /// Returns whether a string is a number up to 255 without leading zeros, because some parsers
    /// read those as octal.
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
