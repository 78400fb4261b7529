-- The store of limiter's fleets in PostgreSQL 14 or later. To make or renew it, as the owner of a database:
--
--     psql --single-transaction --set ON_ERROR_STOP=1 --file limiter.sql edge
--
-- Agents may call six functions, and read or write no table. Each call is one transaction:
--
-- - It locks rows in one order, so that rounds wait for each other, but not in a circle.
-- - Each record is changed by one INSERT ... ON CONFLICT DO UPDATE, which sees its latest version. So no charge is lost
--   under READ COMMITTED. Under SERIALIZABLE and REPEATABLE READ, the server may refuse; agents then call again.
-- - Times are microseconds of clock_timestamp(), read once per call. now() would stand still inside a transaction.
-- - It gives up before agents do (they wait for a second), so that no connections pile up behind a lock.
-- - It deletes some data that nobody needs any more.

CREATE SCHEMA IF NOT EXISTS limiter;

-- Login roles of agents are members of the role limiter_agent_DATABASE. Roles belong to all databases of a server: with
-- one role for all, the agents of one fleet could call the functions of another one.
DO $$
DECLARE
    agents CONSTANT name := left('limiter_agent_' || current_database(), 63);
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = agents) THEN
        EXECUTE format('CREATE ROLE %I NOLOGIN', agents);
    END IF;
END
$$;

