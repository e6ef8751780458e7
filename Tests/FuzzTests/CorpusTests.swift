// CorpusTests: the inputs that fuzzing keeps, and those that once caused a failure.

import Foundation
import FuzzTargets
import Testing

@Suite struct CorpusTests {
    private static let folder = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Fuzz/corpus")

    @Test(
        "A fuzz target accepts every input of its corpus without an error",
        arguments: FuzzTarget.allCases
    )
    func replays(_ target: FuzzTarget) throws {
        let runner = try FuzzRunner(target)
        let files = try FileManager.default.contentsOfDirectory(
            at: Self.folder.appending(path: target.rawValue),
            includingPropertiesForKeys: nil
        )
        #expect(files.count > 10, "the corpus of \(target.rawValue) exists")
        for file in files {
            let bytes = Array(try Data(contentsOf: file))
            #expect(throws: Never.self, "\(target.rawValue)/\(file.lastPathComponent)") {
                try bytes.withUnsafeBufferPointer(runner.run)
            }
        }
    }
}
