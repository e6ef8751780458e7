// PublicKey: checks signatures with one RSA, P-256, P-384 or Ed25519 key, from any thread.

import CCrypto

/// A public key, which is checked when it is created.
///
/// `@unchecked Sendable`: the EVP_PKEY is private to this type, is not changed after `init`, and each check has
/// its own EVP_MD_CTX. OpenSSL allows that: openssl-threads(7) says "Objects are thread-safe as long as the
/// API's being invoked don't modify the object", and the maintainers confirm this use in
/// github.com/openssl/openssl/issues/16496. The internal cache of an EVP_PKEY, which has the form that another
/// provider needs, is not used, because EVP_PKEY_fromdata always creates the key in the provider that uses it.
/// Certificates give keys of the older kind, which are therefore copied (issue 28936 describes a race in those).
final class PublicKey: @unchecked Sendable {
    enum Kind: Sendable {
        case rsa
        case curve(Curve)
        case ed25519

        var algorithms: Set<TokenAlgorithm> {
            switch self {
            case .rsa: TokenAlgorithm.ofRSA
            case .curve(let curve): [curve.algorithm]
            case .ed25519: [.edDSA]
            }
        }
    }

    let kind: Kind
    private let handle: KeyHandle

    /// `name` is the beginning of error messages: the name by which the reader knows the key.
    init(
        _ source: KeyHandle?,
        _ name: String,
        for allowed: Set<TokenAlgorithm>,
        _ limits: TokenLimits
    ) throws(TokenError) {
        guard let source else { throw .unusableKey("\(name) cannot be read.") }
        if source.isRSA {
            kind = .rsa
            guard source.bits >= limits.rsaBitsMin, source.bits <= limits.rsaBitsMax else {
                throw .unusableKey(
                    "\(name) is an RSA key of \(source.bits) bits. Allowed are "
                        + "\(limits.rsaBitsMin) to \(limits.rsaBitsMax)."
                )
            }
        } else if let curve = source.curve, curve == .p256 || allowed.contains(curve.algorithm) {
            kind = .curve(curve)
        } else if source.isEd25519, allowed.contains(.edDSA) {
            kind = .ed25519
        } else {
            throw .unusableKey(
                "\(name) is neither an RSA key nor one on the curve P-256. Keys on P-384 and Ed25519 are "
                    + "accepted if the allowed algorithms include ES384 or EdDSA."
            )
        }
        guard let handle = source.publicCopy(), Self.isSound(handle) else {
            throw .unusableKey("\(name) is not a valid public key.")
        }
        self.handle = handle
    }

    private static func isSound(_ handle: KeyHandle) -> Bool {
        defer { ERR_clear_error() }
        guard let context = EVP_PKEY_CTX_new(handle.pointer, nil) else { return false }
        defer { EVP_PKEY_CTX_free(context) }
        return EVP_PKEY_public_check(context) == 1
    }

    /// Returns whether `signature`, in the form of RFC 7518, was made with this key for `message`.
    func isSignature(
        _ signature: [UInt8],
        of message: ArraySlice<UInt8>,
        by algorithm: TokenAlgorithm
    ) -> Bool {
        guard kind.algorithms.contains(algorithm) else { return false }
        switch kind {
        case .rsa, .ed25519: return accepts(signature, message, algorithm)
        case .curve(let curve):
            guard let der = ECDSASignature.der(raw: signature, half: curve.bytes) else {
                return false
            }
            return accepts(der, message, algorithm)
        }
    }

    private func accepts(
        _ signature: [UInt8],
        _ message: ArraySlice<UInt8>,
        _ algorithm: TokenAlgorithm
    ) -> Bool {
        defer { ERR_clear_error() }
        guard let context = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(context) }
        guard SignatureStart.begin(context, handle, algorithm, EVP_DigestVerifyInit) else {
            return false
        }
        return message.withUnsafeBufferPointer { bytes in
            EVP_DigestVerify(context, signature, signature.count, bytes.baseAddress, bytes.count)
                == 1
        }
    }
}

/// The common beginning of verifying and signing: the hash and, for RSA, the padding.
enum SignatureStart {
    typealias Start = (
        OpaquePointer?, UnsafeMutablePointer<OpaquePointer?>?, OpaquePointer?, OpaquePointer?,
        OpaquePointer?
    ) -> Int32

    static func begin(
        _ context: OpaquePointer,
        _ key: KeyHandle,
        _ algorithm: TokenAlgorithm,
        _ start: Start
    ) -> Bool {
        var keyContext: OpaquePointer?
        guard start(context, &keyContext, digest(algorithm), nil, key.pointer) == 1 else {
            return false
        }
        guard TokenAlgorithm.ofRSA.contains(algorithm) else { return true }
        guard algorithm.isPSS else {
            return EVP_PKEY_CTX_set_rsa_padding(keyContext, tideline_pkcs1_padding) == 1
        }
        return EVP_PKEY_CTX_set_rsa_padding(keyContext, tideline_pss_padding) == 1
            && EVP_PKEY_CTX_set_rsa_pss_saltlen(keyContext, tideline_pss_salt_as_digest) == 1
    }

    /// Returns the hash; nil for EdDSA, which hashes by itself.
    private static func digest(_ algorithm: TokenAlgorithm) -> OpaquePointer? {
        switch algorithm {
        case .hs256, .rs256, .ps256, .es256: EVP_sha256()
        case .rs384, .ps384, .es384: EVP_sha384()
        case .rs512, .ps512: EVP_sha512()
        case .edDSA: nil
        }
    }
}
