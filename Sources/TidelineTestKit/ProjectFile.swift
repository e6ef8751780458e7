// ProjectFile: reads files of this project in tests, for example documents.

import Foundation

/// A reader of this project's files for tests, for example of documents.
package enum ProjectFile {
    private static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// Returns the contents of a file, given by its path relative to the project's root.
    package static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appending(path: path), encoding: .utf8)
    }
}
