// PredicateLists: nested values and the elements of arrays in Foundation predicates.

import Foundation
import TidelineCore

/// A type of arrays, with the key paths that a predicate may use.
private protocol ListPaths {
    static var countPath: AnyKeyPath { get }
    static var isEmptyPath: AnyKeyPath { get }
}

extension Array: ListPaths {
    fileprivate static var countPath: AnyKeyPath { \[Element].count }
    fileprivate static var isEmptyPath: AnyKeyPath { \[Element].isEmpty }
}

extension Set: ListPaths {
    fileprivate static var countPath: AnyKeyPath { \Set<Element>.count }
    fileprivate static var isEmptyPath: AnyKeyPath { \Set<Element>.isEmpty }
}

extension PredicateWalk {
    /// Returns a property of a nested value or of an array; nil for other types.
    func member(
        _ path: AnyKeyPath,
        of root: Any.Type,
        _ value: Alternatives
    ) throws -> Alternatives? {
        if let list = root as? any ListPaths.Type {
            if path == list.countPath { return value.map { QueryExpression(.elementCount($0)) } }
            if path == list.isEmptyPath {
                let anyElement = { (list: QueryExpression) in
                    QueryExpression(.anyElement(list, lists, .constant(true)))
                }
                return value.map { .not(anyElement($0)) }
            }
            return nil
        }
        guard root != String.self, let type = root as? any Decodable.Type else { return nil }
        let name = try NestedKeys.name(of: path, in: type)
        return value.map { .member(name, of: $0).read(as: Swift.type(of: path).valueType) }
    }

    /// Returns the condition that an element of a list satisfies a condition.
    mutating func anyElement<Element>(
        of list: some PredicateExpression,
        as type: Element.Type,
        _ condition: (inout PredicateWalk, Alternatives) throws -> QueryExpression
    ) throws -> Alternatives {
        let list = try visit(list)
        let number = lists
        lists += 1
        defer { lists -= 1 }
        let element = QueryExpression(.element(number)).read(as: Element.self)
        let inner = try condition(&self, Alternatives(element))
        return list.map { QueryExpression(.anyElement($0, number, inner)) }
    }
}

extension Nodes.SequenceContainsWhere: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        guard LHS.Output.self is any ListContent.Type else {
            throw SyncError.unsupportedQuery(
                "'contains(where:)' on a value that is not an array. Use a property that is an array."
            )
        }
        return try state.anyElement(of: sequence, as: LHS.Output.Element.self) { state, element in
            state.bindings[variable.key] = .value(element)
            return try state.visit(test).condition
        }
    }
}

extension Nodes.SequenceAllSatisfy: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        guard LHS.Output.self is any ListContent.Type else {
            throw SyncError.unsupportedQuery(
                "'allSatisfy' on a value that is not an array. Use a property that is an array."
            )
        }
        let isOther = try state.anyElement(of: sequence, as: LHS.Output.Element.self) {
            state,
            element in
            state.bindings[variable.key] = .value(element)
            return .not(try state.visit(test).condition)
        }
        return isOther.map { .not($0) }
    }
}
