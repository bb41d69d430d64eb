-- Describes the installed extension as sorted lines, one for each thing the catalog knows of it.
-- sql/schema.txt is the output for a fresh installation. Two installations with the same lines are
-- the same, however each came about; the version is left out for that reason.
SET search_path = pg_catalog;
WITH ext AS (
    SELECT oid, extconfig, extcondition, extrelocatable, extnamespace::regnamespace::text AS schema
    FROM pg_extension WHERE extname = 'agentq'
), member AS (
    SELECT d.classid, d.objid
    FROM pg_depend d JOIN ext ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = ext.oid
    WHERE d.deptype = 'e'
      -- From 18 on the types of rows and their arrays are members as well.
      AND NOT EXISTS (
          SELECT FROM pg_type t LEFT JOIN pg_class r ON r.oid = t.typrelid
          WHERE d.classid = 'pg_type'::regclass AND t.oid = d.objid AND (r.relkind <> 'c' OR t.typsubscript = 'array_subscript_handler'::regproc))
), rel AS (
    SELECT c.oid, c.oid::regclass::text AS name, c.relkind, c.relowner, c.relacl, c.relpersistence,
        c.reloptions, c.relrowsecurity, c.relforcerowsecurity, c.relreplident
    FROM pg_class c JOIN member m ON m.classid = 'pg_class'::regclass AND m.objid = c.oid
), fn AS (
    SELECT p.*, p.oid::regprocedure::text AS name, l.lanname
    FROM pg_proc p
    JOIN member m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
    JOIN pg_language l ON l.oid = p.prolang
), acl AS (
    SELECT 'relation ' || name AS object, relowner AS owner,
        coalesce(relacl, acldefault((CASE relkind WHEN 'S' THEN 's' ELSE 'r' END)::"char", relowner)) AS acl
    FROM rel
    UNION ALL
    SELECT 'function ' || name, proowner, coalesce(proacl, acldefault('f', proowner)) FROM fn
    UNION ALL
    SELECT 'column ' || rel.name || '.' || a.attname, rel.relowner, a.attacl
    FROM rel JOIN pg_attribute a ON a.attrelid = rel.oid WHERE a.attacl IS NOT NULL
    UNION ALL
    SELECT 'schema ' || n.nspname, n.nspowner, coalesce(n.nspacl, acldefault('n', n.nspowner))
    FROM pg_namespace n JOIN member m ON m.classid = 'pg_namespace'::regclass AND m.objid = n.oid
), line AS (
    SELECT format('extension in schema %s%s', schema, CASE WHEN extrelocatable THEN ', relocatable' ELSE '' END) AS line
    FROM ext
    UNION ALL
    -- Whatever kind of object: nothing can be added unseen.
    SELECT format('member %s %s', o.type, o.identity)
    FROM member m CROSS JOIN LATERAL pg_identify_object(m.classid, m.objid, 0) o
    UNION ALL
    SELECT format('%s %s persistence %s options %s row security %s replica identity %s',
        CASE relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence' ELSE 'relation of kind ' || relkind::text END,
        name, relpersistence, coalesce(array_to_string(reloptions, ', '), '-'),
        CASE WHEN relforcerowsecurity THEN 'forced' WHEN relrowsecurity THEN 'on' ELSE 'off' END, relreplident)
    FROM rel
    UNION ALL
    -- Positions count what is there, so that a column dropped by an upgrade leaves no trace.
    SELECT format('column %s %s %s %s%s%s%s%s%s', rel.name,
        to_char(row_number() OVER (PARTITION BY rel.oid ORDER BY a.attnum), 'FM000'), a.attname,
        format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attcollation <> t.typcollation THEN ' collate ' || a.attcollation::regcollation ELSE '' END,
        CASE WHEN a.attnotnull THEN ' not null' ELSE '' END,
        CASE a.attidentity WHEN 'a' THEN ' identity always' WHEN 'd' THEN ' identity by default' ELSE '' END,
        coalesce(CASE WHEN a.attgenerated <> '' THEN ' generated ' ELSE ' default ' END || pg_get_expr(d.adbin, d.adrelid), ''),
        CASE WHEN a.attstorage <> t.typstorage THEN ' storage ' || a.attstorage::text ELSE '' END)
    FROM rel
    JOIN pg_attribute a ON a.attrelid = rel.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE rel.relkind <> 'S'
    UNION ALL
    SELECT format('constraint %s %s %s%s', rel.name, c.conname, pg_get_constraintdef(c.oid),
        CASE WHEN c.convalidated THEN '' ELSE ' not validated' END)
    -- What is not null stands with its column; from 18 on it is a constraint as well.
    FROM rel JOIN pg_constraint c ON c.conrelid = rel.oid WHERE c.contype NOT IN ('t', 'n')
    UNION ALL
    SELECT format('type %s kind %s of %s%s%s%s', t.oid::regtype, t.typtype,
        CASE WHEN t.typbasetype <> 0 THEN format_type(t.typbasetype, t.typtypmod) ELSE '-' END,
        CASE WHEN t.typcollation <> coalesce(b.typcollation, 0) THEN ' collate ' || t.typcollation::regcollation ELSE '' END,
        CASE WHEN t.typnotnull THEN ' not null' ELSE '' END, coalesce(' default ' || t.typdefault, ''))
    FROM pg_type t
    JOIN member m ON m.classid = 'pg_type'::regclass AND m.objid = t.oid
    LEFT JOIN pg_type b ON b.oid = t.typbasetype
    UNION ALL
    SELECT format('constraint %s %s %s', c.contypid::regtype, c.conname, pg_get_constraintdef(c.oid))
    FROM pg_constraint c JOIN member m ON m.classid = 'pg_type'::regclass AND m.objid = c.contypid
    UNION ALL
    SELECT format('index %s %s%s', rel.name, pg_get_indexdef(i.indexrelid),
        CASE WHEN i.indisvalid THEN '' ELSE ' not valid' END)
    FROM rel JOIN pg_index i ON i.indrelid = rel.oid
    UNION ALL
    SELECT format('definition %s %s', name, pg_get_viewdef(oid, true)) FROM rel WHERE relkind = 'v'
    UNION ALL
    SELECT format('counting %s as %s from %s to %s start %s step %s cache %s%s for %s', rel.name,
        format_type(s.seqtypid, NULL), s.seqmin, s.seqmax, s.seqstart, s.seqincrement, s.seqcache,
        CASE WHEN s.seqcycle THEN ' cycle' ELSE '' END,
        coalesce((SELECT d.refobjid::regclass || '.' || a.attname
                  FROM pg_depend d JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
                  WHERE d.classid = 'pg_class'::regclass AND d.objid = rel.oid
                    AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')), '-'))
    FROM rel JOIN pg_sequence s ON s.seqrelid = rel.oid
    UNION ALL
    SELECT format('function %s(%s) returns %s language %s %s parallel %s%s%s security %s cost %s rows %s set %s source %s',
        proname, pg_get_function_arguments(oid), coalesce(pg_get_function_result(oid), prokind::text), lanname,
        CASE provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END,
        CASE proparallel WHEN 's' THEN 'safe' WHEN 'r' THEN 'restricted' ELSE 'unsafe' END,
        CASE WHEN proisstrict THEN ' strict' ELSE '' END, CASE WHEN proleakproof THEN ' leakproof' ELSE '' END,
        CASE WHEN prosecdef THEN 'definer' ELSE 'invoker' END, procost, prorows,
        coalesce((SELECT string_agg(s, '; ' ORDER BY s COLLATE "C") FROM unnest(proconfig) s), '-'),
        -- Of a C function the symbol, of the others a fingerprint of the body.
        CASE WHEN lanname = 'c' THEN probin || ' ' || prosrc ELSE md5(prosrc) END)
    FROM fn
    UNION ALL
    SELECT format('trigger %s %s enabled %s', rel.name, pg_get_triggerdef(t.oid), t.tgenabled)
    FROM rel JOIN pg_trigger t ON t.tgrelid = rel.oid WHERE NOT t.tgisinternal
    UNION ALL
    SELECT format('rule %s %s', rel.name, pg_get_ruledef(r.oid))
    FROM rel JOIN pg_rewrite r ON r.ev_class = rel.oid WHERE r.rulename <> '_RETURN'
    UNION ALL
    SELECT format('comment on %s %s: %s', o.type, o.identity, d.description)
    FROM pg_description d CROSS JOIN LATERAL pg_identify_object(d.classoid, d.objoid, d.objsubid) o
    WHERE (d.classoid, d.objoid) IN (SELECT classid, objid FROM member)
       OR (d.classoid = 'pg_trigger'::regclass
           AND d.objoid IN (SELECT t.oid FROM pg_trigger t JOIN rel ON t.tgrelid = rel.oid))
       OR (d.classoid = 'pg_constraint'::regclass
           AND d.objoid IN (SELECT c.oid FROM pg_constraint c JOIN rel ON c.conrelid = rel.oid))
       OR (d.classoid = 'pg_class'::regclass
           AND d.objoid IN (SELECT i.indexrelid FROM pg_index i JOIN rel ON i.indrelid = rel.oid))
    UNION ALL
    SELECT format('acl %s %s=%s', acl.object,
        CASE WHEN e.grantee = 0 THEN 'PUBLIC' WHEN e.grantee = acl.owner THEN 'owner' ELSE e.grantee::regrole::text END,
        string_agg(e.privilege_type || CASE WHEN e.is_grantable THEN '*' ELSE '' END, ',' ORDER BY e.privilege_type))
    FROM acl CROSS JOIN LATERAL aclexplode(acl.acl) e
    -- What owners may do anyway is more from 17 on.
    WHERE NOT (e.grantee = acl.owner AND e.privilege_type = 'MAINTAIN')
    GROUP BY acl.object, acl.owner, e.grantee
    UNION ALL
    SELECT format('dumped %s where %s', c.oid::regclass, coalesce(nullif(c.condition, ''), 'true'))
    FROM ext CROSS JOIN LATERAL unnest(ext.extconfig, ext.extcondition) AS c(oid, condition)
    UNION ALL
    -- Rows that belong to the extension rather than to its user.
    SELECT format('access %s %s %s', level, privilege, object) FROM agentq.access_rule
    UNION ALL
    SELECT format('config %s: %s', key, description) FROM agentq.config
    UNION ALL
    SELECT format('config default %s = %s', key, value) FROM agentq_internal.fn_config_defaults()
    UNION ALL
    SELECT format('setting %s %s from %s to %s default %s context %s: %s', name, vartype, min_val, max_val, boot_val, context, short_desc)
    FROM pg_settings WHERE name LIKE 'agentq.%'
)
SELECT regexp_replace(line, '\s*\n\s*', ' ', 'g') AS line FROM line ORDER BY line COLLATE "C";
