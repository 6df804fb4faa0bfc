#!/bin/sh
# Installs what a fresh Debian machine lacks for the named groups, and only that:
#
#   build     compile Capstan: Rust and a C compiler
#   git       list the repository's files
#   fuzz      compile the fuzzer, which lints read, too: a C++ compiler
#   go        compile the third-party programs that tests run against
#   machines  make, boot and reach machines with systemd-nspawn, and compile k3s for them
#   clients   the Python client of Kubernetes
#   sshd      an SSH server of Debian
#   browser   Chromium and its WebDriver
#   valgrind  count the instructions of requests
#   clock     move the clock of programs
#   nat       be a router that masquerades
#
# Without a group it installs all of them.
set -eu

missing=""
need() { # need COMMAND PACKAGE…
	command -v "$1" >/dev/null 2>&1 && return
	shift
	missing="$missing $*"
}
need_file() { # need_file PATH PACKAGE
	[ -e "$1" ] || missing="$missing $2"
}
toolchain() { # toolchain COMMAND NAME
	command -v "$1" >/dev/null 2>&1 || {
		echo "packages: \`$1\` is not on the PATH: install $2 first" >&2
		exit 1
	}
}

[ $# -gt 0 ] || set -- build git fuzz go machines clients sshd browser valgrind clock nat
for group in "$@"; do
	case $group in
	build)
		toolchain cargo "Rust 1.95 or later (https://rustup.rs)"
		need cc gcc libc6-dev
		;;
	git)
		need git git
		;;
	fuzz)
		need c++ g++
		;;
	go)
		toolchain go "Go 1.26 or later (https://go.dev/dl)"
		need_file /etc/ssl/certs/ca-certificates.crt ca-certificates
		;;
	machines)
		need setpriv util-linux
		need flock util-linux
		need systemd-nspawn systemd-container
		need mmdebstrap mmdebstrap
		need ip iproute2
		need ssh openssh-client
		need zstd zstd
		need_file /usr/include/seccomp.h libseccomp-dev
		;;
	clients)
		need_file /usr/lib/python3/dist-packages/kubernetes python3-kubernetes
		;;
	browser)
		need chromium chromium
		need chromedriver chromium-driver
		;;
	valgrind)
		need valgrind valgrind
		;;
	clock)
		ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || missing="$missing libfaketime"
		;;
	nat)
		need nft nftables
		need ip iproute2
		;;
	sshd)
		need setpriv util-linux
		need_file /usr/sbin/sshd openssh-server
		;;
	*)
		echo "packages: there is no group $group: use build, git, go, machines, clients, sshd, browser, valgrind, clock or nat" >&2
		exit 2
		;;
	esac
done
[ -n "$missing" ] || exit 0

root=""
[ "$(id -u)" -eq 0 ] || root=sudo
command -v apt-get >/dev/null 2>&1 || {
	echo "packages: install these Debian packages, or what your distribution has in their place:$missing" >&2
	exit 1
}
echo "packages: installing$missing" >&2
$root apt-get update -qq
# Split on purpose: these are names of packages.
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $root apt-get install -qq -y --no-install-recommends $missing
# The tests start an SSH server of their own: Debian's must not listen for other machines.
case $missing in
*openssh-server*)
	[ ! -d /run/systemd/system ] || $root systemctl disable --quiet --now ssh.service ssh.socket || :
	;;
esac
