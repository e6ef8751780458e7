// Totals: the sums of all jobs, read with SQL.

import Tideline

/// The minutes of the visits and the costs of the parts, by status and by customer.
nonisolated struct Totals: Equatable {
    /// A line of the table.
    struct Line: Decodable, Identifiable, Equatable {
        var id: String
        var name: String
        var minutes: Int
        var cents: Int
    }

    var byStatus: [Line]
    /// The customers with jobs, those with the most minutes first.
    var byCustomer: [Line]

    init(_ reader: SyncReader) throws {
        let jobs: SQLQuery = """
            SELECT customerID, status,
                (SELECT sum(minutes) FROM Visit WHERE jobID = Job.id) AS minutes,
                (SELECT sum(quantity * cents) FROM Part WHERE jobID = Job.id) AS cents
            FROM Job
            """
        byStatus = try reader.sql(
            """
            SELECT status AS id, status AS name,
                coalesce(sum(minutes), 0) AS minutes, coalesce(sum(cents), 0) AS cents
            FROM (\(jobs))
            GROUP BY status ORDER BY status
            """,
            as: Line.self
        )
        byCustomer = try reader.sql(
            """
            SELECT Customer.id AS id, Customer.name AS name,
                coalesce(sum(minutes), 0) AS minutes, coalesce(sum(cents), 0) AS cents
            FROM (\(jobs)) JOIN Customer ON Customer.id = customerID
            GROUP BY Customer.id ORDER BY 3 DESC, 2
            """,
            as: Line.self
        )
    }
}
