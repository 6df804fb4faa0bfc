# Who the host is.
say uid "$(id -u)"
say hostname "$(uname -n)"
say kernel "$(uname -r)"
say architecture "$(uname -m)"
[ ! -r "$root/etc/machine-id" ] || say machine-id "$(cat "$root/etc/machine-id")"
[ ! -r /proc/sys/kernel/random/boot_id ] || say boot-id "$(cat /proc/sys/kernel/random/boot_id)"
[ ! -r "$root/etc/os-release" ] || (
	. "$root/etc/os-release"
	say os "${PRETTY_NAME:-${NAME:-}}"
)
say cpus "$(getconf _NPROCESSORS_ONLN 2>/dev/null || nproc 2>/dev/null)"
while read -r key value _; do
	[ "$key" != MemTotal: ] || say memory-kib "$value"
done </proc/meminfo
# Where the connection came from and led to.
say connection "${1:-}"
if has ip; then
	ip -o addr show scope global 2>/dev/null | while read -r _ device _ address _; do
		say address "$device ${address%%/*}"
	done
else
	for address in $(hostname -I 2>/dev/null); do say address "- $address"; done
fi
