// TokenClaims: the claims of a token (RFC 7519 section 4), read from its payload and written to it.

package import TidelineCore

/// The claims of a token about its bearer.
package struct TokenClaims: Hashable, Sendable {
    /// `sub`: the user.
    package var subject: String
    /// `iss`: the issuer of the token.
    package var issuer: String?
    /// `aud`: the recipients of the token, which may be a single string in JSON.
    package var audience: [String]
    /// `exp`: the time from which the token is rejected.
    package var expiresAt: Timestamp?
    /// `nbf`: the time before which the token is rejected.
    package var notBefore: Timestamp?
    /// `iat`: when the token was issued.
    package var issuedAt: Timestamp?
    /// Every other claim; objects and arrays are `.json`.
    package var other: Row

    package init(
        subject: String,
        issuer: String? = nil,
        audience: [String] = [],
        expiresAt: Timestamp? = nil,
        notBefore: Timestamp? = nil,
        issuedAt: Timestamp? = nil,
        other: Row = Row()
    ) {
        self.subject = subject
        self.issuer = issuer
        self.audience = audience
        self.expiresAt = expiresAt
        self.notBefore = notBefore
        self.issuedAt = issuedAt
        self.other = other
    }

    /// Returns the claim that contains the user; nil if it is missing, empty or not a string.
    func user(_ claim: String) -> String? {
        if claim == "sub" { return subject.isEmpty ? nil : subject }
        guard case .string(let text)? = other[claim], !text.isEmpty else { return nil }
        return text
    }

    /// The claims that have a property here.
    package static let registered = ["sub", "iss", "aud", "exp", "nbf", "iat"]
}

// MARK: - Reading

extension TokenClaims {
    /// Reads the claims; the subject is empty if the payload has none.
    package init(json bytes: [UInt8]) throws(TokenError) {
        self.init(subject: "")
        var names: [String] = []
        var values: [Value] = []
        try StrictJSON.object(bytes, "payload of the token") { reader, name, token in
            switch name {
            case "sub": subject = try Self.text(token, reader, "sub")
            case "iss": issuer = try Self.text(token, reader, "iss")
            case "aud": audience = try Self.audience(token, &reader)
            case "exp": expiresAt = try Self.instant(token, reader, "exp")
            case "nbf": notBefore = try Self.instant(token, reader, "nbf")
            case "iat": issuedAt = try Self.instant(token, reader, "iat")
            default:
                names.append(name)
                values.append(try Self.value(token, &reader))
            }
        }
        other = Row(layout: RowLayout(names), values: values)
    }

    private static func text(
        _ token: JSONReader.Token,
        _ reader: JSONReader,
        _ name: String
    ) throws -> String {
        guard case .string(let span) = token else { throw TokenError.wrongClaim(name, "a text") }
        return reader.text(span)
    }

    private static func audience(
        _ token: JSONReader.Token,
        _ reader: inout JSONReader
    ) throws -> [String] {
        let fault = TokenError.wrongClaim("aud", "a string or an array of strings")
        guard case .array = token else {
            guard case .string(let span) = token else { throw fault }
            return [reader.text(span)]
        }
        try reader.beginArray()
        var texts: [String] = []
        while try reader.nextElement() {
            guard case .string(let span) = try reader.value() else { throw fault }
            texts.append(reader.text(span))
        }
        return texts
    }

    /// Reads seconds since 1970, with or without a fraction, rounded to the microsecond.
    private static func instant(
        _ token: JSONReader.Token,
        _ reader: JSONReader,
        _ name: String
    ) throws -> Timestamp {
        let fault = TokenError.wrongClaim(name, "a time in seconds since 1970")
        guard case .number(let range) = token else { throw fault }
        if let seconds = reader.integer(range) {
            guard abs(Double(seconds)) <= secondsMax else { throw fault }
            return Timestamp(microseconds: seconds * 1_000_000)
        }
        guard let seconds = Double(reader.text(range)), abs(seconds) <= secondsMax else {
            throw fault
        }
        return Timestamp(microseconds: Int64((seconds * 1_000_000).rounded()))
    }

    /// The end of the year 9999, in seconds since 1970.
    ///
    /// Larger numbers are probably milliseconds.
    private static let secondsMax: Double = 253_402_300_799

    private static func value(
        _ token: JSONReader.Token,
        _ reader: inout JSONReader
    ) throws -> Value {
        switch token {
        case .null: return .null
        case .bool(let value): return .bool(value)
        case .string(let span): return .string(reader.text(span))
        case .number(let range):
            if let value = reader.integer(range) { return .integer(value) }
            guard let value = Double(reader.text(range)), value.isFinite else {
                throw reader.failure("the number is too large", at: range.lowerBound)
            }
            return .number(value)
        case .object, .array:
            let start = reader.position
            try reader.skip(token)
            return .json(JSON(checked: JSON.compact(reader.bytes, start..<reader.position)))
        }
    }
}

// MARK: - Writing

extension TokenClaims {
    /// Returns the payload; times are truncated to seconds.
    func json() throws(TokenError) -> [UInt8] {
        guard !subject.isEmpty else { throw .missingSubject }
        if let name = other.names.first(where: Self.registered.contains) {
            throw .wrongSetting("The claim \(name) cannot be an additional claim.")
        }
        var members: [(String, Value)] = [("sub", .string(subject))]
        if let issuer { members.append(("iss", .string(issuer))) }
        if audience.count == 1 {
            members.append(("aud", .string(audience[0])))
        } else if !audience.isEmpty {
            var writer = JSONWriter()
            for text in audience {
                writer.byte(writer.bytes.isEmpty ? "[" : ",")
                writer.string(text)
            }
            writer.byte("]")
            members.append(("aud", .json(JSON(checked: writer.text))))
        }
        for (name, instant) in [("iat", issuedAt), ("nbf", notBefore), ("exp", expiresAt)] {
            guard let instant else { continue }
            let (seconds, rest) = instant.microseconds.quotientAndRemainder(dividingBy: 1_000_000)
            members.append((name, .integer(rest < 0 ? seconds - 1 : seconds)))
        }
        members += other.map { ($0.name, $0.value) }
        var writer = JSONWriter()
        writer.row(Row(layout: RowLayout(members.map(\.0)), values: members.map(\.1)))
        return writer.bytes
    }
}
