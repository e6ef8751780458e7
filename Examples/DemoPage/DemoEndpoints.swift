// DemoEndpoints: the endpoints of the server for the demo page and its requests.

import Foundation
import Tideline
import TidelineServer
import TodoAppModel

enum DemoEndpoints {
    static let path = "/api/demo"

    static func all(_ phones: Phones) -> [Endpoint] {
        [
            file("", "text/html; charset=utf-8", PackageResources.index_html),
            file("/style.css", "text/css; charset=utf-8", PackageResources.style_css),
            file("/demo.js", "text/javascript; charset=utf-8", PackageResources.demo_js),
            Endpoint("GET", "\(path)/state") { call in
                let server = await call.send(
                    ServerRequest(
                        method: "GET",
                        path: "/tables/\(TodoItem.tableName)",
                        query: "__includedeleted=true&$orderby=text,id&$top=100"
                    )
                )
                let states = try JSONEncoder().encode(try await phones.states())
                let rows = server.status == 200 ? server.body : Array("[]".utf8)
                return json(
                    Array(#"{"phones":"#.utf8) + states + Array(#","rows":"#.utf8) + rows + [0x7D]
                )
            },
            Endpoint("POST", "\(path)/act") { call in
                // A form on another site cannot send this content type.
                let type = call.request.headers["Content-Type"] ?? ""
                guard type.hasPrefix("application/json"),
                    let action = try? JSONDecoder().decode(
                        PhoneAction.self,
                        from: Data(call.request.body)
                    )
                else { throw Rejection(400, "The body is not a JSON action of the page.") }
                guard await phones.perform(action) else {
                    throw Rejection(404, "The phone, the item or the conflict does not exist.")
                }
                return json(Array("{}".utf8))
            },
        ]
    }

    private static func file(_ name: String, _ type: String, _ body: [UInt8]) -> Endpoint {
        Endpoint("GET", path + name) { _ in
            ServerResponse(
                status: 200,
                headers: [
                    "Content-Type": type,
                    "Cache-Control": "no-cache",
                    "Content-Security-Policy":
                        "default-src 'self'; img-src data:; frame-ancestors 'none'",
                    "X-Content-Type-Options": "nosniff",
                ],
                body: body
            )
        }
    }

    private static func json(_ body: [UInt8]) -> ServerResponse {
        ServerResponse(
            status: 200,
            headers: ["Content-Type": "application/json", "Cache-Control": "no-store"],
            body: body
        )
    }
}
