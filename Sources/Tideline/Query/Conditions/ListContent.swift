// ListContent: the types of arrays in `where:` closures, and the conditions on their elements while they are built.

import TidelineCore

/// A type whose columns hold arrays.
public protocol ListContent {
    /// The type of the elements.
    associatedtype ListElement
}

extension Array: ListContent {
    /// The type of the elements.
    public typealias ListElement = Element
}

extension Set: ListContent {
    /// The type of the elements.
    public typealias ListElement = Element
}

extension Optional: ListContent where Wrapped: ListContent {
    /// The type of the elements.
    public typealias ListElement = Wrapped.ListElement
}

/// The nested conditions on elements that are being built.
enum ListNesting {
    /// The current nesting depth, which gives each nested condition its own number.
    @TaskLocal static var depth = 0

    static func anyElement<List, Element>(
        of list: Column<List>,
        _ condition: (Column<Element>) throws -> Condition
    ) rethrows -> Condition {
        let number = depth
        let element = QueryExpression(.element(number)).read(as: Element.self)
        let inner = try $depth.withValue(number + 1) { try condition(Column<Element>(element)) }
        return list.with(inner) { QueryExpression(.anyElement($0, number, $1)) }
    }
}
