# What would stop the host from working. Given: watched, and all that facts.sh says.
say now "$(date +%s)"
if [ -d /run/systemd/system ]; then say systemd yes; fi
# free_in FOLDER: what is free where it is or will be, and the disk that is on.
free_in() {
	at=$root$1
	while [ -n "$at" ] && [ ! -d "$at" ]; do at=${at%/*}; done
	df -Pk "${at:-/}" 2>/dev/null | tail -n 1 | {
		read -r _ _ _ free _ disk
		printf '%s %s' "$free" "$disk"
	}
}
for folder in /var /opt; do
	found=$(free_in "$folder")
	say disk "$folder ${found%% *}"
	for inside in /var/lib/rancher /var/lib/kubelet /var/lib/capstan /opt/capstan; do
		case $inside in
		"$folder"/*)
			found_inside=$(free_in "$inside")
			[ "${found#* }" = "${found_inside#* }" ] || say disk "$inside ${found_inside%% *}"
			;;
		esac
	done
done
cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | while read -r _ local _ state _; do
	[ "$state" != 0A ] || printf '%s\n' "${local##*:}"
done | sort -u | while read -r port; do say listening "$port"; done
for path in $watched; do
	[ ! -e "$root$path" ] || say left "$path"
done
for claim in "$root/var/lib/capstan-claims"/*; do
	[ ! -d "$claim" ] || say claim "${claim##*/}"
done
case $(stat -f -c %T /sys/fs/cgroup 2>/dev/null) in
cgroup2fs) say cgroup "2 $(cat /sys/fs/cgroup/cgroup.controllers 2>/dev/null)" ;;
*) say cgroup "1 $(cd /sys/fs/cgroup 2>/dev/null && echo *)" ;;
esac
tail -n +2 /proc/swaps 2>/dev/null | while read -r device _; do say swap "$device"; done
for program in flock setsid base64 tar gzip iptables nft curl wget python3 cloud-init; do
	! has "$program" || say program "$program"
done
for module in overlay br_netfilter; do
	if [ -d "/sys/module/$module" ] || modprobe -n -q "$module" 2>/dev/null; then say module "$module"; fi
done
# Built into the kernel they are seen by what they do.
! grep -qw overlay /proc/filesystems 2>/dev/null || say module overlay
[ ! -d /proc/sys/net/bridge ] || say module br_netfilter
