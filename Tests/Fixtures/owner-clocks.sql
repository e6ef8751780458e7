
SELECT pg_catalog.set_config('search_path', '', false);

CREATE SCHEMA tideline;

CREATE FUNCTION tideline.instant(stamp bigint) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT timestamptz 'epoch' + (stamp / 1000000) * interval '1 second'
        + (stamp % 1000000) * interval '1 microsecond'
$$;

CREATE FUNCTION tideline."keep.Note"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO '$user', 'public', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO tideline.owner_moved VALUES ('note', coalesce(OLD."userId", ''), OLD."version" / 1000);
INSERT INTO tideline."log.Note"
("tideline_stamp", "tideline_deleted", "tideline_owner", "id", "userId")
VALUES (-nextval('tideline.marks'), TRUE, coalesce(OLD."userId", ''), OLD."id", OLD."userId");

RETURN OLD;
END $$;

CREATE FUNCTION tideline."keep.TodoItem"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO '$user', 'public', 'pg_temp'
    AS $$
BEGIN
    IF pg_trigger_depth() > 1 AND EXISTS (
    SELECT 1 FROM pg_constraint AS c
    WHERE c.conrelid = TG_RELID AND c.contype = 'f' AND c.confdeltype = 'c'
) THEN
    INSERT INTO tideline.owner_moved VALUES ('todoitem', coalesce(OLD."userId", ''), OLD."version" / 1000);
INSERT INTO tideline."log.TodoItem"
("tideline_stamp", "tideline_deleted", "tideline_owner", "id", "userId")
VALUES (-nextval('tideline.marks'), TRUE, coalesce(OLD."userId", ''), OLD."id", OLD."userId");

RETURN OLD;
END IF;
IF NOT OLD."deleted" THEN
    UPDATE "TodoItem" SET "deleted" = TRUE WHERE "id" = OLD."id";
END IF;
RETURN NULL;
END $$;

CREATE FUNCTION tideline."keep.Tour"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO '$user', 'public', 'pg_temp'
    AS $$
BEGIN
    IF pg_trigger_depth() > 1 AND EXISTS (
    SELECT 1 FROM pg_constraint AS c
    WHERE c.conrelid = TG_RELID AND c.contype = 'f' AND c.confdeltype = 'c'
) THEN
    INSERT INTO tideline.moved VALUES ('tour', OLD."version" / 1000);
INSERT INTO tideline."log.Tour" ("tideline_stamp", "tideline_deleted", "id")
VALUES (-nextval('tideline.marks'), TRUE, OLD."id");
IF strpos(coalesce(current_setting('tideline.touched', true), ''), '/tour/') = 0 THEN
    PERFORM set_config(
        'tideline.touched', concat(current_setting('tideline.touched', true), '/tour/'), true
    );
END IF;
RETURN OLD;
END IF;
IF NOT OLD."deleted" THEN
    UPDATE "Tour" SET "deleted" = TRUE WHERE "id" = OLD."id";
END IF;
RETURN NULL;
END $$;

CREATE FUNCTION tideline.keep_log() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN NULL;
END $$;

CREATE FUNCTION tideline."mark.Note"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO '$user', 'public', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    own text;
    before record;
BEGIN
    IF NEW."createdAt" NOT BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59.999999+00' AND NOT NEW."deleted"
    AND (TG_OP = 'INSERT' OR NEW."createdAt" IS DISTINCT FROM OLD."createdAt") THEN
    RAISE EXCEPTION 'column "createdAt": no device can be told a time outside of the years 1 to 9999'
    USING ERRCODE = 'data_exception';
END IF;
    IF TG_OP = 'UPDATE' THEN
        IF NEW."id" <> OLD."id" THEN
            RAISE EXCEPTION 'the id of a row is not changed: delete the row and insert another'
            USING ERRCODE = 'integrity_constraint_violation';
        END IF;
IF NEW."userId" IS DISTINCT FROM OLD."userId" THEN
    RAISE EXCEPTION
        'the owner of a row of this table is not changed: delete the row and insert another'
    USING ERRCODE = 'integrity_constraint_violation';
END IF;
        IF OLD."version" <> 0 THEN
            INSERT INTO tideline.owner_moved VALUES ('note', coalesce(OLD."userId", ''), OLD."version" / 1000);
            IF NOT OLD."deleted" AND (OLD."userId" IS DISTINCT FROM NEW."userId") THEN
                INSERT INTO tideline."log.Note"
("tideline_stamp", "tideline_deleted", "tideline_owner", "id", "userId")
VALUES (-nextval('tideline.marks'), NEW."deleted", coalesce(OLD."userId", ''), OLD."id", OLD."userId");
            END IF;
        END IF;
    END IF;
    
    
    
    NEW."version" := 0;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline."mark.TodoItem"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO '$user', 'public', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    own text;
    before record;
BEGIN
    IF NEW."createdAt" NOT BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59.999999+00' AND NOT NEW."deleted"
    AND (TG_OP = 'INSERT' OR NEW."createdAt" IS DISTINCT FROM OLD."createdAt") THEN
    RAISE EXCEPTION 'column "createdAt": no device can be told a time outside of the years 1 to 9999'
    USING ERRCODE = 'data_exception';
END IF;
    IF TG_OP = 'UPDATE' THEN
        IF NEW."id" <> OLD."id" THEN
            RAISE EXCEPTION 'the id of a row is not changed: delete the row and insert another'
            USING ERRCODE = 'integrity_constraint_violation';
        END IF;
IF NEW."userId" IS DISTINCT FROM OLD."userId" THEN
    RAISE EXCEPTION
        'the owner of a row of this table is not changed: delete the row and insert another'
    USING ERRCODE = 'integrity_constraint_violation';
END IF;
        IF OLD."version" <> 0 THEN
            INSERT INTO tideline.owner_moved VALUES ('todoitem', coalesce(OLD."userId", ''), OLD."version" / 1000);
            IF NOT OLD."deleted" AND (OLD."userId" IS DISTINCT FROM NEW."userId") THEN
                INSERT INTO tideline."log.TodoItem"
