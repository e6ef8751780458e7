// Doctor+Conditions: checks whether `If-Match` reaches the server. A proxy that drops it turns a
// conditional write into one that overwrites.

import Foundation
import Tideline
import TidelineCore

extension Doctor {
    /// The maximum number of tables that are searched for a row to read.
    private static let searchedTablesMax = 20

    /// Reads a row with a condition that is false; the server has to reject the request.
    func checkConditions(_ names: [String], _ asker: Asker, _ findings: inout Findings) async {
        var empty: String?
        for name in names.prefix(Self.searchedTablesMax) {
            guard let path = Self.segment(name),
                let list = try? await asker.get("/tables/\(path)?$top=1", signed: true),
                list.status == 200
            else { continue }
            guard let row = Self.firstID(list.body).flatMap(Self.segment) else {
                empty = empty ?? path
                continue
            }
            let answer = try? await asker.get(
                "/tables/\(path)/\(row)",
                signed: true,
                headers: ["If-Match": "\"tideline-doctor\""]
            )
            guard let answer, answer.status == 412 || answer.status == 200 else { continue }
            if answer.status == 412 {
                findings.add(
                    "conditions",
                    .fine,
                    "The server rejects a request whose condition is false."
                )
            } else {
                Self.addDropped(&findings)
            }
            return
        }
        // No row to read: the server rejects an unterminated list of tags if it receives it.
        guard let empty else { return }
        let answer = try? await asker.get(
            "/tables/\(empty)/tideline-doctor",
            signed: true,
            headers: ["If-Match": "\"tideline-doctor"]
        )
        if answer?.status == 404 { Self.addDropped(&findings) }
    }

    private static func addDropped(_ findings: inout Findings) {
        findings.add(
            "conditions",
            .fault,
            "The server does not receive the header field 'If-Match': a proxy drops it, so a device may "
                + "overwrite the changes of another device. Configure the proxy to pass 'If-Match' on "
                + "unchanged (nginx: remove 'proxy_set_header If-Match'; Apache: remove 'RequestHeader "
                + "unset If-Match')."
        )
    }

    /// Returns a name encoded as one segment of a path.
    private static func segment(_ name: String) -> String? {
        let allowed = CharacterSet.urlPathAllowed.subtracting(CharacterSet(charactersIn: "/"))
        return name.addingPercentEncoding(withAllowedCharacters: allowed)
    }

    private static func firstID(_ body: [UInt8]) -> String? {
        let object = (try? JSONSerialization.jsonObject(with: Data(body))) as? [String: Any]
        return (object?["items"] as? [[String: Any]])?.first?["id"] as? String
    }
}
