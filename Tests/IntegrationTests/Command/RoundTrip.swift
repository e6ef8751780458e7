// RoundTrip: tables with every type of column, and the models that 'tideline models' printed for them.

import Foundation
import Tideline

/// Tables that are printed as models, and whose models are printed as tables.
enum RoundTrip {
    static let configuration = #"""
        {"database": "sqlite:a.db", "tables": {
          "Port": {"columns": {
            "name": {"type": "string", "nullable": false, "maxLength": 40,
                     "required": true, "pattern": "[^<]*"}}},
          "Ship": {"columns": {
            "title": {"type": "string", "nullable": false, "default": "a \"b\" \\(c)"},
            "note": "string", "remark": {"type": "string", "default": "none"},
            "crew": {"type": "integer", "nullable": false, "min": 0, "max": 50},
            "berths": {"type": "integer", "default": 4},
            "draft": {"type": "decimal", "default": 1.5, "min": 0.25},
            "speed": {"type": "number", "nullable": false, "default": 2},
            "isAfloat": {"type": "boolean", "nullable": false, "default": true},
            "built": "date", "sold": {"type": "date", "nullable": false, "default": "2026-11-20"},
            "watch": {"type": "time", "nullable": false}, "bell": {"type": "time", "default": "12:30:00.000"},
            "seen": "dateTime", "due": {"type": "dateTime", "nullable": false},
            "tag": {"type": "guid", "nullable": false},
            "key": {"type": "guid", "default": "00112233-4455-6677-8899-aabbccddeeff"},
            "photo": {"type": "binary", "nullable": false}, "scan": {"type": "binary", "default": "AQI="},
            "extra": {"type": "json", "nullable": false}, "tags": "json",
            "state": {"enum": ["open", "in work", "class", ""], "nullable": false,
                      "default": "in work"},
            "old": {"enum": ["a", "b"]}, "kind": {"enum": ["x", "y"], "default": "y"},
            "next": "string", "portID": "string", "self": "string"},
           "unique": [["title", "sold"]], "compare": [["seen", "<=", "due"], ["note", "!=", "title"]],
           "references": {"portID": {"table": "Port", "onDelete": "setNull"},
                          "next": {"table": "Ship", "onDelete": "cascade"}}}}}
        """#

    static let types: [any SyncRecord.Type] = [Port.self, Ship.self]

    static let models = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "RoundTripModels.swift")
}
