#!/bin/sh
# Installs what a fresh Debian machine lacks to build and test Capstan, and only that.
set -eu

missing=""
need() { # need COMMAND PACKAGE…
	command -v "$1" >/dev/null 2>&1 && return
	shift
	missing="$missing $*"
}

need cc gcc libc6-dev
need git git
need setpriv util-linux
[ -x /usr/sbin/sshd ] || missing="$missing openssh-server"
need flock util-linux
# Real machines: made from Debian packages, booted by systemd-nspawn, reached by SSH.
need systemd-nspawn systemd-container
need mmdebstrap mmdebstrap
need ip iproute2
need ssh openssh-client
need zstd zstd
# One of the clients that the embedded plane is tried with.
[ -e /usr/lib/python3/dist-packages/kubernetes ] || missing="$missing python3-kubernetes"
[ -e /usr/include/seccomp.h ] || missing="$missing libseccomp-dev"
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing="$missing ca-certificates"

for program in cargo go; do
	command -v "$program" >/dev/null 2>&1 || {
		echo "packages: $program is missing; install Rust 1.95 or later and Go 1.26 or later first" >&2
		exit 1
	}
done
[ -n "$missing" ] || exit 0

root=""
[ "$(id -u)" -eq 0 ] || root=sudo
command -v apt-get >/dev/null 2>&1 || {
	echo "packages: please install:$missing" >&2
	exit 1
}
echo "packages: installing$missing" >&2
$root apt-get update -qq
# Split on purpose: these are names of packages.
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $root apt-get install -qq -y --no-install-recommends $missing
# The tests start an SSH server of their own; nobody asked for one that others can reach.
case $missing in
*openssh-server*)
	[ ! -d /run/systemd/system ] || $root systemctl disable --quiet --now ssh.service ssh.socket || :
	;;
esac
