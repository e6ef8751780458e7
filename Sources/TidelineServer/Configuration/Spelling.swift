// Spelling: suggestions for misspelled words.

/// A search for the known word that an unknown one was probably meant to be.
enum Spelling {
    /// Returns the most similar word, if it is similar enough.
    static func nearest(to word: String, among known: [String]) -> String? {
        let word = Array(word.lowercased().unicodeScalars.prefix(wordMax))
        let nearest = known.map { ($0, distance(word, Array($0.lowercased().unicodeScalars))) }
            .min { $0.1 < $1.1 }
        guard let nearest, nearest.1 <= max(1, word.count / 3) else { return nil }
        return nearest.0
    }

    /// The maximum length of a word, because the cost grows with the square of the length.
    private static let wordMax = 64

    /// Returns the number of letters to insert, remove, change or swap with a neighbor.
    private static func distance(_ one: [Unicode.Scalar], _ other: [Unicode.Scalar]) -> Int {
        var rows = [Array(0...other.count)]
        for place in one.indices {
            var row = [place + 1]
            for index in other.indices {
                let isSame = one[place] == other[index]
                var cost = min(rows[place][index + 1] + 1, row[index] + 1)
                cost = min(cost, rows[place][index] + (isSame ? 0 : 1))
                if place > 0, index > 0, one[place] == other[index - 1],
                    one[place - 1] == other[index]
                {
                    cost = min(cost, rows[place - 1][index - 1] + 1)
                }
                row.append(cost)
            }
            rows.append(row)
        }
        return rows[one.count][other.count]
    }
}
