// TestScope: the tests that a run includes.

import Foundation

/// The tests that a run includes: a selection by default, all with `make test ALL=yes`.
package enum TestScope {
    /// Whether slow tests run, and tests with many seeds use all of them.
    package static let coversAll = ProcessInfo.processInfo.environment["TIDELINE_TESTS"] == "all"

    /// Returns the first `count` arguments of a test, or all of them if the run includes all tests.
    package static func first<Arguments: Collection>(
        _ count: Int,
        of arguments: Arguments
    ) -> [Arguments.Element] {
        Array(coversAll ? arguments[...] : arguments.prefix(count))
    }
}