("tideline_stamp", "tideline_deleted", "tideline_owner", "id", "userId")
VALUES (-nextval('tideline.marks'), NEW."deleted", coalesce(OLD."userId", ''), OLD."id", OLD."userId");
            END IF;
        END IF;
    END IF;
    IF TG_OP = 'INSERT' THEN
    SELECT t.* INTO before FROM "TodoItem" AS t
    WHERE t."id" = NEW."id" AND t."deleted" AND t."userId" IS NOT DISTINCT FROM NEW."userId" FOR UPDATE;
    IF FOUND AND NOT EXISTS (
        SELECT 1 FROM pg_constraint AS c WHERE c.confrelid = TG_RELID AND c.contype = 'f'
    ) THEN
        own := current_setting('tideline.owners', true);
        PERFORM set_config('tideline.owners', 'on' || coalesce(nullif(pg_trigger_depth(), 0)::text, ''), true);
        DELETE FROM "TodoItem" AS t WHERE t."id" = NEW."id";
        PERFORM set_config('tideline.owners', coalesce(own, ''), true);
        IF before."version" <> 0 THEN
            INSERT INTO tideline.owner_moved VALUES ('todoitem', coalesce(before."userId", ''), before."version" / 1000);
        END IF;
        -- The row may not come after all: then this tells that it is gone.
        INSERT INTO tideline."log.TodoItem"
("tideline_stamp", "tideline_deleted", "tideline_owner", "id", "userId")
VALUES (-nextval('tideline.marks'), TRUE, coalesce(before."userId", ''), before."id", before."userId");
    END IF;
END IF;
    
    
    NEW."version" := 0;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline."mark.Tour"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO '$user', 'public', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    own text;
    before record;
BEGIN
    IF NEW."createdAt" NOT BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59.999999+00' AND NOT NEW."deleted"
    AND (TG_OP = 'INSERT' OR NEW."createdAt" IS DISTINCT FROM OLD."createdAt") THEN
    RAISE EXCEPTION 'column "createdAt": no device can be told a time outside of the years 1 to 9999'
    USING ERRCODE = 'data_exception';
END IF;
    IF TG_OP = 'UPDATE' THEN
        IF NEW."id" <> OLD."id" THEN
            RAISE EXCEPTION 'the id of a row is not changed: delete the row and insert another'
            USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF OLD."version" <> 0 THEN
            INSERT INTO tideline.moved VALUES ('tour', OLD."version" / 1000);
            IF NOT OLD."deleted" AND (FALSE) THEN
                INSERT INTO tideline."log.Tour" ("tideline_stamp", "tideline_deleted", "id")
VALUES (-nextval('tideline.marks'), NEW."deleted", OLD."id");
            END IF;
        END IF;
    END IF;
    IF TG_OP = 'INSERT' THEN
    SELECT t.* INTO before FROM "Tour" AS t
    WHERE t."id" = NEW."id" AND t."deleted" FOR UPDATE;
    IF FOUND AND NOT EXISTS (
        SELECT 1 FROM pg_constraint AS c WHERE c.confrelid = TG_RELID AND c.contype = 'f'
    ) THEN
        own := current_setting('tideline.own', true);
        PERFORM set_config('tideline.own', 'on' || coalesce(nullif(pg_trigger_depth(), 0)::text, ''), true);
        DELETE FROM "Tour" AS t WHERE t."id" = NEW."id";
        PERFORM set_config('tideline.own', coalesce(own, ''), true);
        IF before."version" <> 0 THEN
            INSERT INTO tideline.moved VALUES ('tour', before."version" / 1000);
        END IF;
        -- The row may not come after all: then this tells that it is gone.
        INSERT INTO tideline."log.Tour" ("tideline_stamp", "tideline_deleted", "id")
VALUES (-nextval('tideline.marks'), TRUE, before."id");
    END IF;
END IF;
    IF strpos(coalesce(current_setting('tideline.touched', true), ''), '/tour/') = 0 THEN
    PERFORM set_config(
        'tideline.touched', concat(current_setting('tideline.touched', true), '/tour/'), true
    );
END IF;
    
    NEW."version" := 0;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.refuse_truncate() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'TRUNCATE would be told to no device; use DELETE'
    USING ERRCODE = 'feature_not_supported';
END $$;

CREATE FUNCTION tideline."stamp.Note"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO '$user', 'public', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    rows bigint;
    gone bigint;
    first bigint;
    seen bigint;
    own text;
    owners text[];
    firsts bigint[];
    counts bigint[];
BEGIN
    -- Not by the schema: the tables of a user 'tideline' are in that of the same name.
    IF TG_NARGS > 0 THEN
        PERFORM 1 FROM tideline."log.Note" WHERE "tideline_stamp" = NEW."tideline_stamp";
    ELSE
        -- By the key alone: the index of unstamped rows is full of those stamped just now.
        SELECT "version" INTO seen FROM "Note" WHERE "id" = NEW."id";
        IF seen <> 0 THEN RETURN NULL; END IF;
    END IF;
    IF NOT FOUND THEN RETURN NULL; END IF;
    DELETE FROM tideline."log.Note" AS l WHERE l."tideline_stamp" < 0 AND EXISTS (
        SELECT 1 FROM tideline."log.Note" AS e WHERE e."id" = l."id"
        AND e."tideline_stamp" < 0 AND e."tideline_stamp" > l."tideline_stamp"
    );
    
    INSERT INTO tideline.owner_clocks ("table", "owner", "stamp", "horizon")
