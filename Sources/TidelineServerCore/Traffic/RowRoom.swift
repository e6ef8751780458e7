// RowRoom: what a row that is read by itself takes of the memory for answers before it is made.
//
// How large it is, only the row tells: the database asks when it stands on the row, and before it
// copies anything of it. Where there is no room it says in which state the row is, and lets it go:
// who gets no row does not wait, and who waits holds nothing.

package final class RowRoom: Sendable {
    /// There is no room now for the row, which is in this state.
    package struct Lacking: Error {
        package let state: RowState
    }

    private let room: AnswerRoom

    package init(in room: AnswerRoom) {
        self.room = room
    }

    /// Room for a row of so many bytes; small ones need none.
    ///
    /// - Throws: ``Lacking`` when there is none.
    package func take(bytes: Int, of state: RowState) throws(Lacking) {
        guard bytes > AnswerMemory.smallBytes else { return }
        guard room.take(beside: bytes) else { throw Lacking(state: state) }
    }
}

extension TableService {
    /// Reads a row and makes its answer, with what that holds of the memory for answers when it is
    /// large.
    ///
    /// - Parameters:
    ///   - read: Reads the row; ``RowRoom/Lacking`` from it is waited for.
    ///   - make: Makes the answer. Of a row that there is no room for, it gets the state and no bytes:
    ///     nobody waits for an answer that has none.
    /// - Returns: The answer, with its share where it is large.
    /// - Throws: What both throw, and ``ServerError/noRoomInBatch``.
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
