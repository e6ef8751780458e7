// GenerationCache: a cache that drops values that are not used repeatedly.
//
// There are two generations. Using a value moves it to the younger generation. When the younger
// generation is full, the older one is dropped. Values that are used repeatedly therefore stay,
// regardless of how many other values are used once.

/// A cache of recently used values by key, with bounded memory.
package struct GenerationCache<Key: Hashable, Value> {
    /// The maximum number of values in a generation.
    private let countMax: Int
    private var young: [Key: Value] = [:]
    private var old: [Key: Value] = [:]

    package init(countMax: Int) {
        self.countMax = countMax
    }

    /// The number of cached values.
    package var count: Int { young.count + old.count }

    /// Returns the value and marks it as recently used.
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
