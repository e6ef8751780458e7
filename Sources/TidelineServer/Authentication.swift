// Authentication: how a server knows its users: which keys it takes, and what tokens must say.

import Foundation
import TidelineCore
package import TidelineServerCore
package import TidelineTokens

extension ServerConfiguration {
    /// Whose tokens the server takes.
    ///
    /// At least one of the three files is needed; keys of all of them are taken. They are read at
    /// the start of the server and by ``TidelineServer/reload(_:)``.
    public struct Authentication: Hashable, Sendable {
        /// A signature algorithm of a token.
        public enum Algorithm: String, Hashable, Sendable, CaseIterable {
            /// HMAC with SHA-256 and the secret of `secretFile`.
            case hs256 = "HS256"
            /// RSASSA-PKCS1-v1_5 with SHA-256.
            case rs256 = "RS256"
            /// ECDSA on P-256 with SHA-256.
            case es256 = "ES256"
        }

        /// A file with a secret of 32 bytes or more, shared with who makes the tokens.
        public var secretFile: String?
        /// A file with public keys or certificates in PEM.
        public var keyFile: String?
        /// A file with a JWK Set (RFC 7517).
        public var jwksFile: String?
        /// What tokens may be signed with; nil for all that the keys are for.
        public var algorithms: [Algorithm]?
        /// What a token's `iss` must be; nil for anything.
        public var issuer: String?
        /// What a token's `aud` must be or hold; nil for anything.
        public var audience: String?
        /// How many seconds the clocks of server and issuer may differ, up to 600.
        public var leewaySeconds: Int
        /// The `sub` of the users for whom `/metrics` is; nil for all, and off loopback for all with
        /// a token.
        public var operators: [String]?

        /// Names the files; without any of them the server does not start.
        public init(
            secretFile: String? = nil,
            keyFile: String? = nil,
            jwksFile: String? = nil,
            algorithms: [Algorithm]? = nil,
            issuer: String? = nil,
            audience: String? = nil,
            leewaySeconds: Int = 60,
            operators: [String]? = nil
        ) {
            self.secretFile = secretFile
            self.keyFile = keyFile
            self.jwksFile = jwksFile
            self.algorithms = algorithms
            self.issuer = issuer
            self.audience = audience
            self.leewaySeconds = leewaySeconds
            self.operators = operators
        }
    }
}

extension ServerConfiguration.Authentication {
    /// Reads the files and checks their keys.
    ///
    /// - Throws: ``ConfigurationError``, each fault with the key that it is about.
    func makeVerifier() throws(ConfigurationError) -> TokenVerifier {
        var sources: [TokenKeySource] = []
        var faults: [String] = []
        for (key, path, make) in files {
            guard let path else { continue }
            do throws(TokenError) {
                let source = make(try Self.read(path))
                // Alone, so that the fault has its file.
                _ = try TokenVerifier(keys: [source])
                sources.append(source)
            } catch {
                faults.append("authentication.\(key): '\(path)': \(error.message)")
            }
        }
        guard faults.isEmpty else { throw ConfigurationError(faults) }
        guard !sources.isEmpty else {
            throw ConfigurationError([
                "authentication: a key is needed: one of secretFile, keyFile, jwksFile is expected"
            ])
        }
        do {
            return try TokenVerifier(
                keys: sources,
                algorithms: algorithms.map { names in
                    Set(names.compactMap { TokenAlgorithm(rawValue: $0.rawValue) })
                },
                issuer: issuer,
                audience: audience,
                leeway: .seconds(leewaySeconds)
            )
        } catch {
            let key = error.code == .wrongSetting ? "" : ".algorithms"
            throw ConfigurationError(["authentication\(key): \(error.message)"])
        }
    }

    private var files: [(key: String, path: String?, make: ([UInt8]) -> TokenKeySource)] {
        [
            ("secretFile", secretFile, { .secret(TokenKeySource.secretBytes(file: $0)) }),
            ("keyFile", keyFile, { .pem($0) }),
            ("jwksFile", jwksFile, { .jwks($0) }),
        ]
    }

