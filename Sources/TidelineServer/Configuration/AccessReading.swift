// AccessReading: `authentication` and `cors` of a configuration file, and what tables make of them.

import Foundation
import TidelineServerCore

extension ServerConfiguration {
    mutating func readAuthentication(_ node: ConfigurationNode, directory: String?) {
        var read = Authentication()
        let count = node.problems.lines.count
        let allowed = [
            "secretFile", "keyFile", "jwksFile", "algorithms", "issuer", "audience",
            "leewaySeconds", "operators",
        ]
        for (name, node) in node.object(allowed: allowed) {
            switch name {
            case "secretFile": read.secretFile = Self.path(node, directory)
            case "keyFile": read.keyFile = Self.path(node, directory)
            case "jwksFile": read.jwksFile = Self.path(node, directory)
            case "algorithms": read.algorithms = Self.algorithms(node)
            case "issuer": read.issuer = Self.name(node)
            case "audience": read.audience = Self.name(node)
            case "operators": read.operators = Self.users(node)
            default: read.leewaySeconds = node.integer(0...600) ?? read.leewaySeconds
            }
        }
        authentication = read
        guard node.problems.lines.count == count else { return }
        do throws(ConfigurationError) {
            _ = try read.makeVerifier()
        } catch {
            for fault in error.faults { node.problems.add("", fault) }
        }
    }

    /// A file name; relative ones begin at the directory of the configuration file.
    static func path(_ node: ConfigurationNode, _ directory: String?) -> String? {
        guard let text = name(node) else { return nil }
        guard let directory, !text.hasPrefix("/") else { return text }
        return directory + "/" + text
    }

    private static func name(_ node: ConfigurationNode) -> String? {
        guard let text = node.string() else { return nil }
        guard text.isEmpty else { return text }
        node.wrong("a string that is not empty")
        return nil
    }

    private static func algorithms(_ node: ConfigurationNode) -> [Authentication.Algorithm]? {
        guard let elements = node.array() else { return nil }
        if elements.isEmpty { node.wrong("one algorithm at least") }
        return elements.compactMap { $0.choice(Authentication.Algorithm.self) }
    }

    private static func users(_ node: ConfigurationNode) -> [String]? {
        guard let elements = node.array() else { return nil }
        if elements.isEmpty { node.wrong("one user at least") }
        return elements.compactMap { name($0) }
    }

    mutating func readCrossOrigin(_ node: ConfigurationNode) {
        for (_, node) in node.object(allowed: ["origins"]) {
            for element in node.array() ?? [] {
                guard let text = element.string() else { continue }
                if OriginPattern(text) == nil { element.wrong(Self.originExpected) }
                cors.origins.append(text)
            }
        }
    }

    mutating func readProxies(_ node: ConfigurationNode) {
        for (name, node) in node.object(allowed: ["trusted", "header"]) {
            guard name == "trusted" else {
                Self.put(node.choice(Proxies.Header.self), &proxies.header)
                continue
            }
            for element in node.array() ?? [] {
                guard let text = element.string() else { continue }
                if IPNetwork(text) == nil { element.wrong(Self.networkExpected) }
                proxies.trusted.append(text)
            }
        }
    }

    private static let networkExpected =
        "an IP address such as '127.0.0.1', or a network such as '10.0.0.0/8' with zeros behind its "
        + "bits"

    /// Whose word is taken for where a request comes from.
    func makeProxies() throws(ConfigurationError) -> TrustedProxies {
        var networks: [IPNetwork] = []
        for text in proxies.trusted {
            guard let network = IPNetwork(text) else {
                throw ConfigurationError(["proxies.trusted: \(Self.networkExpected) is expected"])
            }
            networks.append(network)
        }
        let header = TrustedProxies.Header(rawValue: proxies.header.rawValue) ?? .xForwardedFor
        return TrustedProxies(networks, header: header)
    }

    static let originExpected =
        "an origin such as 'https://app.example', with '*.' before the host for all names below "
        + "it and '*' for any port, or '*' for all origins"

    /// Names what tables want of callers that the server could not know.
    func checkAccess(_ problems: ConfigurationProblems) {
        for table in tables {
            let faults = table.accessFaults(hasAuthentication: authentication != nil)
            for (key, fault) in faults { problems.add("tables.\(table.name).\(key)", fault) }
        }
    }

    /// What answers web pages; nil when none may call.
    func makeCrossOrigin() throws(ConfigurationError) -> CrossOrigin? {
        guard !cors.origins.isEmpty else { return nil }
        var patterns: [OriginPattern] = []
        for text in cors.origins {
            guard let pattern = OriginPattern(text) else {
                throw ConfigurationError(["cors.origins: \(Self.originExpected) is expected"])
            }
            patterns.append(pattern)
        }
        return CrossOrigin(patterns)
    }
}
