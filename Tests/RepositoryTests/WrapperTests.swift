// WrapperTests: types that wrap a store's reader or writer implement every requirement.
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

    /// Returns the names of the methods and properties that a protocol requires.
    private static func requirements(of name: String, in source: String) -> Set<String> {
        guard let start = source.range(of: "public protocol \(name)"),
            let end = source.range(of: "\n}\n", range: start.upperBound..<source.endIndex)
        else { return [] }
        let body = source[start.upperBound..<end.lowerBound]
        return Set(
            body.matches(of: /(?m)^    (?:@\w+ )?(?:func|var) (\w+)/).map { String($0.output.1) }
        )
    }
}
