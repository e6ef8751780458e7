// WrapperTests: types that wrap a store's reader or writer implement every requirement, and the checks of stores call
// every requirement.
//
// A missing one would get the protocol's default implementation, which is correct but slow, without an error.

import Foundation
import Testing

struct WrapperTests {
    /// The files with the wrappers, and the protocols whose requirements they forward.
    private static let wrappers: [(file: String, protocols: [String])] = [
        (
            "Sources/Tideline/Sync/Pull/UnmaskedWriter.swift",
            ["LocalStoreReader", "LocalStoreWriter"]
        ),
        (
            "Sources/Tideline/Store/LocalOnly/LocalColumnWriter.swift",
            ["LocalStoreReader", "LocalStoreWriter"]
        ),
    ]

    /// The requirements whose default implementation is meant, with the reasons.
    private static let defaults: [String: String] = [
        "Sources/Tideline/Sync/Pull/UnmaskedWriter.swift set":
            "Its own put(_:in:) keeps the mask of the row."
    ]

    @Test("Each wrapper implements the requirements of its protocols")
    func requirements() throws {
        let files = Dictionary(
            uniqueKeysWithValues: try Repository.files().map {
                ($0.path, $0.lines.joined(separator: "\n"))
            }
        )
        let source = try #require(files["Sources/Tideline/Store/LocalStore.swift"])
        for (file, protocols) in Self.wrappers {
            let wrapper = try #require(files[file])
            for name in protocols {
                let requirements = Self.requirements(of: name, in: source)
                #expect(requirements.count > 5, "\(name) has requirements")
                for requirement in requirements
                where Self.defaults["\(file) \(requirement)"] == nil
                    && !wrapper.contains("func \(requirement)(")
                    && !wrapper.contains("var \(requirement):")
                {
                    Issue.record("\(file) does not implement \(name).\(requirement).")
                }
            }
        }
    }

    @Test("The conformance checks call each requirement of a store")
    func checksAreComplete() throws {
        let files = try Repository.files()
        let path = "Sources/Tideline/Store/LocalStore.swift"
        let source = try #require(files.first { $0.path == path })
        let folder = "Sources/TidelineTestKit/Conformance/LocalStoreConformance"
        let checks = files.filter { $0.path.hasPrefix(folder) }
        #expect(checks.count > 5)
        let text = source.lines.joined(separator: "\n")
        let code = checks.flatMap(\.code).joined(separator: "\n")
        #expect(Self.signatures(in: text).count > 35)
        #expect(Self.unchecked(in: text, by: code).isEmpty)
    }

    @Test(
        "The rule about checks distinguishes requirements by their labels",
        arguments: [
            ("store.close()\nwriter.put(rows, in: name)\nwriter.put(page: page, in: name)", []),
            ("store.closed()\nwriter.put(rows, in: name)", ["close()", "put(page:in:)"]),
            ("store.close()", ["put(_:in:)", "put(page:in:)"]),
        ]
    )
    func checkRuleCanFail(code: String, missing: [String]) {
        let source = """
            public protocol LocalStore: Sendable {
                func close() async throws
            }

            public protocol LocalStoreWriter {
                @discardableResult
                func put(_ rows: [Row], in table: String) throws -> Int
                func put(page: RowPage, in table: String) throws
            }

            """
        #expect(Self.unchecked(in: source, by: code) == missing)
    }

    /// Returns the requirements of stores that no check calls, such as `put(page:in:)`.
    private static func unchecked(in source: String, by code: String) -> [String] {
        signatures(in: source).filter { signature in
            !code.ranges(of: "." + signature.name).contains { range in
                let call = code[range.upperBound...].prefix(200)
                guard call.first.map({ !$0.isLetter && $0 != "_" }) ?? true else { return false }
                return signature.labels.allSatisfy { $0 == "_" || call.contains("\($0): ") }
            }
        }
        .map { "\($0.name)(\($0.labels.map { $0 + ":" }.joined()))" }
    }

    /// Returns the names of the requirements of stores, readers and writers, with the labels of their parameters.
    private static func signatures(in source: String) -> [(name: String, labels: [String])] {
        ["LocalStore:", "LocalStoreReader", "LocalStoreWriter"].flatMap { name in
            body(of: name, in: source)
                .matches(of: /(?m)^    (?:func|var) (\w+)(?:<[^>]*>)?(\((?:[^()]|\([^()]*\))*\))?/)
                .map { match in
                    let parameters = match.output.2 ?? ""
                    let labels = parameters.matches(of: /[(,]\s*(\w+)(?: \w+)?:/)
                    return (String(match.output.1), labels.map { String($0.output.1) })
                }
        }
    }

    /// Returns the names of the methods and properties that a protocol requires.
    private static func requirements(of name: String, in source: String) -> Set<String> {
        Set(
            body(of: name, in: source).matches(of: /(?m)^    (?:@\w+ )?(?:func|var) (\w+)/)
                .map { String($0.output.1) }
        )
    }

    /// Returns the text between the braces of a public protocol.
    private static func body(of name: String, in source: String) -> Substring {
        guard let start = source.range(of: "public protocol \(name)"),
            let end = source.range(of: "\n}\n", range: start.upperBound..<source.endIndex)
        else { return "" }
        return source[start.upperBound..<end.lowerBound]
    }
}
