// EvaluationWatch: ends an evaluation whose time is over.
//
// A database looks at its deadline between the steps of its own machine; a function with much to
// read is one step, and asks here.

package final class EvaluationWatch {
    private let look: (_ bytes: Int) -> Bool
    /// Whether the time is over: the result counts for nothing then.
    package private(set) var isOver = false

    /// `look` says whether the time is over, before so many bytes are read.
    package init(_ look: @escaping (_ bytes: Int) -> Bool) {
        self.look = look
    }

    package func isOver(beforeReading bytes: Int) -> Bool {
        if !isOver { isOver = look(bytes) }
        return isOver
    }
}
