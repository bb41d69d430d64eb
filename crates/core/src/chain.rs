//! The chain of hashes over the log of events: what is hashed, in which form, and what a look at a row
//! finds wrong with it.
//!
//! The form is fixed, so that others can check a log without this code. A field is one byte, 0 for
//! absent or 1 for present, and if present its length in four bytes and its bytes; numbers are
//! big-endian, texts UTF-8, ids in their usual lower-case spelling, moments in microseconds since
//! 1970 as decimal text, payloads as the server writes jsonb.
//!
//! ```text
//! digest  = SHA-256("agentq event 2", event_id, event_at, purpose, event_kind, subject, payload,
//!                   source, number of tags (4 bytes), each tag, dedupe_key, correlation_id, trace_id, mission_id,
//!                   origin, actor, target_type, target_id, command_id, agent_run_id, swarm_run_id,
//!                   step_index, tool_name, latency_ms, token_usage, cost_units)
//! hash    = SHA-256("agentq link 1", hash before (32 bytes), seq (8 bytes), place (8 bytes),
//!                   event_id, event_at, purpose, digest (32 bytes))
//! genesis = SHA-256("agentq chain ", name of the chain)      what the first link of a chain follows
//! ```
//!
//! Each row of the log says which form its digest has. Events that 0.9.0 sealed have the first, "agentq event 1", which
//! ends with mission_id: they have nothing of what follows it.

use sha2::{Digest, Sha256};

pub type Hash = [u8; 32];

/// Events whose history is one chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    Usual,
    Audit,
}

impl Chain {
    pub const ALL: [Chain; 2] = [Chain::Usual, Chain::Audit];

    pub fn of(purpose: &str) -> Chain {
        if purpose == "audit" { Chain::Audit } else { Chain::Usual }
    }

    pub fn name(self) -> &'static str {
        match self {
            Chain::Usual => "usual",
            Chain::Audit => "audit",
        }
    }

    pub fn genesis(self) -> Hash {
        let mut hasher = Sha256::new();
        hasher.update(b"agentq chain ");
        hasher.update(self.name());
        hasher.finalize().into()
    }
}

/// What a link says of its event, whether the event is still there or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub event_id: String,
    /// Microseconds since 1970.
    pub event_at: i64,
    pub purpose: String,
}

/// The rest of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    pub event_kind: String,
    pub subject: String,
    pub payload: String,
    pub source: Option<String>,
    pub tags: Vec<String>,
    pub dedupe_key: Option<String>,
    pub correlation_id: Option<String>,
    pub trace_id: Option<String>,
    pub mission_id: Option<String>,
    pub origin: Option<String>,
    pub actor: Option<String>,
    pub target_type: Option<String>,
    pub target_id: Option<String>,
    pub command_id: Option<String>,
    pub agent_run_id: Option<String>,
    pub swarm_run_id: Option<String>,
    pub step_index: Option<String>,
    pub tool_name: Option<String>,
    pub latency_ms: Option<String>,
    pub token_usage: Option<String>,
    pub cost_units: Option<String>,
}

impl Body {
    /// What the first form does not have.
    fn later(&self) -> [&Option<String>; 12] {
        [
            &self.origin,
            &self.actor,
            &self.target_type,
            &self.target_id,
            &self.command_id,
            &self.agent_run_id,
            &self.swarm_run_id,
            &self.step_index,
            &self.tool_name,
            &self.latency_ms,
            &self.token_usage,
            &self.cost_units,
        ]
    }
}

/// The form of digests that are made now.
pub const FORM: i16 = 2;

/// A row of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub seq: i64,
    pub place: i64,
    pub head: Head,
    pub digest: Hash,
    pub hash: Hash,
}

struct Form(Sha256);

impl Form {
    fn new(name: &str) -> Form {
        Form(Sha256::new_with_prefix(name))
    }

