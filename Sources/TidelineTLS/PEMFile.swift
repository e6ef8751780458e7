// PEMFile: reads PEM files.

import CCrypto
import Foundation

/// A certificate of OpenSSL, freed with its last reference.
final class CertificateHandle {
    let pointer: OpaquePointer
    init(_ pointer: OpaquePointer) { self.pointer = pointer }
    deinit { X509_free(pointer) }
}

/// A private key of OpenSSL, freed with its last reference.
final class PrivateKeyHandle {
    let pointer: OpaquePointer
    init(_ pointer: OpaquePointer) { self.pointer = pointer }
    deinit { EVP_PKEY_free(pointer) }
}

/// A file with certificates or a key in OpenSSL's format.
struct PEMFile {
    private let path: String
    private let bytes: [UInt8]

    /// The maximum size of a file in bytes; a chain has about ten thousand.
    private static let bytesMax = 1 << 20

    init(_ path: String) throws(TLSError) {
        self.path = path
        guard let file = FileHandle(forReadingAtPath: path),
            let data = try? file.read(upToCount: Self.bytesMax + 1) ?? Data()
        else {
            throw TLSError(.fileUnusable, "'\(path)': the file cannot be read.")
        }
        try? file.close()
        guard data.count <= Self.bytesMax else {
            throw TLSError(.fileUnusable, "'\(path)': the file is larger than a megabyte.")
        }
        bytes = Array(data)
    }

    /// Reads all certificates, in order.
    func certificates() throws(TLSError) -> [CertificateHandle] {
        try read { (source) throws(TLSError) in
            var found: [CertificateHandle] = []
            while let certificate = PEM_read_bio_X509(source, nil, tideline_tls_no_passphrase, nil)
            {
                found.append(CertificateHandle(certificate))
            }
            // The end of the file is reported as an error, too.
            let isEnd = tideline_pem_is_at_end() != 0
            ERR_clear_error()
            guard isEnd else {
                throw TLSError(
                    .certificateUnusable,
                    "'\(path)': certificate \(found.count + 1) of the file cannot be read."
                )
            }
            return found
        }
    }

    /// Reads the first private key.
    func key() throws(TLSError) -> PrivateKeyHandle {
        try read { (source) throws(TLSError) in
            let key = PEM_read_bio_PrivateKey(source, nil, tideline_tls_no_passphrase, nil)
            ERR_clear_error()
            guard let key else {
                let text = String(decoding: bytes, as: UTF8.self)
                throw TLSError(
                    .keyUnusable,
                    text.contains("ENCRYPTED")
                        ? "'\(path)': the key has a passphrase. Use a key without one."
                        : "'\(path)': the file contains no private key in PEM."
                )
            }
            return PrivateKeyHandle(key)
        }
    }

    private func read<Result>(
        _ body: (OpaquePointer) throws(TLSError) -> Result
    ) throws(TLSError) -> Result {
        ERR_clear_error()
        guard let source = bytes.withUnsafeBytes({ tideline_pem_source($0.baseAddress, $0.count) })
        else { throw .exhausted }
        defer { BIO_free(source) }
        return try body(source)
    }
}
