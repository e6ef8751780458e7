// DoctorModelTests: `tideline doctor --models` names the rules and references in which an app and a server differ.

import Foundation
import Testing
import Tideline

extension ProcessTests {
    struct DoctorModelTests {
        private struct Customer: SyncRecord {
            static let rules: [Rule<Customer>] = [.maxLength(\.name, 20)]
            var id = ""
            var name = ""
        }

        private struct Job: SyncRecord {
            static let references = [
                Reference(\Job.customerID, to: Customer.self, onDelete: .cascade)
            ]
            var id = ""
            var customerID: String?
        }

        private struct Visit: SyncRecord {
            static let references = [Reference(\Visit.jobID, to: Job.self, onDelete: .cascade)]
            var id = ""
            var jobID: String?
        }

        /// Tables of the models with another rule, another effect of a delete, and without a reference.
        private static let configuration = """
            {"tables": {
              "Customer": {"columns": {
                "name": {"type": "string", "nullable": false, "default": "", "maxLength": 10}}},
              "Job": {
                "columns": {"customerID": "string"},
                "references": {"customerID": {"table": "Customer", "onDelete": "setNull"}}},
              "Visit": {"columns": {"jobID": "string"}}}}
            """

        @Test("Doctor reports a different rule, a different reference and a missing one")
        func differences() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: Self.configuration
                )
                let document = try SchemaDocument(of: [Customer.self, Job.self, Visit.self]).json
                let models = try workspace.file("models.json", document)
                let ended = try await workspace.run(
                    .tideline,
                    ["doctor", "--server", "\(server.url)", "--models", models, "--json"]
                )
                #expect(ended.code == 1, "\(ended.error)")
                for difference in [
                    "Customer.name: app and server have different rules",
                    "Job.customerID: app and server have different references",
                    "Visit.jobID: app and server have different references",
                ] {
                    #expect(ended.output.contains(difference), "\(ended.output)")
                }
                let faults = ended.output.components(separatedBy: "app and server have different")
                #expect(faults.count == 4, "\(ended.output)")
            }
        }
    }
}