-- A bucket that all hosts share. The first column of the key differs most: YugabyteDB spreads rows by its hash.
CREATE TABLE IF NOT EXISTS limiter.records (
    source text COLLATE "C" NOT NULL,
    limit_name text COLLATE "C" NOT NULL,
    fleet text COLLATE "C" NOT NULL,
    -- Time of the first charge. Tells a record from an earlier one of the source.
    born bigint NOT NULL,
    -- Packets charged since then.
    total bigint NOT NULL,
    -- The bucket's theoretical arrival time, in nanoseconds.
    tat bigint NOT NULL,
    -- Nanoseconds that the bucket can be ahead of the clock.
    cap bigint NOT NULL,
    -- Time from which the record does not count. Written seldom, so that most updates leave the index alone.
    ends bigint NOT NULL,
    PRIMARY KEY (source, limit_name, fleet)
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS records_ends ON limiter.records (ends ASC);

-- The last round of each part of a member's exchange.
CREATE TABLE IF NOT EXISTS limiter.rounds (
    member bigint NOT NULL,
    part bigint NOT NULL,
    fleet text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    ends bigint NOT NULL,
    PRIMARY KEY (member, part, fleet)
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS rounds_ends ON limiter.rounds (ends ASC);

CREATE TABLE IF NOT EXISTS limiter.members (
    fleet text COLLATE "C" NOT NULL,
    member bigint NOT NULL,
    label text NOT NULL,
    -- Time of the last heartbeat.
    at bigint NOT NULL,
    PRIMARY KEY (fleet, member)
) WITH (fillfactor = 50);

-- The limits of the members, as JSON.
CREATE TABLE IF NOT EXISTS limiter.limits (
    fleet text COLLATE "C" NOT NULL,
    held text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (fleet, held)
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS limiter.entries (
    fleet text COLLATE "C" NOT NULL,
    list text COLLATE "C" NOT NULL,
    prefix text COLLATE "C" NOT NULL,
    -- The host that added the prefix.
    host text NOT NULL,
    added bigint NOT NULL,
    ends bigint,
    PRIMARY KEY (fleet, list, prefix)
);

-- The revision of all lists of a fleet, the time of their first change, and for each list the last revision that an agent
-- has put back after a loss. All are times, so that a store that has lost its data does not repeat one.
CREATE TABLE IF NOT EXISTS limiter.revisions (
    fleet text COLLATE "C" PRIMARY KEY,
    revision bigint NOT NULL
);
ALTER TABLE limiter.revisions ADD COLUMN IF NOT EXISTS born bigint NOT NULL DEFAULT 0;
ALTER TABLE limiter.revisions ADD COLUMN IF NOT EXISTS restored jsonb NOT NULL DEFAULT '{}';
UPDATE limiter.revisions SET born = revision WHERE born = 0;

-- Functions of version 1 with other arguments or answers.
DROP FUNCTION IF EXISTS limiter.edit(text, text, text[], text, bigint, bigint);
DROP FUNCTION IF EXISTS limiter.part(text, text, text, bigint, bigint);

-- What an agent expects.
CREATE OR REPLACE FUNCTION limiter.version() RETURNS integer
LANGUAGE sql IMMUTABLE SET jit = off AS 'SELECT 2';

CREATE OR REPLACE FUNCTION limiter.micros() RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint';

-- One round of one member at the time now_us: adds the member's charges to the records, unless this or a later round of
-- the part was counted. Answers with the records, in the order of the sources; with zeros where there is none.
--
-- limits, costs (nanoseconds per packet), caps (nanoseconds) and lives (milliseconds) are the terms.
-- sources, packets and terms (numbers from 1) are the charges; a source of a limit is there once.
CREATE OR REPLACE FUNCTION limiter.exchange_at(
    now_us bigint, for_fleet text, by_member bigint, of_part bigint, new_number bigint,
    limits text[], costs float8[], caps bigint[], lives bigint[],
    sources text[], packets bigint[], terms bigint[]
) RETURNS TABLE (born bigint, total bigint, level bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '800ms'
-- A plan that was made while the tables were small must not last.
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    most CONSTANT bigint := 9007199254740991;
    day CONSTANT bigint := 86400000000;
    now_ns CONSTANT bigint := now_us * 1000;
BEGIN
    -- No wait for the disk. A crash may lose the last rounds as a whole; members notice that totals are lower.
    PERFORM set_config('synchronous_commit', 'off', true);

    INSERT INTO limiter.rounds AS r VALUES (by_member, of_part, for_fleet, new_number, now_us + day)
    ON CONFLICT ON CONSTRAINT rounds_pkey DO UPDATE SET
        number = excluded.number,
        ends = CASE WHEN r.ends BETWEEN now_us + day / 2 AND now_us + day THEN r.ends ELSE excluded.ends END
    WHERE r.number < excluded.number OR r.ends <= now_us;

    IF FOUND THEN
        INSERT INTO limiter.records AS r
        SELECT c.source, limits[c.terms], for_fleet, now_us, c.packets,
            now_ns + least(floor(c.packets * costs[c.terms]), caps[c.terms])::bigint,
            caps[c.terms], now_us + lives[c.terms] * 1000
        FROM unnest(sources, packets, terms) AS c (source, packets, terms)
        WHERE c.packets > 0
        ORDER BY 1, 2
        -- Excluded is the record of a full bucket. A record that is over, or counts too much, begins anew.
        ON CONFLICT ON CONSTRAINT records_pkey DO UPDATE SET
            born = CASE WHEN r.ends > now_us AND r.total <= most - excluded.total
                THEN r.born ELSE excluded.born END,
            total = CASE WHEN r.ends > now_us AND r.total <= most - excluded.total
                THEN r.total ELSE 0 END + excluded.total,
            tat = now_ns + least(
                greatest(r.tat, now_ns) - now_ns + (excluded.tat - now_ns), excluded.cap),
            cap = excluded.cap,
            ends = CASE WHEN r.ends BETWEEN now_us + (excluded.ends - now_us) / 2 AND excluded.ends
                THEN r.ends ELSE excluded.ends END;
    END IF;

    -- A statement of its own: it sees what the round waited for.
    RETURN QUERY
    SELECT coalesce(r.born, 0), coalesce(r.total, 0),
        coalesce(least(greatest(r.tat, now_ns) - now_ns, caps[c.terms]), 0)
    FROM unnest(sources, terms) WITH ORDINALITY AS c (source, terms, place)
    LEFT JOIN LATERAL (
        SELECT * FROM limiter.records AS r
        WHERE r.source = c.source AND r.limit_name = limits[c.terms] AND r.fleet = for_fleet AND r.ends > now_us
        LIMIT 1
    ) AS r ON true
    ORDER BY c.place;

    -- As many as a round can add. Nothing waits after this, and rows that others lock are left to them.
    DELETE FROM limiter.records AS r USING (
        SELECT source, limit_name, fleet FROM limiter.records
        WHERE ends <= now_us ORDER BY ends LIMIT 1000 FOR UPDATE SKIP LOCKED
    ) AS gone
    WHERE r.source = gone.source AND r.limit_name = gone.limit_name AND r.fleet = gone.fleet;
END
$$;

CREATE OR REPLACE FUNCTION limiter.exchange(
    for_fleet text, by_member bigint, of_part bigint, new_number bigint,
    limits text[], costs float8[], caps bigint[], lives bigint[],
    sources text[], packets bigint[], terms bigint[]
) RETURNS TABLE (born bigint, total bigint, level bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
    SELECT * FROM limiter.exchange_at(
        limiter.micros(), for_fleet, by_member, of_part, new_number,
        limits, costs, caps, lives, sources, packets, terms)
$$;

-- A heartbeat of a member with its limits. Answers with the number of members with a heartbeat within `alive`, the age
-- of the oldest of these heartbeats, the revision of the lists, and the members' limits.
CREATE OR REPLACE FUNCTION limiter.heartbeat(
    for_fleet text, by_member bigint, its_label text, its_limits text[], alive bigint,
    most_members bigint, most_limits bigint
) RETURNS TABLE (hosts bigint, oldest bigint, revision bigint, held text[])
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '800ms' SET jit = off
AS $$
DECLARE
    now_us CONSTANT bigint := limiter.micros();
    forgotten CONSTANT bigint := 60000000;
    -- Times further in the future are from before the clock went back. Live members send again.
    ahead CONSTANT bigint := 1000000;
    longest CONSTANT integer := 400;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);

    INSERT INTO limiter.members AS m VALUES (for_fleet, by_member, left(its_label, 128), now_us)
    ON CONFLICT ON CONSTRAINT members_pkey DO UPDATE SET label = excluded.label, at = excluded.at;

    -- All members have the same limits: seldom written, so that heartbeats do not wait for each other.
    INSERT INTO limiter.limits AS l
    SELECT for_fleet, h.held, now_us FROM unnest(its_limits) AS h (held)
    WHERE length(h.held) <= longest AND NOT EXISTS (
        SELECT FROM limiter.limits AS l
        WHERE l.fleet = for_fleet AND l.held = h.held AND l.at BETWEEN now_us - alive / 4 AND now_us)
    ORDER BY 2
    ON CONFLICT ON CONSTRAINT limits_pkey DO UPDATE SET at = excluded.at;

    DELETE FROM limiter.members AS m USING (
        SELECT fleet, member FROM limiter.members
        WHERE fleet = for_fleet AND at NOT BETWEEN now_us - forgotten AND now_us + ahead
        LIMIT 1000 FOR UPDATE SKIP LOCKED
    ) AS gone
    WHERE m.fleet = gone.fleet AND m.member = gone.member;
    DELETE FROM limiter.limits AS l USING (
        SELECT fleet, limits.held FROM limiter.limits
        WHERE fleet = for_fleet AND at NOT BETWEEN now_us - alive AND now_us + ahead
        LIMIT 1000 FOR UPDATE SKIP LOCKED
    ) AS gone
    WHERE l.fleet = gone.fleet AND l.held = gone.held;
    DELETE FROM limiter.rounds AS r USING (
        SELECT member, part, fleet FROM limiter.rounds
        WHERE ends <= now_us ORDER BY ends LIMIT 1000 FOR UPDATE SKIP LOCKED
    ) AS gone
    WHERE r.member = gone.member AND r.part = gone.part AND r.fleet = gone.fleet;

    SELECT count(*), greatest(now_us - min(m.at), 0) INTO hosts, oldest
    FROM limiter.members AS m WHERE m.fleet = for_fleet AND m.at BETWEEN now_us - alive AND now_us + ahead;
    SELECT array_agg(l.held) INTO held FROM (
        SELECT l.held, l.at FROM limiter.limits AS l
        WHERE l.fleet = for_fleet AND l.at BETWEEN now_us - alive AND now_us + ahead AND length(l.held) <= longest
        ORDER BY l.at DESC LIMIT most_limits
    ) AS l;
    held := coalesce(held, '{}');
    revision := coalesce((SELECT r.revision FROM limiter.revisions AS r WHERE r.fleet = for_fleet), 0);

    -- Keeps the latest. Without forged members, there is nothing to do.
    IF hosts > most_members THEN
        DELETE FROM limiter.members AS m WHERE m.fleet = for_fleet AND m.at <= (
            SELECT at FROM limiter.members WHERE fleet = for_fleet ORDER BY at DESC OFFSET most_members LIMIT 1);
    END IF;
    IF (SELECT count(*) FROM limiter.limits AS l WHERE l.fleet = for_fleet) > most_limits THEN
        DELETE FROM limiter.limits AS l WHERE l.fleet = for_fleet AND l.at <= (
            SELECT at FROM limiter.limits WHERE fleet = for_fleet ORDER BY at DESC OFFSET most_limits LIMIT 1);
    END IF;
    RETURN NEXT;
END
$$;

-- Changes a list: adds prefixes in the name of a host, for a time or for ever, or removes them if there is no host.
-- Answers with the number of changed prefixes, and the revision. Fails as a whole if the list would be too long (LF001), or
-- if the lists are not those of which the agent knows the birth (LF002; 0: it knows none).
CREATE OR REPLACE FUNCTION limiter.edit(
    for_fleet text, of_list text, known_born bigint, prefixes text[], by_host text, lasts bigint, most bigint
) RETURNS TABLE (changed bigint, revision bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '800ms' SET jit = off
AS $$
DECLARE
    now_us CONSTANT bigint := limiter.micros();
    born bigint;
BEGIN
    -- Locks the fleet's lists: revisions are given in the order in which changes come into force.
    INSERT INTO limiter.revisions AS r VALUES (for_fleet, 0)
    ON CONFLICT ON CONSTRAINT revisions_pkey DO UPDATE SET revision = r.revision
    RETURNING r.revision, r.born INTO revision, born;
    IF known_born NOT IN (0, born) THEN
        RAISE EXCEPTION 'the lists were lost' USING ERRCODE = 'LF002';
    END IF;

    IF by_host IS NULL THEN
        DELETE FROM limiter.entries AS e
        WHERE e.fleet = for_fleet AND e.list = of_list AND e.prefix = ANY (prefixes);
        GET DIAGNOSTICS changed = ROW_COUNT;
    ELSE
        DELETE FROM limiter.entries AS e WHERE e.fleet = for_fleet AND e.list = of_list AND e.ends <= now_us;
        INSERT INTO limiter.entries AS e
        SELECT DISTINCT for_fleet, of_list, p.prefix, by_host, now_us, now_us + lasts
        FROM unnest(prefixes) AS p (prefix)
        ON CONFLICT ON CONSTRAINT entries_pkey DO UPDATE SET
            host = excluded.host, added = excluded.added, ends = excluded.ends;
        GET DIAGNOSTICS changed = ROW_COUNT;
        IF (SELECT count(*) FROM limiter.entries AS e WHERE e.fleet = for_fleet AND e.list = of_list) > most THEN
            RAISE EXCEPTION 'the list is too long' USING ERRCODE = 'LF001';
        END IF;
    END IF;
    IF changed > 0 THEN
        revision := greatest(revision + 1, now_us);
        UPDATE limiter.revisions AS r SET revision = edit.revision,
            born = CASE r.born WHEN 0 THEN now_us ELSE r.born END
        WHERE r.fleet = for_fleet;
    END IF;
    RETURN NEXT;
END
$$;

-- Puts prefixes back on a list that the store has lost, as an agent knows them of a revision. Prefixes that are there stay
-- as they are. Answers false if an agent has put the same revision or a later one back. Fails (LF001) if the list would be
-- too long.
CREATE OR REPLACE FUNCTION limiter.restore(
    for_fleet text, of_list text, known bigint, is_last boolean,
    prefixes text[], hosts text[], ages bigint[], lefts bigint[], most bigint
) RETURNS TABLE (taken boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '800ms' SET jit = off
AS $$
DECLARE
    now_us CONSTANT bigint := limiter.micros();
BEGIN
    INSERT INTO limiter.revisions AS r VALUES (for_fleet, 0)
    ON CONFLICT ON CONSTRAINT revisions_pkey DO UPDATE SET revision = r.revision
    RETURNING coalesce((r.restored ->> of_list)::bigint, 0) < known INTO taken;
    IF taken THEN
        INSERT INTO limiter.entries
        SELECT for_fleet, of_list, p.prefix, p.host, greatest(now_us - p.age, 0), now_us + p.lasts
        FROM unnest(prefixes, hosts, ages, lefts) AS p (prefix, host, age, lasts)
        ON CONFLICT ON CONSTRAINT entries_pkey DO NOTHING;
        IF (SELECT count(*) FROM limiter.entries AS e WHERE e.fleet = for_fleet AND e.list = of_list) > most THEN
            RAISE EXCEPTION 'the list is too long' USING ERRCODE = 'LF001';
        END IF;
    END IF;
    -- Nothing is noted before the list is complete: hosts keep what they have until then.
    IF taken AND is_last THEN
        UPDATE limiter.revisions AS r SET revision = greatest(r.revision + 1, now_us),
            born = CASE r.born WHEN 0 THEN now_us ELSE r.born END,
            restored = r.restored || jsonb_build_object(of_list, known)
        WHERE r.fleet = for_fleet;
    END IF;
    RETURN NEXT;
END
$$;

-- Reads the prefixes of a list after one, in their order, at most so many. Answers with the time, the revision, the
-- birth of the lists, the prefixes, and for each a value in JSON. Leaves out what limiter does not write.
-- Fails (LF001) if the list is too long.
CREATE OR REPLACE FUNCTION limiter.part(
    for_fleet text, of_list text, after text, at_once bigint, most bigint
) RETURNS TABLE (now_us bigint, revision bigint, born bigint, prefixes text[], contents text[])
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '800ms' SET jit = off
AS $$
BEGIN
    -- Before the entries: a change in between is then read again.
    SELECT r.revision, r.born INTO revision, born FROM limiter.revisions AS r WHERE r.fleet = for_fleet;
    revision := coalesce(revision, 0);
    born := coalesce(born, 0);
    IF after = '' AND (
        SELECT count(*) FROM limiter.entries AS e WHERE e.fleet = for_fleet AND e.list = of_list) > most
    THEN
        RAISE EXCEPTION 'the list is too long' USING ERRCODE = 'LF001';
    END IF;
    SELECT coalesce(array_agg(e.prefix), '{}'), coalesce(array_agg(
        json_build_object('by', e.host, 'at', e.added, 'until', e.ends)::text), '{}')
    INTO prefixes, contents
    FROM (
        SELECT * FROM limiter.entries AS e
        WHERE e.fleet = for_fleet AND e.list = of_list AND e.prefix > after
            AND length(e.prefix) <= 43 AND length(e.host) <= 128
        ORDER BY e.prefix LIMIT at_once
    ) AS e;
    now_us := limiter.micros();
    RETURN NEXT;
END
$$;

REVOKE ALL ON SCHEMA limiter FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA limiter FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA limiter FROM PUBLIC;
DO $$
DECLARE
    agents CONSTANT name := left('limiter_agent_' || current_database(), 63);
    other name;
BEGIN
    -- The role of version 1 was one for all databases.
    FOR other IN SELECT rolname FROM pg_roles WHERE rolname IN (agents, 'limiter_agent') LOOP
        EXECUTE format('REVOKE ALL ON SCHEMA limiter FROM %I', other);
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA limiter FROM %I', other);
        EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA limiter FROM %I', other);
    END LOOP;
    EXECUTE format('GRANT USAGE ON SCHEMA limiter TO %I', agents);
    EXECUTE format(
        'GRANT EXECUTE ON FUNCTION limiter.version, limiter.exchange, limiter.heartbeat, limiter.edit, limiter.part,
            limiter.restore TO %I', agents);
END
$$;
