// FormatOne: a store file of format 1 with a full queue, as SQL: the edits, deletes, lost answer and two rejections
// that the first version of the SDK stored.

import Foundation
import TidelineSQLite

enum FormatOne {
    /// Creates the file.
    static func make(_ path: String) throws {
        let database = try Database(path: path)
        try database.execute(sql)
        try database.execute("PRAGMA application_id = 1414087749; PRAGMA user_version = 1")
        try database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    private static let sql = #"""
        CREATE TABLE "Note" (
            "id" TEXT PRIMARY KEY NOT NULL,
            "createdAt" INTEGER,
            "updatedAt" INTEGER,
            "version" TEXT,
            "body" TEXT,
            "__extra" TEXT
        );
        INSERT INTO Note VALUES('note',NULL,NULL,NULL,'a note',NULL);
        CREATE TABLE "Todo" (
            "id" TEXT PRIMARY KEY NOT NULL,
            "createdAt" INTEGER,
            "updatedAt" INTEGER,
            "version" TEXT,
            "text" TEXT,
            "complete" INTEGER,
            "rank" INTEGER,
            "__extra" TEXT
        );
        INSERT INTO Todo VALUES('conflict',1767225600000,1767225602000,'v2','mine',0,1,NULL);
        INSERT INTO Todo VALUES('refused',1767225600000,1767225603000,'v3','refused text',0,1,NULL);
        INSERT INTO Todo
            VALUES('revived',1767225600000,1767225622000,'v22','anew again',0,NULL,NULL);
        INSERT INTO Todo VALUES('behind',1767225600000,1767225601000,'v1','first',0,2,NULL);
        INSERT INTO Todo VALUES('edited',1767225600000,1767225608000,'v8','two words',0,1,NULL);
        INSERT INTO Todo
            VALUES('replaced',1767225600000,1767225605000,'v5','second life',0,NULL,NULL);
        INSERT INTO Todo
            VALUES('older',1767225600000,1767225606000,'v6','from an old screen',0,1,NULL);
        INSERT INTO Todo VALUES('new',NULL,NULL,NULL,'new' || char(10) || 'with "quotes"',0,9,NULL);
        CREATE TABLE "MS_TableOperations" (
            "id" INTEGER PRIMARY KEY NOT NULL,
            "itemId" TEXT,
            "properties" BLOB,
            "table" TEXT,
            "tableKind" INTEGER,
            "state" INTEGER
        );
        INSERT INTO MS_TableOperations VALUES(1,'conflict',CAST(
            '{"type":1,"request":{"method":"PATCH","query":"","ifMatch":"\"v2\"","requestID'
            || '":"89005468-2b8b-4179-b57e-6ad5f61583f8","firstSent":"2027-01-15T08:00:00.000Z'
            || '","body":"{\"text\":\"mine\"}","sentRow":{"id":"conflict","createdAt":"2026-01'
            || '-01T00:00:00.000Z","updatedAt":"2026-01-01T00:00:02.000Z","version":"v2","text'
            || '":"mine","complete":false,"rank":1}}}'
            AS BLOB),'Todo',0,2);
        INSERT INTO MS_TableOperations VALUES(2,'refused',CAST(
            '{"type":1,"request":{"method":"PATCH","query":"","ifMatch":"\"v3\"","requestID'
            || '":"9edb3d6e-b217-4e20-90d5-6b59512a2e5b","firstSent":"2027-01-15T08:00:00.000Z'
            || '","body":"{\"text\":\"refused text\"}","sentRow":{"id":"refused","createdAt":"'
            || '2026-01-01T00:00:00.000Z","updatedAt":"2026-01-01T00:00:03.000Z","version":"v3'
            || '","text":"refused text","complete":false,"rank":1}}}'
            AS BLOB),'Todo',0,2);
        INSERT INTO MS_TableOperations VALUES(4,'behind',CAST(
            '{"type":1,"request":{"method":"PATCH","query":"","ifMatch":"\"v1\"","requestID'
            || '":"538e1f70-cf74-48cc-8bc1-07b036f334fe","firstSent":"2027-01-15T08:00:00.000Z'
            || '","body":"{\"text\":\"first\"}","sentRow":{"id":"behind","createdAt":"2026-01-'
            || '01T00:00:00.000Z","updatedAt":"2026-01-01T00:00:01.000Z","version":"v1","text"'
            || ':"first","complete":false,"rank":1}}}'
            AS BLOB),'Todo',0,1);
        INSERT INTO MS_TableOperations VALUES(5,'behind',CAST(
            '{"type":1}'
            AS BLOB),'Todo',0,0);
        INSERT INTO MS_TableOperations VALUES(6,'edited',CAST(
            '{"type":1}'
            AS BLOB),'Todo',0,0);
        INSERT INTO MS_TableOperations VALUES(7,'gone',CAST(
            '{"type":2}'
            AS BLOB),'Todo',0,0);
        INSERT INTO MS_TableOperations VALUES(8,'replaced',CAST(
            '{"type":1,"sendsWholeRow":true}'
            AS BLOB),'Todo',0,0);
        INSERT INTO MS_TableOperations VALUES(9,'older',CAST(
            '{"type":1,"basisVersion":"v0","sendsWholeRow":true}'
            AS BLOB),'Todo',0,0);
        INSERT INTO MS_TableOperations VALUES(10,'new',CAST(
            '{"type":0}'
            AS BLOB),'Todo',0,0);
        INSERT INTO MS_TableOperations VALUES(11,'note',CAST(
            '{"type":0}'
            AS BLOB),'Note',0,0);
        CREATE TABLE "MS_TableOperationErrors" (
            "id" TEXT PRIMARY KEY NOT NULL,
            "operationId" INTEGER,
            "properties" BLOB,
            "tableKind" INTEGER
        );
        INSERT INTO MS_TableOperationErrors VALUES('c624cf01-0347-49bd-b587-e5d9de53c768',1,CAST(
            '{"table":"Todo","itemId":"conflict","operation":1,"statusCode":412,"descriptio'
            || 'n":"The update of row ''conflict'' in table ''Todo'' met another change on the'
            || ' server (412). Settle it with both rows.","item":{"id":"conflict","createdAt":'
            || '"2026-01-01T00:00:00.000Z","updatedAt":"2026-01-01T00:00:02.000Z","version":"v'
            || '2","text":"mine","complete":false,"rank":1},"serverItem":{"id":"conflict","tex'
            || 't":"theirs","complete":false,"rank":null,"createdAt":"2026-01-01T00:00:00.000Z'
            || '","updatedAt":"2026-01-01T00:00:20.000Z","version":"v20","deleted":false}}'
            AS BLOB),0);
        INSERT INTO MS_TableOperationErrors VALUES('183794a3-48eb-4c00-8651-2ec80e3280ae',2,CAST(
            '{"table":"Todo","itemId":"refused","operation":1,"statusCode":422,"description'
            || '":"The update of row ''refused'' in table ''Todo'' was refused by the server ('
            || '422): too long.","item":{"id":"refused","createdAt":"2026-01-01T00:00:00.000Z"'
            || ',"updatedAt":"2026-01-01T00:00:03.000Z","version":"v3","text":"refused text","'
            || 'complete":false,"rank":1}}'
            AS BLOB),0);
        CREATE TABLE "MS_TableConfig" (
            "id" TEXT PRIMARY KEY NOT NULL,
            "key" TEXT,
            "keyType" INTEGER,
            "table" TEXT,
            "value" TEXT
        );
        INSERT INTO MS_TableConfig VALUES('operation|last','operation',2,'','11');
        CREATE TABLE "MS_TableBases" (
            "id" TEXT PRIMARY KEY NOT NULL,
            "table" TEXT,
            "itemId" TEXT,
            "properties" BLOB
        );
        INSERT INTO MS_TableBases
            VALUES(replace('Todo\nconflict','\n',char(10)),'Todo','conflict',CAST(
            '{"base":{"id":"conflict","createdAt":"2026-01-01T00:00:00.000Z","updatedAt":"2'
            || '026-01-01T00:00:02.000Z","version":"v2","text":"base of conflict","complete":f'
            || 'alse,"rank":1},"latest":{"id":"conflict","text":"theirs","complete":false,"ran'
            || 'k":null,"createdAt":"2026-01-01T00:00:00.000Z","updatedAt":"2026-01-01T00:00:2'
            || '0.000Z","version":"v20","deleted":false}}'
            AS BLOB));
        INSERT INTO MS_TableBases
            VALUES(replace('Todo\nrefused','\n',char(10)),'Todo','refused',CAST(
            '{"base":{"id":"refused","createdAt":"2026-01-01T00:00:00.000Z","updatedAt":"20'
            || '26-01-01T00:00:03.000Z","version":"v3","text":"base of refused","complete":fal'
            || 'se,"rank":1}}'
            AS BLOB));
        INSERT INTO MS_TableBases VALUES(replace('Todo\nbehind','\n',char(10)),'Todo','behind',CAST(
            '{"base":{"id":"behind","createdAt":"2026-01-01T00:00:00.000Z","updatedAt":"202'
            || '6-01-01T00:00:01.000Z","version":"v1","text":"base of behind","complete":false'
            || ',"rank":1}}'
            AS BLOB));
        INSERT INTO MS_TableBases VALUES(replace('Todo\nedited','\n',char(10)),'Todo','edited',CAST(
            '{"base":{"id":"edited","createdAt":"2026-01-01T00:00:00.000Z","updatedAt":"202'
            || '6-01-01T00:00:08.000Z","version":"v8","text":"base of edited","complete":false'
            || ',"rank":1}}'
            AS BLOB));
        INSERT INTO MS_TableBases VALUES(replace('Todo\ngone','\n',char(10)),'Todo','gone',CAST(
            '{"base":{"id":"gone","createdAt":"2026-01-01T00:00:00.000Z","updatedAt":"2026-'
            || '01-01T00:00:04.000Z","version":"v4","text":"base of gone","complete":false,"ra'
            || 'nk":1}}'
            AS BLOB));
        INSERT INTO MS_TableBases
            VALUES(replace('Todo\nreplaced','\n',char(10)),'Todo','replaced',CAST(
            '{"base":{"id":"replaced","createdAt":"2026-01-01T00:00:00.000Z","updatedAt":"2'
            || '026-01-01T00:00:05.000Z","version":"v5","text":"base of replaced","complete":f'
            || 'alse,"rank":1}}'
            AS BLOB));
        INSERT INTO MS_TableBases VALUES(replace('Todo\nolder','\n',char(10)),'Todo','older',CAST(
            '{"base":{"id":"older","createdAt":"2026-01-01T00:00:00.000Z","updatedAt":"2026'
            || '-01-01T00:00:06.000Z","version":"v6","text":"base of older","complete":false,"'
            || 'rank":1}}'
            AS BLOB));
        CREATE INDEX "MS_TableOperations_index"
        ON "MS_TableOperations" ("table", "itemId");
        CREATE INDEX "MS_TableOperationErrors_index"
        ON "MS_TableOperationErrors" ("operationId");
        CREATE INDEX "MS_TableBases_index"
        ON "MS_TableBases" ("table");
        """#
}
