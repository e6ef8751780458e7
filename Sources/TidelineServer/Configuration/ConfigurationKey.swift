// ConfigurationKey: every key is declared once, so that no key is read and not shown.
//
// The lists of keys are in ConfigurationKeys.

import Foundation
import TidelineServerCore

/// A key of the configuration file outside `tables`, with the code that reads and shows its value.
struct ConfigurationKey: Sendable {
    /// Reads a value.
    ///
    /// Relative file names are resolved against `directory`; nil means the working directory of the process.
    typealias Read =
        @Sendable (
            _ node: ConfigurationNode, _ into: inout ServerConfiguration, _ directory: String?
        )
        -> Void
    /// Returns the value to show, which is never a secret; nil if none is set.
    typealias Show = @Sendable (ServerConfiguration) -> String?

    /// The name of the key in its object.
    let name: String
    let read: Read
    fileprivate let show: Show?
    /// The keys of an object.
    let members: [ConfigurationKey]

    init(_ name: String, read: @escaping Read, show: @escaping Show) {
        self.name = name
        self.read = read
        self.show = show
        members = []
    }

    /// Creates an object; if `read` is given, it reads the object as a whole.
    init(_ name: String, members: [ConfigurationKey], read: Read? = nil) {
        self.name = name
        self.members = members
        show = nil
        self.read =
            read ?? { node, configuration, directory in
                configuration.read(node, members, directory: directory)
            }
    }

    /// The text to show instead of the name of a file with keys.
    static let someFile = "a file"

    // MARK: - Kinds of values

    typealias Path<Value> = any WritableKeyPath<ServerConfiguration, Value> & Sendable

    static func whole(_ name: String, _ range: ClosedRange<Int>, _ path: Path<Int>) -> Self {
        Self(name) { node, configuration, _ in
            if let value = node.integer(range) { configuration[keyPath: path] = value }
        } show: {
            "\($0[keyPath: path])"
        }
    }

    static func seconds(_ name: String, mayBeZero: Bool = false, _ path: Path<Duration>) -> Self {
        Self(name) { node, configuration, _ in
            if let value = node.seconds(mayBeZero: mayBeZero) {
                configuration[keyPath: path] = value
            }
        } show: {
            Self.seconds($0[keyPath: path])
        }
    }

    static func choice<Choice>(_ name: String, _ path: Path<Choice>) -> Self
    where Choice: RawRepresentable<String> & CaseIterable & Sendable {
        Self(name) { node, configuration, _ in
            if let value = node.choice(Choice.self) { configuration[keyPath: path] = value }
        } show: {
            $0[keyPath: path].rawValue
        }
    }

    static func flag(_ name: String, _ path: Path<Bool>) -> Self {
        Self(name) { node, configuration, _ in
            if let value = node.bool() { configuration[keyPath: path] = value }
        } show: {
            "\($0[keyPath: path])"
        }
    }

    /// Formats seconds as in the file: a number without a unit and without trailing zeros.
    private static func seconds(_ time: Duration) -> String {
        let (seconds, attoseconds) = time.components
        let microseconds = attoseconds / 1_000_000_000_000
        guard microseconds > 0 else { return "\(seconds)" }
        var digits = String(1_000_000 + microseconds).dropFirst()
        while digits.hasSuffix("0") { digits.removeLast() }
        return "\(seconds).\(digits)"
    }
}

extension ServerConfiguration {
    /// Reads the members of an object.
    mutating func read(_ node: ConfigurationNode, _ keys: [ConfigurationKey], directory: String?) {
        for (name, value) in node.object(allowed: keys.map(\.name)) {
            keys.first { $0.name == name }?.read(value, &self, directory)
        }
    }

    /// All keys outside `tables` with their values, as in a configuration file.
    package var settingsInForce: [DashboardSetting] { settings(ConfigurationKey.all, "") }

    private func settings(_ keys: [ConfigurationKey], _ prefix: String) -> [DashboardSetting] {
        keys.flatMap { key in
            let name = prefix + key.name
            guard let show = key.show else { return settings(key.members, name + ".") }
            return [DashboardSetting(name, show(self) ?? "–")]
        }
    }
}
