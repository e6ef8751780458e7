// JSONWebKeySet: the keys of a JWK Set (RFC 7517) that can check signatures of tokens.
//
// Left out, as section 5 wants: kinds and curves that are not known, keys for encryption, keys for
// another algorithm. A key that is for us but faulty is an error: its owner should know.

import TidelineCore

enum JSONWebKeySet {
    static func keys(json bytes: [UInt8], _ limits: TokenLimits) throws(TokenError) -> [TokenKey] {
        var entries: [JSONWebKey]?
        do {
            try StrictJSON.object(bytes, "JWK Set") { reader, name, token in
                guard name == "keys" else { return try reader.skip(token) }
                guard case .array = token else { throw reader.failure("'keys' is not an array") }
                try reader.beginArray()
                var read: [JSONWebKey] = []
                while try reader.nextElement() { read.append(try JSONWebKey(&reader)) }
                entries = read
            }
        } catch {
            throw .unusableKey(error.message)
        }
        guard let entries else {
            throw .unusableKey("The JWK Set has no member 'keys'.")
        }
        guard entries.count <= limits.keysMax else {
            throw .unusableKey("The JWK Set has more than \(limits.keysMax) keys.")
        }
        var keys: [TokenKey] = []
        for (index, entry) in entries.enumerated() {
            if let key = try entry.key(named: "Key \(index + 1) of the JWK Set", limits) {
                keys.append(key)
            }
        }
        return keys
    }
}

/// One JWK; parameters of private keys are passed over.
private struct JSONWebKey {
    private var texts: [String: String] = [:]
    private var operations: [String]?

    private static let known: Set<String> = [
        "kty", "use", "alg", "kid", "crv", "n", "e", "x", "y", "k",
    ]

    init(_ reader: inout JSONReader) throws {
        let token = try reader.value()
        try StrictJSON.members(&reader, token) { reader, name, token in
            if name == "key_ops" {
                operations = try reader.strings(token, "key_ops")
            } else if Self.known.contains(name) {
                texts[name] = try reader.string(token, "a parameter of a key")
            } else {
                try reader.skip(token)
            }
        }
    }

    /// Nil when the key is not for us.
    func key(named name: String, _ limits: TokenLimits) throws(TokenError) -> TokenKey? {
        guard let algorithm, isForSignatures else { return nil }
        guard texts["alg"].map({ $0 == algorithm.rawValue }) ?? true else { return nil }
        let material: TokenKey.Material
        switch algorithm {
        case .hs256:
            let secret = try HMACSecret(try bytes("k", name), name, limits)
            material = .secret(secret)
        case .rs256:
            let modulus = try bytes("n", name)
            let exponent = try bytes("e", name)
            let handle = KeyHandle.rsa(modulus: modulus, exponent: exponent)
            material = .publicKey(try PublicKey(handle, name, limits))
        case .es256:
            let x = try bytes("x", name)
            let y = try bytes("y", name)
            guard x.count == 32, y.count == 32 else {
                throw .unusableKey("\(name): x and y must be 32 bytes each.")
            }
            material = .publicKey(try PublicKey(.p256(x: x, y: y), name, limits))
        }
        return TokenKey(id: texts["kid"], material: material)
    }

    /// What a key of this kind is for; nil for kinds that are not known.
    private var algorithm: TokenAlgorithm? {
        switch texts["kty"] {
        case "oct": .hs256
        case "RSA": .rs256
        case "EC" where texts["crv"] == "P-256": .es256
        default: nil
        }
    }

    private var isForSignatures: Bool {
        texts["use"].map { $0 == "sig" } ?? true && operations?.contains("verify") ?? true
    }

    private func bytes(_ parameter: String, _ name: String) throws(TokenError) -> [UInt8] {
        guard let text = texts[parameter] else {
            throw .unusableKey("\(name) has no '\(parameter)'.")
        }
        guard let bytes = Base64URL.decode(text.utf8), !bytes.isEmpty else {
            throw .unusableKey("\(name): '\(parameter)' is not base64url without padding.")
        }
        return bytes
    }
}
