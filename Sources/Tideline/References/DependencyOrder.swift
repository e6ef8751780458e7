// DependencyOrder: sorts rows, tables or operations by what they depend on.

extension Array where Element: Hashable {
    /// Returns the elements and everything that they depend on, each after its dependencies, and otherwise in the order
    /// of the array.
    ///
    /// Among elements that depend on each other in a cycle, the first element comes last.
    func sortedByDependencies(_ dependencies: (Element) -> [Element]) -> [Element] {
        var result: [Element] = []
        var seen: Set<Element> = []
        for element in self {
            // The elements on the path to a dependency, each with its remaining dependencies.
            var path: [(element: Element, left: [Element])] = []
            func enter(_ element: Element) {
                guard seen.insert(element).inserted else { return }
                path.append((element, dependencies(element).reversed()))
            }
            enter(element)
            while let last = path.indices.last {
                if let next = path[last].left.popLast() {
                    enter(next)
                } else {
                    result.append(path.removeLast().element)
                }
            }
        }
        return result
    }
}
