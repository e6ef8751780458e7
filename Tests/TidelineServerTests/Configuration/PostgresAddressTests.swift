// PostgresAddressTests: addresses whose password is not encoded as required: no message contains any part of it.

import Testing
import TidelineServer
import TidelineServerCore

@Suite struct PostgresAddressTests {
    @Test(
        "The error for a malformed address contains no part of the password",
        arguments: [
            "postgres://me:se@cret@127.0.0.1:1/data", "postgres://me:sec/ret@127.0.0.1:1/data",
            "postgres://me:s@cret/x@127.0.0.1:1/data", "postgres://me:sec?re@t@127.0.0.1:1/data",
            "postgres://me:12/cret@127.0.0.1:1/data", "postgres://me:sec/ret",
            "postgresql://me:%cret@127.0.0.1:1/data", "postgres://me:x@sec?ret@127.0.0.1:1/data",
        ]
    )
    func noMessageContainsAPartOfThePassword(url: String) throws {
        var configuration = ServerConfiguration()
        configuration.database = .postgres(url: url)
        let database = try ServerDatabase(configuration)
        let error = #expect(throws: DatabaseError.self) { try database.renewEpoch() }
        let message = try #require(error?.message)
        #expect(!message.contains("cret") && !message.contains("sec"), "\(message)")
        #expect(message.contains("postgres://USER:PASSWORD@HOST:PORT/DATABASE"))
    }

    /// The connection fails because no server listens.
    @Test(
        "A well-formed address is accepted, and its errors contain no password",
        arguments: [
            "postgres://me:se%40cret@127.0.0.1:1/data", "postgres://127.0.0.1:1/data?user=me@there",
            "postgres://me:secret@127.0.0.1:1,127.0.0.1:2/da%40ta?connect_timeout=2",
            "postgres:///data?host=/nowhere/at/all", "postgres://me:sec?ret@127.0.0.1:1/data",
            "postgres://me:[cret@[::1]:1/data",
        ]
    )
    func aWellFormedAddressIsAccepted(url: String) throws {
        var configuration = ServerConfiguration()
        configuration.database = .postgres(url: url)
        let database = try ServerDatabase(configuration)
        let error = #expect(throws: DatabaseError.self) { try database.renewEpoch() }
        let message = try #require(error?.message)
        #expect(
            !message.contains("cret") && !message.contains("ret@") && !message.contains("USER"),
            "\(message)"
        )
    }
}
