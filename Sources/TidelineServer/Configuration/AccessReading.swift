// AccessReading: reads `authentication`, `cors` and `proxies` of a configuration file, and checks which of them the
// tables need.

import Foundation
import TidelineServerCore

extension ConfigurationKey {
    static let authentication: [ConfigurationKey] = [
        file("secretFile", \.secretFile), file("keyFile", \.keyFile), file("jwksFile", \.jwksFile),
        ConfigurationKey("jwksURL") { node, configuration, _ in
            configuration.authentication?.jwksURL = ServerConfiguration.name(node)
        } show: {
            $0.authentication?.jwksURL
        },
        ConfigurationKey("algorithms") { node, configuration, _ in
            configuration.authentication?.algorithms = ServerConfiguration.algorithms(node)
        } show: {
            $0.authentication?.algorithms?.map(\.rawValue).joined(separator: ", ")
        },
        ConfigurationKey("issuer") { node, configuration, _ in
            configuration.authentication?.issuer = ServerConfiguration.name(node)
        } show: {
            $0.authentication?.issuer
        },
        ConfigurationKey("audience") { node, configuration, _ in
            configuration.authentication?.audience = ServerConfiguration.name(node)
        } show: {
            $0.authentication?.audience
        },
        ConfigurationKey("user") { node, configuration, _ in
            if let name = ServerConfiguration.name(node) {
                configuration.authentication?.user = name
            }
        } show: {
            $0.authentication?.user
        },
        ConfigurationKey("leewaySeconds") { node, configuration, _ in
            if let seconds = node.integer(0...600) {
                configuration.authentication?.leewaySeconds = seconds
            }
        } show: {
            $0.authentication.map { "\($0.leewaySeconds)" }
        },
        ConfigurationKey("operators") { node, configuration, _ in
            configuration.authentication?.operators = ServerConfiguration.users(node)
        } show: {
            $0.authentication?.operators?.joined(separator: ", ")
        },
    ]

    private typealias Authentication = ServerConfiguration.Authentication

    /// Reads the name of a file with keys.
    private static func file(
        _ name: String,
        _ path: any WritableKeyPath<Authentication, String?> & Sendable
    ) -> ConfigurationKey {
        ConfigurationKey(name) { node, configuration, directory in
            configuration.authentication?[keyPath: path] =
                ServerConfiguration.path(node, directory)
        } show: {
            $0.authentication?[keyPath: path].map { _ in ConfigurationKey.someFile }
        }
    }

    static let cors = [
        ConfigurationKey("origins") { node, configuration, _ in
            configuration.readOrigins(node)
        } show: {
            $0.cors.origins.isEmpty ? nil : $0.cors.origins.joined(separator: ", ")
        }
    ]

    static let proxies: [ConfigurationKey] = [
        ConfigurationKey("trusted") { node, configuration, _ in
            configuration.readTrusted(node)
        } show: {
            $0.proxies.trusted.isEmpty ? nil : $0.proxies.trusted.joined(separator: ", ")
        },
        .choice("header", \.proxies.header),
    ]
}

extension ServerConfiguration {
    mutating func readAuthentication(_ node: ConfigurationNode, directory: String?) {
        let count = node.problems.lines.count
        authentication = Authentication()
        read(node, ConfigurationKey.authentication, directory: directory)
        guard node.problems.lines.count == count else { return }
        do throws(ConfigurationError) {
            _ = try authentication?.makeVerifier()
        } catch {
            for fault in error.faults { node.problems.add("", fault) }
        }
    }

    /// Reads a file name; relative names are resolved against the directory of the configuration file.
    static func path(_ node: ConfigurationNode, _ directory: String?) -> String? {
        name(node).map { path($0, in: directory) }
    }

    static func path(_ name: String, in directory: String?) -> String {
        guard let directory, !name.hasPrefix("/") else { return name }
        return directory + "/" + name
    }

    fileprivate static func name(_ node: ConfigurationNode) -> String? {
        guard let text = node.string() else { return nil }
        guard text.isEmpty else { return text }
        node.wrong("a non-empty string")
        return nil
    }

    fileprivate static func algorithms(_ node: ConfigurationNode) -> [Authentication.Algorithm]? {
        guard let elements = node.array() else { return nil }
        if elements.isEmpty { node.wrong("at least one algorithm") }
        return elements.compactMap { $0.choice(Authentication.Algorithm.self) }
    }

    fileprivate static func users(_ node: ConfigurationNode) -> [String]? {
        guard let elements = node.array() else { return nil }
        if elements.isEmpty { node.wrong("at least one user") }
        return elements.compactMap { name($0) }
    }

    fileprivate mutating func readOrigins(_ node: ConfigurationNode) {
        for element in node.array() ?? [] {
            guard let text = element.string() else { continue }
            if OriginPattern(text) == nil { element.wrong(Self.originExpected) }
            cors.origins.append(text)
        }
    }

    fileprivate mutating func readTrusted(_ node: ConfigurationNode) {
        for element in node.array() ?? [] {
            guard let text = element.string() else { continue }
            if IPNetwork(text) == nil { element.wrong(Self.networkExpected) }
            proxies.trusted.append(text)
        }
    }

    private static let networkExpected =
        "an IP address such as '127.0.0.1', or a network such as '10.0.0.0/8' with zeros after its "
        + "prefix"

    /// Returns the proxies that are trusted to report the client's address.
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
        "an origin such as 'https://app.example', with '*.' before the host for all its "
        + "subdomains and '*' for any port, or '*' for all origins"

    /// Reports access rules of tables that the server cannot enforce.
    func checkAccess(_ problems: ConfigurationProblems) {
        for table in tables {
            let faults = table.accessFaults(hasAuthentication: authentication != nil)
            for (key, fault) in faults { problems.add("tables.\(table.name).\(key)", fault) }
        }
    }

    /// Returns the rules for web pages; nil if no page may call the server.
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
