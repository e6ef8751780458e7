// ItemID: the rules for row ids.
//
// The rules are those of the original clients. In addition, ids must be in NFC, so that two ids
// that look the same have the same bytes.

import Foundation

/// The rules for row ids, which client and server share.
package enum ItemID {
    /// The maximum number of Unicode scalars in an id, which is the width of the original servers'
    /// key column.
    package static let scalarsMax = 255

    /// Returns why `id` is not valid, as the end of a sentence; nil if it is valid.
    package static func fault(in id: String) -> String? {
        if id.isEmpty { return "it is empty" }
        var count = 0
        var isASCII = true
        var isBlank = true
        for scalar in id.unicodeScalars {
            count += 1
            if isForbidden(scalar) {
                return "it contains the character U+\(hexadecimal(scalar))"
            }
            if scalar.value > 0x7F { isASCII = false }
            // Looks up Unicode properties only while the answer is still open.
            if isBlank, scalar != " ", !scalar.properties.isWhitespace { isBlank = false }
        }
        if count > scalarsMax { return "it is longer than \(scalarsMax) characters" }
        if isBlank { return "it is only white space" }
        if id == "." || id == ".." { return "it is a relative path" }
        if !isASCII, !isComposed(id) { return "it is not in Unicode normalization form C" }
        return nil
    }

    private static func isForbidden(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}", "\"", "+", "?", "\\", "/", "`": true
        default: false
        }
    }

    private static func isComposed(_ id: String) -> Bool {
        id.precomposedStringWithCanonicalMapping.utf8.elementsEqual(id.utf8)
    }

    private static func hexadecimal(_ scalar: Unicode.Scalar) -> String {
        let digits = String(scalar.value, radix: 16, uppercase: true)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }
}
