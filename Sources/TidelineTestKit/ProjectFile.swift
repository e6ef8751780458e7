// ProjectFile: reads files of this project for its tests, for example documents.

import Foundation

/// A reader of files of this project, such as documents, for its tests.
package enum ProjectFile {
    private static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// Returns the contents of a file, given by its path from the root of the project.
    package static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appending(path: path), encoding: .utf8)
    }
}
