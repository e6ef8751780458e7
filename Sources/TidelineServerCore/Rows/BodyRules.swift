// BodyRules: the checks on a body before it is read.

extension TableCall {
    /// Rejects bodies of other types, and encoded bodies.
    func checkBody(isPatch: Bool = false) throws {
        if !request.body.isEmpty, head.isCoded { throw ServerError.codedBody }
        if isPatch { return }
        guard let type = head.bodyType else {
            if generation == .datasync { throw ServerError.notJSON }
            return
        }
        if type != .json { throw ServerError.notJSON }
    }
}
