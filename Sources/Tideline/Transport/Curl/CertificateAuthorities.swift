// CertificateAuthorities: the certificate authorities in a file, which URLSession trusts in
// addition to the system's authorities.

#if canImport(Darwin)
import Foundation
import Security

/// A session delegate that also trusts the authorities of a PEM file.
final class CertificateAuthorities: NSObject, URLSessionDelegate, Sendable {
    /// The certificates in DER format; nil if the file cannot be read or contains none.
    private let certificates: [Data]?

    init(path: String) {
        let text = try? String(contentsOf: URL(filePath: path), encoding: .utf8)
        certificates = text.flatMap(Self.certificates)
    }

    /// - Throws: ``TransportError`` if the file contains no certificate.
    func check() throws {
        guard certificates == nil else { return }
        throw TransportError.invalidRequest(
            "The certificate authority file cannot be read, or contains no PEM certificate."
        )
    }

    private static func certificates(inPEM text: String) -> [Data]? {
        let parts = text.components(separatedBy: "-----BEGIN CERTIFICATE-----").dropFirst()
        let found = parts.compactMap { part -> Data? in
            guard let body = part.components(separatedBy: "-----END CERTIFICATE-----").first else {
                return nil
            }
            return Data(base64Encoded: body, options: .ignoreUnknownCharacters)
        }
        return found.isEmpty ? nil : found
    }

    /// Evaluates a server's certificate with these authorities; if that fails, leaves the
    /// evaluation to the system.
    func urlSession(
        _ session: URLSession,
        didReceive challenge: URLAuthenticationChallenge
    ) async -> (URLSession.AuthChallengeDisposition, URLCredential?) {
        guard let trust = challenge.protectionSpace.serverTrust else {
            return (.performDefaultHandling, nil)
        }
        let anchors = (certificates ?? []).compactMap {
            SecCertificateCreateWithData(nil, $0 as CFData)
        }
        SecTrustSetAnchorCertificates(trust, anchors as CFArray)
        SecTrustSetAnchorCertificatesOnly(trust, false)
        guard SecTrustEvaluateWithError(trust, nil) else { return (.performDefaultHandling, nil) }
        return (.useCredential, URLCredential(trust: trust))
    }
}
#endif
