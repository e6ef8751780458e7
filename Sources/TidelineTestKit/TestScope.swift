// TestScope: selects the tests that a run includes.

import Foundation

/// The tests that a run includes: a selection by default, and all tests with `make test ALL=yes`.
package enum TestScope {
    /// Whether to run slow tests, and to run tests with many seeds for all of their seeds.
    package static let coversAll = ProcessInfo.processInfo.environment["TIDELINE_TESTS"] == "all"

    /// Returns the first `count` arguments of a test, or all arguments if the run includes all
    /// tests.
    package static func first<Arguments: Collection>(
        _ count: Int,
        of arguments: Arguments
    ) -> [Arguments.Element] {
        Array(coversAll ? arguments[...] : arguments.prefix(count))
    }
}
