// CommitListener: a closure that is called after each commit.

/// A listener for commits.
///
/// It is a class, because a closure stored in a generic type is wrapped again at each use, and stays wrapped. After
/// many commits, a report would need more stack than a thread has.
package final class CommitListener: Sendable {
    package let report: @Sendable ([TableTimestamp]) -> Void

    package init(report: @escaping @Sendable ([TableTimestamp]) -> Void) { self.report = report }
}
