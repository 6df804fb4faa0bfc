//! cloud-config with a fake cloud-init that records its input. The suites that boot machines use the real one.

use capstan_infrastructure::{BootstrapState, ResetState};
use serde_json::Value;

use super::world::{CLAIM, PROVIDER_ID, World, cloud_config};

/// Does what cloud-init would for the seed it finds: `runcmd` is the script `todo` of the test's.
fn install(world: &World, errors: &str, todo: &str) {
    let root = world.root();
    world.program(
        "/usr/bin/cloud-init",
        &format!(
            "echo \"$@\" >> {root}/calls\n\
             case $* in\n\
             'init --local')\n\
             \t[ ! -e {root}/var/lib/cloud/instance ] || exit 1\n\
             \tmkdir -p {root}/var/lib/cloud/instances/{CLAIM}\n\
             \tcp {root}/var/lib/cloud/seed/nocloud/user-data {root}/var/lib/cloud/instances/{CLAIM}/user-data.txt\n\
             \tln -s {root}/var/lib/cloud/instances/{CLAIM} {root}/var/lib/cloud/instance ;;\n\
             'modules --mode=final')\n\
             \t{todo}\n\
             \techo '{{\"v1\": {{\"errors\": {errors}}}}}' > {root}/run/cloud-init/result.json ;;\n\
             esac"
        ),
    );
    for folder in
        ["/run/cloud-init", "/var/lib/cloud/seed", "/var/lib/cloud/instances/first", "/var/lib/cloud/data"]
    {
        std::fs::create_dir_all(world.at(folder)).unwrap();
    }
    std::os::unix::fs::symlink("instances/first", world.at("/var/lib/cloud/instance")).unwrap();
    world.write("/etc/cloud/cloud.cfg.d/05_logging.cfg", "");
    world.write("/run/cloud-init/result.json", "{\"v1\": {\"errors\": []}}\n");
}

#[tokio::test]
async fn a_claim_is_an_instance_and_comes_off_again() {
    let world = World::new();
    let root = world.root().to_owned();
    install(&world, "[]", &format!("mkdir -p {root}/etc/new && echo made > {root}/etc/new/file"));
    let before = world.listing();
    let data =
        cloud_config("write_files: [{path: /etc/new/file, content: made}]\nruncmd: ['true']\nusers: [ops]\n");
    assert_eq!(world.carried_out(&data).await, BootstrapState::Done);

    let stages = "init --local\ninit\nmodules --mode=config\nmodules --mode=final\n";
    assert_eq!(world.read("/calls").as_deref(), Some(stages));
    let metadata: Value =
        serde_json::from_str(&world.read("/var/lib/cloud/seed/nocloud/meta-data").unwrap()).unwrap();
    assert_eq!(metadata["instance-id"], CLAIM);
    assert_eq!(metadata["provider-id"], PROVIDER_ID);
    let seed = world.read("/var/lib/cloud/seed/nocloud/user-data").unwrap();
    assert_eq!(seed.as_bytes(), data.value, "byte for byte");
    assert_eq!(world.mode("/var/lib/cloud/seed/nocloud/user-data"), 0o600);
    let settings = world.read("/etc/cloud/cloud.cfg.d/99-zz-capstan.cfg").unwrap();
    let settings: Value = serde_json::from_str(settings.split_once('\n').unwrap().1).unwrap();
    assert_eq!(settings["cloud_init_modules"], serde_json::json!(["write_files", "users_groups"]));
    assert_eq!(settings["cloud_final_modules"], serde_json::json!(["write_files_deferred", "scripts_user"]));
    assert_eq!(
        (&settings["ssh_deletekeys"], &settings["network"]["config"]),
        (&Value::Bool(false), &"disabled".into())
    );

    assert_eq!(world.given_back().await, ResetState::Clean);
    std::fs::remove_file(world.at("/calls")).unwrap();
    assert_eq!(world.listing(), before);
}

#[tokio::test]
async fn what_cloud_init_says_went_wrong_is_reported() {
    let world = World::new();
    // In its log, and only there, as version 22.4 does it.
    let say = format!(
        "echo 'plain output'; printf \"Command: ['/var/lib/cloud/instance/scripts/runcmd']\\nExit code: 5\\n\" >> {}/var/log/cloud-init.log",
        world.root()
    );
    world.write(
        "/var/log/cloud-init.log",
        "Command: ['/var/lib/cloud/instance/scripts/runcmd']\nExit code: 9\n",
    );
    install(&world, r#"["(scripts_user, RuntimeError(...))"]"#, &say);
    let failure = world.failure(&cloud_config("runcmd: ['exit 5']\n")).await;
    assert_eq!((failure.step.as_str(), failure.exit_code), ("runcmd (by cloud-init)", Some(5)));
    assert!(failure.last_lines.iter().any(|line| line == "plain output"), "{failure:?}");
}

#[tokio::test]
async fn what_cannot_be_undone_is_named() {
    let world = World::new();
    install(&world, "[]", &format!("echo 'installed htop' >> {}/packages", world.root()));
    world.program("/usr/local/bin/dpkg-query", &format!("cat {}/packages", world.root()));
    world.write("/packages", "installed bash\ndeinstall old\n");
    let data = cloud_config("packages: [htop]\ndisk_setup: {/dev/none: {layout: true}}\n");
    assert_eq!(world.carried_out(&data).await, BootstrapState::Done);
    let ResetState::Dirty { left } = world.given_back().await else { panic!("dirty") };
    assert_eq!(left[0], "package htop, which was not there before");
    assert!(left[1].starts_with("partitions, which"), "{left:?}");
}
