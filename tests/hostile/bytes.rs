//! Bytes that are no text: sent as a parameter, in a statement, and by COPY. Each is refused, and the session goes on.

use agentq_tests::{Session, database};
use postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use std::io::Write;

/// Not UTF-8: a lone byte of a sequence, one that is cut, one that is too long, a surrogate, beyond the last, a NUL.
const NO_TEXT: [&[u8]; 7] =
    [b"a\xffb", b"\xe2\x82", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\x80", b"a\0b"];

/// Sent as they are, whatever the type of the parameter.
#[derive(Debug)]
struct Raw(&'static [u8]);

impl ToSql for Raw {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut postgres::types::private::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

#[track_caller]
fn refused(what: &str, error: postgres::Error) {
    let error = error.as_db_error().unwrap_or_else(|| panic!("{what}: the session has ended: {error}"));
    // character_not_in_repertoire and untranslatable_character; for bytes that end where none may, in JSON.
    assert!(["22021", "22P05", "22P02"].contains(&error.code().code()), "{what}: {error:?}");
}

fn assert_goes_on(s: &mut Session) {
    let job = s.enqueue("after");
    assert_eq!(s.state(&job), "queued");
}

#[test]
fn bytes_that_are_no_text_are_refused_in_every_parameter_and_the_session_goes_on() {
    let db = database();
    let mut s = db.session();
    for call in [
        "fn_job_enqueue($1)",
        "fn_job_enqueue('x', $1)",
        "fn_job_enqueue('x', p_actor => $1)",
        "fn_job_enqueue('x', p_payload_json => $1)",
        "fn_job_enqueue('x', p_payload_ref => $1)",
        "fn_job_enqueue('x', p_options => $1)",
        "fn_job_enqueue_batch($1)",
        "fn_job_claim($1)",
        "fn_queue_set($1)",
        "fn_event_emit($1, 'y', '{}')",
        "fn_event_emit('x', $1, '{}')",
        "fn_mission_start($1)",
        "fn_handler_register('x', $1)",
        "fn_access_grant($1, 'worker')",
        "fn_schedule_set('x', $1, '{}')",
        "fn_signal_send($1, 'k')",
    ] {
        for bytes in NO_TEXT {
            let error = s.0.query(&format!("SELECT agentq.{call}"), &[&Raw(bytes)]);
            refused(&format!("{call} with {bytes:?}"), error.expect_err("this is no text"));
        }
    }
    assert_goes_on(&mut s);
    db.assert_sound();
}

#[test]
fn bytes_that_are_no_text_do_not_come_in_by_copy() {
    let db = database();
    let mut s = db.session();
    for bytes in NO_TEXT {
        for (column, before) in [("job_kind", ""), ("job_kind, actor", "x\t"), ("job_kind, payload_json", "x\t")] {
            let mut copy = s.0.copy_in(&format!("COPY agentq.job_queue ({column}) FROM STDIN")).expect("it begins");
            let line = [before.as_bytes(), bytes, b"\n"].concat();
            copy.write_all(&line).expect("it is sent");
            refused(&format!("{column} with {bytes:?}"), copy.finish().expect_err("this is no text"));
        }
    }
    assert_eq!(s.count("agentq.job_queue"), 0);
    // Text as it should be does come in, by the same rules as by the function.
    let mut copy = s.0.copy_in("COPY agentq.job_queue (job_kind, payload_json) FROM STDIN").expect("it begins");
    copy.write_all("größe\t{\"a\": 1}\n\u{1f980}\t{}\n".as_bytes()).expect("it is sent");
    assert_eq!(copy.finish().expect("it is taken"), 2);
    let mut copy = s.0.copy_in("COPY agentq.job_queue (job_kind, payload_json) FROM STDIN").expect("it begins");
    copy.write_all(b"x\t{\"token\": 1}\n").expect("it is sent");
    let error = copy.finish().expect_err("a denied key");
    assert_eq!(error.code().map(|code| code.code()), Some("22023"), "{error:?}");
    assert_eq!(s.count("agentq.job_queue"), 2);
    assert_goes_on(&mut s);
    db.assert_sound();
}

#[test]
fn a_nul_written_as_an_escape_is_refused_wherever_json_is_taken() {
    let db = database();
    let mut s = db.session();
    for call in [
        "fn_job_enqueue('x', p_payload_json => '{\"a\\u0000\": 1}')",
        "fn_job_enqueue('x', p_options => '{\"queue\": \"a\\u0000\"}')",
        "fn_mission_start('{\"steps\": [{\"kind\": \"a\\u0000b\"}]}')",
        "fn_event_emit('x', 'y', '{\"a\": \"\\u0000\"}')",
    ] {
        assert_eq!(s.fails(&format!("SELECT agentq.{call}")).code, "22P05", "{call}");
    }
    assert_goes_on(&mut s);
}
