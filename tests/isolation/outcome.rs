//! What a call has come to, in words that two runs of the same schedule share: codes, and no ids or times.

use crate::operations::Subject;
use agentq_tests::Value;
use postgres::Client;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Said {
    /// The code of the answer, and what else tells one answer from another.
    Answer(String),
    /// SQLSTATE, message and HINT.
    Error { code: String, message: String, hint: String },
}

impl Said {
    /// Calls, and says what came of it.
    pub fn of(client: &mut Client, sql: &str, about: &Subject) -> Said {
        match client.query_one(sql, &[]) {
            Ok(row) => Said::Answer(told(&row.get(0), about)),
            Err(error) => Said::failed(&error),
        }
    }

    /// Ends a transaction; None: as wanted.
    pub fn of_end(client: &mut Client, sql: &str) -> Option<Said> {
        client.batch_execute(sql).err().map(|error| Said::failed(&error))
    }

    fn failed(error: &postgres::Error) -> Said {
        let error = error.as_db_error().unwrap_or_else(|| panic!("not an error of the server's: {error:?}"));
        Said::Error {
            code: error.code().code().to_owned(),
            message: error.message().to_owned(),
            hint: error.hint().unwrap_or_default().to_owned(),
        }
    }

    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Said::Error { code, .. } => Some(code),
            Said::Answer(_) => None,
        }
    }

    /// What every run has in common: an answer's code, or an error's SQLSTATE.
    pub fn short(&self) -> String {
        match self {
            Said::Answer(answer) => answer.clone(),
            Said::Error { code, .. } => format!("error {code}"),
        }
    }
}

fn told(answer: &Value, about: &Subject) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let who = |id: &Value| match id.as_str() {
        Some(id) if id == about.job => "it",
        Some(id) if id == about.head => "head",
        Some(_) => "another",
        None => "nobody",
    };
    let code = text(&answer["code"]).unwrap_or_else(|| panic!("no code in {answer}"));
    let mut told = vec![code.clone()];
    match code.as_str() {
        "claimed" | "empty" if answer["ack"].is_object() => {
            told.insert(0, text(&answer["ack"]["code"]).unwrap_or_default());
            told.push(who(&answer["job"]["job_id"]).to_owned());
        }
        "claimed" | "duplicate" | "already_redriven" => told.push(who(&answer["job_id"]).to_owned()),
        "acked" => told.push(answer["acked"].to_string()),
        "purged" => told.push(answer["purged"].to_string()),
        "found" => told.extend(text(&answer["job"]["state"])),
        "sent" => told.push(who(&answer["delivered_to"]).to_owned()),
        // A chore that fails says so in its answer.
        "ticked" => told.push(
            answer["chores"][0]["error"]
                .as_str()
                .map_or_else(|| format!("{} rows", answer["chores"][0]["rows"]), |error| format!("failed: {error}")),
        ),
        _ => told.extend(text(&answer["state"])),
    }
    told.join(" ")
}
