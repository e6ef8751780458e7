// GenerationCache: what was used of late, by its key, in bounded memory.
//
// There are two generations: what is used is in the younger one, and when that is full the older one
// is dropped. So what is used again and again stays, however much else is used once.

package struct GenerationCache<Key: Hashable, Value> {
    /// The most values of a generation.
    private let countMax: Int
    private var young: [Key: Value] = [:]
    private var old: [Key: Value] = [:]

    package init(countMax: Int) {
        self.countMax = countMax
    }

    /// How many values are kept.
    package var count: Int { young.count + old.count }

    /// The value, which is used by this.
    package mutating func value(_ key: Key) -> Value? {
        if let value = young[key] { return value }
        guard let value = old.removeValue(forKey: key) else { return nil }
        put(value, for: key)
        return value
    }

    /// Keeps a value.
    package mutating func put(_ value: Value, for key: Key) {
        old[key] = nil
        if young.count >= countMax, young[key] == nil {
            old = young
            young = [:]
        }
        young[key] = value
    }

    /// Forgets a value.
    package mutating func remove(_ key: Key) {
        young[key] = nil
        old[key] = nil
    }

    /// Forgets all.
    package mutating func removeAll() {
        young = [:]
        old = [:]
    }
}
