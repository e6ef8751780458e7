// Authentication: how a server identifies its users: the keys it accepts, and the required claims.

import Foundation
import TidelineCore
import TidelineFetch
package import TidelineServerCore
package import TidelineTokens

extension ServerConfiguration {
    /// The tokens that the server accepts.
    ///
    /// At least one file or address with keys is required; the keys of all of them are accepted. They are read
    /// when the server starts, and by ``TidelineServer/reload(_:)``. Fetched keys and those of `jwksFile` are
    /// renewed every hour, and, at most once a minute, when a token has an unknown `kid`.
    public struct Authentication: Hashable, Sendable {
        /// A signature algorithm of a token.
        public enum Algorithm: String, Hashable, Sendable, CaseIterable {
            /// HMAC with SHA-256 and the secret of `secretFile`.
            case hs256 = "HS256"
            /// RSASSA-PKCS1-v1_5 with SHA-256.
            case rs256 = "RS256"
            /// ECDSA on P-256 with SHA-256.
            case es256 = "ES256"
            /// RSASSA-PKCS1-v1_5 with SHA-384.
            case rs384 = "RS384"
            /// RSASSA-PKCS1-v1_5 with SHA-512.
            case rs512 = "RS512"
            /// RSASSA-PSS with SHA-256.
            case ps256 = "PS256"
            /// RSASSA-PSS with SHA-384.
            case ps384 = "PS384"
            /// RSASSA-PSS with SHA-512.
            case ps512 = "PS512"
            /// ECDSA on P-384 with SHA-384.
            case es384 = "ES384"
            /// EdDSA on Ed25519.
            case edDSA = "EdDSA"
        }

        /// A file with a secret of 32 bytes or more, shared with the issuer of the tokens.
        public var secretFile: String?
        /// A file with public keys or certificates in PEM.
        public var keyFile: String?
        /// A file with a JWK Set (RFC 7517).
        public var jwksFile: String?
        /// The address of a JWK Set: https, or http on this machine.
        ///
        /// An issuer's openid-configuration is accepted as well, because it contains the address of the set.
        /// If it is nil and no file is given, the openid-configuration of ``issuer`` is used.
        public var jwksURL: String?
        /// The algorithms that tokens may be signed with; nil for HS256, RS256 and ES256.
        public var algorithms: [Algorithm]?
        /// The required `iss` of a token; nil for any.
        public var issuer: String?
        /// The value that a token's `aud` must be or contain; nil for any.
        public var audience: String?
        /// The claim that names the user.
        public var user = "sub"
        /// How many seconds the clocks of server and issuer may differ, up to 600.
        public var leewaySeconds: Int
        /// The users that may read `/metrics`.
        ///
        /// Nil means every caller of this machine if the server listens on loopback, and every caller with a token.
        public var operators: [String]?

        /// Creates an authentication with these files.
        ///
        /// The server does not start without any source of keys.
        public init(
            secretFile: String? = nil,
            keyFile: String? = nil,
            jwksFile: String? = nil,
            algorithms: [Algorithm]? = nil,
            issuer: String? = nil,
            audience: String? = nil,
            leewaySeconds: Int = 60,
            operators: [String]? = nil,
            jwksURL: String? = nil,
            user: String = "sub"
        ) {
            self.secretFile = secretFile
            self.keyFile = keyFile
            self.jwksFile = jwksFile
            self.algorithms = algorithms
            self.issuer = issuer
            self.audience = audience
            self.leewaySeconds = leewaySeconds
            self.operators = operators
            self.jwksURL = jwksURL
            self.user = user
        }
    }
}

extension ServerConfiguration.Authentication {
    /// Reads the files and checks their keys.
    ///
    /// - Parameter fetched: A JWK Set that was fetched; nil if there is none, or none yet.
    /// - Returns: Nil if all keys have to be fetched but were not.
    /// - Throws: ``ConfigurationError``, each error with its configuration key.
    func makeVerifier(fetched: [UInt8]? = nil) throws(ConfigurationError) -> TokenVerifier? {
        var sources: [TokenKeySource] = []
        var faults: [String] = []
        for (key, path, make) in files {
            guard let path else { continue }
            do throws(TokenError) {
                let source = make(try Self.read(path))
                // Each source is checked separately, so that the error names its file.
                _ = try TokenVerifier(keys: [source], algorithms: allowed)
                sources.append(source)
            } catch {
                faults.append("authentication.\(key): '\(path)': \(error.message)")
            }
        }
        if let jwksURL, let mistake = BoundedFetch.mistake(in: jwksURL) {
            faults.append("authentication.jwksURL: \(mistake) is expected")
        }
        if !isUserClaim(user) {
            faults.append(
                "authentication.user: expected the name of the claim that identifies the user, not '\(user)'"
            )
        }
        guard faults.isEmpty else { throw ConfigurationError(faults) }
        if let fetched { sources.append(.jwks(fetched)) }
        guard !sources.isEmpty else {
            if keyAddress != nil { return nil }
            throw ConfigurationError([
                "authentication: the key is missing: one of secretFile, keyFile, jwksFile, jwksURL is "
                    + "expected, or an issuer with an https address"
            ])
        }
        do {
            return try TokenVerifier(
                keys: sources,
                algorithms: allowed,
                issuer: issuer,
                audience: audience,
                userClaim: user,
                leeway: .seconds(leewaySeconds)
            )
        } catch {
            let key = error.code == .wrongSetting ? "" : ".algorithms"
            throw ConfigurationError(["authentication\(key): \(error.message)"])
        }
    }

