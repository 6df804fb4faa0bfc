//! Tests of supported cloud-config, and of the errors for the rest.

use super::{Command, Encoding, Metadata, parse};

fn metadata() -> Metadata {
    Metadata {
        instance_id: "claim-1".to_owned(),
        hostname: "rack-1".to_owned(),
        provider_id: "capstan://default/rack-1/claim-1".to_owned(),
    }
}

/// As upstream's kubeadm bootstrap provider writes it, in its own order and indentation.
pub(crate) const KUBEADM: &str = "## template: jinja
#cloud-config

write_files:
-   path: /etc/kubernetes/pki/ca.crt
    owner: root:root
    permissions: '0640'
    content: |
      -----BEGIN CERTIFICATE-----
      MIIC
      -----END CERTIFICATE-----

-   path: /etc/extra
    encoding: \"base64\"
    append: true
    content: |
      aGVs
      bG8=
-   path: /run/kubeadm/kubeadm.yaml
    owner: root:root
    permissions: '0640'
    content: |
      ---
      apiVersion: kubeadm.k8s.io/v1beta4
      nodeRegistration:
        name: '{{ ds.meta_data.local_hostname }}'
        kubeletExtraArgs: [{name: provider-id, value: '{{ ds.meta_data.provider_id }}'}]
-   path: /run/cluster-api/placeholder
    owner: root:root
    permissions: '0640'
    content: \"This placeholder file\"
bootcmd:
  - \"echo boot\"
runcmd:
  - \"hostname \\\"{{ ds.meta_data.hostname }}\\\"\"
  - 'kubeadm init --config /run/kubeadm/kubeadm.yaml  && echo success > /run/cluster-api/bootstrap-success.complete'
  - \"echo after\"
ntp:
  enabled: true
  servers:
    - time.example.com
users:
  - name: ops
    passwd: $6$hash
    gecos: Ops People
    groups: sudo, adm
    homedir: /home/ops
    lock_passwd: false
    shell: /bin/bash
    primary_group: staff
    sudo: ALL=(ALL) NOPASSWD:ALL
    ssh_authorized_keys:
      - ssh-ed25519 AAAA ops
";

#[test]
fn upstreams_kubeadm_data_is_understood() {
    let config = parse(KUBEADM.as_bytes(), &metadata()).expect("cloud-config");
    assert_eq!(config.write_files.len(), 4);
    let extra = &config.write_files[1];
    assert_eq!((extra.content.as_slice(), extra.append, extra.mode), (b"hello".as_slice(), true, 0o644));
    assert_eq!(config.write_files[0].mode, 0o640);
    let kubeadm = String::from_utf8_lossy(&config.write_files[2].content).into_owned();
    assert!(kubeadm.contains("  name: 'rack-1'\n"), "{kubeadm}");
    assert!(kubeadm.contains("'capstan://default/rack-1/claim-1'"), "{kubeadm}");
    assert_eq!(config.runcmd[0], Command::Line("hostname \"rack-1\"".to_owned()));
    assert!(config.runcmd[1].mentions("/run/cluster-api/bootstrap-success.complete"));
    assert_eq!(config.runcmd[1].program(), "kubeadm");
    assert_eq!(config.ntp.expect("ntp").servers, ["time.example.com"]);
    let user = &config.users[0];
    assert_eq!((user.name.as_str(), user.groups.join("+").as_str()), ("ops", "sudo+adm"));
    assert!(!user.lock_password && user.keys.len() == 1 && user.sudo == ["ALL=(ALL) NOPASSWD:ALL"]);
    assert_eq!(config.bootcmd.len(), 1);
}

#[test]
fn what_is_not_a_template_is_left_alone() {
    let data = "#cloud-config\nruncmd:\n- echo {{ nothing }}\n- [echo, 7, true]\n- null\n";
    let config = parse(data.as_bytes(), &metadata()).expect("cloud-config");
    assert_eq!(config.runcmd[0], Command::Line("echo {{ nothing }}".to_owned()));
    assert_eq!(config.runcmd[1], Command::Words(vec!["echo".into(), "7".into(), "True".into()]));
    assert_eq!(config.runcmd.len(), 2);
    assert!(parse(b"#cloud-config\n", &metadata()).is_ok());
}

