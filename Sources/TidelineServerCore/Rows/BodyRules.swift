// BodyRules: the checks on a body before it is read.

extension TableCall {
    /// Rejects bodies of other types, and those that would have to be decoded first.
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
