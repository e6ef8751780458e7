// ConfigurationReading: reads the configuration file as a whole, and its keys with structured values.

import Foundation
import TidelineServerCore
import TidelineServerPostgres

extension ServerConfiguration {
    /// Relative file names are resolved against `directory`; nil means the working directory of the process.
    mutating func read(_ root: ConfigurationNode, directory: String?) {
        read(root, ConfigurationKey.all, directory: directory)
        checkAccess(root.problems)
    }

    mutating func readPublicURL(_ node: ConfigurationNode) {
        guard let text = node.string() else { return }
        guard let url = URL(string: text), url.scheme == "http" || url.scheme == "https",
            url.host != nil, url.query == nil, url.fragment == nil, !text.contains(";")
        else {
            return node.wrong("an http or https URL without query")
        }
        publicURL = text.hasSuffix("/") ? String(text.dropLast()) : text
    }

    /// The address of the database without a password; for a file, `sqlite:` and the absolute path.
    package var databaseLocation: String {
        switch database {
        case .sqlite(let path): "sqlite:\(Self.absolute(path))"
        case .memory: databaseName
        case .postgres(let url): PostgresTableStore.place(ofAddress: url)
        }
    }

    /// Returns an absolute path without `.` and `..`; symbolic links are not followed.
    static func absolute(_ path: String) -> String {
        URL(filePath: path).absoluteURL.standardizedFileURL.path
    }

    /// The database for messages, without the URL, which may contain a password.
    var databaseName: String {
        switch database {
        case .sqlite(let path): "sqlite:\(path)"
        case .memory: "sqlite::memory:"
        case .postgres: "postgres"
        }
    }
}

extension ConfigurationNode {
    /// Calls `body` with the value, which has to be a string, and reports its errors.
    func apply(_ body: (String) throws(ConfigurationError) -> Void) {
        guard let text = string() else { return }
        do {
            try body(text)
        } catch {
            for fault in error.faults { problems.add(path, fault) }
        }
    }
}
