// EvaluationWatch: time limits within a function.
//
// A database checks its deadline between the steps of its virtual machine; a function with much
// text to read is one step, and checks here.

/// A check that ends an evaluation when its time limit is reached.
package final class EvaluationWatch {
    private let probe: (_ bytes: Int) -> Bool
    /// Whether the time limit was reached, so that the result is invalid.
    package private(set) var isOver = false

    /// `probe` returns whether the time limit was reached; it is called before this many bytes are read.
    package init(_ probe: @escaping (_ bytes: Int) -> Bool) {
        self.probe = probe
    }

    package func isOver(beforeReading bytes: Int) -> Bool {
        if !isOver { isOver = probe(bytes) }
        return isOver
    }
}
