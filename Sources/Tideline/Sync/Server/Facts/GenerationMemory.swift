// GenerationMemory: the generation of a server, as far as its responses have shown it.
//
// Pure. It evaluates a response, and returns whether to resend the request in the other dialect.

import Foundation
import TidelineCore

/// The signs of a server's generation in a response.
package struct AnswerSigns: Sendable, Hashable {
    package var status: Int
    /// Whether a rejection mentions `ZUMO-API-VERSION`, because the server does not support the
    /// client's version.
    package var rejectsVersion = false
    /// Whether `x-zumo-server-version` identifies an original server.
    package var namesClassicServer = false
    /// Whether the response has a header field that only Tideline servers send.
    package var namesTideline = false
    /// Whether the body is an envelope with `items`, which classic servers never send.
    package var isEnvelope = false
    /// Whether the body is a bare array and the response has a `Link` without angle brackets, as
    /// the original servers send it.
    package var isClassicPage = false

    package init(status: Int) { self.status = status }

    package init(_ response: TransportResponse) {
        status = response.status
        let server = response.headers["x-zumo-server-version"]?.lowercased() ?? ""
        namesClassicServer = server.hasPrefix("node-") || server.hasPrefix("net-")
        namesTideline = response.headers["Tideline-Epoch"] != nil
        let start = response.body.lazy.filter { !Self.isSpace($0) }.prefix(10)
        isEnvelope = response.status == 200 && start.elementsEqual(#"{"items":["#.utf8)
        isClassicPage =
            response.status == 200 && start.first == UInt8(ascii: "[")
            && response.headers["Link"]?.contains("<") == false
        rejectsVersion =
            response.status == 400
            && String(decoding: response.body.prefix(Self.rejectionBytesMax), as: UTF8.self)
                .uppercased().contains("ZUMO-API-VERSION")
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (9...13).contains(byte) }

    /// The maximum number of bytes of a rejection that are searched for the name of the header
    /// field.
    private static let rejectionBytesMax = 4096
}

/// The known generation of the server at an endpoint.
package struct GenerationMemory: Sendable, Hashable {
    /// The certainty of a sign.
    package enum Confidence: Int, Sendable, Comparable {
        /// A server of the other generation could have sent the sign with unusual settings.
        case likely
        /// No server of the other generation sends the sign.
        case certain

        package static func < (left: Confidence, right: Confidence) -> Bool {
            left.rawValue < right.rawValue
        }
    }

    private enum Knowledge: Sendable, Hashable {
        case nothing
        /// An earlier run of the app determined the generation; the server may have been replaced
        /// since then.
        case remembered(ServerDialect)
        case learned(ServerDialect, Confidence)
    }

    private let setting: ServerGeneration
    private var knowledge = Knowledge.nothing

    package init(_ setting: ServerGeneration) { self.setting = setting }

    /// The dialect of the next request.
    package var dialect: ServerDialect {
        switch (setting, knowledge) {
        case (.classic, _): .classic
        case (.datasync, _), (_, .nothing): .datasync
        case (_, .remembered(let dialect)), (_, .learned(let dialect, _)): dialect
        }
    }

    /// Whether the app specified the generation, or a response in this run showed it.
    package var isKnown: Bool {
        if setting != .automatic { return true }
        if case .learned(_, .certain) = knowledge { return true }
        return false
    }

    /// The dialect to store for later runs; nil if none was determined.
    package var learned: ServerDialect? {
        guard setting == .automatic, case .learned(let dialect, _) = knowledge else { return nil }
        return dialect
    }

    /// Uses the dialect of an earlier run, unless this run has already determined one.
    package mutating func remember(_ dialect: ServerDialect?) {
        if case .nothing = knowledge, let dialect { knowledge = .remembered(dialect) }
    }

    /// Evaluates the response to a request.
    ///
    /// - Parameters:
    ///   - signs: The signs in the response.
    ///   - asked: The dialect of the request.
    /// - Returns: Whether the request had no effect and has to be resent, because the server
    ///   rejected its version, or its syntax, which an earlier run had determined.
    package mutating func note(_ signs: AnswerSigns, asked: ServerDialect) -> Bool {
        guard setting == .automatic else { return false }
        if let (dialect, confidence) = Self.meaning(signs, asked: asked) {
            learn(dialect, confidence)
            return signs.rejectsVersion && dialect != asked
        }
        guard signs.status == 400, asked == .classic, case .remembered(.classic) = knowledge else {
            return false
        }
        // The server may have been replaced by one that cannot read classic filters.
        knowledge = .nothing
        return true
    }

    /// Returns the generation that a response shows, and how certain that is; nil if the response
    /// shows none.
    package static func meaning(
        _ signs: AnswerSigns,
        asked: ServerDialect
    ) -> (ServerDialect, Confidence)? {
        if signs.namesTideline { return (.datasync, .certain) }
        if signs.namesClassicServer { return (.classic, .certain) }
        if signs.isEnvelope { return (.datasync, .certain) }
        if signs.rejectsVersion { return (asked.other, .certain) }
        return signs.isClassicPage ? (.classic, .likely) : nil
    }

    private mutating func learn(_ dialect: ServerDialect, _ confidence: Confidence) {
        switch knowledge {
        case .nothing:
            knowledge = .learned(dialect, confidence)
        case .remembered(let known), .learned(let known, _):
            // A likely sign does not override a known generation.
            if known == dialect || confidence == .certain {
                knowledge = .learned(dialect, confidence)
            }
        }
    }
}
