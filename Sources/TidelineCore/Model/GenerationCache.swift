// GenerationCache: a cache that drops values that are not used repeatedly.
//
// There are two generations: a value that is used moves to the younger one, and when that is full the older one is
// dropped. So values that are used repeatedly stay, however many others are used only once.

/// A cache of recently used values by key, in bounded memory.
package struct GenerationCache<Key: Hashable, Value> {
    /// The maximum number of values of a generation.
    private let countMax: Int
    private var young: [Key: Value] = [:]
    private var old: [Key: Value] = [:]

    package init(countMax: Int) {
        self.countMax = countMax
    }

    /// The number of values that are kept.
    package var count: Int { young.count + old.count }

    /// Returns the value, and records that it was used.
    package mutating func value(_ key: Key) -> Value? {
        if let value = young[key] { return value }
        guard let value = old.removeValue(forKey: key) else { return nil }
        put(value, for: key)
        return value
    }

    /// Stores a value.
    package mutating func put(_ value: Value, for key: Key) {
        old[key] = nil
        if young.count >= countMax, young[key] == nil {
            old = young
            young = [:]
        }
        young[key] = value
    }

    /// Removes a value.
    package mutating func remove(_ key: Key) {
        young[key] = nil
        old[key] = nil
    }

    /// Removes all values.
    package mutating func removeAll() {
        young = [:]
        old = [:]
    }
}
