// SlowTrait: the trait of tests that `make test` skips and `make test ALL=yes` runs.

package import Testing
import TidelineTestKit

extension Trait where Self == ConditionTrait {
    /// A test that takes seconds, or starts many processes, and whose code faster tests mostly cover.
    package static var slow: Self {
        .enabled(if: TestScope.coversAll, "A slow test: 'make test ALL=yes' runs it.")
    }
}
