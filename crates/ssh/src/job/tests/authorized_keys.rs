//! Keys are written with the rights of their user: a link that the user puts into the home folder does not lead root to the
//! file of another.

use capstan_infrastructure::{BootstrapData, BootstrapState, ResetState};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

use super::world::{World, cloud_config};

const KEYS: &str = "/home/n/.ssh/authorized_keys";
/// User and group `nobody` of Debian.
const NOBODY: u32 = 65534;

fn data(user: &str) -> BootstrapData {
    cloud_config(&format!("users:\n- {{name: {user}, ssh_authorized_keys: [ssh-ed25519 AAAA me]}}\n"))
}

/// A host with the user `local`, who is there already, and is the one that runs this test.
fn host() -> World {
    let world = World::new();
    world.program("/usr/local/bin/usermod", ":");
    world.program("/usr/local/bin/getent", "echo 'local:x:1:1::/home/n:/bin/sh'");
    world.program(
        "/usr/local/bin/id",
        "case $* in *local) exec /usr/bin/id \"$1\" ;; esac\nexec /usr/bin/id \"$@\"",
    );
    std::fs::create_dir_all(world.at("/home/n")).unwrap();
    world
}

#[tokio::test]
async fn keys_are_added_once_and_taken_back() {
    for existing in [None, Some(""), Some("ssh-ed25519 BBBB other\n")] {
        let world = host();
        if let Some(content) = existing {
            world.write("/home/n/.ssh/known_hosts", "");
            if !content.is_empty() {
                world.write(KEYS, content);
                let mode = std::fs::Permissions::from_mode(0o640);
                std::fs::set_permissions(world.at(KEYS), mode).unwrap();
            }
        }
        let before = world.listing();
        assert_eq!(world.carried_out(&data("local")).await, BootstrapState::Done);
        let expected = format!("{}ssh-ed25519 AAAA me\n", existing.unwrap_or_default());
        assert_eq!(world.read(KEYS).as_deref(), Some(expected.as_str()));
        assert_eq!((world.mode(KEYS), world.mode("/home/n/.ssh")), (0o600, 0o700));
        assert_eq!(world.given_back().await, ResetState::Clean, "{:?}", world.listing());
        assert_eq!(world.listing(), before);
        if world.at(KEYS).exists() {
            assert_eq!(world.mode(KEYS), 0o640);
        }
    }
}

#[tokio::test]
async fn a_link_in_the_home_folder_is_refused() {
    for (link, target) in [("/home/n/.ssh", "/etc/other"), (KEYS, "/etc/other/authorized_keys")] {
        let world = host();
        world.write("/etc/other/authorized_keys", "of another user\n");
        std::fs::set_permissions(world.at("/etc/other"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir_all(world.at(link).parent().unwrap()).unwrap();
        symlink(world.at(target), world.at(link)).unwrap();
        let before = world.listing();
        let failure = world.failure(&data("local")).await;
        assert_eq!(failure.step, "users local");
        assert!(failure.last_lines.iter().any(|line| line.contains("is a symbolic link")), "{failure:?}");
        assert_eq!(world.read("/etc/other/authorized_keys").as_deref(), Some("of another user\n"));
        assert_eq!(world.mode("/etc/other"), 0o755);
        assert_eq!(world.given_back().await, ResetState::Clean);
        assert_eq!(world.listing(), before);
    }
}

#[tokio::test]
async fn a_link_that_came_later_is_refused_by_the_reset() {
    let world = host();
    world.write("/etc/other/authorized_keys", "of another user\n");
    assert_eq!(world.carried_out(&data("local")).await, BootstrapState::Done);
    std::fs::rename(world.at("/home/n/.ssh"), world.at("/home/n/moved")).unwrap();
    symlink(world.at("/etc/other"), world.at("/home/n/.ssh")).unwrap();
    let ResetState::Dirty { left } = world.given_back().await else { panic!("clean") };
    assert_eq!(left[0], "/home/n/.ssh/authorized_keys, which was not put back");
    assert_eq!(world.read("/etc/other/authorized_keys").as_deref(), Some("of another user\n"));
}

/// What holds also for a link that comes between the look and the write: root's rights are not used at all.
#[tokio::test]
async fn keys_are_written_with_the_rights_of_their_user() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped, because only root can act as another user");
        return;
    }
    let stage = || {
        let world = World::new();
        std::fs::set_permissions(world.root(), std::fs::Permissions::from_mode(0o755)).unwrap();
        world.program("/usr/local/bin/usermod", ":");
        world.program("/usr/local/bin/getent", "echo 'nobody:x:65534:65534::/home/n:/bin/sh'");
        world.program("/usr/local/bin/chown", "exit 1");
        std::fs::create_dir_all(world.at("/home/n")).unwrap();
        chown(world.at("/home/n"), Some(NOBODY), Some(NOBODY)).unwrap();
        world
    };
    let world = stage();
    assert_eq!(world.carried_out(&data("nobody")).await, BootstrapState::Done);
    for path in [KEYS, "/home/n/.ssh"] {
        assert_eq!(std::fs::symlink_metadata(world.at(path)).unwrap().uid(), NOBODY, "{path}");
    }
    assert_eq!(world.given_back().await, ResetState::Clean);

    // A folder that only root may write, and a file that only root may read.
    let world = stage();
    world.write(KEYS, "for root only\n");
    std::fs::set_permissions(world.at(KEYS), std::fs::Permissions::from_mode(0o600)).unwrap();
    let failure = world.failure(&data("nobody")).await;
    assert_eq!(failure.step, "users nobody");
    assert_eq!(world.read(KEYS).as_deref(), Some("for root only\n"));
}
