// Authentication, owners and CORS in the configuration file: key files, and errors that name them.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServer
import TidelineServerCore

@Suite struct AccessConfigurationTests {
    private static let secret = "0123456789abcdef0123456789abcdef\n"
    private static let publicKey = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEVs/o5+uQbTjL3chynL4wXgUg2R9
        q9UU8I5mEovUf86QZ7kOBIjJwqnzD1omageEHWwHdBO6B+dFabmdT9POxg==
        -----END PUBLIC KEY-----

        """
    private static let jwks = """
        {"keys":[{"kty":"oct","k":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY","alg":"HS256"}]}
        """

    /// Valid and invalid key files, by name.
    private func withKeys<Result>(_ body: (String) throws -> Result) async throws -> Result {
        try await withTemporaryDirectory { directory in
            for (name, text) in [
                ("jwt.key", Self.secret), ("weak.key", "password\n"), ("id.pem", Self.publicKey),
                ("keys.json", Self.jwks), ("none.json", #"{"keys":[]}"#), ("empty", ""),
            ] {
                try Data(text.utf8).write(to: URL(filePath: directory + "/" + name))
            }
            return try body(directory)
        }
    }

    @Test("The configuration file sets authentication, origins, owners and permissions")
    func readsAll() async throws {
        try await withKeys { directory in
            let text = """
                {
                  "authentication": {
                    "secretFile": "jwt.key", "keyFile": "\(directory)/id.pem",
                    "jwksFile": "keys.json", "algorithms": ["HS256", "ES256"],
                    "issuer": "https://id.example", "audience": "todo", "leewaySeconds": 0,
                    "operators": ["olga"]
                  },
                  "cors": { "origins": ["https://app.example", "http://localhost:*"] },
                  "tables": {
                    "TodoItem": {
                      "columns": { "text": "string" }, "owner": "userId", "indexes": [["userId"]],
                      "permissions": { "read": "authenticated", "delete": "disabled" }
                    }
                  }
                }
                """
            let configuration = try ServerConfiguration(
                json: Array(text.utf8),
                directory: directory
            )
            let authentication = try #require(configuration.authentication)
            #expect(authentication.secretFile == directory + "/jwt.key")
            #expect(authentication.keyFile == directory + "/id.pem")
            #expect(authentication.algorithms == [.hs256, .es256])
            #expect(authentication.operators == ["olga"])
            #expect(authentication.leewaySeconds == 0)
            #expect(configuration.cors.origins == ["https://app.example", "http://localhost:*"])
            let table = try #require(configuration.tables.first)
            #expect(table.owner == "userId")
            #expect(table.schema.columns.map(\.name) == ["text", "userId"])
            #expect(table.permissions == TablePermissions(read: .authenticated, delete: .disabled))
        }
    }

    @Test(
        "An error in the access configuration names the key, and no secret",
        arguments: [
            (
                #"{"authentication":{}}"#,
                "authentication: the key is missing: one of secretFile, keyFile"
            ),
            (
                #"{"authentication":{"jwksURL":"http://id.example/k"}}"#,
                "authentication.jwksURL: an https URL"
            ),
            (
                #"{"authentication":{"jwksURL":"https://u:p@id.example/k"}}"#,
                "jwksURL: a URL without user"
            ),
            (#"{"authentication":{"issuer":"id.example"}}"#, "authentication: the key is missing"),
            (
                #"{"authentication":{"secretFile":"jwt.key","user":"exp"}}"#,
                "authentication.user: expected the name of the claim"
            ),
            (#"{"authentication":[]}"#, "authentication: an object is expected"),
            (#"{"authentication":{"secret":"x"}}"#, "authentication.secret: this key is unknown"),
            (#"{"authentication":{"secretFile":5}}"#, "authentication.secretFile: a string"),
            (
                #"{"authentication":{"secretFile":""}}"#,
                "authentication.secretFile: a non-empty string"
            ),
            (
                #"{"authentication":{"secretFile":"no.key"}}"#,
                "no.key': The file cannot be read."
            ),
            (
                #"{"authentication":{"secretFile":"."}}"#,
                "authentication.secretFile: '"
            ),
            (
                #"{"authentication":{"secretFile":"weak.key"}}"#,
                "weak.key': The secret has 8 bytes; at least 32 are required"
            ),
            (#"{"authentication":{"secretFile":"id.pem"}}"#, "id.pem': The secret is a PEM file"),
            (#"{"authentication":{"keyFile":"jwt.key"}}"#, "authentication.keyFile: '"),
            (#"{"authentication":{"keyFile":"empty"}}"#, "empty': The key file has no PEM block"),
            (#"{"authentication":{"jwksFile":"none.json"}}"#, "none.json': There is no key for"),
            (#"{"authentication":{"jwksFile":"jwt.key"}}"#, "authentication.jwksFile: '"),
            (
                #"{"authentication":{"secretFile":"jwt.key","algorithms":["none"]}}"#,
                "authentication.algorithms[0]: one of 'HS256', 'RS256', 'ES256'"
            ),
            (
                #"{"authentication":{"secretFile":"jwt.key","algorithms":[]}}"#,
                "authentication.algorithms: at least one algorithm"
            ),
            (
                #"{"authentication":{"secretFile":"jwt.key","algorithms":["RS256"]}}"#,
                "No allowed algorithm matches a key. The keys are for HS256."
            ),
            (
                #"{"authentication":{"secretFile":"jwt.key","leewaySeconds":601}}"#,
                "authentication.leewaySeconds: a whole number from 0 to 600"
            ),
            (
                #"{"authentication":{"secretFile":"jwt.key","issuer":""}}"#,
                "authentication.issuer: a non-empty string"
            ),
            (
                #"{"cors":{"origin":[]}}"#,
                "cors.origin: this key is unknown; allowed keys are origins"
            ),
            (#"{"cors":{"origins":"*"}}"#, "cors.origins: an array is expected"),
            (#"{"cors":{"origins":["a.example"]}}"#, "cors.origins[0]: an origin such as"),
            (#"{"cors":{"origins":["*", "http://a/"]}}"#, "cors.origins[1]: an origin such as"),
            (
                #"{"tables":{"A":{"permissions":{"read":"authenticated"}}}}"#,
                "tables.A.permissions.read: 'authenticated' requires 'authentication'"
            ),
            (#"{"tables":{"A":{"owner":"u"}}}"#, "tables.A.owner: it requires 'authentication'"),
            (
                #"{"tables":{"A":{"owner":"u","permissions":{"read":"anonymous"}}},"authentication":{"secretFile":"jwt.key"}}"#,
                "tables.A.permissions.read: 'anonymous' cannot be combined with 'owner'"
            ),
            (
                #"{"tables":{"A":{"owner":"u","columns":{"u":"guid"}}},"authentication":{"secretFile":"jwt.key"}}"#,
                "tables.A.owner: the column must be of type string and without rules"
            ),
            (
                #"{"tables":{"A":{"owner":"ID"}},"authentication":{"secretFile":"jwt.key"}}"#,
                "tables.A.owner: a system column cannot be the owner"
            ),
            (
                #"{"tables":{"A":{"owner":"a b"}},"authentication":{"secretFile":"jwt.key"}}"#,
                "tables.A.owner: the column name is not valid"
            ),
        ]
    )
    func namesErrors(_ text: String, _ expected: String) async throws {
        try await withKeys { directory in
            let error = #expect(throws: ConfigurationError.self) {
                try ServerConfiguration(json: Array(text.utf8), directory: directory)
            }
            let description = error?.description ?? ""
            #expect(description.contains(expected), "\(description)")
            #expect(error?.faults.count == 1, "\(description)")
            // Never the contents of a file.
            #expect(!description.contains("password") || expected.hasPrefix("jwksURL"))
        }
    }

    @Test("A development token is created only if the server would accept it")
    func tokensForDevelopment() async throws {
        try await withKeys { directory in
            var configuration = ServerConfiguration()
            #expect(throws: ConfigurationError.self) {
                try configuration.makeToken(subject: "anna")
            }
            configuration.authentication = .init(
                secretFile: directory + "/jwt.key",
                keyFile: directory + "/id.pem",
                issuer: "https://id.example",
                audience: "todo"
            )
            let token = try configuration.makeToken(subject: "anna")
            let now = ServerEnvironment.live.now()
            let authenticator = try Tokens.authenticator()
            let user = try authenticator.user(of: ["X-ZUMO-AUTH": token], now: now)
            #expect(user?.id == "anna")
            #expect(user?.claims["iss"] == "https://id.example")
            #expect(throws: ServerError.self) {
                try authenticator.user(of: ["X-ZUMO-AUTH": token], now: now + 90_000_000_000)
            }
            // The server with this configuration would not accept it, so it is not created.
            configuration.authentication?.algorithms = [.es256]
            #expect(throws: ConfigurationError.self) {
                try configuration.makeToken(subject: "anna")
            }
            configuration.authentication = .init(keyFile: directory + "/id.pem")
            let error = #expect(throws: ConfigurationError.self) {
                try configuration.makeToken(subject: "anna")
            }
            #expect(error?.description.contains("authentication.secretFile") == true)
        }
    }
}
