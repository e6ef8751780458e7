// ListLinks: next and delta links.

import TidelineCore

/// The links of a list: to the rows after a page, or to the changes after the last one.
struct ListLinks: Sendable {
    typealias Parameters = [QueryParameters.Parameter]

    /// The link to the rows after the page; nil if there are none.
    var next: Parameters?
    /// The link to the changes after the list.
    var delta: Parameters?
}

extension ListPlan {
    /// Returns the parameters of the link to the rows after `page`, or nil if there are none.
    ///
    /// A list with change tracking is always read to its end; `$top` limits a page, not the list.
    func nextParameters(
        after page: ListPage,
        of parameters: QueryParameters,
        token: DeltaToken? = nil
    ) -> ListLinks.Parameters? {
        guard let keys = page.next else { return nil }
        var top = options.top.map { token == nil ? $0 - page.rows : $0 }
        if top == 0 {
            // A datasync caller has all the rows that it requested; a classic caller pages by links of one size.
            guard generation == .classic else { return nil }
            top = options.top
        }
        var result = parameters.withoutPosition
        if let top {
            for place in result.indices where ASCII.equal(result[place].name, "$top") {
                result[place].value = String(top)
            }
        }
        let place = PageToken(keys, version: page.nextVersion)
        result.append(.init(name: "$skiptoken", value: place.text))
        if let token { result.append(.init(name: "$deltatoken", value: token.text)) }
        return result
    }

    /// Returns the request for the changes after `after` that the caller may see.
    func changes(
        after timestamp: Int64,
        view: QueryExpression?,
        limits: ServerLimits
    ) -> ChangeRequest {
        var changes = ChangeRequest(
            after: timestamp,
            rowsMax: max(1, request.rowsMax),
            bytesMax: request.bytesMax
        )
        changes.view = view
        changes.scanMax = limits.changeScan
        changes.filter = request.filter
        changes.select = request.select
        changes.wantsCount = request.wantsCount
        changes.opening = request.opening
        return changes
    }
}

extension QueryParameters {
    /// All parameters without the position of a page.
    fileprivate var withoutPosition: [Parameter] {
        all.filter { parameter in
            !ASCII.equal(parameter.name, "$skip") && !ASCII.equal(parameter.name, "$skiptoken")
                && !ASCII.equal(parameter.name, "$deltatoken")
        }
    }

    /// The parameters of the delta link that the request used.
    var linkAgain: [Parameter] {
        withoutPosition + all.filter { ASCII.equal($0.name, "$deltatoken") }
    }

    /// Returns the parameters of the delta link for a token.
    func link(_ token: DeltaToken) -> [Parameter] {
        withoutPosition + [Parameter(name: "$deltatoken", value: token.text)]
    }
}

extension QueryParameters.Parameter {
    /// Returns a percent-encoded query string, without the question mark.
    package static func query(_ parameters: [QueryParameters.Parameter]) -> String {
        var text: [UInt8] = []
        for parameter in parameters {
            if !text.isEmpty { text.append(UInt8(ascii: "&")) }
            PercentCoding.encode(parameter.name, into: &text)
            text.append(UInt8(ascii: "="))
            PercentCoding.encode(parameter.value, into: &text)
        }
        return String(decoding: text, as: UTF8.self)
    }
}
