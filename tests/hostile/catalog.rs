//! Every function of the two schemas, read from the server's catalog, so that a new one is tried without being named here.

use agentq_tests::Session;
use agentq_tests::Value;

#[derive(Clone, Debug)]
pub struct Argument {
    pub name: String,
    /// As `format_type` says it.
    pub kind: String,
    pub has_default: bool,
}

#[derive(Clone, Debug)]
pub struct Function {
    schema: String,
    pub name: String,
    pub arguments: Vec<Argument>,
    /// Whether some level may call it; others are for the owner alone.
    pub is_public: bool,
    pub is_trigger: bool,
}

impl Function {
    /// Its name, with its schema.
    pub fn qualified(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }
}

const FUNCTIONS: &str = "
    SELECT jsonb_build_object('schema', p.pronamespace::regnamespace, 'name', p.proname, 'defaults', p.pronargdefaults,
        'trigger', p.prorettype IN ('trigger'::regtype, 'event_trigger'::regtype),
        'public', p.proname IN ('fn_access_grant', 'fn_access_revoke') OR EXISTS (SELECT FROM agentq.access_rule r WHERE r.object = p.proname),
        'names', coalesce(to_jsonb(p.proargnames[1:p.pronargs]), '[]'),
        'kinds', (SELECT coalesce(jsonb_agg(format_type(t, NULL) ORDER BY n), '[]')
                  FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS a(t, n)))
    FROM pg_proc p WHERE p.pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND p.prokind = 'f' ORDER BY p.proname, p.oid";

pub fn functions(s: &mut Session) -> Vec<Function> {
    let rows = s.0.query(FUNCTIONS, &[]).expect("the catalog can be read");
    let all: Vec<Function> = rows.iter().map(|row| function(&row.get(0))).collect();
    assert!(all.iter().filter(|function| function.is_public).count() > 80, "the catalog lacks functions: {all:?}");
    all
}

fn function(row: &Value) -> Function {
    let texts = |key: &str| -> Vec<String> {
        let list = row[key].as_array().expect("a list");
        list.iter().map(|item| item.as_str().expect("a text").to_owned()).collect()
    };
    let (names, kinds) = (texts("names"), texts("kinds"));
    let defaults = row["defaults"].as_u64().expect("a number") as usize;
    let required = kinds.len() - defaults;
    let argument = |(place, kind): (usize, String)| Argument {
        name: names.get(place).cloned().unwrap_or_default(),
        kind,
        has_default: place >= required,
    };
    Function {
        schema: row["schema"].as_str().expect("a schema").to_owned(),
        name: row["name"].as_str().expect("a name").to_owned(),
        arguments: kinds.into_iter().enumerate().map(argument).collect(),
        is_public: row["public"] == true,
        is_trigger: row["trigger"] == true,
    }
}
