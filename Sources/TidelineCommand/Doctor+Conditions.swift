// Doctor+Conditions: checks whether `If-Match` reaches the server. A proxy that drops it turns a
// conditional write into one that overwrites.

import Foundation
import Tideline
import TidelineCore

extension Doctor {
    /// The most tables that are searched for a row to read.
    private static let searchedTablesMax = 20

    /// Reads a row with a condition that does not hold: the server has to reject it.
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
                    "A request with a condition that does not hold is refused."
                )
            } else {
                Self.addDropped(&findings)
            }
            return
        }
        // Without a row: an unterminated list of tags is rejected, if it arrives.
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
            "A request with a condition that does not hold is answered as if it had none: something "
                + "before the server drops the header field 'If-Match', and a device may overwrite "
                + "what another one wrote. Let the proxy pass 'If-Match' on unchanged (nginx: remove "
                + "'proxy_set_header If-Match'; Apache: 'RequestHeader unset If-Match')."
        )
    }

    /// Returns a name as one segment of a path.
    private static func segment(_ name: String) -> String? {
        let allowed = CharacterSet.urlPathAllowed.subtracting(CharacterSet(charactersIn: "/"))
        return name.addingPercentEncoding(withAllowedCharacters: allowed)
    }

    private static func firstID(_ body: [UInt8]) -> String? {
        let object = (try? JSONSerialization.jsonObject(with: Data(body))) as? [String: Any]
        return (object?["items"] as? [[String: Any]])?.first?["id"] as? String
    }
}
