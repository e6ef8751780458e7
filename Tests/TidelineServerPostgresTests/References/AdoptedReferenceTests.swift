// AdoptedReferenceTests: the foreign keys of adopted tables are references, and PostgreSQL enforces them as well.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServer
import TidelineServerCore
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct AdoptedReferenceTests {
    private static let script = """
        CREATE TABLE customer (id text COLLATE "C" PRIMARY KEY, name text COLLATE "C");
        CREATE TABLE job (
            id text COLLATE "C" PRIMARY KEY,
            customer_id text COLLATE "C" REFERENCES customer (id) ON DELETE CASCADE
        );
        CREATE TABLE note (
            id text COLLATE "C" PRIMARY KEY,
            customer_id text COLLATE "C" REFERENCES customer (id) ON DELETE SET NULL,
            job_id text COLLATE "C" REFERENCES job (id)
        );
        INSERT INTO customer VALUES ('c'), ('d');
        INSERT INTO job VALUES ('j', 'c');
        INSERT INTO note VALUES ('n', 'c', NULL);
        """

    private static func tables(
        _ change: (inout [TableDefinition]) -> Void = { _ in }
    ) -> [TableDefinition] {
        var tables = [
            TableDefinition("customer", columns: [ColumnDefinition("name", .string)]),
            TableDefinition("job", columns: [ColumnDefinition("customer_id", .string)]),
            TableDefinition(
                "note",
                columns: [
                    ColumnDefinition("customer_id", .string), ColumnDefinition("job_id", .string),
                ]
            ),
        ]
        change(&tables)
        return tables
    }

    private func adopt(
        _ tables: [TableDefinition],
        _ changes: String = ""
    ) throws -> (database: ServerDatabase, url: String) {
        let url = try PostgresCluster.shared().database()
        try PostgresConnection(PostgresAddress(url)).execute(Self.script + changes)
        var configuration = ServerConfiguration()
        configuration.database = .postgres(url: url)
        configuration.tables = tables
        let database = try ServerDatabase(configuration)
        try database.migrate()
        return (database, url)
    }

    private func server(
        _ tables: [TableDefinition],
        _ changes: String = ""
    ) async throws -> (server: TestServer, url: String) {
        let (_, url) = try adopt(tables, changes)
        return (try await TestServer(tables, onPostgres: true, database: url), url)
    }

    @Test("A foreign key is a reference with its rule")
    func rules() async throws {
        let (server, url) = try await server(Self.tables())
        let orphan = #"{"id":"x","customer_id":"nobody"}"#
        let rejected = await server.send("POST", "/tables/job", orphan)
        #expect(rejected.referenceError == "409 parentNotFound customer_id customer")
        #expect(await server.send("PATCH", "/tables/note/n", #"{"job_id":"j"}"#).status == 200)
        let kept = await server.send("DELETE", "/tables/customer/c")
        #expect(kept.referenceError == "409 rowIsReferenced job_id note")
        #expect(await server.send("PATCH", "/tables/note/n", #"{"job_id":null}"#).status == 200)
        #expect(await server.send("DELETE", "/tables/customer/c").status == 204)
        #expect(await server.send("GET", "/tables/job").ids.isEmpty)
        #expect(await server.send("GET", "/tables/note/n").row["customer_id"] is NSNull)
        // The tombstones are there, as the foreign keys need them.
        let psql = try PostgresConnection(PostgresAddress(url))
        #expect(try psql.run("SELECT count(*) FROM job WHERE deleted").integer(0, 0) == 1)
        await server.store.stop()
    }

    @Test("A row of a table without tombstones is deleted with rows of a table that keeps them")
    func permanentDelete() async throws {
        let (server, url) = try await server(Self.tables { $0[0].softDelete = false })
        let link = try await FieldService.deltaLink("job") { target, headers in
            await server.send("GET", target, headers: headers)
        }
        #expect(await server.send("DELETE", "/tables/customer/c").status == 204)
        let removed = await server.send("GET", link).rows
        #expect(removed.map { $0["id"] as? String } == ["j"])
        #expect((removed.first?["@removed"] as? [String: Any])?["reason"] as? String == "deleted")
        #expect(await server.send("GET", "/tables/note/n").row["customer_id"] is NSNull)
        // The foreign key does not let the tombstone of the job stay.
        let psql = try PostgresConnection(PostgresAddress(url))
        #expect(try psql.run("SELECT count(*) FROM job").integer(0, 0) == 0)
        await server.store.stop()
    }

    @Test("A delete that erases values keeps a reference that must not be null")
    func erased() async throws {
        let tables = Self.tables { tables in
            tables[1].schema.columns = [
                ColumnDefinition("customer_id", .string, nullable: false),
                ColumnDefinition("title", .string),
            ]
            tables[1].tombstones = .bare
        }
        let (server, url) = try await server(
            tables,
            """
            ALTER TABLE job ALTER customer_id SET NOT NULL, ADD title text COLLATE "C";
            INSERT INTO job VALUES ('k', 'd', 'secret');
            """
        )
        #expect(await server.send("PATCH", "/tables/job/j", #"{"title":"secret"}"#).status == 200)
        #expect(await server.send("DELETE", "/tables/job/j").status == 204)
        let psql = try PostgresConnection(PostgresAddress(url))
        try psql.execute("DELETE FROM job WHERE id = 'k'")
        let left = try psql.run(
            "SELECT string_agg(concat(customer_id, title), ' ' ORDER BY id) FROM job WHERE deleted"
        )
        #expect(left.text(0, 0) == "c d")
        await server.store.stop()
        // The tombstones stay valid when the parent is no longer served, or the column is renamed.
        let unserved = try await TestServer([tables[1]], onPostgres: true, database: url)
        let insert = #"{"id":"l","customer_id":"c","title":"secret"}"#
        #expect(await unserved.send("POST", "/tables/job", insert).status == 201)
        #expect(await unserved.send("DELETE", "/tables/job/l").status == 204)
        await unserved.store.stop()
        var renamed = tables
        renamed[1].schema.columns[0].name = "client_id"
        renamed[1].aliases = ["customer_id": "client_id"]
        var configuration = ServerConfiguration()
        configuration.database = .postgres(url: url)
        configuration.tables = renamed
        try ServerDatabase(configuration).migrate()
        let kept = try psql.run(
            "SELECT string_agg(concat(client_id, title), ' ' ORDER BY id) FROM job WHERE deleted"
        )
        #expect(kept.text(0, 0) == "c d c")
    }

    @Test("The rows of a user are removed in the order that foreign keys require")
    func forget() throws {
        let tables = Self.tables { tables in
            for place in 0..<2 {
                tables[place].schema.columns.append(ColumnDefinition("who", .string))
                tables[place].owner = "who"
            }
        }
        let (database, url) = try adopt(
            tables,
            """
            ALTER TABLE customer ADD who text COLLATE "C";
            ALTER TABLE job ADD who text COLLATE "C", DROP CONSTRAINT job_customer_id_fkey,
                ADD FOREIGN KEY (customer_id) REFERENCES customer (id);
            UPDATE customer SET who = 'anna' WHERE id = 'c';
            UPDATE job SET who = 'anna';
            UPDATE note SET job_id = 'j';
            """
        )
        let psql = try PostgresConnection(PostgresAddress(url))
        func left() throws -> Int64 {
            try psql.run(
                "SELECT (SELECT count(*) FROM customer) + (SELECT count(*) FROM job)"
            ).integer(0, 0)
        }
        // The note belongs to no user.
        let error = #expect(throws: DatabaseError.self) { try database.forget(user: "anna") }
        let text = error.map { "\($0)" } ?? ""
        #expect(text.contains("table 'note'") && text.contains("'note_job_id_fkey'"), "\(text)")
        #expect(try left() == 3)
        try psql.execute("UPDATE note SET job_id = NULL")
        try database.forget(user: "anna")
        #expect(try left() == 1)
    }

    @Test("A declared reference takes precedence")
    func declared() async throws {
        let tables = Self.tables { tables in
            tables[1].references = [
                TableReference("customer_id", to: "customer", onDelete: .restrict)
            ]
        }
        let (server, _) = try await server(tables)
        let kept = await server.send("DELETE", "/tables/customer/c")
        #expect(kept.referenceError == "409 rowIsReferenced customer_id job")
        await server.store.stop()
    }

    /// A server that does not check a reference leaves it to PostgreSQL.
    @Test("A violation that only PostgreSQL finds has the same error code")
    func violations() async throws {
        let tables = Self.tables { tables in
            tables[0].softDelete = false
            tables[2].references = [
                TableReference("customer_id", to: "customer", onDelete: .none)
            ]
        }
        let (server, url) = try await server(tables)
        // Another program has dropped the row, and the server's own check has not seen it.
        let orphan = #"{"id":"x","customer_id":"nobody","job_id":"j"}"#
        let rejected = await server.send("POST", "/tables/note", orphan)
        #expect(rejected.status == 400 && rejected.code == "foreignKeyConstraint")
        // The tombstone of a job is referenced by a tombstone of a note, and the job is deleted for good.
        let psql = try PostgresConnection(PostgresAddress(url))
        try psql.execute(
            """
            ALTER TABLE job DROP CONSTRAINT job_customer_id_fkey;
            ALTER TABLE job ADD FOREIGN KEY (customer_id) REFERENCES customer (id);
            """
        )
        let kept = await server.send("DELETE", "/tables/customer/c")
        #expect(kept.referenceError == "409 rowIsReferenced customer_id job")
        await server.store.stop()
    }
}
