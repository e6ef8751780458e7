// PublicKey: checks signatures with one RSA or P-256 key, from any thread.

import CCrypto

/// A public key, checked when made.
///
/// `@unchecked Sendable`: the EVP_PKEY is made here and never leaves, nothing changes it after
/// `init`, and each check has an EVP_MD_CTX of its own. OpenSSL allows that: openssl-threads(7)
/// says "Objects are thread-safe as long as the API's being invoked don't modify the object", and
/// the maintainers name this very use in github.com/openssl/openssl/issues/16496. What an
/// EVP_PKEY caches by itself (the form that another provider needs) is not touched either,
/// as the key is always made by EVP_PKEY_fromdata in the provider that uses it; certificates
/// give keys of the older kind, which are therefore copied (issue 28936 tells of a race in theirs).
final class PublicKey: @unchecked Sendable {
    enum Kind: Sendable {
        case rsa
        case p256
    }

    let kind: Kind
    private let handle: KeyHandle

    /// `name` begins the message of a fault: what the reader would call the key.
    init(_ source: KeyHandle?, _ name: String, _ limits: TokenLimits) throws(TokenError) {
        guard let source else { throw .unusableKey("\(name) cannot be read.") }
        if source.isRSA {
            kind = .rsa
            guard source.bits >= limits.rsaBitsMin, source.bits <= limits.rsaBitsMax else {
                throw .unusableKey(
                    "\(name) is an RSA key of \(source.bits) bits; allowed are "
                        + "\(limits.rsaBitsMin) to \(limits.rsaBitsMax)."
                )
            }
        } else if source.isP256 {
            kind = .p256
        } else {
            throw .unusableKey("\(name) is neither an RSA key nor one on the curve P-256.")
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

    /// Whether `signature`, in the form of RFC 7518, is one of this key for `message`.
    func isSignature(_ signature: [UInt8], of message: ArraySlice<UInt8>) -> Bool {
        switch kind {
        case .rsa: return accepts(signature, message)
        case .p256:
            guard let der = ECDSASignature.der(raw: signature) else { return false }
            return accepts(der, message)
        }
    }

    private func accepts(_ signature: [UInt8], _ message: ArraySlice<UInt8>) -> Bool {
        defer { ERR_clear_error() }
        guard let context = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(context) }
        guard SHA256Signing.begin(context, handle, isRSA: kind == .rsa, EVP_DigestVerifyInit) else {
            return false
        }
        return message.withUnsafeBufferPointer { bytes in
            EVP_DigestVerify(context, signature, signature.count, bytes.baseAddress, bytes.count)
                == 1
        }
    }
}

/// What checking and signing have in common: SHA-256, and for RSA the padding of PKCS #1 v1.5.
enum SHA256Signing {
    typealias Start = (
        OpaquePointer?, UnsafeMutablePointer<OpaquePointer?>?, OpaquePointer?, OpaquePointer?,
        OpaquePointer?
    ) -> Int32

    static func begin(
        _ context: OpaquePointer,
        _ key: KeyHandle,
        isRSA: Bool,
        _ start: Start
    ) -> Bool {
        var keyContext: OpaquePointer?
        guard start(context, &keyContext, EVP_sha256(), nil, key.pointer) == 1 else { return false }
        return !isRSA || EVP_PKEY_CTX_set_rsa_padding(keyContext, tideline_pkcs1_padding) == 1
    }
}
