// ServerCertificate: creates a certificate for trying out TLS, with messages for an operator.

import TidelineTLS

/// A certificate that devices accept once they trust its local authority.
///
/// ```swift
/// let made = try ServerCertificate.make(hosts: ["192.168.1.20"], directory: "certificates")
/// configuration.tls = made.tls
/// ```
public struct ServerCertificate: Hashable, Sendable, CustomStringConvertible {
    /// The certificate file of the authority, which devices have to trust.
    public let authorityFile: String
    /// The TLS configuration of the server.
    public let tls: ServerConfiguration.TLS
    /// Whether the authority already existed, so that devices may trust it.
    public let isAuthorityKept: Bool

    /// Creates a certificate for a server, and the authority if the folder has none.
    ///
    /// - Parameters:
    ///   - hosts: The names and addresses that devices use for the server, at least one.
    ///   - directory: The folder of the files, created if it does not exist.
    /// - Returns: The paths of the files.
    /// - Throws: ``ConfigurationError`` for an invalid host, or if a file cannot be written.
    public static func make(
        hosts: [String],
        directory: String
    ) throws(ConfigurationError) -> ServerCertificate {
        do throws(TLSError) {
            let created = try LocalCertificate.make(hosts: hosts, directory: directory)
            return ServerCertificate(
                authorityFile: created.authorityFile,
                tls: ServerConfiguration.TLS(
                    certificateFile: created.certificateFile,
                    keyFile: created.keyFile
                ),
                isAuthorityKept: created.isAuthorityKept
            )
        } catch {
            throw ConfigurationError([error.message])
        }
    }

    /// Checks that a certificate can be created for a host.
    ///
    /// - Throws: ``ConfigurationError``, which begins with the host.
    package static func check(host: String) throws(ConfigurationError) {
        do throws(TLSError) {
            _ = try LocalCertificate.subjectName(host)
        } catch {
            throw ConfigurationError([error.message])
        }
    }

    /// Checks that a file has at least one valid certificate.
    ///
    /// - Throws: ``ConfigurationError``, which begins with the name of the file.
    package static func checkAuthorities(in file: String) throws(ConfigurationError) {
        do throws(TLSError) {
            try LocalCertificate.checkAuthorities(in: file)
        } catch {
            throw ConfigurationError([error.message])
        }
    }

    /// The files that were created, and what to do with them.
    public var description: String {
        """
        \(isAuthorityKept ? "Signed by the existing authority" : "Created an authority"): \(authorityFile)
        The certificate: \(tls.certificateFile)
        Its key:         \(tls.keyFile)

        In the configuration of the server:
          "tls": { "certificateFile": "\(tls.certificateFile)", "keyFile": "\(tls.keyFile)" }

        Install \(authorityFile) on each device once, and keep authority.key secret:
          iPhone, iPad  send it (AirDrop, mail), open it, install the profile in Settings, then turn it
                        on: General > About > Certificate Trust Settings
          Mac           security add-trusted-cert -k ~/Library/Keychains/login.keychain-db \(authorityFile)
          Android       Settings > Security > Install a certificate > CA certificate; an app must
                        allow user certificates in its network security configuration
          Linux         copy it to /usr/local/share/ca-certificates/tideline.crt, then
                        update-ca-certificates
          curl          curl --cacert \(authorityFile) https://…
          Tideline      URLSessionTransport(certificateAuthorities: "\(authorityFile)")
        """
    }
}

/// A check of the certificate that a server presents.
package enum ShownCertificate {
    /// Returns when the certificate expires, in seconds since 1970; nil if no TLS server responds.
    ///
    /// The call blocks its thread.
    package static func end(host: String, port: Int) -> Int64? {
        PeerCertificate.end(host: host, port: port)
    }
}
