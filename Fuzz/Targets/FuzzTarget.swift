// FuzzTarget, FuzzRunner: what is fuzzed, and one input of it.
//
// An input is fine when it is refused in the way that callers expect, or when what was read
// keeps the promises that its target checks. Anything else is thrown, or crashes. The fuzzer
// makes inputs without end; a test replays those that are kept in `Fuzz/corpus`.

/// What reads bytes of callers.
package enum FuzzTarget: String, CaseIterable, Sendable {
    /// Filters, orders and selections, and what they mean in memory and in SQL.
    case odata
    /// Bodies of requests, and JSON as such.
    case json
    /// What the server reads of a request's head.
    case head
    /// Tokens, and the keys that an operator gives.
    case token
    /// The `$skiptoken` of next links, to the statement of the page behind it.
    case pagetoken
    /// The `$deltatoken` of delta links, to the changes behind it.
    case delta
    /// Bodies of batches.
    case batch
}

/// A promise that an input broke.
package struct FuzzFailure: Error, CustomStringConvertible {
    package var description: String
}

/// Throws unless the condition holds.
func demand(_ condition: Bool, _ promise: @autoclosure () -> String) throws {
    guard condition else { throw FuzzFailure(description: promise()) }
}

/// Runs inputs of one target; used by one thread.
package final class FuzzRunner {
    private let body: (UnsafeBufferPointer<UInt8>) throws -> Void

    /// Prepares the target.
    package init(_ target: FuzzTarget) throws {
        switch target {
        case .odata: body = try ODataCheck().run
        case .json: body = JSONCheck().run
        case .head: body = HeadCheck().run
        case .token: body = try TokenCheck().run
        case .pagetoken: body = try PageTokenCheck().run
        case .delta: body = try DeltaCheck().run
        case .batch: body = BatchCheck().run
        }
    }

    /// Runs one input, whose first byte chooses among the target's readers.
    package func run(_ input: UnsafeBufferPointer<UInt8>) throws {
        if !input.isEmpty { try body(input) }
    }
}