SELECT c."table", x.owner, c."stamp", c."stamp"
FROM (SELECT 'note' AS "table", x.owner FROM (SELECT coalesce(r."userId", '') AS owner FROM "Note" AS r WHERE r."version" = 0
UNION SELECT l."tideline_owner" FROM tideline."log.Note" AS l WHERE l."tideline_stamp" < 0) AS x) AS x JOIN tideline.clocks AS c ON c."table" = x."table"
WHERE NOT EXISTS (
    SELECT 1 FROM tideline.owner_clocks AS k
    WHERE k."table" = x."table" AND k."owner" = x.owner
)
ORDER BY 1, x.owner COLLATE "C" ON CONFLICT ("table", "owner") DO NOTHING;
PERFORM 1 FROM tideline.owner_clocks AS c WHERE c."table" = 'note'
AND c."owner" IN (SELECT coalesce(r."userId", '') AS owner FROM "Note" AS r WHERE r."version" = 0
UNION SELECT l."tideline_owner" FROM tideline."log.Note" AS l WHERE l."tideline_stamp" < 0) ORDER BY c."owner" FOR UPDATE;
WITH wanted AS (
    SELECT each.owner, sum(each.of_rows) AS of_rows, count(*) AS of_all FROM (
        SELECT coalesce(r."userId", '') AS owner, 1 AS of_rows
        FROM "Note" AS r WHERE r."version" = 0
        UNION ALL
        SELECT l."tideline_owner", 0 FROM tideline."log.Note" AS l
        WHERE l."tideline_stamp" < 0 AND NOT EXISTS (
            SELECT 1 FROM "Note" AS t WHERE t."id" = l."id" AND coalesce(t."userId", '') = l."tideline_owner" AND t."version" = 0
        )
    ) AS each GROUP BY each.owner
), stamped AS (
    UPDATE tideline.owner_clocks AS c
    SET "stamp" = 25 * (w.of_all - 1) + CASE
            WHEN "counted" > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 86400000000 AND greatest("stamp" + 25, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) / 1000 = "stamp" / 1000
            THEN ("stamp" / 1000 + 1) * 1000 ELSE greatest("stamp" + 25, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
        END,
        "written" = floor(extract(epoch FROM clock_timestamp()))::bigint * 1000000
    FROM wanted AS w WHERE c."table" = 'note' AND c."owner" = w.owner
    RETURNING c."owner", w.of_rows, c."stamp" - 25 * (w.of_all - 1) AS first_stamp
)
SELECT array_agg(s."owner"), array_agg(s.first_stamp), array_agg(s.of_rows)
INTO owners, firsts, counts FROM stamped AS s;
own := current_setting('tideline.owners', true);
PERFORM set_config('tideline.owners', 'on' || coalesce(nullif(pg_trigger_depth(), 0)::text, ''), true);
UPDATE "Note" AS t
SET "version" = n.stamp, "updatedAt" = tideline.instant(n.stamp)
FROM (
    SELECT r."id", c.first_stamp + 25
        * (row_number() OVER (PARTITION BY c.owner ORDER BY r."id") - 1) AS stamp
    FROM unnest(owners, firsts) AS c(owner, first_stamp)
    JOIN "Note" AS r ON coalesce(r."userId", '') = c.owner
    WHERE r."version" = 0
) AS n
WHERE t."id" = n."id";
UPDATE tideline."log.Note" AS e
SET "tideline_stamp" = n.stamp, "tideline_deleted" = n.is_deleted
FROM (
    SELECT l."tideline_stamp" AS mark, l."tideline_owner",
        t."id" IS NULL OR t."deleted" AS is_deleted,
        CASE
            WHEN t."version" >= c.first_stamp THEN t."version"
            ELSE c.first_stamp + 25 * (c.of_rows - 1 + row_number() OVER (
                PARTITION BY c.owner, coalesce(t."version" >= c.first_stamp, FALSE)
                ORDER BY l."id"
            ))
        END AS stamp
    FROM unnest(owners, firsts, counts) AS c(owner, first_stamp, of_rows)
    JOIN tideline."log.Note" AS l ON l."tideline_owner" = c.owner
    -- Gone for this owner, where another one has made a row with its id.
    LEFT JOIN "Note" AS t ON t."id" = l."id" AND coalesce(t."userId", '') = l."tideline_owner"
    WHERE l."tideline_stamp" < 0
) AS n
WHERE e."tideline_stamp" = n.mark AND e."tideline_owner" = n."tideline_owner";
WITH left_times AS (
    DELETE FROM tideline.owner_moved AS m WHERE m."table" = 'note'
    RETURNING m."owner", m."millisecond"
)
INSERT INTO tideline.owner_departures AS d
("table", "owner", "millisecond", "count", "last")
SELECT 'note', g."owner", g."millisecond", count(*), max(c."stamp")
FROM left_times AS g
JOIN tideline.owner_clocks AS c ON c."table" = 'note' AND c."owner" = g."owner"
WHERE "counted" > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 86400000000
GROUP BY 2, 3 ORDER BY 2, 3
ON CONFLICT ("table", "owner", "millisecond") DO UPDATE
SET "count" = d."count" + excluded."count", "last" = excluded."last";
UPDATE tideline.owner_clocks AS c SET "written" = floor(extract(epoch FROM clock_timestamp()))::bigint * 1000000
WHERE c."table" = 'note' AND c."owner" = ANY(owners)
AND c."written" <> floor(extract(epoch FROM clock_timestamp()))::bigint * 1000000;
    PERFORM set_config('tideline.owners', coalesce(own, ''), true);
    RETURN NULL;
END $$;

CREATE FUNCTION tideline."stamp.TodoItem"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO '$user', 'public', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    rows bigint;
    gone bigint;
    first bigint;
    seen bigint;
    own text;
    owners text[];
    firsts bigint[];
    counts bigint[];
BEGIN
    -- Not by the schema: the tables of a user 'tideline' are in that of the same name.
    IF TG_NARGS > 0 THEN
        PERFORM 1 FROM tideline."log.TodoItem" WHERE "tideline_stamp" = NEW."tideline_stamp";
    ELSE
        -- By the key alone: the index of unstamped rows is full of those stamped just now.
        SELECT "version" INTO seen FROM "TodoItem" WHERE "id" = NEW."id";
        IF seen <> 0 THEN RETURN NULL; END IF;
    END IF;
    IF NOT FOUND THEN RETURN NULL; END IF;
    DELETE FROM tideline."log.TodoItem" AS l WHERE l."tideline_stamp" < 0 AND EXISTS (
        SELECT 1 FROM tideline."log.TodoItem" AS e WHERE e."id" = l."id"
        AND e."tideline_stamp" < 0 AND e."tideline_stamp" > l."tideline_stamp"
    );
    
    INSERT INTO tideline.owner_clocks ("table", "owner", "stamp", "horizon")
SELECT c."table", x.owner, c."stamp", c."stamp"
FROM (SELECT 'todoitem' AS "table", x.owner FROM (SELECT coalesce(r."userId", '') AS owner FROM "TodoItem" AS r WHERE r."version" = 0
UNION SELECT l."tideline_owner" FROM tideline."log.TodoItem" AS l WHERE l."tideline_stamp" < 0) AS x) AS x JOIN tideline.clocks AS c ON c."table" = x."table"
WHERE NOT EXISTS (
    SELECT 1 FROM tideline.owner_clocks AS k
    WHERE k."table" = x."table" AND k."owner" = x.owner
)
ORDER BY 1, x.owner COLLATE "C" ON CONFLICT ("table", "owner") DO NOTHING;
PERFORM 1 FROM tideline.owner_clocks AS c WHERE c."table" = 'todoitem'
AND c."owner" IN (SELECT coalesce(r."userId", '') AS owner FROM "TodoItem" AS r WHERE r."version" = 0
UNION SELECT l."tideline_owner" FROM tideline."log.TodoItem" AS l WHERE l."tideline_stamp" < 0) ORDER BY c."owner" FOR UPDATE;
WITH wanted AS (
    SELECT each.owner, sum(each.of_rows) AS of_rows, count(*) AS of_all FROM (
        SELECT coalesce(r."userId", '') AS owner, 1 AS of_rows
        FROM "TodoItem" AS r WHERE r."version" = 0
        UNION ALL
        SELECT l."tideline_owner", 0 FROM tideline."log.TodoItem" AS l
        WHERE l."tideline_stamp" < 0 AND NOT EXISTS (
            SELECT 1 FROM "TodoItem" AS t WHERE t."id" = l."id" AND coalesce(t."userId", '') = l."tideline_owner" AND t."version" = 0
        )
    ) AS each GROUP BY each.owner
), stamped AS (
    UPDATE tideline.owner_clocks AS c
    SET "stamp" = 25 * (w.of_all - 1) + CASE
            WHEN "counted" > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 86400000000 AND greatest("stamp" + 25, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) / 1000 = "stamp" / 1000
            THEN ("stamp" / 1000 + 1) * 1000 ELSE greatest("stamp" + 25, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
        END,
        "written" = floor(extract(epoch FROM clock_timestamp()))::bigint * 1000000
    FROM wanted AS w WHERE c."table" = 'todoitem' AND c."owner" = w.owner
    RETURNING c."owner", w.of_rows, c."stamp" - 25 * (w.of_all - 1) AS first_stamp
)
SELECT array_agg(s."owner"), array_agg(s.first_stamp), array_agg(s.of_rows)
INTO owners, firsts, counts FROM stamped AS s;
own := current_setting('tideline.owners', true);
PERFORM set_config('tideline.owners', 'on' || coalesce(nullif(pg_trigger_depth(), 0)::text, ''), true);
UPDATE "TodoItem" AS t
SET "version" = n.stamp, "updatedAt" = tideline.instant(n.stamp)
FROM (
    SELECT r."id", c.first_stamp + 25
        * (row_number() OVER (PARTITION BY c.owner ORDER BY r."id") - 1) AS stamp
    FROM unnest(owners, firsts) AS c(owner, first_stamp)
    JOIN "TodoItem" AS r ON coalesce(r."userId", '') = c.owner
    WHERE r."version" = 0
) AS n
WHERE t."id" = n."id";
UPDATE tideline."log.TodoItem" AS e
SET "tideline_stamp" = n.stamp, "tideline_deleted" = n.is_deleted
FROM (
    SELECT l."tideline_stamp" AS mark, l."tideline_owner",
        t."id" IS NULL OR t."deleted" AS is_deleted,
        CASE
            WHEN t."version" >= c.first_stamp THEN t."version"
            ELSE c.first_stamp + 25 * (c.of_rows - 1 + row_number() OVER (
                PARTITION BY c.owner, coalesce(t."version" >= c.first_stamp, FALSE)
                ORDER BY l."id"
            ))
        END AS stamp
    FROM unnest(owners, firsts, counts) AS c(owner, first_stamp, of_rows)
    JOIN tideline."log.TodoItem" AS l ON l."tideline_owner" = c.owner
    -- Gone for this owner, where another one has made a row with its id.
    LEFT JOIN "TodoItem" AS t ON t."id" = l."id" AND coalesce(t."userId", '') = l."tideline_owner"
    WHERE l."tideline_stamp" < 0
) AS n
WHERE e."tideline_stamp" = n.mark AND e."tideline_owner" = n."tideline_owner";
WITH left_times AS (
    DELETE FROM tideline.owner_moved AS m WHERE m."table" = 'todoitem'
    RETURNING m."owner", m."millisecond"
)
INSERT INTO tideline.owner_departures AS d
("table", "owner", "millisecond", "count", "last")
SELECT 'todoitem', g."owner", g."millisecond", count(*), max(c."stamp")
FROM left_times AS g
JOIN tideline.owner_clocks AS c ON c."table" = 'todoitem' AND c."owner" = g."owner"
WHERE "counted" > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 86400000000
GROUP BY 2, 3 ORDER BY 2, 3
ON CONFLICT ("table", "owner", "millisecond") DO UPDATE
SET "count" = d."count" + excluded."count", "last" = excluded."last";
UPDATE tideline.owner_clocks AS c SET "written" = floor(extract(epoch FROM clock_timestamp()))::bigint * 1000000
WHERE c."table" = 'todoitem' AND c."owner" = ANY(owners)
AND c."written" <> floor(extract(epoch FROM clock_timestamp()))::bigint * 1000000;
    PERFORM set_config('tideline.owners', coalesce(own, ''), true);
    RETURN NULL;
END $$;

CREATE FUNCTION tideline."stamp.Tour"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO '$user', 'public', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    rows bigint;
    gone bigint;
    first bigint;
    seen bigint;
    own text;
BEGIN
    -- Not by the schema: the tables of a user 'tideline' are in that of the same name.
    IF TG_NARGS > 0 THEN
        PERFORM 1 FROM tideline."log.Tour" WHERE "tideline_stamp" = NEW."tideline_stamp";
    ELSE
        -- By the key alone: the index of unstamped rows is full of those stamped just now.
        SELECT "version" INTO seen FROM "Tour" WHERE "id" = NEW."id";
        IF seen <> 0 THEN RETURN NULL; END IF;
    END IF;
    IF NOT FOUND THEN RETURN NULL; END IF;
    DELETE FROM tideline."log.Tour" AS l WHERE l."tideline_stamp" < 0 AND EXISTS (
        SELECT 1 FROM tideline."log.Tour" AS e WHERE e."id" = l."id"
        AND e."tideline_stamp" < 0 AND e."tideline_stamp" > l."tideline_stamp"
    );
    PERFORM 1 FROM tideline.clocks WHERE "table" = ANY(
    string_to_array(current_setting('tideline.touched', true), '/')
) ORDER BY "table" FOR UPDATE;
    SELECT count(*) INTO rows FROM "Tour" WHERE "version" = 0;
    SELECT count(*) INTO gone FROM tideline."log.Tour" AS l WHERE l."tideline_stamp" < 0
    AND NOT EXISTS (
        SELECT 1 FROM "Tour" AS t WHERE t."id" = l."id" AND t."version" = 0
    );
    UPDATE tideline.clocks SET "stamp" = 25 * (rows + gone - 1)
        + CASE
            WHEN "counted" > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 86400000000 AND greatest("stamp" + 25, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) / 1000 = "stamp" / 1000
            THEN ("stamp" / 1000 + 1) * 1000 ELSE greatest("stamp" + 25, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
        END
    WHERE "table" = 'tour'
    RETURNING "stamp" - 25 * (rows + gone - 1) INTO STRICT first;
    own := current_setting('tideline.own', true);
    PERFORM set_config('tideline.own', 'on' || coalesce(nullif(pg_trigger_depth(), 0)::text, ''), true);
    UPDATE "Tour" AS t
    SET "version" = n.stamp, "updatedAt" = tideline.instant(n.stamp)
    FROM (
        SELECT "id", first + 25
            * (row_number() OVER (ORDER BY "id") - 1) AS stamp
        FROM "Tour" WHERE "version" = 0
    ) AS n
    WHERE t."id" = n."id";
    UPDATE tideline."log.Tour" AS l
    SET "tideline_stamp" = n.stamp, "tideline_deleted" = n.deleted
    FROM (
        SELECT e."tideline_stamp" AS mark, t."id" IS NULL OR t."deleted" AS deleted,
            CASE
                WHEN t."version" >= first THEN t."version"
                ELSE first + 25 * (rows - 1 + row_number() OVER (
                    PARTITION BY coalesce(t."version" >= first, FALSE) ORDER BY e."id"
                ))
            END AS stamp
        FROM tideline."log.Tour" AS e LEFT JOIN "Tour" AS t ON t."id" = e."id"
        WHERE e."tideline_stamp" < 0
    ) AS n
    WHERE l."tideline_stamp" = n.mark;
    WITH left_times AS (
        DELETE FROM tideline.moved WHERE "table" = 'tour' RETURNING "millisecond"
    )
    INSERT INTO tideline.departures AS d ("table", "millisecond", "count", "last")
    SELECT 'tour', "millisecond", count(*), first FROM left_times
    WHERE EXISTS (
        SELECT 1 FROM tideline.clocks WHERE "table" = 'tour' AND "counted" > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 86400000000
    )
    GROUP BY "millisecond" ORDER BY "millisecond"
    ON CONFLICT ("table", "millisecond") DO UPDATE
    SET "count" = d."count" + excluded."count", "last" = excluded."last";
    PERFORM set_config('tideline.own', coalesce(own, ''), true);
    RETURN NULL;
END $$;

CREATE TABLE public."Note" (
    id text NOT NULL COLLATE pg_catalog."C",
    "createdAt" timestamp with time zone DEFAULT now() NOT NULL,
    "updatedAt" timestamp with time zone DEFAULT now() NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    deleted boolean DEFAULT false NOT NULL,
    text text COLLATE pg_catalog."C",
    "userId" text COLLATE pg_catalog."C"
);

CREATE TABLE public."TodoItem" (
    id text NOT NULL COLLATE pg_catalog."C",
    "createdAt" timestamp with time zone DEFAULT now() NOT NULL,
    "updatedAt" timestamp with time zone DEFAULT now() NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    deleted boolean DEFAULT false NOT NULL,
    text text COLLATE pg_catalog."C",
    complete boolean,
    "userId" text COLLATE pg_catalog."C"
);

CREATE TABLE public."Tour" (
    id text NOT NULL COLLATE pg_catalog."C",
    "createdAt" timestamp with time zone DEFAULT now() NOT NULL,
    "updatedAt" timestamp with time zone DEFAULT now() NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    deleted boolean DEFAULT false NOT NULL,
    text text COLLATE pg_catalog."C"
);

CREATE TABLE tideline.audit (
    place bigint NOT NULL,
    stamp bigint NOT NULL,
    "table" text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    action text NOT NULL COLLATE pg_catalog."C",
    "user" text COLLATE pg_catalog."C",
    device text COLLATE pg_catalog."C",
    dashboard boolean NOT NULL,
    columns text NOT NULL COLLATE pg_catalog."C"
);

ALTER TABLE tideline.audit ALTER COLUMN place ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tideline.audit_place_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE tideline.bases (
    "table" text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    "row" text NOT NULL
);

CREATE TABLE tideline.clocks (
    "table" text NOT NULL COLLATE pg_catalog."C",
    stamp bigint DEFAULT 0 NOT NULL,
    horizon bigint DEFAULT 0 NOT NULL,
    counted bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000');

CREATE TABLE tideline.departures (
    "table" text NOT NULL COLLATE pg_catalog."C",
    millisecond bigint NOT NULL,
    count bigint NOT NULL,
    last bigint NOT NULL
);

CREATE TABLE tideline.ledger (
    request text NOT NULL COLLATE pg_catalog."C",
    caller text NOT NULL COLLATE pg_catalog."C",
    received bigint NOT NULL,
    size bigint NOT NULL,
    digest bytea NOT NULL,
    outcome text NOT NULL,
    id text NOT NULL,
    version bigint,
    "updatedAt" bigint,
    deleted boolean,
    "row" text
);

CREATE TABLE tideline.ledger_callers (
    caller text NOT NULL COLLATE pg_catalog."C",
    account bigint NOT NULL,
    bytes bigint NOT NULL,
    horizon bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE tideline."log.Note" (
    tideline_stamp bigint NOT NULL,
    tideline_deleted boolean NOT NULL,
    tideline_owner text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    "createdAt" timestamp with time zone,
    "updatedAt" timestamp with time zone,
    version bigint,
    deleted boolean,
    text text COLLATE pg_catalog."C",
    "userId" text COLLATE pg_catalog."C"
);

CREATE TABLE tideline."log.TodoItem" (
    tideline_stamp bigint NOT NULL,
    tideline_deleted boolean NOT NULL,
    tideline_owner text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    "createdAt" timestamp with time zone,
    "updatedAt" timestamp with time zone,
    version bigint,
    deleted boolean,
    text text COLLATE pg_catalog."C",
    complete boolean,
    "userId" text COLLATE pg_catalog."C"
);

CREATE TABLE tideline."log.Tour" (
    tideline_stamp bigint NOT NULL,
    tideline_deleted boolean NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    "createdAt" timestamp with time zone,
    "updatedAt" timestamp with time zone,
    version bigint,
    deleted boolean,
    text text COLLATE pg_catalog."C"
);

CREATE SEQUENCE tideline.marks
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE tideline.moved (
    "table" text NOT NULL COLLATE pg_catalog."C",
    millisecond bigint NOT NULL
);

CREATE TABLE tideline.owner_clocks (
    "table" text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    stamp bigint DEFAULT 0 NOT NULL,
    horizon bigint DEFAULT 0 NOT NULL,
    counted bigint DEFAULT 0 NOT NULL,
    written bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='2000');

CREATE TABLE tideline.owner_departures (
    "table" text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    millisecond bigint NOT NULL,
    count bigint NOT NULL,
    last bigint NOT NULL
);

CREATE TABLE tideline.owner_moved (
    "table" text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    millisecond bigint NOT NULL
);

CREATE TABLE tideline.receipts (
    key text NOT NULL COLLATE pg_catalog."C",
    "time" bigint NOT NULL,
    place bigint NOT NULL
);

CREATE TABLE tideline.state (
    key text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL
);

CREATE TABLE tideline.tables (
    name text NOT NULL COLLATE pg_catalog."C",
    relation text NOT NULL,
    columns text NOT NULL,
    schema bigint DEFAULT 1 NOT NULL
);

INSERT INTO public."Note" VALUES ('na1', '2025-11-26 04:19:20.55554+00', '2025-11-26 04:19:20.55554+00', 1764130760555540, false, 'note 1', 'anna');
INSERT INTO public."Note" VALUES ('nb1', '2025-11-26 04:19:20.58708+00', '2025-11-26 04:19:20.58708+00', 1764130760587080, false, 'note b', 'bert');

INSERT INTO public."TodoItem" VALUES ('a2', '2025-11-26 04:19:20.434619+00', '2025-11-26 04:19:20.434619+00', 1764130760434619, false, 'anna 2', NULL, 'anna');
INSERT INTO public."TodoItem" VALUES ('b1', '2025-11-26 04:19:20.476899+00', '2025-11-26 04:19:20.476899+00', 1764130760476899, false, 'bert 1', NULL, 'bert');
INSERT INTO public."TodoItem" VALUES ('a1', '2025-11-26 04:19:20.416878+00', '2025-11-26 04:19:20.501792+00', 1764130760501792, false, 'anna 1, changed', NULL, 'anna');
INSERT INTO public."TodoItem" VALUES ('a3', '2025-11-26 04:19:20.458826+00', '2025-11-26 04:19:20.515502+00', 1764130760515502, true, 'anna 3', NULL, 'anna');
INSERT INTO public."TodoItem" VALUES ('b2', '2025-11-26 04:19:20.490428+00', '2025-11-26 04:19:20.536284+00', 1764130760536284, true, 'bert 2', NULL, 'bert');
INSERT INTO public."TodoItem" VALUES ('n1', '2025-11-26 04:19:20.656345+00', '2025-11-26 04:19:20.663764+00', 1764130760663764, false, 'no owner', NULL, NULL);
INSERT INTO public."TodoItem" VALUES ('c1', '2025-11-26 04:19:20.656345+00', '2025-11-26 04:19:20.663803+00', 1764130760663803, false, 'external', NULL, 'carl');

INSERT INTO public."Tour" VALUES ('t1', '2025-11-26 04:19:20.618711+00', '2025-11-26 04:19:20.618711+00', 1764130760618711, false, 'tour');

INSERT INTO tideline.bases VALUES ('todoitem', 'a1', 1764130760416878, '{"id":"a1","text":"anna 1","complete":null,"userId":"anna","createdAt":"2026-11-26T04:19:20.416Z","updatedAt":"2026-11-26T04:19:20.416Z","version":"AAZhJj9jvm4=","deleted":false}');
INSERT INTO tideline.bases VALUES ('todoitem', 'a3', 1764130760458826, '{"id":"a3","text":"anna 3","complete":null,"userId":"anna","createdAt":"2026-11-26T04:19:20.458Z","updatedAt":"2026-11-26T04:19:20.458Z","version":"AAZhJj9kYko=","deleted":false}');
INSERT INTO tideline.bases VALUES ('todoitem', 'b2', 1764130760490428, '{"id":"b2","text":"bert 2","complete":null,"userId":"bert","createdAt":"2026-11-26T04:19:20.490Z","updatedAt":"2026-11-26T04:19:20.490Z","version":"AAZhJj9k3bw=","deleted":false}');

INSERT INTO tideline.clocks VALUES ('todoitem', 0, 0, 0);
INSERT INTO tideline.clocks VALUES ('note', 0, 0, 0);
INSERT INTO tideline.clocks VALUES ('tour', 1764130760618711, 0, 0);

INSERT INTO tideline."log.Note" VALUES (1764130760602788, true, 'anna', 'na2', '2026-11-26 04:19:20.571214+00', '2026-11-26 04:19:20.571214+00', 1764130760571214, false, NULL, 'anna');

INSERT INTO tideline.owner_clocks VALUES ('todoitem', 'anna', 1764130760515502, 0, 0, 1764130760000000);
INSERT INTO tideline.owner_clocks VALUES ('todoitem', 'bert', 1764130760536284, 0, 0, 1764130760000000);
INSERT INTO tideline.owner_clocks VALUES ('note', 'bert', 1764130760587080, 0, 0, 1764130760000000);
INSERT INTO tideline.owner_clocks VALUES ('note', 'anna', 1764130760602788, 0, 0, 1764130760000000);
INSERT INTO tideline.owner_clocks VALUES ('todoitem', '', 1764130760663764, 0, 0, 1764130760000000);
INSERT INTO tideline.owner_clocks VALUES ('todoitem', 'carl', 1764130760663803, 0, 0, 1764130760000000);

INSERT INTO tideline.owner_departures VALUES ('todoitem', 'anna', 1764130760000, 3, 1764130760515502);

INSERT INTO tideline.state VALUES ('epoch', 'e157f63875cf7071');
INSERT INTO tideline.state VALUES ('log.todoitem', 'owner userid');
INSERT INTO tideline.state VALUES ('triggers.todoitem', 'b4d1b8b7e04bc52a43352ff457e6eb5');
INSERT INTO tideline.state VALUES ('log.note', 'owner userid');
INSERT INTO tideline.state VALUES ('triggers.note', '91f4599ceb7c67b432a6bf7e8e8ffd0');
INSERT INTO tideline.state VALUES ('log.tour', 'nothing');
INSERT INTO tideline.state VALUES ('triggers.tour', '9a5ef75474e4a7eb4064b5c63fc4ac8a');
INSERT INTO tideline.state VALUES ('format', '4');

INSERT INTO tideline.tables VALUES ('todoitem', 'TodoItem', 'owner:userId
[{"name":"text","type":"string","nullable":true},{"name":"complete","type":"boolean","nullable":true},{"name":"userId","type":"string","nullable":true}]', 1);
INSERT INTO tideline.tables VALUES ('note', 'Note', 'owner:userId
[{"name":"text","type":"string","nullable":true},{"name":"userId","type":"string","nullable":true}]', 1);
INSERT INTO tideline.tables VALUES ('tour', 'Tour', '[{"name":"text","type":"string","nullable":true}]', 1);

SELECT pg_catalog.setval('tideline.audit_place_seq', 1, false);

SELECT pg_catalog.setval('tideline.marks', 1, false);

ALTER TABLE ONLY public."Note"
    ADD CONSTRAINT "Note_pkey" PRIMARY KEY (id);

ALTER TABLE ONLY public."TodoItem"
    ADD CONSTRAINT "TodoItem_pkey" PRIMARY KEY (id);

ALTER TABLE ONLY public."Tour"
    ADD CONSTRAINT "Tour_pkey" PRIMARY KEY (id);

ALTER TABLE ONLY tideline.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (place);

ALTER TABLE ONLY tideline.bases
    ADD CONSTRAINT bases_pkey PRIMARY KEY ("table", id, version);

ALTER TABLE ONLY tideline.clocks
    ADD CONSTRAINT clocks_pkey PRIMARY KEY ("table");

ALTER TABLE ONLY tideline.departures
    ADD CONSTRAINT departures_pkey PRIMARY KEY ("table", millisecond);

ALTER TABLE ONLY tideline.ledger_callers
    ADD CONSTRAINT ledger_callers_pkey PRIMARY KEY (caller, account);

ALTER TABLE ONLY tideline.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (request, caller);

ALTER TABLE ONLY tideline."log.Note"
    ADD CONSTRAINT "log.Note_pkey" PRIMARY KEY (tideline_owner, tideline_stamp);

ALTER TABLE ONLY tideline."log.TodoItem"
    ADD CONSTRAINT "log.TodoItem_pkey" PRIMARY KEY (tideline_owner, tideline_stamp);

ALTER TABLE ONLY tideline."log.Tour"
    ADD CONSTRAINT "log.Tour_pkey" PRIMARY KEY (tideline_stamp);

ALTER TABLE ONLY tideline.owner_clocks
    ADD CONSTRAINT owner_clocks_pkey PRIMARY KEY ("table", owner);

ALTER TABLE ONLY tideline.owner_departures
    ADD CONSTRAINT owner_departures_pkey PRIMARY KEY ("table", owner, millisecond);

ALTER TABLE ONLY tideline.receipts
    ADD CONSTRAINT receipts_pkey PRIMARY KEY (key, "time");

ALTER TABLE ONLY tideline.state
    ADD CONSTRAINT state_pkey PRIMARY KEY (key);

ALTER TABLE ONLY tideline.tables
    ADD CONSTRAINT tables_pkey PRIMARY KEY (name);

CREATE INDEX tideline_736c1eb516d0db54 ON public."TodoItem" USING btree (version) WHERE (version = 0);

CREATE INDEX tideline_749adb6be60538bb ON public."Note" USING btree ("userId" NULLS FIRST, "updatedAt" NULLS FIRST, id NULLS FIRST);

CREATE INDEX tideline_924f8fa6c6122c1a ON public."Tour" USING btree ("updatedAt" NULLS FIRST, id NULLS FIRST);

CREATE INDEX tideline_960ba4d2bf59236c ON public."Note" USING btree ("updatedAt" NULLS FIRST, id NULLS FIRST);

CREATE INDEX tideline_9c720ad39bf86341 ON public."Tour" USING btree (version) WHERE (version = 0);

CREATE INDEX tideline_9e61e4248bd783ed ON public."Note" USING btree (version) WHERE (version = 0);

CREATE INDEX tideline_eb428aba4e02e24a ON public."TodoItem" USING btree ("userId" NULLS FIRST, "updatedAt" NULLS FIRST, id NULLS FIRST);

CREATE INDEX tideline_ee91835738b11d2c ON public."TodoItem" USING btree ("updatedAt" NULLS FIRST, id NULLS FIRST);

CREATE INDEX "log.Note_tideline_stamp_idx" ON tideline."log.Note" USING btree (tideline_stamp);

CREATE INDEX "log.TodoItem_tideline_stamp_idx" ON tideline."log.TodoItem" USING btree (tideline_stamp);

CREATE INDEX tideline_audit_stamp ON tideline.audit USING btree (stamp);

CREATE INDEX tideline_caller ON tideline.ledger USING btree (caller, received);

CREATE INDEX tideline_received ON tideline.ledger USING btree (received);

CREATE INDEX tideline_written ON tideline.owner_clocks USING btree (written);

CREATE TRIGGER tideline_keep BEFORE DELETE ON public."Note" FOR EACH ROW WHEN ((current_setting('tideline.owners'::text, true) IS DISTINCT FROM ('on'::text || COALESCE((NULLIF(pg_trigger_depth(), 0))::text, ''::text)))) EXECUTE FUNCTION tideline."keep.Note"();

CREATE TRIGGER tideline_keep BEFORE DELETE ON public."TodoItem" FOR EACH ROW WHEN ((current_setting('tideline.owners'::text, true) IS DISTINCT FROM ('on'::text || COALESCE((NULLIF(pg_trigger_depth(), 0))::text, ''::text)))) EXECUTE FUNCTION tideline."keep.TodoItem"();

CREATE TRIGGER tideline_keep BEFORE DELETE ON public."Tour" FOR EACH ROW WHEN ((current_setting('tideline.own'::text, true) IS DISTINCT FROM ('on'::text || COALESCE((NULLIF(pg_trigger_depth(), 0))::text, ''::text)))) EXECUTE FUNCTION tideline."keep.Tour"();

CREATE TRIGGER tideline_mark BEFORE INSERT OR UPDATE ON public."Note" FOR EACH ROW WHEN ((current_setting('tideline.owners'::text, true) IS DISTINCT FROM ('on'::text || COALESCE((NULLIF(pg_trigger_depth(), 0))::text, ''::text)))) EXECUTE FUNCTION tideline."mark.Note"();

CREATE TRIGGER tideline_mark BEFORE INSERT OR UPDATE ON public."TodoItem" FOR EACH ROW WHEN ((current_setting('tideline.owners'::text, true) IS DISTINCT FROM ('on'::text || COALESCE((NULLIF(pg_trigger_depth(), 0))::text, ''::text)))) EXECUTE FUNCTION tideline."mark.TodoItem"();

CREATE TRIGGER tideline_mark BEFORE INSERT OR UPDATE ON public."Tour" FOR EACH ROW WHEN ((current_setting('tideline.own'::text, true) IS DISTINCT FROM ('on'::text || COALESCE((NULLIF(pg_trigger_depth(), 0))::text, ''::text)))) EXECUTE FUNCTION tideline."mark.Tour"();

CREATE CONSTRAINT TRIGGER tideline_stamp AFTER INSERT OR UPDATE ON public."Note" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.version = 0)) EXECUTE FUNCTION tideline."stamp.Note"();

CREATE CONSTRAINT TRIGGER tideline_stamp AFTER INSERT OR UPDATE ON public."TodoItem" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.version = 0)) EXECUTE FUNCTION tideline."stamp.TodoItem"();

CREATE CONSTRAINT TRIGGER tideline_stamp AFTER INSERT OR UPDATE ON public."Tour" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.version = 0)) EXECUTE FUNCTION tideline."stamp.Tour"();

CREATE TRIGGER tideline_truncate BEFORE TRUNCATE ON public."Note" FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse_truncate();

CREATE TRIGGER tideline_truncate BEFORE TRUNCATE ON public."TodoItem" FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse_truncate();

CREATE TRIGGER tideline_truncate BEFORE TRUNCATE ON public."Tour" FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse_truncate();

CREATE TRIGGER tideline_keep BEFORE DELETE ON tideline."log.Note" FOR EACH ROW WHEN (((old.tideline_stamp > 0) AND (current_setting('tideline.owners'::text, true) IS DISTINCT FROM ('on'::text || COALESCE((NULLIF(pg_trigger_depth(), 0))::text, ''::text))))) EXECUTE FUNCTION tideline.keep_log();

CREATE TRIGGER tideline_keep BEFORE DELETE ON tideline."log.TodoItem" FOR EACH ROW WHEN (((old.tideline_stamp > 0) AND (current_setting('tideline.owners'::text, true) IS DISTINCT FROM ('on'::text || COALESCE((NULLIF(pg_trigger_depth(), 0))::text, ''::text))))) EXECUTE FUNCTION tideline.keep_log();

CREATE CONSTRAINT TRIGGER tideline_stamp AFTER INSERT ON tideline."log.Note" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.tideline_stamp < 0)) EXECUTE FUNCTION tideline."stamp.Note"('log');

CREATE CONSTRAINT TRIGGER tideline_stamp AFTER INSERT ON tideline."log.TodoItem" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.tideline_stamp < 0)) EXECUTE FUNCTION tideline."stamp.TodoItem"('log');

CREATE CONSTRAINT TRIGGER tideline_stamp AFTER INSERT ON tideline."log.Tour" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.tideline_stamp < 0)) EXECUTE FUNCTION tideline."stamp.Tour"('log');