    fn field(mut self, value: Option<&str>) -> Form {
        match value {
            None => self.0.update([0]),
            Some(text) => {
                self.0.update([1]);
                self.0.update((text.len() as u32).to_be_bytes());
                self.0.update(text);
            }
        }
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Form {
        self.0.update(bytes);
        self
    }

    fn head(self, head: &Head) -> Form {
        self.field(Some(&head.event_id)).field(Some(&head.event_at.to_string())).field(Some(&head.purpose))
    }

    fn end(self) -> Hash {
        self.0.finalize().into()
    }
}

/// The digest of an event in one of the forms. None: the form is not known, or the event has what that form does not.
pub fn digest_in(form: i16, head: &Head, body: &Body) -> Option<Hash> {
    match form {
        1 if body.later().iter().any(|field| field.is_some()) => None,
        1 => Some(common("agentq event 1", head, body).end()),
        FORM => Some(digest(head, body)),
        _ => None,
    }
}

/// The digest of an event.
pub fn digest(head: &Head, body: &Body) -> Hash {
    let form = common("agentq event 2", head, body);
    body.later().into_iter().fold(form, |form, field| form.field(field.as_deref())).end()
}

fn common(name: &str, head: &Head, body: &Body) -> Form {
    let mut form = Form::new(name)
        .head(head)
        .field(Some(&body.event_kind))
        .field(Some(&body.subject))
        .field(Some(&body.payload))
        .field(body.source.as_deref())
        .bytes(&(body.tags.len() as u32).to_be_bytes());
    for tag in &body.tags {
        form = form.field(Some(tag));
    }
    form.field(body.dedupe_key.as_deref())
        .field(body.correlation_id.as_deref())
        .field(body.trace_id.as_deref())
        .field(body.mission_id.as_deref())
}

/// The hash of a link that follows `before`.
pub fn hash(before: &Hash, seq: i64, place: i64, head: &Head, digest: &Hash) -> Hash {
    Form::new("agentq link 1")
        .bytes(before)
        .bytes(&seq.to_be_bytes())
        .bytes(&place.to_be_bytes())
        .head(head)
        .bytes(digest)
        .end()
}

/// The end of a chain, to which the next link is put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub place: i64,
    pub hash: Hash,
}

impl End {
    pub fn of_nothing(chain: Chain) -> End {
        End { place: 0, hash: chain.genesis() }
    }

    /// The link of an event after this end, which moves on to it.
    pub fn link(&mut self, form: i16, seq: i64, head: Head, body: &Body) -> Link {
        let digest = digest_in(form, &head, body).unwrap_or_else(|| digest(&head, body));
        let place = self.place + 1;
        let hash = hash(&self.hash, seq, place, &head, &digest);
        *self = End { place, hash };
        Link { seq, place, head, digest, hash }
    }

    /// Whether a link follows this end.
    fn is_followed_by(&self, link: &Link) -> bool {
        self.place + 1 == link.place && self.fits(link, link) == Some(link.hash)
    }

    /// The hash that the next link would have if it stood where `place` stands and said what `what` says.
    fn fits(&self, place: &Link, what: &Link) -> Option<Hash> {
        Some(hash(&self.hash, place.seq, self.place + 1, &what.head, &what.digest))
    }

    /// What is wrong with a link that should follow this end, and moves on to it. `others` are links
    /// of the same chain that come near it.
    pub fn check<'a>(&mut self, link: &Link, others: impl Iterator<Item = &'a Link>) -> Option<Fault> {
        if self.is_followed_by(link) {
            *self = End { place: link.place, hash: link.hash };
            return None;
        }
        let mut later = false;
        for other in others.filter(|other| other.seq != link.seq) {
            let hash = self.fits(link, other);
            if hash == Some(link.hash) || hash == Some(other.hash) {
                return Some(Fault::Reordered);
            }
            later |= other.place == self.place + 1;
        }
        Some(if link.place > self.place + 1 && !later {
            Fault::Missing
        } else if link.place <= self.place {
            Fault::Inserted
        } else {
            Fault::Altered
        })
    }
}

/// What is wrong with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Altered,
    Missing,
    Inserted,
    Reordered,
}

