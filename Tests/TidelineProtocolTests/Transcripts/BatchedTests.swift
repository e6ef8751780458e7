// Tests of single requests, run again with each request in a separate batch.

import ServerTestSupport
import Testing

@Suite struct BatchedTests {
    @Test("The recorded calls get the same responses in batches")
    func recordedCalls() async throws {
        try await TestServer.$usesBatches.withValue(true) {
            try await TranscriptTests().answersAsRecorded()
        }
    }

    @Test(
        "Conditions apply to requests in batches",
        arguments: ConditionTests.cases,
        [true, false]
    )
    func conditions(
        _ item: (field: String, value: String, read: Int, write: Int),
        _ isClassic: Bool
    ) async throws {
        try await TestServer.$usesBatches.withValue(true) {
            try await ConditionTests().applyToEveryMethod(item, isClassic)
        }
    }
}