    /// The contents of a key file, and a byte more than is allowed of one that is too long.
    private static func read(_ path: String) throws(TokenError) -> [UInt8] {
        let limit = TokenLimits().keyFileBytesMax
        guard let file = FileHandle(forReadingAtPath: path),
            let data = try? file.read(upToCount: limit + 1) ?? Data()
        else {
            throw TokenError(.unusableKey, "The file cannot be read.")
        }
        try? file.close()
        return Array(data)
    }

    /// What checks the tokens of requests.
    func makeAuthenticator() throws(ConfigurationError) -> Authenticator {
        let leeway = Int64(leewaySeconds) * 1_000_000
        return Authenticator(try makeVerifier(), leeway: leeway)
    }
}

extension Authenticator {
    /// Checks tokens by `verifier`, whose leeway in microseconds is `leeway`.
    package convenience init(_ verifier: TokenVerifier, leeway: Int64) {
        self.init { (token, now) throws(TokenRefusal) in
            do throws(TokenError) {
                let claims = try verifier.verify(token, now: Timestamp(microseconds: now))
                let starts = [claims.notBefore, claims.issuedAt].compactMap { $0?.microseconds }
                return CheckedToken(
                    user: User(id: claims.subject, claims: claims.visible),
                    validFrom: starts.max().map { $0 - leeway } ?? .min,
                    validUntil: claims.expiresAt.map { $0.microseconds + leeway } ?? .max
                )
            } catch {
                throw TokenRefusal(error.message)
            }
        }
    }
}

extension TokenClaims {
    /// What hooks see of a token.
    fileprivate var visible: Row {
        var row = other
        if let issuer { row["iss"] = .string(issuer) }
        return row
    }
}

// MARK: - Tokens for trying things out

extension ServerConfiguration {
    /// The longest life of a token of ``makeToken(subject:lifetime:)``: ten years.
    private static let tokenSecondsMax: Int64 = 315_360_000

    /// Makes a token that the server of this configuration takes, to try things out.
    ///
    /// - Parameters:
    ///   - subject: The user, the token's `sub`.
    ///   - lifetime: For how long it holds, in whole seconds.
    /// - Returns: The token's compact form.
    /// - Throws: ``ConfigurationError`` without a secret to sign with, and when the server would
    ///   not take the token.
    public func makeToken(
        subject: String,
        lifetime: Duration = .seconds(86_400)
    ) throws(ConfigurationError) -> String {
        guard let authentication else {
            throw ConfigurationError(["authentication: it is not configured; no token is needed"])
        }
        let verifier = try authentication.makeVerifier()
        guard let secretFile = authentication.secretFile else {
            throw ConfigurationError([
                "authentication.secretFile: it is missing, and public keys cannot sign; make the "
                    + "token where the private key is"
            ])
        }
        let seconds = lifetime.components.seconds
        guard (1...Self.tokenSecondsMax).contains(seconds) else {
            throw ConfigurationError([
                "lifetime: it must be between a second and \(Self.tokenSecondsMax) seconds"
            ])
        }
        guard Authenticator.isUsable(subject) else {
            throw ConfigurationError(["subject: \(Authenticator.unusableUser)"])
        }
        let now = ServerEnvironment.live.now()
        do throws(TokenError) {
            let bytes = try Authentication.secret(in: secretFile)
            let token = try TokenSigner(secret: bytes).sign(
                TokenClaims(
                    subject: subject,
                    issuer: authentication.issuer,
                    audience: authentication.audience.map { [$0] } ?? [],
                    expiresAt: Timestamp(
                        microseconds: now + seconds * 1_000_000
                    ),
                    issuedAt: Timestamp(microseconds: now)
                )
            )
            _ = try verifier.verify(token, now: Timestamp(microseconds: now))
            return token
        } catch {
            throw ConfigurationError(["authentication: \(error.message)"])
        }
    }
}

extension ServerConfiguration.Authentication {
    fileprivate static func secret(in path: String) throws(TokenError) -> [UInt8] {
        TokenKeySource.secretBytes(file: try read(path))
    }
}
