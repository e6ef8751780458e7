// TestScope: how much of the tests a run covers.

import Foundation

/// How much of the tests a run covers: a part of them by default, all of them with `make test ALL=yes`.
package enum TestScope {
    /// Whether slow tests run, and tests with many seeds run them all.
    package static let coversAll = ProcessInfo.processInfo.environment["TIDELINE_TESTS"] == "all"

    /// The first `count` of these arguments of a test, or all of them.
    package static func first<Arguments: Collection>(
        _ count: Int,
        of arguments: Arguments
    ) -> [Arguments.Element] {
        Array(coversAll ? arguments[...] : arguments.prefix(count))
    }
}
