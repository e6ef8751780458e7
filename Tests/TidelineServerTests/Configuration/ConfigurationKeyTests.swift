// Every key of the configuration file: it is read, the dashboard shows the value in force, and it is documented.

import Foundation
import ServerTestSupport
import Testing
import TidelineHTTP
import TidelineServer
import TidelineServerCore
import TidelineTestKit

@Suite struct ConfigurationKeyTests {
    /// A value other than the default for each key, and how the dashboard shows it if that text differs.
    private static let values: [(key: String, json: String, shown: String)] = [
        ("listen", #""[::1]:9""#, "[::1]:9"),
        ("database", #""sqlite:a.db""#, "/a.db"),
        ("replica", #""postgres://u:secret@h/d""#, "postgres"),
        ("publicURL", #""https://a.example/""#, "https://a.example"),
        ("dynamicSchema", "true", "true"), ("loops", "3", "3"), ("readers", "7", "7"),
        ("log.level", #""error""#, "error"), ("log.format", #""json""#, "json"),
        ("log.requests", #""info""#, "info"), ("log.slow", "2.5", "2.5"),
        ("cors.origins", #"["https://a.example"]"#, "https://a.example"),
        ("proxies.trusted", #"["10.0.0.0/8","::1"]"#, "10.0.0.0/8, ::1"),
        ("proxies.header", #""Forwarded""#, "Forwarded"),
        ("dashboard.mode", #""readOnly""#, "readOnly"), ("dashboard.devices", "5", "5"),
        ("dashboard.slowRequests", "6", "6"), ("dashboard.slowTime", "0.000125", "0.000125"),
        ("metrics.keyFile", #""key""#, "a file"),
        ("authentication.secretFile", #""key""#, "a file"),
        ("authentication.algorithms", #"["HS256"]"#, "HS256"),
        ("authentication.issuer", #""an issuer""#, "an issuer"),
        ("authentication.audience", #""us""#, "us"),
        (
            "authentication.jwksURL", #""https://id.example/keys""#, "https://id.example/keys"
        ),
        ("authentication.user", #""email""#, "email"),
        ("authentication.leewaySeconds", "61", "61"),
        ("authentication.operators", #"["olga","otto"]"#, "olga, otto"),
    ]

    /// Keys that need files of another kind; separate tests read them.
    private static let others = [
        "tls.certificateFile", "tls.keyFile", "authentication.keyFile", "authentication.jwksFile",
    ]

    private static func settings(_ configuration: ServerConfiguration) -> [String: String] {
        let pairs = configuration.settingsInForce.map { ($0.key, $0.value) }
        return Dictionary(uniqueKeysWithValues: pairs)
    }

    private static func configuration(_ key: String, _ json: String) throws -> ServerConfiguration {
        let parts = key.split(separator: ".")
        let inner = #"{"\#(parts.last ?? "")":\#(json)}"#
        let folder = FileManager.default.temporaryDirectory.appending(path: "tideline-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let secret = Data(String(repeating: "0123456789abcdef", count: 2).utf8)
        try secret.write(to: folder.appending(path: "key"))
        var text = parts.count > 1 ? #"{"\#(parts[0])":\#(inner)}"# : inner
        if parts[0] == "authentication", parts.last != "secretFile" {
            text = text.replacing(
                "{\"authentication\":{",
                with: "{\"authentication\":{\"secretFile\":\"key\","
            )
        }
        return try ServerConfiguration(json: Array(text.utf8), directory: folder.path)
    }

    @Test("Every configuration key is read, and its value in force is shown")
    func everyKeyIsReadAndShown() throws {
        let defaults = Self.settings(ServerConfiguration())
        var tried = Set(Self.others)
        for (key, json, shown) in Self.values {
            #expect(defaults[key] != shown, "\(key)")
            let value = Self.settings(try Self.configuration(key, json))[key]
            // A path is relative to the folder of the file.
            let isPath = key == "database"
            #expect(isPath ? value?.hasSuffix(shown) == true : value == shown, "\(key)")
            tried.insert(key)
        }
        for (key, value) in defaults where !tried.contains(key) {
            try #require(key.hasPrefix("limits."), "No test tries \(key)")
            let number = try #require(Double(value), "\(key)")
            // The default plus one is within the bounds of every key except those whose default is the maximum.
            let other = value == "0" ? "1" : "\(Int(number) + 1)"
            #expect(Self.settings(try Self.configuration(key, other))[key] == other, "\(key)")
        }
    }

    /// The rows of the tables below a heading of the configuration reference.
    private static func rows(below heading: String) throws -> [Substring] {
        let text = try ProjectFile.text("docs/operations/configuration.md")
        let start = try #require(text.range(of: "\n## \(heading)\n"))
        return text[start.upperBound...].split(separator: "\n")
            .prefix { !$0.hasPrefix("## ") }.filter { $0.hasPrefix("| `") }
    }

    @Test("Every key of a table and of a column is documented")
    func keysOfTablesAreDocumented() throws {
        let rows = try Self.rows(below: "Tables")
        let keys =
            TableReading.Key.allCases.map(\.rawValue) + ColumnReading.Key.allCases.map(\.rawValue)
            + TableReading.ReferenceKey.allCases.map(\.rawValue)
        for key in keys {
            let isDocumented = rows.contains { row in
                row.split(separator: "|")[0].contains("`\(key)`")
            }
            #expect(isDocumented, "\(key)")
        }
        let permissions = try #require(rows.first { $0.hasPrefix("| `permissions` |") })
        let words =
            TableReading.PermissionKey.allCases.map(\.rawValue)
            + TablePermissions.Access.allCases.map(\.rawValue)
        for word in words { #expect(permissions.contains("`\(word)`"), "\(word)") }
        let rules = try #require(rows.first { $0.hasPrefix("| `onDelete` |") })
        for rule in DeleteRule.allCases { #expect(rules.contains("`\(rule.rawValue)`")) }
    }

    @Test("Every limit of the server has a key")
    func everyLimitHasAKey() {
        let keys = Set(ServerConfiguration().settingsInForce.map(\.key))
        for limits in [ServerLimits() as Any, HTTPLimits()] {
            for case let name? in Mirror(reflecting: limits).children.map(\.label) {
                let names = ["", "Max", "Min", "Time"].filter { name.hasSuffix($0) }
                    .map { "limits.\(name.dropLast($0.count))" }
                #expect(!keys.isDisjoint(with: names), "\(name)")
            }
        }
    }

    @Test("Every configuration key is documented, and every documented limit exists")
    func everyKeyIsDocumented() throws {
        let keys = ServerConfiguration().settingsInForce.map(\.key)
        let names = try Self.rows(below: "Keys")
        for key in keys where !key.hasPrefix("limits.") {
            #expect(names.contains { $0.contains("`\(key)`") }, "\(key)")
        }
        // Each entry in the table of limits is a key, too.
        let rows = try Self.rows(below: "Limits")
        #expect(rows.count > 30)
        for row in rows {
            let names = row.split(separator: "|")[0].split(separator: "`")
                .filter { $0.allSatisfy(\.isLetter) }
            #expect(!names.isEmpty)
            for name in names { #expect(keys.contains("limits.\(name)"), "\(name)") }
        }
        let limits = keys.filter { $0.hasPrefix("limits.") }.map { $0.dropFirst(7) }
        for limit in limits {
            #expect(rows.contains { $0.contains("`\(limit)`") }, "limits.\(limit)")
        }
    }

    @Test(
        "A metrics key that cannot be sent is rejected without showing it",
        arguments: [
            ("short", "16 to 4096 characters"), ("with a blank in the key", "without spaces"),
            (String(repeating: "x", count: 5000), "16 to 4096"),
        ]
    )
    func aKeyThatCannotBeSentIsRejected(text: String, fault: String) throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "tideline-\(UUID())")
        try Data(text.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let json = #"{"metrics":{"keyFile":"\#(file.path)"}}"#
        let error = #expect(throws: ConfigurationError.self) {
            try ServerConfiguration(json: Array(json.utf8))
        }
        #expect(error?.description.contains("metrics.keyFile: '\(file.path)'") == true)
        #expect(error?.description.contains(fault) == true)
        #expect(error?.description.contains(text) == false)
    }
}
