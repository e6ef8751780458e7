// FuzzTarget, FuzzRunner: the fuzz targets, and the function that runs one input.
//
// An input passes if it is rejected with the expected error, or if the parsed value meets the conditions that its
// target checks. Otherwise the target throws or crashes. The fuzzer generates inputs until it is stopped; a test
// replays those in `Fuzz/corpus`.

/// A fuzz target: code that parses input from callers.
package enum FuzzTarget: String, CaseIterable, Sendable {
    /// Filters, orders and selections; their results in memory and in SQL are compared.
    case odata
    /// Request bodies, and JSON in general.
    case json
    /// Request heads.
    case head
    /// Tokens, and the keys that an operator configures.
    case token
    /// The `$skiptoken` of next links, up to the SQL statement of the next page.
    case pagetoken
    /// The `$deltatoken` of delta links, up to the returned changes.
    case delta
    /// Batch bodies.
    case batch
}

/// A condition that an input violated.
package struct FuzzFailure: Error, CustomStringConvertible {
    package var description: String
}

/// Throws an error if the condition is false.
func demand(_ condition: Bool, _ promise: @autoclosure () -> String) throws {
    guard condition else { throw FuzzFailure(description: promise()) }
}

/// Runs inputs of one target, on one thread.
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

    /// Runs one input; its first byte selects one of the target's parsers.
    package func run(_ input: UnsafeBufferPointer<UInt8>) throws {
        if !input.isEmpty { try body(input) }
    }
}
