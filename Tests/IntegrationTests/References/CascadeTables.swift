// CascadeTables: customers with jobs and visits that are deleted with them, for tests that kill programs.

enum CascadeTables {
    /// The member `tables` of a server's configuration.
    static let json = """
        "tables": {
          "Customer": { "columns": { "name": "string" } },
          "Job": {
            "columns": { "customerID": "string" },
            "references": { "customerID": { "table": "Customer", "onDelete": "cascade" } }
          },
          "Visit": {
            "columns": { "jobID": "string", "nextID": "string" },
            "references": {
              "jobID": { "table": "Job", "onDelete": "cascade" },
              "nextID": { "table": "Visit", "onDelete": "setNull" }
            }
          }
        }
        """
}