impl Fault {
    pub fn name(self) -> &'static str {
        match self {
            Fault::Altered => "altered",
            Fault::Missing => "missing",
            Fault::Inserted => "inserted",
            Fault::Reordered => "reordered",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(id: u32) -> Head {
        Head {
            event_id: format!("0190c1d2-0000-7000-8000-{id:012}"),
            event_at: 1_700_000_000_000_000 + i64::from(id),
            purpose: "event".to_owned(),
        }
    }

    fn body() -> Body {
        Body {
            event_kind: "order.paid".to_owned(),
            subject: "order 7".to_owned(),
            payload: r#"{"amount": 12.50}"#.to_owned(),
            source: Some("shop".to_owned()),
            tags: vec!["money".to_owned(), "été".to_owned()],
            trace_id: Some(String::new()),
            ..Body::default()
        }
    }

    fn hex(hash: &Hash) -> String {
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn chain(count: u32) -> Vec<Link> {
        let mut end = End::of_nothing(Chain::Usual);
        (1..=count).map(|n| end.link(FORM, i64::from(n) * 2, head(n), &body())).collect()
    }

    fn first_fault(links: &[Link]) -> Option<(usize, Fault)> {
        let mut end = End::of_nothing(Chain::Usual);
        links.iter().enumerate().find_map(|(at, link)| end.check(link, links.iter()).map(|fault| (at, fault)))
    }

    /// The vectors were made by another program, from the form that the module describes.
    #[test]
    fn the_form_is_the_one_that_is_written_down() {
        assert_eq!(hex(&Chain::Usual.genesis()), "ecd322214f0ef9ce6d1199ec4e87c0226fac131da8a931013a5255e856276b60");
        let digest = digest_in(1, &head(1), &body()).unwrap();
        assert_eq!(hex(&digest), "e416dbca9acdf49e7568dc9a6f96215b8b97781c32587a47f81dd33040c6cd6d");
        assert_eq!(
            hex(&hash(&Chain::Usual.genesis(), 2, 1, &head(1), &digest)),
            "3a3f86c502c17dfb8217aa4878c4dc216eee08c5970153835cbc99cd5833e4de"
        );
    }

    /// The second form: every field counts, and none of the later ones can hide in the first form.
    #[test]
    fn each_later_field_is_part_of_the_digest() {
        let plain = digest(&head(1), &body());
        assert_eq!(hex(&plain), "3f20ac715fc746f3adc05ba4b416862318e9238b9074b42289b9caaa7375f9aa");
        let set: [fn(&mut Body) -> &mut Option<String>; 12] = [
            |body| &mut body.origin,
            |body| &mut body.actor,
            |body| &mut body.target_type,
            |body| &mut body.target_id,
            |body| &mut body.command_id,
            |body| &mut body.agent_run_id,
            |body| &mut body.swarm_run_id,
            |body| &mut body.step_index,
            |body| &mut body.tool_name,
            |body| &mut body.latency_ms,
            |body| &mut body.token_usage,
            |body| &mut body.cost_units,
        ];
        let mut seen = std::collections::HashSet::from([plain]);
        for field in set {
            let mut changed = body();
            *field(&mut changed) = Some("agentq".to_owned());
            assert!(seen.insert(digest(&head(1), &changed)), "two fields give one digest");
            assert_eq!(digest_in(1, &head(1), &changed), None);
        }
        assert_eq!(digest_in(FORM, &head(1), &body()), Some(plain));
        assert_eq!(digest_in(3, &head(1), &body()), None);
    }

    #[test]
    fn a_chain_that_nobody_touched_has_no_fault() {
        assert_eq!(first_fault(&chain(20)), None);
    }

    #[test]
    fn links_that_changed_places_are_reordered() {
        let mut links = chain(9);
        let (one, other) = (links[3].clone(), links[6].clone());
        links[3] = Link { seq: one.seq, place: one.place, ..other.clone() };
        links[6] = Link { seq: other.seq, place: other.place, ..one };
        assert_eq!(first_fault(&links), Some((3, Fault::Reordered)));
        let mut links = chain(9);
        (links[3].head, links[6].head) = (links[6].head.clone(), links[3].head.clone());
        (links[3].digest, links[6].digest) = (links[6].digest, links[3].digest);
        assert_eq!(first_fault(&links), Some((3, Fault::Reordered)));
    }

    proptest! {
        #[test]
        fn a_link_that_is_gone_is_missing(at in 0_usize..9) {
            let mut links = chain(10);
            links.remove(at);
            prop_assert_eq!(first_fault(&links), Some((at, Fault::Missing)));
        }

        #[test]
        fn a_link_that_came_later_is_noticed(at in 1_usize..10) {
            let mut links = chain(10);
            let mut end = End { place: links[at - 1].place - 1, hash: [7; 32] };
            links.insert(at, end.link(FORM, links[at - 1].seq, head(99), &body()));
            prop_assert_eq!(first_fault(&links), Some((at, Fault::Inserted)));
        }

        #[test]
        fn whatever_is_changed_in_a_link_is_altered(at in 0_usize..10, what in 0..5) {
            let mut links = chain(10);
            match what {
                0 => links[at].head.event_at += 1,
                1 => links[at].head.purpose = "agent_step".to_owned(),
                2 => links[at].head.event_id.push('0'),
                3 => links[at].digest[31] ^= 1,
                _ => links[at].hash[0] ^= 128,
            }
            prop_assert_eq!(first_fault(&links), Some((at, Fault::Altered)));
        }

        #[test]
        fn fields_do_not_run_into_each_other(kind in "[a-c]{0,3}", subject in "[a-c]{0,3}", source in "[a-c]{0,3}") {
            let one = Body { event_kind: kind.clone(), subject: subject.clone(), source: Some(source.clone()), ..Body::default() };
            let other = Body { event_kind: format!("{kind}{subject}"), source: Some(source), ..Body::default() };
            prop_assert_eq!(one == other, digest(&head(1), &one) == digest(&head(1), &other));
        }
    }
}
