// KeyHandle: owns one EVP_PKEY of OpenSSL, and creates it from each supported form.
//
// OpenSSL functions leave their errors in a queue of the thread. The queue is emptied here, because its messages do not
// help the reader of a configuration.

import CCrypto

/// A key of OpenSSL, which is freed with its owner.
///
/// Only ``PublicKey`` and ``TokenSigner`` use the pointer, and neither stores it.
final class KeyHandle {
    let pointer: OpaquePointer

    /// Takes ownership of the result of a C call; returns nil for nil.
    init?(owning pointer: OpaquePointer?) {
        guard let pointer else { return nil }
        self.pointer = pointer
    }

    deinit { EVP_PKEY_free(pointer) }

    var bits: Int { Int(EVP_PKEY_get_bits(pointer)) }

    /// Whether the key is an RSA key, but not an "RSA-PSS" key, whose signatures differ.
    var isRSA: Bool { EVP_PKEY_is_a(pointer, "RSA") == 1 }

    var isEd25519: Bool { EVP_PKEY_is_a(pointer, "ED25519") == 1 }

    /// The curve of the key; nil for a key of another kind, or on another curve.
    var curve: Curve? { Curve.allCases.first { isOn($0) } }

    private func isOn(_ curve: Curve) -> Bool {
        guard EVP_PKEY_is_a(pointer, "EC") == 1 else { return false }
        var name = [CChar](repeating: 0, count: 64)
        var count = 0
        let found = EVP_PKEY_get_group_name(pointer, &name, name.count, &count) == 1
        ERR_clear_error()
        guard found, count > 0, count < name.count else { return false }
        return name[..<count].elementsEqual(curve.group.utf8.map { CChar(bitPattern: $0) })
    }
}

/// A curve of ECDSA keys, with its name in a JWK.
enum Curve: String, Sendable, CaseIterable {
    case p256 = "P-256"
    case p384 = "P-384"

    /// The name of the curve in OpenSSL.
    var group: String {
        switch self {
        case .p256: "prime256v1"
        case .p384: "secp384r1"
        }
    }

    /// The length of a coordinate, and of a half of a signature.
    var bytes: Int {
        switch self {
        case .p256: 32
        case .p384: 48
        }
    }

    var algorithm: TokenAlgorithm {
        switch self {
        case .p256: .es256
        case .p384: .es384
        }
    }
}

// MARK: - From PEM

/// Prevents OpenSSL from asking for a password on the terminal.
private func noPassword(
    _ buffer: UnsafeMutablePointer<CChar>?,
    _ size: Int32,
    _ isWriting: Int32,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    -1
}

extension KeyHandle {
    /// Passes `pem` to `read` as a BIO.
    private static func read(
        pem: [UInt8],
        _ read: (OpaquePointer) -> OpaquePointer?
    ) -> KeyHandle? {
        defer { ERR_clear_error() }
        return pem.withUnsafeBytes { bytes in
            guard let memory = BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else {
                return nil
            }
            defer { BIO_free(memory) }
            return KeyHandle(owning: read(memory))
        }
    }

    static func publicKey(pem: [UInt8]) -> KeyHandle? {
        read(pem: pem) { PEM_read_bio_PUBKEY($0, nil, noPassword, nil) }
    }

    static func privateKey(pem: [UInt8]) -> KeyHandle? {
        read(pem: pem) { PEM_read_bio_PrivateKey($0, nil, noPassword, nil) }
    }

    /// Returns the public key of a certificate; its dates and its issuer are not checked.
    static func certificate(pem: [UInt8]) -> KeyHandle? {
        read(pem: pem) { memory in
            guard let certificate = PEM_read_bio_X509(memory, nil, noPassword, nil) else {
                return nil
            }
            defer { X509_free(certificate) }
            return X509_get_pubkey(certificate)
        }
    }
}

// MARK: - From parameters

extension KeyHandle {
    /// Returns a new key in OpenSSL's provider, with only the public parameters of this one.
    func publicCopy() -> KeyHandle? {
        defer { ERR_clear_error() }
        let kind = isRSA ? "RSA" : isEd25519 ? "ED25519" : "EC"
        return KeyHandle(owning: tideline_public_copy(pointer, kind))
    }

    /// Returns an RSA key from modulus and exponent, most significant byte first.
    static func rsa(modulus: [UInt8], exponent: [UInt8]) -> KeyHandle? {
        defer { ERR_clear_error() }
        let key = tideline_rsa_key(
            modulus,
            Int32(modulus.count),
            exponent,
            Int32(exponent.count)
        )
        return KeyHandle(owning: key)
    }

    /// Returns a key on a curve from the coordinates of its point.
    static func point(of curve: Curve, x: [UInt8], y: [UInt8]) -> KeyHandle? {
        defer { ERR_clear_error() }
        let point = [0x04] + x + y
        return KeyHandle(owning: tideline_ec_key(curve.group, point, point.count))
    }

    /// Returns an Ed25519 key from its 32 bytes.
    static func ed25519(_ bytes: [UInt8]) -> KeyHandle? {
        defer { ERR_clear_error() }
        return KeyHandle(owning: tideline_ed25519_key(bytes, bytes.count))
    }
}
