//! The script that installs the agent on a machine and lets it enrol. Pure.
//!
//! It needs a POSIX shell and basic tools, and curl, wget or python3 if the agent is not installed yet. It is
//! idempotent and may be interrupted at any point.

use capstan_artifacts::{Arch, ArtifactRef};
use std::fmt::Write as _;

use super::{AGENT_CONFIG_PATH, AGENT_PATH};

/// Number of attempts to download the agent: about three minutes.
pub(super) const TRIES: u32 = 10;

/// The file that Cluster API expects after a successful bootstrap.
const SENTINEL: &str = "/run/cluster-api/bootstrap-success.complete";

/// The paths that the script uses. Tests replace them.
pub(super) struct Paths {
    pub(super) config: String,
    pub(super) agent: String,
    pub(super) sentinel: String,
}

impl Default for Paths {
    fn default() -> Self {
        Self::under("")
    }
}

impl Paths {
    pub(super) fn under(root: &str) -> Self {
        let under = |path: &str| format!("{root}{path}");
        Self { config: under(AGENT_CONFIG_PATH), agent: under(AGENT_PATH), sentinel: under(SENTINEL) }
    }
}

pub(super) struct Script<'a> {
    pub(super) paths: Paths,
    /// The configuration that the script writes first, unless it exists.
    pub(super) config: Option<String>,
    /// The agent for each architecture. If empty, the agent must be installed already.
    pub(super) agents: Vec<(Arch, &'a ArtifactRef)>,
    pub(super) tries: u32,
}

impl Script<'_> {
    pub(super) fn text(&self) -> String {
        let mut text = String::from(HEAD);
        let Paths { config, agent, sentinel } = &self.paths;
        for (name, path) in [("config", config), ("agent", agent), ("sentinel", sentinel)] {
            _ = writeln!(text, "{name}={}", quoted(path));
        }
        _ = writeln!(text, "tries={}", self.tries);
        if let Some(config) = &self.config {
            _ = writeln!(text, "\nstep=\"write $config\"\nmkdir -p \"${{config%/*}}\"");
            _ = writeln!(text, "(umask 077 && printf '%s\\n' {} > \"$config.new\")", quoted(config));
            text.push_str("mv -f \"$config.new\" \"$config\"\n");
        }
        match self.agents.is_empty() {
            true => text.push_str(NO_AGENT),
            false => {
                self.write_agents(&mut text);
                text.push_str(FETCH);
            }
        }
        text.push_str(TAIL);
        text
    }

    /// Writes the artifact and the sources of the agent for each architecture.
    fn write_agents(&self, text: &mut String) {
        text.push_str("\nstep='find the right agent'\n");
        let mut authorities: Vec<&str> = Vec::new();
        let mut cases = String::new();
        for (arch, agent) in &self.agents {
            let sources: Vec<String> = agent
                .sources
                .iter()
                .map(|source| {
                    let authority = source.ca.as_deref().map(|ca| {
                        let known = authorities.iter().position(|known| *known == ca);
                        known.unwrap_or_else(|| {
                            authorities.push(ca);
                            authorities.len() - 1
                        })
                    });
                    // Which authority stands behind a #, which no address has.
                    format!("{}#{}", source.url, authority.map_or_else(String::new, |n| format!("ca{n}")))
                })
                .collect();
            let machines = arch.kernel_names().join("|");
            let (digest, size, sources) = (agent.sha256, agent.size, quoted(&sources.join(" ")));
            _ = writeln!(cases, "{machines}) sha256={digest} size={size} sources={sources} ;;");
        }
        _ = writeln!(
            text,
            "case $(uname -m) in\n{cases}*) fail \"the management plane has no agent for $(uname -m): see capstan artifacts add\" ;;\nesac"
        );
        for (number, authority) in authorities.iter().enumerate() {
            _ = writeln!(text, "ca{number}={}", quoted(authority));
        }
        text.push('\n');
    }
}

/// Quotes a text as one word of the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

