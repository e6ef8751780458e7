// RowRoom: the memory reservation for a row that is read by itself, made before the row is built.
//
// Only the row itself shows how large it is: the database asks when its cursor is on the row, before it
// copies any of it. If there is too little memory, it returns the state of the row and releases it.
// A request that gets no row does not wait, and a waiting request keeps no reservation.

package final class RowRoom: Sendable {
    /// The error for too little memory for the row, which is in this state.
    package struct Lacking: Error {
        package let state: RowState
    }

    private let room: AnswerRoom

    package init(in room: AnswerRoom) {
        self.room = room
    }

    /// Reserves memory for a row of so many bytes; small ones need none.
    ///
    /// - Throws: ``Lacking`` if there is too little.
    package func take(bytes: Int, of state: RowState) throws(Lacking) {
        guard bytes > AnswerMemory.smallBytes else { return }
        guard room.take(beside: bytes) else { throw Lacking(state: state) }
    }
}

extension TableService {
    /// Reads a row and builds its answer, with its share of the memory for answers if it is large.
    ///
    /// - Parameters:
    ///   - read: Reads the row; ``RowRoom/Lacking`` from it is waited for.
    ///   - make: Builds the answer. For a row that exceeds the memory, it gets the state and no bytes: an
    ///     answer without a row does not wait.
    /// - Returns: The answer, with its share if it is large.
    /// - Throws: The errors of both, and ``ServerError/noRoomInBatch``.
    func makeRowAnswer(
        _ read: (RowRoom) async throws -> StoredRow?,
        _ make: (StoredRow?) throws -> ServerResponse
    ) async throws -> ServerResponse {
        let batch = AnswerRoom.ofBatch
        let room = batch ?? AnswerRoom(in: settings.traffic.answers)
        while true {
            do {
                var answer = try make(try await read(RowRoom(in: room)))
                let bytes = answer.body.count
                // As JSON it may be larger than it is stored.
                if bytes <= AnswerMemory.smallBytes || room.take(beside: bytes) {
                    if batch == nil { answer.share = room.share }
                    return answer
                }
            } catch let lacking as RowRoom.Lacking {
                let answer = try make(StoredRow(json: [], state: lacking.state))
                if answer.status == 304 { return answer }
            }
            guard room.mayWait else { throw ServerError.noRoomInBatch }
            try await room.wait()
        }
    }
}
