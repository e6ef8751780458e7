// LocalCertificate: a server certificate for tests, signed by a local authority.
//
// Devices have to trust the authority only once; they also trust certificates that it signs later.

import CCrypto
import Foundation

/// The files of a local authority and of a server's certificate, in one folder.
package struct LocalCertificate: Sendable {
    /// The certificate of the authority, which devices have to trust.
    package let authorityFile: String
    /// The certificate that the server presents.
    package let certificateFile: String
    /// The key of the server's certificate.
    package let keyFile: String
    /// Whether the authority already existed.
    package let isAuthorityKept: Bool

    /// The lifetime of an authority in days, about as long as a phone is used.
    private static let authorityDays: Int32 = 3650

    /// The lifetime of a server certificate in days; Apple's systems reject more than 825.
    private static let certificateDays: Int32 = 820

    /// Creates the certificate, and the authority if the folder has none.
    ///
    /// - Parameters:
    ///   - hosts: The names and addresses that devices use for the server, at least one.
    ///   - directory: The folder, created if it does not exist. The files of an earlier certificate are
    ///     replaced, but the authority is kept.
    /// - Returns: The paths of the files.
    /// - Throws: ``TLSError``
    package static func make(
        hosts: [String],
        directory: String
    ) throws(TLSError) -> LocalCertificate {
        let names = try hosts.map { (host) throws(TLSError) in try subjectName(host) }
        guard !names.isEmpty else {
            throw TLSError(.nameUnusable, "At least one host is required.")
        }
        do {
            try FileManager.default.createDirectory(
                atPath: directory,
                withIntermediateDirectories: true
            )
        } catch {
            throw TLSError(.fileUnusable, "'\(directory)': the folder cannot be created.")
        }
        let folder = Folder(path: directory)
        let (authority, isKept) = try folder.authority(for: hosts[0])
        let key = try makeKey()
        let created = try sign(
            key,
            hosts[0],
            names.joined(separator: ","),
            authority.key,
            authority.certificate,
            certificateDays
        )
        let chain = try PEM.text(of: created) + PEM.text(of: authority.certificate)
        try write(folder.keyFile, isSecret: true, PEM.text(of: key))
        try write(folder.certificateFile, isSecret: false, chain)
        return LocalCertificate(
            authorityFile: folder.authorityFile,
            certificateFile: folder.certificateFile,
            keyFile: folder.keyFile,
            isAuthorityKept: isKept
        )
    }

    /// Checks that a file has at least one valid certificate.
    ///
    /// - Throws: ``TLSError``, whose message begins with the name of the file.
    package static func checkAuthorities(in file: String) throws(TLSError) {
        guard try !PEMFile(file).certificates().isEmpty else {
            throw TLSError(.certificateUnusable, "'\(file)': the file contains no certificate.")
        }
    }

    /// The paths of the files in a folder.
    private struct Folder {
        let path: String

        var authorityFile: String { path + "/authority.pem" }
        var authorityKeyFile: String { path + "/authority.key" }
        var certificateFile: String { path + "/certificate.pem" }
        var keyFile: String { path + "/certificate.key" }

        /// Returns the authority of the folder, and whether it already existed.
        func authority(
            for host: String
        ) throws(TLSError) -> (
            authority: (certificate: CertificateHandle, key: PrivateKeyHandle), isKept: Bool
        ) {
            guard FileManager.default.fileExists(atPath: authorityKeyFile) else {
                let key = try LocalCertificate.makeKey()
                let name = "Tideline local authority, \(host)"
                let created = try sign(key, name, nil, key, nil, authorityDays)
                try write(authorityKeyFile, isSecret: true, PEM.text(of: key))
                try write(authorityFile, isSecret: false, PEM.text(of: created))
                return ((created, key), false)
            }
            guard let first = try PEMFile(authorityFile).certificates().first else {
                throw TLSError(
                    .certificateUnusable,
                    "'\(authorityFile)': the file contains no certificate."
                )
            }
            let key = try PEMFile(authorityKeyFile).key()
            guard X509_check_private_key(first.pointer, key.pointer) == 1 else {
                ERR_clear_error()
                throw TLSError(
                    .keysDiffer,
                    "'\(authorityKeyFile)': the key does not belong to '\(authorityFile)'."
                )
            }
            return ((first, key), true)
        }
    }

    private static func makeKey() throws(TLSError) -> PrivateKeyHandle {
        guard let key = tideline_make_key() else { throw .exhausted }
        return PrivateKeyHandle(key)
    }

    private static func sign(
        _ key: PrivateKeyHandle,
        _ subject: String,
        _ names: String?,
        _ issuerKey: PrivateKeyHandle,
        _ issuer: CertificateHandle?,
        _ days: Int32
    ) throws(TLSError) -> CertificateHandle {
        ERR_clear_error()
        // The common name has 64 characters at most (RFC 5280); programs use the other names.
        let created = tideline_make_certificate(
            key.pointer,
            String(subject.prefix(64)),
            names,
            issuer?.pointer,
            issuerKey.pointer,
            days
        )
        guard let created else {
            throw TLSError(.exhausted, "Cannot create a certificate: \(TLSContext.reason()).")
        }
        return CertificateHandle(created)
    }

    /// Returns a host as a certificate contains it: an address or a DNS name.
    package static func subjectName(_ host: String) throws(TLSError) -> String {
        var four = in_addr()
        var six = in6_addr()
        let isQuoted = host.hasPrefix("[") && host.hasSuffix("]")
        let bare = isQuoted ? String(host.dropFirst().dropLast()) : host
        let isFour = !isQuoted && inet_pton(AF_INET, bare, &four) == 1
        if isFour || inet_pton(AF_INET6, bare, &six) == 1 {
            let isAny =
                isFour ? four.s_addr == 0 : withUnsafeBytes(of: six) { !$0.contains { $0 > 0 } }
            guard !isAny else {
                throw unusable(
                    host,
                    "means all addresses. Use an address by which devices reach the server"
                )
            }
            return "IP:" + bare
        }
        guard !isQuoted else { throw unusable(host, "is not an IPv6 address") }
        let isWildcard = bare.hasPrefix("*.")
        let name = isWildcard ? bare.dropFirst(2) : bare[...]
        let labels = name.split(separator: ".", omittingEmptySubsequences: false)
        let isName = labels.allSatisfy { label in
            (1...63).contains(label.utf8.count) && !label.hasPrefix("-") && !label.hasSuffix("-")
                && label.utf8.allSatisfy(isNameByte)
        }
        guard isName, bare.utf8.count <= 253 else {
            throw unusable(host, "is not a host name. Write it without scheme, port and path")
        }
        // Clients would parse it as an address, and match it with no name.
        guard labels.last?.contains(where: { !$0.isNumber }) == true else {
            throw unusable(host, "is not an IPv4 address of four numbers up to 255")
        }
        guard !isWildcard || labels.count > 1 else {
            throw unusable(host, "matches no name: at least two labels must follow the star")
        }
        return (isWildcard ? "DNS:*." : "DNS:") + name
    }

    private static func unusable(_ host: String, _ fault: String) -> TLSError {
        TLSError(
            .nameUnusable,
            "'\(host)' \(fault). Examples: todo.local, 192.168.1.20."
        )
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    /// Replaces a file atomically; a secret is never readable by other users.
    private static func write(
        _ path: String,
        isSecret: Bool,
        _ bytes: [UInt8]
    ) throws(TLSError) {
        let partial = path + ".partial"
        unlink(partial)
        let file = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, isSecret ? 0o600 : 0o644)
        guard file >= 0 else {
            throw TLSError(.fileUnusable, "'\(path)': the file cannot be written.")
        }
        let count = bytes.withUnsafeBytes { Foundation.write(file, $0.baseAddress, $0.count) }
        close(file)
        guard count == bytes.count, rename(partial, path) == 0 else {
            unlink(partial)
            throw TLSError(.fileUnusable, "'\(path)': the file cannot be written.")
        }
    }
}

/// The contents of PEM files.
private enum PEM {
    static func text(of key: PrivateKeyHandle) throws(TLSError) -> [UInt8] {
        try text { PEM_write_bio_PrivateKey($0, key.pointer, nil, nil, 0, nil, nil) }
    }

    static func text(of certificate: CertificateHandle) throws(TLSError) -> [UInt8] {
        try text { PEM_write_bio_X509($0, certificate.pointer) }
    }

    private static func text(_ write: (OpaquePointer) -> Int32) throws(TLSError) -> [UInt8] {
        guard let target = tideline_pem_source(nil, 0) else { throw .exhausted }
        defer { BIO_free(target) }
        var text: UnsafeMutablePointer<CChar>?
        guard write(target) == 1, case let count = tideline_pem_text(target, &text), count > 0,
            let text
        else { throw .exhausted }
        return Array(UnsafeRawBufferPointer(start: text, count: count))
    }
}