const HEAD: &str = r#"#!/bin/sh
# capstan.dev/repeatable
# Puts Capstan's agent on this machine and lets it enrol. May be cut off anywhere, and run again at any time.
set -eu
step=begin
work=
say() { printf 'capstan: %s\n' "$*" >&2; }
fail() { say "cannot $step: $*"; exit 1; }
ended() {
  code=$?
  [ -z "$work" ] || rm -rf "$work"
  [ "$code" -eq 0 ] || say "gave up (exit code $code) at: $step"
}
trap ended EXIT
trap 'exit 143' HUP INT TERM

"#;

const NO_AGENT: &str = r#"
step='find the agent'
[ -x "$agent" ] || fail "there is none at $agent, and the management plane has none to give: start it with --agent-binary"
"#;

// The digest decides what is run; TLS with the pinned authority only keeps others out of the way. The authority's
// folder and the environment are set as well, because some builds trust the system's authorities beside a given one.
const FETCH: &str = r##"command -v sha256sum >/dev/null 2>&1 || fail 'this machine has no sha256sum'

is_right() { [ -f "$1" ] && [ "$(sha256sum < "$1" | cut -c 1-64)" = "$sha256" ]; }

by_curl() {
  if [ -n "$2" ]; then set -- "$1" "$2" "$3" --cacert "$2" --capath "$work/none"; else set -- "$1" '' "$3"; fi
  url=$1 to=$3
  shift 3
  curl -q --fail --silent --show-error --proto '=https' --tlsv1.2 --connect-timeout 10 --speed-limit 1 --speed-time 30 \
    --max-filesize "$size" --output "$to" "$@" "$url"
}

by_wget() {
  (
    if [ -n "$2" ]; then
      SSL_CERT_FILE=$2 SSL_CERT_DIR=$work/none
      export SSL_CERT_FILE SSL_CERT_DIR
      set -- "$1" "$2" "$3" --ca-certificate="$2" --ca-directory="$work/none"
    else
      set -- "$1" '' "$3"
    fi
    url=$1 to=$3
    shift 3
    wget --no-config --no-verbose --max-redirect=0 --tries=1 --timeout=30 --output-document="$to" "$@" "$url"
  )
}

by_python3() {
  python3 -I - "$1" "$2" "$3" "$size" <<'END'
import ssl, sys, urllib.request
class Never(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None
url, ca, path, size = sys.argv[1:]
try:
    https = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca or None))
    with urllib.request.build_opener(https, Never).open(url, timeout=30) as answer, open(path, "wb") as file:
        left = int(size) + 1
        while left > 0 and (part := answer.read(min(left, 65536))):
            file.write(part)
            left -= len(part)
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
END
}

fetch() {
  for source in $sources; do
    url=${source%%#*} ca=${source##*#}
    if [ -n "$ca" ]; then
      eval "printf '%s\n' \"\$$ca\"" > "$work/$ca" || return 1
      ca=$work/$ca
    fi
    rm -f "$agent.new"
    if "$by" "$url" "$ca" "$agent.new" >&2; then
      is_right "$agent.new" && return 0
      say "$url does not have the digest $sha256"
    else
      say "cannot fetch $url"
    fi
  done
  rm -f "$agent.new"
  return 1
}

step="put the agent at $agent"
if ! is_right "$agent"; then
  if command -v curl >/dev/null 2>&1; then by=by_curl
  elif wget --version 2>/dev/null | grep -q GNU; then by=by_wget
  elif command -v python3 >/dev/null 2>&1; then by=by_python3
  else fail "this machine needs one of curl, GNU wget and python3, or the agent with the digest $sha256"
  fi
  work=$(mktemp -d)
  mkdir "$work/none"
  mkdir -p "${agent%/*}"
  try=1 pause=1
  until fetch; do
    [ "$try" -lt "$tries" ] || fail "tried $tries times"
    say "trying again in $pause s ($try of $tries)"
    sleep "$pause"
    try=$((try + 1)) pause=$((pause * 2))
    [ "$pause" -le 30 ] || pause=30
  done
  chmod 0755 "$agent.new"
  mv -f "$agent.new" "$agent"
fi
chmod 0755 "$agent"
"##;

const TAIL: &str = r#"
step='let the agent enrol'
"$agent" enroll

step="say that all is done in $sentinel"
mkdir -p "${sentinel%/*}"
echo success > "$sentinel"
"#;
