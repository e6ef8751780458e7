// DashboardPage: the page of the operators.
//
// They are plain HTML, CSS and ES modules in Page/. Package.swift embeds them without a build tool.

/// A file of the dashboard.
package struct PageFile: Sendable {
    package let name: String
    package let type: String
    package let body: [UInt8]
}

/// The files of the dashboard, embedded in the binary.
package enum DashboardPage {
    private static let script = "text/javascript; charset=utf-8"

    /// All files; `index.html` loads the others.
    package static var files: [PageFile] {
        [
            PageFile(
                name: "index.html",
                type: "text/html; charset=utf-8",
                body: PackageResources.index_html
            ),
            PageFile(
                name: "style.css",
                type: "text/css; charset=utf-8",
                body: PackageResources.style_css
            ),
            PageFile(name: "main.js", type: script, body: PackageResources.main_js),
            PageFile(name: "server.js", type: script, body: PackageResources.server_js),
            PageFile(name: "rows.js", type: script, body: PackageResources.rows_js),
            PageFile(name: "editor.js", type: script, body: PackageResources.editor_js),
            PageFile(name: "filter.js", type: script, body: PackageResources.filter_js),
            PageFile(name: "files.js", type: script, body: PackageResources.files_js),
            PageFile(name: "status.js", type: script, body: PackageResources.status_js),
            PageFile(name: "element.js", type: script, body: PackageResources.element_js),
        ]
    }
}