#[test]
fn files_are_read_as_cloud_init_reads_them() {
    let data = "#cloud-config\nwrite_files:\n- {path: /a, permissions: 0600}\n- {path: /b, permissions: '0755', owner: 'ops', defer: true}\n\
                - {path: /c, encoding: gz+b64, content: H4sIAAAAAAAAA0tMSgYAwkEkNQMAAAA=}\n";
    let files = parse(data.as_bytes(), &metadata()).expect("cloud-config").write_files;
    assert_eq!((files[0].mode, files[0].owner.as_str()), (0o600, "root:root"));
    assert_eq!((files[1].mode, files[1].owner.as_str(), files[1].defer), (0o755, "ops", true));
    assert_eq!(files[2].encoding, Encoding::Gzip);
}

#[test]
fn programs_are_named_and_nothing_else_is() {
    for (line, program) in [
        ("kubeadm join --token s3cret", "kubeadm"),
        ("PASSWORD=s3cret /usr/bin/do-it", "/usr/bin/do-it"),
        ("(echo s3cret)", "sh"),
        ("\"$HOME/s3cret\"", "sh"),
    ] {
        assert_eq!(Command::Line(line.to_owned()).program(), program);
    }
}

#[test]
fn what_is_not_understood_is_refused_by_name_and_never_quoted() {
    for (data, expected) in [
        ("#!/bin/sh\necho s3cret\n", "#cloud-config"),
        ("#cloud-config\nchpasswd: s3cret\n", "the key chpasswd"),
        ("#cloud-config\n- s3cret\n", "not a YAML map"),
        ("#cloud-config\na: [s3cret\n", "not a YAML map"),
        ("#cloud-config\nwrite_files: s3cret\n", "write_files: is not a list"),
        ("#cloud-config\nwrite_files: [{path: s3cret}]\n", "write_files[0]: path"),
        ("#cloud-config\nwrite_files: [{path: /a/../s3cret}]\n", "write_files[0]: path"),
        ("#cloud-config\nwrite_files: [{path: /a, source: {uri: s3cret}}]\n", "write_files[0]: source"),
        ("#cloud-config\nwrite_files: [{path: /a, encoding: s3cret}]\n", "encoding"),
        (
            "#cloud-config\nwrite_files: [{path: /a, encoding: b64, content: '!s3cret'}]\n",
            "content is not base64",
        ),
        ("#cloud-config\nwrite_files: [{path: /a, owner: '-s3cret'}]\n", "owner"),
        ("#cloud-config\nwrite_files: [{path: /a, permissions: s3cret}]\n", "permissions"),
        ("#cloud-config\nwrite_files: [{path: /a, permissions: '70000'}]\n", "permissions"),
        ("#cloud-config\nruncmd: [{s3cret: 1}]\n", "runcmd[0]"),
        ("#cloud-config\nbootcmd: s3cret\n", "bootcmd: is not a list"),
        ("#cloud-config\nusers: [{name: a, chpasswd: s3cret}]\n", "users[0]: chpasswd"),
        ("#cloud-config\nusers: [default]\n", "users[0]: the user default"),
        ("#cloud-config\nusers: [{gecos: s3cret}]\n", "users[0]: has no name"),
        ("#cloud-config\nntp: {servers: ['s3cret; rm']}\n", "ntp.servers"),
        ("## template: jinja\n#cloud-config\nruncmd: ['{{ s3cret }}']\n", "cannot be filled in"),
        ("## template: jinja\n#cloud-config\nruncmd: ['{% s3cret']\n", "are supported as statements"),
    ] {
        let error =
            parse(data.as_bytes(), &metadata()).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(expected), "{data}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}
