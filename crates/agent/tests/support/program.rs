//! Programs of the agent on a machine in memory. A file has the digest of its program as content.

use capstan_agent::upgrade::Places;
use capstan_plan::{AgentProgram, Digest, Source};

use super::path;
use super::world::{Node, ROOT, World};

pub(crate) fn digest(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

pub(crate) fn named(name: &str) -> AgentProgram {
    let url = format!("https://mirror.example/{name}").parse().unwrap();
    AgentProgram { sha256: digest(name), size: 5, sources: vec![Source::new(url)] }
}

pub(crate) fn places() -> Places {
    Places {
        program: path("/opt/capstan/capstan-agent"),
        next: path("/opt/capstan/capstan-agent.next"),
        previous: path("/opt/capstan/capstan-agent.previous"),
        state: path("/var/lib/capstan/upgrade"),
        unit: path("/etc/systemd/system/capstan-agent.service"),
        unit_content: "[Service]\nExecStartPre=-guard\nExecStart=agent\n".to_owned(),
        owner: 0,
        group: 0,
    }
}

/// A machine with the old program.
pub(crate) fn machine() -> World {
    let old = digest("old").to_string();
    let world = World::with(&[
        ("/opt/capstan/capstan-agent", old.as_str()),
        ("/etc/systemd/system/capstan-agent.service", "[Service]\nExecStart=agent\n"),
        ("/etc/motd", "welcome"),
    ]);
    for folder in ["/var", "/var/lib", "/var/lib/capstan"] {
        world.state().nodes.insert(path(folder), Node::Directory(ROOT));
    }
    world
}

/// The program that would be started.
pub(crate) fn installed(world: &World) -> Digest {
    world.content(places().program.as_str()).expect("there is always a program").parse().expect("as a whole")
}
