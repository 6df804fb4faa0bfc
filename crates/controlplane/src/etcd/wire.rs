//! The etcd messages that are needed, in protobuf. Pure; responses of servers are not trusted.

use capstan_controller::etcd::Member;

/// Bytes that are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("etcd's answer cannot be read")]
pub(super) struct WireError;

/// Limit of members in a response, above every real cluster.
const MOST_MEMBERS: usize = 1000;

/// The status of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) member: u64,
    /// 0 if it knows no leader.
    pub(super) leader: u64,
    pub(super) has_errors: bool,
}

/// The member list, read with a quorum.
pub(super) fn member_list_request() -> Vec<u8> {
    field(1, 1)
}

pub(super) fn member_remove_request(id: u64) -> Vec<u8> {
    field(1, id)
}

pub(super) fn move_leader_request(to: u64) -> Vec<u8> {
    field(1, to)
}

/// A message with one number.
fn field(number: u8, value: u64) -> Vec<u8> {
    let mut bytes = vec![number << 3];
    let mut rest = value;
    while rest >= 0x80 {
        bytes.push(u8::try_from(rest & 0x7f).unwrap_or_default() | 0x80);
        rest >>= 7;
    }
    bytes.push(u8::try_from(rest).unwrap_or_default());
    bytes
}

pub(super) fn read_members(bytes: &[u8]) -> Result<Vec<Member>, WireError> {
    let mut members = Vec::new();
    for entry in Fields(bytes) {
        if let (2, Value::Bytes(member)) = entry? {
            members.push(read_member(member)?);
        }
        if members.len() > MOST_MEMBERS {
            return Err(WireError);
        }
    }
    Ok(members)
}

fn read_member(bytes: &[u8]) -> Result<Member, WireError> {
    let mut member = Member::default();
    for entry in Fields(bytes) {
        match entry? {
            (1, Value::Number(id)) => member.id = id,
            (2, Value::Bytes(name)) => member.name = text(name)?,
            (3, Value::Bytes(url)) => member.peer_urls.push(text(url)?),
            (4, Value::Bytes(url)) => member.client_urls.push(text(url)?),
            (5, Value::Number(learner)) => member.is_learner = learner != 0,
            _ => {}
        }
    }
    Ok(member)
}

pub(super) fn read_status(bytes: &[u8]) -> Result<Status, WireError> {
    let mut status = Status::default();
    for entry in Fields(bytes) {
        match entry? {
            (1, Value::Bytes(header)) => {
                for entry in Fields(header) {
                    if let (2, Value::Number(member)) = entry? {
                        status.member = member;
                    }
                }
            }
            (4, Value::Number(leader)) => status.leader = leader,
            (8, Value::Bytes(_)) => status.has_errors = true,
            _ => {}
        }
    }
    Ok(status)
}

fn text(bytes: &[u8]) -> Result<String, WireError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| WireError)
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A fixed-width number, which none of these messages has.
    Other,
}

/// The fields of a message, with their numbers.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn number(&mut self) -> Result<u64, WireError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(WireError)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(WireError)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], WireError> {
        let length = usize::try_from(length).map_err(|_| WireError)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WireError)?;
        self.0 = rest;
        Ok(taken)
    }

    fn entry(&mut self) -> Result<(u64, Value<'a>), WireError> {
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            1 => self.take(8).map(|_| Value::Other)?,
            2 => {
                let length = self.number()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Other)?,
            _ => return Err(WireError),
        };
        Ok((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.0 = &[];
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        let mut all = vec![number << 3 | 2, u8::try_from(content.len()).expect("a short text")];
        all.extend_from_slice(content);
        all
    }

    #[test]
    fn messages_are_read() {
        let member = [
            field(1, 0xdead_beef_dead_beef),
            bytes(2, b"web-0-1a2b3c4d"),
            bytes(3, b"https://10.0.0.1:2380"),
            bytes(4, b"https://10.0.0.1:2379"),
            field(5, 1),
        ]
        .concat();
        let header = [field(1, 1), field(2, 7), field(3, 9)].concat();
        let list = [bytes(1, &header), bytes(2, &member), bytes(2, &field(1, 3))].concat();
        let members = read_members(&list).expect("members");
        assert_eq!(members.len(), 2);
        assert_eq!((members[0].id, members[0].name.as_str()), (0xdead_beef_dead_beef, "web-0-1a2b3c4d"));
        assert_eq!(members[0].client_urls, ["https://10.0.0.1:2379"]);
        assert!(members[0].is_learner && !members[1].is_learner && members[1].name.is_empty());

        let status = [bytes(1, &header), bytes(2, b"3.6.0"), field(4, 5), bytes(8, b"NOSPACE")].concat();
        assert_eq!(read_status(&status), Ok(Status { member: 7, leader: 5, has_errors: true }));
        assert_eq!(read_status(&[]), Ok(Status::default()));
        assert_eq!(member_remove_request(300), [0x08, 0xac, 0x02]);
    }

    proptest! {
        #[test]
        fn no_answer_breaks_the_reader(answer in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (read_members(&answer), read_status(&answer));
        }

        #[test]
        fn numbers_read_back(number in any::<u64>()) {
            let status = field(4, number);
            prop_assert_eq!(read_status(&status).expect("a status").leader, number);
        }
    }
}
