// PEMBlock: finds blocks; text between them is comment.

/// A block of a PEM text (RFC 7468).
struct PEMBlock {
    /// The label, such as `PUBLIC KEY` or `CERTIFICATE`.
    let label: String
    /// The block with its first and last line, for OpenSSL.
    let text: [UInt8]

    private static let begin = Array("-----BEGIN ".utf8)
    private static let end = Array("-----END ".utf8)
    private static let dashes = Array("-----".utf8)

    static func all(in bytes: [UInt8]) -> [PEMBlock] {
        var blocks: [PEMBlock] = []
        var label: String?
        var text: [UInt8] = []
        for line in bytes.split(whereSeparator: { $0 == 0x0A || $0 == 0x0D }) {
            if let name = name(in: line, after: begin) {
                label = name
                text = []
            }
            guard let current = label else { continue }
            text += line
            text.append(0x0A)
            if let name = name(in: line, after: end), name == current {
                blocks.append(PEMBlock(label: current, text: text))
                label = nil
            }
        }
        return blocks
    }

    private static func name(in line: ArraySlice<UInt8>, after prefix: [UInt8]) -> String? {
        let blanks: Set<UInt8> = [0x20, 0x09]
        var line = line
        while let last = line.last, blanks.contains(last) { line.removeLast() }
        guard line.starts(with: prefix), line.count >= prefix.count + dashes.count,
            line.suffix(dashes.count).elementsEqual(dashes)
        else { return nil }
        return String(decoding: line.dropFirst(prefix.count).dropLast(dashes.count), as: UTF8.self)
    }
}
