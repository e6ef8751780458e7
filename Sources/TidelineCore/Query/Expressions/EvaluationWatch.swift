// EvaluationWatch: enforces a query's time limit inside a function.
//
// A database checks its deadline between the steps of its virtual machine. A function that reads a
// lot of text is a single step, so it checks the deadline here.

/// A check that stops an evaluation when the time limit is reached.
package final class EvaluationWatch {
    private let probe: (_ bytes: Int) -> Bool
    /// Whether the time limit was reached, which makes the result invalid.
    package private(set) var isOver = false

    /// `probe` returns whether the time limit was reached; it is called before the given number of
    /// bytes is read.
    package init(_ probe: @escaping (_ bytes: Int) -> Bool) {
        self.probe = probe
    }

    package func isOver(beforeReading bytes: Int) -> Bool {
        if !isOver { isOver = probe(bytes) }
        return isOver
    }
}
