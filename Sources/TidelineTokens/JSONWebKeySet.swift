// JSONWebKeySet: keys of issuers.
//
// Keys of unknown kinds and curves, for encryption, or for another algorithm are left out, as section 5 requires. A
// matching key that is malformed is an error, so that its owner notices it.

import TidelineCore

/// A reader of a JWK Set (RFC 7517), which returns the keys that can check signatures of tokens.
enum JSONWebKeySet {
    static func keys(
        json bytes: [UInt8],
        for allowed: Set<TokenAlgorithm>,
        _ limits: TokenLimits
    ) throws(TokenError) -> [TokenKey] {
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
            if let key = try entry.key(
                named: "Key \(index + 1) of the JWK Set",
                for: allowed,
                limits
            ) {
                keys.append(key)
            }
        }
        return keys
    }
}

/// One JWK; parameters of private keys are ignored.
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

    /// Returns the key; nil if it is for another purpose.
    func key(
        named name: String,
        for allowed: Set<TokenAlgorithm>,
        _ limits: TokenLimits
    ) throws(TokenError) -> TokenKey? {
        guard let kind, isForSignatures else { return nil }
        let only = texts["alg"].map { TokenAlgorithm(rawValue: $0) }
        // The server does not know this `alg`.
        if let only, only == nil { return nil }
        var fitting = kind.algorithms.intersection(allowed)
        if case .some(.some(let algorithm)) = only { fitting.formIntersection([algorithm]) }
        guard !fitting.isEmpty else { return nil }
        let material: TokenKey.Material
        switch kind {
        case .secret:
            let secret = try HMACSecret(try bytes("k", name), name, limits)
            material = .secret(secret)
        case .rsa:
            let modulus = try bytes("n", name)
            let exponent = try bytes("e", name)
            let handle = KeyHandle.rsa(modulus: modulus, exponent: exponent)
            material = .publicKey(try PublicKey(handle, name, for: allowed, limits))
        case .curve(let curve):
            let (x, y) = (try bytes("x", name), try bytes("y", name))
            guard x.count == curve.bytes, y.count == curve.bytes else {
                throw .unusableKey("\(name): x and y must be \(curve.bytes) bytes each.")
            }
            let handle = KeyHandle.point(of: curve, x: x, y: y)
            material = .publicKey(try PublicKey(handle, name, for: allowed, limits))
        case .ed25519:
            let x = try bytes("x", name)
            guard x.count == 32 else { throw .unusableKey("\(name): x must be 32 bytes.") }
            let handle = KeyHandle.ed25519(x)
            material = .publicKey(try PublicKey(handle, name, for: allowed, limits))
        }
        return TokenKey(id: texts["kid"], material: material, onlyAlgorithm: only.flatMap { $0 })
    }

    private enum Kind {
        case secret
        case rsa
        case curve(Curve)
        case ed25519

        var algorithms: Set<TokenAlgorithm> {
            switch self {
            case .secret: [.hs256]
            case .rsa: TokenAlgorithm.ofRSA
            case .curve(let curve): [curve.algorithm]
            case .ed25519: [.edDSA]
            }
        }
    }

    /// The kind of the key; nil if it is unknown.
    private var kind: Kind? {
        switch texts["kty"] {
        case "oct": .secret
        case "RSA": .rsa
        case "EC": texts["crv"].flatMap(Curve.init(rawValue:)).map(Kind.curve)
        case "OKP" where texts["crv"] == "Ed25519": .ed25519
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