    private var allowed: Set<TokenAlgorithm>? {
        algorithms.map { names in
            Set(names.compactMap { TokenAlgorithm(rawValue: $0.rawValue) })
        }
    }

    /// Whether the name of a claim can be used.
    ///
    /// Rejections contain it, and RFC 6750 does not allow quotes there.
    private func isUserClaim(_ name: String) -> Bool {
        guard !name.isEmpty, name == "sub" || !TokenClaims.registered.contains(name) else {
            return false
        }
        return name.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
    }

    private var files: [(key: String, path: String?, make: ([UInt8]) -> TokenKeySource)] {
        [
            ("secretFile", secretFile, { .secret(TokenKeySource.secretBytes(file: $0)) }),
            ("keyFile", keyFile, { .pem($0) }),
            ("jwksFile", jwksFile, { .jwks($0) }),
        ]
    }

    /// Returns the contents of a key file; if it is too long, one byte more than allowed.
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
}

extension TokenVerifier {
    /// Checks a token; its validity period is extended by `leeway` microseconds.
    func checked(_ token: String, now: Int64, leeway: Int64) throws(TokenRejection) -> CheckedToken
    {
        do throws(TokenError) {
            let claims = try verify(token, now: Timestamp(microseconds: now))
            let starts = [claims.notBefore, claims.issuedAt].compactMap { $0?.microseconds }
            var visible = claims.visible
            if userClaim != "sub", !claims.subject.isEmpty {
                visible["sub"] = .string(claims.subject)
            }
            return CheckedToken(
                user: User(id: user(of: claims), claims: visible),
                validFrom: starts.max().map { $0 - leeway } ?? .min,
                validUntil: claims.expiresAt.map { $0.microseconds + leeway } ?? .max
            )
        } catch {
            throw TokenRejection(
                error.message,
                cause: error.code == .unknownKey ? .unknownKey : .token
            )
        }
    }
}

extension Authenticator {
    /// Creates an authenticator that checks tokens with a verifier; `leeway` is in microseconds.
    package convenience init(_ verifier: TokenVerifier, leeway: Int64) {
        self.init { (token, now) throws(TokenRejection) in
            try verifier.checked(token, now: now, leeway: leeway)
        }
    }
}

extension TokenClaims {
    /// The parts of a token that hooks can read.
    fileprivate var visible: Row {
        var row = other
        if let issuer { row["iss"] = .string(issuer) }
        return row
    }
}

// MARK: - Test tokens

extension ServerConfiguration {
    /// The maximum lifetime of a token of ``makeToken(subject:lifetime:)``: ten years.
    private static let tokenSecondsMax: Int64 = 315_360_000

    /// Creates a token that the server of this configuration accepts, for trying it out.
    ///
    /// - Parameters:
    ///   - subject: The user: the token's `sub`, and the claim that ``Authentication/user`` names.
    ///   - lifetime: How long the token is valid, in whole seconds.
    /// - Returns: The token's compact form.
    /// - Throws: ``ConfigurationError`` if there is no secret to sign with, or if the server would reject the
    ///   token.
    public func makeToken(
        subject: String,
        lifetime: Duration = .seconds(86_400)
    ) throws(ConfigurationError) -> String {
        guard let authentication else {
            throw ConfigurationError([
                "authentication: it is not configured, so the server requires no token"
            ])
        }
        let verifier = try authentication.makeVerifier()
        guard let verifier, let secretFile = authentication.secretFile else {
            throw ConfigurationError([
                "authentication.secretFile: it is missing, and public keys cannot sign. Create the "
                    + "token with the program that has the private key"
            ])
        }
        let seconds = lifetime.components.seconds
        guard (1...Self.tokenSecondsMax).contains(seconds) else {
            throw ConfigurationError([
                "lifetime: it must be between 1 and \(Self.tokenSecondsMax) seconds"
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
                    issuedAt: Timestamp(microseconds: now),
                    other: authentication.user == "sub"
                        ? Row() : [authentication.user: .string(subject)]
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
